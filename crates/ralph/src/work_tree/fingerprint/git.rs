//! What git is asked: the names of the tracked files, nothing else.
//!
//! A tracked file counts even where an ignore rule or a cache folder would leave it out, and only git's index
//! knows which those are. The list is kept with the stat cache and is good for as long as no index it came from
//! has changed, so a warm read starts no process.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::CWD;

use super::bytes::{Reader, Writer};
use super::file_stamp::Stamp;
use super::ignores::path_of;
use crate::sys::{env, files, short_command};
use crate::work_tree::git::no_file_of_gits;

/// Submodules within submodules are followed this far; a link may make a repository its own submodule.
const DEEPEST_SUBMODULE: usize = 8;

/// What git contributed to a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GitUse {
    /// Git listed the tracked files.
    Listed,
    /// An earlier list still holds.
    Cached,
    /// The tree lies in no git repository.
    NoRepo,
    /// There is a repository, but git could not list its files, for this reason. Tracked files that are ignored
    /// or lie in a cache folder are not in the tree.
    Failed(String),
}

/// A repository on disk.
#[derive(Debug)]
pub(super) struct Repo {
    /// The top folder of the work tree.
    pub(super) top: PathBuf,
    /// The folder that holds the index.
    dir: PathBuf,
}

impl Repo {
    /// The repository `root` lies in.
    pub(super) fn around(root: &Path) -> Option<Self> {
        root.ancestors().find_map(Self::at)
    }

    /// The repository whose work tree starts at `top`.
    fn at(top: &Path) -> Option<Self> {
        let mark = top.join(".git");
        let dir = match fs::metadata(&mark).ok()? {
            meta if meta.is_dir() => mark,
            meta if meta.is_file() => top.join(gitdir_of(&files::read_foreign(&mark).ok()??)?),
            _ => return None,
        };
        // Git takes a folder without a HEAD for any other folder, and so goes on searching above it.
        fs::symlink_metadata(dir.join("HEAD")).ok()?;
        Some(Self { top: top.to_path_buf(), dir })
    }

    fn index(&self) -> Option<Stamp> {
        Stamp::of(CWD, self.dir.join("index")).ok().map(|(stamp, _)| stamp)
    }
}

/// The folder a `.git` file of a linked work tree or a submodule points to.
fn gitdir_of(text: &[u8]) -> Option<&Path> {
    text.strip_prefix(b"gitdir: ").map(|path| path_of(path.trim_ascii_end()))
}

/// The names of the tracked files, and what they depend on.
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
    index: Option<Stamp>,
}

/// The names of the files git tracks below `root`, from `known` if it still holds.
///
/// A listing without sources is one that must not be kept.
pub(super) fn tracked<'l>(
    root: &Path,
    repo: Option<&Repo>,
    known: Option<&'l Listing>,
) -> (ListingRef<'l>, GitUse) {
    let Some(repo) = repo else { return (ListingRef::New(Listing::default()), GitUse::NoRepo) };
    if let Some(listing) = known.filter(|listing| listing.holds(root, repo)) {
        return (ListingRef::Known(listing), GitUse::Cached);
    }
    match Listing::of(root, repo) {
        Ok(listing) => (ListingRef::New(listing), GitUse::Listed),
        Err(reason) => (ListingRef::New(Listing::default()), GitUse::Failed(reason)),
    }
}

/// A listing, and whether the cache has it already.
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
    fn of(root: &Path, repo: &Repo) -> Result<Self, String> {
        let mut collected = Collected::default();
        collected.add(root, repo, b"", 0)?;
        Ok(Self { tracked: Tracked::new(collected.paths), sources: collected.sources })
    }

    fn holds(&self, root: &Path, repo: &Repo) -> bool {
        !self.sources.is_empty() && self.sources.iter().all(|source| source.holds(root, repo))
    }

    /// Whether the listing may be kept: it came from git, from an index that is `settled`.
    pub(super) fn is_keepable(&self, settled: impl Fn(&Stamp) -> bool) -> bool {
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

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut sources = Vec::new();
        for _ in 0..from.count()? {
            let folder = from.slice()?.to_vec();
            let index = if from.count()? == 0 { None } else { Some(Stamp::read(from)?) };
            sources.push(Source { folder, index });
        }
        Some(Self { tracked: Tracked::from_text(from.slice()?.to_vec()), sources })
    }
}

impl Source {
    fn holds(&self, root: &Path, repo: &Repo) -> bool {
        let index = match self.folder.as_slice() {
            b"" => repo.index(),
            folder => Repo::at(&root.join(path_of(folder))).and_then(|repo| repo.index()),
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
    /// Adds the files `repo` tracks below `folder`, which is `prefix` of the root. Submodules are asked one by
    /// one rather than by `--recurse-submodules`: this works with any git, does not depend on which of them are
    /// configured as active, and tells which indexes the listing depends on.
    fn add(&mut self, folder: &Path, repo: &Repo, prefix: &[u8], depth: usize) -> Result<(), String> {
        // Stamped before the listing: an index that changes in between no longer fits its stamp.
        let index = repo.index();
        let listed = ls_files(folder, repo)?;
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

    /// A submodule that cannot be listed is itself put down as tracked; the walk then takes all that is in it.
    fn add_submodule(&mut self, folder: &Path, path: Vec<u8>, depth: usize) {
        let repo = match fs::symlink_metadata(folder) {
            Ok(meta) if meta.is_dir() && depth <= DEEPEST_SUBMODULE => Repo::at(folder),
            _ => None,
        };
        if let Some(repo) = repo
            && self.add(folder, &repo, &path, depth).is_ok()
        {
            return;
        }
        self.sources.push(Source { folder: path.clone(), index: None });
        self.paths.push(path);
    }
}

/// Runs `git ls-files` in `folder`, so that it lists what is below it, by names relative to it.
///
/// The repository is named outright, so git neither searches for one nor refuses one that belongs to another user;
/// nothing the repository configures is run, and nothing is written or fetched.
///
/// It only reads: what takes longer than this is no index, but something that somebody put in its place.
const PATIENCE: Duration = Duration::from_secs(20);

fn ls_files(folder: &Path, repo: &Repo) -> Result<Vec<u8>, String> {
    if let Some(odd) = no_file_of_gits(&repo.dir) {
        return Err(odd);
    }
    let option = |name: &str, path: &Path| {
        let mut option = OsStr::new(name).to_os_string();
        option.push(path);
        option
    };
    let mut git = Command::new("git");
    for (name, _) in env::all().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_")) {
        git.env_remove(name);
    }
    git.env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("LC_ALL", "C")
        .arg(option("--git-dir=", &repo.dir))
        .arg(option("--work-tree=", &repo.top))
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["ls-files", "-z", "--stage"])
        .current_dir(folder);
    let output = short_command::run(git, None, &repo.dir, PATIENCE)
        .map_err(|error| format!("git could not be run: {error}"))?
        .ok_or_else(|| format!("git ls-files took longer than {} seconds", PATIENCE.as_secs()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git ls-files: {}: {}", output.status, said.trim()));
    }
    Ok(output.stdout)
}

/// Sorted names of tracked files, which the walk narrows down folder by folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tracked {
    /// The names, each ended by a NUL.
    text: Vec<u8>,
    spans: Vec<Range<u32>>,
}

/// Those tracked names that lie in one folder.
#[derive(Clone, Debug)]
pub(super) struct TrackedIn {
    range: Range<usize>,
    /// The length of the folder's name, with its slash, which all of them start with.
    skip: usize,
    /// The name that is likely asked for next, since names are asked for in order.
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
        // This search goes by words. By bytes it would be the slowest part of reading the cache.
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

    /// What is tracked below the subfolder `name`; `None` if nothing is.
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

    /// The names of the files and subfolders of a folder that are tracked or hold something tracked.
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
