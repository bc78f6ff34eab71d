//! The tasks of a session or its team, as the client keeps them: a folder for each list, a file for each task.
//!
//! Only the lists of this very session are looked at: every other team of this machine is somebody else's.

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

/// Whether nothing else is open once this task is completed. Where nobody can tell, it counts as the last one: then the
/// gates are run once too often, and not once too few.
pub(super) fn is_last(session: &SessionId, team: Option<&str>, id: &str) -> bool {
    let Some(folder) = config_dir().map(|folder| folder.join("tasks")) else { return true };
    let lists: Vec<PathBuf> =
        names(session, team).into_iter().map(|name| folder.join(name)).filter(|list| list.is_dir()).collect();
    !lists.iter().flat_map(|list| tasks(list)).any(|task| task.is_open() && task.id != id)
}

/// What the client may call the list: after the team, after the session, or after the beginning of its id where teams are
/// on. A name is never a path.
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
