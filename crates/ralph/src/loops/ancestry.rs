//! Which processes started this one, and whether one of them works for an agent: a session's client, a loop's driver, or a
//! ralph process that runs gates.
//!
//! Used for friendly refusals and for records, never for a verdict: a process that detaches from its parents (a double
//! fork) is not recognised. An agent's shell can hide its environment but did not choose its ancestors.

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

/// An ancestor that works for an agent, or a process whose sandbox may contain this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentAncestor {
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
    /// A client or driver of this repo runs in a process namespace that may contain ours.
    OtherNamespace {
        process: i32,
    },
}

impl AgentAncestor {
    /// Searches our ancestors for a ralph process that runs gates, this repo's driver, and the clients of its open loops
    /// and guarded sessions.
    pub(crate) fn find(home: &Home, repo: &Repo, repo_home: &RepoHome) -> Option<Self> {
        let above = proc::ancestors();
        if let Some(process) = gate_runner_above(home, &above) {
            return Some(Self::Gates { process });
        }
        let recorded = RecordedProcesses::of(home, repo, repo_home);
        let is_above = |recorded: &ProcessIdentity| above.iter().find(|ancestor| ancestor.is(recorded));
        let driver = recorded.drivers.iter().find_map(is_above).map(|driver| driver.process);
        if let Some(process) = driver.or_else(|| driven::marked_driver(home)) {
            return Some(Self::Driver { process });
        }
        if let Some(client) = recorded.clients.iter().find_map(|client| is_above(&client.process)) {
            return Some(Self::Client { name: printable_name(&client.name), process: client.process });
        }
        recorded.surrounding_process(repo_home).map(|process| Self::OtherNamespace { process })
    }

    /// The name recorded with an acceptance.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Client { name, .. } => name,
            Self::Driver { .. } => "ralph loop",
            Self::Gates { .. } => "a gate",
            Self::OtherNamespace { .. } => "a sandbox",
        }
    }
}

impl fmt::Display for AgentAncestor {
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
                "this shell may be an agent's sandbox: this repo's agent (process {process}) runs in another process \
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

/// The processes recorded as working on this repo.
#[derive(Default)]
struct RecordedProcesses {
    clients: Vec<RecordedClient>,
    drivers: Vec<ProcessIdentity>,
}

impl RecordedProcesses {
    fn of(home: &Home, repo: &Repo, repo_home: &RepoHome) -> Self {
        /// How many loops are read, most recently active first.
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

    /// A process in another namespace whose sandbox may contain us. Nothing contains the initial namespace; a driver counts
    /// while it holds its lock; a client is not visible from here and counts for a day after its last recorded activity.
    fn surrounding_process(&self, repo_home: &RepoHome) -> Option<i32> {
        const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);
        if proc::is_first_pid_namespace() {
            return None;
        }
        let out_of_sight = |process: &&ProcessIdentity| proc::liveness(process) == Liveness::OutOfSight;
        let driver = self.drivers.iter().find(out_of_sight).filter(|_| is_driven(repo_home));
        let is_recent = |client: &&RecordedClient| {
            client.last_active.is_some_and(|at| clock::now().duration_since(at).unsigned_abs() < A_DAY)
        };
        let clients = self.clients.iter().filter(is_recent).map(|client| &client.process);
        driver.into_iter().chain(clients).find(out_of_sight).map(|found| found.process)
    }
}

fn is_driven(repo_home: &RepoHome) -> bool {
    let lock = repo_home.driver_lock_file();
    lock.exists() && Lock::take(&lock, Duration::ZERO).is_ok_and(|taken| taken.is_none())
}

/// Whether a gate of this repo started us, directly or indirectly.
pub(crate) fn inside_gate_of(repo_home: &RepoHome) -> bool {
    holder_above(repo_home, &proc::ancestors()).is_some()
}

/// Whether a gate of any repo started us.
pub(crate) fn inside_gate(home: &Home) -> bool {
    gate_runner_above(home, &proc::ancestors()).is_some()
}

fn gate_runner_above(home: &Home, above: &[Ancestor]) -> Option<i32> {
    home.repos().iter().find_map(|repo| holder_above(repo, above))
}

fn holder_above(repo_home: &RepoHome, above: &[Ancestor]) -> Option<i32> {
    let holder = GatesLock::holder(repo_home)?;
    above.iter().find(|ancestor| ancestor.is(&holder)).map(|ancestor| ancestor.process)
}

/// The process of the client that called this hook: the one it names, else the first ancestor that is not a shell.
pub(crate) fn client_of_hook(client: &Client) -> Option<ProcessIdentity> {
    let above = || first_non_shell_ancestor(&proc::ancestors()).and_then(proc::identity);
    client.process().map(identity_of).or_else(above)
}

/// The client named in our environment.
pub(crate) fn named_client() -> Option<ProcessIdentity> {
    surroundings::client_process().map(identity_of)
}

/// An exited process is recorded too: another session may claim its loop.
fn identity_of(process: i32) -> ProcessIdentity {
    let gone =
        || ProcessIdentity { process, started: 0, boot: String::new(), pid_namespace: proc::pid_namespace() };
    proc::identity(process).unwrap_or_else(gone)
}

/// A client runs its hooks through a shell. `None` if the hook was called by hand: a terminal's shell is the user's, and
/// its parent started no hook.
fn first_non_shell_ancestor(above: &[Ancestor]) -> Option<i32> {
    const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];
    for ancestor in above {
        let is_shell = SHELLS.contains(&ancestor.name.trim_start_matches('-'));
        match (is_shell, ancestor.leads_a_terminal) {
            (true, true) => return None,
            (true, false) => {}
            // Process 1 adopts orphans; it never starts a hook.
            (false, _) => return Some(ancestor.process).filter(|process| *process > 1),
        }
    }
    None
}

/// A process chooses its own name, so filter it before printing.
fn printable_name(name: &str) -> String {
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
    fn the_client_is_the_first_ancestor_that_is_not_a_shell() {
        let table = [
            (&[("sh", false), ("claude", false), ("zsh", true), ("tmux", false)][..], Some(101)),
            (&[("claude", true), ("zsh", true)], Some(100)),
            (&[("bash", false), ("dash", false), ("zsh", false), ("node", false)], Some(103)),
            // Called by hand: the parent of the user's shell is not a client.
            (&[("zsh", true), ("tmux", false)], None),
            (&[("sh", false), ("-bash", true), ("sshd", false)], None),
            (&[("sh", false)], None),
            (&[], None),
        ];
        for (names, client) in table {
            assert_eq!(first_non_shell_ancestor(&chain(names)), client, "{names:?}");
        }
    }

    #[test]
    fn process_1_is_not_a_client() {
        let init = Ancestor { process: 1, ..chain(&[("systemd", false)]).remove(0) };
        assert_eq!(first_non_shell_ancestor(&[init]), None);
    }

    #[test]
    fn an_ancestor_is_not_recognised_by_its_process_id_alone() {
        let parent = proc::ancestors().into_iter().next().expect("a parent");
        let recorded = proc::identity(parent.process).expect("it is alive");
        assert!(parent.is(&recorded));
        assert!(!parent.is(&ProcessIdentity { started: recorded.started + 1, ..recorded.clone() }));
        assert!(!parent.is(&ProcessIdentity { boot: "an earlier one".into(), ..recorded.clone() }));
        assert!(!parent.is(&ProcessIdentity { process: parent.process + 1, ..recorded }));
    }

    #[test]
    fn a_process_of_another_namespace_is_not_reported_as_gone() {
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
