//! The arguments of `/ralph-loop` and `ralph start`, one grammar for both.
//!
//! A slash command gives one line as typed, which must never reach a shell ([`read`]); a program gives words already
//! split by a shell ([`parse`]). Nothing is expanded: a task is text.

mod pasted;

use std::borrow::Cow;
use std::iter::Peekable;
use std::slice;

use crate::claims::start_request::pasted::Gap;
use crate::model::budget::Attempts;
use crate::model::config_problem::did_you_mean;
use crate::model::evidence::RequiredProof;
use crate::model::foreign_text;
use crate::model::ship::Until;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartRequest {
    /// None only if a task list is given.
    pub task: Option<String>,
    /// One line, white space collapsed.
    pub promise: Option<String>,
    pub max_iterations: Option<Attempts>,
    pub list: Option<ListWanted>,
    /// Only with an OpenSpec change.
    pub archive: bool,
    pub replace: bool,
    /// In rounds, led by one agent that calls others.
    pub iterates: bool,
    pub lang: Option<String>,
    /// Where it ends; none means what its promise implies.
    pub until: Option<Until>,
    /// None: the level is shown and nothing is asked.
    pub proof: Option<RequiredProof>,
}

impl StartRequest {
    /// Where it ends: as asked for, otherwise what its promise implies.
    pub fn goal_beyond_gates(&self) -> Until {
        let implied = || self.promise.as_deref().and_then(Until::implied_by);
        self.until.or_else(implied).unwrap_or_default()
    }
}

/// The task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWanted {
    /// That change, or the only existing one.
    OpenSpec {
        change: Option<String>,
    },
    File(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({hint})")]
pub struct UsageError {
    pub what: String,
    pub hint: String,
}

/// In characters. Longer tasks belong in a file.
const LONGEST_TASK: usize = 20_000;

/// In characters. A promise is a short line that the agent repeats.
const LONGEST_VALUE: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Promise,
    MaxIterations,
    OpenSpec,
    Tasks,
    Until,
    Archive,
    Replace,
    Lang,
    Proof,
}

/// Every flag with an example.
const FLAGS: [(&str, Flag, &str); 10] = [
    ("--completion-promise", Flag::Promise, "--completion-promise \"ALL DONE\""),
    ("--promise", Flag::Promise, "--promise \"ALL DONE\""),
    ("--max-iterations", Flag::MaxIterations, "--max-iterations 20"),
    ("--openspec", Flag::OpenSpec, "--openspec add-login"),
    ("--tasks", Flag::Tasks, "--tasks docs/tasks.md"),
    ("--until", Flag::Until, "--until pr"),
    ("--archive", Flag::Archive, "--archive"),
    ("--replace", Flag::Replace, "--replace"),
    ("--lang", Flag::Lang, "--lang zh-TW"),
    ("--proof", Flag::Proof, "--proof test"),
];

/// Parses the line of a slash command. A task in quotes is unquoted; any other keeps its line breaks and quotes,
/// because lists and code depend on them.
pub fn read(line: &str) -> Result<StartRequest, UsageError> {
    Reading::of(&words_of(line))
}

/// Parses words from a shell or [`split`]. The task's words are joined by one space.
pub fn parse(words: &[String]) -> Result<StartRequest, UsageError> {
    let words: Vec<Word<'_>> = words
        .iter()
        .map(|word| Word { text: Cow::Borrowed(word), typed: word, before: " ".into() })
        .collect();
    Reading::of(&words)
}

/// A line to words, as a shell would read it where a document has it in a code block. A quote opens only at the start of a
/// word or after `=`, and only where its counterpart closes it right before white space or the end; any other is a letter
/// like others, as in `don't stop`.
pub fn split(line: &str) -> Vec<String> {
    words_of(line).into_iter().map(|word| word.text.into_owned()).collect()
}

struct Word<'a> {
    /// Without its enclosing quotes.
    text: Cow<'a, str>,
    typed: &'a str,
    /// The white space that it was typed after.
    before: Cow<'a, str>,
}

fn words_of(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut quotes = Quotes { line, never_closed: Vec::new() };
    let mut at = 0;
    let mut place = Place::InTask;
    loop {
        let Gap { end: start, space } = Gap::at(line, at, place != Place::InTask);
        if start == line.len() {
            return words;
        }
        let (text, end) = quotes.word_at(start);
        place = place.after(&text);
        words.push(Word { text: Cow::Owned(text), typed: &line[start..end], before: Cow::Owned(space) });
        at = end;
    }
}

/// Where the next word stands: a comment may follow an option, and not the words of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    InTask,
    /// A value must come.
    BeforeValue,
    /// A value may come.
    BeforeValueIfAny,
    AfterOption,
}

impl Place {
    fn after(self, word: &str) -> Self {
        let flag =
            as_flag(word).map(|(name, value)| (FLAGS.iter().find(|(known, ..)| *known == name), value));
        match (flag, self) {
            (Some((Some((_, Flag::Archive | Flag::Replace, _)), _) | (Some(_), Some(_))), _) => {
                Self::AfterOption
            }
            (Some((Some((_, Flag::OpenSpec, _)), None)), _) => Self::BeforeValueIfAny,
            (Some((Some(_), None)), _) => Self::BeforeValue,
            (None, Self::BeforeValue) => Self::AfterOption,
            (None, Self::BeforeValueIfAny) if !word.contains(char::is_whitespace) => Self::AfterOption,
            (Some((None, _)) | None, _) => Self::InTask,
        }
    }
}

struct Quotes<'a> {
    line: &'a str,
    /// Quotes that are not closed from here on, cached to avoid quadratic time.
    never_closed: Vec<char>,
}

impl Quotes<'_> {
    /// The word at a position and its end.
    fn word_at(&mut self, start: usize) -> (String, usize) {
        if let Some(quoted) = self.quoted_at(start) {
            return quoted;
        }
        let line = self.line;
        let mut text = String::new();
        let mut end = start;
        for c in line[start..].chars().take_while(|c| !c.is_whitespace()) {
            if end > start && pasted::continuation(&line[end..]).is_some() {
                break;
            }
            text.push(c);
            end += c.len_utf8();
            if c == '='
                && let Some((inside, end)) = self.quoted_at(end)
            {
                return (text + &inside, end);
            }
        }
        (text, end)
    }

    /// The text inside the quotes at a position and their end; none if there are no closed quotes.
    fn quoted_at(&mut self, start: usize) -> Option<(String, usize)> {
        let quote = self.line[start..].chars().next()?;
        let closing = pasted::closing(quote)?;
        if self.never_closed.contains(&quote) {
            return None;
        }
        let first = start + quote.len_utf8();
        let inside = &self.line[first..];
        let is_end = |rest: &str| {
            rest.chars().next().is_none_or(char::is_whitespace) || pasted::continuation(rest).is_some()
        };
        let mut text = String::new();
        let mut chars = inside.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let escaped = chars.peek().map(|(_, next)| *next).filter(|next| matches!(next, '"' | '\\'));
            match escaped {
                Some(next) if c == '\\' && quote == '"' => {
                    text.push(next);
                    chars.next();
                }
                _ if closing.contains(&c) && is_end(&inside[at + c.len_utf8()..]) => {
                    return Some((text, first + at + c.len_utf8()));
                }
                _ => text.push(c),
            }
        }
        self.never_closed.push(quote);
        None
    }
}

/// A request being parsed.
struct Reading<'a> {
    rest: Peekable<slice::Iter<'a, Word<'a>>>,
    request: StartRequest,
    task: Vec<&'a Word<'a>>,
    given: Vec<Flag>,
}

impl<'a> Reading<'a> {
    fn of(words: &'a [Word<'a>]) -> Result<StartRequest, UsageError> {
        let mut reading = Self {
            rest: words.iter().peekable(),
            request: StartRequest::default(),
            task: Vec::new(),
            given: Vec::new(),
        };
        while let Some(word) = reading.rest.next() {
            if word.text == "--" {
                reading.task.extend(reading.rest.by_ref());
            } else if let Some((name, value)) = as_flag(&word.text) {
                reading.flag(name, value)?;
            } else {
                reading.task.push(word);
            }
        }
        reading.finish()
    }

    fn flag(&mut self, name: &str, value: Option<&'a str>) -> Result<(), UsageError> {
        let Some(&(name, flag, example)) = FLAGS.iter().find(|(known, ..)| *known == name) else {
            return Err(unknown(name));
        };
        if self.given.contains(&flag) {
            return Err(usage(format!("`{name}` is given twice"), "leave one of them out"));
        }
        if let Some(other) = self.list_beside(flag) {
            return Err(usage(
                format!("`{name}` and `{other}` both name a task list"),
                "a loop has one task list: leave one of them out",
            ));
        }
        self.given.push(flag);
        match flag {
            Flag::Archive => self.request.archive = no_value(name, value)?,
            Flag::Replace => self.request.replace = no_value(name, value)?,
            Flag::OpenSpec => {
                let change =
                    self.value_if_any(value).map(|text| one_line(name, text, example)).transpose()?;
                self.request.list = Some(ListWanted::OpenSpec { change });
            }
            Flag::Tasks => {
                self.request.list = Some(ListWanted::File(one_line(name, self.value(value), example)?));
            }
            Flag::Proof => {
                let word = one_line(name, self.value(value), example)?;
                let proof = word
                    .parse()
                    .map_err(|hint: String| usage(format!("unknown proof `{}`", shown(&word)), hint))?;
                self.request.proof = Some(proof);
            }
            Flag::Lang => self.request.lang = Some(language(&one_line(name, self.value(value), example)?)?),
            Flag::Promise => self.request.promise = Some(promise(name, self.value(value), example)?),
            Flag::MaxIterations => {
                self.request.max_iterations = Some(iterations(&one_line(name, self.value(value), example)?)?);
            }
            Flag::Until => {
                let text = one_line(name, self.value(value), example)?;
                let until = text.parse().map_err(|hint: String| {
                    usage(format!("unknown value `--until {}`", shown(&text)), hint)
                })?;
                self.request.until = Some(until);
            }
        }
        Ok(())
    }

    /// The earlier flag that also names a list, if any.
    fn list_beside(&self, flag: Flag) -> Option<&'static str> {
        match (flag, &self.request.list) {
            (Flag::Tasks, Some(_)) => Some("--openspec"),
            (Flag::OpenSpec, Some(_)) => Some("--tasks"),
            _ => None,
        }
    }

    /// The value after `=`, otherwise the next word unless it is a flag; empty if neither exists.
    fn value(&mut self, after_equals: Option<&'a str>) -> &'a str {
        let next = |reading: &mut Self| {
            let word = reading.rest.next_if(|word| word.text != "--" && as_flag(&word.text).is_none())?;
            Some(&*word.text)
        };
        after_equals.or_else(|| next(self)).unwrap_or_default()
    }

    /// The same for an optional value: a word with white space is the task, because names have none.
    fn value_if_any(&mut self, after_equals: Option<&'a str>) -> Option<&'a str> {
        let is_name = |word: &&Word<'_>| !word.text.is_empty() && !word.text.contains(char::is_whitespace);
        match after_equals {
            Some(value) => Some(value),
            None => self.rest.peek().is_some_and(is_name).then(|| self.value(None)).filter(|v| !v.is_empty()),
        }
    }

    fn finish(self) -> Result<StartRequest, UsageError> {
        let task = task_text(&self.task)?;
        let request = StartRequest { task, ..self.request };
        if request.archive && !matches!(request.list, Some(ListWanted::OpenSpec { .. })) {
            return Err(usage(
                "`--archive` requires `--openspec`",
                "a change is archived when all its tasks are done",
            ));
        }
        if request.task.is_none() && request.list.is_none() {
            return Err(usage(
                "the task is missing",
                "describe the task, for example \"fix the login test\" --completion-promise DONE --max-iterations 20; \
                 or name a list of tasks with `--openspec` or `--tasks FILE`",
            ));
        }
        Ok(request)
    }
}

/// The flag's name and the value after its `=`. Dashes in prose are not flags: `--` alone, `-->` and text with white
/// space before any `=`. Some keyboards turn two dashes into one long dash.
fn as_flag(word: &str) -> Option<(&str, Option<&str>)> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let bare = name.strip_prefix("--");
    let autocorrected = || {
        let bare = name.strip_prefix(['—', '–'])?;
        FLAGS.iter().any(|(known, ..)| known.strip_prefix("--") == Some(bare)).then_some(bare)
    };
    let bare = bare.or_else(autocorrected)?;
    let is_name = bare.starts_with(|c: char| c.is_ascii_alphabetic()) && !bare.contains(char::is_whitespace);
    is_name.then_some((name, value))
}

fn usage(what: impl Into<String>, hint: impl Into<String>) -> UsageError {
    UsageError { what: what.into(), hint: hint.into() }
}

fn unknown(name: &str) -> UsageError {
    let known = FLAGS.map(|(known, ..)| format!("`{known}`")).join(", ");
    let nearest = did_you_mean(name, FLAGS.iter().map(|(known, ..)| *known), &known);
    let hint = format!("{nearest}; if it belongs to the task, put the task in quotes or after `--`");
    usage(format!("unknown flag `{}`", shown(name)), hint)
}

/// User input for an error message: cleaned and shortened.
fn shown(text: &str) -> String {
    foreign_text::without_escapes(text).chars().take(60).collect()
}

fn no_value(name: &str, value: Option<&str>) -> Result<bool, UsageError> {
    match value {
        None => Ok(true),
        Some(value) => Err(usage(
            format!("`{name}` takes no value, but got `{}`", shown(value)),
            format!("write `{name}` alone"),
        )),
    }
}

/// A value that is a name, a number or a path: one line without hidden characters.
fn one_line(name: &str, text: &str, example: &str) -> Result<String, UsageError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(usage(format!("`{name}` needs a value"), format!("for example `{example}`")));
    }
    if foreign_text::deceives(text) || text.contains(['\n', '\t']) {
        return Err(usage(
            format!("the value of `{name}` contains control or hidden characters: `{}`", shown(text)),
            format!("type it by hand, for example `{example}`"),
        ));
    }
    if text.chars().count() > LONGEST_VALUE {
        return Err(usage(
            format!("the value of `{name}` is longer than {LONGEST_VALUE} characters"),
            format!("for example `{example}`"),
        ));
    }
    Ok(text.to_owned())
}

/// Stored with white space collapsed, because it is matched on one line.
fn promise(name: &str, text: &str, example: &str) -> Result<String, UsageError> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(usage(
            format!("`{name}` needs a text"),
            format!("for example `{example}`; a text that begins with `--` goes after `=`"),
        ));
    }
    let line = one_line(name, &line, example)?;
    if line.contains("<promise>") || line.contains("</promise>") {
        return Err(usage(
            format!("the text of `{name}` contains the tags"),
            format!("give the text alone, for example `{example}`; the agent adds the tags"),
        ));
    }
    Ok(line)
}

fn iterations(text: &str) -> Result<Attempts, UsageError> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(0) if digits => Ok(Attempts::Unlimited),
        Ok(most) if digits => Ok(Attempts::AtMost(most)),
        _ => Err(usage(
            format!("`--max-iterations {}` is not a number of iterations", shown(text)),
            format!(
                "give a whole number up to {}, for example `--max-iterations 20`; 0 means unlimited",
                u32::MAX
            ),
        )),
    }
}

fn language(tag: &str) -> Result<String, UsageError> {
    if tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Ok(tag.to_owned());
    }
    Err(usage(format!("`--lang {}` is not a language", shown(tag)), "there are: en, zh-TW, zh-CN, es"))
}

/// The task without escapes and hidden characters, which pasted text may contain.
fn task_text(words: &[&Word<'_>]) -> Result<Option<String>, UsageError> {
    let typed = match words {
        [] => return Ok(None),
        [only] => only.text.clone().into_owned(),
        [first, rest @ ..] => {
            rest.iter().fold(first.typed.to_owned(), |text, word| text + &word.before + word.typed)
        }
    };
    // A lone carriage return is an old line break; on a terminal it would overwrite the line.
    let unix = typed.replace("\r\n", "\n").replace('\r', "\n");
    let task = foreign_text::without_escapes(&unix).trim().to_owned();
    if task.chars().count() > LONGEST_TASK {
        return Err(usage(
            format!("the task is longer than {LONGEST_TASK} characters"),
            "write it to a file and say \"do what FILE says\"",
        ));
    }
    Ok(Some(task).filter(|task| !task.is_empty()))
}

#[cfg(test)]
mod tests;
