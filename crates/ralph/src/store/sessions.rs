//! What is known of a client's session: which loop it carries, and what a guarded one did since the person's last prompt.
//!
//! A session that nobody holds has no file here, so one look tells. The ledger is the truth: a file here only says where
//! to look.

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

/// The loop that a session carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    /// The root of the repo, which the session may have left since.
    pub(crate) root: PathBuf,
    #[serde(rename = "loop")]
    pub(crate) id: LoopId,
}

/// A guarded session since the person's last prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) session: SessionId,
    pub(crate) root: PathBuf,
    /// The person's last prompt, as the client numbers them.
    pub(crate) prompt: Option<String>,
    /// Turns since in which the client told the session something; the newest last.
    #[serde(default)]
    pub(crate) notified: Vec<String>,
    /// The tree that it found; later the tree of the last stop that was let go.
    pub(crate) tree: String,
    /// Whether a tool ran since that can write.
    pub(crate) wrote: bool,
    /// The process of its client, so that what it starts can be recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<ProcessIdentity>,
}

impl Watched {
    /// Whether a turn belongs to the person's last prompt.
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

pub(crate) fn watched(home: &Home, session: &SessionId) -> io::Result<Option<Watched>> {
    read(&home.session_file(session, "watched"))
}

pub(crate) fn watch(home: &Home, watched: &Watched) -> io::Result<()> {
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

/// How a session's loop ended at a stop, and in which turn of the client: a turn has one stop that is allowed.
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

/// What a session found when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionBeginning {
    pub(crate) at: Timestamp,
    /// The definitions that were accepted for its repo.
    pub(crate) accepted: Vec<Digest>,
}

pub(crate) fn beginning(home: &Home, session: &SessionId) -> io::Result<Option<SessionBeginning>> {
    read(&home.session_file(session, "began"))
}

/// A session that comes back keeps what it began with.
pub(crate) fn remember_beginning(
    home: &Home,
    session: &SessionId,
    beginning: &SessionBeginning,
) -> io::Result<()> {
    let path = home.session_file(session, "began");
    if path.exists() { Ok(()) } else { write(&path, beginning) }
}

/// The commit that a session found, so that what it commits itself is looked at, too.
pub(crate) fn commit_at_start(home: &Home, session: &SessionId) -> Option<String> {
    read(&home.session_file(session, "commit")).ok().flatten()
}

/// A session that comes back keeps what it began with.
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

/// Remembers that the client's settings have our entries, so that the plugin's own are silent in this session.
pub(crate) fn give_settings_the_word(home: &Home, session: &SessionId) -> io::Result<()> {
    write(&home.session_file(session, "settings"), &())
}

pub(crate) fn settings_have_the_word(home: &Home, session: &SessionId) -> bool {
    home.session_file(session, "settings").exists()
}

/// Whether they had it.
pub(crate) fn take_the_word_from_settings(home: &Home, session: &SessionId) -> bool {
    let had = settings_have_the_word(home, session);
    let _gone_with_its_session = remove(&home.session_file(session, "settings"));
    had
}

/// Every guarded session of a repo.
pub(crate) fn all_watched(home: &Home, root: &Path) -> Vec<Watched> {
    let Ok(entries) = fs::read_dir(home.sessions_dir()) else { return Vec::new() };
    let all = entries.flatten().filter_map(|entry| read::<Watched>(&entry.path()).ok().flatten());
    all.filter(|watched| watched.root == root).collect()
}

/// A file that says nothing is as good as none.
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
