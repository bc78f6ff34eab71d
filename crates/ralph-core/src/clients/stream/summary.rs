//! What a whole run came to, folded from its events. Everything in it is bounded.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clients::stream::dialect::Dialect;
use crate::clients::stream::{AgentEvent, RunResult, Tokens};
use crate::model::id::SessionId;
use crate::model::money::Micros;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSummary {
    pub session: Option<SessionId>,
    /// The last one. None: the agent was ended before it had one, or its dialect knows none.
    pub result: Option<RunResult>,
    /// What this run cost, without what its session had cost before; none where the client does not say.
    pub cost: Option<Micros>,
    pub tokens: Tokens,
    /// How often each tool was used.
    pub tools: BTreeMap<String, u32>,
    pub denials: Vec<Denial>,
    pub retries: u32,
    /// The limit at which the run ended.
    pub limit: Option<Limit>,
    /// The end of what the agent said.
    pub last_words: String,
    pub unknown: u64,
    /// The last line that meant nothing to us. Where a client gives up before it begins, it is all there is to tell.
    pub last_unknown: String,
    pub lines: u64,
    pub bytes: u64,
}

/// What the agent was not allowed to do.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub tool: String,
    /// The first of them.
    pub about: String,
    /// What would allow it, as a line of the user's `allow:` list; two denials are the same one by this.
    pub rule: String,
    pub count: u32,
}

/// The service gives no more for now.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub until: Option<Timestamp>,
    pub why: String,
}

const MOST_TOOLS: usize = 64;
const MOST_DENIALS: usize = 64;
const MOST_LAST_WORDS: usize = 2_000;

impl StreamSummary {
    /// What the exit code adds. Gemini CLI ends with the status that its service refused it with, of which a process keeps
    /// the low byte, and writes that status nowhere in its stream.
    pub fn hear_exit(&mut self, dialect: Dialect, code: i32) {
        const REFUSALS: [u16; 2] = [429, 503];
        let refusal = REFUSALS.into_iter().find(|status| i32::from(status & 0xff) == code);
        if let (Dialect::Gemini, Some(status), Some(result)) = (dialect, refusal, &mut self.result)
            && !result.ok
        {
            result.status = Some(status);
            self.limit.get_or_insert_with(|| Limit { until: None, why: result.text.clone() });
        }
    }

    pub(crate) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id } => self.session = Some(id.clone()),
            AgentEvent::Said { text } => self.hear(text),
            AgentEvent::UsedTool { name, .. } => self.count_tool(name),
            AgentEvent::Denied { tool, about } => self.count_denial(tool, about),
            AgentEvent::Retry { .. } => self.retries = self.retries.saturating_add(1),
            AgentEvent::LimitReached { until, why } => {
                self.limit = Some(Limit { until: *until, why: why.clone() });
            }
            AgentEvent::Result(result) => self.conclude(result),
            AgentEvent::Unknown => self.unknown += 1,
        }
    }

    fn hear(&mut self, text: &str) {
        if !self.last_words.is_empty() {
            self.last_words.push('\n');
        }
        self.last_words.push_str(text);
        let over = self.last_words.chars().count().saturating_sub(MOST_LAST_WORDS);
        if let Some((start, _)) = self.last_words.char_indices().nth(over) {
            self.last_words.drain(..start);
        }
    }

    fn count_tool(&mut self, name: &str) {
        let is_full = self.tools.len() >= MOST_TOOLS && !self.tools.contains_key(name);
        let count =
            self.tools.entry(if is_full { "others".to_owned() } else { name.to_owned() }).or_default();
        *count = count.saturating_add(1);
    }

    fn count_denial(&mut self, tool: &str, about: &str) {
        let rule = rule_for(tool, about);
        if let Some(same) = self.denials.iter_mut().find(|denial| denial.rule == rule) {
            same.count = same.count.saturating_add(1);
        } else if self.denials.len() < MOST_DENIALS {
            self.denials.push(Denial { tool: tool.to_owned(), about: about.to_owned(), rule, count: 1 });
        }
    }

    fn conclude(&mut self, result: &RunResult) {
        if result.ok {
            // It got over it.
            self.limit = None;
        }
        self.cost = match (self.cost, result.cost_usd) {
            (Some(before), Some(more)) => Some(before.plus(more)),
            (before, more) => before.or(more),
        };
        self.tokens = self.tokens.plus(result.tokens);
        self.result = Some(result.clone());
    }
}

/// The rule in Claude Code's own words: a command by its program and its verb, a file by its path, another tool by name.
/// A line of several commands is only allowed as it stands, since each of its parts would have to be allowed.
fn rule_for(tool: &str, about: &str) -> String {
    match tool {
        "Bash" if about.is_empty() => tool.to_owned(),
        "Bash" if is_compound(about) && !about.ends_with('…') => format!("Bash({about})"),
        "Bash" => {
            let mut words = about.split_whitespace();
            let program = words.next().unwrap_or_default();
            let is_verb = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let verb = words.next().filter(|word| is_verb(word) && !word.starts_with('-'));
            verb.map_or_else(|| format!("Bash({program}:*)"), |verb| format!("Bash({program} {verb}:*)"))
        }
        // Reading and writing a file outside of the project; two slashes begin a path from the root.
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" if about.starts_with('/') => {
            format!("Edit(/{about})")
        }
        "Read" if about.starts_with('/') => format!("Read(/{about})"),
        _ => tool.to_owned(),
    }
}

fn is_compound(command: &str) -> bool {
    command.contains([';', '|', '&', '>', '<', '`', '$', '(', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_comes_with_the_line_that_would_allow_it() {
        let table = [
            ("Bash", "curl http://example.invalid/x", "Bash(curl:*)"),
            ("Bash", "git push origin main", "Bash(git push:*)"),
            ("Bash", "npm install", "Bash(npm install:*)"),
            ("Bash", "rm -rf build", "Bash(rm:*)"),
            ("Bash", "make lint; curl x", "Bash(make lint; curl x)"),
            ("Bash", "", "Bash"),
            ("Write", "/etc/never.txt", "Edit(//etc/never.txt)"),
            ("Read", "/etc/never.txt", "Read(//etc/never.txt)"),
            ("Write", "src/lib.rs", "Write"),
            ("WebFetch", "http://example.invalid", "WebFetch"),
            ("mcp__db__query", "", "mcp__db__query"),
        ];
        for (tool, about, rule) in table {
            assert_eq!(rule_for(tool, about), rule, "{tool} {about}");
        }
    }

    #[test]
    fn an_exit_code_is_a_refusal_only_where_a_client_means_one() {
        let refused = |dialect, code, ok| {
            let result = RunResult { ok, text: "no".into(), ..RunResult::default() };
            let mut summary = StreamSummary { result: Some(result), ..StreamSummary::default() };
            summary.hear_exit(dialect, code);
            (summary.limit.map(|limit| limit.why), summary.result.and_then(|result| result.status))
        };
        let table = [
            (Dialect::Gemini, 173, false, Some(429)),
            (Dialect::Gemini, 247, false, Some(503)),
            (Dialect::Gemini, 247, true, None),
            (Dialect::Gemini, 1, false, None),
            (Dialect::Gemini, 55, false, None),
            (Dialect::Codex, 173, false, None),
        ];
        for (dialect, code, ok, status) in table {
            let why = status.map(|_| "no".to_owned());
            assert_eq!(refused(dialect, code, ok), (why, status), "{dialect:?} {code} {ok}");
        }
        let mut nothing = StreamSummary::default();
        nothing.hear_exit(Dialect::Gemini, 173);
        assert_eq!(nothing, StreamSummary::default(), "without a word nobody was refused");
    }

    #[test]
    fn nothing_that_is_kept_grows_without_end() {
        let mut summary = StreamSummary::default();
        for number in 0..500 {
            summary.apply(&AgentEvent::UsedTool { name: format!("tool{number}"), about: String::new() });
            summary.apply(&AgentEvent::Denied { tool: format!("tool{number}"), about: String::new() });
            summary.apply(&AgentEvent::Said { text: format!("{number} {}", "é".repeat(100)) });
        }
        assert_eq!(summary.tools.len(), MOST_TOOLS + 1);
        assert_eq!(summary.tools["others"], 500 - MOST_TOOLS as u32);
        assert_eq!(summary.denials.len(), MOST_DENIALS);
        assert_eq!(summary.last_words.chars().count(), MOST_LAST_WORDS);
        assert!(summary.last_words.ends_with('é') && summary.last_words.contains("499 "));
    }
}
