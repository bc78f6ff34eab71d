//! Reports of loops on disk: one Markdown file for people and one JSON file for scripts, under the same name.
//!
//! They are written when a loop ends, and lost reports lose nothing else: everything in them stands in the ledger. What we
//! wrote into the repo is remembered outside it with its digest, so that our own reports are no part of the tree that the
//! gates judge, while whatever somebody else puts there is.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use ralph_core::config::Reports;
use ralph_core::model::id::{Digest, LoopId};
use ralph_core::say::report::LoopReport;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::effective_gates::Found;
use crate::store::exports::prescribed_paths;
use crate::store::home::RepoHome;
use crate::store::trust::Acceptances;
use crate::store::workspace::Workspace;
use crate::sys::files::{self, Lock};
use crate::sys::{clock, env};
use crate::work_tree::checkpoint;
use crate::work_tree::fingerprint::OwnFile;
use crate::work_tree::git::Git;

/// In the repo, from its root.
pub(crate) const MARKDOWN_FOLDER: &str = "docs/actions/loop";
pub(crate) const JSON_FOLDER: &str = prescribed_paths::JSON_REPORTS;

/// Reports of one repo; older ones go.
const MOST: usize = 50;

const PATIENCE: Duration = Duration::from_secs(2);

/// Where a report stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// From the root where it lies in the repo.
    pub(crate) markdown: PathBuf,
    pub(crate) json: PathBuf,
}

/// Where reports of this repo go: the person's own config says so, then the accepted one of the repo.
pub(crate) fn setting(workspace: &Workspace) -> Reports {
    let settings = workspace.settings();
    if settings.trouble.is_some() {
        // What the person wants cannot be read; nothing is put into the repo against it.
        return Reports::Home;
    }
    let accepted = || {
        let accepted = workspace.trust().ok()?.accepted(&workspace.repo);
        match workspace.gates_by(&Acceptances::all(accepted)).ok()? {
            Found::InForce(in_force) => in_force.config.reports,
            Found::Nothing | Found::Untrusted(_) | Found::Revoked => None,
        }
    };
    settings.user.reports.or_else(accepted).unwrap_or_default()
}

/// The report of a loop as its ledger tells it; none of a loop that nobody started for a task.
pub(crate) fn of_loop(workspace: &Workspace, id: &LoopId) -> io::Result<Option<LoopReport>> {
    let Workspace { repo, repo_home, .. } = workspace;
    let reading = workspace.loop_of(id).lines()?;
    let report = LoopReport::fold(id, reading.lines.iter().map(|line| (line.at, &line.event)));
    Ok(report.map(|report| {
        let files = report.last_commit().and_then(|last| {
            let git = Git::find(&repo.root, &repo_home.loop_dir(id)).ok()?;
            checkpoint::changed_files(&git, id, last)
        });
        let is_not_ours = |name: &String| {
            !Path::new(name).starts_with(MARKDOWN_FOLDER) && !Path::new(name).starts_with(JSON_FOLDER)
        };
        let home = env::home().map(|home| home.to_string_lossy().into_owned());
        let report = match home {
            Some(home) => report.with_home(home.trim_end_matches('/')),
            None => report,
        };
        report.with_files(files.map(|files| files.into_iter().filter(is_not_ours).collect()))
    }))
}

/// Writes the report of a loop; none where nothing is to be written. Called again for the same end it writes nothing new.
pub(crate) fn write(workspace: &Workspace, id: &LoopId, setting: Reports) -> io::Result<Option<Written>> {
    let Some(report) = of_loop(workspace, id)? else { return Ok(None) };
    let about = Some(About { id: id.clone(), ended: report.ended });
    Desk { workspace }.put(&report.markdown(), &report.json(), about, setting)
}

/// Writes a report that is about no loop of ours.
pub(crate) fn write_text(
    workspace: &Workspace,
    markdown: &str,
    json: &Value,
    setting: Reports,
) -> io::Result<Option<Written>> {
    Desk { workspace }.put(markdown, json, None, setting)
}

/// Whether the report of how a loop ended was written, or nobody wants any.
pub(crate) fn is_written(workspace: &Workspace, id: &LoopId, setting: Reports) -> io::Result<bool> {
    if setting == Reports::Off {
        return Ok(true);
    }
    let reading = workspace.loop_of(id).lines()?;
    let report = LoopReport::fold(id, reading.lines.iter().map(|line| (line.at, &line.event)));
    let about = report.map(|report| About { id: id.clone(), ended: report.ended });
    let record = Record::load(&workspace.repo_home);
    Ok(about.is_none_or(|about| record.about(Some(&about)).is_some_and(|at| record.reports[at].complete)))
}

/// The newest report that was written about a loop and is still there.
pub(crate) fn newest_of(workspace: &Workspace, id: &LoopId) -> Option<Written> {
    let Workspace { repo, repo_home, .. } = workspace;
    let record = Record::load(repo_home);
    let mut entries = record.reports.into_iter().rev();
    entries.find_map(|entry| {
        let is_about = entry.about.as_ref().is_some_and(|about| about.id == *id);
        is_about
            .then(|| entry.written())
            .flatten()
            .filter(|written| repo.root.join(&written.markdown).is_file())
    })
}

/// What we wrote into the repo: no part of the tree for as long as it is as we wrote it.
pub(crate) fn own_files(repo_home: &RepoHome) -> Vec<OwnFile> {
    let files = Record::load(repo_home).reports.into_iter().flat_map(|entry| entry.files);
    files
        // Anybody can write that record: only where reports lie can there be one.
        .filter(|file| {
            [MARKDOWN_FOLDER, JSON_FOLDER].iter().any(|folder| file.path.parent() == Some(Path::new(folder)))
        })
        .filter_map(|file| Some(OwnFile { sha256: file.sha256.to_raw()?, path: file.path }))
        .collect()
}

/// What was written, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    #[serde(default)]
    reports: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<About>,
    /// The Markdown, then the JSON.
    files: Vec<FileWritten>,
    /// Both were written. Whoever was killed before that left the rest to the next one.
    #[serde(default)]
    complete: bool,
}

/// Which end of which loop: one that was gone on with ends again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    #[serde(rename = "loop")]
    id: LoopId,
    ended: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileWritten {
    /// From the root of the repo; absolute where it lies elsewhere.
    path: PathBuf,
    sha256: Digest,
}

impl Entry {
    /// Whether it was begun with just these texts, and whoever did was killed.
    fn was_cut_off(&self, texts: &[&str]) -> bool {
        !self.complete
            && self
                .files
                .iter()
                .map(|file| &file.sha256)
                .eq(&texts.iter().map(Digest::of).collect::<Vec<_>>())
    }

    /// The how-manieth of that moment it is, by its name.
    fn number_within(&self, moment: &str) -> Option<u32> {
        match self.files.first()?.path.file_stem()?.to_str()?.strip_prefix(moment)? {
            "" => Some(1),
            numbered => numbered.strip_prefix('_')?.parse().ok(),
        }
    }

    fn written(&self) -> Option<Written> {
        let [markdown, json] = self.files.as_slice() else { return None };
        Some(Written { markdown: markdown.path.clone(), json: json.path.clone() })
    }
}

impl Record {
    /// A record that cannot be read is none: then old reports stay where they are.
    fn load(repo_home: &RepoHome) -> Self {
        let text = files::read_if_there(&repo_home.reports_record()).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn save(&self, repo_home: &RepoHome) -> io::Result<()> {
        let path = repo_home.reports_record();
        path.parent().map(files::sweep_temporary);
        files::replace(&path, &serde_json::to_vec(self).map_err(io::Error::other)?)
    }

    /// The names for what is written at that moment, all later than those that we remember: the name of a report that
    /// had to go is not for the next one of the same second.
    fn names_from(&self, moment: String) -> impl Iterator<Item = String> {
        let newest = self.reports.iter().filter_map(|entry| entry.number_within(&moment)).max();
        (u64::from(newest.unwrap_or(0)) + 1..)
            .map(move |number| if number == 1 { moment.clone() } else { format!("{moment}_{number:02}") })
    }

    /// Where the newest one about this end stands.
    fn about(&self, about: Option<&About>) -> Option<usize> {
        about.and_then(|about| self.reports.iter().rposition(|entry| entry.about.as_ref() == Some(about)))
    }
}

/// Where the reports of one repo are written.
struct Desk<'a> {
    workspace: &'a Workspace,
}

impl Desk<'_> {
    fn put(
        &self,
        markdown: &str,
        json: &Value,
        about: Option<About>,
        setting: Reports,
    ) -> io::Result<Option<Written>> {
        let (markdown_folder, json_folder) = match setting {
            Reports::Off => return Ok(None),
            Reports::Repo => (PathBuf::from(MARKDOWN_FOLDER), PathBuf::from(JSON_FOLDER)),
            Reports::Home => {
                let folder = self.workspace.home.reports_dir(&self.workspace.repo.id());
                files::private_dir(&folder)?;
                (folder.clone(), folder)
            }
        };
        self.workspace.repo_home.create()?;
        let busy =
            || io::Error::new(io::ErrorKind::WouldBlock, "another ralph is writing reports all the time");
        let _one_at_a_time =
            Lock::take(&self.workspace.repo_home.reports_lock(), PATIENCE)?.ok_or_else(busy)?;
        let mut record = Record::load(&self.workspace.repo_home);
        let begun = record.about(about.as_ref());
        if let Some(entry) = begun.map(|at| &record.reports[at]).filter(|entry| self.stands(entry)) {
            return Ok(entry.written());
        }
        let json = serde_json::to_string_pretty(json).map_err(io::Error::other)? + "\n";
        let texts = [(markdown_folder, "md", markdown), (json_folder, "json", json.as_str())];
        for (folder, ..) in &texts {
            self.prepare(folder).map_err(|error| naming(folder, &error))?;
        }
        let contents = texts.each_ref().map(|(.., text)| *text);
        let at = match begun.filter(|at| record.reports[*at].was_cut_off(&contents)) {
            Some(at) => at,
            None => {
                let places = texts.each_ref().map(|(folder, extension, _)| (folder.as_path(), *extension));
                let stem = self.free_name(&places, &record);
                let files = texts.each_ref().map(|(folder, extension, text)| FileWritten {
                    path: folder.join(format!("{stem}.{extension}")),
                    sha256: Digest::of(text),
                });
                // First the memory of it, then the files: what we do not remember would count as part of the tree.
                record.reports.push(Entry { about, files: files.into(), complete: false });
                record.save(&self.workspace.repo_home)?;
                record.reports.len() - 1
            }
        };
        let entry = &mut record.reports[at];
        for (file, text) in entry.files.iter().zip(contents) {
            if !self.workspace.repo.root.join(&file.path).exists() {
                self.write_new(&file.path, text).map_err(|error| naming(&file.path, &error))?;
            }
        }
        entry.complete = true;
        let written = entry.written();
        self.remove_old(record);
        Ok(written)
    }

    /// Whether a report was written, and nobody has removed it since.
    fn stands(&self, entry: &Entry) -> bool {
        entry.complete && entry.files.iter().all(|file| self.workspace.repo.root.join(&file.path).is_file())
    }

    /// Makes a folder ready. A link on the way that leads out of the repo is not followed.
    fn prepare(&self, folder: &Path) -> io::Result<()> {
        if folder.is_absolute() {
            return Ok(());
        }
        let folder = self.workspace.repo.root.join(folder);
        // Nor one that leads to where git keeps what is its own.
        let is_gits = || {
            fs::canonicalize(&folder)
                .is_ok_and(|there| there.components().any(|part| part.as_os_str() == ".git"))
        };
        let stays = || files::lies_below(&folder.join("x"), &self.workspace.repo.root) && !is_gits();
        let leads_out = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a link leads out of the repo, or to what is git's own",
            )
        };
        if !stays() {
            return Err(leads_out());
        }
        fs::create_dir_all(&folder)?;
        files::sweep_temporary(&folder);
        if stays() { Ok(()) } else { Err(leads_out()) }
    }

    /// The moment as a name; one that nobody has in any of the folders.
    fn free_name(&self, places: &[(&Path, &str)], record: &Record) -> String {
        let is_free = |stem: &str| {
            let path = |(folder, extension): &(&Path, &str)| {
                self.workspace.repo.root.join(folder).join(format!("{stem}.{extension}"))
            };
            places.iter().all(|place| fs::symlink_metadata(path(place)).is_err())
        };
        record
            .names_from(clock::now().strftime(NAME).to_string())
            .find(|stem| is_free(stem))
            .expect("the numbers do not run out")
    }

    /// Never over something that is there.
    fn write_new(&self, path: &Path, text: &str) -> io::Result<()> {
        let path = self.workspace.repo.root.join(path);
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let readable =
            Permissions::from_mode(if path.starts_with(&self.workspace.repo.root) { 0o644 } else { 0o600 });
        let mut file = files::temporary().permissions(readable).tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist_noclobber(&path).map(drop).map_err(|error| error.error)
    }

    /// The newest stay. Only what has a name of ours and is as we wrote it goes.
    fn remove_old(&self, mut record: Record) {
        record.reports.retain(|entry| {
            entry.files.iter().any(|file| self.workspace.repo.root.join(&file.path).exists())
        });
        let too_many = record.reports.len().saturating_sub(MOST);
        for file in record.reports.drain(..too_many).flat_map(|entry| entry.files) {
            let path = self.workspace.repo.root.join(&file.path);
            let is_ours = path.file_name().is_some_and(is_name_of_ours)
                && (file.path.is_absolute() || files::lies_below(&path, &self.workspace.repo.root))
                && fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file())
                && files::read_foreign(&path)
                    .ok()
                    .flatten()
                    .is_some_and(|text| Digest::of(&text) == file.sha256);
            if is_ours {
                let _stays_then = fs::remove_file(&path);
            }
        }
        let _some_are_remembered_that_are_gone = record.save(&self.workspace.repo_home);
    }
}

/// Sorted as text they are sorted by time, also several of one second: `_` comes after the point before the extension.
const NAME: &str = "%Y-%m-%dT%H-%M-%SZ";

fn is_name_of_ours(name: &OsStr) -> bool {
    let Some((stem, "md" | "json")) = name.to_str().and_then(|name| name.split_once('.')) else {
        return false;
    };
    let Some((moment, number)) = stem.split_at_checked("2026-03-05T09-15-00Z".len()) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    jiff::civil::DateTime::strptime(NAME, moment).is_ok()
        && (number.is_empty() || number.strip_prefix('_').is_some_and(is_number))
}

fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_became_free_is_not_used_again_within_its_second() {
        let now = "2026-03-05T09-15-00Z";
        for (remembered, next) in [
            (vec![], now),
            (vec!["2026-03-05T09-14-59Z_07"], now),
            (vec![now], "2026-03-05T09-15-00Z_02"),
            (vec!["2026-03-05T09-15-00Z_02", "2026-03-05T09-15-00Z_51"], "2026-03-05T09-15-00Z_52"),
            (vec!["2026-03-05T09-15-00Z_99", "2026-03-05T09-15-00Z_100"], "2026-03-05T09-15-00Z_101"),
            (vec!["2026-03-05T09-15-00Z_4294967295"], "2026-03-05T09-15-00Z_4294967296"),
            (vec!["2026-03-05T09-15-00Z_x"], now),
        ] {
            let entry = |stem: &&str| Entry {
                about: None,
                files: vec![FileWritten {
                    path: Path::new(MARKDOWN_FOLDER).join(format!("{stem}.md")),
                    sha256: Digest::of(""),
                }],
                complete: true,
            };
            let record = Record { reports: remembered.iter().map(entry).collect() };
            assert_eq!(record.names_from(now.to_owned()).next().as_deref(), Some(next), "{remembered:?}");
        }
    }

    #[test]
    fn a_name_of_ours_is_a_moment_with_or_without_a_number() {
        for name in ["2026-03-05T09-15-00Z.md", "2026-03-05T09-15-00Z_02.json", "2026-12-31T23-59-59Z_17.md"]
        {
            assert!(is_name_of_ours(OsStr::new(name)), "{name}");
        }
        for name in [
            "notes.md",
            "2026-03-05.md",
            "2026-13-05T09-15-00Z.md",
            "2026-03-05T09-15-00Z.txt",
            "2026-03-05T09-15-00Z_.md",
            "2026-03-05T09-15-00Z-2.md",
            "2026-03-05T09-15-00Z.md.bak",
            "é026-03-05T09-15-00Z.md",
        ] {
            assert!(!is_name_of_ours(OsStr::new(name)), "{name}");
        }
    }
}
