//! The peak resident memory of a program.

use std::process::Stdio;
use std::time::Duration;
use std::{fs, io, thread};

use crate::contest::Call;

/// In bytes; `None` if the kernel does not report it. The high-water mark only rises, so polling is enough.
pub(crate) fn most_resident(mut call: Call) -> io::Result<Option<u64>> {
    let mut child = call.command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut most = None;
    while child.try_wait()?.is_none() {
        most = high_water_mark(child.id()).or(most);
        thread::sleep(Duration::from_micros(500));
    }
    Ok(most)
}

fn high_water_mark(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"))?;
    Some(kilobytes.trim().parse::<u64>().ok()? * 1024)
}
