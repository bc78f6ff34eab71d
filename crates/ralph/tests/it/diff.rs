//! `ralph diff`: what an iteration changed, by the checkpoints of a driven loop.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use ralph_core::ledger::event::{Event, Subject};
use ralph_core::ledger::line::{self, ChainHead};
use ralph_core::model::drive_options::{AgentContext, DriveOptions};

use ralph_testkit::{Finished, Pty, Sandbox};

/// A repo in which the loop `fix-it-1` was driven for three iterations; the second changed nothing.
fn driven() -> Sandbox {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    sandbox.file("a.txt", "zero\n");
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "start"]);
    begin(&sandbox, "fix-it-1", true);
    keep(&sandbox, "fix-it-1", 0);
    sandbox.file("a.txt", "one\n");
    sandbox.file("new.txt", "new\n");
    keep(&sandbox, "fix-it-1", 1);
    keep(&sandbox, "fix-it-1", 2);
    sandbox.file("a.txt", "three\n");
    keep(&sandbox, "fix-it-1", 3);
    sandbox
}

/// Commits the current tree under the hidden ref.
fn keep(sandbox: &Sandbox, id: &str, number: u32) {
    sandbox.git(&["add", "-A"]);
    let tree = sandbox.git(&["write-tree"]);
    let last = number.saturating_sub(1);
    let before =
        sandbox.git(&["for-each-ref", "--format=%(tree) %(objectname)", &format!("refs/ralph/{id}/{last}")]);
    let commit = match before.trim().split_once(' ') {
        Some((same, commit)) if same == tree.trim() => commit.to_owned(),
        _ => sandbox.git(&["commit-tree", tree.trim(), "-m", "kept"]),
    };
    sandbox.git(&["update-ref", &format!("refs/ralph/{id}/{number}"), commit.trim()]);
}

/// The ledger of a loop started by a driver.
fn begin(sandbox: &Sandbox, id: &str, checkpoints: bool) {
    sandbox.ralph(&["verify"]).success();
    let first = sandbox.ralph(&["log", "verify", "--json"]).success().stdout;
    let first: serde_json::Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    let mut event: Event = serde_json::from_value(first["event"].clone()).expect("an event");
    let Event::Began { subject, drive, .. } = &mut event else { panic!("{event:?}") };
    *subject = Subject::Driver;
    *drive = Some(DriveOptions {
        agent: "command:true".into(),
        memory: AgentContext::Fresh,
        model: None,
        checkpoints,
        longest_run: Duration::from_secs(60),
        longest_silence: Duration::from_secs(60),
        gate_timeout: None,
        no_baseline: false,
        accept_green: false,
    });
    let at = first["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let (line, _) = line::write(&ChainHead::origin(), at, &event);
    let dir = loops_dir(sandbox).join(id);
    fs::create_dir_all(&dir).expect("a folder");
    fs::write(dir.join("ledger.jsonl"), line).expect("a ledger");
}

fn loops_dir(sandbox: &Sandbox) -> PathBuf {
    let repos = fs::read_dir(sandbox.ralph_home().join("repos")).expect("repos");
    repos.flatten().next().expect("the repo").path().join("loops")
}

#[test]
fn each_iteration_and_each_range_can_be_shown() {
    let sandbox = driven();
    let last = sandbox.ralph(&["diff"]).success();
    assert!(last.stdout.contains("-one\n+three\n") && !last.stdout.contains("new.txt"), "{last:#?}");
    let first = sandbox.ralph(&["diff", "1"]).success();
    assert!(first.stdout.contains("-zero\n+one\n") && first.stdout.contains("+++ b/new.txt"), "{first:#?}");
    let all = sandbox.ralph(&["diff", "1..3", "fix"]).success();
    assert!(all.stdout.contains("-zero\n+three\n") && all.stdout.contains("+++ b/new.txt"), "{all:#?}");
    let stat = sandbox.ralph(&["diff", "1..3", "--stat"]).success().stdout;
    assert!(stat.contains("2 files changed, 2 insertions(+), 1 deletion(-)"), "{stat}");
    let nothing = sandbox.ralph(&["diff", "2"]).success().says("Iteration 2 changed nothing.");
    assert_eq!(nothing.stdout, "");
    assert_eq!(sandbox.ralph(&["diff", "fix-it"]).success().stdout, last.stdout);
    // Another active loop that was not driven is not selected.
    sandbox.ralph(&["verify"]);
    assert_eq!(sandbox.ralph(&["diff"]).success().stdout, last.stdout);
}

#[test]
fn a_missing_iteration_is_reported_with_the_existing_ones() {
    let sandbox = driven();
    sandbox
        .ralph(&["diff", "9"])
        .exits(2)
        .says("no checkpoint of iteration 9 of `fix-it-1`")
        .says("available: 1 to 3");
    sandbox.git(&["update-ref", "-d", "refs/ralph/fix-it-1/2"]);
    sandbox.ralph(&["diff", "2"]).exits(2).says("available: 1, 3");
    sandbox.ralph(&["diff", "3"]).success().says("these are the changes since iteration 1");
    sandbox.ralph(&["diff", "0"]).exits(2).says("iterations are counted from 1");
    sandbox.ralph(&["diff", "1", "other"]).exits(2).says("no loop `other`");
    sandbox.ralph(&["diff", "verify"]).exits(2).says("only those loops have checkpoints");
    begin(&sandbox, "later-2", false);
    sandbox.ralph(&["diff"]).exits(2).says("checkpoints are off for `later-2`");
    begin(&sandbox, "later-2", true);
    sandbox.ralph(&["diff"]).exits(2).says("no checkpoint of `later-2`");
    keep(&sandbox, "later-2", 0);
    sandbox.ralph(&["diff"]).exits(2).says("no iteration of `later-2` has a checkpoint yet");
    let undriven = Sandbox::gated("verify: ['true']\n");
    undriven.ralph(&["diff"]).exits(2).says("no driven loop in this repo yet");
}

#[test]
fn without_git_or_a_repository_there_are_no_checkpoints() {
    let sandbox = driven();
    let mut without = sandbox.command(&["diff"]);
    without.env("PATH", sandbox.home());
    Finished::of(without.output().expect("the binary")).exits(2).says("git is not installed");
    fs::rename(sandbox.path(".git"), sandbox.path("elsewhere")).expect("moved");
    sandbox.ralph(&["diff"]).exits(2).says("not a git repository");
}

/// As called by a hook of git, or by a shell that works on another repository.
#[test]
fn git_variables_that_point_elsewhere_are_ignored() {
    let mut sandbox = driven();
    for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"] {
        sandbox.set(name, "/nowhere");
    }
    assert!(sandbox.ralph(&["diff"]).success().stdout.contains("+three"));
}

#[test]
fn the_diff_uses_the_users_pager_and_colours() {
    let mut sandbox = driven();
    sandbox.set("GIT_CONFIG_GLOBAL", sandbox.home().join("gitconfig").to_string_lossy());
    let config = "[color]\n  ui = always\n[diff]\n  noprefix = true\n";
    fs::write(sandbox.home().join("gitconfig"), config).expect("a file");
    let shown = sandbox.ralph(&["diff"]).success().stdout;
    assert!(shown.contains("\u{1b}[32m+") && shown.contains("--- a.txt"), "{shown:?}");
    // A pager is only used on a terminal.
    sandbox.set("GIT_PAGER", "echo paged:; cat");
    let paged = Pty::open().start(&sandbox.command(&["diff"])).finish();
    assert!(paged.stdout.contains("paged:"), "{paged:#?}");
}
