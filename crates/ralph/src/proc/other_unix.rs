//! The processes of this machine where there is no `/proc` to ask: nobody is seen, and only process groups are
//! ended. The same functions as `linux.rs`.

use std::io::PipeReader;

use rustix::process::{Pid, Signal};

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: Option<Pid>,
    pub(super) group: Option<Pid>,
    pub(super) session: Option<Pid>,
    pub(super) start: u64,
    pub(super) dead: bool,
}

/// Makes this process the parent of every descendant that loses its own. Only Linux can.
pub(crate) fn adopt_orphans() {}

/// What names a process for good. Here only that it is there is known.
pub(crate) fn identity(pid: i32) -> Option<(u64, String)> {
    super::is_alive(pid).then(|| (0, String::new()))
}

/// Whether we came out of that process; here only our own parent is known.
pub(crate) fn is_ancestor(pid: i32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == pid)
        || super::is_alive(pid)
}

pub(super) fn adopts_orphans() -> bool {
    false
}

pub(super) fn widen(_pipe: &PipeReader) {}

pub(super) fn own_children() -> Option<Vec<Pid>> {
    None
}

pub(super) fn own_tree() -> Option<Vec<Process>> {
    None
}

pub(super) fn everyone() -> Vec<Process> {
    Vec::new()
}

pub(super) fn is_same_user(_pid: Pid) -> bool {
    false
}

pub(super) fn environment(_pid: Pid) -> Vec<u8> {
    Vec::new()
}

pub(super) fn pipes(_pid: Pid) -> Vec<u64> {
    Vec::new()
}

pub(super) fn describe(pid: Pid) -> String {
    pid.to_string()
}

pub(super) fn signal(_process: &Process, _signal: Signal) {}
