//! Uses `readdir`, which every Unix has.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{Dir, FileType};
use rustix::io::fcntl_dupfd_cloexec;

#[derive(Default)]
pub(super) struct Buffer;

impl Buffer {
    pub(super) fn each_name(
        &mut self,
        folder: BorrowedFd<'_>,
        mut note: impl FnMut(&CStr, FileType),
    ) -> rustix::io::Result<()> {
        // Duplicated instead of reopened: a folder that may be listed but not entered can only be opened from its
        // parent.
        for entry in Dir::new(fcntl_dupfd_cloexec(folder, 0)?)? {
            let entry = entry?;
            note(entry.file_name(), entry.file_type());
        }
        Ok(())
    }
}
