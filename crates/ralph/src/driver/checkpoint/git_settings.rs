//! What git goes by that is no part of the tree: settings, rules and attributes of the repository and of the person. Whoever
//! wants to do without git must know that none of it makes git see the files otherwise, and that it is as it was.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::git::Git;
use super::{GitError, SHORT};
use crate::env;

#[derive(Debug)]
pub(super) struct GitSettings {
    /// All files that have a say, and those that would have if they were there.
    files: Vec<(PathBuf, Option<Stamp>)>,
    /// To git a file is what it is: its bytes, its name as it is spelled, whether it can be run.
    are_plain: bool,
}

/// Differs after any change.
type Stamp = (u64, u64, [i64; 4]);

impl GitSettings {
    pub(super) fn look(git: &Git) -> Result<Self, GitError> {
        let listed = git.call(["config", "--list", "--show-origin", "-z"], SHORT)?;
        let mut records = listed.split(|byte| *byte == 0);
        let mut settings = Self { files: Vec::new(), are_plain: true };
        while let (Some(origin), Some(setting)) = (records.next(), records.next()) {
            if let Some(file) = origin.strip_prefix(b"file:") {
                settings.watch(git.root().join(OsStr::from_bytes(file)));
            }
            settings.hear(git, &String::from_utf8_lossy(setting));
        }
        let of_the_person = env::git_config_dir();
        if let Some(folder) = &of_the_person {
            settings.watch(folder.join("config"));
            settings.watch(folder.join("ignore"));
        }
        settings.watch(git.dir().join("info/exclude"));
        settings.watch("/etc/gitconfig".into());
        if let Some(home) = env::home() {
            settings.watch(home.join(".gitconfig"));
        }
        let above = git.root().ancestors().skip(1).take_while(|folder| folder.starts_with(git.top()));
        let attributes = above.map(|folder| folder.join(".gitattributes"));
        let attributes = attributes.chain(of_the_person.map(|folder| folder.join("attributes")));
        for file in attributes.chain([git.dir().join("info/attributes"), "/etc/gitattributes".into()]) {
            settings.are_plain &= leave_files_alone(&file);
            settings.watch(file);
        }
        Ok(settings)
    }

    pub(super) fn are_plain(&self) -> bool {
        self.are_plain
    }

    /// Whether nothing has changed since.
    pub(super) fn hold(&self) -> bool {
        self.files.iter().all(|(file, seen)| stamp(file) == *seen)
    }

    fn watch(&mut self, file: PathBuf) {
        if !self.files.iter().any(|(known, _)| *known == file) {
            let seen = stamp(&file);
            self.files.push((file, seen));
        }
    }

    fn hear(&mut self, git: &Git, setting: &str) {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        let (is_yes, is_no) =
            (["true", "yes", "on", "1"].contains(&value), ["false", "no", "off", "0", ""].contains(&value));
        self.are_plain &= match key {
            "core.filemode" | "core.symlinks" => is_yes,
            "core.ignorecase" | "core.precomposeunicode" | "core.protecthfs" | "core.sparsecheckout" => is_no,
            "core.attributesfile" => false,
            "core.excludesfile" => match (value.strip_prefix("~/"), env::home()) {
                (Some(rest), Some(home)) => {
                    self.watch(home.join(rest));
                    true
                }
                _ => {
                    self.watch(git.root().join(value));
                    !value.starts_with(['~', '%'])
                }
            },
            _ => true,
        };
    }
}

/// Whether nothing in a file of attributes makes git keep another content than a file has, line ends aside. A word that
/// only looks like it is enough to say no.
pub(super) fn leave_files_alone(attributes: &Path) -> bool {
    match fs::read(attributes) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            !["filter", "ident", "working-tree-encoding"].iter().any(|word| text.contains(word))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let meta = fs::metadata(file).ok()?;
    Some((meta.ino(), meta.size(), [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()]))
}
