//! Which repo a stop belongs to: its root, its layout, its config file, its task, and the key under which it is trusted.
//!
//! From the session's project folder upward: the first folder that the user has trusted, else the first with a config of
//! any supported layout, else the first with `.git`. So a nested repo, deleting the config, or adding one in a subfolder
//! does not free a session from the accepted gates.

use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use ralph_core::model::id::Digest;
use ralph_core::model::layout::{self, Layout, NoTask};

use crate::sys::files;
use crate::work_tree::git::locate;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
    pub(crate) trust_key: String,
    /// The main checkout of this linked work tree.
    main_checkout: Option<PathBuf>,
}

/// A config file as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) layout: Layout,
    /// Relative to the root.
    pub(crate) path: &'static str,
    pub(crate) text: Vec<u8>,
}

impl ConfigFile {
    pub(crate) fn sha256(&self) -> Digest {
        Digest::of(&self.text)
    }
}

/// The task of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CurrentTask {
    /// The layout has no tasks.
    NoTasks,
    Named(String),
    /// The layout has tasks but none is set, so nothing is guarded.
    NoneSet,
}

impl Repo {
    /// The repo that contains `start`; `None` without a trusted folder, a config or `.git` above it.
    ///
    /// `is_trusted` tells whether a folder ever had an acceptance; `None` if no folder has.
    pub(crate) fn find(start: &Path, is_trusted: Option<&dyn Fn(&Self) -> bool>) -> io::Result<Option<Self>> {
        let start = fs::canonicalize(start)?;
        let folders: Vec<&Path> = start.ancestors().collect();
        let configured = |folder: &&&Path| has_config(folder);
        let has_git = |folder: &&&Path| locate::is_checkout(folder);
        let mut repos = folders.iter().map(|folder| Self::at(folder));
        let trusted = is_trusted.and_then(|is_trusted| repos.find(is_trusted));
        let untrusted = || folders.iter().find(configured).or_else(|| folders.iter().find(has_git));
        Ok(trusted.or_else(|| untrusted().map(|folder| Self::at(folder))))
    }

    /// A folder that becomes a repo root.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self::at(&fs::canonicalize(folder)?))
    }

    /// A repo with a known root, even if the folder is gone.
    pub(crate) fn known(root: &Path) -> Self {
        Self::at(root)
    }

    fn at(root: &Path) -> Self {
        let Some(checkout) = root.ancestors().find(|folder| locate::is_checkout(folder)) else {
            return Self {
                root: root.to_owned(),
                trust_key: root.to_string_lossy().into_owned(),
                main_checkout: None,
            };
        };
        let (git_dir, main_checkout) = locate::home_of(checkout);
        let below = root.strip_prefix(checkout).unwrap_or(Path::new(""));
        let trust_key = git_dir.join(below).to_string_lossy().into_owned();
        Self { root: root.to_owned(), trust_key, main_checkout: main_checkout.map(|main| main.join(below)) }
    }

    /// Whether it may be a git repository: there is a `.git` here or above.
    pub(crate) fn has_git(&self) -> bool {
        self.root.ancestors().any(locate::is_marked)
    }

    /// A readable and unique name for this repo's records.
    pub(crate) fn id(&self) -> String {
        let name = self.root.file_name().unwrap_or_default().to_string_lossy();
        let safe: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .take(40)
            .collect();
        format!("{safe}-{}", Digest::of(self.root.as_os_str().as_encoded_bytes()).short())
    }

    /// The config in use. A linked work tree without one uses its main checkout's.
    pub(crate) fn config(&self) -> io::Result<Option<ConfigFile>> {
        let folders = self.folders();
        match config_in(&folders, &self.root)? {
            Some(found) => Ok(Some(found)),
            None => self.main_checkout.as_deref().map_or(Ok(None), |main| config_in(&folders, main)),
        }
    }

    /// The folders its files may be in: a linked work tree may link to files of its main checkout.
    fn folders(&self) -> Vec<&Path> {
        iter::once(self.root.as_path()).chain(self.main_checkout.as_deref()).collect()
    }

    /// Other configs in the repo that are not in use.
    pub(crate) fn unused_configs(&self) -> Vec<&'static str> {
        let there = Layout::ALL
            .into_iter()
            .map(|layout| layout.data().config)
            .filter(|path| self.root.join(path).exists());
        there.skip(1).collect()
    }

    /// The layout of a repo without a config file, detected by its folder.
    pub(crate) fn layout_by_folder(&self) -> Option<Layout> {
        Layout::ALL
            .into_iter()
            .find(|layout| layout.data().folder.is_some_and(|folder| self.root.join(folder).is_dir()))
    }

    /// An unreadable task pointer is an error, never "no task".
    pub(crate) fn task(&self, layout: Layout) -> io::Result<CurrentTask> {
        let data = layout.data();
        let pointer = match data.current_task {
            // It is shown, so never read a file outside the repo; it still counts as a task.
            Some(path) if files::leads_out(&self.folders(), &self.root.join(path)) => {
                Some(b"outside-of-the-repo".to_vec())
            }
            Some(path) => files::read_foreign(&self.root.join(path))?,
            None => None,
        };
        let named = pointer.and_then(|text| layout::normalise_task(&String::from_utf8_lossy(&text)));
        Ok(match (named, data.no_task) {
            (Some(task), _) => CurrentTask::Named(task),
            (None, NoTask::Nothing) => CurrentTask::NoTasks,
            (None, NoTask::LetThrough) => CurrentTask::NoneSet,
            (None, NoTask::Named(name)) => CurrentTask::Named(name.into()),
        })
    }

    /// The task's checklist, which defines the completion markers.
    pub(crate) fn check_list(&self, task: &str) -> io::Result<String> {
        /// A task may name any path; a checklist is small.
        const LARGEST: u64 = 1 << 20;
        let path = self.root.join(task).join("check.jsonl");
        let small = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        let text = if small { files::read_if_there(&path)?.unwrap_or_default() } else { Vec::new() };
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

fn has_config(folder: &Path) -> bool {
    Layout::ALL.into_iter().any(|layout| folder.join(layout.data().config).is_file())
}

fn config_in(folders: &[&Path], root: &Path) -> io::Result<Option<ConfigFile>> {
    for layout in Layout::ALL {
        let path = layout.data().config;
        // An error message would quote the file it links to.
        if files::leads_out(folders, &root.join(path)) {
            let what = format!(
                "{path} is a symlink that leads out of the repo and is not read; \
                 put the file itself there, or a link to a file inside the repo"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if let Some(text) = files::read_foreign(&root.join(path))? {
            return Ok(Some(ConfigFile { layout, path, text }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(paths: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        for path in paths {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, "verify: [a]\n").expect("a file");
        }
        dir
    }

    fn root_from(dir: &Path, start: &str) -> Option<PathBuf> {
        let base = fs::canonicalize(dir).expect("a folder");
        let found = Repo::find(&dir.join(start), None).expect("readable")?;
        Some(found.root.strip_prefix(base).expect("below").to_owned())
    }

    #[test]
    fn the_root_is_the_first_folder_with_a_config_else_with_git() {
        let dir = folders(&[
            "a/.git/HEAD",
            "a/ralph.yaml",
            "a/sub/.git/HEAD",
            "a/sub/deep/x",
            "b/.git/HEAD",
            "b/deep/x",
        ]);
        assert_eq!(root_from(dir.path(), "a/sub/deep"), Some("a".into()));
        assert_eq!(root_from(dir.path(), "b/deep"), Some("b".into()));
    }

    #[test]
    fn every_layout_marks_a_root() {
        for config in ["ralph.yaml", ".trellis/worktree.yaml", ".ideal/worktree.yaml"] {
            let dir = folders(&["x/.git/HEAD", &format!("x/{config}"), "x/deep/y"]);
            assert_eq!(root_from(dir.path(), "x/deep"), Some("x".into()), "{config}");
        }
    }

    #[test]
    fn trellis_wins_over_ideal_and_native_over_both() {
        let dir = folders(&["ralph.yaml", ".trellis/worktree.yaml", ".ideal/worktree.yaml"]);
        let repo = Repo::find(dir.path(), None).expect("readable").expect("a repo");
        assert_eq!(repo.config().expect("readable").expect("a config").layout, Layout::Native);
        fs::remove_file(dir.path().join("ralph.yaml")).expect("removed");
        assert_eq!(repo.config().expect("readable").expect("a config").layout, Layout::Trellis);
        assert_eq!(repo.unused_configs(), [".ideal/worktree.yaml"]);
    }
}
