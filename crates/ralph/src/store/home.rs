//! `~/.ralph`: all of ralph's records, outside the repo so that an agent does not edit or "clean up" its own constraints.
//!
//! ```text
//! trust.json                     acceptances: what, when, by whom; trust.lock during changes
//! definitions/SHA256             the accepted texts
//! notices/SESSION.json           pending notices of a session
//! sessions/SESSION.loop.json     the loop attached to a session
//! sessions/SESSION.watched.json  what a guarded session did since the user's last prompt
//! sessions/SESSION.commit.json   the commit at its start
//! sessions/SESSION.ended.json    how its loop ended at a stop, and in which turn
//! sessions/SESSION.began.json    the definitions accepted at its start
//! reports/REPO/                  reports of loops, if not written to the repo
//! logs/loop-TIME-LOOP.log        log of a driven loop; loop-latest.log links to the newest
//! repos/REPO/lock                held briefly while state changes
//! repos/REPO/gates.lock          held while gates run, one set at a time per repo; names the holder
//! repos/REPO/driver.lock         held while a loop is driven, one per work tree
//! repos/REPO/tree-cache          stat cache of the fingerprint
//! repos/REPO/export.json         the last written state file
//! repos/REPO/loop-file.json      the last written loop file, and its loop
//! repos/REPO/reports.json        the written reports with their digests; reports.lock during a write
//! repos/REPO/manual-report.json  the report begun by `ralph report start`
//! repos/REPO/accepted-ignore-rules  the ignore rules that the user last accepted
//! repos/REPO/rewritten-files.json  files that the user's own runs of the gates rewrote with equal content
//! repos/REPO/install.json        what `init` wrote into the repo, for removing it
//! repos/REPO/receipts/KEY        ledger and line of the receipt
//! repos/REPO/start/              the files when loops and sessions began: trees/FINGERPRINT lists, contents/SHA256 holds them
//! repos/REPO/views/              copies of the files for runs on a changed view, and an empty folder to mount one on
//! repos/REPO/loops/LOOP/         ledger.jsonl, logs/, ignore-rules; of a driven loop also prompt.md and
//!                                checkpoint-index-N, the files staged for the checkpoint of iteration N
//! ```
//!
//! The head of every ledger is also in `$XDG_STATE_HOME/ralph/heads` (`ledger_heads.rs`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::model::id::{Digest, LoopId, SessionId};

use crate::sys::files::Lock;
use crate::sys::{env, files};

#[derive(Clone, Debug)]
pub(crate) struct Home {
    root: PathBuf,
    /// The folder of ledger heads; none without a home folder.
    heads: Option<PathBuf>,
}

impl Home {
    pub(crate) fn find() -> io::Result<Self> {
        let root = env::ralph_home().or_else(|| Some(env::home()?.join(".ralph")));
        let heads = env::state_home().map(|base| base.join("ralph/heads"));
        match root {
            Some(root) if root.is_absolute() => Ok(Self { root, heads }),
            Some(root) => Ok(Self { root: std::env::current_dir()?.join(root), heads }),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "no home folder: RALPH_HOME and HOME are not set, and the user database has no entry",
            )),
        }
    }

    #[cfg(test)]
    pub(crate) fn at(root: PathBuf) -> Self {
        Self { heads: Some(root.join("heads")), root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn trust_file(&self) -> PathBuf {
        self.root.join("trust.json")
    }

    pub(crate) fn trust_lock(&self) -> PathBuf {
        self.root.join("trust.lock")
    }

    pub(crate) fn definition_file(&self, sha256: &Digest) -> PathBuf {
        self.root.join("definitions").join(sha256.as_str())
    }

    /// Session ids come from outside: use a name derived from one, never the id as a path.
    pub(crate) fn notices_file(&self, session: &SessionId) -> PathBuf {
        let name = Digest::of(session.as_str());
        self.root.join("notices").join(format!("{}.json", name.short()))
    }

    /// Whether any repo has recorded state.
    pub(crate) fn has_repos(&self) -> bool {
        self.root.join("repos").is_dir()
    }

    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(crate) fn session_file(&self, session: &SessionId, what: &str) -> PathBuf {
        let name = Digest::of(session.as_str());
        self.sessions_dir().join(format!("{}.{what}.json", name.short()))
    }

    pub(crate) fn reports_dir(&self, repo: &str) -> PathBuf {
        self.root.join("reports").join(repo)
    }

    pub(crate) fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The recorded state of every repo.
    pub(crate) fn repos(&self) -> Vec<RepoHome> {
        let Ok(entries) = std::fs::read_dir(self.root.join("repos")) else { return Vec::new() };
        entries.flatten().map(|entry| self.repo_at(entry.path())).collect()
    }

    pub(crate) fn repo(&self, id: &str) -> RepoHome {
        self.repo_at(self.root.join("repos").join(id))
    }

    fn repo_at(&self, dir: PathBuf) -> RepoHome {
        RepoHome { dir, patience: MOMENTS, heads: self.heads.clone() }
    }
}

/// How long a hook or command waits for another process that is changing the same repo's state.
const MOMENTS: Duration = Duration::from_secs(2);
/// The same for a driver: a disk can be busy for long, and the other process may be suspended.
const A_MINUTE: Duration = Duration::from_secs(60);

/// The recorded state of one repo.
#[derive(Clone, Debug)]
pub(crate) struct RepoHome {
    dir: PathBuf,
    patience: Duration,
    heads: Option<PathBuf>,
}

impl RepoHome {
    /// The repo's folder that a loop's folder lies in, for reading.
    pub(crate) fn of_loop_dir(dir: &Path) -> Self {
        Self { dir: dir.ancestors().nth(2).unwrap_or(dir).to_owned(), patience: MOMENTS, heads: None }
    }

    /// Where the head of a loop's ledger is kept a second time.
    pub(crate) fn head_file(&self, loop_dir: &Path) -> Option<PathBuf> {
        let name = loop_dir.file_name()?.to_str()?;
        let place = Digest::of(loop_dir.to_str()?);
        Some(self.heads.as_ref()?.join(format!("{name}-{}", place.short())))
    }

    /// For callers without a short deadline.
    pub(crate) fn patient(self) -> Self {
        Self { patience: A_MINUTE, ..self }
    }

    /// Locks the recorded state of this repo for changes. Fails with `WouldBlock` if another process keeps the lock.
    pub(crate) fn lock_state(&self) -> io::Result<Lock> {
        let path = self.dir.join("lock");
        Lock::take(&path, self.patience)?.ok_or_else(|| {
            let (path, seconds) = (path.display(), self.patience.as_secs());
            io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("another ralph process has locked {path} for {seconds} seconds"),
            )
        })
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        files::private_dir(&self.dir)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn gates_lock_file(&self) -> PathBuf {
        self.dir.join("gates.lock")
    }

    pub(crate) fn driver_lock_file(&self) -> PathBuf {
        self.dir.join("driver.lock")
    }

    pub(crate) fn tree_cache(&self) -> PathBuf {
        self.dir.join("tree-cache")
    }

    pub(crate) fn export_record(&self) -> PathBuf {
        self.dir.join("export.json")
    }

    pub(crate) fn loop_file_record(&self) -> PathBuf {
        self.dir.join("loop-file.json")
    }

    pub(crate) fn reports_record(&self) -> PathBuf {
        self.dir.join("reports.json")
    }

    pub(crate) fn reports_lock(&self) -> PathBuf {
        self.dir.join("reports.lock")
    }

    pub(crate) fn manual_report(&self) -> PathBuf {
        self.dir.join("manual-report.json")
    }

    pub(crate) fn rewritten_files(&self) -> PathBuf {
        self.dir.join("rewritten-files.json")
    }

    pub(crate) fn accepted_rules(&self) -> PathBuf {
        self.dir.join("accepted-ignore-rules")
    }

    pub(crate) fn install_record(&self) -> PathBuf {
        self.dir.join("install.json")
    }

    pub(crate) fn receipts_dir(&self) -> PathBuf {
        self.dir.join("receipts")
    }

    pub(crate) fn start_dir(&self) -> PathBuf {
        self.dir.join("start")
    }

    pub(crate) fn views_dir(&self) -> PathBuf {
        self.dir.join("views")
    }

    pub(crate) fn loop_dir(&self, id: &LoopId) -> PathBuf {
        self.dir.join("loops").join(id.as_str())
    }

    pub(crate) fn ignore_rules(&self, id: &LoopId) -> PathBuf {
        self.loop_dir(id).join("ignore-rules")
    }

    /// Loops whose head is recorded and whose ledger is gone.
    pub(crate) fn missing_loops(&self) -> Vec<LoopId> {
        let entries = self.heads.iter().filter_map(|heads| std::fs::read_dir(heads).ok()).flatten().flatten();
        let named = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let id = LoopId::new(name.rsplit_once('-')?.0);
            (self.head_file(&self.loop_dir(&id))? == entry.path()).then_some(id)
        });
        named.filter(|id| !self.loop_dir(id).join("ledger.jsonl").exists()).collect()
    }

    /// The names of all loops, unordered.
    pub(crate) fn loop_names(&self) -> impl Iterator<Item = LoopId> {
        let entries = std::fs::read_dir(self.dir.join("loops")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).map(LoopId::new)
    }

    /// All loops, most recently active first.
    pub(crate) fn loops(&self) -> Vec<LoopId> {
        let Ok(entries) = std::fs::read_dir(self.dir.join("loops")) else { return Vec::new() };
        let mut loops: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let modified =
                    entry.path().join("ledger.jsonl").metadata().and_then(|meta| meta.modified()).ok()?;
                Some((modified, LoopId::new(entry.file_name().into_string().ok()?)))
            })
            .collect();
        loops.sort();
        loops.into_iter().rev().map(|(_, id)| id).collect()
    }
}
