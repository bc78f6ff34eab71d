//! Which processes started us, and whether one of them works for an agent: the client of a session, the driver of a loop, or a
//! ralph that runs gates.
//!
//! It is asked for a friendly refusal and for records, never for a verdict: a process that gives up its parents (a double
//! fork) is not recognised. An agent's shell can hide its environment; its ancestors are what it did not choose.

use std::fmt;
use std::time::Duration;

use ralph_core::ledger::event::{ProcessIdentity, Subject};
use ralph_core::ledger::state::State;
use ralph_core::model::foreign_text;
use ralph_core::model::secrets::Secrets;

use crate::checks::gates::GatesLock;
use crate::clients::client::Client;
use crate::clients::surroundings;
use crate::loops::driver::driven;
use crate::store::home::{Home, RepoHome};
use crate::store::ledger::Loop;
use crate::store::repo::Repo;
use crate::store::sessions;
use crate::sys::clock;
use crate::sys::files::Lock;
use crate::sys::proc::{self, Ancestor, Liveness};

/// A process above us that works for an agent, or in whose sandbox we may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentAbove {
    Client {
        name: String,
        process: i32,
    },
    Driver {
        process: i32,
    },
    Gates {
        process: i32,
    },
    /// A client or a driver of this repo is in a process namespace that may be around ours.
    OtherNamespace {
        process: i32,
    },
}

impl AgentAbove {
    /// Searches our ancestors for a ralph that runs gates, this repo's driver, and the clients of its open loops and guarded
    /// sessions.
    pub(crate) fn find(home: &Home, repo: &Repo, repo_home: &RepoHome) -> Option<Self> {
        let above = proc::ancestors();
        if let Some(process) = gates_above(home, &above) {
            return Some(Self::Gates { process });
        }
        let recorded = Recorded::of(home, repo, repo_home);
        let is_above = |recorded: &ProcessIdentity| above.iter().find(|ancestor| ancestor.is(recorded));
        let driver = recorded.drivers.iter().find_map(is_above).map(|driver| driver.process);
        if let Some(process) = driver.or_else(|| driven::marked_driver(home)) {
            return Some(Self::Driver { process });
        }
        if let Some(client) = recorded.clients.iter().find_map(|client| is_above(&client.process)) {
            return Some(Self::Client { name: shown(&client.name), process: client.process });
        }
        recorded.around_us(repo_home).map(|process| Self::OtherNamespace { process })
    }

    /// The name that is recorded for an acceptance.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Client { name, .. } => name,
            Self::Driver { .. } => "ralph loop",
            Self::Gates { .. } => "a gate",
            Self::OtherNamespace { .. } => "a sandbox",
        }
    }
}

impl fmt::Display for AgentAbove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client { name, process } => {
                write!(f, "this shell was started by {name} (process {process})")
            }
            Self::Driver { process } => {
                write!(f, "this shell was started by `ralph loop` (process {process})")
            }
            Self::Gates { process } => {
                write!(f, "this shell was started by a gate that ralph runs (process {process})")
            }
            Self::OtherNamespace { process } => write!(
                f,
                "this shell may be an agent's sandbox: the agent of this repo (process {process}) runs in another process \
                 namespace"
            ),
        }
    }
}

/// A client's process and the time of its last recorded activity.
struct RecordedClient {
    process: ProcessIdentity,
    last_active: Option<jiff::Timestamp>,
}

/// The processes that are recorded as working on this repo.
#[derive(Default)]
struct Recorded {
    clients: Vec<RecordedClient>,
    drivers: Vec<ProcessIdentity>,
}

impl Recorded {
    fn of(home: &Home, repo: &Repo, repo_home: &RepoHome) -> Self {
        /// The ones last active first; who works on a loop was just active in it.
        const MOST_LOOKED_AT: usize = 50;
        let mut recorded = Self::default();
        for id in repo_home.loops().into_iter().take(MOST_LOOKED_AT) {
            let state = Loop::new(repo_home, &id).state().unwrap_or_default();
            if state.is_open() {
                recorded.add(state);
            }
        }
        for watched in sessions::all_watched(home, &repo.root) {
            let last_active = sessions::last_watched(home, &watched.session);
            recorded.clients.extend(watched.client.map(|process| RecordedClient { process, last_active }));
        }
        recorded
    }

    fn add(&mut self, state: State) {
        if state.subject == Some(Subject::Driver) {
            self.drivers.extend(state.drive.owner);
        }
        let last_active = state.last_activity;
        self.clients.extend(state.client.map(|process| RecordedClient { process, last_active }));
    }

    /// A process in another namespace than ours, whose sandbox ours may be. Nothing is around the first namespace; a driver is
    /// there as long as it holds its lock; a client cannot be seen from here, and counts for a day after its last recorded activity.
    fn around_us(&self, repo_home: &RepoHome) -> Option<i32> {
        const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
        if proc::is_first_pid_namespace() {
            return None;
        }
        let out_of_sight = |process: &&ProcessIdentity| proc::liveness(process) == Liveness::OutOfSight;
        let driver = self.drivers.iter().find(out_of_sight).filter(|_| is_driven(repo_home));
        let lately = |client: &&RecordedClient| {
            client.last_active.is_some_and(|at| clock::now().duration_since(at).unsigned_abs() < A_DAY)
        };
        let clients = self.clients.iter().filter(lately).map(|client| &client.process);
        driver.into_iter().chain(clients).find(out_of_sight).map(|found| found.process)
    }
}

/// Whether a process holds the lock of the driver.
fn is_driven(repo_home: &RepoHome) -> bool {
    let lock = repo_home.driver_lock_file();
    lock.exists() && Lock::take(&lock, Duration::ZERO).is_ok_and(|taken| taken.is_none())
}

/// Whether a gate of this repo started us, directly or not.
pub(crate) fn inside_gate_of(repo_home: &RepoHome) -> bool {
    holder_above(repo_home, &proc::ancestors()).is_some()
}

/// The same for a gate of any repo.
pub(crate) fn inside_gate(home: &Home) -> bool {
    gates_above(home, &proc::ancestors()).is_some()
}

fn gates_above(home: &Home, above: &[Ancestor]) -> Option<i32> {
    home.repos().iter().find_map(|repo| holder_above(repo, above))
}

fn holder_above(repo_home: &RepoHome, above: &[Ancestor]) -> Option<i32> {
    let holder = GatesLock::holder(repo_home)?;
    above.iter().find(|ancestor| ancestor.is(&holder)).map(|ancestor| ancestor.process)
}

/// The process of the client whose hook we are: the one that it names, else the first above us that is no shell.
pub(crate) fn client_of_hook(client: &Client) -> Option<ProcessIdentity> {
    let above = || first_beyond_shells(&proc::ancestors()).and_then(proc::identity);
    client.process().map(identity_of).or_else(above)
}

/// The client that names itself in our environment.
pub(crate) fn named_client() -> Option<ProcessIdentity> {
    surroundings::client_process().map(identity_of)
}

/// One that is gone is recorded too: its loop may be claimed by another session.
fn identity_of(process: i32) -> ProcessIdentity {
    let gone =
        || ProcessIdentity { process, started: 0, boot: String::new(), pid_namespace: proc::pid_namespace() };
    proc::identity(process).unwrap_or_else(gone)
}

/// A client runs its hooks by a shell. None where the hook was called by hand: the shell of a terminal is the user's, and what
/// is above it started no hook.
fn first_beyond_shells(above: &[Ancestor]) -> Option<i32> {
    const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];
    for ancestor in above {
        let is_shell = SHELLS.contains(&ancestor.name.trim_start_matches('-'));
        match (is_shell, ancestor.leads_a_terminal) {
            (true, true) => return None,
            (true, false) => {}
            // Process 1 adopts orphans: it started no hook.
            (false, _) => return Some(ancestor.process).filter(|process| *process > 1),
        }
    }
    None
}

/// A process chooses its own name, so it is filtered before it is shown.
fn shown(name: &str) -> String {
    const LONGEST: usize = 40;
    let plain = foreign_text::clean(name.replace('\n', " ").as_bytes(), &Secrets::default());
    plain.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(names: &[(&str, bool)]) -> Vec<Ancestor> {
        let ancestor = |(number, (name, leads)): (i32, &(&str, bool))| Ancestor {
            process: number,
            started: 1,
            name: (*name).to_owned(),
            leads_a_terminal: *leads,
        };
        (100..).zip(names).map(ancestor).collect()
    }

    #[test]
    fn the_client_is_the_first_process_above_the_shells() {
        let table = [
            (&[("sh", false), ("claude", false), ("zsh", true), ("tmux", false)][..], Some(101)),
            (&[("claude", true), ("zsh", true)], Some(100)),
            (&[("bash", false), ("dash", false), ("zsh", false), ("node", false)], Some(103)),
            // Called by hand: what is above the user's shell is no client.
            (&[("zsh", true), ("tmux", false)], None),
            (&[("sh", false), ("-bash", true), ("sshd", false)], None),
            (&[("sh", false)], None),
            (&[], None),
        ];
        for (names, client) in table {
            assert_eq!(first_beyond_shells(&chain(names)), client, "{names:?}");
        }
    }

    #[test]
    fn the_process_that_adopts_orphans_is_no_client() {
        let init = Ancestor { process: 1, ..chain(&[("systemd", false)]).remove(0) };
        assert_eq!(first_beyond_shells(&[init]), None);
    }

    #[test]
    fn an_ancestor_is_recognised_by_more_than_its_number() {
        let parent = proc::ancestors().into_iter().next().expect("a parent");
        let recorded = proc::identity(parent.process).expect("it is alive");
        assert!(parent.is(&recorded));
        assert!(!parent.is(&ProcessIdentity { started: recorded.started + 1, ..recorded.clone() }));
        assert!(!parent.is(&ProcessIdentity { boot: "an earlier one".into(), ..recorded.clone() }));
        assert!(!parent.is(&ProcessIdentity { process: parent.process + 1, ..recorded }));
    }

    #[test]
    fn a_process_of_another_namespace_is_out_of_sight_and_not_gone() {
        let own = i32::try_from(std::process::id()).expect("a number");
        let ours = proc::identity(own).expect("we are alive");
        assert_eq!(proc::liveness(&ours), Liveness::Running);
        let gone = ProcessIdentity { started: ours.started + 1, ..ours };
        assert_eq!(proc::liveness(&gone), Liveness::Gone);
        let elsewhere = ProcessIdentity { pid_namespace: Some(1), ..gone.clone() };
        assert_eq!(proc::liveness(&elsewhere), Liveness::OutOfSight);
        let before_a_reboot = ProcessIdentity { boot: "an earlier one".into(), ..elsewhere };
        assert_eq!(proc::liveness(&before_a_reboot), Liveness::Gone);
    }
}
