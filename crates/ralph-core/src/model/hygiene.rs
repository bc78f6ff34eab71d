//! A quick check of added lines for leftovers, before any gate runs. It is not a gate and makes no receipt; it blocks a
//! teammate with the file and the line.
//!
//! Only added lines count. Each line is checked on its own, so leftovers that need a parser are not found.

use std::fmt;

use serde::{Deserialize, Serialize};

pub mod added;

/// A leftover in an added line.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HygieneProblem {
    pub file: String,
    /// From 1; none if it concerns the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub what: HygieneProblemKind,
}

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HygieneProblemKind {
    /// Stops the program or prints debug output.
    DebuggerStatement {
        text: String,
    },
    /// Code or a comment that marks something as unfinished.
    Placeholder {
        text: String,
    },
    PrivateKey,
    /// A merge conflict marker.
    ConflictMarker,
    /// The file does not parse.
    Unparsable {
        why: String,
    },
}

impl fmt::Display for HygieneProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        match &self.what {
            HygieneProblemKind::DebuggerStatement { text } => write!(f, ": a debugger statement (`{text}`)"),
            HygieneProblemKind::Placeholder { text } => write!(f, ": a placeholder (`{text}`)"),
            HygieneProblemKind::PrivateKey => f.write_str(": a private key"),
            HygieneProblemKind::ConflictMarker => f.write_str(": a merge conflict marker"),
            HygieneProblemKind::Unparsable { why } => write!(f, ": does not parse ({why})"),
        }
    }
}

/// The most problems reported at once.
pub const MOST_FLAWS: usize = 20;

/// The problem in one added line, if any.
pub fn look(file: &str, number: u32, line: &str) -> Option<HygieneProblem> {
    // Very long lines are generated.
    const LONGEST_LINE: usize = 2_000;
    if line.len() > LONGEST_LINE {
        return None;
    }
    let code = Language::of(file);
    let found = |what| Some(HygieneProblem { file: file.to_owned(), line: Some(number), what });
    if is_private_key(line) {
        return found(HygieneProblemKind::PrivateKey);
    }
    if is_conflict_marker(line) {
        return found(HygieneProblemKind::ConflictMarker);
    }
    let statement = line.trim();
    if code.is_debugger(statement) {
        return found(HygieneProblemKind::DebuggerStatement { text: shown(statement) });
    }
    if code.is_placeholder(statement) {
        return found(HygieneProblemKind::Placeholder { text: shown(statement) });
    }
    None
}

fn shown(statement: &str) -> String {
    const MOST: usize = 80;
    let line = crate::model::foreign_text::without_escapes(statement);
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST - 1).chain(['…']).collect() }
}

fn is_private_key(line: &str) -> bool {
    // Split, so that this file does not match itself.
    line.find("-----BEGIN ").is_some_and(|at| {
        let label = &line[at + "-----BEGIN ".len()..];
        let end = label.find("-----").unwrap_or(0);
        label[..end].trim_end_matches(" BLOCK").ends_with("PRIVATE KEY")
    })
}

/// Seven equal characters at the start of a line, followed by a word or nothing. Seven `=` alone underline a heading.
fn is_conflict_marker(line: &str) -> bool {
    ["<<<<<<<", ">>>>>>>"]
        .iter()
        .any(|marker| line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
}

/// Languages with known leftovers.
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
    /// Prose, data, or unknown: contains no statements.
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

    /// The text of a line that is only a comment.
    fn comment(self, statement: &str) -> Option<&str> {
        let marks: &[&str] = match self {
            Self::Python | Self::Ruby | Self::Elixir | Self::Shell => &["#"],
            Self::Php => &["//", "#", "/*", "*"],
            _ => &["//", "/*", "*"],
        };
        marks.iter().find_map(|mark| statement.strip_prefix(mark)).map(str::trim)
    }
}

/// A call of exactly this name, not of a longer one ending in it.
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

/// A comment in place of code.
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
        // "… existing code …" between dots replaces code; in a sentence it does not.
        let needs_dots = stands_for_code.iter().any(|words| phrase.starts_with(words));
        text.contains(phrase) && (!needs_dots || text.starts_with("...") || text.starts_with('…'))
    })
}

#[cfg(test)]
mod tests;
