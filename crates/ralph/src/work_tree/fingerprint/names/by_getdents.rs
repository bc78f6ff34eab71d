//! Uses the `getdents` system call with a reused buffer: `readdir` allocates for each name.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

/// Large enough for all names of most folders.
const SIZE: usize = 32 * 1024;

#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn each_name(
        &mut self,
        folder: BorrowedFd<'_>,
        mut note: impl FnMut(&CStr, FileType),
    ) -> rustix::io::Result<()> {
        self.0.reserve(SIZE);
        let mut entries = RawDir::new(folder, self.0.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => note(entry.file_name(), entry.file_type()),
                Err(Errno::INTR) => {}
                // The folder was removed after it was opened.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
