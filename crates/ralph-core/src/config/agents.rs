//! The driver's agents from a config file, as profiles.
//!
//! A repo's file may only name commands, which run only after the user accepted that exact text. Variables and changes
//! to built-in agents belong in the user's own file, because they decide where the keys go.

use super::raw::{Items, Named, RawAgent, RawCommandAgent, RawValue, Spanned};
use crate::clients::list::built_in;
use crate::clients::profile::{Argument, Profile, Value};
use crate::clients::stream::dialect::Dialect;
use crate::config::position::Position;
use crate::model::config_problem::{ConfigProblem, did_you_mean};
use crate::model::foreign_text;

pub(super) fn of_repo(raw: Named<RawCommandAgent>) -> Result<Vec<Profile>, ConfigProblem> {
    let read = |(name, raw): (Spanned<String>, Spanned<RawCommandAgent>)| {
        if built_in_row(&name.value).is_some() {
            let what = format!("`{}` is a built-in agent, which a repo cannot change", name.value);
            return Err(Position::of(&name).problem(what, "rename this one"));
        }
        profile(&name, raw.value.into())
    };
    raw.0.into_iter().map(read).collect()
}

pub(super) fn from_user_file(raw: Named<RawAgent>) -> Result<Vec<Profile>, ConfigProblem> {
    raw.0.into_iter().map(|(name, raw)| profile(&name, raw.value)).collect()
}

/// A command alone is an agent. Without one, the entry modifies a built-in agent named by `base` or by its own name; a
/// command with `base` replaces that agent's program.
fn profile(name: &Spanned<String>, raw: RawAgent) -> Result<Profile, ConfigProblem> {
    check_name(name)?;
    let own_name = || built_in_row(&name.value).filter(|_| raw.command.is_none());
    let row = raw.base.as_ref().map(row_of_base).transpose()?.or_else(own_name);
    let mut profile = match (row, raw.command.as_ref().map(command).transpose()?) {
        (None, Some((program, arguments))) => {
            Profile::of_command(&name.value, &program, arguments, Dialect::Plain, None)
        }
        (Some(row), None) => row,
        (Some(row), Some((program, before))) => {
            let before = before.into_iter().map(Argument::Literal);
            Profile { program, arguments: before.chain(row.arguments).collect(), ..row }
        }
        (None, None) => {
            let hint =
                format!("give it a `command:` or a `base:`; built-in agents are {}", names().join(", "));
            let what = format!("the agent `{}` has no command", name.value);
            return Err(Position::of(name).problem(what, hint));
        }
    };
    profile.name.clone_from(&name.value);
    if let Some(word) = &raw.dialect {
        profile.dialect = dialect(word)?;
    }
    if let Some(most) = raw.max_iterations {
        profile.max_iterations = at_least_one(&most)?;
    }
    if let Some(name) = raw.model {
        profile.model = Some(model(&name, &profile)?);
    }
    for (variable, value) in raw.environment.unwrap_or_default().0 {
        set(&mut profile.environment, variable, value)?;
    }
    Ok(profile)
}

fn built_in_row(name: &str) -> Option<Profile> {
    built_in().into_iter().find(|row| row.name == name)
}

fn names() -> Vec<String> {
    built_in().into_iter().map(|row| row.name).collect()
}

fn row_of_base(base: &Spanned<String>) -> Result<Profile, ConfigProblem> {
    built_in_row(&base.value).ok_or_else(|| {
        let names = names();
        let hint = did_you_mean(&base.value, names.iter().map(String::as_str), &names.join(", "));
        Position::of(base).problem(format!("`base`: unknown built-in agent `{}`", shown(&base.value)), hint)
    })
}

/// The name is used with `--agent` and in file names, so it must be a plain word.
fn check_name(name: &Spanned<String>) -> Result<(), ConfigProblem> {
    const LONGEST: usize = 60;
    let text = name.value.as_str();
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if is_plain && text.len() <= LONGEST {
        return Ok(());
    }
    let hint = format!("up to {LONGEST} letters, digits, `-`, `_` and `.`");
    Err(Position::of(name).problem(format!("`{}` is not a valid agent name", shown(text)), hint))
}

/// A list runs without a shell; a single text runs in the shell, like `--agent command:`.
fn command(entry: &Spanned<Items<String>>) -> Result<(String, Vec<String>), ConfigProblem> {
    let place = Position::of(entry);
    let words: Vec<&str> = match &entry.value {
        Items::One(text) => vec!["sh", "-c", text],
        Items::Many(words) => words.iter().map(|word| word.value.as_str()).collect(),
    };
    // The user must see exactly what they accept.
    if words.iter().any(|word| foreign_text::deceives(word)) {
        let hint = "remove escapes, control characters and bidirectional overrides";
        return Err(place.problem("a hidden or control character", hint));
    }
    let is_empty = match &entry.value {
        Items::One(text) => text.trim().is_empty(),
        Items::Many(words) => words.first().is_none_or(|program| program.value.trim().is_empty()),
    };
    match words.split_first() {
        Some((program, arguments)) if !is_empty => {
            Ok(((*program).to_owned(), arguments.iter().map(|word| (*word).to_owned()).collect()))
        }
        _ => {
            Err(place
                .problem("an agent without a command", "write it like `[\"./agent.sh\", \"--headless\"]`"))
        }
    }
}

fn dialect(word: &Spanned<String>) -> Result<Dialect, ConfigProblem> {
    Dialect::ALL.into_iter().find(|dialect| dialect.name() == word.value).ok_or_else(|| {
        let names = Dialect::ALL.map(Dialect::name);
        let hint = did_you_mean(&word.value, names.into_iter(), &names.join(", "));
        Position::of(word).problem(format!("unknown dialect `{}`", shown(&word.value)), hint)
    })
}

fn at_least_one(most: &Spanned<u32>) -> Result<u32, ConfigProblem> {
    match most.value {
        0 => Err(Position::of(most).problem("`max_iterations: 0` would never run the agent", "at least 1")),
        most => Ok(most),
    }
}

fn model(name: &Spanned<String>, profile: &Profile) -> Result<String, ConfigProblem> {
    let text = name.value.trim();
    let place = Position::of(name);
    if profile.model_flag.is_none() {
        return Err(place.problem("`model`: this agent takes no model", "make it part of the `command`"));
    }
    if text.is_empty() || text.starts_with('-') || foreign_text::deceives(text) {
        return Err(
            place.problem("`model`: not a valid model name", "leave it out to use the client's default")
        );
    }
    Ok(text.to_owned())
}

/// Sets a variable, replacing the profile's entry.
fn set(
    environment: &mut Vec<(String, Value)>,
    variable: Spanned<String>,
    value: Spanned<RawValue>,
) -> Result<(), ConfigProblem> {
    check_variable(&variable.value, Position::of(&variable))?;
    let place = Position::of(&value);
    let value = match value.value {
        RawValue::Nothing => Value::Unset,
        RawValue::NotText => return Err(place.problem("a variable must be a string", "put it in quotes")),
        RawValue::Text(text) if text.contains('\0') => {
            return Err(place.problem("a variable cannot contain a zero byte", "remove the zero byte"));
        }
        RawValue::Text(text) => Value::Literal(text),
        RawValue::From(other) => {
            check_variable(&other, place)?;
            Value::From(other)
        }
    };
    match environment.iter_mut().find(|(name, _)| *name == variable.value) {
        Some(row) => row.1 = value,
        None => environment.push((variable.value, value)),
    }
    Ok(())
}

fn check_variable(name: &str, place: Position) -> Result<(), ConfigProblem> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_name {
        return Ok(());
    }
    Err(place
        .problem(format!("`{}` is not a valid variable name", shown(name)), "write it like `MY_API_KEY`"))
}

/// A shortened invalid value for error messages.
fn shown(text: &str) -> String {
    foreign_text::without_escapes(text).chars().take(60).collect()
}

#[cfg(test)]
mod tests;
