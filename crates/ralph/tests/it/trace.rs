//! `RALPH_TRACE` and `-v`: what ralph does, step by step, with times.

use ralph_testkit::Sandbox;

/// The steps of a trace: how long each took in milliseconds, and what it was.
fn steps(trace: &str) -> Vec<(f64, String)> {
    let step = |line: &str| {
        let mut words = line.split_whitespace();
        let took = words.nth(3)?.parse().ok()?;
        Some((took, words.skip(1).collect::<Vec<_>>().join(" ")))
    };
    trace.lines().map(|line| step(line).unwrap_or_else(|| panic!("`{line}` is no step"))).collect()
}

#[test]
fn a_blocked_stop_reads_as_the_flow_and_its_times_add_up() {
    let mut sandbox = Sandbox::gated("verify: [{name: test, run: sleep 2; exit 3}]\n");
    let trace = sandbox.path("../trace.txt");
    sandbox.set("RALPH_TRACE", trace.to_string_lossy());
    let answer = sandbox.stop("check").answer();
    answer.blocked();
    let whole = answer.took.as_secs_f64() * 1000.0;
    let steps = steps(&std::fs::read_to_string(&trace).expect("a trace"));
    let words: Vec<&str> = steps.iter().map(|(_, what)| what.as_str()).collect();
    assert_eq!(
        words,
        [
            "read the event `SubagentStop`",
            "found the repo and its effective gates: 1",
            "decided: look at the checks",
            "took the lock of this repo's gates",
            "read the tree: 1 files",
            "ran the gate `test`: failed",
            "read the tree again: 0 files changed",
            "decided: block, gates_failed",
            "answered: block",
            "finished",
        ]
    );
    // The gate takes long enough that starting the hook on a busy machine stays within the tenth.
    let sum: f64 = steps.iter().map(|(took, _)| took).sum();
    assert!((whole * 0.9..=whole).contains(&sum), "{sum} ms of {whole} ms");
}

#[test]
fn verbose_prints_the_steps_to_stderr_and_nothing_of_it_to_stdout() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    let plain = sandbox.ralph(&["verify", "--json"]).success();
    let verbose = sandbox.ralph(&["-v", "verify", "--json"]).success();
    assert_eq!(plain.stderr, "");
    assert!(steps(&verbose.stderr).iter().any(|(_, what)| what.starts_with("decided: allow as verified")));
    assert!(!verbose.stdout.contains("decided:"), "{}", verbose.stdout);
}

#[test]
fn a_trace_that_cannot_be_written_is_said_and_changes_nothing() {
    let mut sandbox = Sandbox::gated("verify: ['false']\n");
    sandbox.set("RALPH_TRACE", sandbox.project().to_string_lossy().into_owned());
    let answer = sandbox.stop("check").answer();
    answer.blocked();
    assert!(answer.ran.stderr.contains("RALPH_TRACE: cannot write"), "{}", answer.ran.stderr);
}
