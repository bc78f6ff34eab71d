//! Pending notices of a session. Clients show nothing of what a hook prints when a sub-agent stops, so notices wait for the
//! next event that can show them: to user and agent at a prompt or after a tool, to the user also at a stop.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use ralph_core::clients::hook::{Audience, HookReply};
use ralph_core::ledger::event::Event;
use ralph_core::model::id::SessionId;
use ralph_core::say::feedback::{self, Notice};
use serde::{Deserialize, Serialize};

use crate::store::home::Home;
use crate::store::ledger::Loop;
use crate::sys::{files, proc};

/// How long a hook waits for another one that writes its notices, which takes moments.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct PendingNotices {
    user: Vec<String>,
    agent: Vec<String>,
    /// Gate runs in progress. A run whose process is gone was killed before its verdict was reached or reported.
    running: Vec<RunningGates>,
    /// Notices that were shown and are not repeated in this session.
    said_once: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RunningGates {
    pid: i32,
    agent: String,
    /// The folder of the loop that they run for.
    #[serde(default)]
    ledger: PathBuf,
}

impl RunningGates {
    /// Whether this run was recorded as *verified* before its process was killed.
    fn was_verified(&self) -> bool {
        let lines = Loop::in_folder(&self.ledger).lines().map(|reading| reading.lines).unwrap_or_default();
        let mut running = 0;
        lines.iter().any(|line| match &line.event {
            Event::RunStarted { pid, .. } => {
                running = *pid;
                false
            }
            Event::Judged(judgement) => running == self.pid && judgement.verdict.gates_passed(),
            _ => false,
        })
    }
}

impl PendingNotices {
    fn add(&mut self, notice: Option<&Notice>) {
        let Some(Notice { user, agent }) = notice else { return };
        self.user.push(user.clone());
        self.agent.extend(agent.clone());
    }

    /// Turns runs whose process is gone into notices.
    fn report_killed_runs(&mut self) {
        let (alive, dead): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|run| proc::is_alive(run.pid));
        self.running = alive;
        for run in dead {
            let Notice { user, agent } = if run.was_verified() {
                feedback::verified_unconfirmed(&run.agent)
            } else {
                feedback::cut_off(&run.agent, "its process was killed")
            };
            self.user.push(user);
            self.agent.extend(agent);
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let text = files::read_if_there(path)?.unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }
}

pub(crate) fn leave(home: &Home, session: &SessionId, notice: &Notice) -> io::Result<()> {
    change(&home.notices_file(session), |waiting| waiting.add(Some(notice)))
}

/// Records a gate run before it starts, because a killed process cannot report it afterwards.
pub(crate) fn gates_begin(home: &Home, session: &SessionId, agent: &str, ledger: &Path) -> io::Result<()> {
    let run = RunningGates { pid: own_pid(), agent: agent.to_owned(), ledger: ledger.to_owned() };
    change(&home.notices_file(session), |waiting| waiting.running.push(run))
}

/// Records the end of the gate run and its notice in one write.
pub(crate) fn gates_end(home: &Home, session: &SessionId, notice: Option<&Notice>) -> io::Result<()> {
    change(&home.notices_file(session), |waiting| {
        waiting.running.retain(|run| run.pid != own_pid());
        waiting.add(notice);
    })
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Leaves a line for the user, once per session.
pub(crate) fn leave_once(home: &Home, session: &SessionId, line: &str) -> io::Result<()> {
    let path = home.notices_file(session);
    if PendingNotices::read(&path)?.said_once.iter().any(|said| said == line) {
        return Ok(());
    }
    change(&path, |waiting| {
        waiting.user.push(line.to_owned());
        waiting.said_once.push(line.to_owned());
    })
}

/// Whether a line with this text was shown in this session, or is about to be.
pub(crate) fn was_shown(home: &Home, session: &SessionId, text: &str) -> bool {
    let pending = PendingNotices::read(&home.notices_file(session));
    pending.is_ok_and(|pending| pending.said_once.iter().any(|said| said.contains(text)))
}

/// Marks a line as shown; returns whether it is new in this session.
pub(crate) fn mark_as_shown(home: &Home, session: &SessionId, line: &str) -> io::Result<bool> {
    let mut first = false;
    change(&home.notices_file(session), |waiting| {
        first = !waiting.said_once.iter().any(|said| said == line);
        if first {
            waiting.said_once.push(line.to_owned());
        }
    })?;
    Ok(first)
}

/// The pending notices for the readers of this reply. Those shown to a sub-agent stay pending for the main agent: a
/// sub-agent may not pass them on, and several may be running.
pub(crate) fn deliver(
    home: &Home,
    session: &SessionId,
    audience: Audience,
    is_sub_agents: bool,
) -> HookReply {
    let Audience { user: to_user, agent: to_agent } = audience;
    let path = home.notices_file(session);
    // Most sessions have none: one read, no write.
    let mut waiting = PendingNotices::read(&path).unwrap_or_default();
    waiting.report_killed_runs();
    let something = to_user && !waiting.user.is_empty() || to_agent && !waiting.agent.is_empty();
    if !something {
        return HookReply::Silent;
    }
    let text = |lines: Vec<String>| (!lines.is_empty()).then(|| lines.join("\n"));
    if is_sub_agents {
        return HookReply::Notify { user: None, agent: text(waiting.agent) };
    }
    let (mut user, mut agent) = (Vec::new(), Vec::new());
    let delivered = change(&path, |waiting| {
        waiting.report_killed_runs();
        if to_user {
            user = std::mem::take(&mut waiting.user);
        }
        if to_agent {
            agent = std::mem::take(&mut waiting.agent);
        }
    });
    match (delivered, text(user), text(agent)) {
        (Err(_), ..) | (_, None, None) => HookReply::Silent,
        (Ok(()), user, agent) => HookReply::Notify { user, agent },
    }
}

fn change(path: &PathBuf, change: impl FnOnce(&mut PendingNotices)) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    files::private_dir(dir)?;
    let busy = || io::Error::new(io::ErrorKind::ResourceBusy, "the notices of this session are locked");
    let _lock = files::Lock::take(&dir.join("lock"), LONGEST_WAIT)?.ok_or_else(busy)?;
    files::sweep_temporary(dir);
    let mut waiting = PendingNotices::read(path)?;
    change(&mut waiting);
    if waiting == PendingNotices::default() {
        fs::remove_file(path)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
    } else {
        files::replace(path, &serde_json::to_vec(&waiting).map_err(io::Error::other)?)
    }
}
