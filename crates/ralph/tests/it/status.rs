//! `ralph status`: the current state, for people and for scripts.

use serde_json::json;

use ralph_testkit::{Sandbox, wait_until};

#[test]
fn scripts_can_rely_on_these_keys() {
    let status = Sandbox::gated("verify: ['true']\n").status();
    let keys: Vec<&str> = status.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "accepted",
            "config",
            "definition",
            "gate_timeout",
            "gates",
            "guard",
            "limits",
            "loops",
            "problem",
            "root",
            "trust",
            "unused_configs"
        ]
    );
}

#[test]
fn every_number_names_its_source() {
    let sandbox = Sandbox::gated("verify: ['true']\nbudget: {attempts: 7}\n");
    sandbox.user_config("budget: {attempts: 9, errors: 4}\n");
    let limits = &sandbox.status()["limits"];
    assert_eq!(limits["attempts"], json!({"value": {"at_most": 7}, "origin": "repo_file"}));
    assert_eq!(limits["errors"], json!({"value": 4, "origin": "user_file"}));
    assert_eq!(limits["on_exhausted"], json!({"value": "release", "origin": "default"}));
    sandbox
        .ralph(&["status"])
        .success()
        .says("7 (the repo's config) attempts")
        .says("4 (your config) consecutive errors");
}

#[test]
fn status_describes_every_state_of_a_repo() {
    Sandbox::without_git().ralph(&["status"]).exits(2).says("not inside a repository");
    let sandbox = Sandbox::new();
    sandbox.ralph(&["status"]).success().says("no ralph.yaml found; nothing is blocked").says("none yet");
    sandbox.file("ralph.yaml", "verify: [test -e done.txt]\n");
    sandbox.ralph(&["status"]).success().says("is not accepted");
    sandbox.trust();
    sandbox.stop("check").answer().blocked();
    sandbox.ralph(&["status"]).success().says("blocked, 1 of 5").says("Failed gate(s): test -e done.txt");
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().allowed().expect("gates pass");
    sandbox.ralph(&["status"]).success().says("gates pass, task not shown");
    sandbox.ralph(&["trust", "--revoke"]).success();
    sandbox.ralph(&["status"]).success().says("trust was revoked");
}

#[test]
fn a_loop_can_be_named_by_its_prefix() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.stop("check").agent("a").answer().blocked();
    sandbox.verify(&[]);
    let one = sandbox.ralph(&["status", "verify", "--json"]).success().json();
    assert_eq!(one["loops"].as_array().expect("loops").len(), 1);
    sandbox.ralph(&["status", "nothing-like-it"]).exits(2).says("no loop `nothing-like-it`");
    sandbox.stop("check").agent("b").answer().blocked();
    sandbox.ralph(&["status", "check"]).success().says("`check` matches 2 loops");
    sandbox.ralph(&["cancel", "check"]).exits(2).says("matches several loops");
}

#[test]
fn a_damaged_ledger_is_shown() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    let ledger =
        sandbox.remembered().into_iter().find(|name| name.ends_with("ledger.jsonl")).expect("a ledger");
    let path = sandbox.ralph_home().join(ledger);
    let text = std::fs::read_to_string(&path).expect("lines");
    std::fs::write(&path, text.replacen("gates_failed", "gates_passed", 1)).expect("tampered");
    sandbox.ralph(&["status"]).success().says("ledger damaged at line");
    assert!(sandbox.status()["loops"][0]["damage"].is_string());
}

#[test]
fn a_driven_loop_names_its_driver() {
    let sandbox = Sandbox::gated("verify: ['false']\n");
    let arguments = ["loop", "count", "--quiet", "--agent", "command:touch ../runs; exec sleep 60"];
    let mut driver = sandbox.command(&arguments).spawn().expect("the binary");
    wait_until("its agent runs", || sandbox.path("../runs").exists());
    let by = format!("driven by process {}", driver.id());
    sandbox.ralph(&["status"]).success().says(&by).says("#1 / 15");
    assert!(sandbox.ralph(&["doctor"]).stdout.contains(&by));
    driver.kill().expect("a child of ours");
    driver.wait().expect("an end");
    sandbox.ralph(&["status"]).success().says("open but not running; continue with `ralph resume`");
    sandbox.ralph(&["cancel"]).success().says("was at iteration 1");
}
