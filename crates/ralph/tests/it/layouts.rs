//! The layouts of other tools: their files are read unchanged, their words are used, their state file is written.

use std::fs;

use serde_json::{Value, json};

use ralph_testkit::{Sandbox, verify_list};

const TRELLIS_STATE: &str = ".trellis/.ralph-state.json";
const IDEAL_STATE: &str = ".ideal/.verify-state.json";
const PASSED: &str = "Verification passed: All verify commands passed";

/// The commands of a config, as `ralph trust --show` lists them.
fn commands(config: &str) -> Vec<String> {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", config);
    let shown = sandbox.ralph(&["trust", "--show", "--json"]).success().json();
    let gates = shown["gates"].as_array().expect("gates").clone();
    gates.iter().map(|gate| gate["run"].as_str().expect("a command").to_owned()).collect()
}

#[test]
fn verify_means_what_yaml_says() {
    let table: [(&str, &[&str]); 14] = [
        ("verify:\n  - pnpm lint\n  - pnpm test\n", &["pnpm lint", "pnpm test"]),
        ("verify:\n  - \"pnpm lint\"\n  - 'pnpm test'\n", &["pnpm lint", "pnpm test"]),
        ("verify:\n  - pnpm lint  # quick\n", &["pnpm lint"]),
        ("verify:\n  # - pnpm lint\n  - pnpm test\n", &["pnpm test"]),
        ("verify: [pnpm lint, 'pnpm test']\n", &["pnpm lint", "pnpm test"]),
        ("verify: pnpm test\n", &["pnpm test"]),
        ("verify:\n- a\n- b\n", &["a", "b"]),
        ("verify:\n  - a\npost_create: # set up\n  - rm -rf /\n", &["a"]),
        ("other:\n  verify:\n    - nested\nverify:\n  - top\n", &["top"]),
        ("verify:\n  - |\n    one\n    two\n", &["one\ntwo\n"]),
        ("worktree_dir: ../w\ncopy: [.env]\npost_create: [npm i]\nverify: [a]\n", &["a"]),
        ("verify:\n  # - everything\n  # - is commented out\n", &[]),
        ("verify: []\n", &[]),
        ("copy: [.env]\n", &[]),
    ];
    for (config, expected) in table {
        assert_eq!(commands(config), expected, "{config}");
    }
}

#[test]
fn a_missing_file_is_an_empty_list() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/.current-task", "tasks/login\n");
    let shown = sandbox.ralph(&["trust", "--show", "--json"]).success().json();
    assert_eq!(shown["gates"], json!([]));
    sandbox.trust();
    // There is nothing to block for, and `status` says so.
    sandbox.stop("check").answer().silent();
    sandbox.ralph(&["status"]).success().says("none: the task's completion markers");
}

#[test]
fn the_task_pointer_is_one_path_however_it_was_written() {
    for pointer in [
        ".trellis/tasks/login\n",
        "tasks/login",
        "./tasks/login/\n",
        ".\\.trellis\\tasks\\login\r\n",
        "tasks/login\nmore: words\n",
    ] {
        let sandbox = Sandbox::trellis("verify: ['false']\n");
        sandbox.file(".trellis/.current-task", pointer);
        sandbox.stop("check").answer().blocked();
        let state: Value = serde_json::from_str(&sandbox.read(TRELLIS_STATE)).expect("JSON");
        assert_eq!(state["task"], ".trellis/tasks/login", "{pointer:?}");
    }
}

#[test]
fn trellis_without_a_task_is_allowed() {
    let sandbox = Sandbox::trellis(&verify_list(&["false"]));
    for pointer in [None, Some(""), Some("\n\n")] {
        let _gone = fs::remove_file(sandbox.path(".trellis/.current-task"));
        if let Some(text) = pointer {
            sandbox.file(".trellis/.current-task", text);
        }
        let before = sandbox.memory();
        sandbox.stop("check").answer().silent();
        assert_eq!(sandbox.memory(), before);
    }
}

#[test]
fn ideal_without_a_task_is_judged_as_unknown() {
    let sandbox = Sandbox::ideal("verify: ['false']\n");
    sandbox.remove(".ideal/.current-task");
    sandbox.stop("check").answer().blocked();
    let state: Value = serde_json::from_str(&sandbox.read(IDEAL_STATE)).expect("JSON");
    assert_eq!(state["task"], "unknown");
}

fn with_markers() -> Sandbox {
    let sandbox = Sandbox::trellis("copy: [.env]\n");
    sandbox.file(
        ".trellis/tasks/login/check.jsonl",
        "{\"file\":\"a.md\",\"reason\":\"lint\"}\nnot json\n{\"file\":\"b.md\",\"reason\":\"Type check\"}\n{\"reason\":\"lint\"}\n",
    );
    sandbox
}

#[test]
fn without_gates_the_markers_of_the_task_are_requested() {
    let sandbox = with_markers();
    let (reason, detail) = sandbox.stop("check").saying("All done!").answer().blocked();
    assert_eq!(
        reason,
        "Verification failed (iteration 1/5): missing completion markers: LINT_FINISH, TYPE_CHECK_FINISH"
    );
    assert!(detail.contains("Run each of these checks"), "{detail}");
    let (reason, _) = sandbox.stop("check").saying("LINT_FINISH").answer().blocked();
    assert!(reason.ends_with("missing completion markers: TYPE_CHECK_FINISH"), "{reason}");
    for lie in [
        "I did NOT run it so I will not output LINT_FINISH or TYPE_CHECK_FINISH",
        "```\nLINT_FINISH\nTYPE_CHECK_FINISH\n```",
    ] {
        sandbox.stop("check").saying(lie).answer().blocked();
    }
    let message =
        sandbox.stop("check").saying("It ran.\n- LINT_FINISH\n- TYPE_CHECK_FINISH\n").answer().allowed();
    assert!(message.expect("a message").starts_with("Completed on claim, unverified"));
    assert_eq!(sandbox.state()["status"]["verdict"], "claimed");
    sandbox.ralph(&["status"]).success().says("reported done, UNVERIFIED");
}

#[test]
fn one_marker_counts_for_all_and_the_budget_is_the_same() {
    let sandbox = with_markers();
    for _ in 0..4 {
        sandbox.stop("check").saying("no").answer().blocked();
    }
    let message = sandbox.stop("check").saying("no").answer().allowed().expect("loud");
    assert!(message.starts_with("Max iterations reached (5/5); stop allowed, UNVERIFIED"), "{message}");
    let message = sandbox.stop("check").saying("ALL_CHECKS_FINISH").answer().allowed().expect("a message");
    assert!(message.contains("unverified"), "{message}");
}

#[test]
fn markers_never_replace_a_failing_gate() {
    let sandbox = with_markers();
    sandbox.file(".trellis/worktree.yaml", "verify: ['false']\n");
    sandbox.trust();
    let (reason, _) =
        sandbox.stop("check").saying("LINT_FINISH\nTYPE_CHECK_FINISH\nALL_CHECKS_FINISH").answer().blocked();
    assert!(reason.contains("gate `false` failed"), "{reason}");
}

#[test]
fn the_words_of_trellis() {
    let sandbox = Sandbox::trellis("verify: [test -e done.txt]\n");
    for iteration in 1..=4 {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert_eq!(
            reason,
            format!(
                "Verification failed (iteration {iteration}/5): gate `test -e done.txt` failed with exit code 1"
            )
        );
    }
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert_eq!(
        message,
        "Max iterations reached (5/5); stop allowed, UNVERIFIED. Unresolved: gate `test -e done.txt` failed"
    );
    sandbox.file("done.txt", "");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
}

#[test]
fn the_words_of_ideal() {
    let sandbox = Sandbox::ideal("verify: [test -e done.txt]\n");
    for iteration in 1..=4 {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert_eq!(
            reason,
            format!(
                "Verification failed (iteration {iteration}): gate `test -e done.txt` failed with exit code 1"
            )
        );
    }
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert_eq!(
        message,
        "Max iterations (5) reached; stop allowed, UNVERIFIED. Unresolved: gate `test -e done.txt` failed"
    );
    sandbox.file("done.txt", "");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
}

/// The iteration in the state file, after checking its exact form.
#[track_caller]
fn exported(sandbox: &Sandbox, path: &str) -> u64 {
    let text = sandbox.read(path);
    let state: Value = serde_json::from_str(&text).expect("JSON");
    let started_at = state["started_at"].as_str().expect("a time");
    let (task, iteration) = (&state["task"], &state["iteration"]);
    assert_eq!(
        text,
        format!(
            "{{\n  \"task\": {task},\n  \"iteration\": {iteration},\n  \"started_at\": \"{started_at}\"\n}}\n"
        )
    );
    assert_eq!(started_at.len(), "2026-01-31T10:30:00".len(), "{started_at}");
    iteration.as_u64().expect("a number")
}

#[test]
fn the_state_file_is_in_the_repo_while_an_agent_is_blocked() {
    for (sandbox, path) in [
        (Sandbox::trellis("verify: [test -e done.txt]\n"), TRELLIS_STATE),
        (Sandbox::ideal("verify: [test -e done.txt]\n"), IDEAL_STATE),
    ] {
        for iteration in 1..=4 {
            sandbox.stop("check").answer().blocked();
            assert_eq!(exported(&sandbox, path), iteration);
        }
        sandbox.stop("check").answer().allowed().expect("released");
        assert!(!sandbox.exists(path), "removed at the release");
        sandbox.stop("check").answer().blocked();
        sandbox.file("done.txt", "");
        assert_eq!(exported(&sandbox, path), 1);
        sandbox.stop("check").answer().allowed().expect("verified");
        assert!(!sandbox.exists(path), "removed at the pass");
    }
}

#[test]
fn writing_the_state_file_does_not_change_the_tree() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", &verify_list(&["false"]));
    sandbox.file(".trellis/.current-task", "tasks/a\n");
    sandbox.trust();
    for _ in 0..3 {
        sandbox.stop("check").answer().blocked();
    }
    let events = sandbox.events();
    let trees: Vec<_> =
        events.iter().map(|line| &line["event"]).filter(|event| event["event"] == "run_started").collect();
    assert_eq!(trees.len(), 3);
    assert!(trees.iter().all(|event| event["tree"] == trees[0]["tree"]), "{trees:#?}");
}

#[test]
fn started_at_is_local_time() {
    let mut sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.set("TZ", "Asia/Tokyo");
    sandbox.stop("check").answer().blocked();
    let shown: Value = serde_json::from_str(&sandbox.read(TRELLIS_STATE)).expect("JSON");
    let utc = sandbox.state()["started_at"].as_str().expect("a time").to_owned();
    let hour = |text: &str| text[11..13].parse::<u32>().expect("an hour");
    assert_eq!(hour(shown["started_at"].as_str().expect("a time")), (hour(&utc) + 9) % 24, "{shown} {utc}");
    // It is parsed back as such: the state is not stale at the next stop.
    sandbox.stop("check").answer().blocked();
    assert_eq!(exported(&sandbox, TRELLIS_STATE), 2);
}

/// A state file as another tool would have left it.
fn foreign(sandbox: &Sandbox, path: &str, task: &str, iteration: u32, minutes_ago: u64) {
    let date = std::process::Command::new("date")
        .args(["-u", "-d", &format!("{minutes_ago} minutes ago"), "+%Y-%m-%dT%H:%M:%S"])
        .output()
        .expect("date");
    let started_at = String::from_utf8_lossy(&date.stdout).trim().to_owned();
    sandbox.file(path, &json!({"task": task, "iteration": iteration, "started_at": started_at}).to_string());
}

fn utc(mut sandbox: Sandbox) -> Sandbox {
    sandbox.set("TZ", "UTC");
    sandbox
}

#[test]
fn the_state_of_another_tool_is_continued() {
    let sandbox = utc(Sandbox::trellis("verify: ['false']\n"));
    foreign(&sandbox, TRELLIS_STATE, ".trellis/tasks/login", 3, 5);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("(iteration 4/5)"), "{reason}");
    assert_eq!(sandbox.events_named("adopted").len(), 1);
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert!(message.starts_with("Max iterations reached (5/5)"), "{message}");
}

#[test]
fn the_state_of_another_task_is_not_continued() {
    let sandbox = utc(Sandbox::trellis("verify: ['false']\n"));
    foreign(&sandbox, TRELLIS_STATE, ".trellis/tasks/other", 4, 5);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
}

#[test]
fn trellis_a_state_that_started_over_half_an_hour_ago_is_a_fresh_start() {
    for (minutes, iteration) in [(29, 4), (31, 1), (60 * 24, 1)] {
        let sandbox = utc(Sandbox::trellis("verify: ['false']\n"));
        foreign(&sandbox, TRELLIS_STATE, ".trellis/tasks/login", 3, minutes);
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains(&format!("(iteration {iteration}/5)")), "{minutes} min: {reason}");
    }
}

#[test]
fn ideal_an_old_state_frees_no_agent_before_the_gates_have_run() {
    let config = "verify: [test -e done.txt]\n";
    for passes in [true, false] {
        let sandbox = utc(Sandbox::ideal(config));
        foreign(&sandbox, IDEAL_STATE, ".ideal/iterations/3", 1, 31);
        if passes {
            sandbox.file("done.txt", "");
        }
        let message = sandbox.stop("check").answer().allowed().expect("a message");
        assert_eq!(sandbox.events_named("gate_ran").len(), 1, "the gates ran");
        assert!(!sandbox.exists(IDEAL_STATE), "removed");
        if passes {
            assert_eq!(message, PASSED);
        } else {
            assert_eq!(
                message,
                "Timeout (30 min) exceeded; stop allowed, UNVERIFIED. Unresolved: gate `test -e done.txt` failed"
            );
            assert_eq!(sandbox.state()["status"]["verdict"], "released");
            let (reason, _) = sandbox.stop("check").answer().blocked();
            assert!(reason.starts_with("Verification failed (iteration 1):"), "a fresh start: {reason}");
        }
    }
}

#[test]
fn ideal_max_iterations_is_reported_before_the_timeout() {
    let sandbox = utc(Sandbox::ideal("verify: ['false']\n"));
    foreign(&sandbox, IDEAL_STATE, ".ideal/iterations/3", 4, 31);
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert!(message.starts_with("Max iterations (5) reached"), "{message}");
}

#[test]
fn an_unreadable_state_file_is_a_fresh_start_and_is_kept() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.file(TRELLIS_STATE, "{\"task\": ");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("(iteration 1/5)"), "{reason}");
    assert_eq!(exported(&sandbox, TRELLIS_STATE), 1);
    assert_eq!(sandbox.read(".trellis/.ralph-state.json.unreadable-1"), "{\"task\": ");
    assert_eq!(sandbox.events_named("export_noted")[0]["what"]["oddity"], "unreadable");
}

#[test]
fn deleting_the_state_file_restarts_the_count_once_and_is_recorded() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    let stop = || {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        reason.split_once("(iteration ").expect("an iteration").1.chars().next().expect("a digit")
    };
    assert_eq!((stop(), stop()), ('1', '2'));
    sandbox.remove(TRELLIS_STATE);
    assert_eq!((stop(), stop()), ('1', '2'));
    sandbox.remove(TRELLIS_STATE);
    assert_eq!(stop(), '3');
    sandbox.remove(TRELLIS_STATE);
    assert_eq!(stop(), '4');
    let noted = sandbox.events_named("export_noted");
    assert_eq!(noted.len(), 2);
    assert!(noted.iter().all(|event| event["what"]["oddity"] == "deleted_again"), "{noted:?}");
    let message = sandbox.stop("check").answer().allowed().expect("loud");
    assert!(message.starts_with("Max iterations reached"), "{message}");
}

#[test]
fn an_edited_state_file_changes_nothing_and_is_recorded() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    sandbox.stop("check").answer().blocked();
    let edited = sandbox.read(TRELLIS_STATE).replace("\"iteration\": 1", "\"iteration\": 4");
    sandbox.file(TRELLIS_STATE, &edited);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("(iteration 2/5)"), "the ledger wins: {reason}");
    assert_eq!(exported(&sandbox, TRELLIS_STATE), 2);
    let noted = sandbox.events_named("export_noted");
    assert_eq!((noted.len(), &noted[0]["what"]["oddity"]), (1, &json!("disagrees")));
}

#[test]
fn a_state_file_that_cannot_be_written_frees_no_agent() {
    let sandbox = Sandbox::trellis("verify: [test -e done.txt]\n");
    fs::create_dir(sandbox.path(TRELLIS_STATE)).expect("a folder in its place");
    for iteration in 1..=4 {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains(&format!("(iteration {iteration}/5)")), "{reason}");
    }
    sandbox.file("done.txt", "");
    assert_eq!(sandbox.stop("check").answer().allowed().as_deref(), Some(PASSED));
    assert_eq!(sandbox.state()["status"]["verdict"], "passing");
}

#[test]
fn another_task_restarts_the_count() {
    for (sandbox, pointer) in [
        (Sandbox::trellis("verify: ['false']\n"), ".trellis/.current-task"),
        (Sandbox::ideal("verify: ['false']\n"), ".ideal/.current-task"),
    ] {
        sandbox.stop("check").answer().blocked();
        sandbox.stop("check").answer().blocked();
        sandbox.file(pointer, "elsewhere/other\n");
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains("(iteration 1"), "{reason}");
        assert_eq!(sandbox.state()["task"], "elsewhere/other");
    }
}

#[test]
fn with_both_trellis_wins_and_status_says_so() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", "verify: [echo from trellis]\n");
    sandbox.file(".ideal/worktree.yaml", "verify: [echo from ideal]\n");
    sandbox.trust();
    let status = sandbox.status();
    assert_eq!(
        (&status["config"], &status["unused_configs"]),
        (&json!(".trellis/worktree.yaml"), &json!([".ideal/worktree.yaml"]))
    );
    assert_eq!(status["gates"][0]["run"], "echo from trellis");
    sandbox.ralph(&["status"]).success().says(".ideal/worktree.yaml also exists and is ignored");
}

#[test]
fn a_malformed_file_is_an_evaluation_error_with_its_line_and_no_marker_replaces_it() {
    for (config, sandbox) in [
        (".trellis/worktree.yaml", with_markers()),
        (".ideal/worktree.yaml", Sandbox::ideal("verify: ['true']\n")),
        ("ralph.yaml", Sandbox::gated("verify: ['true']\n")),
    ] {
        sandbox.file(config, "verify:\n  - fine\n  - \"never closed\n");
        for _ in 0..2 {
            let (reason, detail) = sandbox.stop("check").saying("ALL_CHECKS_FINISH").answer().blocked();
            assert!(reason.starts_with("The gates could not be evaluated"), "{reason}");
            assert!(
                detail.contains(&format!("{config}:3:")) || detail.contains(&format!("{config}:4:")),
                "{detail}"
            );
            assert!(detail.contains("hint: "), "{detail}");
        }
        let message = sandbox.stop("check").saying("ALL_CHECKS_FINISH").answer().allowed().expect("loud");
        assert!(message.contains("UNVERIFIED; loop paused"), "{message}");
        assert_eq!(sandbox.events_named("gate_ran").len(), 0, "no command ran");
        assert_eq!(sandbox.state()["attempts"], 0);
    }
}

#[test]
fn a_file_that_was_never_readable_is_not_an_empty_list() {
    let sandbox = Sandbox::new();
    sandbox.file(".ideal/worktree.yaml", "verify:\n  - \"never closed\n");
    sandbox.ralph(&["trust"]).exits(2).says("cannot parse .ideal/worktree.yaml");
    sandbox.ralph(&["verify"]).exits(2).says("cannot parse .ideal/worktree.yaml");
    let message = sandbox.stop("check").answer().allowed().expect("a message");
    assert!(message.contains("are not accepted"), "{message}");
}
