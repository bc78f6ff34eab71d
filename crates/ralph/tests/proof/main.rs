//! `ralph prove` with the real test runners and build tools, in places where no overlay can be made, and on two releases of a
//! package. Installed and run only on request:
//!
//!   cargo test -p ralph --test proof
//!
//! Needs npm, Python with venv, Go, make, and unshare and mount of Linux.

#![expect(clippy::disallowed_methods, reason = "a test has an environment of its own to look at")]

mod places;

mod releases;
mod runners;
mod stale_builds;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");

use std::process::Command;

use ralph_testkit::{Finished, Sandbox};
use serde_json::Value;

/// A repo whose tools are found as here, with a gate.
fn repo(gate: &str) -> Sandbox {
    assert!(std::path::Path::new(RALPH).exists());
    let mut sandbox = Sandbox::new();
    sandbox.set("PATH", here("PATH"));
    let home = here("HOME");
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let set = std::env::var(name).unwrap_or_else(|_| format!("{home}/{folder}"));
        sandbox.set(name, set);
    }
    sandbox.file("ralph.yaml", &format!("verify:\n  - {{name: test, run: {gate:?}, timeout: 10m}}\n"));
    sandbox.trust();
    sandbox
}

fn here(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Runs a script in the project, with this process's environment: fetches tools.
#[track_caller]
fn prepare(sandbox: &Sandbox, script: &str) {
    let mut shell = Command::new("bash");
    shell.args(["-euc", script]).current_dir(sandbox.project());
    let ran = Finished::of(shell.output().expect("bash"));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
}

fn commit(sandbox: &Sandbox) {
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "a commit"]);
}

fn proven(sandbox: &Sandbox) -> (Value, Option<i32>) {
    let ran = sandbox.ralph(&["prove", "--json"]);
    (ran.json(), ran.code)
}

/// The kind of the one row whose test ends so.
#[track_caller]
fn kind_of(proof: &Value, test: &str) -> String {
    let rows = proof["rows"].as_array().expect("rows");
    let is_it = |row: &&Value| row["test"].as_str().is_some_and(|name| name.ends_with(test));
    let found: Vec<&Value> = rows.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{test}: {proof:#}");
    found[0]["kind"].as_str().expect("a kind").to_owned()
}
