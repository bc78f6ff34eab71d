//! What went wrong in zenithjoy-engine, inverted: one test for each observed bug that is about shipping. Number 4 is
//! `never_fooled::one_failing_check_among_good_ones_fails` too, number 8
//! `headless::a_gate_that_rewrites_tracked_evidence_settles_and_is_merged`.

use ralph_testkit::{ForgeFault, ScriptedCheck, Session};
use serde_json::json;

use crate::scene::Scene;

fn run(name: &str, conclusion: &str) -> ScriptedCheck {
    ScriptedCheck::run(name, conclusion)
}

/// A pushed branch with an open pull request.
fn with_pull_request() -> Scene {
    let scene = Scene::new("");
    scene.sandbox.git(&["switch", "-q", "-c", "feature"]);
    scene.sandbox.file("work.txt", "fixed\n");
    scene.sandbox.git(&["commit", "-q", "-a", "-m", "work"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    scene.forge.add_pull("feature", "OPEN", None, None);
    scene
}

fn phase(scene: &Scene) -> String {
    scene.sandbox.ralph(&["phase", "--json"]).exits(0).json()["phase"].as_str().expect("a phase").to_owned()
}

#[test]
fn zenithjoy_engine_01_the_second_stop_of_a_turn_is_blocked_like_the_first() {
    let scene = Scene::new("");
    scene.sandbox.git(&["switch", "-q", "-c", "feature"]);
    let talk = Session::new(&scene.sandbox);
    talk.command("ralph-loop", "\"x\" --until pr");
    talk.agent_works_with("Edit").stops("done").blocked();
    for _ in 0..3 {
        talk.agent_works_with("Edit").stop("done").with("stop_hook_active", true).answer().blocked();
    }
}

#[test]
fn zenithjoy_engine_02_p0_ends_with_an_open_pull_request_while_ci_is_pending() {
    let scene = with_pull_request();
    scene.forge.ci(|_| vec![ScriptedCheck::pending("build")]);
    let talk = Session::new(&scene.sandbox);
    talk.command("ralph-loop", "\"x\" --until pr");
    talk.agent_works_with("Bash").stops("done").allowed();
    // The pull request exists; nothing in it shows the task.
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "passing"}));
}

#[test]
fn zenithjoy_engine_03_a_failing_gh_is_never_no_pull_request() {
    let scene = with_pull_request();
    for _ in 0..4 {
        scene.forge.fault("look", ForgeFault::Status(500));
    }
    assert_eq!(phase(&scene), "unknown");
    assert_eq!(phase(&scene), "p2", "it works again");
}

#[test]
fn zenithjoy_engine_04_every_check_counts_and_a_merged_pull_request_is_merged() {
    let scene = with_pull_request();
    let table = [
        (vec![run("a", "SUCCESS"), run("b", "FAILURE"), ScriptedCheck::pending("c")], "p1"),
        (vec![run("a", "SUCCESS"), ScriptedCheck::pending("b")], "pending"),
        (vec![run("a", "SUCCESS"), run("b", "SKIPPED")], "p2"),
        (vec![run("a", "SUCCESS"), run("b", "CANCELLED")], "p1"),
        (vec![], "pending"),
    ];
    for (checks, expected) in table {
        let answer = checks.clone();
        scene.forge.ci(move |_| answer.clone());
        assert_eq!(phase(&scene), expected, "{checks:?}");
    }
    let scene = Scene::new("");
    scene.sandbox.git(&["switch", "-q", "-c", "feature"]);
    scene.forge.add_pull("feature", "MERGED", None, Some("0000000"));
    assert_eq!(phase(&scene), "merged");
}

#[test]
fn zenithjoy_engine_05_and_07_the_contents_of_gate_file_and_evidence_are_read() {
    let scene = with_pull_request();
    let blocked = |why: &str| {
        let ran = scene.sandbox.ralph(&["hook", "exit-code", "--until", "pr"]).exits(2);
        assert!(ran.stderr.contains(why), "{ran:#?}");
    };
    scene.sandbox.file("docs/AUDIT-REPORT.md", "Decision: PASS\n");
    blocked(".layer2-evidence.md` is missing");
    scene.sandbox.file(".layer2-evidence.md", "# Evidence\n");
    blocked("it has no item");
    scene.sandbox.file(".layer2-evidence.md", "- it runs\n");
    scene.sandbox.file(".quality-gate-passed", "typecheck: PASS\ntest: FAIL\n");
    blocked("test: fail");
}

#[test]
fn zenithjoy_engine_06_a_newer_file_of_any_kind_makes_the_claims_old_and_a_checkout_does_not() {
    let scene = with_pull_request();
    let claims = || {
        scene.sandbox.file("docs/AUDIT-REPORT.md", "Decision: PASS\n");
        scene.sandbox.file(".layer2-evidence.md", "- it runs\n");
        scene.sandbox.file(".quality-gate-passed", "test: PASS\n");
    };
    let exit_code = |code: i32| scene.sandbox.ralph(&["hook", "exit-code", "--until", "pr"]).exits(code);
    claims();
    scene.sandbox.git(&["add", "-A"]);
    scene.sandbox.git(&["commit", "-q", "-m", "claims"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    exit_code(0);
    // The code gets a new time and stays the same.
    scene.sandbox.file("work.txt", "fixed\n");
    exit_code(0);
    scene.sandbox.file("anything.rs", "fn main() {}\n");
    assert!(exit_code(2).stderr.contains("older than the code"));
}

#[test]
fn zenithjoy_engine_09_blocked_is_exit_code_2_with_the_reason_and_nothing_on_stdout() {
    let scene = Scene::new("");
    scene.sandbox.git(&["switch", "-q", "-c", "feature"]);
    let ran = scene.sandbox.ralph(&["hook", "exit-code", "--until", "pr"]).exits(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("AUDIT-REPORT.md` is missing") && ran.stderr.contains("next:"), "{ran:#?}");
    assert_eq!(scene.sandbox.ralph(&["hook", "exit-code"]).exits(1).stdout, "", "a wrong call blocks nobody");
}

#[test]
fn zenithjoy_engine_10_nothing_that_the_agent_says_or_writes_ends_a_run_before_ci() {
    let scene = with_pull_request();
    scene.forge.ci(|_| vec![run("build", "FAILURE")]);
    let talk = Session::new(&scene.sandbox);
    talk.command("ralph-loop", "\"x\" --until merged");
    scene.sandbox.file(".dev-mode", "step_9_ci: done\nci_passed: true\n");
    scene.sandbox.git(&["add", "-A"]);
    scene.sandbox.git(&["commit", "-q", "-m", "flags"]);
    scene.sandbox.git(&["push", "-q", "origin", "HEAD:refs/heads/feature"]);
    let (reason, _) =
        talk.agent_works_with("Bash").stops("<promise>CI_PASSED</promise> merged, all done").blocked();
    assert!(reason.contains("CI failed"), "{reason}");
    assert_eq!(scene.forge.merges_and_creates().0, 0);
}

#[test]
fn zenithjoy_engine_11_another_session_is_not_blocked_by_this_ones_loop() {
    let scene = Scene::new("");
    scene.sandbox.git(&["switch", "-q", "-c", "feature"]);
    let talk = Session::new(&scene.sandbox);
    talk.command("ralph-loop", "\"x\" --until pr");
    Session::named(&scene.sandbox, "another").stops("done").silent();
    talk.agent_works_with("Edit").stops("done").blocked();
}
