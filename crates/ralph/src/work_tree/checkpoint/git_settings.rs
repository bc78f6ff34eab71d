//! What git goes by that is no part of the tree: settings, rules and attributes of the repository and of the person. Whoever
//! wants to do without git must know that none of it makes git see the files otherwise, and that it is as it was.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::SHORT;
use crate::sys::{env, files};
use crate::work_tree::fingerprint::{Moment, SETTLED_AFTER, Stamp};
use crate::work_tree::git::{Git, GitError};

#[derive(Debug)]
pub(super) struct GitSettings {
    /// All files that have a say, and those that would have if they were there.
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// To git a file is what it is: its bytes, its name as it is spelled, whether it can be run. And a repository is what
    /// `git init` makes.
    are_plain: bool,
}

impl GitSettings {
    pub(super) fn look(git: &Git) -> Result<Self, GitError> {
        let list = || git.call(["config", "--list", "--show-origin", "-z"], SHORT);
        let (started, listed) = (Moment::now(), list()?);
        let mut settings = Self { files: Vec::new(), are_plain: true };
        let mut records = listed.split(|byte| *byte == 0);
        while let (Some(origin), Some(setting)) = (records.next(), records.next()) {
            let file = origin.strip_prefix(b"file:").map(|file| git.root().join(OsStr::from_bytes(file)));
            let folder = file.as_deref().and_then(Path::parent).unwrap_or(git.top());
            settings.hear(git, folder, &String::from_utf8_lossy(setting));
            settings.watch_all(file);
        }
        settings.watch_all_others(git);
        // What was seen of a file must be what was heard from it.
        settings.are_plain &= settings.are_older_than(started) || list()? == listed;
        Ok(settings)
    }

    fn watch_all_others(&mut self, git: &Git) {
        let of_the_person = env::git_config_dir();
        let in_folder = |name: &str| of_the_person.as_ref().map(|folder| folder.join(name));
        let config =
            [in_folder("config"), in_folder("ignore"), env::home().map(|home| home.join(".gitconfig"))];
        let config = config.into_iter().flatten().chain(env::git_config_files());
        let config = config.chain([git.dir().join("info/exclude"), "/etc/gitconfig".into()]);
        self.watch_all(config);
        let attributes = [git.dir().join("info/attributes"), "/etc/gitattributes".into()];
        for file in attributes.into_iter().chain(in_folder("attributes")) {
            self.watch(file.clone());
            self.are_plain &= leave_files_alone(&file) != Some(false);
        }
    }

    fn are_older_than(&self, moment: Moment) -> bool {
        let mut stamps = self.files.iter().filter_map(|(_, stamp)| *stamp);
        stamps.all(|stamp| stamp.is_settled(moment, SETTLED_AFTER))
    }

    pub(super) fn are_plain(&self) -> bool {
        self.are_plain
    }

    /// Whether nothing has changed since.
    pub(super) fn hold(&self) -> bool {
        self.files.iter().all(|(file, seen)| Stamp::of_target(file) == *seen)
    }

    fn watch_all(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        for file in files {
            self.watch(file);
        }
    }

    fn watch(&mut self, file: PathBuf) {
        if !self.files.iter().any(|(known, _)| *known == file) {
            let seen = Stamp::of_target(&file);
            self.files.push((file, seen));
        }
    }

    /// One setting, of a file in that folder.
    fn hear(&mut self, git: &Git, folder: &Path, setting: &str) {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        let is_yes = ["true", "yes", "on", "1"].contains(&value);
        let is_no = ["false", "no", "off", "0", ""].contains(&value);
        let includes = key == "include.path" || key.starts_with("includeif.gitdir");
        self.are_plain &= match key {
            _ if includes => self.watch_named(folder, value),
            "core.excludesfile" => value.is_empty() || self.watch_named(git.top(), value),
            "core.filemode" | "core.symlinks" => is_yes,
            "core.ignorecase" | "core.precomposeunicode" | "core.protecthfs" => is_no,
            "core.sparsecheckout" | "core.ignorestat" => is_no,
            "core.sharedrepository" => is_no || value == "umask",
            "core.attributesfile" | "attr.tree" => false,
            _ => !key.starts_with("includeif.") && !key.starts_with("extensions."),
        };
    }

    /// Whether it can be told which file it is.
    fn watch_named(&mut self, folder: &Path, name: &str) -> bool {
        match (name.strip_prefix("~/"), env::home()) {
            (Some(rest), Some(home)) => self.watch(home.join(rest)),
            _ => self.watch(folder.join(name)),
        }
        !name.starts_with('%') && (!name.starts_with('~') || name.starts_with("~/"))
    }
}

/// Whether nothing in a file of attributes makes git keep another content than a file has, line ends aside. A word that
/// only looks like it is enough to say no. None where there is no such file.
pub(super) fn leave_files_alone(attributes: &Path) -> Option<bool> {
    match files::read_foreign(attributes) {
        Ok(None) => None,
        Ok(Some(text)) => {
            let text = String::from_utf8_lossy(&text);
            Some(!["filter", "ident", "working-tree-encoding"].iter().any(|word| text.contains(word)))
        }
        Err(_) => Some(false),
    }
}
