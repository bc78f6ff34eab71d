//! `ralph audit`: the records of a loop are the ones that were written.

use std::fs;
use std::path::PathBuf;

use ralph_testkit::Sandbox;

/// A repo with one blocked stop and one `ralph verify`.
fn recorded() -> Sandbox {
    let sandbox = Sandbox::gated("verify: ['test -e done']\n");
    sandbox.stop("check").answer().blocked();
    sandbox.file("done", "");
    sandbox.ralph(&["verify"]).success();
    sandbox
}

fn ledgers(sandbox: &Sandbox) -> Vec<PathBuf> {
    let repos = fs::read_dir(sandbox.ralph_home().join("repos")).expect("a folder").flatten();
    let loops =
        repos.flat_map(|repo| fs::read_dir(repo.path().join("loops")).into_iter().flatten().flatten());
    loops.map(|entry| entry.path().join("ledger.jsonl")).collect()
}

fn ledger_of(sandbox: &Sandbox, name: &str) -> PathBuf {
    let is_it = |path: &PathBuf| path.to_string_lossy().contains(&format!("/loops/{name}"));
    ledgers(sandbox).into_iter().find(is_it).expect("a ledger")
}

#[test]
fn intact_records_pass() {
    let sandbox = recorded();
    let audit = sandbox.ralph(&["audit"]).success();
    assert_eq!(audit.stdout.matches(", intact").count(), 2, "{audit:#?}");
    let json = sandbox.ralph(&["audit", "verify", "--json"]).success().json();
    assert_eq!(json["loops"][0]["loop"], "verify");
    assert_eq!(json["loops"][0]["intact"], true);
}

#[test]
fn a_changed_dropped_or_cut_record_is_named_with_exit_code_5() {
    for what in
        ["its hash does not match its content", "it does not continue the previous line", "was written"]
    {
        let sandbox = recorded();
        let ledger = ledger_of(&sandbox, "check");
        let text = fs::read_to_string(&ledger).expect("the ledger");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let edited = match what {
            "its hash does not match its content" => text.replacen("test -e done", "test -e dome", 1),
            "was written" => lines[0].to_owned(),
            _ => [lines[0], &lines[2..].concat()].concat(),
        };
        fs::write(&ledger, edited).expect("edit");
        let audit = sandbox.ralph(&["audit"]).exits(5);
        assert!(audit.stdout.contains("record ") && audit.stdout.contains(what), "{what}: {audit:#?}");
        assert!(audit.stdout.contains("verify: ") && audit.stdout.contains(", intact"), "{audit:#?}");
        // Continued by the next stop, it still shows.
        sandbox.stop("check").answer().allowed();
        sandbox.ralph(&["audit", "check"]).exits(5);
    }
}

#[test]
fn a_deleted_ledger_and_a_deleted_home_are_missed() {
    let sandbox = recorded();
    fs::remove_dir_all(ledger_of(&sandbox, "check").parent().expect("a folder")).expect("delete");
    let audit = sandbox.ralph(&["audit"]).exits(5);
    assert!(audit.stdout.contains("the ledger is missing"), "{audit:#?}");
    fs::remove_dir_all(sandbox.ralph_home()).expect("delete");
    let audit = sandbox.ralph(&["audit"]).exits(5);
    assert_eq!(audit.stdout.matches("the ledger is missing").count(), 2, "{audit:#?}");
}

#[test]
fn a_receipt_that_points_to_another_line_is_named() {
    let sandbox = recorded();
    let repo = ledger_of(&sandbox, "verify").ancestors().nth(3).expect("a folder").to_owned();
    let receipts: Vec<_> = fs::read_dir(repo.join("receipts")).expect("receipts").flatten().collect();
    let receipt = receipts.first().expect("a receipt").path();
    let text = fs::read_to_string(&receipt).expect("a pointer");
    fs::write(&receipt, text.replace("\"offset\":", "\"offset\":1")).expect("edit");
    let audit = sandbox.ralph(&["audit", "verify"]).exits(5);
    assert!(audit.stdout.contains("is not in its ledger"), "{audit:#?}");
}
