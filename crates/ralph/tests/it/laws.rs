//! Laws that only the real binary can show; the others are properties of the pure step (`decide/tests.rs` of the core).

use std::fs;
use std::time::Duration;

use crate::support::{Sandbox, verify_list};

/// Processes that carry this sandbox's home in their environment: everything that was started for it. Only Linux tells.
fn left_running(sandbox: &Sandbox) -> Vec<String> {
    let mark = format!("HOME={}", sandbox.home().display());
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let marked = entries.flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    marked.map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default()).collect()
}

#[test]
fn law_8_what_we_start_we_end_and_nothing_holds_the_hooks_stdout() {
    let program = ralph_testkit::misbehave();
    for trick in ["daemon", "quiet-daemon", "double-daemon", "ignore-term", "hang", "flood 3000000"] {
        let gate = format!("{{run: '{} {trick}; exit 1', timeout: 1s}}", program.display());
        let sandbox = Sandbox::gated(&format!("verify:\n  - {gate}\n"));
        // `answer` reads stdout to its end: a process that still held it would keep us here.
        let answer = sandbox.stop("check").answer();
        answer.held();
        assert!(answer.took < Duration::from_secs(12), "{trick}: {:?}", answer.took);
        assert_eq!(left_running(&sandbox), Vec::<String>::new(), "{trick}");
    }
}

#[test]
fn law_10_sessions_are_strangers() {
    let sandbox = Sandbox::gated(&verify_list(&["test -e done.txt"]));
    for attempt in 1..=3 {
        let (reason, _) = sandbox.stop("check").session("one").answer().held();
        assert!(reason.contains(&format!("(iteration {attempt}/5)")), "{reason}");
    }
    // The same agent id in another session has a loop and a count of its own.
    let (reason, _) = sandbox.stop("check").session("two").answer().held();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
    // And what ends one loop leaves the other as it is.
    sandbox.file("done.txt", "");
    sandbox.stop("check").session("two").answer().let_go().expect("verified");
    sandbox.remove("done.txt");
    let (reason, _) = sandbox.stop("check").session("one").answer().held();
    assert!(reason.contains("(iteration 4/5)"), "{reason}");
}
