//! A folder cannot borrow the trust of another repo by files of its own that point there.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ralph_testkit::{Finished, Sandbox};

const CONFIG: &str = "verify:\n  - ./check.sh\n";

/// A trusted repo with one commit, and beside it a folder with the same config and a `check.sh` of its own.
struct TrustedNeighbour {
    sandbox: Sandbox,
    evil: PathBuf,
}

impl TrustedNeighbour {
    fn new() -> Self {
        let scene = Self::untrusted();
        scene.sandbox.trust();
        scene
    }

    fn untrusted() -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("ralph.yaml", CONFIG);
        write_check(&sandbox.project(), "true");
        sandbox.git(&["add", "-A"]);
        sandbox.git(&["commit", "-qm", "a beginning"]);
        let evil = sandbox.project().parent().expect("a parent").join("evil");
        fs::create_dir(&evil).expect("a folder");
        let scene = Self { sandbox, evil };
        fs::write(scene.evil.join("ralph.yaml"), CONFIG).expect("a file");
        write_check(&scene.evil, &scene.sandbox.counting("true"));
        scene
    }

    /// Writes a file into the attacker's folder.
    fn plant(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.evil.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    fn trusted_git(&self) -> PathBuf {
        self.sandbox.path(".git")
    }

    fn verify_in(&self, folder: &Path) -> Finished {
        Finished::of(self.sandbox.command(&["verify"]).current_dir(folder).output().expect("the binary"))
    }

    #[track_caller]
    fn nothing_ran(&self) {
        self.verify_in(&self.evil).exits(3).says("nothing was run");
        assert_eq!(self.sandbox.runs(), 0, "the attacker's check.sh was run");
    }
}

fn write_check(folder: &Path, command: &str) {
    let path = folder.join("check.sh");
    fs::write(&path, format!("#!/bin/sh\n{command}\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a file of ours");
}

/// The files by which git recognises the git folder of a linked work tree.
fn plant_git_dir(scene: &TrustedNeighbour, folder: &str, common: &str) {
    scene.plant(&format!("{folder}/gitdir"), "../.git\n");
    scene.plant(&format!("{folder}/commondir"), format!("{common}\n"));
    scene.plant(&format!("{folder}/HEAD"), "ref: refs/heads/main\n");
}

#[test]
fn a_git_folder_of_its_own_that_names_a_trusted_common_folder() {
    for is_absolute in [true, false] {
        let scene = TrustedNeighbour::new();
        let common = if is_absolute { scene.trusted_git() } else { "../../project/.git".into() };
        scene.plant(".git", "gitdir: .fakegit\n");
        plant_git_dir(&scene, ".fakegit", common.to_str().expect("a readable path"));
        scene.nothing_ran();
    }
}

#[test]
fn a_git_folder_of_its_own_behind_a_link() {
    let scene = TrustedNeighbour::new();
    plant_git_dir(&scene, ".real", "../../project/.git");
    symlink(".real", scene.evil.join(".fakegit")).expect("a link");
    scene.plant(".git", "gitdir: .fakegit\n");
    scene.nothing_ran();
}

/// It has the shape of the real one, `COMMON/worktrees/NAME`, and a common folder that is a link.
#[test]
fn a_common_folder_of_its_own_that_links_to_the_trusted_one() {
    let scene = TrustedNeighbour::new();
    scene.plant(".git", "gitdir: fake/worktrees/evil\n");
    scene.plant("fake/worktrees/evil/gitdir", "../../../.git\n");
    scene.plant("fake/worktrees/evil/commondir", format!("{}\n", scene.trusted_git().display()));
    scene.nothing_ran();
    symlink(scene.trusted_git(), scene.evil.join("common")).expect("a link");
    scene.plant("fake/worktrees/evil/commondir", "../../../common\n");
    scene.nothing_ran();
}

#[test]
fn a_back_pointer_in_a_submodule_config() {
    let scene = TrustedNeighbour::new();
    scene.plant(".git", "gitdir: .fakegit\n");
    scene.plant(".fakegit/config", "[core]\n\tworktree = ..\n");
    scene.plant(".fakegit/commondir", format!("{}\n", scene.trusted_git().display()));
    scene.nothing_ran();
}

#[test]
fn a_pointer_or_a_link_to_the_trusted_git_folder_itself() {
    let scene = TrustedNeighbour::new();
    scene.plant(".git", format!("gitdir: {}\n", scene.trusted_git().display()));
    scene.nothing_ran();
    fs::remove_file(scene.evil.join(".git")).expect("removed");
    symlink(scene.trusted_git(), scene.evil.join(".git")).expect("a link");
    scene.nothing_ran();
}

/// The back pointer of a linked work tree names *its* `.git`, also for a link to that file.
#[test]
fn the_git_file_of_a_linked_work_tree() {
    let scene = TrustedNeighbour::new();
    scene.sandbox.git(&["worktree", "add", "-q", "../linked", "-b", "feature"]);
    let linked = scene.evil.with_file_name("linked");
    symlink(linked.join(".git"), scene.evil.join(".git")).expect("a link");
    scene.nothing_ran();
    fs::remove_file(scene.evil.join(".git")).expect("removed");
    fs::copy(linked.join(".git"), scene.evil.join(".git")).expect("a copy");
    scene.nothing_ran();
}

/// A repo that is not trusted, with a submodule that is. (Below a trusted folder, that folder's gates are effective.)
fn with_trusted_submodule() -> TrustedNeighbour {
    let scene = TrustedNeighbour::untrusted();
    let source = scene.evil.with_file_name("source");
    let git = |folder: &Path, arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        let done = Command::new("git").args(identity).args(arguments).current_dir(folder).status();
        assert!(done.expect("git").success(), "git {arguments:?}");
    };
    fs::create_dir(&source).expect("a folder");
    fs::write(source.join("ralph.yaml"), CONFIG).expect("a file");
    write_check(&source, "true");
    git(&source, &["init", "-q", "-b", "main"]);
    git(&source, &["add", "-A"]);
    git(&source, &["commit", "-qm", "a beginning"]);
    scene.sandbox.add_submodule(&source, "sub");
    trust_in(&scene, &scene.sandbox.path("sub"));
    scene
}

fn trust_in(scene: &TrustedNeighbour, folder: &Path) {
    let run = |arguments: &[&str]| {
        Finished::of(scene.sandbox.command(arguments).current_dir(folder).output().expect("the binary"))
    };
    let sha256 = run(&["trust", "--show", "--json"]).json()["sha256"].as_str().expect("a SHA-256").to_owned();
    run(&["trust", "--hash", &sha256]).success();
}

#[test]
fn the_git_folder_of_a_trusted_submodule() {
    let scene = with_trusted_submodule();
    let module = scene.sandbox.path(".git/modules/sub");
    scene.plant(".git", format!("gitdir: {}\n", module.display()));
    scene.nothing_ran();
    scene.plant(".git", "gitdir: .fakegit\n");
    scene.plant(".fakegit/gitdir", "../.git\n");
    scene.plant(".fakegit/commondir", format!("{}\n", module.display()));
    scene.nothing_ran();
    fs::remove_file(scene.evil.join(".git")).expect("removed");
    symlink(scene.sandbox.path("sub/.git"), scene.evil.join(".git")).expect("a link");
    scene.nothing_ran();
}

#[test]
fn a_real_linked_work_tree_shares_the_trust() {
    let scene = TrustedNeighbour::new();
    scene.sandbox.git(&["worktree", "add", "-q", "../linked", "-b", "feature"]);
    let linked = scene.evil.with_file_name("linked");
    scene.verify_in(&linked).success();
    // As newer versions of git write it: relative to the file.
    fs::write(linked.join(".git"), "gitdir: ../project/.git/worktrees/linked\n").expect("a file");
    fs::write(scene.sandbox.path(".git/worktrees/linked/gitdir"), "../../../../linked/.git\n")
        .expect("a file");
    scene.verify_in(&linked).success();
    scene.sandbox.ralph(&["trust", "--revoke"]).success();
    scene.verify_in(&linked).exits(3).says("nothing was run");
}

#[test]
fn a_real_submodule_is_trusted_for_itself() {
    let scene = with_trusted_submodule();
    scene.verify_in(&scene.sandbox.path("sub")).success();
    scene.verify_in(&scene.sandbox.project()).exits(3).says("nothing was run");
}
