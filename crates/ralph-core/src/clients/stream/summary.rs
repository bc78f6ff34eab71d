//! The summary of a run, folded from its events; all fields are bounded.

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
    /// The last result; none if the agent was killed before it or its dialect has none.
    pub result: Option<RunResult>,
    /// The cost of this run alone; none if not reported.
    pub cost: Option<Micros>,
    pub tokens: Tokens,
    /// How often each tool was used.
    pub tools: BTreeMap<String, u32>,
    pub denials: Vec<Denial>,
    pub retries: u32,
    /// The limit at which the run ended.
    pub limit: Option<UsageLimit>,
    /// The end of the agent's messages.
    pub last_words: String,
    pub unknown: u64,
    /// The last unrecognised line, which explains a client that fails at startup.
    pub last_unknown: String,
    pub lines: u64,
    pub bytes: u64,
}

/// A denied tool call.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub tool: String,
    /// The first of them.
    pub about: String,
    /// The rule for the user's `allow:` list that would permit it; identifies the denial.
    pub rule: String,
    pub count: u32,
}

/// A usage limit was reached.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimit {
    pub until: Option<Timestamp>,
    pub why: String,
}

const MOST_TOOLS: usize = 64;
const MOST_DENIALS: usize = 64;
const MOST_LAST_WORDS: usize = 2_000;

impl StreamSummary {
    /// Applies the exit code. Gemini CLI exits with the low byte of the HTTP status and prints it nowhere else.
    pub fn add_exit(&mut self, dialect: Dialect, code: i32) {
        const REFUSALS: [u16; 2] = [429, 503];
        let refusal = REFUSALS.into_iter().find(|status| i32::from(status & 0xff) == code);
        if let (Dialect::Gemini, Some(status), Some(result)) = (dialect, refusal, &mut self.result)
            && !result.ok
        {
            result.status = Some(status);
            self.limit.get_or_insert_with(|| UsageLimit { until: None, why: result.text.clone() });
        }
    }

    pub(crate) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { id } => self.session = Some(id.clone()),
            AgentEvent::Said { text } => self.add_text(text),
            AgentEvent::UsedTool { name, .. } => self.count_tool(name),
            AgentEvent::Denied { tool, about } => self.count_denial(tool, about),
            AgentEvent::Retry { .. } => self.retries = self.retries.saturating_add(1),
            AgentEvent::LimitReached { until, why } => {
                self.limit = Some(UsageLimit { until: *until, why: why.clone() });
            }
            AgentEvent::Result(result) => self.conclude(result),
            AgentEvent::Unknown => self.unknown += 1,
        }
    }

    fn add_text(&mut self, text: &str) {
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
            // The client recovered.
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

/// The rule in Claude Code's syntax: a command by program and verb, a file by path, another tool by name. A compound
/// line is allowed only as a whole.
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
        // File access outside the project; two slashes begin an absolute path.
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
    fn a_denial_has_the_rule_that_would_allow_it() {
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
    fn an_exit_code_is_a_refusal_only_for_some_clients() {
        let refused = |dialect, code, ok| {
            let result = RunResult { ok, text: "no".into(), ..RunResult::default() };
            let mut summary = StreamSummary { result: Some(result), ..StreamSummary::default() };
            summary.add_exit(dialect, code);
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
        nothing.add_exit(Dialect::Gemini, 173);
        assert_eq!(nothing, StreamSummary::default(), "no output, no refusal");
    }

    #[test]
    fn the_summary_is_bounded() {
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
