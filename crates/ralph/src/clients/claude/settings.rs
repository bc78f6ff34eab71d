//! Claude Code's settings file as text: adds, finds and removes our hook entries, and leaves everything else
//! untouched.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, json};
use serde_json::Value;

use crate::clients::claude::NAME;
use crate::clients::claude::rehearsal::REHEARSAL;
use crate::clients::claude::variables::BLOCK_CAP;
use crate::clients::hook_command;
use crate::clients::installation::{
    AgentFiles, AnsweredEvent, CapSetting, HookEntry, HooksFound, Installation, NotSettings, OtherHook,
    OwnEntries, Plugin, TakeOut,
};

pub(super) static INSTALLATION: Installation = Installation {
    program: "claude",
    local: LOCAL,
    shared: SHARED,
    events: &EVENTS,
    tried_event: "SubagentStop",
    put_in: insert_entries,
    take_out: remove_entries,
    take_out_others: remove_others,
    look: settings_of,
    answers: answers_in_settings,
    cap: CapSetting { name: BLOCK_CAP, raised: RAISED_BLOCK_CAP, how_to_set: how_to_set_cap },
    commands: &COMMANDS,
    roles: &ROLES,
    agents: AgentFiles { folder: AGENTS, names: agents, check: (CHECK_AGENT, CHECK_AGENT_TEXT) },
    plugin: Plugin { entries: plugin_entries, steps: plugin_steps },
    example: EXAMPLE,
    rehearsal: REHEARSAL,
};

const EXAMPLE: &str = "Example, in .claude/settings.json under \"hooks\":\n  \
\"SubagentStop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"ralph hook claude --deadline 570\", \"timeout\": 600}]}]";

const LOCAL: &str = ".claude/settings.local.json";
const SHARED: &str = ".claude/settings.json";

/// The folder of the project's own sub-agents.
const AGENTS: &str = ".claude/agents";
const CHECK_AGENT: &str = ".claude/agents/check.md";

/// A guarded sub-agent for projects that have none.
const CHECK_AGENT_TEXT: &str = "---\n\
name: check\n\
description: Checks finished work and fixes what fails. Use it after every code change, before reporting the work as done.\n\
---\n\
\n\
Review the changes against the request. Run the tests you need and fix what fails; ralph runs all\n\
gates when you stop, and blocks the stop until they pass. If a gate itself is wrong, say so plainly instead of working around\n\
it. End with a short report of what you checked and what you fixed.\n";

/// The names of the project's own sub-agents, from their files.
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

/// The raised value: more than any loop needs, so that loops end by their own limits, but still a limit.
const RAISED_BLOCK_CAP: u32 = 1000;

/// Our commands, so that the user can start and cancel a loop without the plugin's prefix; same texts as the
/// plugin's.
const COMMANDS: [(&str, &str); 4] = [
    (".claude/commands/ralph-loop.md", include_str!("../../../../../plugin/commands/ralph-loop.md")),
    (".claude/commands/cancel-ralph.md", include_str!("../../../../../plugin/commands/cancel-ralph.md")),
    (".claude/commands/ralph-status.md", include_str!("../../../../../plugin/commands/ralph-status.md")),
    (".claude/commands/ralph-help.md", include_str!("../../../../../plugin/commands/ralph-help.md")),
];

/// Our roles and skills, which feedback names; the same texts as the plugin's.
const ROLES: [(&str, &str); 7] = [
    (".claude/agents/ralph-coder.md", include_str!("../../../../../plugin/agents/ralph-coder.md")),
    (".claude/agents/ralph-tester.md", include_str!("../../../../../plugin/agents/ralph-tester.md")),
    (".claude/agents/ralph-reviewer.md", include_str!("../../../../../plugin/agents/ralph-reviewer.md")),
    (".claude/agents/ralph-debugger.md", include_str!("../../../../../plugin/agents/ralph-debugger.md")),
    (".claude/agents/ralph-auditor.md", include_str!("../../../../../plugin/agents/ralph-auditor.md")),
    (
        ".claude/skills/ralph-iterate/SKILL.md",
        include_str!("../../../../../plugin/skills/ralph-iterate/SKILL.md"),
    ),
    (
        ".claude/skills/ralph-audit/SKILL.md",
        include_str!("../../../../../plugin/skills/ralph-audit/SKILL.md"),
    ),
];

/// Our commands, with the plugin's prefix and without.
const OUR_COMMANDS: Option<&str> = Some(
    "ralph:ralph-loop|ralph:ralph-iterate|ralph:cancel-ralph|ralph:ralph-status|ralph:ralph-help|ralph-loop|ralph-iterate|cancel-ralph|ralph-status|ralph-help",
);

/// Tools that may write, and those that start a sub-agent.
const AT_WORK: Option<&str> = Some("Bash|Edit|Write|MultiEdit|NotebookEdit|Agent|Task|mcp__.*");

const fn judged(event: &'static str, without_it: &'static str) -> AnsweredEvent {
    AnsweredEvent { event, matcher: None, judges: true, without_it }
}

const fn noted(
    event: &'static str,
    matcher: Option<&'static str>,
    without_it: &'static str,
) -> AnsweredEvent {
    AnsweredEvent { event, matcher, judges: false, without_it }
}

/// All events that `ralph hook claude` answers.
static EVENTS: [AnsweredEvent; 13] = [
    judged("SubagentStop", "sub-agents are not blocked"),
    judged("Stop", "sessions are not blocked, and loops do not continue"),
    judged("TeammateIdle", "teammates are not blocked"),
    judged("TaskCompleted", "tasks are not checked before they count as completed"),
    noted("UserPromptSubmit", None, "`pause` and `continue` have no effect, and no session is guarded"),
    noted("UserPromptExpansion", OUR_COMMANDS, "/ralph-loop and /cancel-ralph do nothing"),
    noted("SessionStart", None, "the agent loses its task after a resume, a compaction or /clear"),
    noted("SessionEnd", None, "a loop does not pause when its session ends"),
    noted("SubagentStart", None, "the agent calls of a loop are not counted"),
    noted("PreToolUse", Some("Agent|Task|LSP"), "the agent calls of a loop are not limited"),
    noted("PostToolUse", AT_WORK, "changes by a guarded session are not detected"),
    noted("PostToolUseFailure", AT_WORK, "failed agent calls are not counted as errors"),
    noted("StopFailure", None, "errors of the client or its model are not counted"),
];

/// Events that are not judged are answered at once.
const SHORT_TIMEOUT: u64 = 10;

fn parse(text: &str) -> Result<CstRootNode, NotSettings> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| NotSettings(error.to_string()))
}

fn how_to_set_cap(wanted: u32) -> String {
    format!("set \"env\": {{\"{BLOCK_CAP}\": \"{wanted}\"}} in {SHARED}")
}

/// The settings with our hook, added once.
fn insert_entries(text: Option<&str>, ours: OwnEntries<'_>) -> Result<String, NotSettings> {
    let new_file = text.is_none_or(|text| text.trim().is_empty());
    let root = parse(text.filter(|_| !new_file).unwrap_or("{\n}\n"))?;
    let wrong = |what: &str| NotSettings(format!("{what} is not an object"));
    let settings = root.object_value_or_create().ok_or_else(|| wrong("the file"))?;
    remove_hooks(&settings);
    if ours.raises_cap {
        let env = settings.object_value_or_create("env").ok_or_else(|| wrong("`env`"))?;
        if env.get(BLOCK_CAP).is_none() {
            env.append(BLOCK_CAP, CstInputValue::String(RAISED_BLOCK_CAP.to_string()));
        }
    }
    let hooks = settings.object_value_or_create("hooks").ok_or_else(|| wrong("`hooks`"))?;
    for AnsweredEvent { event, matcher, judges, .. } in &EVENTS {
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

/// The settings without our entries; `None` if there are none, or it is not a settings file. A cap that was there
/// before is the user's.
fn remove_entries(text: &str, before: Option<&str>) -> Option<String> {
    let root = parse(text).ok()?;
    let settings = root.object_value()?;
    let hooks = remove_hooks(&settings);
    let cap = look(before.unwrap_or("{}")).block_cap.is_none() && remove_cap(&settings);
    (hooks || cap).then(|| root.to_string())
}

/// Returns whether there were any.
fn remove_hooks(settings: &CstObject) -> bool {
    remove_handlers(settings, &|_, handler| runs_ralph(handler))
}

/// Takes out every handler that is chosen, and what is empty then; whether there was one.
fn remove_handlers(settings: &CstObject, is_chosen: &dyn Fn(&str, &CstObject) -> bool) -> bool {
    let Some(hooks) = settings.object_value("hooks") else { return false };
    let mut found = false;
    for event in hooks.properties() {
        let Some(groups) = event.array_value() else { continue };
        let name = event.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
        for group in groups.elements() {
            let Some(handlers) = group.as_object().and_then(|group| group.array_value("hooks")) else {
                continue;
            };
            let ours: Vec<_> = handlers
                .elements()
                .into_iter()
                .filter(|h| h.as_object().is_some_and(|h| is_chosen(&name, &h)))
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

/// The settings without the chosen hooks and with the chosen plugins off; none where nothing was chosen.
fn remove_others(text: &str, chosen: &TakeOut<'_>) -> Option<String> {
    let root = parse(text).ok()?;
    let settings = root.object_value()?;
    let hooks = remove_handlers(&settings, &|event, handler| {
        other_hook(event, handler).is_some_and(|hook| (chosen.hook)(&hook))
    });
    let plugins = settings.object_value("enabledPlugins");
    let mut switched = false;
    for plugin in plugins.iter().flat_map(CstObject::properties) {
        let name = plugin.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
        if (chosen.plugin)(&name) {
            plugin.set_value(CstInputValue::Bool(false));
            switched = true;
        }
    }
    (hooks || switched).then(|| root.to_string())
}

fn other_hook(event: &str, handler: &CstObject) -> Option<OtherHook> {
    let command = command_of(handler).filter(|command| !hook_command::is_ours(NAME, command))?;
    Some(OtherHook { event: event.to_owned(), command, judges: judges(event) })
}

fn judges(event: &str) -> bool {
    EVENTS.iter().any(|heard| heard.judges && heard.event == event)
}

/// Removes the cap if it has exactly our value; returns whether it did.
fn remove_cap(settings: &CstObject) -> bool {
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

fn runs_ralph(handler: &CstObject) -> bool {
    command_of(handler).is_some_and(|text| hook_command::is_ours(NAME, &text))
}

fn command_of(handler: &CstObject) -> Option<String> {
    let command = handler.get("command").and_then(|property| property.value());
    command.and_then(|value| value.as_string_lit()).and_then(|text| text.decoded_value().ok())
}

/// All settings files that the client reads for a project, in order of precedence, the highest last, and our entries
/// in each.
fn settings_of(project: &Path) -> Vec<(PathBuf, HooksFound)> {
    let user = crate::sys::env::home().map(|home| home.join(SHARED));
    let files = user.into_iter().chain([SHARED, LOCAL].map(|path| project.join(path)));
    let read = |path: PathBuf| {
        let text = crate::sys::files::read_foreign(&path).ok().flatten()?;
        Some((path, look(&String::from_utf8_lossy(&text))))
    };
    files.filter_map(read).collect()
}

/// Whether the settings of the project or the user have our hook for all of this event, so that the client runs it.
fn answers_in_settings(project: &Path, event: &str) -> bool {
    let Some(answered) = EVENTS.iter().find(|answered| answered.event == event) else { return false };
    let user = crate::sys::env::home();
    let files =
        [LOCAL, SHARED].into_iter().map(|file| project.join(file)).chain(user.map(|home| home.join(SHARED)));
    files.into_iter().any(|file| {
        let Ok(Some(text)) = crate::sys::files::read_foreign(&file) else { return false };
        let text = String::from_utf8_lossy(&text);
        if !hook_command::is_ours(NAME, &text) {
            return false;
        }
        let found = look(&text);
        let answers = |entry: &HookEntry| {
            entry.is_plain
                && entry.answers(answered)
                && hook_command::is_as_written(NAME, &entry.command, project)
        };
        found.faults.is_empty() && found.entries.iter().any(answers)
    })
}

/// Our entries as installed by the plugin.
fn plugin_entries() -> Vec<HookEntry> {
    look(include_str!("../../../../../plugin/hooks/hooks.json")).entries
}

/// The commands that install the plugin.
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
fn look(text: &str) -> HooksFound {
    let mut found = HooksFound::default();
    let settings: Value = match serde_json::from_str(text) {
        Ok(settings) => settings,
        Err(error) => {
            found.faults.push(format!("not JSON: {error}"));
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
        found.plugins.push(name.clone());
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

/// The fields of our entries.
const PLAIN: [&str; 3] = ["type", "command", "timeout"];

fn look_at_handler(event: &str, matcher: Option<&str>, handler: &Value, found: &mut HooksFound) {
    let timeout = &handler["timeout"];
    if !timeout.is_null() && !timeout.is_number() {
        found.faults.push(format!("`timeout` of a {event} hook is {timeout}, which is not a number"));
    }
    let Some(command) = handler["command"].as_str() else { return };
    if !hook_command::is_ours(NAME, command) {
        let (event, command) = (event.to_owned(), command.to_owned());
        found.other_hooks.push(OtherHook { judges: judges(&event), event, command });
        return;
    }
    found.entries.push(HookEntry {
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

    const OURS: OwnEntries<'_> = OwnEntries { command: COMMAND, timeouts: TIMEOUTS, raises_cap: true };

    fn put(text: Option<&str>) -> String {
        insert_entries(text, OURS).expect("settings")
    }

    #[test]
    fn a_new_file_has_our_entries_and_nothing_else() {
        let value: Value = serde_json::from_str(&put(None)).expect("JSON");
        let entries = look(&put(None)).entries;
        assert_eq!(entries.len(), EVENTS.len());
        for answered in &EVENTS {
            let entry = entries.iter().find(|entry| entry.answers(answered)).expect(answered.event);
            assert_eq!(entry.command, COMMAND);
            assert_eq!(entry.timeout, Some(if answered.judges { 600 } else { 10 }), "{entry:?}");
        }
        assert_eq!(value["hooks"]["PostToolUse"][0]["matcher"].as_str(), AT_WORK);
        assert_eq!(value["env"], serde_json::json!({"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "1000"}));
        assert_eq!(value.as_object().expect("an object").len(), 2);
    }

    #[test]
    fn inserting_keeps_existing_content_and_is_idempotent() {
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
    fn removing_keeps_foreign_entries_and_drops_empty_objects() {
        let stop = r#""hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}"#;
        let texts = [
            format!("{{{stop},\"a\":1}}"),
            "{\"a\":1}".into(),
            "{\"env\":{\"A\":\"b\"}}".into(),
            // The user's own cap, even if it has our value.
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"3\"}}".into(),
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":\"1000\"}}".into(),
            "{\"env\":{\"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP\":3}}".into(),
        ];
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        for before in &texts {
            let with = put(Some(before));
            let rest = remove_entries(&with, Some(before)).expect("ours");
            assert_eq!(value(&rest), value(before), "{with}");
            assert_eq!(remove_entries(before, Some(before)), None, "{before}");
            assert_eq!(look(before).block_cap.or(Some(1000)), look(&with).block_cap, "{before}");
        }
    }

    #[test]
    fn a_changed_cap_stays() {
        let with = put(None).replace("1000", "50");
        assert_eq!(look(&remove_entries(&with, None).expect("our hooks")).block_cap, Some(50));
    }

    #[test]
    fn detects_entries_with_a_too_narrow_matcher() {
        let entry = |event: &str, matcher: Option<&str>| HookEntry {
            event: event.into(),
            matcher: matcher.map(str::to_owned),
            command: COMMAND.into(),
            timeout: None,
            is_plain: true,
        };
        let answered =
            |event: &str| EVENTS.iter().find(|answered| answered.event == event).expect("an event");
        for (event, matcher, answers_all) in [
            ("PostToolUse", None, true),
            ("PostToolUse", Some(""), true),
            ("PostToolUse", Some("*"), true),
            ("PostToolUse", AT_WORK, true),
            ("PostToolUse", Some("Agent|Task"), false),
            ("Stop", None, true),
            ("Stop", Some("x"), false),
        ] {
            assert_eq!(entry(event, matcher).answers(answered(event)), answers_all, "{event} {matcher:?}");
        }
        assert!(!entry("Stop", None).answers(answered("SubagentStop")));
    }

    #[test]
    fn an_invalid_settings_file_is_not_changed() {
        for text in
            ["[1]", "{\"hooks\": []}", "{\"hooks\": {\"Stop\": 7}}", "{ not json", "{\"env\": \"A=b\"}"]
        {
            assert!(insert_entries(Some(text), OURS).is_err(), "{text}");
        }
    }

    #[test]
    fn detects_settings_that_disable_hooks() {
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
