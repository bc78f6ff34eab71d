//! The state file that other layouts export to the repo. Deleting it restarts the loop; if it disagrees with the ledger,
//! the ledger wins. The last written content is recorded outside the repo.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ralph_core::claims::state_file::Exported;
use ralph_core::ledger::facts::{ExportFile, ExportSeen};
use ralph_core::ledger::state::State;
use ralph_core::model::id::Digest;
use ralph_core::model::layout::Layout;
use serde::{Deserialize, Serialize};

use crate::store::home::RepoHome;
use crate::sys::{clock, files};
use crate::work_tree::fingerprint::OwnFile;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The content as written; `None` if ralph removed the file itself.
    written: Option<Digest>,
    /// The content that was or should have been removed: if found again, it is ralph's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken_away: Option<Digest>,
    deletions: u64,
}

/// The export of one repo; the caller holds the repo's lock.
pub(crate) struct Export<'a> {
    home: &'a RepoHome,
    /// Relative to the repo's root; `None` in a layout without one.
    relative: Option<&'static str>,
    root: &'a Path,
}

impl<'a> Export<'a> {
    pub(crate) fn new(home: &'a RepoHome, root: &'a Path, layout: Layout) -> Self {
        Self { home, root, relative: layout.data().export }
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.root.join(self.relative?)).filter(|path| files::lies_below(path, self.root))
    }

    fn record(&self) -> Record {
        let text = files::read_if_there(&self.home.export_record()).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        let path = self.home.export_record();
        files::sweep_temporary(path.parent().unwrap_or(&path));
        files::replace(&path, &serde_json::to_vec(record).map_err(io::Error::other)?)
    }

    /// The file's status, and how often it was found deleted, including this time.
    pub(crate) fn inspect(&self) -> ExportSeen {
        let Some(path) = self.path() else { return ExportSeen::default() };
        let record = self.record();
        let deletions = record.deletions;
        // Never follow a link or read a folder.
        let there = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        let text = match there.then(|| files::read_if_there(&path)).transpose() {
            Ok(text) => text.flatten(),
            // Making it unreadable counts as an edit and does not release the loop.
            Err(error) => {
                return ExportSeen { deletions, file: ExportFile::Edited { found: error.to_string() } };
            }
        };
        let Some(text) = text else {
            let deletions = deletions + u64::from(record.written.is_some());
            return ExportSeen { deletions, file: ExportFile::Absent };
        };
        let file = match &record.written {
            Some(written) if *written == Digest::of(&text) => ExportFile::AsWritten,
            Some(_) => {
                ExportFile::Edited { found: String::from_utf8_lossy(&text).chars().take(200).collect() }
            }
            // Should have been removed at the end of a loop.
            None if record.taken_away == Some(Digest::of(&text)) => ExportFile::Absent,
            None => match Exported::parse(&String::from_utf8_lossy(&text), &clock::zone()) {
                Some(foreign) => ExportFile::Foreign(foreign),
                None => ExportFile::Unreadable { kept_as: free_name(&path) },
            },
        };
        ExportSeen { deletions, file }
    }

    /// Handles what was found: records a deletion, removes a leftover file, moves an unknown file aside.
    pub(crate) fn settle(&self, seen: ExportSeen) -> io::Result<ExportSeen> {
        let Some(path) = self.path() else { return Ok(seen) };
        match &seen.file {
            ExportFile::Absent => {
                let record = self.record();
                if seen.deletions > record.deletions {
                    self.save(&Record { written: None, deletions: seen.deletions, ..record })?;
                } else if record.written.is_none() && record.taken_away.is_some() {
                    let _retried_next_time = fs::remove_file(&path);
                }
                Ok(seen)
            }
            ExportFile::Unreadable { kept_as }
                if fs::rename(&path, path.with_file_name(kept_as)).is_err() =>
            {
                let kept_as = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(ExportSeen { file: ExportFile::Unreadable { kept_as }, ..seen })
            }
            _ => Ok(seen),
        }
    }

    /// Writes the status of a blocked loop.
    pub(crate) fn write(&self, state: &State) -> io::Result<()> {
        let (Some(path), Some(started_at)) = (self.path(), state.started_at) else { return Ok(()) };
        let exported = Exported { task: state.task.clone(), iteration: state.attempts, started_at };
        let text = exported.render(&clock::zone());
        let before = self.record();
        let record = Record { written: Some(Digest::of(&text)), ..before.clone() };
        // Record first, then write: an unrecorded file would be taken for another tool's.
        self.save(&record)?;
        files::sweep_temporary(path.parent().unwrap_or(self.root));
        files::replace(&path, text.as_bytes()).inspect_err(|_| {
            // A file that was never created must not look deleted.
            let _best_effort = self.save(&before);
        })
    }

    /// Removes the file at the end of a loop.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        let mut record = self.record();
        if let Some(written) = record.written.take() {
            record.taken_away = Some(written);
            self.save(&record)?;
        }
        files::sweep_temporary(path.parent().unwrap_or(self.root));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The file as excluded from the tree while it is unchanged.
    pub(crate) fn own_file(&self) -> Option<OwnFile> {
        let path = self.relative?.into();
        let sha256 = self.record().written?.to_raw()?;
        Some(OwnFile { path, sha256 })
    }
}

/// An unused name for an unknown file.
fn free_name(path: &Path) -> String {
    let own_name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|number: u32| format!("{own_name}.unreadable-{number}"));
    names.find(|name| !path.with_file_name(name).exists()).expect("the numbers do not run out")
}
