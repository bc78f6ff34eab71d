//! The names in one folder, sorted.
//!
//! Sorted, because then whatever else is kept sorted by name (the stat cache, git's list) can be gone through alongside.
//! A work tree holds thousands of names, so they lie in one text, which every further folder fills anew.

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
    /// Takes the names in `folder` in place of those of the folder before.
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

    /// Each with its kind, as far as the folder can tell.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.spans.iter().map(|span| (&self.text[span.name.clone()], span.kind))
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.spans.binary_search_by(|span| self.text[span.name.clone()].cmp(name)).is_ok()
    }
}
