//! `ralph verify`: exit codes, output for scripts, output for people.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::RALPH;
use ralph_testkit::{Sandbox, verify_list, wait_until};

#[test]
fn the_exit_code_is_the_verdict() {
    Sandbox::gated("verify: ['true']\n")
        .ralph(&["verify"])
        .exits(0)
        .says("Verification passed: All verify commands passed");
    Sandbox::gated("verify: ['false']\n")
        .ralph(&["verify"])
        .exits(1)
        .says("Verification failed: gate `false` failed");
    Sandbox::gated("verify: [no-such-program]\n").ralph(&["verify"]).exits(1).says("could not start");
    Sandbox::new().ralph(&["verify"]).exits(2).says("no gates: no ralph.yaml found");
    Sandbox::without_git().ralph(&["verify"]).exits(2).says("not inside a repository");
    Sandbox::gated("verify: []\n").ralph(&["verify"]).exits(2).says("its `verify:` list is empty");
    Sandbox::gated("enabled: false\nverify: ['true']\n").ralph(&["verify"]).exits(2).says("`enabled: false`");
    let untrusted = Sandbox::new();
    untrusted.file("ralph.yaml", "verify: ['true']\n");
    untrusted.ralph(&["verify"]).exits(3).says("ralph trust");
    untrusted.ralph(&["verify", "--no-such-flag"]).exits(2);
    untrusted.ralph(&["verfy"]).exits(2).says("verify");
}

#[test]
fn a_signal_ends_it_as_shells_expect() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let sandbox = Sandbox::new();
        let ready = sandbox.home().join("ready");
        sandbox.file("ralph.yaml", &verify_list(&[&format!("touch {}; sleep 30", ready.display())]));
        sandbox.trust();
        let mut child = sandbox.piped(&["verify"]);
        wait_until("the gate runs", || ready.exists());
        let begun = Instant::now();
        kill_process(Pid::from_child(&child), signal).expect("sent");
        assert_eq!(child.wait().expect("an end").code(), Some(code));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(sandbox.events_named("interrupted").len(), 1);
    }
}

#[test]
fn scripts_can_rely_on_these_keys() {
    let sandbox = Sandbox::gated("verify:\n  - run: test -e done.txt\n    name: test\n");
    let failed = sandbox.ralph(&["verify", "--json"]).exits(1).json();
    let keys: Vec<&str> = failed.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "code",
            "decision",
            "definition",
            "environment",
            "gates",
            "reason",
            "subset",
            "tree",
            "unsettled",
            "verdict"
        ]
    );
    let keys: Vec<&str> =
        failed["gates"][0].as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "advisory", "changed", "excerpt", "flaky", "log", "name", "outcome", "passed", "results",
            "reused", "run", "runs", "seconds"
        ]
    );
    assert_eq!(
        (&failed["decision"], &failed["reason"], &failed["verdict"], &failed["code"]),
        (
            &json!("block"),
            &json!("Verification failed: gate `test` failed"),
            &json!("blocked"),
            &json!("gates_failed")
        )
    );
    sandbox.file("done.txt", "");
    let passed = sandbox.ralph(&["verify", "--json"]).exits(0).json();
    assert_eq!(
        (&passed["decision"], &passed["reason"], &passed["verdict"], &passed["code"]),
        (
            &json!("allow"),
            &json!("Verification passed: All verify commands passed"),
            &json!("verified"),
            &json!("all_gates_passed")
        )
    );
}

#[test]
fn some_gates_are_not_all_gates() {
    let sandbox = Sandbox::gated(
        "verify:\n  - {run: 'true', name: lint}\n  - {run: 'false', name: test, needs: [lint]}\n",
    );
    let some = sandbox.ralph(&["verify", "lint", "--json"]).exits(0).json();
    assert_eq!((&some["subset"], &some["verdict"]), (&json!(true), &json!(null)));
    assert_eq!(some["reason"], "These gates passed; the others were not run");
    sandbox.ralph(&["verify", "test"]).exits(1);
    sandbox.ralph(&["verify", "tset"]).exits(2).says("unknown gate `tset`").says("did you mean `test`?");
    sandbox.stop("check").answer().blocked();
}

#[test]
fn a_gate_that_verifies_its_own_repo_is_refused() {
    let sandbox = Sandbox::gated(&verify_list(&[&format!("{RALPH} verify")]));
    let begun = Instant::now();
    let result = sandbox.ralph(&["verify", "--json"]).exits(1).json();
    assert!(result["gates"][0]["excerpt"].as_str().expect("text").contains("would deadlock"), "{result:#}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_typo_is_shown_with_its_line_and_a_hint() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox.file("ralph.yaml", "verfy: ['true']\n");
    let ran = sandbox
        .ralph(&["verify"])
        .exits(2)
        .says("unknown key `verfy`")
        .says("ralph.yaml:1:1")
        .says("did you mean `verify`?");
    assert!(ran.stderr.contains("verfy: ['true']") && ran.stderr.contains("^^^^^"), "{}", ran.stderr);
    sandbox.ralph(&["status"]).success().says("unknown key `verfy`");
    assert_eq!(sandbox.status()["problem"]["line"], 1);
}

#[test]
fn a_pipe_gets_no_escapes() {
    let sandbox = Sandbox::gated("verify: ['printf \"\\033[31mred\\033[0m\"; false']\n");
    for arguments in [
        &["verify"][..],
        &["verify", "--json"],
        &["status"],
        &["log"],
        &["trust", "--show"],
        &["--help"],
        &["nonsense"],
    ] {
        let ran = sandbox.ralph(arguments);
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{arguments:?}: {ran:#?}");
    }
}

#[test]
fn a_closed_pipe_does_not_crash() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    let mut child = sandbox.piped(&["verify"]);
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}

#[test]
fn a_plain_verify_blocks_no_agent_and_uses_no_attempt() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    let shown = sandbox.read(".trellis/.ralph-state.json");
    for _ in 0..6 {
        sandbox.ralph(&["verify"]).exits(1);
    }
    assert_eq!(sandbox.read(".trellis/.ralph-state.json"), shown);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("2/5"), "{reason}");
}

/// A repo whose compiler gate fails in two places, after a gate that passes.
fn with_two_problems() -> Sandbox {
    Sandbox::gated(
        "verify:\n  - {name: style, run: 'true'}\n  - name: build\n    run: |\n      \
         echo \"$PWD/src/a.c:3:5: error: unknown type name 'x'\"\n      \
         echo 'src/b.c:14:1: error: expected ; before }'\n      exit 1\n",
    )
}

#[test]
fn failures_are_listed_under_their_gate() {
    let sandbox = with_two_problems();
    let ran = sandbox.ralph(&["verify"]).exits(1);
    ran.says("gate `build` failed with exit code 1: 2 problems")
        .says("  src/a.c:3:5  unknown type name 'x'")
        .says("  src/b.c:14:1  expected ; before }");
    let gates = sandbox.ralph(&["verify", "--json"]).exits(1).json()["gates"].clone();
    assert_eq!(gates[0]["results"], json!(null));
    let problem = &gates[1]["results"]["problems"][1];
    assert_eq!(
        problem,
        &json!({"file": "src/b.c", "line": 14, "column": 1, "severity": "error", "message": "expected ; before }"})
    );
}

#[test]
fn other_tools_get_the_failures_in_their_own_format() {
    let mut sandbox = with_two_problems();
    let (junit, sarif) = (sandbox.home().join("verify.xml"), sandbox.home().join("verify.sarif"));
    let (junit, sarif) = (junit.to_str().expect("a path"), sarif.to_str().expect("a path"));
    sandbox.ralph(&["verify", "--junit", junit, "--sarif", sarif, "--json"]).exits(1);
    let xml = std::fs::read_to_string(junit).expect("a report");
    assert!(
        xml.contains("<testsuites name=\"ralph verify\" tests=\"4\" failures=\"3\" errors=\"0\">"),
        "{xml}"
    );
    assert!(xml.contains("<failure type=\"failed\" message=\"expected ; before }\">src/b.c:14:1\n"), "{xml}");
    let log: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(sarif).expect("a report")).expect("JSON");
    assert_eq!((&log["version"], &log["runs"][0]["results"]), (&json!("2.1.0"), &json!([])));
    let place = &log["runs"][1]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "src/a.c", "a path from the repo: {log:#}");
    assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 5}));
    // Annotations are printed on request, and inside GitHub Actions.
    let annotation = "::error file=src/a.c,line=3,col=5,title=build::unknown type name 'x'\n";
    let printed = |sandbox: &Sandbox, more: &[&str]| {
        let ran = sandbox.ralph(&[&["verify"], more].concat()).exits(1);
        (ran.stdout.contains(annotation), ran.stderr.contains(annotation))
    };
    assert_eq!(printed(&sandbox, &[]), (false, false));
    assert_eq!(printed(&sandbox, &["--annotations", "github"]), (true, false));
    sandbox.set("GITHUB_ACTIONS", "true");
    assert_eq!(printed(&sandbox, &[]), (true, false));
    assert_eq!(printed(&sandbox, &["--json"]), (false, true));
    assert_eq!(printed(&sandbox, &["--annotations", "none"]), (false, false));
    sandbox.ralph(&["verify", "--junit", "/no/such/folder/x.xml"]).exits(2).says("cannot write");
}

#[test]
fn a_mistyped_gate_gets_a_suggestion() {
    let sandbox =
        Sandbox::gated("verify:\n  - name: test\n    run: 'true'\n  - name: lint\n    run: 'true'\n");
    sandbox.ralph(&["verify", "tst"]).exits(2).says("unknown gate `tst`").says("did you mean `test`?");
    sandbox.ralph(&["verify", "something"]).exits(2).says("there are: `test`, `lint`");
}

/// Whether to accept a file is no question while it cannot be read.
#[test]
fn a_config_that_cannot_be_read_is_told_with_line_and_key_before_trust() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", "verify:\n  - run: 'true'\n    tiemout: 5m\n");
    for words in [&["verify"][..], &["loop", "x", "--agent", "command:true"]] {
        let ran = sandbox.ralph(words).exits(2).says("unknown key `tiemout`").says("ralph.yaml:3");
        assert!(
            ran.stderr.contains("did you mean `timeout`?") && !ran.stderr.contains("accepted"),
            "{ran:#?}"
        );
    }
}
