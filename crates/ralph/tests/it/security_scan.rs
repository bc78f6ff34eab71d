//! The security scan that `ralph init` proposes where semgrep is installed. Here semgrep is a script with the exit
//! codes of
//! the real one, which is tested in `tests/ecosystems`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use ralph_testkit::{MAKE, Sandbox, search_path};

/// A project with one gate, and a semgrep that runs this script.
fn with_semgrep(script: &str) -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.file("Makefile", "test:\n\ttrue\n");
    sandbox.program("make", MAKE);
    sandbox.program("semgrep", script);
    sandbox
}

#[test]
fn findings_fail_and_a_scan_that_did_not_run_is_an_error() {
    // The observed exit codes of semgrep 1.182: findings with --error are 1, no rules reachable 2, no such rules 7.
    let table = [("exit 0", "passed"), ("echo found; exit 1", "failed"), ("exit 2", "could not start")];
    let more = [("exit 7", "could not start"), ("kill -9 $$", "could not start")];
    for (script, word) in table.into_iter().chain(more) {
        let sandbox = with_semgrep(script);
        sandbox.ralph(&["init", "--yes", "--no-try"]).success();
        let text = sandbox.read("ralph.yaml");
        assert!(text.contains("- { name: security, run: \"semgrep scan --config auto --error "), "{text}");
        assert!(text.contains(", timeout: 10m }"), "{text}");
        let seen = sandbox.verify(&["--keep-going"]);
        let gates = seen["gates"].as_array().unwrap_or_else(|| panic!("{seen:#}"));
        let scan = gates.iter().find(|gate| gate["name"] == "security").unwrap_or_else(|| panic!("{seen:#}"));
        let outcome = scan["outcome"]["kind"].as_str().unwrap_or_default().replace('_', " ");
        assert_eq!(outcome, word, "{script}: {seen:#}");
        assert_eq!(seen["verdict"] == json!("verified"), word == "passed", "{script}: {seen:#}");
    }
}

#[test]
fn semgrep_gets_the_severities_that_block() {
    let sandbox = with_semgrep("echo \"$@\" > words; exit 0");
    sandbox.file(".gitignore", "words\n");
    sandbox.ralph(&["init", "--yes", "--no-hooks"]).success().says("(semgrep is installed)");
    assert_eq!(sandbox.read("words"), "scan --config auto --error --severity ERROR --severity WARNING\n");
}

#[test]
fn a_scan_that_fails_its_trial_run_is_written_as_a_comment() {
    let sandbox = with_semgrep("echo no rules >&2; exit 2");
    sandbox.ralph(&["init", "--yes", "--no-hooks"]).success();
    let text = sandbox.read("ralph.yaml");
    assert!(
        text.contains("  # - { name: security, ") && text.contains("could not start when tried"),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_run_is_not_installed() {
    let sandbox = with_semgrep("exit 0");
    let program = sandbox.home().join("bin/semgrep");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).expect("not executable");
    let shown = sandbox.ralph(&["init", "--dry-run"]).success().stdout;
    let elsewhere = std::env::split_paths(&search_path()).any(|folder| folder.join("semgrep").exists());
    assert_eq!(shown.contains("semgrep"), elsewhere, "{shown}");
}
