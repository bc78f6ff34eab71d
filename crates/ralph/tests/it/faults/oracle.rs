//! The one oracle: what must be true of everything that ralph stores, at any moment, whatever happened before.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::ledger::event::Event;
use ralph_core::ledger::line::{self as ledger_line, ChainHead, LedgerLine};
use ralph_core::ledger::state::State;
use ralph_core::model::id::{Digest, TreeHash};
use ralph_core::model::verdict::Verdict;
use serde::Deserialize;
use serde_json::Value;

use super::saved::below;

/// Whether a ledger may end in half a line: it may right after a fault, never after the next run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    MayBeTorn,
    Whole,
}

/// Everything in one `RALPH_HOME`, checked for consistency.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) ledgers: Vec<KeptLedger>,
    /// The accepted definitions, by SHA-256.
    pub(crate) trusted: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct KeptLedger {
    pub(crate) dir: PathBuf,
    pub(crate) lines: Vec<LedgerLine>,
    pub(crate) state: State,
}

#[derive(Deserialize)]
struct Snapshot {
    length: u64,
    head: ChainHead,
    state: State,
}

impl Kept {
    /// Checks all of it; the error is the first problem.
    pub(crate) fn look(home: &Path, tail: Tail) -> Result<Self, String> {
        let mut kept = Self::default();
        for path in below(home) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let whole_json = || {
                let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                serde_json::from_slice::<Value>(&text)
                    .map_err(|error| format!("{} is not whole: {error}", path.display()))
            };
            let parent = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            match (&*parent, &*name) {
                (_, "ledger.jsonl") => kept.ledgers.push(KeptLedger::read(&path, tail)?),
                (_, "trust.json") => kept.trusted = trusted(home, &whole_json()?)?,
                (_, "export.json") => drop(whole_json()?),
                ("notices", "lock") => {}
                ("receipts" | "notices", name) if !name.starts_with('.') => drop(whole_json()?),
                _ => {}
            }
        }
        kept.verified_needs_receipts()?;
        Ok(kept)
    }

    /// The ledger of the loops with this prefix; there is at most one in these tests.
    pub(crate) fn loop_named(&self, name: &str) -> Option<&KeptLedger> {
        self.ledgers.iter().find(|ledger| ledger.name().starts_with(name))
    }

    pub(crate) fn lines(&self) -> usize {
        self.ledgers.iter().map(|ledger| ledger.lines.len()).sum()
    }

    fn verified_needs_receipts(&self) -> Result<(), String> {
        for ledger in &self.ledgers {
            for line in &ledger.lines {
                let Event::Judged(judgement) = &line.event else { continue };
                if judgement.verdict != Verdict::Verified {
                    continue;
                }
                let Some(tree) = &judgement.tree else {
                    return Err(format!("{}: line {} is verified on no tree", ledger.name(), line.seq));
                };
                if !self.has_receipt(tree) {
                    return Err(format!(
                        "{}: line {} is verified without a receipt",
                        ledger.name(),
                        line.seq
                    ));
                }
            }
        }
        Ok(())
    }

    /// Receipts are shared: the one for this tree may be in another loop's ledger.
    pub(crate) fn has_receipt(&self, tree: &TreeHash) -> bool {
        let speaks = |event: &Event| matches!(event, Event::GateRan { receipt: Some(receipt), .. } if receipt.tree() == tree);
        self.ledgers.iter().flat_map(|ledger| &ledger.lines).any(|line| speaks(&line.event))
    }
}

impl KeptLedger {
    fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let verdict = |line: &LedgerLine| match &line.event {
            Event::Judged(judgement) => Some(judgement.verdict),
            _ => None,
        };
        self.lines.iter().filter_map(verdict).collect()
    }

    fn read(path: &Path, tail: Tail) -> Result<Self, String> {
        let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let dir = path.parent().unwrap_or(path).to_owned();
        let mut ledger = Self { dir, lines: Vec::new(), state: State::default() };
        // For every prefix: its length, its last line, its state.
        let mut prefixes = vec![(0, ChainHead::origin(), State::default())];
        let (mut length, mut head) = (0, ChainHead::origin());
        for bytes in text.split_inclusive(|byte| *byte == b'\n') {
            if !bytes.ends_with(b"\n") {
                if tail == Tail::Whole {
                    return Err(format!("{} still ends in half a line", path.display()));
                }
                break;
            }
            let line = std::str::from_utf8(bytes).map_err(|error| error.to_string());
            let line =
                line.and_then(|line| ledger_line::read(&head, line).map_err(|error| error.to_string()));
            let line = line.map_err(|error| format!("{}: line {}: {error}", path.display(), head.seq + 1))?;
            length += bytes.len() as u64;
            head = ChainHead { seq: line.seq, hash: line.hash.clone() };
            ledger.state.apply(line.at, &line.event);
            ledger.lines.push(line);
            prefixes.push((length, head.clone(), ledger.state.clone()));
        }
        ledger.snapshot_fits(&prefixes)?;
        Ok(ledger)
    }

    fn snapshot_fits(&self, prefixes: &[(u64, ChainHead, State)]) -> Result<(), String> {
        let path = self.dir.join("state.json");
        let Ok(text) = fs::read(&path) else { return Ok(()) };
        let snapshot: Snapshot = serde_json::from_slice(&text)
            .map_err(|error| format!("{} is not whole: {error}", path.display()))?;
        let fitting = prefixes.iter().find(|(length, ..)| *length == snapshot.length);
        match fitting {
            Some((_, head, state)) if *head == snapshot.head && *state == snapshot.state => Ok(()),
            Some(_) => Err(format!("{} is not what the ledger says at that length", path.display())),
            None => Err(format!("{} is of a length that no line ends at", path.display())),
        }
    }
}

/// Every file that trust names must exist, unchanged.
fn trusted(home: &Path, trust: &Value) -> Result<Vec<String>, String> {
    let mut trusted = Vec::new();
    let repos = trust["repos"].as_object().ok_or("trust.json has no repos")?;
    for acceptance in repos.values().flat_map(|repo| repo["accepted"].as_array().into_iter().flatten()) {
        let sha256 = acceptance["sha256"].as_str().ok_or("an acceptance of nothing")?;
        let text = fs::read(home.join("definitions").join(sha256))
            .map_err(|error| format!("{sha256} is trusted but not kept: {error}"))?;
        if Digest::of(&text).as_str() != sha256 {
            return Err(format!("{sha256} is trusted but something else is kept"));
        }
        trusted.push(sha256.to_owned());
    }
    Ok(trusted)
}
