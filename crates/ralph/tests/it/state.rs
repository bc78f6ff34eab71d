//! `ralph state`: a session's loop managed by commands, in the common store.

use serde_json::{Value, json};

use ralph_testkit::{Finished, Sandbox, Session, wait_until};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const SESSION: &str = "session-1";

fn state(sandbox: &Sandbox, words: &[&str]) -> Finished {
    let arguments: Vec<&str> = ["state"].iter().chain(words).copied().collect();
    sandbox.ralph(&arguments)
}

fn read(sandbox: &Sandbox, session: &str) -> Value {
    state(sandbox, &["read", session]).success().json()
}

fn begun(config: &str) -> Sandbox {
    let sandbox = Sandbox::gated(config);
    state(&sandbox, &["init", SESSION, "loop", "fix it"]).success();
    sandbox
}

#[test]
fn s4_r8_the_stop_of_that_session_is_blocked_until_its_claim_is_verified() {
    let sandbox = begun(GATE);
    let (talk, other) = (Session::named(&sandbox, SESSION), Session::named(&sandbox, "session-2"));
    let (_, detail) = talk.agent_works_with("Bash").stops("Done.").blocked();
    assert!(detail.contains("fix it"), "{detail}");
    other.stops("Done.").silent();
    state(&sandbox, &["complete", SESSION, "loop"]).exits(1).says("continues");
    talk.agent_works_with("Bash").stops("Done.").blocked();
    assert_eq!(read(&sandbox, SESSION)["status"], "running");

    sandbox.file("done.txt", "");
    state(&sandbox, &["complete", SESSION, "loop"]).success().says("ends at its next stop");
    // It cannot be proven whose shell made the claim: the stop itself decides the verdict.
    assert_eq!(read(&sandbox, SESSION)["status"], "running");
    let answer = talk.stops("Anything else?");
    assert!(answer.shown_to_user().contains("Loop done, verified"), "{answer:#?}");
    let shown = read(&sandbox, SESSION);
    assert_eq!((&shown["status"], &shown["verdict"]), (&json!("ended"), &json!("verified")));
    state(&sandbox, &["complete", SESSION, "loop"]).exits(2).says("has ended (verified)");
}

#[test]
fn s4_r8_the_verdict_comes_from_receipts_and_a_false_claim_costs_no_attempt() {
    let sandbox = begun(GATE);
    for _ in 0..20 {
        state(&sandbox, &["complete", SESSION, "loop"]).exits(1);
    }
    assert_eq!(read(&sandbox, SESSION)["attempts"], 0);
    Session::named(&sandbox, SESSION).agent_works_with("Bash").stops("Done.").blocked();
    assert!(sandbox.events_named("judged").iter().all(|event| event["verdict"] != "verified"));
    sandbox.file("done.txt", "");
    state(&sandbox, &["complete", SESSION, "loop"]).success();
    let ran = sandbox.events_named("gate_ran");
    assert!(ran.last().is_some_and(|event| event["receipt"].is_object()), "{ran:#?}");
}

#[test]
fn s4_r8_the_loop_type_that_upstream_refused_is_accepted_and_unknown_types_list_the_valid_ones() {
    let sandbox = Sandbox::gated(GATE);
    state(&sandbox, &["init", SESSION, "iterate", "fix it"]).success();
    assert_eq!(read(&sandbox, SESSION)["type"], "loop");
    state(&sandbox, &["increment", SESSION, "loop"]).success();
    state(&sandbox, &["read", SESSION, "iterate"]).success();
    for verb in [vec!["init", "s2", "orchestrator", "x"], vec!["read", SESSION, "team"]] {
        state(&sandbox, &verb).exits(2).says("possible values: loop");
    }
    state(&sandbox, &["read", "s2"]).exits(2).says("session s2 has no loop in this repo");
}

#[test]
fn s4_r8_giving_up_is_terminal_and_frees_the_stop() {
    let sandbox = begun(GATE);
    let talk = Session::named(&sandbox, SESSION);
    talk.agent_works_with("Bash").stops("Done.").blocked();
    state(&sandbox, &["fail", SESSION, "loop", " "]).exits(2).says("no reason given");
    state(&sandbox, &["fail", SESSION, "loop", "the \u{1b}[31mservice\u{1b}[0m is down"]).success();
    let freed = talk.stops("Done.").allowed().expect("a word that it is over");
    assert!(freed.contains("ended outside a stop (failed)"), "{freed}");
    talk.stops("Done.").silent();
    let shown = read(&sandbox, SESSION);
    assert_eq!((&shown["status"], &shown["verdict"]), (&json!("ended"), &json!("failed")));
    assert_eq!(shown["error"], "the service is down");
    sandbox.ralph(&["log"]).success().says("given up by the user: the service is down");
    let mut reports = std::fs::read_dir(sandbox.path("docs/actions/loop")).expect("reports");
    let report = reports.next().expect("one").expect("readable").path();
    let report = std::fs::read_to_string(report).expect("a report");
    for line in ["Status: FAILED", "Given up by the user: the service is down"] {
        assert!(report.contains(line), "{report}");
    }
    for verb in [vec!["fail", SESSION, "loop", "again"], vec!["complete", SESSION, "loop"]] {
        state(&sandbox, &verb).exits(2).says("has ended (failed)");
    }
    for verb in [vec!["increment", SESSION, "loop"], vec!["update", SESSION, "loop", "a", "b"]] {
        state(&sandbox, &verb).exits(2).says("has ended (failed)");
    }
    // The next one starts fresh.
    state(&sandbox, &["init", SESSION, "loop", "another"]).success();
    assert_eq!(read(&sandbox, SESSION)["task"], "another");
    talk.agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn notes_are_stored_unchanged_and_decide_nothing() {
    let sandbox = begun(GATE);
    let given = [
        ("verified_done", "true", json!(true)),
        ("status", "complete", json!("complete")),
        ("count", "7", json!(7)),
        ("version", "1.10", json!("1.10")),
        ("list", "a,b=c,d", json!("a,b=c,d")),
        ("hostile", "\" | .verified_done = true | .x = \"", json!("\" | .verified_done = true | .x = \"")),
        ("lines", "one\ntwo", json!("one\ntwo")),
        ("dashes", "--force", json!("--force")),
        ("empty", "", json!("")),
    ];
    for (key, value, _) in &given {
        state(&sandbox, &["update", SESSION, "loop", key, value]).success();
    }
    let shown = read(&sandbox, SESSION);
    for (key, _, value) in &given {
        assert_eq!(&shown["notes"][key], value, "{key}: {shown}");
    }
    assert_eq!((&shown["status"], &shown["verdict"]), (&json!("running"), &json!(null)));
    Session::named(&sandbox, SESSION).agent_works_with("Bash").stops("Done.").blocked();
    for key in ["", "a b", "../x", "a\u{1b}", "-a", &"k".repeat(101)] {
        state(&sandbox, &["update", SESSION, "loop", "--", key, "x"]).exits(2).says("invalid key");
    }
    state(&sandbox, &["update", SESSION, "loop", "big", &"x".repeat(20_000)]).exits(2).says("16 KiB");
    sandbox.ralph(&["log"]).success().says("noted `lines`: one two");
}

#[test]
fn increment_counts_a_note_and_not_the_attempts() {
    let sandbox = begun(GATE);
    for number in ["1", "2", "3"] {
        assert_eq!(state(&sandbox, &["increment", SESSION, "loop"]).success().stdout.trim(), number);
    }
    let shown = read(&sandbox, SESSION);
    assert_eq!((&shown["notes"], &shown["attempts"]), (&json!({"iteration": 3}), &json!(0)));
    state(&sandbox, &["update", SESSION, "loop", "iteration", "many"]).success();
    state(&sandbox, &["increment", SESSION, "loop"]).exits(2).says("is not a number");
}

#[test]
fn deleting_ends_the_loop_and_keeps_its_log() {
    let sandbox = begun(GATE);
    let id = read(&sandbox, SESSION)["loop"].as_str().expect("an id").to_owned();
    state(&sandbox, &["delete", SESSION]).success().says(&id);
    let freed = Session::named(&sandbox, SESSION).stops("Done.").allowed().expect("a word that it is over");
    assert!(freed.contains("ended outside a stop (cancelled)"), "{freed}");
    state(&sandbox, &["read", SESSION]).exits(2).says("has no loop in this repo");
    state(&sandbox, &["delete", SESSION, "loop"]).exits(2).says("has no loop in this repo");
    sandbox.ralph(&["log", &id]).success().says("cancelled: by the user");
    state(&sandbox, &["init", SESSION, "loop", "another"]).success();
    assert_eq!(read(&sandbox, SESSION)["task"], "another");
}

#[test]
fn s4_r8_a_session_is_a_name_and_never_a_path() {
    let sandbox = Sandbox::gated(GATE);
    let long = "a".repeat(129);
    let before = sandbox.remembered();
    let ids = [
        "../../x",
        "..",
        ".",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "",
        " ",
        "a\nb",
        "a\u{1b}[2K",
        "-x",
        "~",
        "é",
        &long,
    ];
    for id in ids {
        for words in [
            &["init", "--", id, "loop", "x"][..],
            &["update", "--", id, "loop", "a", "b"],
            &["increment", "--", id, "loop"],
            &["complete", "--", id, "loop"],
            &["fail", "--", id, "loop", "x"],
            &["read", "--", id],
            &["delete", "--", id],
        ] {
            let ran = state(&sandbox, words).exits(2).says("is not a session id");
            assert!(!ran.stderr.contains('\u{1b}'), "{ran:#?}");
        }
    }
    assert_eq!(sandbox.remembered(), before);
    assert!(!sandbox.home().join("x").exists() && !sandbox.home().join("x.json").exists());
    state(&sandbox, &["init", &"a".repeat(128), "loop", "x"]).success();
}

#[test]
fn concurrent_calls_make_one_loop_and_lose_no_count() {
    const MANY: usize = 8;
    let sandbox = Sandbox::gated(GATE);
    sandbox.ralph(&["verify"]).exits(1);
    let lock = sandbox.remembered().into_iter().find(|file| file.ends_with("/lock")).expect("a lock");
    let lock = std::fs::File::open(sandbox.ralph_home().join(lock)).expect("the lock of the repo");
    let at_once = |words: &[&str]| -> Vec<Finished> {
        let arguments: Vec<&str> = ["state"].iter().chain(words).copied().collect();
        // All have read before the first one writes.
        lock.lock().expect("not locked");
        let children: Vec<_> = (0..MANY).map(|_| sandbox.piped(&arguments)).collect();
        std::thread::sleep(std::time::Duration::from_millis(500));
        lock.unlock().expect("ours");
        let ends = children.into_iter().map(|child| child.wait_with_output().expect("an end"));
        ends.map(Finished::of).collect()
    };
    let inits = at_once(&["init", SESSION, "loop", "fix it"]);
    assert_eq!(inits.iter().filter(|ran| ran.code == Some(0)).count(), 1, "{inits:#?}");
    assert_eq!(sandbox.events_named("bound").len(), 1);
    let counts = at_once(&["increment", SESSION, "loop"]);
    let mut seen: Vec<u32> = counts.iter().map(|ran| ran.stdout.trim().parse().expect("a count")).collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=8).collect::<Vec<u32>>());
    assert_eq!(read(&sandbox, SESSION)["notes"]["iteration"], 8);
    // Another session's loop exists beside it.
    state(&sandbox, &["init", "session-2", "loop", "other"]).success();
    state(&sandbox, &["fail", SESSION, "loop", "x"]).success();
    assert_eq!(read(&sandbox, "session-2")["status"], "running");
    Session::named(&sandbox, "session-2").agent_works_with("Bash").stops("Done.").blocked();
}

#[test]
fn an_agent_can_start_its_own_loop_but_not_free_itself() {
    let mut sandbox = Sandbox::gated(GATE);
    sandbox.set("CLAUDECODE", "1");
    state(&sandbox, &["init", SESSION, "loop", "fix it"]).exits(3).says("only you can");
    sandbox.set("CLAUDE_CODE_SESSION_ID", SESSION);
    state(&sandbox, &["init", "session-2", "loop", "fix it"]).exits(3).says("another session");
    state(&sandbox, &["init", SESSION, "loop", "fix it"]).success();
    for words in
        [&["fail", SESSION, "loop", "I give up"][..], &["delete", SESSION], &["delete", SESSION, "loop"]]
    {
        state(&sandbox, words).exits(3).says("only you can");
    }
    state(&sandbox, &["update", SESSION, "loop", "phase", "review"]).success();
    state(&sandbox, &["complete", SESSION, "loop"]).exits(1);
    Session::named(&sandbox, SESSION).agent_works_with("Bash").stops("Done.").blocked();
    sandbox.file("done.txt", "");
    state(&sandbox, &["complete", SESSION, "loop"]).success();
}

#[test]
fn a_claim_does_not_bypass_the_promise_the_pause_or_the_accepted_gates() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    sandbox.file("done.txt", "");
    state(&sandbox, &["complete", SESSION, "loop"]).exits(1).says("the promise is missing");
    talk.user_says("pause");
    state(&sandbox, &["complete", SESSION, "loop"]).exits(3).says("the loop is paused; nothing was run");
    assert_eq!(read(&sandbox, SESSION)["status"], "paused");

    let changed = begun(GATE);
    changed.file("ralph.yaml", "verify:\n  - test -d .\n");
    state(&changed, &["complete", SESSION, "loop"]).exits(1).says("test -e done.txt");
    changed.file("done.txt", "");
    state(&changed, &["complete", SESSION, "loop"]).exits(3);
    assert_eq!(read(&changed, SESSION)["status"], "running");
}

#[test]
fn without_gates_nothing_is_called_verified() {
    let sandbox = Sandbox::new();
    state(&sandbox, &["init", SESSION, "loop", "fix it"]).success();
    state(&sandbox, &["complete", SESSION, "loop"]).exits(2).says("no gates");
    assert_eq!(read(&sandbox, SESSION)["status"], "running");
    let untrusted = Sandbox::new();
    untrusted.file("ralph.yaml", GATE);
    state(&untrusted, &["init", SESSION, "loop", "fix it"]).success();
    state(&untrusted, &["complete", SESSION, "loop"]).exits(3).says("are not accepted");
    let revoked = begun(GATE);
    revoked.ralph(&["trust", "--revoke"]).success();
    revoked.file("done.txt", "");
    state(&revoked, &["complete", SESSION, "loop"]).exits(3).says("revoked");
}

#[test]
fn a_state_loop_has_a_limit_unless_none_is_requested() {
    for (more, limit) in
        [(&[][..], "/ 15"), (&["--max-iterations", "3"], "/ 3"), (&["--max-iterations=0"], "(unlimited)")]
    {
        let sandbox = Sandbox::gated(GATE);
        let words: Vec<&str> =
            ["init", SESSION, "loop", "-- fix the --flag"].iter().chain(more).copied().collect();
        let ran = state(&sandbox, &words).success().says(limit);
        assert!(ran.stdout.contains("fix the --flag"), "{ran:#?}");
    }
    let sandbox = Sandbox::gated(GATE);
    state(&sandbox, &["init", SESSION, "loop", " "]).exits(2).says("the task is missing");
    state(&sandbox, &["init", SESSION, "loop", "first"]).success();
    state(&sandbox, &["init", SESSION, "loop", "second"])
        .exits(2)
        .says("a loop is already running in this session");
}

#[test]
fn giving_up_ends_running_gates_of_the_claim() {
    let sandbox = Sandbox::gated("verify:\n  - sleep 60\n");
    state(&sandbox, &["init", SESSION, "loop", "fix it"]).success();
    let claim = sandbox.piped(&["state", "complete", SESSION, "loop"]);
    wait_until("the gates run", || !sandbox.events_named("run_started").is_empty());
    state(&sandbox, &["fail", SESSION, "loop", "too slow"]).success();
    let ran = Finished::of(claim.wait_with_output().expect("an end"));
    ran.exits(3).says("paused or ended while its gates ran");
    assert_eq!(read(&sandbox, SESSION)["verdict"], "failed");
}

#[test]
fn a_driven_agent_cannot_start_its_own_loop() {
    let sandbox = Sandbox::gated(GATE);
    let ralph = crate::RALPH;
    let agent = format!(
        "cat > /dev/null; export CLAUDE_CODE_SESSION_ID=s1; {{ {ralph} state init s1 loop x; echo $?; {ralph} start x; \
         echo $?; }} > ../inner 2>&1; touch done.txt"
    );
    sandbox.ralph(&["loop", "fix it", "--agent", &format!("command:{agent}")]).success();
    let inner = std::fs::read_to_string(sandbox.path("../inner")).expect("its output");
    assert_eq!(inner.matches("already running inside a ralph loop").count(), 2, "{inner}");
    state(&sandbox, &["read", "s1"]).exits(2);
}
