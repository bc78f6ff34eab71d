//! Laws that only the real binary can show; the others are properties of the pure step (`decide/tests.rs` of the core).

use std::fs;
use std::time::Duration;

use ralph_testkit::{Sandbox, verify_list};

/// Processes with this sandbox's home in their environment: everything that was started for it. Linux only.
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
fn law_8_ralph_ends_every_process_it_starts_and_none_keeps_the_hook_stdout_open() {
    let program = ralph_testkit::misbehave_program();
    for trick in ["daemon", "quiet-daemon", "double-daemon", "ignore-term", "hang", "flood 3000000"] {
        let gate = format!("{{run: '{} {trick}; exit 1', timeout: 1s}}", program.display());
        let sandbox = Sandbox::gated(&format!("verify:\n  - {gate}\n"));
        // `answer` reads stdout to its end: a process that kept it open would block here.
        let answer = sandbox.stop("check").answer();
        answer.blocked();
        assert!(answer.took < Duration::from_secs(12), "{trick}: {:?}", answer.took);
        assert_eq!(left_running(&sandbox), Vec::<String>::new(), "{trick}");
    }
}

#[test]
fn law_10_sessions_are_independent() {
    let sandbox = Sandbox::gated(&verify_list(&["test -e done.txt"]));
    for attempt in 1..=3 {
        let (reason, _) = sandbox.stop("check").session("one").answer().blocked();
        assert!(reason.contains(&format!("(iteration {attempt}/5)")), "{reason}");
    }
    // The same agent id in another session has a loop and a count of its own.
    let (reason, _) = sandbox.stop("check").session("two").answer().blocked();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
    // The end of one loop does not affect the other.
    sandbox.file("done.txt", "");
    sandbox.stop("check").session("two").answer().allowed().expect("verified");
    sandbox.remove("done.txt");
    let (reason, _) = sandbox.stop("check").session("one").answer().blocked();
    assert!(reason.contains("(iteration 4/5)"), "{reason}");
}
