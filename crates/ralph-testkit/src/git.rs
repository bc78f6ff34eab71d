//! Calls of git that are independent of the user's config.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The output of git.
#[track_caller]
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(folder)
        .output()
        .expect("git");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Adds a submodule, as `git submodule add` does. That one is a shell script, which needs more tools than git brings.
///
/// # Panics
///
/// When git fails.
#[track_caller]
pub fn add_submodule(repo: &Path, source: &Path, path: &str) {
    let source = source.to_str().expect("UTF-8");
    let git_folder = repo.join(".git/modules").join(path);
    fs::create_dir_all(git_folder.parent().expect("a parent")).expect("folders");
    let git_folder = git_folder.to_str().expect("UTF-8");
    git(repo, &["clone", "-q", "--separate-git-dir", git_folder, source, path]);
    let up = |levels: usize| "../".repeat(levels);
    let depth = path.split('/').count();
    let pointer = format!("gitdir: {}.git/modules/{path}\n", up(depth));
    fs::write(repo.join(path).join(".git"), pointer).expect("a file");
    let work_tree = format!("{}{path}", up(depth + 2));
    git(repo, &["config", "--file", &format!("{git_folder}/config"), "core.worktree", &work_tree]);
    for (key, value) in [("path", path), ("url", source)] {
        git(repo, &["config", "--file", ".gitmodules", &format!("submodule.{path}.{key}"), value]);
    }
    git(repo, &["config", &format!("submodule.{path}.url"), source]);
    git(repo, &["config", &format!("submodule.{path}.active"), "true"]);
    git(repo, &["add", ".gitmodules", path]);
}
