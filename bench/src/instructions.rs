//! Counts user-space instructions, which do not depend on the machine or its load.

use std::io;
use std::process::{Command, Stdio};

use crate::contest::Call;

/// The instructions of one call; `None` without valgrind.
pub(crate) fn of(call: Call) -> io::Result<Option<u64>> {
    let mut counted = Command::new("valgrind");
    counted
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(call.command.get_program())
        .args(call.command.get_args())
        .env_clear()
        .envs(call.command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .stdin(Stdio::piped());
    if let Some(folder) = call.command.get_current_dir() {
        counted.current_dir(folder);
    }
    let mut child = match counted.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if let Some(mut input) = child.stdin.take() {
        // The empty program may exit before the write.
        let _not_read = io::Write::write_all(&mut input, &call.input);
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok()))
}
