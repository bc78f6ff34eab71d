//! The loop file: shows a session loop as the official plugin does. Deleting it cancels the loop; if it disagrees with the
//! ledger, the ledger wins. The last written content is recorded outside the repo.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::claims::loop_file::LoopFile;
use ralph_core::ledger::state::State;
use ralph_core::model::budget::Attempts;
use ralph_core::model::id::{Digest, LoopId};
use ralph_core::say::loop_texts;
use serde::{Deserialize, Serialize};

use crate::store::exports::prescribed_paths;
use crate::store::home::RepoHome;
use crate::sys::files;
use crate::work_tree::fingerprint::OwnFile;

pub(crate) const PATH: &str = prescribed_paths::LOOP_FILE;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The loop it shows.
    #[serde(rename = "loop")]
    id: Option<LoopId>,
    /// The content as written; `None` if ralph removed the file itself.
    written: Option<Digest>,
    /// The content before that: readers see it during a write, or after the writer was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Digest>,
    /// There was no file before this one, and it is unknown whether it was created.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    appears: bool,
    /// Where another tool's file was copied before it was overwritten, relative to the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    copied_to: Option<String>,
    /// Loops whose file was missing when another loop's file replaced it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<LoopId>,
}

impl Record {
    fn wrote(&self, text: &[u8]) -> bool {
        let digest = Some(Digest::of(text));
        digest == self.written || digest == self.before
    }
}

/// The status of a loop's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoopFileSeen {
    AsWritten,
    /// ralph wrote it, and it is missing.
    Deleted,
    /// It was edited; the current content.
    Edited(String),
    /// It shows another loop, or was never written.
    NotOurs,
}

/// The loop file of one repo.
pub(crate) struct LoopFileOnDisk<'a> {
    home: &'a RepoHome,
    root: &'a Path,
}

impl<'a> LoopFileOnDisk<'a> {
    pub(crate) fn new(home: &'a RepoHome, root: &'a Path) -> Self {
        Self { home, root }
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.root.join(PATH)).filter(|path| files::lies_below(path, self.root))
    }

    fn record(&self) -> Record {
        self.read_record().unwrap_or_default()
    }

    fn read_record(&self) -> io::Result<Record> {
        let text = files::read_if_there(&self.home.loop_file_record())?.unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        let path = self.home.loop_file_record();
        path.parent().map(files::sweep_temporary);
        files::replace(&path, &serde_json::to_vec(record).map_err(io::Error::other)?)
    }

    /// `None` if the file does not exist; an unreadable file is an error.
    fn text(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(path) = self.path() else { return Ok(None) };
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() => files::read_foreign(&path),
            // Never follow a link to somewhere else.
            Ok(_) => Ok(None),
            Err(error) if files::is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn inspect(&self, id: &LoopId) -> LoopFileSeen {
        let record = self.record();
        if record.deleted.contains(id) {
            return LoopFileSeen::Deleted;
        }
        if record.written.is_none() || record.id.as_ref() != Some(id) {
            return LoopFileSeen::NotOurs;
        }
        match self.text() {
            Ok(None) if record.appears => LoopFileSeen::NotOurs,
            Ok(None) => LoopFileSeen::Deleted,
            Ok(Some(text)) if record.wrote(&text) => LoopFileSeen::AsWritten,
            Ok(Some(text)) => {
                LoopFileSeen::Edited(String::from_utf8_lossy(&text).chars().take(200).collect())
            }
            Err(error) => LoopFileSeen::Edited(format!("cannot be read: {error}")),
        }
    }

    /// A loop that another tool started: a file that ralph did not write.
    pub(crate) fn foreign(&self) -> Option<LoopFile> {
        let text = self.text().ok()??;
        if self.record().wrote(&text) {
            return None;
        }
        LoopFile::parse(&String::from_utf8_lossy(&text)).filter(|file| file.active)
    }

    /// Writes the status of a loop.
    pub(crate) fn write(&self, id: &LoopId, state: &State) -> io::Result<()> {
        let (Some(path), Some(goal), Some(started_at)) = (self.path(), &state.goal, state.started_at) else {
            return Ok(());
        };
        let most = state.limits.as_ref().map(|limits| (limits.attempts.value, limits.agent_calls.value));
        let max_iterations = match most {
            Some((Attempts::AtMost(most), _) | (Attempts::Unlimited, Some(most))) => state.granted(most),
            Some((Attempts::Unlimited, None)) | None => 0,
        };
        let text = LoopFile {
            active: state.is_running(),
            iteration: loop_texts::current_iteration(state),
            max_iterations,
            completion_promise: goal.promise.clone(),
            session_id: state.session.as_ref().map(ToString::to_string),
            started_at,
            task: goal.task.clone(),
        }
        .render();
        let dir = path.parent().unwrap_or(self.root);
        fs::create_dir_all(dir)?;
        files::sweep_temporary(dir);
        // Record first, then write: an unrecorded file would be taken for another tool's.
        let before = self.record();
        let is_shown = before.id.as_ref() == Some(id);
        let copied_to = if is_shown { before.copied_to.clone() } else { self.copy_foreign(&before, state)? };
        let deleted = self.deleted_before(&before, id);
        let written = Digest::of(&text);
        let record = Record {
            id: Some(id.clone()),
            written: Some(written.clone()),
            before: before.written.clone().filter(|digest| *digest != written).or(before.before.clone()),
            appears: !path.exists(),
            copied_to,
            deleted,
        };
        self.save(&record)?;
        files::replace(&path, text.as_bytes()).inspect_err(|_| {
            // The previous file is still there.
            let _best_effort = self.save(&before);
        })?;
        if record.appears { self.save(&Record { appears: false, ..record }) } else { Ok(()) }
    }

    /// Copies another tool's file to a name beside it, unless this loop was adopted from it.
    fn copy_foreign(&self, record: &Record, state: &State) -> io::Result<Option<String>> {
        /// The maximum number of copies.
        const MOST: u32 = 1000;
        let (Some(path), Some(goal)) = (self.path(), &state.goal) else { return Ok(None) };
        match self.text() {
            Ok(None) => return Ok(None),
            Ok(Some(text)) => {
                let session = state.session.as_ref().map(ToString::to_string);
                let is_same = |file: LoopFile| {
                    file.task == goal.task
                        && file.completion_promise == goal.promise
                        && file.session_id == session
                };
                let is_adopted = LoopFile::parse(&String::from_utf8_lossy(&text)).is_some_and(is_same);
                if record.wrote(&text) || is_adopted {
                    return Ok(None);
                }
            }
            // A copy of that name exists.
            Err(_) => {}
        }
        for number in 1..=MOST {
            let name = format!("{PATH}.backup-{number}");
            let copy = self.root.join(&name);
            // A hard link: our file replaces only the first name.
            match fs::hard_link(&path, &copy) {
                Ok(()) => return Ok(Some(name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Not every file system supports hard links.
                Err(_) => {
                    let mut from = files::open_without_waiting(&path)?;
                    io::copy(&mut from, &mut fs::File::create_new(&copy)?)?;
                    return Ok(Some(name));
                }
            }
        }
        Err(io::Error::other(format!("{MOST} copies of {PATH} exist already; delete the old ones")))
    }

    /// Where the file was copied that this loop's file replaced.
    pub(crate) fn copied_to(&self, id: &LoopId) -> Option<String> {
        let record = self.record();
        record.copied_to.filter(|_| record.id.as_ref() == Some(id))
    }

    /// The loops cancelled by deleting their file that were not notified yet, once this one is shown.
    fn deleted_before(&self, before: &Record, id: &LoopId) -> Vec<LoopId> {
        let was_there = before.written.is_some() && !before.appears;
        let gone = before.id.iter().filter(|_| was_there && matches!(self.text(), Ok(None)));
        before.deleted.iter().chain(gone).filter(|deleted| *deleted != id).cloned().collect()
    }

    /// Removes the file at the end of its loop; another loop's or tool's file stays.
    pub(crate) fn remove(&self, id: &LoopId) -> io::Result<()> {
        let before = self.read_record()?;
        let deleted = self.deleted_before(&before, id);
        // The previous remover was killed between the record and the file.
        let still_there = || matches!(self.text(), Ok(Some(text)) if before.wrote(&text));
        let half_removed = before.id.is_none() && still_there();
        if before.id.as_ref() != Some(id) && !half_removed {
            return if before.deleted.contains(id) {
                self.save(&Record { deleted, ..before })
            } else {
                Ok(())
            };
        }
        let written = if half_removed { before.before } else { before.written };
        self.save(&Record { before: written, deleted, ..Record::default() })?;
        let Some(path) = self.path() else { return Ok(()) };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The file as excluded from the tree while it is unchanged.
    pub(crate) fn own_files(&self) -> Vec<OwnFile> {
        let record = self.record();
        let digests = record.written.into_iter().chain(record.before).filter_map(|digest| digest.to_raw());
        digests.map(|sha256| OwnFile { path: PATH.into(), sha256 }).collect()
    }
}
