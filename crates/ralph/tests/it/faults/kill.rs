//! Kills from outside at any time, and folders that are deleted between two stops.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use super::oracle::{Kept, Tail};
use super::saved::{age, unfinished};
use ralph_testkit::Sandbox;

#[test]
fn law_9_a_hook_killed_at_any_time_loses_no_count() {
    const SLOW: &str = "verify:\n  - sleep 0.05; test -e done.txt\nbudget: {attempts: 10000}\n";
    let sandbox = Sandbox::gated(SLOW);
    let home = sandbox.ralph_home();
    let (mut attempts, mut killed, mut seed) = (0, 0, 7u64);
    for _ in 0..60 {
        let mut child = sandbox.stop("check").spawn();
        // Any spread of times will do, as long as it is the same each time.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        sleep(Duration::from_micros((seed >> 33) % 160_000));
        killed += u32::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("a child of ours");
        child.wait().expect("an end");
        let kept = Kept::look(&home, Tail::MayBeTorn).expect("sound after a kill");
        let now = kept.loop_named("check").map_or(0, |ledger| ledger.state.attempts);
        assert!(now == attempts || now == attempts + 1, "from {attempts} to {now}");
        attempts = now;
    }
    age(&unfinished(&home));
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains(&format!("iteration {}", attempts + 1)), "{reason} after {attempts}");
    sandbox.file("done.txt", "");
    sandbox.stop("check").answer().allowed();
    Kept::look(&home, Tail::Whole).expect("sound in the end");
    assert_eq!(unfinished(&home), Vec::<std::path::PathBuf>::new());
    ralph_testkit::note(format_args!(
        "faults: {killed} of 60 hooks killed at work, {attempts} had been judged"
    ));
}

/// Without its home ralph knows neither the loop nor the accepted gates: nothing runs, and the message says so.
#[test]
fn a_home_deleted_during_a_loop_does_not_crash() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.stop("check").answer().blocked();
    fs::remove_dir_all(sandbox.ralph_home()).expect("gone");
    let message = sandbox.stop("check").answer().allowed().expect("something is said");
    assert!(message.contains("are not accepted yet"), "{message}");
    sandbox.trust();
    assert!(sandbox.stop("check").answer().blocked().0.contains("iteration 1/5"));
}

/// The trust still exists, the loop does not: it restarts.
#[test]
fn a_loop_whose_ledger_is_deleted_restarts_and_blocks() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.stop("check").answer().blocked();
    fs::remove_dir_all(sandbox.ralph_home().join("repos")).expect("gone");
    assert!(sandbox.stop("check").answer().blocked().0.contains("iteration 1/5"));
}
