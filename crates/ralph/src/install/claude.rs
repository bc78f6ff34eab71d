//! Claude Code's settings file as text: adding, finding and taking out our hook entries, everything else untouched.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::json;
use serde_json::Value;

use super::Timeouts;

pub(crate) const LOCAL: &str = ".claude/settings.local.json";
pub(crate) const SHARED: &str = ".claude/settings.json";

/// Where the project's own sub-agents are.
pub(crate) const CHECK_AGENT: &str = ".claude/agents/check.md";

/// A sub-agent to be held, for projects that have none: it does nothing but see a piece of work through.
pub(crate) const CHECK_AGENT_TEXT: &str = "---\n\
name: check\n\
description: Checks finished work and mends what fails. Use it after every change of the code, before saying that it is done.\n\
---\n\
\n\
Look at what was changed and compare it with what was asked for. Run `ralph verify`; mend what fails, and run it again,\n\
until it passes. You are held until the project's gates pass, so do not say done before. If a gate itself is wrong, say so\n\
plainly instead of working around it. End with a short report of what you checked and what you mended.\n";

/// The names of the project's own sub-agents, by their files.
pub(crate) fn agents(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(".claude/agents")) else { return Vec::new() };
    let name = |text: String, file: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("name:"));
        line.map_or_else(|| file.trim_end_matches(".md").to_owned(), |name| name.trim().to_owned())
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok().filter(|file| file.ends_with(".md"))?;
            let text = crate::files::read_foreign(&entry.path()).ok().flatten()?;
            Some(name(String::from_utf8_lossy(&text).into_owned(), file))
        })
        .collect()
}

/// The variable by which the client's own cap on holds in a row is set.
pub(crate) const BLOCK_CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";

/// The client's cap where nothing is set.
pub(crate) const DEFAULT_BLOCK_CAP: u32 = 8;

/// The events that we answer: where a sub-agent is judged, and where its session can be told.
const EVENTS: [(&str, Option<&str>); 4] =
    [("SubagentStop", None), ("Stop", None), ("UserPromptSubmit", None), ("PostToolUse", Some("Agent|Task"))];

/// Telling a session takes no time.
const TELLING_TIMEOUT: u64 = 10;

/// The command line that the client's shell runs.
pub(crate) fn command(program: &str, deadline: u64, shared: bool) -> String {
    if shared {
        // In a file that everybody gets: silent where ralph is not installed.
        return format!(
            "command -v ralph >/dev/null 2>&1 || exit 0; exec ralph hook claude --deadline {deadline}"
        );
    }
    format!("{} hook claude --deadline {deadline}", quoted(program))
}

fn quoted(program: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if program.chars().all(plain) {
        program.to_owned()
    } else {
        format!("'{}'", program.replace('\'', r"'\''"))
    }
}

/// Whether a command line is exactly of a form that we write ourselves, and runs no program out of that folder. Only
/// such a line is ever run: what else stands in a repo's settings is somebody else's.
pub(crate) fn is_as_written(line: &str, not_below: &Path) -> bool {
    let Some((head, deadline)) = line.split_once(" hook claude --deadline ") else { return false };
    let Ok(deadline) = deadline.parse() else { return false };
    let program = head.strip_prefix('\'').and_then(|head| head.strip_suffix('\'')).unwrap_or(head);
    let program = program.replace(r"'\''", "'");
    let path = Path::new(&program);
    let somebodys =
        path.is_absolute() && !path.starts_with(not_below) && path.file_name() == Some("ralph".as_ref());
    line == command("", deadline, true) || somebodys && line == command(&program, deadline, false)
}

fn is_ours(command: &str) -> bool {
    command.contains("ralph") && command.contains(" hook claude")
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a settings file that can be edited: {0}")]
pub(crate) struct NotSettings(String);

fn parse(text: &str) -> Result<CstRootNode, NotSettings> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| NotSettings(error.to_string()))
}

/// The settings with our hook in them, once.
pub(crate) fn put_in(text: Option<&str>, command: &str, timeouts: Timeouts) -> Result<String, NotSettings> {
    let without = text.map(|text| take_out(text).unwrap_or_else(|| text.to_owned()));
    let new_file = without.as_ref().is_none_or(|text| text.trim().is_empty());
    let root = parse(if new_file { "{\n}\n" } else { without.as_deref().unwrap_or_default() })?;
    let wrong = |what: &str| NotSettings(format!("{what} is not an object"));
    let settings = root.object_value_or_create().ok_or_else(|| wrong("the whole"))?;
    let hooks = settings.object_value_or_create("hooks").ok_or_else(|| wrong("`hooks`"))?;
    for (event, matcher) in EVENTS {
        let timeout = if event == "SubagentStop" { timeouts.client } else { TELLING_TIMEOUT };
        let entries = hooks
            .array_value_or_create(event)
            .ok_or_else(|| NotSettings(format!("`hooks.{event}` is not a list")))?;
        entries.ensure_multiline();
        entries.append(entry(command, timeout, matcher));
    }
    Ok(root.to_string())
}

fn entry(command: &str, timeout: u64, matcher: Option<&str>) -> CstInputValue {
    let timeout = CstInputValue::Number(timeout.to_string());
    match matcher {
        Some(matcher) => {
            json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": command, "timeout": timeout }] })
        }
        None => json!({ "hooks": [{ "type": "command", "command": command, "timeout": timeout }] }),
    }
}

/// The settings without our entries; none where there are none of ours, or it is no settings file.
pub(crate) fn take_out(text: &str) -> Option<String> {
    let root = parse(text).ok()?;
    let settings = root.object_value()?;
    let hooks = settings.object_value("hooks")?;
    let mut found = false;
    for event in hooks.properties() {
        let Some(groups) = event.array_value() else { continue };
        for group in groups.elements() {
            let Some(handlers) = group.as_object().and_then(|group| group.array_value("hooks")) else {
                continue;
            };
            let ours: Vec<_> = handlers
                .elements()
                .into_iter()
                .filter(|h| h.as_object().is_some_and(|h| runs_us(&h)))
                .collect();
            found |= !ours.is_empty();
            let all = ours.len() == handlers.elements().len();
            match all && !ours.is_empty() {
                true => group.remove(),
                false => ours.into_iter().for_each(jsonc_parser::cst::CstNode::remove),
            }
        }
        if found && groups.elements().is_empty() {
            event.remove();
        }
    }
    if found && hooks.properties().is_empty() {
        settings.get("hooks")?.remove();
    }
    found.then(|| root.to_string())
}

fn runs_us(handler: &CstObject) -> bool {
    let command = handler.get("command").and_then(|property| property.value());
    let text = command.and_then(|value| value.as_string_lit()).and_then(|text| text.decoded_value().ok());
    text.is_some_and(|text| is_ours(&text))
}

/// One of our entries as it stands in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) event: String,
    pub(crate) command: String,
    pub(crate) timeout: Option<u64>,
}

impl Entry {
    /// The deadline that the command line gives.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let mut words = self.command.split_whitespace().skip_while(|word| *word != "--deadline");
        words.nth(1)?.trim_end_matches('s').parse().ok()
    }
}

/// What a settings file says that concerns us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// What makes the client drop the hooks of this file without a word.
    pub(crate) faults: Vec<String>,
    pub(crate) block_cap: Option<u32>,
    /// Plugins that loop too.
    pub(crate) other_loops: Vec<String>,
}

/// Reads a settings file the way the client does.
pub(crate) fn look(text: &str) -> Found {
    let mut found = Found::default();
    let settings: Value = match serde_json::from_str(text) {
        Ok(settings) => settings,
        Err(error) => {
            found.faults.push(format!("it is not JSON: {error}"));
            return found;
        }
    };
    if settings["disableAllHooks"] == true {
        found.faults.push("`disableAllHooks` is true".into());
    }
    let cap = &settings["env"][BLOCK_CAP];
    found.block_cap =
        cap.as_str().and_then(|text| text.parse().ok()).or_else(|| cap.as_u64()?.try_into().ok());
    let plugins = settings["enabledPlugins"].as_object().into_iter().flatten();
    found.other_loops = plugins
        .filter(|(name, on)| {
            **on == true && (name.starts_with("ralph-loop") || name.starts_with("ralph-wiggum"))
        })
        .map(|(name, _)| name.clone())
        .collect();
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        let Some(groups) = groups.as_array() else {
            found.faults.push(format!("`hooks.{event}` is not a list"));
            continue;
        };
        for handler in groups.iter().filter_map(|group| group["hooks"].as_array()).flatten() {
            look_at_handler(event, handler, &mut found);
        }
    }
    found
}

fn look_at_handler(event: &str, handler: &Value, found: &mut Found) {
    let timeout = &handler["timeout"];
    if !timeout.is_null() && !timeout.is_number() {
        found.faults.push(format!("`timeout` of a {event} hook is {timeout}, which is not a number"));
    }
    let Some(command) = handler["command"].as_str().filter(|command| is_ours(command)) else { return };
    found.entries.push(Entry {
        event: event.to_owned(),
        command: command.to_owned(),
        timeout: timeout.as_u64(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts { client: 600, deadline: 570 };
    const COMMAND: &str = "/opt/ralph hook claude --deadline 570";

    fn put(text: Option<&str>) -> String {
        put_in(text, COMMAND, TIMEOUTS).expect("settings")
    }

    #[test]
    fn a_new_file_has_our_entries_and_nothing_else() {
        let value: Value = serde_json::from_str(&put(None)).expect("JSON");
        assert_eq!(value["hooks"].as_object().expect("hooks").len(), 4);
        let handler = &value["hooks"]["SubagentStop"][0]["hooks"][0];
        assert_eq!((handler["command"].as_str(), handler["timeout"].as_u64()), (Some(COMMAND), Some(600)));
        assert_eq!(value["hooks"]["PostToolUse"][0]["matcher"], "Agent|Task");
    }

    #[test]
    fn what_is_there_stays_as_it_is_and_twice_is_once() {
        let text = "{\n    \"model\": \"opus\",   \"permissions\": {\"allow\": [ \"Bash(ls:*)\" ]},\n    \"hooks\": {\n        \
                    \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n        ]\n    }\n}\n";
        let with = put(Some(text));
        assert!(
            with.contains("\"model\": \"opus\",   \"permissions\": {\"allow\": [ \"Bash(ls:*)\" ]}"),
            "{with}"
        );
        assert!(with.contains("say done"));
        assert_eq!(put(Some(&with)), with);
        assert_eq!(look(&with).entries.len(), 4);
    }

    #[test]
    fn taking_out_leaves_other_hooks_and_removes_what_is_empty() {
        let other = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]},"a":1}"#;
        let rest: Value = serde_json::from_str(&take_out(&put(Some(other))).expect("ours")).expect("JSON");
        assert_eq!(rest, serde_json::from_str::<Value>(other).expect("JSON"));
        let alone: Value =
            serde_json::from_str(&take_out(&put(Some("{\"a\":1}"))).expect("ours")).expect("JSON");
        assert_eq!(alone, serde_json::json!({"a": 1}));
        assert_eq!(take_out(other), None);
    }

    #[test]
    fn a_file_that_is_no_settings_file_is_left_alone() {
        for text in ["[1]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": 7}}", "{ not json"] {
            assert!(put_in(Some(text), COMMAND, TIMEOUTS).is_err(), "{text}");
        }
    }

    #[test]
    fn what_makes_the_client_drop_hooks_is_seen() {
        let faults = |text: &str| look(text).faults.join("; ");
        assert!(faults("{").contains("not JSON"));
        assert!(faults(r#"{"disableAllHooks":true}"#).contains("disableAllHooks"));
        let typed = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x","timeout":"30"}]}]}}"#;
        assert!(faults(typed).contains("not a number"));
        assert_eq!(look(r#"{"env":{"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP":"20"}}"#).block_cap, Some(20));
        let plugin = r#"{"enabledPlugins":{"ralph-loop@claude-plugins-official":true}}"#;
        assert_eq!(look(plugin).other_loops, ["ralph-loop@claude-plugins-official"]);
    }

    #[test]
    fn only_command_lines_of_our_own_form_are_taken_for_ours_to_run() {
        let repo = Path::new("/home/user/repo");
        for line in
            [command("/opt/a b/ralph", 570, false), command("/opt/ralph", 9, false), command("x", 570, true)]
        {
            assert!(is_as_written(&line, repo), "{line}");
        }
        for line in [
            "touch /tmp/x; : ralph hook claude --deadline 570",
            "/opt/ralph hook claude --deadline 570; touch /tmp/x",
            "/opt/ralph hook claude --deadline $(touch /tmp/x)",
            "'/opt/ralph' ; 'ralph' hook claude --deadline 570",
            "./ralph hook claude --deadline 570",
            "/home/user/repo/ralph hook claude --deadline 570",
            "/opt/evil hook claude --deadline 570",
            "ralph hook claude",
        ] {
            assert!(!is_as_written(line, repo), "{line}");
        }
    }

    #[test]
    fn a_path_with_spaces_is_quoted_for_the_shell() {
        assert_eq!(command("/a b/ralph", 570, false), "'/a b/ralph' hook claude --deadline 570");
        assert!(is_ours(&command("/a b/ralph", 570, false)) && is_ours(&command("x", 570, true)));
    }
}
