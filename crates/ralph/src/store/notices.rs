//! What a session has yet to be told. A client shows nothing of what a hook says when a sub-agent stops, so it waits for
//! the next event that can: the person and the agent at a prompt or after a tool, the person at a stop too.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::clients::hook::{Audience, HookReply};
use ralph_core::ledger::event::Event;
use ralph_core::model::id::SessionId;
use ralph_core::model::verdict::Verdict;
use ralph_core::say::feedback::{self, Notice};
use serde::{Deserialize, Serialize};

use crate::store::home::Home;
use crate::store::ledger::Loop;
use crate::sys::{files, proc};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    #[serde(default)]
    person: Vec<String>,
    #[serde(default)]
    agent: Vec<String>,
    /// Gates that are being run for somebody. Whose process is gone was cut off, before there was a verdict or before it
    /// could be told.
    #[serde(default)]
    running: Vec<Running>,
    /// What was said once and is not to be said again in this session.
    #[serde(default)]
    said_once: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Running {
    pid: i32,
    agent: String,
    /// The folder of the loop that they are run for.
    #[serde(default)]
    ledger: PathBuf,
}

impl Running {
    /// Whether a verdict of *verified* is recorded for this run, whose process was killed before it could say so.
    fn came_to_verified(&self) -> bool {
        let lines = Loop::in_folder(&self.ledger).lines().map(|reading| reading.lines).unwrap_or_default();
        let mut running = 0;
        lines.iter().any(|line| match &line.event {
            Event::RunStarted { pid, .. } => {
                running = *pid;
                false
            }
            Event::Judged(judgement) => running == self.pid && judgement.verdict == Verdict::Verified,
            _ => false,
        })
    }
}

impl Waiting {
    /// Turns runs whose process is gone into notices.
    fn take_up_the_dead(&mut self) {
        let (alive, dead): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|run| proc::is_alive(run.pid));
        self.running = alive;
        for run in dead {
            let Notice { person, agent } = if run.came_to_verified() {
                feedback::verified_unconfirmed(&run.agent)
            } else {
                feedback::cut_off(&run.agent, "its process was killed")
            };
            self.person.push(person);
            self.agent.extend(agent);
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let text = files::read_if_there(path)?.unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }
}

/// Leaves a notice for the session.
pub(crate) fn leave(home: &Home, session: &SessionId, notice: &Notice) -> io::Result<()> {
    change(&home.notices_file(session), |waiting| {
        waiting.person.push(notice.person.clone());
        waiting.agent.extend(notice.agent.clone());
    })
}

/// Says before the gates are run that they are: whoever is killed before the verdict cannot say so afterwards.
pub(crate) fn gates_begin(home: &Home, session: &SessionId, agent: &str, ledger: &Path) -> io::Result<()> {
    let run = Running { pid: own_pid(), agent: agent.to_owned(), ledger: ledger.to_owned() };
    change(&home.notices_file(session), |waiting| waiting.running.push(run))
}

pub(crate) fn gates_end(home: &Home, session: &SessionId) -> io::Result<()> {
    change(&home.notices_file(session), |waiting| waiting.running.retain(|run| run.pid != own_pid()))
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Leaves a line for the person, once in a session.
pub(crate) fn leave_once(home: &Home, session: &SessionId, line: &str) -> io::Result<()> {
    let path = home.notices_file(session);
    if Waiting::read(&path)?.said_once.iter().any(|said| said == line) {
        return Ok(());
    }
    change(&path, |waiting| {
        waiting.person.push(line.to_owned());
        waiting.said_once.push(line.to_owned());
    })
}

/// Whether these words are said for the first time in this session; from now on they are not.
pub(crate) fn say_once(home: &Home, session: &SessionId, line: &str) -> io::Result<bool> {
    let mut first = false;
    change(&home.notices_file(session), |waiting| {
        first = !waiting.said_once.iter().any(|said| said == line);
        if first {
            waiting.said_once.push(line.to_owned());
        }
    })?;
    Ok(first)
}

/// What waits for those who read the answer to this call. What a sub-agent reads still waits for the main agent: a
/// sub-agent may keep it to itself, and several may be at work.
pub(crate) fn deliver(
    home: &Home,
    session: &SessionId,
    audience: Audience,
    is_sub_agents: bool,
) -> HookReply {
    let Audience { user: to_person, agent: to_agent } = audience;
    let path = home.notices_file(session);
    // Most sessions have nothing waiting: one look, no write.
    let mut waiting = Waiting::read(&path).unwrap_or_default();
    waiting.take_up_the_dead();
    let something = to_person && !waiting.person.is_empty() || to_agent && !waiting.agent.is_empty();
    if !something {
        return HookReply::Silent;
    }
    let text = |lines: Vec<String>| (!lines.is_empty()).then(|| lines.join("\n"));
    if is_sub_agents {
        return HookReply::Tell { person: None, agent: text(waiting.agent) };
    }
    let (mut person, mut agent) = (Vec::new(), Vec::new());
    let told = change(&path, |waiting| {
        waiting.take_up_the_dead();
        if to_person {
            person = std::mem::take(&mut waiting.person);
        }
        if to_agent {
            agent = std::mem::take(&mut waiting.agent);
        }
    });
    match (told, text(person), text(agent)) {
        (Err(_), ..) | (_, None, None) => HookReply::Silent,
        (Ok(()), person, agent) => HookReply::Tell { person, agent },
    }
}

fn change(path: &PathBuf, change: impl FnOnce(&mut Waiting)) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    files::private_dir(dir)?;
    let lock = files::Lock::take(&dir.join("lock"), std::time::Duration::from_secs(1))?;
    files::sweep_temporary(dir);
    let mut waiting = Waiting::read(path)?;
    change(&mut waiting);
    let done = if waiting == Waiting::default() {
        fs::remove_file(path)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
    } else {
        files::replace(path, &serde_json::to_vec(&waiting).map_err(io::Error::other)?)
    };
    drop(lock);
    done
}
