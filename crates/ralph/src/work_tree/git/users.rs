//! The user's own git: their hooks, signing and credentials, for commits and pushes that they asked for.
//!
//! Hooks, filters and helpers are programs, and an agent can write them. So the set-up is compared with the one at the
//! start of the loop ([`UserGit::setup`], which starts none of them) before anything here is called.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::id::Digest;

use super::{Git, GitError, NoRepository, describe_failure, lines, path_of, program};
use crate::sys::short_command;

const QUICK: Duration = Duration::from_secs(30);
/// Hooks may run whole test suites.
const LONGEST: Duration = Duration::from_secs(1800);

/// A remote, as the user configured it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitRemote {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Why a push did not happen.
#[derive(Debug)]
pub(crate) enum PushError {
    /// The remote or a hook said no.
    Rejected(String),
    /// The remote could not be reached.
    Unreachable(String),
}

pub(crate) struct UserGit {
    git: Git,
}

impl UserGit {
    pub(crate) fn find(root: &Path, scratch: &Path) -> Result<Self, NoRepository> {
        Ok(Self { git: Git::find(root, scratch)? })
    }

    /// A digest of everything that can make git start a program: config, attributes, hooks. Upstream branches and the
    /// mark of `gh` are left out: a push sets them, and ralph names its remote itself.
    pub(crate) fn setup(&self) -> Result<Digest, GitError> {
        let config = self.git.call(["config", "--list", "-z"], QUICK)?;
        let is_steering = |entry: &&[u8]| {
            let key = entry.split(|byte| *byte == b'\n').next().unwrap_or_default().to_ascii_lowercase();
            let key = String::from_utf8_lossy(&key).into_owned();
            let of_branch =
                key.starts_with("branch.") && (key.ends_with(".remote") || key.ends_with(".merge"));
            // An identity starts no program.
            let is_identity = key == "user.name" || key == "user.email";
            !of_branch
                && !is_identity
                && !key.ends_with(".gh-resolved")
                && !key.ends_with(".vscode-merge-base")
        };
        let mut parts: Vec<Vec<u8>> =
            config.split(|byte| *byte == 0).filter(is_steering).map(<[u8]>::to_vec).collect();
        parts.extend(self.hooks()?);
        parts.extend(self.attributes()?);
        Ok(Digest::of_parts(parts.iter().map(Vec::as_slice)))
    }

    fn hooks(&self) -> Result<Vec<Vec<u8>>, GitError> {
        // Our own setting hides the user's, so the user's is asked for.
        let set = self.users_config("core.hooksPath")?;
        let folder = match set {
            Some(path) => self.git.top.join(path),
            None => self.git.common_dir.join("hooks"),
        };
        let mut found: Vec<PathBuf> =
            fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        found.sort();
        let mut parts = Vec::new();
        for path in found {
            if path.extension().is_some_and(|extension| extension == "sample") {
                continue;
            }
            let mode = fs::metadata(&path).map(|meta| meta.permissions().mode()).unwrap_or_default();
            parts.push(path.as_os_str().as_encoded_bytes().to_vec());
            parts.push(mode.to_le_bytes().to_vec());
            parts.push(fs::read(&path).unwrap_or_default());
        }
        Ok(parts)
    }

    fn attributes(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let spec = ":(glob,top)**/.gitattributes";
        let listed =
            self.git.call(["ls-files", "-z", "--cached", "--others", "--full-name", "--", spec], QUICK)?;
        let mut files: Vec<PathBuf> = listed
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| self.git.top.join(path_of(name)))
            .collect();
        files.push(self.git.common_dir.join("info/attributes"));
        if let Some(path) = self.users_config("core.attributesFile")? {
            files.push(self.git.top.join(path));
        }
        files.sort();
        files.dedup();
        let with_text = |path: PathBuf| {
            let text = fs::read(&path).ok()?;
            Some([path.as_os_str().as_encoded_bytes().to_vec(), text])
        };
        Ok(files.into_iter().filter_map(with_text).flatten().collect())
    }

    /// A path from the user's config, which is only read.
    fn users_config(&self, key: &str) -> Result<Option<PathBuf>, GitError> {
        let mut command = self.command();
        command.args(["config", "--type=path", "--get", key]);
        let answer = short_command::run(command, None, &self.git.scratch, QUICK).map_err(GitError::NotRun)?;
        let Some(answer) = answer else {
            return Err(GitError::TookTooLong { what: "config".into(), after: QUICK });
        };
        let value = answer.stdout.trim_ascii_end();
        Ok((answer.status.success() && !value.is_empty()).then(|| path_of(value)))
    }

    /// The remote that this branch is pushed to.
    pub(crate) fn remote(&self, branch: Option<&str>) -> Result<Option<GitRemote>, GitError> {
        let listed = self.git.call(["config", "--list", "-z"], QUICK)?;
        let value = |key: &str| {
            let mut found = None;
            for entry in listed.split(|byte| *byte == 0) {
                let entry = String::from_utf8_lossy(entry);
                if let Some((name, value)) = entry.split_once('\n')
                    && name == key
                {
                    found = Some(value.to_owned());
                }
            }
            found
        };
        let of_branch = |what: &str| branch.and_then(|branch| value(&format!("branch.{branch}.{what}")));
        let name = of_branch("pushremote")
            .or_else(|| value("remote.pushdefault"))
            .or_else(|| of_branch("remote"))
            .unwrap_or_else(|| "origin".into());
        Ok(value(&format!("remote.{name}.url")).map(|url| GitRemote { name, url }))
    }

    /// Files that differ from the last commit, with names from the repo's root.
    pub(crate) fn uncommitted(&self) -> Result<Vec<String>, GitError> {
        let answer = self.run(
            &["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"],
            None,
            LONGEST,
        )?;
        let entries = answer.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
        Ok(entries.map(|entry| String::from_utf8_lossy(&entry[3..]).into_owned()).collect())
    }

    /// Whether the last commit has this file.
    pub(crate) fn tracks(&self, file: &str) -> bool {
        let answer = self
            .git
            .call(["ls-files", "-z", "--error-unmatch", "--full-name", "--", &top_pathspec(file)], QUICK);
        answer.is_ok()
    }

    /// Goes to a branch, which is made where it does not exist; the files stay.
    pub(crate) fn switch(&self, branch: &str) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        let exists = self.git.call(["show-ref", "--verify", "--quiet", &name], QUICK).is_ok();
        let words: &[&str] = if exists { &["switch", branch] } else { &["switch", "-c", branch] };
        self.run(words, None, LONGEST).map(drop)
    }

    pub(crate) fn commit(&self, files: &[String], message: &str) -> Result<String, GitError> {
        let list: Vec<u8> =
            files.iter().flat_map(|file| [top_pathspec(file).as_bytes(), b"\0"].concat()).collect();
        self.run(&["add", "--all", "--pathspec-from-file=-", "--pathspec-file-nul"], Some(&list), LONGEST)?;
        self.run(&["commit", "--quiet", "--file=-"], Some(message.as_bytes()), LONGEST)?;
        let head = self.git.call(["rev-parse", "HEAD"], QUICK)?;
        Ok(String::from_utf8_lossy(head.trim_ascii_end()).into_owned())
    }

    /// Pushes exactly this commit; never by force.
    pub(crate) fn push(&self, remote: &str, commit: &str, branch: &str) -> Result<(), PushError> {
        let refspec = format!("{commit}:refs/heads/{branch}");
        let mut command = self.command();
        command.args(["push", "--porcelain", "--no-force", "--", remote, &refspec]);
        let answer = match short_command::run(command, None, &self.git.scratch, LONGEST) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Err(PushError::Unreachable("git push took longer than 30 minutes".into())),
            Err(error) => return Err(PushError::Unreachable(error.to_string())),
        };
        if answer.status.success() {
            return Ok(());
        }
        let said = describe_failure(&answer.stderr, answer.status);
        let rejected = lines(&answer.stdout).find(|line| line.starts_with(b"!"));
        let is_network = [
            "unable to access",
            "Could not read from remote",
            "Could not resolve",
            "Authentication failed",
            "does not appear to be a git repository",
        ]
        .iter()
        .any(|sign| String::from_utf8_lossy(&answer.stderr).contains(sign));
        match rejected {
            Some(line) => Err(PushError::Rejected(String::from_utf8_lossy(line).replace('\t', " "))),
            None if is_network => Err(PushError::Unreachable(said)),
            None => Err(PushError::Rejected(said)),
        }
    }

    /// The subjects of the commits that a base does not have.
    pub(crate) fn subjects_since(&self, base: &str) -> Vec<String> {
        let range = format!("{base}..HEAD");
        let answer =
            self.git.call(["log", "--format=%s", "-n", "30", &range, "--"], QUICK).unwrap_or_default();
        lines(&answer).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    fn run(&self, words: &[&str], input: Option<&[u8]>, limit: Duration) -> Result<Vec<u8>, GitError> {
        let mut command = self.command();
        command.args(words);
        let what = words.first().copied().unwrap_or_default();
        super::run(command, what, input, &self.git.scratch, limit)
    }

    fn command(&self) -> std::process::Command {
        let mut command = program();
        for name in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_NAMESPACE",
            "GIT_COMMON_DIR",
            "GIT_PREFIX",
        ] {
            command.env_remove(name);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").current_dir(&self.git.top);
        command
    }
}

/// A file name that is only a name.
fn top_pathspec(file: &str) -> String {
    format!(":(literal,top){file}")
}
