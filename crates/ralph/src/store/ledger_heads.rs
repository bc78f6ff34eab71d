//! The head of every ledger in a second place, outside `RALPH_HOME`: a ledger whose end was cut off still continues its own
//! chain, and shows only against this. `ralph audit` compares the two.
//!
//! It is written after the ledger, so that after a kill it is at most older. An agent can write here too; what it cannot do
//! is change one of the two by accident or by a tool that knows only `~/.ralph`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ralph_core::ledger::line::ChainHead;
use ralph_core::model::id::Digest;

use crate::sys::files;

/// Beyond so many the oldest are removed.
const MOST: usize = 2_000;

/// Records a head. A ledger counts without it, so an error is ignored.
pub(crate) fn record(file: &Path, head: &ChainHead) {
    // Always the same length, so that writing over the old line leaves nothing of it behind.
    let line = format!("{} {:020}\n", head.hash, head.seq);
    let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(file);
    let opened = open().or_else(|_| {
        if let Some(folder) = file.parent() {
            files::private_dir(folder)?;
            files::remove_oldest(folder, MOST);
        }
        open()
    });
    let _best_effort = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

pub(crate) fn read(file: &Path) -> Option<ChainHead> {
    let text = fs::read_to_string(file).ok()?;
    let (hash, seq) = text.strip_suffix('\n')?.split_once(' ')?;
    Some(ChainHead { seq: seq.parse().ok()?, hash: Digest::parse(hash)? })
}

/// Whether a ledger that ends at `end` lacks lines that were written once.
pub(crate) fn missing_since(recorded: &ChainHead, end: &ChainHead) -> Option<String> {
    let is_cut = recorded.seq > end.seq;
    let is_other = recorded.seq == end.seq && recorded.hash != end.hash;
    is_cut
        .then(|| format!("it ends at record {}, but record {} was written", end.seq, recorded.seq))
        .or_else(|| is_other.then(|| format!("record {} is not the one that was written", recorded.seq)))
}
