//! `plugin/` is what the client loads: its files match the binary, and need nothing but the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use ralph_testkit::Sandbox;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn parsed(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names in a folder of the plugin, without `.md`.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("plugin").join(folder)).expect("a folder of the plugin");
    entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .map(|name| name.trim_end_matches(".md").to_owned())
        .collect()
}

/// A file's front matter, read as YAML as the client does, and its body.
fn page(path: &str) -> (Value, String) {
    let text = text(path);
    let rest = text.strip_prefix("---\n").unwrap_or_else(|| panic!("{path}: no front matter"));
    let (head, body) =
        rest.split_once("\n---\n").unwrap_or_else(|| panic!("{path}: the front matter has no end"));
    let head = serde_saphyr::from_str(head).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(body.trim().len() > 100, "{path}: there is a body");
    (head, body.to_owned())
}

/// One entry of a hooks table.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    matcher: Option<String>,
    command: String,
    timeout: u64,
}

/// The one entry of each event.
fn entries(settings: &Value) -> BTreeMap<String, Entry> {
    let hooks = settings["hooks"].as_object().expect("`hooks` is an object");
    let entry = |event: &str, groups: &Value| {
        let [group] = groups.as_array().expect("a list").as_slice() else { panic!("{event}: one group") };
        let [handler] = group["hooks"].as_array().expect("a list").as_slice() else {
            panic!("{event}: one handler")
        };
        assert_eq!(handler["type"], "command", "{event}");
        Entry {
            matcher: group.get("matcher").map(|matcher| matcher.as_str().expect("text").to_owned()),
            command: handler["command"].as_str().expect("a command").to_owned(),
            // A timeout of another type makes the client drop every hook of the file without a word.
            timeout: handler["timeout"].as_u64().expect("a number"),
        }
    };
    hooks.iter().map(|(event, groups)| (event.clone(), entry(event, groups))).collect()
}

fn plugin_hooks() -> BTreeMap<String, Entry> {
    entries(&parsed("plugin/hooks/hooks.json"))
}

/// The shared settings that init writes.
fn installed() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ralph(&["init", "--yes", "--no-try", "--shared", "--gate", "true"]).success();
    sandbox
}

#[test]
fn the_manifests_name_one_plugin_with_the_version_of_the_binary() {
    let manifest = parsed("plugin/.claude-plugin/plugin.json");
    let market = parsed(".claude-plugin/marketplace.json");
    let [listed] = market["plugins"].as_array().expect("plugins").as_slice() else { panic!("one plugin") };
    for (what, value) in [("the plugin", &manifest), ("the marketplace's entry", listed)] {
        assert_eq!(value["name"], "ralph", "{what}");
        assert_eq!(value["version"], env!("CARGO_PKG_VERSION"), "{what}");
        assert_eq!(value["license"], env!("CARGO_PKG_LICENSE"), "{what}");
    }
    assert_eq!(manifest["repository"], env!("CARGO_PKG_REPOSITORY"));
    assert_eq!(manifest["description"], listed["description"]);
    let source = listed["source"].as_str().expect("a source");
    assert!(root().join(source).join(".claude-plugin/plugin.json").is_file(), "{source}");
}

#[test]
fn the_plugin_has_the_same_hooks_as_init_shared() {
    let sandbox = installed();
    let installed = entries(&serde_json::from_str(&sandbox.read(".claude/settings.json")).expect("JSON"));
    assert_eq!(plugin_hooks(), installed);
}

#[test]
fn a_read_only_tool_starts_no_process() {
    for event in ["PostToolUse", "PostToolUseFailure"] {
        let matcher = plugin_hooks()[event].matcher.clone().expect("a matcher");
        let matched: Vec<&str> = matcher.split('|').collect();
        for tool in ["Read", "Glob", "Grep", "WebFetch", "TodoWrite"] {
            assert!(!matched.contains(&tool), "{event}: {tool}");
        }
        for tool in ["Bash", "Edit", "Write", "MultiEdit", "NotebookEdit", "Agent", "Task", "mcp__.*"] {
            assert!(matched.contains(&tool), "{event}: {tool}");
        }
    }
}

#[test]
fn the_commands_are_the_ones_that_init_writes() {
    let sandbox = installed();
    for name in names("commands") {
        let ours = sandbox.read(&format!(".claude/commands/{name}.md"));
        assert_eq!(text(&format!("plugin/commands/{name}.md")), ours, "{name}");
    }
}

#[test]
fn the_client_timeout_is_longer_than_our_deadline_and_short_for_other_events() {
    for (event, entry) in plugin_hooks() {
        let deadline: u64 =
            entry.command.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a deadline");
        match event.as_str() {
            "Stop" | "SubagentStop" | "TeammateIdle" | "TaskCompleted" => {
                assert!(entry.timeout >= deadline + 30, "{event}: {entry:?}");
            }
            _ => assert_eq!(entry.timeout, 10, "{event}"),
        }
    }
}

#[test]
fn without_ralph_installed_no_event_prints_or_blocks() {
    for (event, entry) in plugin_hooks() {
        let mut shell = Command::new("/bin/sh");
        let ran =
            shell.args(["-c", &entry.command]).env_clear().env("PATH", "/nonexistent").output().expect("sh");
        assert_eq!((ran.status.code(), ran.stdout, ran.stderr), (Some(0), Vec::new(), Vec::new()), "{event}");
    }
}

#[test]
fn the_loop_commands_work_with_and_without_the_plugin_prefix() {
    let commands = names("commands");
    assert_eq!(
        commands,
        ["cancel-ralph", "ralph-help", "ralph-loop", "ralph-status"].map(str::to_owned).into()
    );
    // The skill for rounds starts a loop, too.
    let heard = commands.iter().map(String::as_str).chain(["ralph-iterate"]);
    let expected = heard.flat_map(|name| [name.to_owned(), format!("ralph:{name}")]).collect();
    let matcher = plugin_hooks()["UserPromptExpansion"].matcher.clone().expect("a matcher");
    assert_eq!(matcher.split('|').map(str::to_owned).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn commands_are_plain_text_and_only_the_user_starts_or_cancels() {
    for name in names("commands") {
        let path = format!("plugin/commands/{name}.md");
        let (head, body) = page(&path);
        assert!(head["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}");
        assert_eq!(head.get("allowed-tools"), None, "{path}: nothing is run");
        for shell in ["!`", "```!", "$ARGUMENTS", "${", "$0", "$1"] {
            assert!(!body.contains(shell), "{path}: `{shell}`");
        }
        let persons_own = matches!(name.as_str(), "ralph-loop" | "cancel-ralph");
        assert_eq!(head.get("disable-model-invocation"), persons_own.then_some(&json!(true)), "{path}");
    }
    let (head, _) = page("plugin/commands/ralph-loop.md");
    let hint = head["argument-hint"].as_str().expect("a hint");
    for option in ["--completion-promise", "--max-iterations", "--openspec", "--tasks"] {
        assert!(hint.contains(option), "{hint}");
    }
}

#[test]
fn the_check_agent_is_the_one_that_init_writes() {
    assert_eq!(text("plugin/agents/check.md"), installed().read(".claude/agents/check.md"));
}

#[test]
fn every_role_ends_with_its_typed_lines() {
    let roles: [(&str, &[&str]); 5] = [
        ("ralph-auditor", &["AUDIT: PASS", "AUDIT: FAIL"]),
        ("ralph-coder", &["CODE: DONE"]),
        ("ralph-debugger", &["DIAGNOSIS: DONE"]),
        ("ralph-reviewer", &["REVIEW: APPROVE", "REVIEW: REJECT"]),
        ("ralph-tester", &["TESTS: PASS", "TESTS: FAIL"]),
    ];
    let expected = roles.iter().map(|(name, _)| *name).chain(["check"]).map(str::to_owned).collect();
    assert_eq!(names("agents"), expected);
    for name in names("agents") {
        let (head, _) = page(&format!("plugin/agents/{name}.md"));
        assert_eq!(head["name"], name.as_str());
        assert!(head["description"].as_str().is_some_and(|text| text.contains("Use it")), "{name}");
    }
    for (name, lines) in roles {
        let (_, body) = page(&format!("plugin/agents/{name}.md"));
        let (message, last) = body.rsplit_once("\n\n").expect("paragraphs");
        assert_eq!(last.lines().collect::<Vec<_>>(), lines, "{name}");
        assert!(message.contains("exactly one line"), "{name}: the text says that the line is the last");
    }
}

#[test]
fn the_skills_have_their_names_and_iterate_is_a_fork_with_its_tools() {
    assert_eq!(names("skills"), ["ralph-audit", "ralph-iterate"].map(str::to_owned).into());
    for name in names("skills") {
        let (head, _) = page(&format!("plugin/skills/{name}/SKILL.md"));
        assert_eq!(head["name"], name.as_str());
        assert!(head["description"].as_str().is_some_and(|text| text.contains("Triggers: ")), "{name}");
    }
    let (iterate, body) = page("plugin/skills/ralph-iterate/SKILL.md");
    assert_eq!((&iterate["context"], &iterate["agent"]), (&json!("fork"), &json!("general-purpose")));
    assert_eq!(
        iterate["allowed-tools"],
        json!(["LSP", "Task", "Read", "Edit", "Write", "Bash", "Glob", "Grep"])
    );
    for trigger in ["loop until done", "iterate", "keep trying", "fix until passing"] {
        assert!(
            iterate["description"].as_str().is_some_and(|text| text.contains(&format!("'{trigger}'"))),
            "{trigger}"
        );
    }
    // A fork begins with an empty context: the task has to be in its prompt.
    assert!(body.contains("Task: $ARGUMENTS"));
}

#[test]
fn the_audit_skill_shows_one_decision_line() {
    let (_, body) = page("plugin/skills/ralph-audit/SKILL.md");
    let (_, report) = body.split_once("```markdown\n").expect("a report");
    let (report, _) = report.split_once("```").expect("its end");
    let decisions: Vec<&str> = report.lines().filter(|line| line.starts_with("Decision:")).collect();
    assert_eq!(decisions, ["Decision: PASS"]);
    // Filled in, it is what the check of a loop wants.
    let problem =
        |open: &str| ralph_core::claims::quality_files::audit_problem(&report.replace("<open>", open));
    assert_eq!(problem("0"), None);
    assert!(problem("1").is_some());
    assert!(body.contains("`docs/AUDIT-REPORT.md`"));
}
