//! The log of a driven loop: `~/.ralph/logs/loop-TIME-LOOP.log`, one file for the loop's whole life, and
//! `loop-latest.log`, which always leads to the newest.
//!
//! It is for people and bounded: an agent that floods fills its part of the file and no more, and what the loop itself
//! has to say still has room. Nothing is ever read back from it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::model::id::LoopId;

use crate::show::progress::lines::Lines;
use crate::sys::files;

/// How many loops are remembered.
const MOST_LOGS: usize = 50;
/// And a few more: to look at them all is not worth it for each loop.
const A_FEW_LOGS: usize = 10;
const LATEST: &str = "loop-latest.log";

/// How large a log may become.
#[derive(Clone, Copy, Debug)]
struct Room {
    for_agent: u64,
    for_loop: u64,
}

const ROOM: Room = Room { for_agent: 16 << 20, for_loop: 17 << 20 };

#[derive(Debug)]
pub(super) struct Log {
    file: File,
    length: u64,
    room: Room,
    lines: Lines,
}

impl Log {
    /// Opens the loop's log, or goes on with it.
    pub(super) fn open(
        dir: &Path,
        id: &LoopId,
        lines: Lines,
        at: Timestamp,
        zone: &TimeZone,
    ) -> io::Result<Self> {
        files::private_dir(dir)?;
        files::sweep_temporary(dir);
        let name = existing(dir, id).unwrap_or_else(|| name_of(id, at, zone));
        let file = files::open_private(&dir.join(&name))?;
        point_latest_to(dir, &name)?;
        keep_newest(dir, &name);
        let length = file.metadata()?.len();
        Ok(Self { file, length, room: ROOM, lines })
    }

    pub(super) fn receive(&mut self, event: &LoopEvent, at: Timestamp) -> io::Result<()> {
        let is_agents = matches!(event, LoopEvent::Agent(_));
        let room = if is_agents { self.room.for_agent } else { self.room.for_loop };
        if self.length >= room {
            return Ok(());
        }
        for line in self.lines.of(event) {
            self.write(&self.lines.stamped(at, &line))?;
        }
        if self.length >= room {
            let what = if is_agents {
                "what the agent does is not logged any more"
            } else {
                "nothing more is logged"
            };
            self.write(&self.lines.stamped(at, &format!("this log is full: {what}")))?;
        }
        Ok(())
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let text = format!("{}\n", crate::show::terminal::plain(line));
        self.file.write_all(text.as_bytes())?;
        self.length += text.len() as u64;
        Ok(())
    }
}

const BEFORE: &str = "loop-";
const AFTER: &str = ".log";
/// How long a time is in a name.
const TIME: usize = "20260102-030405".len();

fn name_of(id: &LoopId, at: Timestamp, zone: &TimeZone) -> String {
    let time = at.to_zoned(zone.clone()).strftime("%Y%m%d-%H%M%S");
    // The id is a name of ours; still it never becomes a path.
    format!("{BEFORE}{time}-{}{AFTER}", id.as_str().replace('/', "-"))
}

/// The log that an earlier drive of the loop began.
fn existing(dir: &Path, id: &LoopId) -> Option<String> {
    let wanted = id.as_str().replace('/', "-");
    logs(dir).map(|(_, name)| name).find(|name| loop_in(name) == Some(wanted.as_str()))
}

/// Whose log it is by its name.
fn loop_in(name: &str) -> Option<&str> {
    name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?.get(TIME..)?.strip_prefix('-')
}

/// Every log.
fn logs(dir: &Path) -> impl Iterator<Item = (fs::DirEntry, String)> {
    fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name().into_string().ok().filter(|name| is_file && loop_in(name).is_some())?;
        Some((entry, name))
    })
}

/// In one step, so that whoever opens it finds a log, the old or the new one.
fn point_latest_to(dir: &Path, name: &str) -> io::Result<()> {
    files::sweep_temporary(dir);
    let link = tempfile::Builder::new().prefix(files::TEMPORARY).make_in(dir, |path| symlink(name, path))?;
    link.into_temp_path().persist(dir.join(LATEST)).map_err(|error| error.error)
}

/// By when they were last written: a loop that is gone on with has an old name.
fn keep_newest(dir: &Path, current: &str) {
    let others: Vec<_> = logs(dir).filter(|(_, name)| name != current).collect();
    if others.len() < MOST_LOGS + A_FEW_LOGS {
        return;
    }
    let written = |entry: &fs::DirEntry| entry.metadata().and_then(|meta| meta.modified()).ok();
    let mut others: Vec<_> = others.into_iter().map(|(entry, name)| (written(&entry), name)).collect();
    others.sort();
    for (_, name) in others.iter().rev().skip(MOST_LOGS - 1) {
        let _gone = fs::remove_file(dir.join(name));
    }
}

#[cfg(test)]
mod tests;
