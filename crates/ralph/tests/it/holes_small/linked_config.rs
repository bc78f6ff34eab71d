//! A config file that is a link out of the repo is not read: an error about it would print the target's content.

use std::fs;
use std::os::unix::fs::symlink;

use ralph_testkit::Sandbox;

const SECRET: &str = "hunter2-very-secret: [";

/// A repo whose config at that path links to a secret beside the repo.
fn linked_out(config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let secret = sandbox.home().join("secret");
    fs::write(&secret, format!("{SECRET}\nanother line\n")).expect("a file");
    let place = sandbox.path(config);
    fs::create_dir_all(place.parent().expect("a parent")).expect("folders");
    symlink(&secret, &place).expect("a link");
    sandbox
}

#[test]
fn no_command_prints_the_target_of_the_link() {
    for config in ["ralph.yaml", ".trellis/worktree.yaml", ".ideal/worktree.yaml"] {
        let sandbox = linked_out(config);
        for arguments in [
            &["verify"][..],
            &["status"],
            &["trust", "--show"],
            &["trust", "--show", "--json"],
            &["trust"],
            &["init", "--yes"],
            &["doctor"],
            &["loop", "work", "--agent", "command:true", "--max-iterations", "1"],
            &["start", "work"],
        ] {
            let ran = sandbox.ralph(arguments);
            let said = ran.stdout.clone() + &ran.stderr;
            assert!(
                !said.contains("hunter2") && !said.contains("another line"),
                "{config} {arguments:?}: {ran:#?}"
            );
        }
        sandbox
            .ralph(&["trust", "--show"])
            .exits(2)
            .says(&format!("{config} is a symlink that leads out of the repo and is not read"))
            .says("put the file itself there, or a link to a file inside the repo");
        let answer = sandbox.stop("check").answer();
        assert!(
            !answer.ran.stdout.contains("hunter2") && !answer.ran.stderr.contains("hunter2"),
            "{answer:#?}"
        );
    }
}

#[test]
fn a_linked_parent_folder_leads_out_too() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.home().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    fs::write(elsewhere.join("worktree.yaml"), SECRET).expect("a file");
    symlink(&elsewhere, sandbox.path(".trellis")).expect("a link");
    let ran = sandbox.ralph(&["trust", "--show"]).exits(2).says("leads out of the repo");
    assert!(!ran.stderr.contains("hunter2"), "{ran:#?}");
}

/// The accepted config stays effective, and the link is reported.
#[test]
fn a_link_in_place_of_an_accepted_config_shows_nothing_either() {
    let sandbox = Sandbox::gated("verify: ['true']\n");
    fs::write(sandbox.home().join("secret"), SECRET).expect("a file");
    sandbox.remove("ralph.yaml");
    symlink(sandbox.home().join("secret"), sandbox.path("ralph.yaml")).expect("a link");
    let (reason, detail) = sandbox.stop("check").answer().blocked();
    assert!(!reason.contains("hunter2") && !detail.contains("hunter2"), "{reason}\n{detail}");
    let ran = sandbox.ralph(&["verify"]).exits(3).says("leads out of the repo");
    assert!(!ran.stderr.contains("hunter2"), "{ran:#?}");
}

#[test]
fn a_link_inside_the_repo_works() {
    let sandbox = Sandbox::new();
    sandbox.file("config/gates.yaml", "verify: ['true']\n");
    symlink("config/gates.yaml", sandbox.path("ralph.yaml")).expect("a link");
    sandbox.trust();
    sandbox.ralph(&["verify"]).success();
}

/// The file that names the task is shown too.
#[test]
fn the_name_of_a_task_is_not_read_from_outside() {
    let sandbox = Sandbox::trellis("verify: ['false']\n");
    fs::write(sandbox.home().join("secret"), SECRET).expect("a file");
    sandbox.remove(".trellis/.current-task");
    symlink(sandbox.home().join("secret"), sandbox.path(".trellis/.current-task")).expect("a link");
    let answer = sandbox.stop("check").answer();
    assert!(!answer.ran.stdout.contains("hunter2") && !answer.ran.stderr.contains("hunter2"), "{answer:#?}");
    for arguments in [&["status"][..], &["log"], &["verify"]] {
        let ran = sandbox.ralph(arguments);
        assert!(
            !ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"),
            "{arguments:?}: {ran:#?}"
        );
    }
}
