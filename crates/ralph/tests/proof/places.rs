//! Where no overlay can be made the copy is used, and said: something mounted inside the tree, no namespaces.

use std::process::Command;

use ralph_testkit::{Finished, Sandbox};

use crate::{RALPH, commit, repo};

fn changed() -> Sandbox {
    let sandbox = repo("grep -q new value");
    sandbox.file("value", "old\n");
    sandbox.file("sub/file", "x\n");
    commit(&sandbox);
    sandbox.file("value", "new\n");
    sandbox
}

/// `ralph prove` behind other commands in namespaces of their own.
fn proven_behind(sandbox: &Sandbox, unshare: &[&str], first: &str) -> Finished {
    let plain = sandbox.command(&[]);
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-ec", &format!("{first}; exec \"$0\" prove --json"), RALPH]);
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Finished::of(command.current_dir(sandbox.project()).output().expect("unshare"))
}

#[test]
fn with_a_mount_inside_the_tree() {
    let sandbox = changed();
    let ran = proven_behind(
        &sandbox,
        &["--user", "--map-root-user", "--mount"],
        "mount -t tmpfs none sub; echo x >sub/file",
    );
    let said = ran.json()["view"].as_str().expect("a view").to_owned();
    assert!(
        said.starts_with("in a copy of the files (") && said.ends_with("/sub is mounted inside the tree)"),
        "{said}"
    );
    assert_eq!((ran.json()["verdict"].as_str(), ran.code), (Some("proven"), Some(0)), "{ran:#?}");
}

#[test]
fn without_namespaces() {
    let sandbox = changed();
    let none = "echo 0 >/proc/sys/user/max_user_namespaces; echo 0 >/proc/sys/user/max_mnt_namespaces";
    let ran = proven_behind(&sandbox, &["--user", "--map-root-user"], none);
    let said = ran.json()["view"].as_str().expect("a view").to_owned();
    assert!(said.starts_with("in a copy of the files (cannot make a user namespace"), "{said}");
    assert_eq!((ran.json()["verdict"].as_str(), ran.code), (Some("proven"), Some(0)), "{ran:#?}");
}

/// As root without the right to mount in the first namespace, as in many containers.
#[test]
fn as_the_root_of_a_user_namespace() {
    let sandbox = changed();
    let ran = proven_behind(&sandbox, &["--user", "--map-root-user"], "true");
    assert_eq!(ran.json()["view"], "in an overlay at the same path", "{ran:#?}");
    assert_eq!(ran.code, Some(0));
}
