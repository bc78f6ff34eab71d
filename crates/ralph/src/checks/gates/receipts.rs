//! Finds receipts again: a small file per key points to the ledger line of the receipt. The line is authoritative; a
//! pointer without it is ignored.

use std::{fs, io};

use ralph_core::ledger::event::Event;
use ralph_core::ledger::line::LedgerLine;
use ralph_core::model::gate::Gate;
use ralph_core::model::gate::receipt::{Receipt, ReceiptKey};
use ralph_core::model::id::{Digest, LoopId, TreeHash};
use serde::{Deserialize, Serialize};

use crate::store::home::RepoHome;
use crate::store::ledger;
use crate::store::ledger::Loop;
use crate::sys::files;

/// Beyond so many the oldest are removed.
const MOST: usize = 400;

#[derive(Serialize, Deserialize)]
struct Pointer {
    ledger: LoopId,
    offset: u64,
    line: Digest,
}

/// Records where a receipt was written.
pub(crate) fn point_to(
    home: &RepoHome,
    receipt: &Receipt,
    ledger: &LoopId,
    offset: u64,
    line: &Digest,
) -> io::Result<()> {
    let dir = home.receipts_dir();
    files::private_dir(&dir)?;
    let pointer = Pointer { ledger: ledger.clone(), offset, line: line.clone() };
    let text = serde_json::to_vec(&pointer).map_err(io::Error::other)?;
    files::replace(&dir.join(receipt.key().file_name()), &text)?;
    files::sweep_temporary(&dir);
    // A lost pointer only costs another run.
    files::remove_oldest(&dir, MOST);
    Ok(())
}

/// Removes the receipt of a gate that has since failed on the same tree: something outside the tree has changed, so the
/// older pass no longer counts.
pub(crate) fn forget(home: &RepoHome, gate: &Gate, environment: &Digest, tree: &TreeHash) {
    let key = ReceiptKey::new(gate, environment, tree);
    let _may_be_missing = fs::remove_file(home.receipts_dir().join(key.file_name()));
}

/// The receipt for this gate on this tree in this environment, if there is one.
pub(crate) fn find(home: &RepoHome, gate: &Gate, environment: &Digest, tree: &TreeHash) -> Option<Receipt> {
    let key = ReceiptKey::new(gate, environment, tree);
    let text = fs::read(home.receipts_dir().join(key.file_name())).ok()?;
    let pointer: Pointer = serde_json::from_slice(&text).ok()?;
    if pointer.ledger != ledger::verify_loop() {
        return None;
    }
    let line = Loop::new(home, &pointer.ledger).line_at(pointer.offset)?;
    if line.hash != pointer.line {
        return None;
    }
    match line.event {
        Event::GateRan { receipt: Some(receipt), .. } if receipt.speaks_for(gate, environment, tree) => {
            Some(receipt)
        }
        _ => None,
    }
}

/// The pointers into this loop's ledger whose line is not the receipt that they were made for.
pub(crate) fn without_line(home: &RepoHome, id: &LoopId) -> Vec<String> {
    let ledger = Loop::new(home, id);
    let entries = fs::read_dir(home.receipts_dir()).into_iter().flatten().flatten();
    let broken = entries.filter_map(|entry| {
        let pointer: Pointer = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
        let name = entry.file_name().into_string().ok()?;
        let is_its_line = |line: &LedgerLine| match &line.event {
            Event::GateRan { receipt: Some(receipt), .. } => {
                line.hash == pointer.line && receipt.key().file_name() == name
            }
            _ => false,
        };
        let is_broken =
            pointer.ledger == *id && !ledger.line_at(pointer.offset).as_ref().is_some_and(is_its_line);
        is_broken.then_some(name)
    });
    broken.collect()
}
