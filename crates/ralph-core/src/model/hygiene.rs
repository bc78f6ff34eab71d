//! A quick look at what was added, before any gate is run: things that nobody means to leave behind. It is no gate and
//! makes no receipt; it holds a teammate for a moment, with the file and the line.
//!
//! Only lines that were added count: what was there before is nobody's fault today. A line is looked at by itself, so this
//! finds what is plain and lets pass what would take a parser to see.

use std::fmt;

use serde::{Deserialize, Serialize};

pub mod added;

/// Something that was left behind.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaw {
    pub file: String,
    /// From 1; none where it is about the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub what: FlawKind,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FlawKind {
    /// It stops a program, or prints what only its writer wants to see.
    DebuggerStatement {
        text: String,
    },
    /// Something that says itself that it is not there yet.
    Placeholder {
        text: String,
    },
    PrivateKey,
    /// What a merge leaves where two changes meet.
    ConflictMarker,
    /// The file's own language cannot read it.
    Unparsable {
        why: String,
    },
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.what {
            FlawKind::DebuggerStatement { text } => write!(f, ": a debugger statement (`{text}`)"),
            FlawKind::Placeholder { text } => write!(f, ": a placeholder (`{text}`)"),
            FlawKind::PrivateKey => f.write_str(": a private key"),
            FlawKind::ConflictMarker => f.write_str(": a conflict marker of a merge"),
            FlawKind::Unparsable { why } => write!(f, ": it cannot be parsed ({why})"),
        }
    }
}

/// How many are told; nobody mends more at once.
pub const MOST_FLAWS: usize = 20;

/// What stands in one added line, if it is something to be told.
pub fn look(file: &str, number: u32, line: &str) -> Option<Flaw> {
    // A line that is longer than a screen was not written by hand.
    const LONGEST_LINE: usize = 2_000;
    if line.len() > LONGEST_LINE {
        return None;
    }
    let code = Language::of(file);
    let found = |what| Some(Flaw { file: file.to_owned(), line: Some(number), what });
    if is_private_key(line) {
        return found(FlawKind::PrivateKey);
    }
    if is_conflict_marker(line) {
        return found(FlawKind::ConflictMarker);
    }
    let statement = line.trim();
    if code.is_debugger(statement) {
        return found(FlawKind::DebuggerStatement { text: shown(statement) });
    }
    if code.is_placeholder(statement) {
        return found(FlawKind::Placeholder { text: shown(statement) });
    }
    None
}

fn shown(statement: &str) -> String {
    const MOST: usize = 80;
    let line = crate::model::foreign_text::without_escapes(statement);
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST - 1).chain(['…']).collect() }
}

fn is_private_key(line: &str) -> bool {
    // Apart, so that this very file holds none.
    line.find("-----BEGIN ").is_some_and(|at| {
        let label = &line[at + "-----BEGIN ".len()..];
        let end = label.find("-----").unwrap_or(0);
        label[..end].trim_end_matches(" BLOCK").ends_with("PRIVATE KEY")
    })
}

/// Seven of a kind at the beginning of a line, and a word or nothing after them. Seven `=` alone underline a heading.
fn is_conflict_marker(line: &str) -> bool {
    ["<<<<<<<", ">>>>>>>"]
        .iter()
        .any(|marker| line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

/// As far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    JavaScript,
    Python,
    Ruby,
    Rust,
    Php,
    CSharp,
    Elixir,
    Jvm,
    Go,
    C,
    Shell,
    /// Prose, data, or something unknown: nothing in it is a statement.
    Other,
}

impl Language {
    fn of(file: &str) -> Self {
        let name = file.rsplit('/').next().unwrap_or(file);
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" | "vue" | "svelte") => {
                Self::JavaScript
            }
            Some("py" | "pyi") => Self::Python,
            Some("rb" | "rake") => Self::Ruby,
            Some("rs") => Self::Rust,
            Some("php") => Self::Php,
            Some("cs") => Self::CSharp,
            Some("ex" | "exs") => Self::Elixir,
            Some("java" | "kt" | "kts" | "scala" | "groovy") => Self::Jvm,
            Some("go") => Self::Go,
            Some("c" | "h" | "cc" | "cpp" | "hpp" | "swift" | "dart" | "zig") => Self::C,
            Some("sh" | "bash" | "zsh") => Self::Shell,
            _ => Self::Other,
        }
    }

    fn is_debugger(self, statement: &str) -> bool {
        let begins = |words: &[&str]| words.iter().any(|word| statement.starts_with(word));
        match self {
            Self::JavaScript => {
                statement.strip_prefix("debugger").is_some_and(|rest| matches!(rest.trim(), "" | ";"))
            }
            Self::Python => {
                let calls = ["breakpoint()", "pdb.set_trace()", "ipdb.set_trace()", "pudb.set_trace()"];
                let imports = ["import pdb", "import ipdb", "import pudb", "from pdb import"];
                begins(&calls) || begins(&imports)
            }
            Self::Ruby => begins(&["binding.pry", "binding.irb", "byebug"]),
            Self::Rust => has_call(statement, "dbg!") && !begins(&["//", "\"", "macro_rules!"]),
            Self::Php => begins(&["xdebug_break(", "dd("]),
            Self::CSharp => begins(&["Debugger.Break(", "System.Diagnostics.Debugger.Break("]),
            Self::Elixir => begins(&["IEx.pry", "require IEx; IEx.pry"]),
            Self::Jvm | Self::Go | Self::C | Self::Shell | Self::Other => false,
        }
    }

    fn is_placeholder(self, statement: &str) -> bool {
        if self == Self::Other {
            return false;
        }
        let says_so = match self {
            Self::Rust => ["todo!", "unimplemented!"].iter().any(|call| has_call(statement, call)),
            Self::JavaScript => {
                statement.starts_with("throw new Error(") && has_words(statement, &["not implemented"])
            }
            Self::Go => statement.starts_with("panic(") && has_words(statement, &["not implemented", "todo"]),
            _ => false,
        };
        says_so || self.comment(statement).is_some_and(is_promise_of_more)
    }

    /// What a line says that is a comment and nothing else.
    fn comment(self, statement: &str) -> Option<&str> {
        let marks: &[&str] = match self {
            Self::Python | Self::Ruby | Self::Elixir | Self::Shell => &["#"],
            Self::Php => &["//", "#", "/*", "*"],
            _ => &["//", "/*", "*"],
        };
        marks.iter().find_map(|mark| statement.strip_prefix(mark)).map(str::trim)
    }
}

/// A call by a name that is not the end of a longer one.
fn has_call(statement: &str, name: &str) -> bool {
    statement.match_indices(name).any(|(at, _)| {
        let before = statement[..at].chars().next_back();
        let is_whole = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '"' && c != '`');
        is_whole && statement[at + name.len()..].starts_with('(')
    })
}

fn has_words(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// A comment that stands where code should.
fn is_promise_of_more(comment: &str) -> bool {
    const PHRASES: [&str; 12] = [
        "todo: implement",
        "todo implement",
        "implement me",
        "implement this",
        "your code here",
        "rest of the code",
        "rest of code",
        "rest of the implementation",
        "existing code",
        "implementation goes here",
        "add implementation",
        "placeholder implementation",
    ];
    let text = comment.to_ascii_lowercase();
    let stands_for_code = ["existing code", "rest of"];
    PHRASES.iter().any(|phrase| {
        // "… existing code …" between dots stands for code; in a sentence it is only spoken of.
        let needs_dots = stands_for_code.iter().any(|words| phrase.starts_with(words));
        text.contains(phrase) && (!needs_dots || text.starts_with("...") || text.starts_with('…'))
    })
}

#[cfg(test)]
mod tests;
