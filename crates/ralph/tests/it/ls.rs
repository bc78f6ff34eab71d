//! Names and lists: `ralph ls`, `ralph show`, and the words by which every command finds a loop.

use std::fs;

use serde_json::Value;

use ralph_testkit::{Finished, Sandbox};

/// A driven loop that ended at its limit of one iteration.
fn failed_loop(sandbox: &Sandbox, task: &str) -> String {
    sandbox.ralph(&["loop", task, "--quiet", "--agent", "command:true", "--max-iterations", "1"]).exits(1);
    rows(sandbox)[0]["short"].as_str().expect("a short id").to_owned()
}

fn rows(sandbox: &Sandbox) -> Vec<Value> {
    let list = sandbox.ralph(&["ls", "--json", "--all"]).success().json();
    list.as_array().expect("a list").clone()
}

#[test]
fn a_list_has_one_line_per_loop_the_newest_first() {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    sandbox.ralph(&["ls"]).success().says("No loop in this repo yet");
    let first = failed_loop(&sandbox, "fix the login tests");
    let second = failed_loop(&sandbox, "write\nthe   docs");
    sandbox.verify(&[]);
    let ran = sandbox.ralph(&["ls"]).success();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "`ralph verify` is no loop: {ran:#?}");
    for (line, short, task) in
        [(lines[0], &second, "write the docs"), (lines[1], &first, "fix the login tests")]
    {
        let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect();
        assert_eq!(columns[..4], [short.as_str(), "failed, UNVERIFIED", task, "command:true"], "{line}");
        assert_eq!((columns[4], columns[6]), ("1/1", "-"), "{line}");
        assert!(columns[7].ends_with("ago") || columns[7] == "just now", "{line}");
    }
    let row = &rows(&sandbox)[0];
    let keys: Vec<&str> = row.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "agent",
            "cost_micros",
            "elapsed",
            "id",
            "iterations",
            "last_activity",
            "max_iterations",
            "short",
            "state",
            "task"
        ]
    );
}

/// Copies a loop's records under other ids, as if it had been run that often.
fn copies(sandbox: &Sandbox, number: usize) {
    let repos = sandbox.ralph_home().join("repos");
    let repo = fs::read_dir(repos).expect("a folder").next().expect("one repo").expect("an entry").path();
    let of = fs::read_dir(repo.join("loops")).expect("loops").flatten().map(|entry| entry.path());
    let ledger = of.map(|path| path.join("ledger.jsonl")).find(|path| path.exists()).expect("a ledger");
    for copy in 0..number {
        let folder = repo.join("loops").join(format!("copy-{copy}"));
        fs::create_dir(&folder).expect("a folder");
        fs::copy(&ledger, folder.join("ledger.jsonl")).expect("a copy");
    }
}

#[test]
fn ten_of_many_are_listed_and_each_has_a_name_of_its_own() {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    failed_loop(&sandbox, "fix the login tests");
    copies(&sandbox, 400);
    let ran = sandbox.ralph(&["ls"]).success().says("up to 391 older: `ralph ls --all`");
    assert_eq!(ran.stdout.lines().count(), 11, "{ran:#?}");
    assert_eq!(sandbox.ralph(&["ls", "-n", "3"]).success().stdout.lines().count(), 4);
    let all = rows(&sandbox);
    assert_eq!(all.len(), 401);
    let mut names: Vec<&str> = all.iter().map(|row| row["short"].as_str().expect("a name")).collect();
    for row in all.iter().step_by(80) {
        let short = row["short"].as_str().expect("a name");
        let shown = sandbox.ralph(&["show", short, "--json"]).success().json();
        assert_eq!(shown["loop"]["id"], row["id"]);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 401);
}

#[test]
fn every_command_finds_a_loop_by_its_id_a_prefix_or_words_of_its_task() {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    let login = failed_loop(&sandbox, "fix the login tests");
    let docs = failed_loop(&sandbox, "write the docs");
    let id = rows(&sandbox)[1]["id"].as_str().expect("an id").to_owned();
    for word in [login.as_str(), &id, &id[..id.len() - 2], "login", "LOGIN fix"] {
        for command in ["show", "log", "report", "status"] {
            sandbox.ralph(&[command, word]).success().says("login tests");
        }
        sandbox.ralph(&["resume", word]).exits(2).says(&format!("`{login}` has ended"));
        sandbox.ralph(&["cancel", word]).success().says("No active Ralph loop found");
    }
    sandbox.ralph(&["show", "nothing"]).exits(2).says("no loop `nothing`").says("`ralph ls`");
    // Both have ended, so the user has to choose.
    let ran = sandbox.ralph(&["show", "the"]).exits(2).says("matches several loops");
    assert!(
        ran.stderr.contains(&format!("  {login}  ")) && ran.stderr.contains(&format!("  {docs}  ")),
        "{ran:#?}"
    );
}

#[test]
fn of_several_the_open_one_is_taken_and_named() {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    failed_loop(&sandbox, "fix the login tests");
    let started = sandbox.ralph(&["start", "fix the logout tests"]).success();
    let open = started.stdout.trim_end().lines().last().expect("its id").to_owned();
    let said = format!("`tests` matches 2 loops; this is the newest that is open, {open}");
    sandbox.ralph(&["show", "tests"]).success().says("logout").says(&said);
    let paused = sandbox.ralph(&["pause", "tests"]).success().says(&said);
    assert_eq!(paused.stderr.matches("matches 2 loops").count(), 1, "{paused:#?}");
    // A second open one: looking takes the newest, changing asks.
    sandbox.ralph(&["start", "fix the other tests"]).success();
    sandbox.ralph(&["show", "tests"]).success().says("fix the other tests");
    sandbox.ralph(&["cancel", "tests"]).exits(2).says("matches several loops").says(&open);
    sandbox.ralph(&["cancel", &open]).success().says(&open);
}

#[test]
fn one_loop_is_shown_with_what_fails_and_what_to_do_next() {
    let sandbox = Sandbox::gated("verify:\n  - name: door\n    run: 'test -e done'\nguard: [check]\n");
    let short = failed_loop(&sandbox, "shut the door");
    let shown = sandbox.ralph(&["show"]).success().says("shut the door").says("command:true").says("1/1");
    assert!(shown.stdout.contains(&format!("`ralph log {short}`")), "{shown:#?}");
    sandbox.stop("check").answer().blocked();
    sandbox.ralph(&["show", "check"]).success().says("blocked").says("door failed").says("`ralph pause ");
}

/// Seven iterations were too few: more are granted, and the loop that ended there continues.
#[test]
fn a_loop_that_ended_at_its_limit_continues_with_more() {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    let agent = "command:echo x >> work; test $(wc -l < work) -lt 3 || touch done";
    sandbox.ralph(&["loop", "work", "--quiet", "--agent", agent, "--max-iterations", "1"]).exits(1);
    let short = rows(&sandbox)[0]["short"].as_str().expect("a name").to_owned();
    let resume =
        |more: &[&str]| -> Finished { sandbox.ralph(&[&["resume", &short, "--quiet"], more].concat()) };
    sandbox.ralph(&["report"]).success().says(&format!("ralph resume {short} --max-iterations +10"));
    resume(&[]).exits(2).says("has ended");
    resume(&["--max-iterations", "5"]).exits(2).says("write `+5` for that much more");
    resume(&["--max-cost", "+5"]).exits(2).says("has ended, and not at this limit");
    resume(&["--max-time", "+5"]).exits(2).says("`5` has no unit");
    resume(&["--max-iterations", "+1"]).exits(1);
    assert_eq!(sandbox.read("work").lines().count(), 2);
    resume(&["--max-iterations", "+10"]).success().says("VERIFIED_DONE");
    let state = sandbox.state();
    assert_eq!(state["limits"]["attempts"]["value"]["at_most"], 12);
    assert_eq!(state["drive"]["iterations"], 3);
    sandbox.ralph(&["log"]).success().says("you granted 10 iterations more");
    resume(&["--max-iterations", "+10"]).exits(2).says("has ended, and not at this limit");
}

#[test]
fn a_time_limit_without_a_unit_asks_for_one() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox
        .ralph(&["loop", "x", "--max-time", "8", "--agent", "command:true"])
        .exits(2)
        .says("`8` has no unit: write `8h`, `8m` or `8s`");
}

#[test]
fn every_command_has_a_manual_page() {
    let sandbox = Sandbox::new();
    sandbox.ralph(&["man"]).success().says(".TH ralph 1");
    sandbox.ralph(&["man", "verify"]).success().says("ralph\\-verify");
    sandbox.ralph(&["man", "nonsense"]).exits(2).says("unknown command");
    sandbox.ralph(&["man", "--dir", "pages/man1"]).success();
    for page in ["ralph.1", "ralph-verify.1", "ralph-ls.1", "ralph-loop.1", "ralph-state-init.1"] {
        let text = sandbox.read(&format!("pages/man1/{page}"));
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
}

/// What a shell asks when the user presses TAB; `tests/shells` does it with real shells.
#[test]
fn completions_offer_gates_agents_and_loops() {
    let mut sandbox = Sandbox::gated("verify:\n  - name: unit-tests\n    run: test -e done\n");
    let short = failed_loop(&sandbox, "fix the login tests");
    sandbox.user_config("agents:\n  mine:\n    command: ['true']\n");
    sandbox.ralph(&["completions", "bash"]).success().says("RALPH_COMPLETE");
    sandbox.set("RALPH_COMPLETE", "fish");
    let offered = |words: &[&str]| sandbox.ralph(&[&["--", "ralph"], words].concat()).success().stdout;
    for (words, expected) in [
        (vec!["verify", ""], "unit-tests\ttest -e done"),
        (vec!["loop", "--agent", "mi"], "mine"),
        (vec!["loop", "--agent", "co"], "codex"),
        (vec!["show", ""], &format!("{short}\tfailed: fix the login tests")),
        (vec!["log", &short[..2]], short.as_str()),
        (vec!["diff", "1", ""], short.as_str()),
    ] {
        let candidates = offered(&words);
        assert!(candidates.contains(expected), "{words:?}: {candidates}");
    }
    assert!(!offered(&["verify", "x"]).contains("unit-tests"));
    // A repo that cannot be read just offers nothing.
    sandbox.file("ralph.yaml", "verify: [");
    sandbox.set("RALPH_HOME", "/dev/null");
    assert!(!sandbox.ralph(&["--", "ralph", "verify", ""]).success().stdout.contains("unit-tests"));
}
