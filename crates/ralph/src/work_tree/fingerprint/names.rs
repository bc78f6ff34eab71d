//! The names in one folder, sorted.
//!
//! Sorted, so that it can be merged with other sorted lists (the stat cache, git's list). A work tree has thousands
//! of names, so they are stored in one buffer that is reused for every folder.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

#[cfg_attr(target_os = "linux", path = "names/by_getdents.rs")]
#[cfg_attr(not(target_os = "linux"), path = "names/by_readdir.rs")]
mod way;

#[derive(Default)]
pub(super) struct Names {
    text: Vec<u8>,
    /// Sorted by name.
    spans: Vec<Span>,
    buffer: way::Buffer,
}

struct Span {
    name: Range<usize>,
    kind: FileType,
}

impl Names {
    /// Replaces the names with those in `folder`.
    pub(super) fn read(&mut self, folder: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.clear();
        let Self { text, spans, buffer } = self;
        buffer.each_name(folder, |name, kind| {
            let name = name.to_bytes();
            if !matches!(name, b"." | b"..") {
                let start = text.len();
                text.extend_from_slice(name);
                spans.push(Span { name: start..text.len(), kind });
            }
        })?;
        spans.sort_unstable_by(|one, next| text[one.name.clone()].cmp(&text[next.name.clone()]));
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.spans.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Each with its kind, if the folder provides it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.spans.iter().map(|span| (&self.text[span.name.clone()], span.kind))
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.spans.binary_search_by(|span| self.text[span.name.clone()].cmp(name)).is_ok()
    }
}
