//! Evidence is bound to the tree: a change hidden from git is not hidden from receipts.

use std::fs;
use std::time::{Duration, SystemTime};

use ralph_testkit::{Sandbox, verify_list};

/// A committed repo whose only gate passed once; every run is counted.
fn verified_once() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &verify_list(&[&sandbox.counting("true")]));
    sandbox.file("src.txt", "good");
    sandbox.trust();
    sandbox.git(&["add", "."]);
    sandbox.git(&["commit", "-qm", "all"]);
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    assert_eq!(sandbox.verify(&[])["gates"][0]["reused"], true);
    sandbox
}

#[track_caller]
fn the_receipt_does_not_count(sandbox: &Sandbox) {
    sandbox.stop("check").answer().allowed().expect("verified anew");
    assert_eq!(sandbox.runs(), 2);
}

#[test]
fn a_change_hidden_by_assume_unchanged() {
    let sandbox = verified_once();
    sandbox.git(&["update-index", "--assume-unchanged", "src.txt"]);
    sandbox.file("src.txt", "evil");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    the_receipt_does_not_count(&sandbox);
}

#[test]
fn a_change_hidden_by_skip_worktree() {
    let sandbox = verified_once();
    sandbox.git(&["update-index", "--skip-worktree", "src.txt"]);
    sandbox.file("src.txt", "evil");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    the_receipt_does_not_count(&sandbox);
}

#[test]
fn a_file_hidden_by_info_exclude() {
    let sandbox = verified_once();
    sandbox.file(".git/info/exclude", "hidden.txt\n");
    sandbox.file("hidden.txt", "evil");
    assert_eq!(sandbox.git(&["status", "--porcelain"]), "");
    the_receipt_does_not_count(&sandbox);
}

#[test]
fn a_change_with_restored_time_and_size() {
    let sandbox = verified_once();
    let path = sandbox.path("src.txt");
    // Old enough to be cached by its time alone.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let set = |time| {
        fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("a time");
    };
    set(old);
    sandbox.verify(&[]);
    let runs = sandbox.runs();
    sandbox.file("src.txt", "evil");
    set(old);
    assert_eq!(sandbox.verify(&[])["gates"][0]["reused"], false);
    assert_eq!(sandbox.runs(), runs + 1);
}

#[test]
fn a_gitignore_edited_during_the_loop_hides_nothing() {
    let sandbox = Sandbox::gated(&verify_list(&["test ! -e bad.txt"]));
    sandbox.file(".gitignore", "");
    sandbox.file("bad.txt", "");
    sandbox.stop("check").answer().blocked();
    // The agent passes once, then restores the bad file behind an ignore rule of its own.
    sandbox.remove("bad.txt");
    sandbox.file(".gitignore", "bad.txt\n");
    let verified = sandbox.verify(&[]);
    assert_eq!(verified["verdict"], "verified");
    sandbox.file("bad.txt", "");
    // A plain `verify` follows the current rules, and finds no receipt under rules that the user has not seen.
    sandbox.ralph(&["verify"]).exits(1);
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(
        reason.contains("gate `test ! -e bad.txt` failed"),
        "the loop follows those it began with: {reason}"
    );
}

#[test]
fn a_pass_before_the_last_edit_does_not_count() {
    let sandbox = Sandbox::gated("verify: ['test \"$(cat src.txt)\" != bug']\n");
    sandbox.file("src.txt", "fine\n");
    assert_eq!(sandbox.verify(&[])["verdict"], "verified");
    sandbox.file("src.txt", "bug\n");
    sandbox.stop("check").answer().blocked();
}

/// A change outside the tree revokes an older pass.
#[test]
fn a_failure_revokes_an_earlier_pass_on_the_same_tree() {
    let sandbox = Sandbox::new();
    sandbox.file(".gitignore", "build/\n");
    sandbox.file("build/out", "ok\n");
    sandbox.file("ralph.yaml", "verify: ['test \"$(cat build/out)\" = ok']\n");
    sandbox.trust();
    sandbox.ralph(&["verify"]).success();
    std::fs::remove_file(sandbox.path("build/out")).expect("our own");
    sandbox.ralph(&["verify", "--fresh"]).exits(1);
    sandbox.ralph(&["verify"]).exits(1);
}
