//! The current branch and commit of a checkout, read from git's own files, which is cheaper than starting git.

use std::path::Path;

use super::locate::{Checkout, text};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GitHead {
    /// `None` if detached.
    pub(crate) branch: Option<String>,
    /// `None` before the first commit, or if it cannot be determined.
    pub(crate) commit: Option<String>,
}

impl GitHead {
    /// Empty if there is no repository.
    pub(crate) fn of(root: &Path) -> Self {
        Checkout::around(root).and_then(|checkout| read(&checkout)).unwrap_or_default()
    }

    /// The current branch, if it differs from the one before.
    pub(crate) fn switched_from(&self, before: &Self) -> Option<String> {
        let name = |head: &Self| head.branch.clone().unwrap_or_else(|| "a detached HEAD".into());
        (self.branch != before.branch).then(|| name(self))
    }
}

fn read(checkout: &Checkout) -> Option<GitHead> {
    let head = text(&checkout.dir.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref:").map(str::trim) else {
        return Some(GitHead { branch: None, commit: Some(head.trim().to_owned()) });
    };
    let shared = checkout.common_dir();
    let loose = text(&shared.join(reference)).map(|commit| commit.trim().to_owned());
    let commit = loose.or_else(|| packed(&shared, reference));
    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
    Some(GitHead { branch: Some(branch.to_owned()), commit })
}

fn packed(dir: &Path, reference: &str) -> Option<String> {
    let packed = text(&dir.join("packed-refs"))?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == reference).map(|(commit, _)| commit.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(dir: &Path, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"];
        let output =
            Command::new("git").args(identity).args(arguments).current_dir(dir).output().expect("git");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn agrees_with_git() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(GitHead::of(dir.path()), GitHead::default());
        git(dir.path(), &["init", "-q", "-b", "main"]);
        assert_eq!(GitHead::of(dir.path()), GitHead { branch: Some("main".into()), commit: None });
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        let commit = Some(git(dir.path(), &["rev-parse", "HEAD"]));
        let on_main = GitHead { branch: Some("main".into()), commit: commit.clone() };
        assert_eq!(GitHead::of(dir.path()), on_main);
        git(dir.path(), &["pack-refs", "--all"]);
        assert_eq!(GitHead::of(dir.path()), on_main, "packed");
        git(dir.path(), &["worktree", "add", "-q", "-b", "feature/x", "linked"]);
        let linked = GitHead::of(&dir.path().join("linked"));
        assert_eq!(linked, GitHead { branch: Some("feature/x".into()), commit: commit.clone() });
        assert_eq!(linked.switched_from(&on_main).as_deref(), Some("feature/x"));
        git(dir.path(), &["checkout", "-q", "--detach"]);
        let detached = GitHead::of(dir.path());
        assert_eq!(detached, GitHead { branch: None, commit });
        assert_eq!(detached.switched_from(&on_main).as_deref(), Some("a detached HEAD"));
        assert_eq!(on_main.switched_from(&on_main), None);
    }
}
