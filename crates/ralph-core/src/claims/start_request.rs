//! What a person asks for when starting a loop: the words of `/ralph-loop` and of `ralph start`, one grammar for both.
//!
//! A slash command gives one line as it was typed, which no shell may ever see ([`read`]); a program gives words that a
//! shell has split already ([`parse`]). Nothing in either is ever expanded: a task is text.

use std::borrow::Cow;
use std::iter::Peekable;
use std::slice;

use crate::model::budget::Attempts;
use crate::model::foreign_text;
use crate::model::problem::did_you_mean;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartRequest {
    /// None only where a list says what to do.
    pub task: Option<String>,
    /// On one line, white space collapsed.
    pub promise: Option<String>,
    pub max_iterations: Option<Attempts>,
    pub list: Option<ListWanted>,
    /// Only with an OpenSpec change.
    pub archive: bool,
    pub replace: bool,
    pub lang: Option<String>,
}

/// The list of tasks to be worked off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWanted {
    /// That change, or the only one there is.
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

/// In characters. What is longer belongs in a file that the task names.
const LONGEST_TASK: usize = 20_000;

/// In characters. A promise is a line that an agent repeats to the letter.
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
}

/// Every flag, and how it is used.
const FLAGS: [(&str, Flag, &str); 9] = [
    ("--completion-promise", Flag::Promise, "--completion-promise \"ALL DONE\""),
    ("--promise", Flag::Promise, "--promise \"ALL DONE\""),
    ("--max-iterations", Flag::MaxIterations, "--max-iterations 20"),
    ("--openspec", Flag::OpenSpec, "--openspec add-login"),
    ("--tasks", Flag::Tasks, "--tasks docs/tasks.md"),
    ("--until", Flag::Until, "--until pr"),
    ("--archive", Flag::Archive, "--archive"),
    ("--replace", Flag::Replace, "--replace"),
    ("--lang", Flag::Lang, "--lang zh-TW"),
];

/// The line of a slash command. A task that is one quoted word is what is inside the quotes; any other keeps its line
/// breaks and quotes as they were typed, for its lists and its code mean something.
pub fn read(line: &str) -> Result<StartRequest, UsageError> {
    Reading::of(&words_of(line))
}

/// Words that a shell, or [`split`], has made. Those of the task are joined by one space.
pub fn parse(words: &[String]) -> Result<StartRequest, UsageError> {
    let words: Vec<Word<'_>> =
        words.iter().map(|word| Word { text: Cow::Borrowed(word), typed: word, before: " " }).collect();
    Reading::of(&words)
}

/// A line to words. A quote opens only at the start of a word or after `=`, and only where the same one closes it right
/// before white space or the end; any other is a letter like others, as in `don't stop`.
pub fn split(line: &str) -> Vec<String> {
    words_of(line).into_iter().map(|word| word.text.into_owned()).collect()
}

struct Word<'a> {
    /// Without the quotes that made it one word.
    text: Cow<'a, str>,
    typed: &'a str,
    /// The white space that it was typed after.
    before: &'a str,
}

fn words_of(line: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut quotes = Quotes { line, never_closed: Vec::new() };
    let mut at = 0;
    loop {
        let rest = &line[at..];
        let start = at + (rest.len() - rest.trim_start().len());
        if start == line.len() {
            return words;
        }
        let (text, end) = quotes.word_at(start);
        words.push(Word { text: Cow::Owned(text), typed: &line[start..end], before: &line[at..start] });
        at = end;
    }
}

struct Quotes<'a> {
    line: &'a str,
    /// Quotes that nothing closes from here on. Looking again for each word would cost the square of a long text.
    never_closed: Vec<char>,
}

impl Quotes<'_> {
    /// The word that starts there, and where it ends.
    fn word_at(&mut self, start: usize) -> (String, usize) {
        if let Some(quoted) = self.quoted_at(start) {
            return quoted;
        }
        let line = self.line;
        let mut text = String::new();
        let mut end = start;
        for c in line[start..].chars().take_while(|c| !c.is_whitespace()) {
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

    /// What is inside the quotes that open there, and where they end; none where none open, or where they never close.
    fn quoted_at(&mut self, start: usize) -> Option<(String, usize)> {
        let quote = self.line[start..].chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        if self.never_closed.contains(&quote) {
            return None;
        }
        let inside = &self.line[start + 1..];
        let mut text = String::new();
        let mut chars = inside.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let escaped = chars.peek().map(|(_, next)| *next).filter(|next| matches!(next, '"' | '\\'));
            match escaped {
                Some(next) if c == '\\' && quote == '"' => {
                    text.push(next);
                    chars.next();
                }
                _ if c == quote && chars.peek().is_none_or(|(_, next)| next.is_whitespace()) => {
                    return Some((text, start + 1 + at + 1));
                }
                _ => text.push(c),
            }
        }
        self.never_closed.push(quote);
        None
    }
}

/// A request as far as its words have been read.
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
                format!("`{name}` and `{other}` are two lists of tasks"),
                "one loop works off one of them: leave the other out",
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
            Flag::Lang => self.request.lang = Some(language(&one_line(name, self.value(value), example)?)?),
            Flag::Promise => self.request.promise = Some(promise(name, self.value(value), example)?),
            Flag::MaxIterations => {
                self.request.max_iterations = Some(iterations(&one_line(name, self.value(value), example)?)?);
            }
            Flag::Until => return Err(not_yet(&one_line(name, self.value(value), example)?)),
        }
        Ok(())
    }

    /// The other flag that names a list, where one was given before this one.
    fn list_beside(&self, flag: Flag) -> Option<&'static str> {
        match (flag, &self.request.list) {
            (Flag::Tasks, Some(_)) => Some("--openspec"),
            (Flag::OpenSpec, Some(_)) => Some("--tasks"),
            _ => None,
        }
    }

    /// What stands after `=`, else the next word unless that is a flag; nothing where neither is there.
    fn value(&mut self, after_equals: Option<&'a str>) -> &'a str {
        let next = |reading: &mut Self| {
            let word = reading.rest.next_if(|word| word.text != "--" && as_flag(&word.text).is_none())?;
            Some(&*word.text)
        };
        after_equals.or_else(|| next(self)).unwrap_or_default()
    }

    /// The same for a flag that may stand alone: a word with white space in it is the task, for no name has any.
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
                "`--archive` has nothing to archive",
                "it goes with `--openspec`: a change is archived when all its tasks are done",
            ));
        }
        if request.task.is_none() && request.list.is_none() {
            return Err(usage(
                "there is no task",
                "say what is to be done, for example \"fix the login test\" --completion-promise DONE --max-iterations 20; \
                 or name a list of tasks with `--openspec` or `--tasks FILE`",
            ));
        }
        Ok(request)
    }
}

/// The flag's name, and what stands after its `=`. Prose has dashes of its own: `--` alone, `-->` and text with white space
/// before any `=` are no flags. One long dash is what some keyboards make of two.
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

/// Somebody's words inside a message of ours: without escapes, not too long.
fn shown(text: &str) -> String {
    foreign_text::without_escapes(text).chars().take(60).collect()
}

fn no_value(name: &str, value: Option<&str>) -> Result<bool, UsageError> {
    match value {
        None => Ok(true),
        Some(value) => Err(usage(
            format!("`{name}` takes no value, and has `{}`", shown(value)),
            format!("write `{name}` alone"),
        )),
    }
}

/// A value that is a name, a number or a path: some text on one line that shows as what it is.
fn one_line(name: &str, text: &str, example: &str) -> Result<String, UsageError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(usage(format!("`{name}` needs a value"), format!("for example `{example}`")));
    }
    if foreign_text::deceives(text) || text.contains(['\n', '\t']) {
        return Err(usage(
            format!("the value of `{name}` has control characters or hidden ones: `{}`", shown(text)),
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

/// It is looked for on one line of a message, with white space collapsed, so that is how it is kept.
fn promise(name: &str, text: &str, example: &str) -> Result<String, UsageError> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return Err(usage(
            format!("`{name}` needs the text of the promise"),
            format!("for example `{example}`; a text that begins with `--` goes after `=`"),
        ));
    }
    let line = one_line(name, &line, example)?;
    if line.contains("<promise>") || line.contains("</promise>") {
        return Err(usage(
            format!("the text of `{name}` has the tags in it"),
            format!("give the text alone, for example `{example}`; the agent is told to put it in tags"),
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
                "give a whole number up to {}, for example `--max-iterations 20`; 0 is without limit",
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

fn not_yet(until: &str) -> UsageError {
    match until {
        "pr" | "merged" => usage(
            format!("`--until {until}` comes with a later version"),
            "leave it out: the loop ends by its promise, its list of tasks and its gates",
        ),
        other => usage(
            format!("`--until {}` is not known", shown(other)),
            "it will take `pr` or `merged`, with a later version; leave it out",
        ),
    }
}

/// The task, without escapes and hidden characters, which a paste may bring along unseen.
fn task_text(words: &[&Word<'_>]) -> Result<Option<String>, UsageError> {
    let typed = match words {
        [] => return Ok(None),
        [only] => only.text.clone().into_owned(),
        [first, rest @ ..] => {
            rest.iter().fold(first.typed.to_owned(), |text, word| text + word.before + word.typed)
        }
    };
    // A lone carriage return is a line break of old; on a terminal it would mean that the line is written over.
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
