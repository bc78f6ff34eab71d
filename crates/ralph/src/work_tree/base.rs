//! The files of a commit that differ from the work tree, with both contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::file_change::{FileChange, FileContent};

use crate::work_tree::fingerprint::Tree;
use crate::work_tree::git::{Git, GitError, path_of};

const LIMIT: Duration = Duration::from_secs(120);

/// A commit to compare with, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseCommit {
    pub(crate) commit: String,
    /// For example "merge base with origin/main".
    pub(crate) why: String,
}

/// What differs from a commit.
#[derive(Debug, Default)]
pub(crate) struct BaseChanges {
    pub(crate) changes: Vec<FileChange>,
    /// Paths that cannot be compared and stay as they are: submodules, large files stored elsewhere.
    pub(crate) left: Vec<String>,
}

/// One entry of the commit's tree.
struct BaseEntry {
    mode: Vec<u8>,
    object: String,
}

impl Git {
    /// The commit of a name that the user gave.
    pub(crate) fn named_base(&self, name: &str) -> Result<BaseCommit, GitError> {
        let commit = self.commit_of(name)?;
        Ok(BaseCommit { commit, why: name.to_owned() })
    }

    /// The merge base with the default branch; HEAD if that is HEAD itself.
    pub(crate) fn default_base(&self) -> Result<BaseCommit, GitError> {
        let head = self.commit_of("HEAD")?;
        let default = self.text(&["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).ok();
        let names =
            default.into_iter().chain(["origin/main", "origin/master", "main", "master"].map(str::to_owned));
        for name in names {
            if self.commit_of(&name).is_err() {
                continue;
            }
            let Ok(base) = self.text(&["merge-base", "HEAD", &name]) else { continue };
            let why = if base == head { "HEAD".to_owned() } else { format!("merge base with {name}") };
            return Ok(BaseCommit { commit: base, why });
        }
        Ok(BaseCommit { commit: head, why: "HEAD".to_owned() })
    }

    fn commit_of(&self, name: &str) -> Result<String, GitError> {
        self.text(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")])
    }

    fn text(&self, words: &[&str]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.call(words, LIMIT)?).trim().to_owned())
    }

    /// The counted files that differ from a commit.
    pub(crate) fn changes_from(&self, base: &BaseCommit, now: &Tree) -> Result<BaseChanges, GitError> {
        let listed = self.call(["ls-tree", "-r", "-z", base.commit.as_str()], LIMIT)?;
        let (mut entries, mut submodules) = (BTreeMap::new(), Vec::new());
        for record in listed.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
            let Some((path, mode, object)) = parse_entry(record) else { continue };
            if mode == b"160000" {
                submodules.push(path);
            } else {
                entries.insert(path, BaseEntry { mode: mode.to_vec(), object });
            }
        }
        let sealed = self.sealed(LIMIT)?;
        let words = [
            "diff",
            "--name-only",
            "--no-renames",
            "--relative",
            "--ignore-submodules",
            "-z",
            base.commit.as_str(),
            "--",
            ".",
        ];
        let differing = sealed.call(words, None, LIMIT)?;
        let differing: BTreeSet<PathBuf> =
            differing.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(path_of).collect();
        let files = now.file_list();
        let in_submodule = |path: &Path| submodules.iter().any(|submodule| path.starts_with(submodule));
        let new = files.iter().map(|file| file.path.to_owned());
        let new = new.filter(|path| !entries.contains_key(path) && !in_submodule(path));
        let paths: BTreeSet<PathBuf> =
            differing.iter().filter(|path| entries.contains_key(*path)).cloned().chain(new).collect();
        let contents = self.contents(paths.iter().filter_map(|path| entries.get(path)))?;
        let mut found = BaseChanges::default();
        found.left.extend(submodules.iter().map(|path| path.to_string_lossy().into_owned()));
        for path in paths {
            let before =
                entries.get(&path).and_then(|entry| Some(content(entry, contents.get(&entry.object)?)));
            if before.as_ref().is_some_and(is_stored_elsewhere) {
                found.left.push(path.to_string_lossy().into_owned());
                continue;
            }
            let file = files.get(&path);
            // A file that is there but does not count is not the user's change.
            if file.is_none() && std::fs::symlink_metadata(self.root().join(&path)).is_ok() {
                continue;
            }
            let after = file.map(|file| file.read(self.root())).transpose().map_err(GitError::NotRun)?;
            if before != after {
                found.changes.push(FileChange {
                    path: path.into_os_string().into_encoded_bytes(),
                    before,
                    now: after,
                });
            }
        }
        Ok(found)
    }

    fn contents<'e>(
        &self,
        entries: impl Iterator<Item = &'e BaseEntry>,
    ) -> Result<BTreeMap<String, Vec<u8>>, GitError> {
        let objects: BTreeSet<&str> = entries.map(|entry| entry.object.as_str()).collect();
        if objects.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input: String = objects.iter().map(|object| format!("{object}\n")).collect();
        let answer = self.call_with(["cat-file", "--batch"], Some(input.as_bytes()), LIMIT)?;
        parse_batch(&answer).ok_or_else(|| {
            GitError::NotRun(io::Error::new(
                io::ErrorKind::InvalidData,
                "`git cat-file` printed something unexpected",
            ))
        })
    }
}

/// `MODE TYPE OBJECT\tPATH`
fn parse_entry(record: &[u8]) -> Option<(PathBuf, &[u8], String)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = record[..tab].split(|byte| *byte == b' ');
    let (mode, object) = (words.next()?, words.nth(1)?);
    Some((path_of(&record[tab + 1..]), mode, String::from_utf8_lossy(object).into_owned()))
}

/// `OBJECT TYPE SIZE\nCONTENT\n`, repeated.
fn parse_batch(mut answer: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut contents = BTreeMap::new();
    while !answer.is_empty() {
        let end = answer.iter().position(|byte| *byte == b'\n')?;
        let line = str::from_utf8(&answer[..end]).ok()?;
        let mut words = line.split(' ');
        let (object, size) = (words.next()?, words.nth(1)?.parse::<usize>().ok()?);
        let content = answer.get(end + 1..end + 1 + size)?;
        contents.insert(object.to_owned(), content.to_vec());
        answer = answer.get(end + 2 + size..)?;
    }
    Some(contents)
}

fn content(entry: &BaseEntry, bytes: &[u8]) -> FileContent {
    match entry.mode.as_slice() {
        b"120000" => FileContent::Link { target: bytes.to_vec() },
        b"100755" => FileContent::File { mode: 0o755, bytes: bytes.to_vec() },
        _ => FileContent::File { mode: 0o644, bytes: bytes.to_vec() },
    }
}

/// The pointer of Git LFS, whose content is not in the repository.
fn is_stored_elsewhere(content: &FileContent) -> bool {
    content.text().is_some_and(|text| text.starts_with("version https://git-lfs.github.com/spec/"))
}
