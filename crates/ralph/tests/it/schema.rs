//! Keeps generated and duplicated files current.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ralph_core::config::{Config, Defaults};
use ralph_core::ledger::event::Event;
use ralph_core::model::layout::Layout;
use serde_json::Value;

use ralph_testkit::Sandbox;

fn schema_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(name)
}

/// `RALPH_BLESS=1 cargo test -p ralph --test it schema` rewrites it.
#[test]
fn the_schema_of_the_events_is_current() {
    let made = serde_json::to_string_pretty(&schemars::schema_for!(Event)).expect("JSON") + "\n";
    let path = schema_file("event.schema.json");
    if std::env::var_os("RALPH_BLESS").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let there = std::fs::read_to_string(&path).expect("schema/event.schema.json");
    assert_eq!(there, made, "run it once with RALPH_BLESS=1");
}

/// The keys that the parser knows at a place, from its error message for an unknown key.
fn known_keys(config: &str) -> BTreeSet<String> {
    let problem = Config::parse(config, Layout::Native, &Defaults::default()).expect_err("an unknown key");
    let list = problem.hint.strip_prefix("there are: ").unwrap_or_else(|| panic!("{problem:?}"));
    list.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

fn properties(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().expect("properties").keys().cloned().collect()
}

#[test]
fn the_schema_of_ralph_yaml_has_exactly_the_keys_that_the_parser_knows() {
    let text = std::fs::read_to_string(schema_file("ralph.schema.json")).expect("schema/ralph.schema.json");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(properties(&schema), known_keys("zzzzzzzzzz: 1\n"));
    assert_eq!(properties(&schema["$defs"]["gate"]["oneOf"][2]), known_keys("verify: [{zzzzzzzzzz: 1}]\n"));
    assert_eq!(properties(&schema["$defs"]["budget"]), known_keys("budget: {zzzzzzzzzz: 1}\n"));
    assert_eq!(properties(&schema["$defs"]["agent"]), known_keys("agents: {a: {zzzzzzzzzz: 1}}\n"));
}

#[test]
fn schemas_completions_and_the_manual_page_are_printed() {
    let sandbox = Sandbox::without_git();
    for of in ["config", "events"] {
        assert!(sandbox.ralph(&["schema", of]).success().json().is_object());
    }
    for shell in ["bash", "zsh", "fish"] {
        sandbox.ralph(&["completions", shell]).success().says("RALPH_COMPLETE");
    }
    sandbox.ralph(&["man"]).success().says(".TH ralph 1");
}

#[test]
fn every_command_has_one_line_of_help_and_an_example() {
    let sandbox = Sandbox::without_git();
    let help = sandbox.ralph(&["--help"]).success().stdout;
    let commands = [
        "init",
        "verify",
        "ls",
        "show",
        "status",
        "log",
        "report",
        "start",
        "state",
        "pause",
        "resume",
        "cancel",
        "reset",
        "trust",
        "doctor",
        "completions",
        "schema",
        "hook",
    ];
    for command in commands {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in {help}");
        let own = sandbox.ralph(&[command, "--help"]).success().stdout;
        assert!(own.contains("Example"), "{command}: {own}");
    }
}
