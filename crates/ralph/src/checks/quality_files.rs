//! The claim files of a loop that ships: the agent's audit and evidence, and another tool's gate file.
//!
//! Each is bound to the code that it was first seen with: a file that stays while the code changes is about other code.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use ralph_core::claims::quality_files;
use ralph_core::ledger::event::Event;
use ralph_core::ledger::ship::ShipState;
use ralph_core::model::finding::ShipOutcome;
use ralph_core::model::id::{Digest, TreeHash};
use ralph_core::model::preset::Check;
use ralph_core::model::ship::{AUDIT_REPORT, EVIDENCE_FILE, GATE_FILE};

use crate::sys::files;

/// The file of a check.
pub(crate) fn file_of(check: Check) -> Option<&'static str> {
    match check {
        Check::Audit => Some(AUDIT_REPORT),
        Check::EvidenceFile => Some(EVIDENCE_FILE),
        Check::GateFile => Some(GATE_FILE),
        _ => None,
    }
}

/// The result of one of these checks, and the event that binds new content to this code.
pub(crate) fn check(
    check: Check,
    root: &Path,
    state: &ShipState,
    tree: &TreeHash,
) -> (ShipOutcome, Option<Event>) {
    let Some(file) = file_of(check) else { return (ShipOutcome::Passed, None) };
    let seen = match read(root, file) {
        Ok(Some(seen)) => seen,
        Ok(None) => return (unmet(check, file, "is missing"), None),
        Err(why) => return (unmet(check, file, &format!("cannot be read: {why}")), None),
    };
    let bound = bind(file, &seen, state, tree);
    let problem = match check {
        Check::Audit => quality_files::audit_problem(&seen.text),
        Check::EvidenceFile => quality_files::evidence_problem(&seen.text),
        _ => quality_files::gate_file_problem(&seen.text),
    };
    let is_old =
        state.claims.get(file).is_some_and(|(content, code)| *content == seen.content && code != tree);
    match problem {
        Some(problem) => (unmet(check, file, &format!("does not pass: {problem}")), bound),
        None if is_old => (unmet(check, file, "is older than the code"), bound),
        None => (ShipOutcome::Passed, bound),
    }
}

/// Binds the claim files that exist when a loop starts: they are about the code of before.
pub(crate) fn at_start(root: &Path, tree: &TreeHash) -> Vec<Event> {
    let state = ShipState::default();
    let files = [AUDIT_REPORT, EVIDENCE_FILE, GATE_FILE];
    let bound = |file| bind(file, &read(root, file).ok()??, &state, tree);
    files.into_iter().filter_map(bound).collect()
}

struct ClaimFile {
    text: String,
    /// Of its text and the time it was written: the same words written again are a new claim.
    content: Digest,
}

fn read(root: &Path, file: &str) -> Result<Option<ClaimFile>, String> {
    let path = root.join(file);
    if !files::lies_below(&path, root) {
        return Err("a symbolic link leads out of the repo".into());
    }
    let Some(bytes) = files::read_foreign(&path).map_err(|error| error.to_string())? else { return Ok(None) };
    let written = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let content = Digest::of_parts([bytes.as_slice(), &written.as_nanos().to_le_bytes()]);
    Ok(Some(ClaimFile { text: String::from_utf8_lossy(&bytes).into_owned(), content }))
}

fn bind(file: &str, seen: &ClaimFile, state: &ShipState, tree: &TreeHash) -> Option<Event> {
    let is_known = state.claims.get(file).is_some_and(|(content, _)| *content == seen.content);
    (!is_known).then(|| Event::ClaimFileSeen {
        file: file.to_owned(),
        content: seen.content.clone(),
        tree: tree.clone(),
    })
}

fn unmet(check: Check, file: &str, problem: &str) -> ShipOutcome {
    let next = match check {
        Check::Audit => {
            "review the current code, fix what you find, and write the report with one line `Decision: PASS` and the counts `L1: 0`, `L2: 0` (with the plugin: /ralph:ralph-audit)"
        }
        Check::EvidenceFile => {
            "write at least one item of evidence (a list item, table row or code block) for the current code"
        }
        _ => "run the command that writes it (for example `npm run qa:gate`) and fix what it finds",
    };
    ShipOutcome::Unmet { what: format!("`{file}` {problem}"), next: next.to_owned() }
}
