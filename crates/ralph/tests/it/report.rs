//! Reports of loops with the real binary: when they are written, where, and their content.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use ralph_testkit::{Sandbox, Session, verify_list};

const GATE: &str = "verify:\n  - test -e done.txt\n";
const PROMISE: &str = "<promise>DONE</promise>";

/// The names in a folder of the project, sorted.
fn names(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(sandbox.path(folder)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn markdown_names(sandbox: &Sandbox) -> Vec<String> {
    names(sandbox, "docs/actions/loop")
}

/// The only report, as Markdown and as JSON.
#[track_caller]
fn only_report(sandbox: &Sandbox) -> (String, Value) {
    let (markdown, json) = (markdown_names(sandbox), names(sandbox, ".claude/metadata/actions/loop"));
    assert_eq!((markdown.len(), json.len()), (1, 1), "{markdown:?} {json:?}");
    assert_eq!(markdown[0].strip_suffix(".md"), json[0].strip_suffix(".json"), "one name for both");
    let text = sandbox.read(&format!(".claude/metadata/actions/loop/{}", json[0]));
    (sandbox.read(&format!("docs/actions/loop/{}", markdown[0])), serde_json::from_str(&text).expect("JSON"))
}

/// The output of a shell in the project.
fn shell(sandbox: &Sandbox, command: &str) -> String {
    let output =
        Command::new("sh").args(["-c", command]).current_dir(sandbox.project()).output().expect("a shell");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn failed_reports(sandbox: &Sandbox) -> usize {
    let reports = fs::read_dir(sandbox.path("docs/actions/loop")).into_iter().flatten().flatten();
    let texts = reports.map(|report| fs::read_to_string(report.path()).expect("a report"));
    texts.filter(|text| text.contains("Status: FAILED")).count()
}

#[track_caller]
fn verified_loop(sandbox: &Sandbox) -> String {
    let talk = Session::looping(sandbox, "\"fix it\" --completion-promise DONE");
    talk.agent_works_with("Bash").stops("I looked.").blocked();
    sandbox.file("done.txt", "");
    talk.agent_works_with("Bash").stops(PROMISE).allowed().expect("a banner")
}

#[test]
fn s4_r14_a_loop_that_ends_leaves_a_report_for_people_and_one_for_scripts() {
    let sandbox = Sandbox::gated(GATE);
    let message = verified_loop(&sandbox);
    let (markdown, json) = only_report(&sandbox);
    let name = markdown_names(&sandbox).remove(0);
    assert!(message.ends_with(&format!("\nReport: docs/actions/loop/{name}")), "{message}");
    let headings: Vec<&str> = markdown.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## Summary", "## Execution Details", "## Results", "## Next Steps"]);
    for line in ["Status: COMPLETED", "- Task: fix it", "- Iterations: 2", "- Agent: the session itself"] {
        assert!(markdown.lines().any(|own| own == line), "{line}\n{markdown}");
    }
    assert!(
        markdown.contains("| 1 |  |  |  | ✗ test -e done.txt | blocked: Failed gate(s): test -e done.txt. |")
    );
    assert!(markdown.contains("| 2 |  |  |  | ✓ test -e done.txt | verified: All gates passed. |"));
    assert_eq!((&json["status"], &json["kind"]), (&"COMPLETED".into(), &"session".into()));
    assert_eq!(json["iterations"].as_array().map(Vec::len), Some(2));
    // The commands of the seed.
    assert!(shell(&sandbox, "ls -lt docs/actions/loop/").contains(&name));
    assert_eq!(shell(&sandbox, "cat $(ls -t docs/actions/loop/*.md | head -1)"), markdown);
    assert_eq!(failed_reports(&sandbox), 0);
}

#[test]
fn s4_r14_only_failed_reports_say_failed() {
    let sandbox = Sandbox::gated(GATE);
    // A task that contains the searched word.
    let task = "\"say Status: FAILED\" --max-iterations 1 --completion-promise DONE";
    let talk = Session::looping(&sandbox, task);
    talk.command("cancel-ralph", "");
    let (markdown, json) = only_report(&sandbox);
    assert!(markdown.lines().any(|line| line == "Status: PARTIAL"), "{markdown}");
    assert_eq!(json["task"], "say Status: FAILED");
    assert_eq!(failed_reports(&sandbox), 0, "{markdown}");
    let talk = Session::looping(&sandbox, "\"fix it\" --max-iterations 1 --completion-promise DONE");
    talk.agent_works_with("Bash").stops("Not yet.").allowed().expect("a banner");
    assert_eq!(markdown_names(&sandbox).len(), 2);
    assert_eq!(failed_reports(&sandbox), 1);
}

#[test]
fn s4_r14_the_report_of_a_driven_loop_lists_its_iterations_and_files() {
    let sandbox = Sandbox::gated(
        "verify:\n  - { name: lint, run: \"true\" }\n  - { name: test, run: test -e two.txt }\n",
    );
    sandbox.file("before", "");
    let agent = "command:cat > /dev/null; if [ -e one.txt ]; then touch two.txt; else touch one.txt; fi";
    let ran = sandbox.ralph(&["loop", "fix it", "--agent", agent]).success();
    let name = markdown_names(&sandbox).remove(0);
    let end = format!("  lint  ✓  ✓\n  test  ✗  ✓\nreport: docs/actions/loop/{name}\nVERIFIED_DONE\n");
    assert!(ran.stdout.ends_with(&end), "{ran:#?}");
    let (markdown, json) = only_report(&sandbox);
    assert!(
        markdown.contains("- Iterations: 2 of 15\n- Files modified: 2\n  - one.txt\n  - two.txt\n"),
        "{markdown}"
    );
    assert_eq!(json["iterations"].as_array().map(Vec::len), Some(2));
    sandbox.remove("two");
    sandbox.ralph(&["loop", "fix it", "--agent", "command:true", "--max-iterations", "1"]).exits(1);
    let newest = sandbox.read(&format!("docs/actions/loop/{}", markdown_names(&sandbox).remove(1)));
    assert!(newest.contains("\nStatus: FAILED\n"), "{newest}");
    assert!(newest.contains("- Gate test still fails; full output: \\~/.ralph/"), "{newest}");
    assert_eq!(failed_reports(&sandbox), 1);
}

#[test]
fn every_end_of_a_session_loop_is_reported_and_a_pause_is_not() {
    let sandbox = Sandbox::gated(GATE);
    let begin = || Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let talk = begin();
    talk.user_says("pause");
    assert_eq!(talk.state()["status"]["status"], "paused");
    talk.ends("other");
    assert_eq!(markdown_names(&sandbox).len(), 0, "a pause is no end");
    talk.starts("resume");
    talk.user_says("continue");
    talk.command("cancel-ralph", "");
    assert_eq!(markdown_names(&sandbox).len(), 1);
    begin();
    Session::new(&sandbox).command("ralph-loop", "other --completion-promise DONE --replace");
    assert_eq!(markdown_names(&sandbox).len(), 2, "replaced");
    sandbox.remove(".claude/ralph-loop.local.md");
    talk.stops("Done.");
    assert_eq!(markdown_names(&sandbox).len(), 3, "its file was deleted");
    begin();
    sandbox.ralph(&["cancel"]).success().says("\nReport: docs/actions/loop/");
    assert_eq!(markdown_names(&sandbox).len(), 4);
    let whys: Vec<String> = markdown_names(&sandbox)
        .iter()
        .filter_map(|name| {
            let markdown = sandbox.read(&format!("docs/actions/loop/{name}"));
            markdown.lines().find(|line| line.starts_with("- Verdict: ")).map(str::to_owned)
        })
        .collect();
    for why in ["Cancelled by the user.", "Replaced by another loop.", "Its file in the repo was deleted."] {
        assert!(whys.iter().any(|line| *line == format!("- Verdict: cancelled. {why}")), "{why}: {whys:?}");
    }
}

#[test]
fn a_guarded_stop_writes_no_report() {
    let sandbox = Sandbox::gated("verify: [\"true\"]\nguard: [check, session]\n");
    sandbox.stop("check").answer().allowed();
    let talk = Session::named(&sandbox, "session-2");
    talk.user_says("tidy up");
    sandbox.file("new.txt", "");
    talk.agent_works_with("Write").stops("Done.").allowed();
    assert!(sandbox.events_named("judged").len() >= 2);
    sandbox.ralph(&["verify"]).success();
    assert!(!sandbox.exists("docs") && !sandbox.exists(".claude/metadata"));
}

#[test]
fn our_own_reports_are_not_part_of_the_tree_and_other_files_there_are() {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &verify_list(&[&sandbox.counting("test -e done.txt")]));
    sandbox.trust();
    verified_loop(&sandbox);
    sandbox.verify(&[]);
    let runs = sandbox.runs();
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    assert_eq!(sandbox.runs(), runs, "the receipts of the tree that was judged still hold");
    // An agent cannot hide its work among the reports.
    sandbox.file("docs/actions/loop/2026-03-05T09-15-00Z.md", "work");
    sandbox.verify(&[]);
    assert_eq!(sandbox.runs(), runs + 1);
    // Nor inside one of them.
    let name = markdown_names(&sandbox).pop().expect("ours is the newest");
    sandbox.file(&format!("docs/actions/loop/{name}"), "more work");
    sandbox.verify(&[]);
    assert_eq!(sandbox.runs(), runs + 2);
}

#[test]
fn the_report_folder_of_the_user_wins_over_that_of_the_repo() {
    let table = [
        (None, None, "repo"),
        (None, Some("home"), "home"),
        (Some("off"), None, "off"),
        (Some("off"), Some("repo"), "repo"),
        (Some("home"), Some("off"), "off"),
        (Some("home"), None, "home"),
    ];
    for (repo, user, wanted) in table {
        let config = repo.map(|word| format!("reports: {word}\n")).unwrap_or_default();
        let sandbox = Sandbox::gated(&format!("{GATE}{config}"));
        if let Some(word) = user {
            sandbox.user_config(&format!("reports: {word}\n"));
        }
        let message = verified_loop(&sandbox);
        let at_home = sandbox.remembered().iter().filter(|file| file.starts_with("reports/")).count();
        let seen = (markdown_names(&sandbox).len(), at_home, message.contains("\nReport: "));
        let expected = match wanted {
            "repo" => (1, 0, true),
            "home" => (0, 2, true),
            _ => (0, 0, false),
        };
        assert_eq!(seen, expected, "repo {repo:?}, user {user:?}: {message}");
    }
}

#[test]
fn a_report_link_out_of_the_repo_is_refused_and_nothing_else_is_lost() {
    for folder in ["docs", "docs/actions", ".claude/metadata"] {
        let sandbox = Sandbox::gated(GATE);
        let outside = sandbox.home().join("outside");
        fs::create_dir(&outside).expect("a folder");
        let link = sandbox.path(folder);
        fs::create_dir_all(link.parent().expect("a parent")).expect("folders");
        symlink(&outside, &link).expect("a link");
        let message = verified_loop(&sandbox);
        assert!(message.contains("Loop done, verified"), "{message}");
        let line = message.lines().last().expect("a line");
        assert!(
            line.starts_with("The report could not be written: ") && line.contains("leads out"),
            "{message}"
        );
        assert_eq!(fs::read_dir(&outside).expect("the folder").count(), 0);
        sandbox.ralph(&["report"]).success().says("VERIFIED");
    }
}

#[test]
fn an_unwritable_report_folder_loses_the_report_and_is_reported() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.file("docs", "a file");
    let message = verified_loop(&sandbox);
    assert!(message.contains("Loop done, verified"), "{message}");
    assert!(message.contains("The report could not be written: docs/actions/loop: "), "{message}");
    assert_eq!(sandbox.read("docs"), "a file");
    let cancelled = Session::looping(&sandbox, "again").command("cancel-ralph", "");
    assert!(
        cancelled.shown_to_user().contains("\nThe report could not be written: docs/actions/loop: "),
        "{cancelled:#?}"
    );
    sandbox.ralph(&["report", "start", "loop", "x"]).success();
    sandbox.ralph(&["report", "complete", "success", "y"]).exits(1).says("could not be written");
    sandbox.remove("docs");
    // The loop is still open and can be completed.
    sandbox.ralph(&["report", "complete", "success", "y"]).success();
}

#[test]
fn reports_of_the_same_moment_have_different_names() {
    const LOOPS: usize = 6;
    let sandbox = Sandbox::gated(GATE);
    let sessions: Vec<String> = (0..LOOPS).map(|number| format!("session-{number}")).collect();
    for session in &sessions {
        Session::named(&sandbox, session).command("ralph-loop", "fix it --completion-promise DONE");
    }
    std::thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(|| Session::named(&sandbox, session).command("cancel-ralph", ""));
        }
    });
    let stems = |folder: &str| -> Vec<String> {
        let stem = |name: String| name.split('.').next().map(str::to_owned);
        names(&sandbox, folder).into_iter().filter_map(stem).collect()
    };
    assert_eq!(stems("docs/actions/loop").len(), LOOPS);
    assert_eq!(stems("docs/actions/loop"), stems(".claude/metadata/actions/loop"));
}

#[test]
fn the_newest_fifty_reports_are_kept_and_foreign_files_stay() {
    let sandbox = Sandbox::gated(GATE);
    // One with a name like ours, from another machine, and one with another name.
    let foreign = ["2020-01-01T00-00-00Z.md", "notes.md"];
    for name in foreign {
        sandbox.file(&format!("docs/actions/loop/{name}"), "not ours");
    }
    let mut first = String::new();
    for number in 0..52 {
        sandbox.ralph(&["report", "start", "loop", &format!("number {number}")]).success();
        sandbox.ralph(&["report", "complete", "partial", "so so"]).success();
        if number == 0 {
            first = markdown_names(&sandbox).remove(1);
            assert!(sandbox.read(&format!("docs/actions/loop/{first}")).contains("number 0"));
        }
    }
    let left = markdown_names(&sandbox);
    assert_eq!(left.len(), 50 + foreign.len());
    assert!(!left.contains(&first) && foreign.iter().all(|name| left.contains(&(*name).to_owned())));
    assert_eq!(names(&sandbox, ".claude/metadata/actions/loop").len(), 50);
    let all: String = left.iter().map(|name| sandbox.read(&format!("docs/actions/loop/{name}"))).collect();
    assert!(all.contains("- Task: number 2\n") && all.contains("- Task: number 51\n"));
    assert!(!all.contains("- Task: number 0\n") && !all.contains("- Task: number 1\n"));
}

#[test]
fn s4_r15_a_report_by_hand_is_one_pair_and_its_success_a_claim() {
    let sandbox = Sandbox::new();
    sandbox
        .ralph(&["report", "complete", "success", "done"])
        .exits(2)
        .says("no report was started in this repo")
        .says("ralph report start loop");
    sandbox.ralph(&["report", "start", "loop", "tidy up"]).success();
    assert!(!sandbox.exists("docs"), "starting writes nothing into the repo");
    let ran =
        sandbox.ralph(&["report", "complete", "success", "all tidy", "more tests\nfewer words"]).success();
    assert!(ran.stdout.starts_with("Status: COMPLETED (unverified)\ndocs/actions/loop/"), "{ran:#?}");
    let (markdown, json) = only_report(&sandbox);
    for line in [
        "Status: COMPLETED (unverified)",
        "- Task: tidy up",
        "- Claimed: all tidy",
        "- more tests",
        "- fewer words",
    ] {
        assert!(markdown.lines().any(|own| own == line), "{line}\n{markdown}");
    }
    assert_eq!(json["kind"], "manual");
    sandbox.ralph(&["report", "complete", "success", "again"]).exits(2);
    for (word, status) in [("failed", "FAILED"), ("partial", "PARTIAL")] {
        sandbox.ralph(&["report", "start", "loop", "x"]).success();
        sandbox.ralph(&["report", "complete", word, "y"]).success().says(&format!("Status: {status}\n"));
    }
    assert_eq!(failed_reports(&sandbox), 1);
    sandbox.ralph(&["report", "complete", "completed", "y"]).exits(2).says("success");
    sandbox.ralph(&["report", "start", "other", "y"]).exits(2).says("loop");
    sandbox.ralph(&["report", "start", "loop", "first"]).success();
    sandbox.ralph(&["report", "start", "loop", "second"]).success().says("discarding an unfinished report");
}

#[test]
fn the_report_of_the_last_loop_is_shown() {
    let sandbox = Sandbox::gated(GATE);
    sandbox.ralph(&["report"]).exits(2).says("no loop in this repo yet");
    sandbox.ralph(&["verify"]).exits(1);
    sandbox.ralph(&["report"]).exits(2).says("no loop in this repo yet");
    sandbox.ralph(&["report", "verify"]).exits(2).says("was not started for a task");
    verified_loop(&sandbox);
    sandbox.ralph(&["verify"]).success();
    let shown = sandbox.ralph(&["report"]).success().stdout;
    let name = markdown_names(&sandbox).remove(0);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "✓ VERIFIED  1 gate · `test -e done.txt` fails without the change");
    assert!(lines[1].starts_with("  2 iterations · "), "{shown}");
    assert_eq!(
        lines[2..].join("\n"),
        format!(
            "\n                    1  2\n  test -e done.txt  ✗  ✓\n\n    1  blocked: Failed gate(s): test -e done.txt.\n    \
             2  verified: All gates passed.\n\n  docs/actions/loop/{name}"
        )
    );
    let json = sandbox.ralph(&["report", "fix-it", "--json"]).success().json();
    assert_eq!((&json["status"], &json["task"]), (&"COMPLETED".into(), &"fix it".into()));
    sandbox.ralph(&["report", "no-such-loop"]).exits(2).says("no loop `no-such-loop`");
}
