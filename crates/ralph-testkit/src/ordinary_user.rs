//! A user who is subject to file permissions. Tests that run as root switch to another user.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::sandbox::Sandbox;
use crate::{misbehave_program, ralph};

const NOBODY: u32 = 65534;

/// A user who is not root, with a home and a repo of its own.
#[derive(Debug)]
pub struct OrdinaryUser {
    pub sandbox: Sandbox,
    /// Set when the tests run as root and have to switch to another user.
    switch_to: Option<u32>,
}

impl OrdinaryUser {
    /// Gives the whole sandbox to that user.
    #[track_caller]
    pub fn of(sandbox: Sandbox) -> Self {
        let switch_to = rustix::process::geteuid().is_root().then_some(NOBODY);
        let user = Self { sandbox, switch_to };
        if switch_to.is_some() {
            // By another process: a program that is open for writing here could be inherited by a child that another
            // test starts
            // at that moment, and could not be run ("text file busy").
            let programs = [Path::new(ralph()), &misbehave_program()];
            let copied = Command::new("cp").args(programs).arg(user.sandbox.folder()).status();
            assert!(copied.expect("cp").success(), "copies that every user can read");
        }
        user.own_all();
        user
    }

    pub fn uid(&self) -> u32 {
        self.switch_to.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    /// Gives everything in the sandbox to this user again, including files that we created as root.
    pub fn own_all(&self) {
        if let Some(uid) = self.switch_to {
            give_away(self.sandbox.folder(), uid);
        }
    }

    /// The path of `ralph`, where this user can run it.
    pub fn program(&self) -> String {
        self.reachable(Path::new(ralph()))
    }

    /// The copy of a program, if we had to make one.
    fn reachable(&self, program: &Path) -> String {
        let copy = self.sandbox.folder().join(program.file_name().expect("a name"));
        let program = if self.switch_to.is_some() { &copy } else { program };
        program.to_str().expect("UTF-8").to_owned()
    }

    /// `ralph` as this user.
    pub fn ralph(&self, arguments: &[&str]) -> Command {
        self.as_user(&self.program(), &self.sandbox.command(arguments))
    }

    /// The same under a limit of `misbehave with-limit`.
    pub fn ralph_with_limit(&self, limit: &str, arguments: &[&str]) -> Command {
        let mut limited = Command::new("");
        limited.args(["with-limit", limit, &self.program()]).args(arguments);
        let plain = self.sandbox.command(arguments);
        limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.as_user(&self.reachable(&misbehave_program()), &limited)
    }

    /// Any program as this user.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.isolated(program);
        command.args(arguments);
        self.as_user(program, &command)
    }

    fn as_user(&self, program: &str, plain: &Command) -> Command {
        let mut command = Command::new(program);
        command.args(plain.get_args()).env_clear().stdin(std::process::Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(self.sandbox.project());
        if let Some(uid) = self.switch_to {
            command.uid(uid).gid(uid);
        }
        command
    }
}

fn give_away(path: &Path, uid: u32) {
    if path.is_symlink() {
        return;
    }
    chown(path, Some(uid), Some(uid)).expect("its owner is changed");
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("every user may read it");
        for entry in fs::read_dir(path).expect("a folder") {
            give_away(&entry.expect("an entry").path(), uid);
        }
    }
}
