//! The counted files as they were when a loop or session began: what *undo* puts back.
//!
//! They are in `repos/REPO/start/`, outside the repo, because an agent can delete git's refs and objects. `trees/FINGERPRINT`
//! lists the files; `contents/SHA256` holds each content once for all starts of the repo, so that a second start on nearly the
//! same files writes next to nothing. An agent can write there too: the list counts only if its fingerprint is the one that the
//! caller kept, and a content only if its digest is the listed one.
//!
//! A file larger than [`LARGEST_FILE`], and everything beyond [`MOST_BYTES`] of new content, is listed without content: if
//! it changes, it cannot be put back, and the answer is "cannot be judged".

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::file_change::{FileChange, FileContent};
use ralph_core::model::id::{Digest, TreeHash};

use crate::store::home::RepoHome;
use crate::sys::files::{self, Lock};
use crate::work_tree::fingerprint::{ChangeKind, CountedFile, CountedKind, FileList, Tree};

/// A larger file is listed without its content.
pub(crate) const LARGEST_FILE: u64 = 32 << 20;

/// The most content that one start adds.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Starts that are kept; of more, those that were not used for [`KEPT_FOR`] are removed, with the contents only they have.
const KEPT_STARTS: usize = 20;
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The files of a tree when a loop or session began, and where their contents are.
#[derive(Clone, Debug)]
pub(crate) struct StartContents {
    dir: PathBuf,
    files: FileList,
}

/// The paths that differ between the start and now, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChanges {
    pub(crate) new: Vec<PathBuf>,
    pub(crate) changed: Vec<PathBuf>,
    pub(crate) deleted: Vec<PathBuf>,
}

impl FileChanges {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Path> {
        self.new.iter().chain(&self.changed).chain(&self.deleted).map(PathBuf::as_path)
    }
}

impl StartContents {
    /// Stores the contents of `tree`, which was just read at `root`. A file that changed since then is an error. The caller
    /// keeps [`fingerprint`](Self::fingerprint) where the agent cannot change it unnoticed: in memory or in the ledger.
    pub(crate) fn record(home: &RepoHome, root: &Path, tree: &Tree) -> io::Result<Self> {
        let dir = home.start_dir();
        let (contents, trees) = (dir.join("contents"), dir.join("trees"));
        files::private_dir(&contents)?;
        files::private_dir(&trees)?;
        let start = Self { dir, files: tree.file_list() };
        let _not_pruned_meanwhile = Lock::take(&start.dir.join("lock"), Duration::from_secs(10))?
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::WouldBlock, "another ralph process is storing the start")
            })?;
        files::sweep_temporary(&contents);
        files::sweep_temporary(&trees);
        let mut left = MOST_BYTES;
        for file in start.files.iter() {
            store_content(&contents, root, &file, &mut left)?;
        }
        files::replace(&trees.join(tree.hash()), &start.files.to_bytes())?;
        prune(&start.dir);
        Ok(start)
    }

    /// The start with this fingerprint, as kept by the caller. Missing or different: an error, never another start.
    pub(crate) fn open(home: &RepoHome, fingerprint: &TreeHash) -> io::Result<Self> {
        let damaged = |what: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("the contents of the start {what}"))
        };
        // The fingerprint may come from a file: it must not lead elsewhere.
        if Digest::of("").as_str().len() != fingerprint.as_str().len()
            || !fingerprint.as_str().bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(damaged("have no valid fingerprint"));
        }
        let dir = home.start_dir();
        let bytes = files::read_if_there(&dir.join("trees").join(fingerprint.as_str()))?
            .ok_or_else(|| damaged("are missing"))?;
        let files = FileList::from_bytes(&bytes).ok_or_else(|| damaged("are damaged"))?;
        if files.fingerprint() != *fingerprint {
            return Err(damaged("were changed"));
        }
        Ok(Self { dir, files })
    }

    pub(crate) fn fingerprint(&self) -> TreeHash {
        self.files.fingerprint()
    }

    /// Which counted files differ from the start in `now`.
    pub(crate) fn changed_since(&self, now: &Tree) -> FileChanges {
        let mut changes = FileChanges::default();
        for (path, kind) in self.files.changes_to(now) {
            match kind {
                ChangeKind::Added => changes.new.push(path),
                ChangeKind::Modified => changes.changed.push(path),
                ChangeKind::Removed => changes.deleted.push(path),
            }
        }
        changes
    }

    /// The content of each changed file at the start and in `now`, which was read at `root`. Fails if a content is missing,
    /// damaged, or was not stored because of its size.
    pub(crate) fn changes(&self, root: &Path, now: &Tree) -> io::Result<Vec<FileChange>> {
        let current = now.file_list();
        let all = self.files.changes_to(now).into_iter().map(|(path, _)| {
            let before = self.files.get(&path).map(|file| self.content(&file)).transpose()?;
            let after = current.get(&path).map(|file| file.read(root)).transpose()?;
            Ok(FileChange { path: path.into_os_string().into_encoded_bytes(), before, now: after })
        });
        all.collect()
    }

    /// The content of a file at the start, with its digest verified.
    fn content(&self, file: &CountedFile<'_>) -> io::Result<FileContent> {
        let name = |what: &str| format!("{} of the start {what}", file.path.display());
        let stored = self.dir.join("contents").join(Digest::from_raw(file.digest).as_str());
        let Some(bytes) = files::read_if_there(&stored)? else {
            return Err(io::Error::new(io::ErrorKind::NotFound, name("was not stored")));
        };
        file.with_content(bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, name("was changed")))
    }
}

fn store_content(contents: &Path, root: &Path, file: &CountedFile<'_>, left: &mut u64) -> io::Result<()> {
    let to = contents.join(Digest::from_raw(file.digest).as_str());
    let from = root.join(file.path);
    let changed = || {
        let what = format!("{} changed while the start was stored", file.path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let bytes = match file.kind {
        CountedKind::Other => return Ok(()),
        CountedKind::Link => fs::read_link(&from)?.into_os_string().into_encoded_bytes(),
        CountedKind::File => {
            let is_stored =
                fs::symlink_metadata(&to).is_ok_and(|meta| meta.is_file() && file.size == Some(meta.len()));
            if is_stored || file.size.is_none_or(|size| size > LARGEST_FILE || size > *left) {
                return Ok(());
            }
            let mut bytes =
                Vec::with_capacity(file.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0));
            File::open(&from)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
            bytes
        }
    };
    if Digest::of(&bytes) != Digest::from_raw(file.digest) {
        return Err(changed());
    }
    *left = left.saturating_sub(bytes.len() as u64);
    write_new(&to, &bytes)
}

/// Written under its own name at once: a torn content of a killed process has another digest, and is written again because
/// of its length.
fn write_new(to: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(to)?.write_all(bytes)
}

/// Removes starts that no loop can still need, then the contents that no start lists.
fn prune(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir.join("trees")) else { return };
    let mut trees: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    trees.sort();
    trees.reverse();
    let is_old = |at: &std::time::SystemTime| at.elapsed().is_ok_and(|age| age > KEPT_FOR);
    let unneeded: Vec<_> = trees.iter().skip(KEPT_STARTS).filter(|(at, _)| is_old(at)).collect();
    if unneeded.is_empty() {
        return;
    }
    for (_, path) in &unneeded {
        let _gone = fs::remove_file(path);
    }
    let kept: Option<std::collections::HashSet<String>> = trees
        .iter()
        .filter(|(_, path)| path.exists())
        .map(|(_, path)| Some(FileList::from_bytes(&fs::read(path).ok()?)?.digests()))
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.into_iter().flatten().collect());
    // A list that cannot be read may still be needed: then all contents are kept.
    let Some(kept) = kept else { return };
    for entry in fs::read_dir(dir.join("contents")).into_iter().flatten().flatten() {
        if !kept.contains(&*OsStr::to_string_lossy(&entry.file_name())) {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::home::Home;
    use crate::work_tree::fingerprint::TreeReader;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    struct Scene {
        dir: tempfile::TempDir,
        home: RepoHome,
    }

    impl Scene {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            fs::create_dir(dir.path().join("repo")).expect("a folder");
            let home = Home::at(dir.path().join("home")).repo("repo");
            Self { dir, home }
        }

        fn root(&self) -> PathBuf {
            self.dir.path().join("repo")
        }

        fn write(&self, path: impl AsRef<Path>, text: &str) {
            fs::write(self.root().join(path), text).expect("a file");
        }

        fn tree(&self) -> Tree {
            TreeReader::new(&self.root()).read().expect("a tree")
        }

        fn record(&self) -> StartContents {
            StartContents::record(&self.home, &self.root(), &self.tree()).expect("recorded")
        }
    }

    #[test]
    fn what_was_recorded_is_read_back_with_odd_names_links_and_modes() {
        let scene = Scene::new();
        let odd = Path::new(OsStr::from_bytes(b"a \xff\nb"));
        scene.write(odd, "odd");
        scene.write("run.sh", "#!/bin/sh\n");
        fs::set_permissions(scene.root().join("run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
        std::os::unix::fs::symlink("run.sh", scene.root().join("link")).expect("a link");
        scene.write("kept", "kept");
        let recorded = scene.record();
        for name in [odd, Path::new("run.sh"), Path::new("link")] {
            fs::remove_file(scene.root().join(name)).expect("removed");
        }
        scene.write("new", "new");
        scene.write("kept", "changed");
        let start = StartContents::open(&scene.home, &recorded.fingerprint()).expect("as kept");
        let now = scene.tree();
        let changes = start.changed_since(&now);
        assert_eq!(changes.deleted, [odd, Path::new("link"), Path::new("run.sh")]);
        assert_eq!((changes.new, changes.changed), (vec!["new".into()], vec!["kept".into()]));
        let all = start.changes(&scene.root(), &now).expect("contents");
        let before = |path: &[u8]| {
            all.iter().find(|change| change.path == path).and_then(|change| change.before.clone())
        };
        assert_eq!(before(b"a \xff\nb"), Some(FileContent::File { mode: 0o644, bytes: b"odd".into() }));
        assert_eq!(before(b"run.sh"), Some(FileContent::File { mode: 0o755, bytes: b"#!/bin/sh\n".into() }));
        assert_eq!(before(b"link"), Some(FileContent::Link { target: b"run.sh".into() }));
        assert_eq!(before(b"new"), None);
        let stored =
            fs::read_dir(scene.home.start_dir().join("contents")).expect("a folder").flatten().next();
        let mode = stored.expect("a content").metadata().expect("data").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_an_agent_changed_there_is_an_error() {
        let scene = Scene::new();
        scene.write("a", "honest");
        let fingerprint = scene.record().fingerprint();
        scene.write("a", "now");
        let contents = scene.home.start_dir().join("contents");
        let stored = contents.join(Digest::of("honest").as_str());
        fs::write(&stored, "forged").expect("written");
        let start = StartContents::open(&scene.home, &fingerprint).expect("the list is as it was");
        assert!(start.changes(&scene.root(), &scene.tree()).is_err(), "a forged content");
        fs::remove_file(stored).expect("removed");
        assert!(start.changes(&scene.root(), &scene.tree()).is_err(), "a missing content");
        let list = scene.home.start_dir().join("trees").join(fingerprint.as_str());
        let mut other = Scene::new().record().files.to_bytes();
        fs::write(&list, &other).expect("written");
        assert!(StartContents::open(&scene.home, &fingerprint).is_err(), "another list");
        other.truncate(5);
        fs::write(&list, &other).expect("written");
        assert!(StartContents::open(&scene.home, &fingerprint).is_err(), "a torn list");
        assert!(StartContents::open(&scene.home, &TreeHash::new("../../trust")).is_err(), "a path");
    }

    #[test]
    fn a_torn_content_is_written_again() {
        let scene = Scene::new();
        scene.write("a", "honest");
        scene.record();
        let stored = scene.home.start_dir().join("contents").join(Digest::of("honest").as_str());
        fs::write(&stored, "hon").expect("torn");
        scene.record();
        assert_eq!(fs::read_to_string(stored).expect("a content"), "honest");
    }

    #[test]
    fn five_thousand_small_files_are_recorded_quickly() {
        let scene = Scene::new();
        for folder in 0..50 {
            fs::create_dir(scene.root().join(format!("d{folder}"))).expect("a folder");
            for file in 0..100 {
                scene.write(format!("d{folder}/f{file}"), &format!("{folder} {file} {}", "x".repeat(2_000)));
            }
        }
        let tree = scene.tree();
        let begun = std::time::Instant::now();
        StartContents::record(&scene.home, &scene.root(), &tree).expect("recorded");
        let first = begun.elapsed();
        let begun = std::time::Instant::now();
        StartContents::record(&scene.home, &scene.root(), &tree).expect("recorded");
        let again = begun.elapsed();
        // Generous: other tests run at the same time.
        assert!(
            first < Duration::from_secs(5) && again < Duration::from_secs(2),
            "{first:?}, then {again:?}"
        );
    }

    #[test]
    fn only_old_starts_beyond_the_newest_are_removed_with_their_contents() {
        let scene = Scene::new();
        let old = std::time::SystemTime::now() - KEPT_FOR - Duration::from_secs(60);
        for at in 0..KEPT_STARTS + 2 {
            scene.write("a", &format!("content {at}"));
            let hash = scene.record().fingerprint();
            let list =
                File::options().write(true).open(scene.home.start_dir().join("trees").join(hash.as_str()));
            list.expect("a list").set_modified(old + Duration::from_secs(at as u64)).expect("a time");
        }
        scene.write("a", "last");
        scene.record();
        let count =
            |folder: &str| fs::read_dir(scene.home.start_dir().join(folder)).expect("a folder").count();
        assert_eq!((count("trees"), count("contents")), (KEPT_STARTS, KEPT_STARTS));
    }
}
