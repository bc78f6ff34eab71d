//! The state file that other layouts show in the repo. Reading it shows progress, deleting it starts again; where it
//! disagrees with the ledger, the ledger wins. What we last wrote is remembered outside the repo.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ralph_core::export::Exported;
use ralph_core::facts::{ExportFile, ExportSeen};
use ralph_core::id::Digest;
use ralph_core::layout::Layout;
use ralph_core::state::State;
use serde::{Deserialize, Serialize};

use crate::home::RepoHome;
use crate::tree::OwnFile;
use crate::{clock, files};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The content as we wrote it; none when we took the file away ourselves.
    written: Option<Digest>,
    deletions: u64,
}

/// The export of one repo; whoever has it holds the repo's lock.
pub(crate) struct Export<'a> {
    home: &'a RepoHome,
    /// From the repo root; none in a layout without one.
    relative: Option<&'static str>,
    root: &'a Path,
}

impl<'a> Export<'a> {
    pub(crate) fn new(home: &'a RepoHome, root: &'a Path, layout: Layout) -> Self {
        Self { home, root, relative: layout.data().export }
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.root.join(self.relative?))
    }

    fn record(&self) -> Record {
        let text = files::read_if_there(&self.home.export_record()).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        files::replace(&self.home.export_record(), &serde_json::to_vec(record).map_err(io::Error::other)?)
    }

    /// What the file looks like, and how often it was found deleted.
    pub(crate) fn look(&self) -> io::Result<ExportSeen> {
        let Some(path) = self.path() else { return Ok(ExportSeen::default()) };
        let mut record = self.record();
        // Nobody gets us to read a link to somewhere else, or a folder.
        let there = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        let text = match files::read_if_there(&path) {
            _ if !there => None,
            Ok(text) => text,
            // Whoever takes our right to read it away has not got rid of the count.
            Err(_) => Some(Vec::new()),
        };
        let Some(text) = text else {
            if record.written.take().is_some() {
                record.deletions += 1;
                self.save(&record)?;
            }
            return Ok(ExportSeen { deletions: record.deletions, file: ExportFile::Absent });
        };
        let file = match &record.written {
            Some(written) if *written == Digest::of(&text) => ExportFile::AsWritten,
            Some(_) => {
                ExportFile::Edited { found: String::from_utf8_lossy(&text).chars().take(200).collect() }
            }
            None => match Exported::parse(&String::from_utf8_lossy(&text), &clock::zone()) {
                Some(foreign) => ExportFile::Foreign(foreign),
                None => ExportFile::Unreadable { kept_as: put_aside(&path) },
            },
        };
        Ok(ExportSeen { deletions: record.deletions, file })
    }

    /// Shows where a held loop stands.
    pub(crate) fn write(&self, state: &State) -> io::Result<()> {
        let (Some(path), Some(started_at)) = (self.path(), state.started_at) else { return Ok(()) };
        let exported = Exported { task: state.task.clone(), iteration: state.attempts, started_at };
        let text = exported.render(&clock::zone());
        let mut record = self.record();
        record.written = Some(Digest::of(&text));
        // First the memory of it, then the file: a file we do not remember would be taken for another tool's.
        self.save(&record)?;
        files::replace(&path, text.as_bytes()).or_else(|error| {
            // What is not there is not missed as deleted.
            self.save(&Record { written: None, ..record })?;
            Err(error)
        })
    }

    /// Takes the file away at the end of a loop.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let Some(path) = self.path() else { return Ok(()) };
        let mut record = self.record();
        if record.written.take().is_some() || path.exists() {
            self.save(&record)?;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The file as something that is not part of the tree, as long as it is as we wrote it.
    pub(crate) fn own_file(&self) -> Option<OwnFile> {
        let path = self.relative?.into();
        let sha256 = self.record().written?.to_raw()?;
        Some(OwnFile { path, sha256 })
    }
}

/// A file that means nothing to us is kept, under a name that nobody uses, or where it is if that cannot be.
fn put_aside(path: &Path) -> String {
    let own_name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = |number: u32| format!("{own_name}.unreadable-{number}");
    let free = (1..)
        .find(|number| !path.with_file_name(name(*number)).exists())
        .expect("the numbers do not run out");
    match fs::rename(path, path.with_file_name(name(free))) {
        Ok(()) => name(free),
        Err(_) => own_name.into_owned(),
    }
}
