//! The lock under which gates run. Its file names the holder, so that a process that a gate started can find the holder among
//! its ancestors; the environment of a gate says nothing about ralph.

use std::io;
use std::time::Duration;

use ralph_core::ledger::event::ProcessIdentity;

use crate::store::home::RepoHome;
use crate::sys::files::{self, Lock};
use crate::sys::proc;

#[derive(Debug)]
pub(crate) struct GatesLock {
    lock: Lock,
}

impl GatesLock {
    /// As [`Lock::take_unless`].
    pub(crate) fn take_unless(
        repo_home: &RepoHome,
        patience: Duration,
        ended: impl Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let taken = Lock::take_unless(&repo_home.gates_lock_file(), patience, ended)?;
        Ok(taken.map(|lock| {
            let own = i32::try_from(std::process::id()).ok().and_then(proc::identity);
            let name = own.and_then(|own| serde_json::to_vec(&own).ok()).unwrap_or_default();
            // The gates run whether or not this can be written.
            let _only_a_name = lock.write(&name);
            Self { lock }
        }))
    }

    /// The process that runs gates of this repo. A killed holder stays named here, but a dead process is never an ancestor.
    pub(crate) fn holder(repo_home: &RepoHome) -> Option<ProcessIdentity> {
        let name = files::read_foreign(&repo_home.gates_lock_file()).ok()??;
        serde_json::from_slice(&name).ok()
    }
}

impl Drop for GatesLock {
    /// The same process may run an agent next, which is not a gate.
    fn drop(&mut self) {
        let _only_a_name = self.lock.write(b"");
    }
}
