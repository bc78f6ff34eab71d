//! The tasks of a session or its team, as stored by the client: a folder per list, a file per task.
//!
//! Only the lists of this session are read, not those of other teams on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use ralph_core::model::id::SessionId;
use serde::Deserialize;

use crate::clients::claude::variables::config_dir;
use crate::sys::files;

#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    id: String,
    #[serde(default)]
    status: String,
}

impl Task {
    fn is_open(&self) -> bool {
        !matches!(self.status.as_str(), "completed" | "deleted" | "cancelled")
    }
}

/// Whether no other task is open once this one is completed. If unknown, it counts as the last one: the gates then
/// run once too often rather than too rarely.
pub(super) fn is_last(session: &SessionId, team: Option<&str>, id: &str) -> bool {
    let Some(folder) = config_dir().map(|folder| folder.join("tasks")) else { return true };
    let lists: Vec<PathBuf> =
        names(session, team).into_iter().map(|name| folder.join(name)).filter(|list| list.is_dir()).collect();
    !lists.iter().flat_map(|list| tasks(list)).any(|task| task.is_open() && task.id != id)
}

/// Possible names of the list: the team, the session, or the beginning of the session id if teams are enabled. A name
/// is never used as a path.
fn names(session: &SessionId, team: Option<&str>) -> Vec<String> {
    let short: String = session.as_str().chars().take(8).collect();
    let names =
        [team.map(str::to_owned), Some(session.as_str().to_owned()), Some(format!("session-{short}"))];
    let is_name = |name: &String| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    names.into_iter().flatten().filter(is_name).collect()
}

fn tasks(list: &Path) -> Vec<Task> {
    const MOST: usize = 1_000;
    let files = fs::read_dir(list).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: PathBuf| serde_json::from_slice(&files::read_foreign(&path).ok()??).ok();
    files.take(MOST).filter_map(read).collect()
}
