//! Claude Code's settings file as text: adding, finding and taking out our hook entries, everything else untouched.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, json};
use serde_json::Value;

use crate::clients::claude::NAME;
use crate::clients::claude::rehearsal::REHEARSAL;
use crate::clients::claude::variables::BLOCK_CAP;
use crate::clients::hook_command;
use crate::clients::installation::{
    AgentFiles, CapSetting, Entry, Found, Heard, Installation, NotSettings, Ours, Plugin,
};

pub(super) static INSTALLATION: Installation = Installation {
    program: "claude",
    local: LOCAL,
    shared: SHARED,
    events: &EVENTS,
    tried_event: "SubagentStop",
    put_in,
    take_out,
    look: settings_of,
    answers: answers_in_settings,
    cap: CapSetting { name: BLOCK_CAP, raised: RAISED_BLOCK_CAP, how_to_set: how_to_set_cap },
    commands: &COMMANDS,
    agents: AgentFiles { folder: AGENTS, names: agents, check: (CHECK_AGENT, CHECK_AGENT_TEXT) },
    plugin: Plugin { entries: plugin_entries, steps: plugin_steps },
    example: EXAMPLE,
    rehearsal: REHEARSAL,
};

const EXAMPLE: &str = "Example, in .claude/settings.json under \"hooks\":\n  \
\"SubagentStop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"ralph hook claude --deadline 570\", \"timeout\": 600}]}]";

const LOCAL: &str = ".claude/settings.local.json";
const SHARED: &str = ".claude/settings.json";

/// Where the project's own sub-agents are.
const AGENTS: &str = ".claude/agents";
const CHECK_AGENT: &str = ".claude/agents/check.md";

/// A sub-agent to be held, for projects that have none: it does nothing but see a piece of work through.
const CHECK_AGENT_TEXT: &str = "---\n\
name: check\n\
description: Checks finished work and fixes what fails. Use it after every change of the code, before saying that it is done.\n\
---\n\
\n\
Look at what was changed and compare it with what was asked for. Run the tests you need and fix what fails; ralph runs all\n\
gates when you stop, and blocks the stop until they pass. If a gate itself is wrong, say so plainly instead of working around\n\
it. End with a short report of what you checked and what you fixed.\n";

/// The names of the project's own sub-agents, by their files.
fn agents(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(AGENTS)) else { return Vec::new() };
    let name = |text: String, file: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("name:"));
        line.map_or_else(|| file.trim_end_matches(".md").to_owned(), |name| name.trim().to_owned())
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok().filter(|file| file.ends_with(".md"))?;
            let text = crate::sys::files::read_foreign(&entry.path()).ok().flatten()?;
            Some(name(String::from_utf8_lossy(&text).into_owned(), file))
        })
        .collect()
}

/// What we raise it to: more than any loop needs, so that a loop ends by its own limits, and still an end.
const RAISED_BLOCK_CAP: u32 = 1000;

/// The commands of ours, so that a person starts and ends a loop without the plugin's prefix; the same texts as the
/// plugin's.
const COMMANDS: [(&str, &str); 4] = [
    (".claude/commands/ralph-loop.md", include_str!("../../../../../plugin/commands/ralph-loop.md")),
    (".claude/commands/cancel-ralph.md", include_str!("../../../../../plugin/commands/cancel-ralph.md")),
    (".claude/commands/ralph-status.md", include_str!("../../../../../plugin/commands/ralph-status.md")),
    (".claude/commands/ralph-help.md", include_str!("../../../../../plugin/commands/ralph-help.md")),
];

/// Our commands, with the plugin's prefix and without.
const OUR_COMMANDS: Option<&str> = Some(
    "ralph:ralph-loop|ralph:cancel-ralph|ralph:ralph-status|ralph:ralph-help|ralph-loop|cancel-ralph|ralph-status|ralph-help",
);

/// Tools that may write, and those that call an agent.
const AT_WORK: Option<&str> = Some("Bash|Edit|Write|MultiEdit|NotebookEdit|Agent|Task|mcp__.*");

const fn judged(event: &'static str, without_it: &'static str) -> Heard {
    Heard { event, matcher: None, judges: true, without_it }
}

const fn noted(event: &'static str, matcher: Option<&'static str>, without_it: &'static str) -> Heard {
    Heard { event, matcher, judges: false, without_it }
}

/// Everything that `ralph hook claude` answers.
static EVENTS: [Heard; 13] = [
    judged("SubagentStop", "no sub-agent is held"),
    judged("Stop", "no session is held, and no loop goes on"),
    judged("TeammateIdle", "no teammate is held"),
    judged("TaskCompleted", "no task is looked at before it counts as completed"),
    noted("UserPromptSubmit", None, "`pause` and `continue` are not understood, and no session is guarded"),
    noted("UserPromptExpansion", OUR_COMMANDS, "/ralph-loop and /cancel-ralph do nothing"),
    noted("SessionStart", None, "after a resume, a compaction or /clear the agent has lost its task"),
    noted("SessionEnd", None, "a loop does not pause when its session ends"),
    noted("SubagentStart", None, "the agent calls of a loop are not counted"),
    noted("PreToolUse", Some("Agent|Task|LSP"), "nothing bounds the agent calls of a loop"),
    noted("PostToolUse", AT_WORK, "it is not noticed that a guarded session changed something"),
    noted("PostToolUseFailure", AT_WORK, "an agent that could not be called is not counted as an error"),
    noted("StopFailure", None, "errors of the client or its model are not counted"),
];

/// What is not judged takes no time.
const SHORT_TIMEOUT: u64 = 10;

fn parse(text: &str) -> Result<CstRootNode, NotSettings> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| NotSettings(error.to_string()))
}

fn how_to_set_cap(wanted: u32) -> String {
    format!("set \"env\": {{\"{BLOCK_CAP}\": \"{wanted}\"}} in {SHARED}")
}

/// The settings with our hook in them, once.
fn put_in(text: Option<&str>, ours: Ours<'_>) -> Result<String, NotSettings> {
    let new_file = text.is_none_or(|text| text.trim().is_empty());
    let root = parse(text.filter(|_| !new_file).unwrap_or("{\n}\n"))?;
    let wrong = |what: &str| NotSettings(format!("{what} is not an object"));
    let settings = root.object_value_or_create().ok_or_else(|| wrong("the whole"))?;
    take_out_hooks(&settings);
    if ours.raises_cap {
        let env = settings.object_value_or_create("env").ok_or_else(|| wrong("`env`"))?;
        if env.get(BLOCK_CAP).is_none() {
            env.append(BLOCK_CAP, CstInputValue::String(RAISED_BLOCK_CAP.to_string()));
        }
    }
    let hooks = settings.object_value_or_create("hooks").ok_or_else(|| wrong("`hooks`"))?;
    for Heard { event, matcher, judges, .. } in &EVENTS {
        let timeout = if *judges { ours.timeouts.client } else { SHORT_TIMEOUT };
        let entries = hooks
            .array_value_or_create(event)
            .ok_or_else(|| NotSettings(format!("`hooks.{event}` is not a list")))?;
        entries.ensure_multiline();
        entries.append(entry(ours.command, timeout, *matcher));
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

/// The settings without what is ours; none where there is nothing of ours, or it is no settings file. A cap that was there
/// before us is the person's.
fn take_out(text: &str, before: Option<&str>) -> Option<String> {
    let root = parse(text).ok()?;
    let settings = root.object_value()?;
    let hooks = take_out_hooks(&settings);
    let cap = look(before.unwrap_or("{}")).block_cap.is_none() && take_out_cap(&settings);
    (hooks || cap).then(|| root.to_string())
}

/// Whether there was anything of ours.
fn take_out_hooks(settings: &CstObject) -> bool {
    let Some(hooks) = settings.object_value("hooks") else { return false };
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
        remove_property(settings, "hooks");
    }
    found
}

/// Whether the cap was ours: the very number that we write.
fn take_out_cap(settings: &CstObject) -> bool {
    let Some(env) = settings.object_value("env") else { return false };
    let Some(cap) = env.get(BLOCK_CAP) else { return false };
    let text = cap.value().and_then(|value| value.as_string_lit()).and_then(|text| text.decoded_value().ok());
    if text != Some(RAISED_BLOCK_CAP.to_string()) {
        return false;
    }
    cap.remove();
    if env.properties().is_empty() {
        remove_property(settings, "env");
    }
    true
}

fn remove_property(object: &CstObject, name: &str) {
    if let Some(property) = object.get(name) {
        property.remove();
    }
}

fn runs_us(handler: &CstObject) -> bool {
    let command = handler.get("command").and_then(|property| property.value());
    let text = command.and_then(|value| value.as_string_lit()).and_then(|text| text.decoded_value().ok());
    text.is_some_and(|text| hook_command::is_ours(NAME, &text))
}

/// Every settings file that the client reads for a project, the strongest last, and what it says.
fn settings_of(project: &Path) -> Vec<(PathBuf, Found)> {
    let person = crate::sys::env::home().map(|home| home.join(SHARED));
    let files = person.into_iter().chain([SHARED, LOCAL].map(|path| project.join(path)));
    let read = |path: PathBuf| {
        let text = crate::sys::files::read_foreign(&path).ok().flatten()?;
        Some((path, look(&String::from_utf8_lossy(&text))))
    };
    files.filter_map(read).collect()
}

/// Whether the settings of a project or of the person have our hook for all of this event, so that the client runs it.
fn answers_in_settings(project: &Path, event: &str) -> bool {
    let Some(heard) = EVENTS.iter().find(|heard| heard.event == event) else { return false };
    let person = crate::sys::env::home();
    let files = [LOCAL, SHARED]
        .into_iter()
        .map(|file| project.join(file))
        .chain(person.map(|home| home.join(SHARED)));
    files.into_iter().any(|file| {
        let Ok(Some(text)) = crate::sys::files::read_foreign(&file) else { return false };
        let text = String::from_utf8_lossy(&text);
        if !hook_command::is_ours(NAME, &text) {
            return false;
        }
        let found = look(&text);
        let answers = |entry: &Entry| {
            entry.is_plain && entry.hears(heard) && hook_command::is_as_written(NAME, &entry.command, project)
        };
        found.faults.is_empty() && found.entries.iter().any(answers)
    })
}

/// Our entries as the plugin brings them.
fn plugin_entries() -> Vec<Entry> {
    look(include_str!("../../../../../plugin/hooks/hooks.json")).entries
}

/// The lines by which a person gets the plugin.
fn plugin_steps() -> [String; 3] {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let source = repository.strip_prefix("https://github.com/").unwrap_or(repository);
    [
        format!("/plugin marketplace add {source}"),
        "/plugin install ralph@ralph".to_owned(),
        "claude --plugin-dir CLONE/plugin".to_owned(),
    ]
}

/// Reads a settings file the way the client does.
fn look(text: &str) -> Found {
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
    for (name, _) in plugins.filter(|(_, on)| **on == true) {
        match name.split('@').next().unwrap_or_default() {
            "ralph" => found.our_plugin = Some(name.clone()),
            plugin if plugin.starts_with("ralph-loop") || plugin.starts_with("ralph-wiggum") => {
                found.other_loops.push(name.clone());
            }
            _ => {}
        }
    }
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        let Some(groups) = groups.as_array() else {
            found.faults.push(format!("`hooks.{event}` is not a list"));
            continue;
        };
        for group in groups {
            for handler in group["hooks"].as_array().into_iter().flatten() {
                look_at_handler(event, group["matcher"].as_str(), handler, &mut found);
            }
        }
    }
    found
}

/// What an entry of ours says.
const PLAIN: [&str; 3] = ["type", "command", "timeout"];

fn look_at_handler(event: &str, matcher: Option<&str>, handler: &Value, found: &mut Found) {
    let timeout = &handler["timeout"];
    if !timeout.is_null() && !timeout.is_number() {
        found.faults.push(format!("`timeout` of a {event} hook is {timeout}, which is not a number"));
    }
    let Some(command) = handler["command"].as_str().filter(|command| hook_command::is_ours(NAME, command))
    else {
        return;
    };
    found.entries.push(Entry {
        event: event.to_owned(),
        matcher: matcher.map(str::to_owned),
        command: command.to_owned(),
        timeout: timeout.as_u64(),
        is_plain: handler["type"] == "command"
            && handler.as_object().is_some_and(|keys| keys.keys().all(|key| PLAIN.contains(&key.as_str()))),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::installed::Timeouts;

    const TIMEOUTS: Timeouts = Timeouts { client: 600, deadline: 570 };
    const COMMAND: &str = "/opt/ralph hook claude --deadline 570";

    const OURS: Ours<'_> = Ours { command: COMMAND, timeouts: TIMEOUTS, raises_cap: true };

    fn put(text: Option<&str>) -> String {
        put_in(text, OURS).expect("settings")
    }

    #[test]
    fn a_new_file_has_our_entries_and_nothing_else() {
        let value: Value = serde_json::from_str(&put(None)).expect("JSON");
        let entries = look(&put(None)).entries;
        assert_eq!(entries.len(), EVENTS.len());
        for heard in &EVENTS {
            let entry = entries.iter().find(|entry| entry.hears(heard)).expect(heard.event);
            assert_eq!(entry.command, COMMAND);
            assert_eq!(entry.timeout, Some(if heard.judges { 600 } else { 10 }), "{entry:?}");
        }
        assert_eq!(value["hooks"]["PostToolUse"][0]["matcher"].as_str(), AT_WORK);
        assert_eq!(value["env"], serde_json::json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "1000"}));
        assert_eq!(value.as_object().expect("an object").len(), 2);
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
        assert_eq!(look(&with).entries.len(), EVENTS.len());
    }

    #[test]
    fn taking_out_leaves_what_is_somebody_elses_and_removes_what_is_empty() {
        let stop = r#""hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}"#;
        let texts = [
            format!("{{{stop},\"a\":1}}"),
            "{\"a\":1}".into(),
            "{\"env\":{\"A\":\"b\"}}".into(),
            // The person's own cap, even where it is the number that we would write.
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"3\"}}".into(),
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"1000\"}}".into(),
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":3}}".into(),
        ];
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        for before in &texts {
            let with = put(Some(before));
            let rest = take_out(&with, Some(before)).expect("ours");
            assert_eq!(value(&rest), value(before), "{with}");
            assert_eq!(take_out(before, Some(before)), None, "{before}");
            assert_eq!(look(before).block_cap.or(Some(1000)), look(&with).block_cap, "{before}");
        }
    }

    #[test]
    fn a_cap_that_somebody_changed_since_stays() {
        let with = put(None).replace("1000", "50");
        assert_eq!(look(&take_out(&with, None).expect("our hooks")).block_cap, Some(50));
    }

    #[test]
    fn an_entry_that_hears_less_than_we_want_is_told_from_one_that_hears_all() {
        let entry = |event: &str, matcher: Option<&str>| Entry {
            event: event.into(),
            matcher: matcher.map(str::to_owned),
            command: COMMAND.into(),
            timeout: None,
            is_plain: true,
        };
        let heard = |event: &str| EVENTS.iter().find(|heard| heard.event == event).expect("an event");
        for (event, matcher, hears) in [
            ("PostToolUse", None, true),
            ("PostToolUse", Some(""), true),
            ("PostToolUse", Some("*"), true),
            ("PostToolUse", AT_WORK, true),
            ("PostToolUse", Some("Agent|Task"), false),
            ("Stop", None, true),
            ("Stop", Some("x"), false),
        ] {
            assert_eq!(entry(event, matcher).hears(heard(event)), hears, "{event} {matcher:?}");
        }
        assert!(!entry("Stop", None).hears(heard("SubagentStop")));
    }

    #[test]
    fn a_file_that_is_no_settings_file_is_left_alone() {
        for text in
            ["[1]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": 7}}", "{ not json", "{\"env\": \"A=b\"}"]
        {
            assert!(put_in(Some(text), OURS).is_err(), "{text}");
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
        let ours = r#"{"enabledPlugins":{"ralph@ralph":true,"ralph-wiggum@x":false,"ralphs@x":true}}"#;
        let found = look(ours);
        assert_eq!((found.our_plugin.as_deref(), found.other_loops), (Some("ralph@ralph"), Vec::new()));
    }
}
