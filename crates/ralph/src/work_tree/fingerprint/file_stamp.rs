//! The `lstat` data of a file, stored to detect later changes.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Stat};

use super::bytes::{ByteReader, Writer};
use crate::sys::clock;

/// Two equal stamps of one path, the first of them settled, mean equal content.
///
/// Any program can set an mtime, but setting a ctime requires setting the clock, so detection relies on ctime. It
/// misses only a program that keeps a page of the file mapped and dirty and writes to that page again; git's stat
/// data has the same limitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) mtime: FileTime,
    pub(super) ctime: FileTime,
    pub(super) mode: u32,
}

/// A stamp in stored form.
pub(super) type StampBytes = [u8; 52];

/// A point in time with file system resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileTime {
    seconds: i64,
    nanoseconds: u32,
}

impl FileTime {
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

    fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            seconds: i64::from_le_bytes(from.array()?),
            nanoseconds: u32::from_le_bytes(from.array()?),
        })
    }
}

impl FileStamp {
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

    /// Whether the file had been unchanged for `span` when it was hashed, at `hashed` or later.
    ///
    /// If so, any later change gets a different ctime. If not, a second change could fall into the same clock tick
    /// and stay undetected. A ctime in the future is not settled either: the clock was set back, and a later change
    /// may get that ctime again.
    pub(crate) fn is_settled(&self, hashed: FileTime, span: Duration) -> bool {
        self.ctime <= hashed.earlier_by(span)
    }

    /// Whether this is a different file, or was written to since.
    pub(super) fn is_another_file(&self, was: &Self) -> bool {
        (self.device, self.inode, self.ctime) != (was.device, was.inode, was.ctime)
    }

    /// Whether a folder is a different one, or may have been renamed: a rename changes its own ctime and that of its
    /// parent folder. Creating or removing files in it changes its ctime and mtime, but not its parent's.
    pub(super) fn is_moved_folder(&self, was: &Self, parent_moved: bool) -> bool {
        (self.device, self.inode) != (was.device, was.inode)
            || self.ctime != was.ctime && (self.mtime == was.mtime || parent_moved)
    }

    pub(super) fn write(&self, to: &mut Writer) {
        to.raw(&self.to_bytes());
    }

    /// Two stamps are equal if and only if their bytes are.
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

    pub(super) fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            device: u64::from_le_bytes(from.array()?),
            inode: u64::from_le_bytes(from.array()?),
            size: u64::from_le_bytes(from.array()?),
            mtime: FileTime::read(from)?,
            ctime: FileTime::read(from)?,
            mode: u32::from_le_bytes(from.array()?),
        })
    }
}

impl From<&Stat> for FileStamp {
    #[allow(
        clippy::unnecessary_cast,
        reason = "the fields have another width on each system, none wider than ours"
    )]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime: FileTime { seconds: stat.st_mtime as i64, nanoseconds: stat.st_mtime_nsec as u32 },
            ctime: FileTime { seconds: stat.st_ctime as i64, nanoseconds: stat.st_ctime_nsec as u32 },
            mode: stat.st_mode as u32,
        }
    }
}
