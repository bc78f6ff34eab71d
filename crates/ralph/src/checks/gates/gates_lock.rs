//! The lock under which gates run. Its file names the holder, so that a process started by a gate can find the holder among
//! its ancestors; a gate's environment does not mention ralph.

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
            // The gates run even if this cannot be written.
            let _best_effort = lock.write(&name);
            Self { lock }
        }))
    }

    /// The process that runs this repo's gates. A killed holder stays recorded, but a dead process is never an ancestor.
    pub(crate) fn holder(repo_home: &RepoHome) -> Option<ProcessIdentity> {
        let name = files::read_foreign(&repo_home.gates_lock_file()).ok()??;
        serde_json::from_slice(&name).ok()
    }
}

impl Drop for GatesLock {
    /// The same process may run an agent next, which is not a gate.
    fn drop(&mut self) {
        let _best_effort = self.lock.write(b"");
    }
}
