//! Records of a client's session: its loop, and what a guarded session did since the user's last prompt.
//!
//! A session without a loop or guard has no file here, so one lookup suffices. The ledger is authoritative: a file here
//! only says where to look.

use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;
use ralph_core::ledger::event::ProcessIdentity;
use ralph_core::model::id::{Digest, LoopId, SessionId};
use ralph_core::model::verdict::Verdict;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::home::Home;
use crate::sys::files;

/// The loop attached to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    /// The root of the repo, which the session may have left since.
    pub(crate) root: PathBuf,
    #[serde(rename = "loop")]
    pub(crate) id: LoopId,
    /// Written before the ledger line: a process killed in between has started nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) starting: bool,
}

/// A guarded session since the user's last prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchedSession {
    pub(crate) session: SessionId,
    pub(crate) root: PathBuf,
    /// The user's last prompt, as numbered by the client.
    pub(crate) prompt: Option<String>,
    /// Later turns started by client notifications, newest last.
    #[serde(default)]
    pub(crate) notified: Vec<String>,
    /// The tree at the prompt; later, the tree of the last allowed stop.
    pub(crate) tree: String,
    /// Whether a tool that can write has run since.
    pub(crate) wrote: bool,
    /// The process of its client, used to recognise its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ProcessIdentity>,
}

impl WatchedSession {
    /// Whether a turn belongs to the user's last prompt.
    pub(crate) fn knows(&self, turn: &str) -> bool {
        self.prompt.as_deref() == Some(turn) || self.notified.iter().any(|known| known == turn)
    }

    /// Only the last few turns can still be running.
    pub(crate) fn note_notification(&mut self, turn: String) {
        const MOST: usize = 8;
        self.notified.push(turn);
        let too_many = self.notified.len().saturating_sub(MOST);
        self.notified.drain(..too_many);
    }
}

pub(crate) fn binding(home: &Home, session: &SessionId) -> io::Result<Option<Binding>> {
    read(&home.session_file(session, "loop"))
}

pub(crate) fn bind(home: &Home, session: &SessionId, binding: &Binding) -> io::Result<()> {
    write(&home.session_file(session, "loop"), binding)
}

pub(crate) fn unbind(home: &Home, session: &SessionId) -> io::Result<()> {
    remove(&home.session_file(session, "loop"))
}

pub(crate) fn watched(home: &Home, session: &SessionId) -> io::Result<Option<WatchedSession>> {
    read(&home.session_file(session, "watched"))
}

pub(crate) fn watch(home: &Home, watched: &WatchedSession) -> io::Result<()> {
    write(&home.session_file(&watched.session, "watched"), watched)
}

/// The time of the last record of a guarded session.
pub(crate) fn last_watched(home: &Home, session: &SessionId) -> Option<Timestamp> {
    let written = fs::metadata(home.session_file(session, "watched")).and_then(|meta| meta.modified());
    written.ok().and_then(|at| Timestamp::try_from(at).ok())
}

pub(crate) fn unwatch(home: &Home, session: &SessionId) -> io::Result<()> {
    remove(&home.session_file(session, "watched"))
}

/// How a session's loop ended at a stop, and in which turn: a turn has one allowed stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedAtStop {
    pub(crate) verdict: Verdict,
    pub(crate) turn: Option<String>,
}

pub(crate) fn ended_at_stop(home: &Home, session: &SessionId) -> io::Result<Option<EndedAtStop>> {
    read(&home.session_file(session, "ended"))
}

pub(crate) fn remember_end(home: &Home, session: &SessionId, ended: &EndedAtStop) -> io::Result<()> {
    write(&home.session_file(session, "ended"), ended)
}

pub(crate) fn forget_end(home: &Home, session: &SessionId) -> io::Result<()> {
    remove(&home.session_file(session, "ended"))
}

/// The conditions at the start of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionBeginning {
    pub(crate) at: Timestamp,
    /// The definitions accepted for its repo.
    pub(crate) accepted: Vec<Digest>,
}

pub(crate) fn beginning(home: &Home, session: &SessionId) -> io::Result<Option<SessionBeginning>> {
    read(&home.session_file(session, "began"))
}

/// A resumed session keeps its original record.
pub(crate) fn remember_beginning(
    home: &Home,
    session: &SessionId,
    beginning: &SessionBeginning,
) -> io::Result<()> {
    let path = home.session_file(session, "began");
    if path.exists() { Ok(()) } else { write(&path, beginning) }
}

/// The commit at the start of a session, so that its own commits are inspected, too.
pub(crate) fn commit_at_start(home: &Home, session: &SessionId) -> Option<String> {
    read(&home.session_file(session, "commit")).ok().flatten()
}

/// A resumed session keeps its original record.
pub(crate) fn remember_commit(home: &Home, session: &SessionId, commit: &str) -> io::Result<()> {
    let path = home.session_file(session, "commit");
    if path.exists() { Ok(()) } else { write(&path, &commit) }
}

pub(crate) fn forget_commit(home: &Home, session: &SessionId) -> io::Result<()> {
    remove(&home.session_file(session, "commit"))
}

pub(crate) fn forget_beginning(home: &Home, session: &SessionId) -> io::Result<()> {
    remove(&home.session_file(session, "began"))
}

/// Records that the client's settings contain ralph's hooks, so that the plugin's own hooks stay silent in this session.
pub(crate) fn prefer_settings_hook(home: &Home, session: &SessionId) -> io::Result<()> {
    write(&home.session_file(session, "settings"), &())
}

pub(crate) fn prefers_settings_hook(home: &Home, session: &SessionId) -> bool {
    home.session_file(session, "settings").exists()
}

/// Removes that record; returns whether it existed.
pub(crate) fn forget_settings_hook(home: &Home, session: &SessionId) -> bool {
    let had = prefers_settings_hook(home, session);
    let _best_effort = remove(&home.session_file(session, "settings"));
    had
}

/// Every guarded session of a repo.
pub(crate) fn all_watched(home: &Home, root: &Path) -> Vec<WatchedSession> {
    let Ok(entries) = fs::read_dir(home.sessions_dir()) else { return Vec::new() };
    let all = entries.flatten().filter_map(|entry| read::<WatchedSession>(&entry.path()).ok().flatten());
    all.filter(|watched| watched.root == root).collect()
}

/// An unparsable file counts as missing.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    Ok(files::read_if_there(path)?.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    files::private_dir(dir)?;
    files::sweep_temporary(dir);
    files::replace(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if !files::is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}
