//! Reports of loops on disk: one Markdown file for people and one JSON file for scripts, under the same name.
//!
//! They are written when a loop ends; the ledger has all their content, so losing them loses nothing. Reports in the repo
//! are recorded outside it with their digest, so that they are excluded from the judged tree until another process changes
//! them.

use std::collections::BTreeSet;
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

use crate::store::acceptance::Acceptances;
use crate::store::effective_gates::GatesLookup;
use crate::store::exports::prescribed_paths;
use crate::store::home::RepoHome;
use crate::store::workspace::Workspace;
use crate::sys::files::{self, Lock};
use crate::sys::{clock, env};
use crate::work_tree::checkpoint;
use crate::work_tree::fingerprint::{OwnFile, TreeReader};
use crate::work_tree::git::Git;

/// Relative to the repo's root.
pub(crate) const MARKDOWN_FOLDER: &str = "docs/actions/loop";
pub(crate) const JSON_FOLDER: &str = prescribed_paths::JSON_REPORTS;

/// The number of reports kept per repo.
const MOST: usize = 50;

const PATIENCE: Duration = Duration::from_secs(2);

/// Where a report was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenReport {
    /// Relative to the root if it lies in the repo.
    pub(crate) markdown: PathBuf,
    pub(crate) json: PathBuf,
}

/// Where this repo's reports go: the user's own config decides, then the repo's accepted one.
pub(crate) fn setting(workspace: &Workspace) -> Reports {
    let settings = workspace.settings();
    if settings.trouble.is_some() {
        // If the user's config cannot be read, write nothing into the repo.
        return Reports::Home;
    }
    let accepted = || {
        let accepted = workspace.trust().ok()?.accepted(&workspace.repo);
        match workspace.gates_by(&Acceptances::all(accepted)).ok()? {
            GatesLookup::Effective(effective) => effective.config.reports,
            GatesLookup::Nothing | GatesLookup::Untrusted(_) | GatesLookup::Revoked => None,
        }
    };
    settings.user.reports.or_else(accepted).unwrap_or_default()
}

/// The report of a loop, from its ledger; `None` for a loop without a task.
pub(crate) fn of_loop(workspace: &Workspace, id: &LoopId) -> io::Result<Option<LoopReport>> {
    let Workspace { repo, repo_home, .. } = workspace;
    let reading = workspace.loop_of(id).lines()?;
    let report = LoopReport::fold(id, reading.lines.iter().map(|line| (line.at, &line.event)));
    Ok(report.map(|report| {
        let files = report.last_commit().and_then(|last| {
            let git = Git::find(&repo.root, &repo_home.loop_dir(id)).ok()?;
            checkpoint::changed_files(&git, id, last)
        });
        let files = files.or_else(|| changed_since_start(workspace, id));
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

/// The files when a session's loop started, for the report of its end: no checkpoint is made there.
pub(crate) fn remember_start(workspace: &Workspace, id: &LoopId) -> io::Result<()> {
    let listing =
        TreeReader::new(&workspace.repo.root).cache(workspace.repo_home.tree_cache()).read()?.listing();
    files::replace(&workspace.repo_home.loop_dir(id).join(START), listing.as_bytes())
}

const START: &str = "files-at-start";

/// What differs from the start, by path; none where the start is not known.
fn changed_since_start(workspace: &Workspace, id: &LoopId) -> Option<Vec<String>> {
    let start = files::read_if_there(&workspace.repo_home.loop_dir(id).join(START)).ok()??;
    let start = String::from_utf8_lossy(&start).into_owned();
    let now =
        TreeReader::new(&workspace.repo.root).cache(workspace.repo_home.tree_cache()).read().ok()?.listing();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let path = |line: &String| line.split_once(' ').map(|(_, path)| path.to_owned());
    let (start, now) = (lines(&start), lines(&now));
    let changed: BTreeSet<String> = start.symmetric_difference(&now).filter_map(path).collect();
    Some(changed.into_iter().filter(|name| name != crate::store::exports::loop_file::PATH).collect())
}

/// Writes a loop's report, if reports are enabled. Calling it again for the same end writes nothing.
pub(crate) fn write(
    workspace: &Workspace,
    id: &LoopId,
    setting: Reports,
) -> io::Result<Option<WrittenReport>> {
    let Some(report) = of_loop(workspace, id)? else { return Ok(None) };
    let about = Some(ReportKey { id: id.clone(), ended: report.ended });
    ReportWriter { workspace }.write_pair(&report.markdown(), &report.json(), about, setting)
}

/// Writes a report that does not belong to a loop.
pub(crate) fn write_text(
    workspace: &Workspace,
    markdown: &str,
    json: &Value,
    setting: Reports,
) -> io::Result<Option<WrittenReport>> {
    ReportWriter { workspace }.write_pair(markdown, json, None, setting)
}

/// Whether the report of a loop's end was written, or reports are disabled.
pub(crate) fn is_written(workspace: &Workspace, id: &LoopId, setting: Reports) -> io::Result<bool> {
    if setting == Reports::Off {
        return Ok(true);
    }
    let reading = workspace.loop_of(id).lines()?;
    let report = LoopReport::fold(id, reading.lines.iter().map(|line| (line.at, &line.event)));
    let about = report.map(|report| ReportKey { id: id.clone(), ended: report.ended });
    let record = ReportRecord::load(&workspace.repo_home);
    Ok(about.is_none_or(|about| record.index_of(Some(&about)).is_some_and(|at| record.reports[at].complete)))
}

/// The newest existing report of a loop.
pub(crate) fn newest_of(workspace: &Workspace, id: &LoopId) -> Option<WrittenReport> {
    let Workspace { repo, repo_home, .. } = workspace;
    let record = ReportRecord::load(repo_home);
    let mut entries = record.reports.into_iter().rev();
    entries.find_map(|entry| {
        let is_about = entry.about.as_ref().is_some_and(|about| about.id == *id);
        is_about
            .then(|| entry.written())
            .flatten()
            .filter(|written| repo.root.join(&written.markdown).is_file())
    })
}

/// Our files in the repo, excluded from the tree as long as they are unchanged.
pub(crate) fn own_files(repo_home: &RepoHome) -> Vec<OwnFile> {
    let files = ReportRecord::load(repo_home).reports.into_iter().flat_map(|entry| entry.files);
    files
        // Other processes can write that record, so accept only paths in the report folder.
        .filter(|file| {
            [MARKDOWN_FOLDER, JSON_FOLDER].iter().any(|folder| file.path.parent() == Some(Path::new(folder)))
        })
        .filter_map(|file| Some(OwnFile { sha256: file.sha256.to_raw()?, path: file.path }))
        .collect()
}

/// The written reports, oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ReportRecord {
    #[serde(default)]
    reports: Vec<ReportEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ReportEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<ReportKey>,
    /// The Markdown, then the JSON.
    files: Vec<FileWritten>,
    /// Both were written. If the writer was killed before, the next one completes it.
    #[serde(default)]
    complete: bool,
}

/// Which end of which loop: a resumed loop ends again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReportKey {
    #[serde(rename = "loop")]
    id: LoopId,
    ended: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileWritten {
    /// Relative to the repo's root, or absolute if outside it.
    path: PathBuf,
    sha256: Digest,
}

impl ReportEntry {
    /// Whether the writer of exactly these texts was killed half way.
    fn was_cut_off(&self, texts: &[&str]) -> bool {
        !self.complete
            && self
                .files
                .iter()
                .map(|file| &file.sha256)
                .eq(&texts.iter().map(Digest::of).collect::<Vec<_>>())
    }

    /// Its number among the reports of that second, from its name.
    fn number_within(&self, moment: &str) -> Option<u32> {
        match self.files.first()?.path.file_stem()?.to_str()?.strip_prefix(moment)? {
            "" => Some(1),
            numbered => numbered.strip_prefix('_')?.parse().ok(),
        }
    }

    fn written(&self) -> Option<WrittenReport> {
        let [markdown, json] = self.files.as_slice() else { return None };
        Some(WrittenReport { markdown: markdown.path.clone(), json: json.path.clone() })
    }
}

impl ReportRecord {
    /// An unreadable record counts as empty: old reports then stay.
    fn load(repo_home: &RepoHome) -> Self {
        let text = files::read_if_there(&repo_home.reports_record()).ok().flatten().unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn save(&self, repo_home: &RepoHome) -> io::Result<()> {
        let path = repo_home.reports_record();
        path.parent().map(files::sweep_temporary);
        files::replace(&path, &serde_json::to_vec(self).map_err(io::Error::other)?)
    }

    /// The names for a report written at that moment, all later than the recorded ones: the name of a deleted report is not
    /// reused within its second.
    fn names_from(&self, moment: String) -> impl Iterator<Item = String> {
        let newest = self.reports.iter().filter_map(|entry| entry.number_within(&moment)).max();
        (u64::from(newest.unwrap_or(0)) + 1..)
            .map(move |number| if number == 1 { moment.clone() } else { format!("{moment}_{number:02}") })
    }

    /// The index of the newest report about this end.
    fn index_of(&self, about: Option<&ReportKey>) -> Option<usize> {
        about.and_then(|about| self.reports.iter().rposition(|entry| entry.about.as_ref() == Some(about)))
    }
}

/// Where the reports of one repo are written.
struct ReportWriter<'a> {
    workspace: &'a Workspace,
}

impl ReportWriter<'_> {
    fn write_pair(
        &self,
        markdown: &str,
        json: &Value,
        about: Option<ReportKey>,
        setting: Reports,
    ) -> io::Result<Option<WrittenReport>> {
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
        let busy = || {
            io::Error::new(
                io::ErrorKind::WouldBlock,
                "timed out waiting for another ralph process that is writing reports",
            )
        };
        let _lock = Lock::take(&self.workspace.repo_home.reports_lock(), PATIENCE)?.ok_or_else(busy)?;
        let mut record = ReportRecord::load(&self.workspace.repo_home);
        let begun = record.index_of(about.as_ref());
        if let Some(entry) = begun.map(|at| &record.reports[at]).filter(|entry| self.is_complete(entry)) {
            return Ok(entry.written());
        }
        let json = serde_json::to_string_pretty(json).map_err(io::Error::other)? + "\n";
        let texts = [(markdown_folder, "md", markdown), (json_folder, "json", json.as_str())];
        for (folder, ..) in &texts {
            self.prepare(folder).map_err(|error| with_path(folder, &error))?;
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
                // Record first, then write: an unrecorded file would count as part of the tree.
                record.reports.push(ReportEntry { about, files: files.into(), complete: false });
                record.save(&self.workspace.repo_home)?;
                record.reports.len() - 1
            }
        };
        let entry = &mut record.reports[at];
        for (file, text) in entry.files.iter().zip(contents) {
            if !self.workspace.repo.root.join(&file.path).exists() {
                self.write_new(&file.path, text).map_err(|error| with_path(&file.path, &error))?;
            }
        }
        entry.complete = true;
        let written = entry.written();
        self.remove_old(record);
        Ok(written)
    }

    /// Whether a report was written completely and still exists.
    fn is_complete(&self, entry: &ReportEntry) -> bool {
        entry.complete && entry.files.iter().all(|file| self.workspace.repo.root.join(&file.path).is_file())
    }

    /// Creates a folder; does not follow a link that leads out of the repo.
    fn prepare(&self, folder: &Path) -> io::Result<()> {
        if folder.is_absolute() {
            return Ok(());
        }
        let folder = self.workspace.repo.root.join(folder);
        // Nor a link into git's own folder.
        let is_gits = || {
            fs::canonicalize(&folder)
                .is_ok_and(|there| there.components().any(|part| part.as_os_str() == ".git"))
        };
        let stays = || files::lies_below(&folder.join("x"), &self.workspace.repo.root) && !is_gits();
        let leads_out = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a symlink leads out of the repo or into the .git folder",
            )
        };
        if !stays() {
            return Err(leads_out());
        }
        fs::create_dir_all(&folder)?;
        files::sweep_temporary(&folder);
        if stays() { Ok(()) } else { Err(leads_out()) }
    }

    /// The moment as a file name that is free in all of the folders.
    fn free_name(&self, places: &[(&Path, &str)], record: &ReportRecord) -> String {
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

    /// Never overwrites an existing file.
    fn write_new(&self, path: &Path, text: &str) -> io::Result<()> {
        let path = self.workspace.repo.root.join(path);
        let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let readable =
            Permissions::from_mode(if path.starts_with(&self.workspace.repo.root) { 0o644 } else { 0o600 });
        let mut file = files::temporary().permissions(readable).tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.persist_noclobber(&path).map(drop).map_err(|error| error.error)
    }

    /// Keeps the newest ones; deletes only unchanged files with report names.
    fn remove_old(&self, mut record: ReportRecord) {
        record.reports.retain(|entry| {
            entry.files.iter().any(|file| self.workspace.repo.root.join(&file.path).exists())
        });
        let too_many = record.reports.len().saturating_sub(MOST);
        for file in record.reports.drain(..too_many).flat_map(|entry| entry.files) {
            let path = self.workspace.repo.root.join(&file.path);
            let is_ours = path.file_name().is_some_and(is_report_name)
                && (file.path.is_absolute() || files::lies_below(&path, &self.workspace.repo.root))
                && fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file())
                && files::read_foreign(&path)
                    .ok()
                    .flatten()
                    .is_some_and(|text| Digest::of(&text) == file.sha256);
            if is_ours {
                let _best_effort = fs::remove_file(&path);
            }
        }
        let _record_saved = record.save(&self.workspace.repo_home);
    }
}

/// Sorting by text sorts by time, also within one second: `_` sorts after the dot before the extension.
const NAME: &str = "%Y-%m-%dT%H-%M-%SZ";

fn is_report_name(name: &OsStr) -> bool {
    let Some((stem, "md" | "json")) = name.to_str().and_then(|name| name.split_once('.')) else {
        return false;
    };
    let Some((moment, number)) = stem.split_at_checked("2026-03-05T09-15-00Z".len()) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    jiff::civil::DateTime::strptime(NAME, moment).is_ok()
        && (number.is_empty() || number.strip_prefix('_').is_some_and(is_number))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_name_is_not_reused_within_its_second() {
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
            let entry = |stem: &&str| ReportEntry {
                about: None,
                files: vec![FileWritten {
                    path: Path::new(MARKDOWN_FOLDER).join(format!("{stem}.md")),
                    sha256: Digest::of(""),
                }],
                complete: true,
            };
            let record = ReportRecord { reports: remembered.iter().map(entry).collect() };
            assert_eq!(record.names_from(now.to_owned()).next().as_deref(), Some(next), "{remembered:?}");
        }
    }

    #[test]
    fn a_report_name_is_a_time_with_an_optional_number() {
        for name in ["2026-03-05T09-15-00Z.md", "2026-03-05T09-15-00Z_02.json", "2026-12-31T23-59-59Z_17.md"]
        {
            assert!(is_report_name(OsStr::new(name)), "{name}");
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
            assert!(!is_report_name(OsStr::new(name)), "{name}");
        }
    }
}
