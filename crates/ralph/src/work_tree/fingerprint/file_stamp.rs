//! What `lstat` says about a file, kept to tell whether it may have changed since.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Stat};

use super::bytes::{Reader, Writer};
use crate::sys::clock;

/// Two equal stamps of one path, the first of them settled, mean equal content.
///
/// Anyone may set an mtime; nobody can set a ctime without setting the clock, so it is ctime that carries the
/// promise. The one thing it does not see is a program that keeps a page of the file mapped and already dirty and
/// writes to that page again: no stat can tell, git's no more than ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) mtime: Moment,
    pub(super) ctime: Moment,
    pub(super) mode: u32,
}

/// A stamp as it is stored.
pub(super) type StampBytes = [u8; 52];

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    seconds: i64,
    nanoseconds: u32,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self::since_epoch(clock::system_now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    pub(super) fn since_epoch(since: Duration) -> Self {
        Self {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        }
    }

    fn earlier_by(self, span: Duration) -> Self {
        let borrow = i64::from(self.nanoseconds < span.subsec_nanos());
        let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_sub(seconds).saturating_sub(borrow),
            nanoseconds: (self.nanoseconds + 1_000_000_000 - span.subsec_nanos()) % 1_000_000_000,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanoseconds.to_le_bytes());
        bytes
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            seconds: i64::from_le_bytes(from.array()?),
            nanoseconds: u32::from_le_bytes(from.array()?),
        })
    }
}

impl Stamp {
    /// The stamp and type of `name` in the folder `at`; a link is not followed.
    pub(crate) fn of(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<(Self, FileType)> {
        let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((Self::from(&stat), FileType::from_raw_mode(stat.st_mode)))
    }

    /// The stamp and type of an open file.
    pub(super) fn of_open(file: impl AsFd) -> io::Result<(Self, FileType)> {
        let stat = rustix::fs::fstat(file)?;
        Ok((Self::from(&stat), FileType::from_raw_mode(stat.st_mode)))
    }

    pub(super) fn permissions(&self) -> u16 {
        (self.mode & 0o777) as u16
    }

    /// Whether the file had been left alone for `span` when it was hashed, at `hashed` or later.
    ///
    /// If it had, any later change gets a ctime that differs from this one. If it had not, a second change could
    /// fall into the same tick of the clock and hide behind the first. A ctime in the future is not settled
    /// either: the clock was set back, and a change to come may well meet that ctime again.
    pub(crate) fn is_settled(&self, hashed: Moment, span: Duration) -> bool {
        self.ctime <= hashed.earlier_by(span)
    }

    /// Whether this is another file than it was, or one that was written to since.
    pub(super) fn is_another_file(&self, was: &Self) -> bool {
        (self.device, self.inode, self.ctime) != (was.device, was.inode, was.ctime)
    }

    /// Whether a folder is another one, or may have been renamed: its own ctime moves, and so does that of the folder it lies
    /// in. What comes and goes in it moves its ctime and its mtime, and that of no other folder.
    pub(super) fn is_moved_folder(&self, was: &Self, parent_moved: bool) -> bool {
        (self.device, self.inode) != (was.device, was.inode)
            || self.ctime != was.ctime && (self.mtime == was.mtime || parent_moved)
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.raw(&self.to_bytes());
    }

    /// Two stamps are equal if and only if these are.
    pub(super) fn to_bytes(self) -> StampBytes {
        let mut bytes = [0; size_of::<StampBytes>()];
        bytes[..8].copy_from_slice(&self.device.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.inode.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        bytes[24..36].copy_from_slice(&self.mtime.to_bytes());
        bytes[36..48].copy_from_slice(&self.ctime.to_bytes());
        bytes[48..].copy_from_slice(&self.mode.to_le_bytes());
        bytes
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            device: u64::from_le_bytes(from.array()?),
            inode: u64::from_le_bytes(from.array()?),
            size: u64::from_le_bytes(from.array()?),
            mtime: Moment::read(from)?,
            ctime: Moment::read(from)?,
            mode: u32::from_le_bytes(from.array()?),
        })
    }
}

impl From<&Stat> for Stamp {
    #[allow(
        clippy::unnecessary_cast,
        reason = "the fields have another width on each system, none wider than ours"
    )]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime: Moment { seconds: stat.st_mtime as i64, nanoseconds: stat.st_mtime_nsec as u32 },
            ctime: Moment { seconds: stat.st_ctime as i64, nanoseconds: stat.st_ctime_nsec as u32 },
            mode: stat.st_mode as u32,
        }
    }
}
