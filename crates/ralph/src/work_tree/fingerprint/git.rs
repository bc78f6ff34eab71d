//! The names of the tracked files: the only thing git is used for here.
//!
//! A tracked file counts even if an ignore rule or a cache folder would exclude it, and only git's index has that
//! list. It is stored with the stat cache and stays valid as long as none of the indexes it came from changes, so a
//! warm read starts no process.

use std::ffi::CStr;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rustix::fs::CWD;

use super::bytes::{ByteReader, Writer};
use super::file_stamp::FileStamp;
use super::ignores::path_of;
use crate::work_tree::git::list_tracked;
use crate::work_tree::git::locate::Checkout;

/// Limit on nested submodules; a link may make a repository its own submodule.
const DEEPEST_SUBMODULE: usize = 8;

/// What git contributed to a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GitUse {
    /// Git listed the tracked files.
    Listed,
    /// An earlier list is still valid.
    Cached,
    /// The tree is not in a git repository.
    NoRepo,
    /// There is a repository, but git could not list its files, for this reason. Tracked files that are ignored or in
    /// a cache folder are missing from the tree.
    Failed(String),
}

fn index_of(checkout: &Checkout) -> Option<FileStamp> {
    FileStamp::of(CWD, checkout.index()).ok().map(|(stamp, _)| stamp)
}

/// The names of the tracked files, and the indexes they depend on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    tracked: Tracked,
    sources: Vec<Source>,
}

/// An index the listing came from.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    /// The folder of the repository, relative to the root of the tree; empty for the one around the root.
    folder: Vec<u8>,
    /// `None` for a repository without an index, or a submodule that is not checked out.
    index: Option<FileStamp>,
}

/// The names of the files git tracks below `root`, from `known` if it is still valid.
///
/// A listing without sources must not be cached.
pub(super) fn tracked<'l>(
    root: &Path,
    checkout: Option<&Checkout>,
    known: Option<&'l Listing>,
) -> (ListingRef<'l>, GitUse) {
    let Some(checkout) = checkout else { return (ListingRef::New(Listing::default()), GitUse::NoRepo) };
    if let Some(listing) = known.filter(|listing| listing.holds(root, checkout)) {
        return (ListingRef::Known(listing), GitUse::Cached);
    }
    match Listing::of(root, checkout) {
        Ok(listing) => (ListingRef::New(listing), GitUse::Listed),
        Err(reason) => (ListingRef::New(Listing::default()), GitUse::Failed(reason)),
    }
}

/// A listing, and whether it is from the cache.
pub(super) enum ListingRef<'l> {
    Known(&'l Listing),
    New(Listing),
}

impl ListingRef<'_> {
    pub(super) fn get(&self) -> &Listing {
        match self {
            Self::Known(listing) => listing,
            Self::New(listing) => listing,
        }
    }

    pub(super) fn tracked(&self) -> &Tracked {
        &self.get().tracked
    }
}

impl Listing {
    fn of(root: &Path, checkout: &Checkout) -> Result<Self, String> {
        let mut collected = Collected::default();
        collected.add(root, checkout, b"", 0)?;
        Ok(Self { tracked: Tracked::new(collected.paths), sources: collected.sources })
    }

    fn holds(&self, root: &Path, checkout: &Checkout) -> bool {
        !self.sources.is_empty() && self.sources.iter().all(|source| source.holds(root, checkout))
    }

    /// Whether the listing may be cached: it came from git, from an index that is `settled`.
    pub(super) fn is_keepable(&self, settled: impl Fn(&FileStamp) -> bool) -> bool {
        !self.sources.is_empty()
            && self.sources.iter().filter_map(|source| source.index.as_ref()).all(settled)
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.count(self.sources.len());
        for source in &self.sources {
            to.slice(&source.folder);
            to.count(usize::from(source.index.is_some()));
            if let Some(stamp) = &source.index {
                stamp.write(to);
            }
        }
        to.slice(&self.tracked.text);
    }

    pub(super) fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        let mut sources = Vec::new();
        for _ in 0..from.count()? {
            let folder = from.slice()?.to_vec();
            let index = if from.count()? == 0 { None } else { Some(FileStamp::read(from)?) };
            sources.push(Source { folder, index });
        }
        Some(Self { tracked: Tracked::from_text(from.slice()?.to_vec()), sources })
    }
}

impl Source {
    fn holds(&self, root: &Path, checkout: &Checkout) -> bool {
        let index = match self.folder.as_slice() {
            b"" => index_of(checkout),
            folder => Checkout::at(&root.join(path_of(folder))).as_ref().and_then(index_of),
        };
        index == self.index
    }
}

#[derive(Default)]
struct Collected {
    paths: Vec<Vec<u8>>,
    sources: Vec<Source>,
}

impl Collected {
    /// Adds the files that `checkout` tracks below `folder`, which is `prefix` of the root. Submodules are listed one
    /// by one instead of with `--recurse-submodules`: this works with any git version, also for inactive submodules,
    /// and shows which indexes the listing depends on.
    fn add(&mut self, folder: &Path, checkout: &Checkout, prefix: &[u8], depth: usize) -> Result<(), String> {
        // Stamped before the listing: an index that changes in between no longer matches its stamp.
        let index = index_of(checkout);
        let listed = list_tracked(folder, checkout, PATIENCE).map_err(|error| error.to_string())?;
        self.sources.push(Source { folder: prefix.to_vec(), index });
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let name = &line[tab + 1..];
            let path = if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() };
            match line.starts_with(b"160000 ") {
                true => self.add_submodule(&folder.join(path_of(name)), path, depth + 1),
                false => self.paths.push(path),
            }
        }
        Ok(())
    }

    /// A submodule that cannot be listed is itself recorded as tracked; the walk then includes all its files.
    fn add_submodule(&mut self, folder: &Path, path: Vec<u8>, depth: usize) {
        let checkout = match fs::symlink_metadata(folder) {
            Ok(meta) if meta.is_dir() && depth <= DEEPEST_SUBMODULE => Checkout::at(folder),
            _ => None,
        };
        if let Some(checkout) = checkout
            && self.add(folder, &checkout, &path, depth).is_ok()
        {
            return;
        }
        self.sources.push(Source { folder: path.clone(), index: None });
        self.paths.push(path);
    }
}

/// A real index is read faster than this; anything slower was put in its place.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sorted names of tracked files, which the walk narrows down folder by folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tracked {
    /// The names, each terminated by a NUL.
    text: Vec<u8>,
    spans: Vec<Range<u32>>,
}

/// The tracked names in one folder.
#[derive(Clone, Debug)]
pub(super) struct TrackedIn {
    range: Range<usize>,
    /// The length of the folder's name with its slash, the common prefix of these names.
    skip: usize,
    /// The likely next name, since lookups are in order.
    next: usize,
}

impl Tracked {
    fn new(mut paths: Vec<Vec<u8>>) -> Self {
        paths.sort_unstable();
        paths.dedup(); // A file in conflict is listed once per side.
        let mut text = Vec::new();
        for path in paths {
            text.extend_from_slice(&path);
            text.push(0);
        }
        Self::from_text(text)
    }

    fn from_text(text: Vec<u8>) -> Self {
        let mut spans = Vec::new();
        let mut rest = text.as_slice();
        let mut start = 0;
        // This search works on machine words. A byte-wise search would be the slowest part of reading the cache.
        while let Ok(name) = CStr::from_bytes_until_nul(rest) {
            let end = start + name.count_bytes() as u32;
            spans.push(start..end);
            start = end + 1;
            rest = &rest[name.count_bytes() + 1..];
        }
        Self { text, spans }
    }

    pub(super) fn all(&self) -> TrackedIn {
        TrackedIn { range: 0..self.spans.len(), skip: 0, next: 0 }
    }

    /// Whether `name` in the folder is itself tracked.
    pub(super) fn has(&self, folder: &mut TrackedIn, name: &[u8]) -> bool {
        let is_it = |at: &usize| *at < folder.range.end && self.name(*at, folder) == name;
        let found = Some(folder.next).filter(is_it).or_else(|| Some(self.first(folder, name)).filter(is_it));
        if let Some(at) = found {
            folder.next = at + 1;
        }
        found.is_some()
    }

    /// The tracked names below the subfolder `name`; `None` if there are none.
    pub(super) fn below(&self, folder: &TrackedIn, name: &[u8]) -> Option<TrackedIn> {
        let mut bound = [name, b"/"].concat();
        let start = self.first(folder, &bound);
        *bound.last_mut()? = b'/' + 1;
        let end = self.first(folder, &bound);
        (start < end).then(|| TrackedIn {
            range: start..end,
            skip: folder.skip + name.len() + 1,
            next: start,
        })
    }

    /// The names of the files and subfolders of a folder that are tracked or contain tracked files.
    pub(super) fn children(&self, folder: &TrackedIn) -> Vec<&[u8]> {
        let mut children: Vec<&[u8]> = folder
            .range
            .clone()
            .filter_map(|at| self.name(at, folder).split(|byte| *byte == b'/').next())
            .collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    fn name(&self, at: usize, folder: &TrackedIn) -> &[u8] {
        let span = &self.spans[at];
        &self.text[span.start as usize + folder.skip..span.end as usize]
    }

    /// The first of the folder's names that is not less than `bound`.
    fn first(&self, folder: &TrackedIn, bound: &[u8]) -> usize {
        let Range { mut start, mut end } = folder.range;
        while start < end {
            let middle = start + (end - start) / 2;
            match self.name(middle, folder) < bound {
                true => start = middle + 1,
                false => end = middle,
            }
        }
        start
    }
}
