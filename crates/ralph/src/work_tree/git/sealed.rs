//! Git calls that read files of the work tree, with a config written by ralph.
//!
//! When git reads a file it runs the filter named by its attributes, and no setting disables filters. So these calls
//! use a git folder of our own: settings without programs are copied into it, the rest is omitted, and concurrent
//! config changes have no effect. Objects and index are those of the repository.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use tempfile::TempDir;

use super::{Git, GitError, command, locate, path_of, run, without_outer_config};

/// Settings that affect how git reads or writes files. None of them names a program.
const COPIED: [&str; 23] = [
    "core.attributesfile",
    "core.autocrlf",
    "core.bigfilethreshold",
    "core.checkroundtripencoding",
    "core.checkstat",
    "core.compression",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.ignorestat",
    "core.loosecompression",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.protecthfs",
    "core.protectntfs",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
    "extensions.objectformat",
    "index.version",
];

/// Files of a git folder that affect this in addition to its config. None of them names a program.
const COPIED_FILES: [&str; 3] = ["exclude", "attributes", "sparse-checkout"];

pub(crate) struct SealedGit<'g> {
    git: &'g Git,
    dir: TempDir,
    /// Filters that would start a program to read a file.
    filters: BTreeSet<String>,
}

/// Paths that git cannot add without starting a program.
#[derive(Debug, Default)]
pub(crate) struct NotToAdd {
    /// New or changed files with a filter.
    pub(crate) filtered: Vec<PathBuf>,
    /// Git inspects a submodule by running `git status` in it.
    pub(crate) submodules: Vec<PathBuf>,
}

impl Git {
    pub(crate) fn sealed(&self, limit: Duration) -> Result<SealedGit<'_>, GitError> {
        let listed = self.call(["config", "--list", "-z"], limit)?;
        let records = listed.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        let settings: Vec<Setting<'_>> = records.filter_map(Setting::parse).collect();
        let filters = settings.iter().filter_map(Setting::filter_with_program).map(str::to_owned).collect();
        let dir = self.write_git_dir(&settings).map_err(GitError::NotRun)?;
        Ok(SealedGit { git: self, dir, filters })
    }

    fn write_git_dir(&self, settings: &[Setting<'_>]) -> io::Result<TempDir> {
        let dir = tempfile::Builder::new().prefix("git-").tempdir_in(&self.scratch)?;
        for folder in ["info", "objects", "refs"] {
            fs::create_dir(dir.path().join(folder))?;
        }
        fs::write(dir.path().join("HEAD"), "ref: refs/heads/none\n")?;
        for name in COPIED_FILES {
            // Files that linked work trees do not share are in their own folder.
            let of = if name == "sparse-checkout" { &self.dir } else { &self.common_dir };
            if let Some(text) = locate::info_file(of, name)? {
                fs::write(dir.path().join("info").join(name), text)?;
            }
        }
        let copied: Vec<&Setting<'_>> = settings.iter().filter(|setting| setting.is_copied()).collect();
        let format = u8::from(copied.iter().any(|setting| setting.key.starts_with("extensions.")));
        let lines: String = copied.into_iter().map(Setting::line).collect();
        let format = format!("[core]\n\trepositoryformatversion = {format}\n\tbare = false\n");
        fs::write(dir.path().join("config"), format + &lines)?;
        Ok(dir)
    }
}

impl SealedGit<'_> {
    pub(crate) fn call<S: AsRef<OsStr>>(
        &self,
        words: impl IntoIterator<Item = S>,
        input: Option<&[u8]>,
        limit: Duration,
    ) -> Result<Vec<u8>, GitError> {
        let words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let what = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let git = self.git;
        if let Some(said) = locate::unusable_file(&git.dir) {
            return Err(GitError::Failed { what, code: None, said });
        }
        let mut command = command(&git.root);
        without_outer_config(&mut command);
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_DIR", self.dir.path())
            .env("GIT_WORK_TREE", &git.top)
            .env("GIT_OBJECT_DIRECTORY", git.common_dir.join("objects"))
            .env("GIT_INDEX_FILE", git.index.clone().unwrap_or_else(|| locate::index_in(&git.dir)))
            // A git version without GIT_CONFIG_GLOBAL reads the user's config.
            .args(self.filters.iter().flat_map(|name| without_program(name)))
            .args(words);
        run(command, &what, input, &git.scratch, limit)
    }

    /// The paths to exclude from `git add` below the root.
    pub(crate) fn not_to_add(&self, limit: Duration) -> Result<NotToAdd, GitError> {
        let staged = self.call(["ls-files", "-s", "-z"], None, limit)?;
        let submodule = |entry: &[u8]| {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            entry.starts_with(b"160000 ").then(|| path_of(&entry[tab + 1..]))
        };
        let submodules = staged.split(|byte| *byte == 0).filter_map(submodule).collect();
        if self.filters.is_empty() {
            return Ok(NotToAdd { filtered: Vec::new(), submodules });
        }
        let changed = self.call(["ls-files", "-z", "-m", "-o", "--exclude-standard"], None, limit)?;
        Ok(NotToAdd { filtered: self.with_filter(&changed, limit)?, submodules })
    }

    /// The existing files with a filter among `names`, each terminated by a NUL.
    fn with_filter(&self, names: &[u8], limit: Duration) -> Result<Vec<PathBuf>, GitError> {
        let answer = self.call(["check-attr", "-z", "--stdin", "filter"], Some(names), limit)?;
        let mut fields = answer.split(|byte| *byte == 0);
        let mut found = Vec::new();
        while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
            let path = path_of(path);
            let is_there =
                || fs::symlink_metadata(self.git.root.join(&path)).is_ok_and(|meta| meta.is_file());
            if self.filters.contains(&*String::from_utf8_lossy(value)) && is_there() {
                found.push(path);
            }
        }
        found.dedup();
        Ok(found)
    }
}

/// Options that remove the programs of a filter.
fn without_program(name: &str) -> Vec<OsString> {
    // In an option the first `=` would end the name.
    if name.contains(['=', '\n']) {
        return Vec::new();
    }
    let keys = ["clean=", "smudge=", "process=", "required=false"];
    keys.iter().flat_map(|key| ["-c".into(), format!("filter.{name}.{key}").into()]).collect()
}

/// One line of `git config --list -z`.
struct Setting<'s> {
    key: &'s str,
    /// `None` is another way to write true.
    value: Option<&'s str>,
}

impl<'s> Setting<'s> {
    /// `None` if it is not UTF-8, such as a path of other bytes; it is then not copied.
    fn parse(record: &'s [u8]) -> Option<Self> {
        let text = str::from_utf8(record).ok()?;
        let (key, value) = text.split_once('\n').map_or((text, None), |(key, value)| (key, Some(value)));
        Some(Self { key, value })
    }

    fn filter_with_program(&self) -> Option<&'s str> {
        let (name, key) = self.key.strip_prefix("filter.")?.rsplit_once('.')?;
        // A filter that only writes files (`smudge`) does not affect what git reads.
        let has_program = ["clean", "process"].contains(&key) && self.value != Some("");
        has_program.then_some(name)
    }

    fn is_copied(&self) -> bool {
        COPIED.contains(&self.key)
    }

    fn line(&self) -> String {
        let (section, name) = self.key.split_once('.').unwrap_or((self.key, ""));
        let Some(value) = self.value else { return format!("[{section}]\n\t{name}\n") };
        let value =
            value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
        format!("[{section}]\n\t{name} = \"{value}\"\n")
    }
}
