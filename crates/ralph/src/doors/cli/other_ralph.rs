//! Other programs called `ralph` on the PATH: a hook that names only `ralph` runs the first of them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sys::{env, files};

/// One of them, in the order of the PATH.
#[derive(Debug)]
pub(super) struct ProgramOnPath {
    pub(super) path: PathBuf,
    pub(super) kind: ProgramKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// The program that runs now.
    ThisOne,
    /// Another file of the same program, maybe of another version.
    AnotherCopy,
    AnotherProgram,
}

/// Everything on the PATH that is called `ralph`.
pub(super) fn on_path() -> Vec<ProgramOnPath> {
    let this = std::env::current_exe().and_then(fs::canonicalize).ok();
    let mut found: Vec<ProgramOnPath> = Vec::new();
    for folder in std::env::split_paths(&env::path()).filter(|folder| folder.is_absolute()) {
        let path = folder.join("ralph");
        if !files::is_program(&path) || found.iter().any(|other| other.path == path) {
            continue;
        }
        let kind = match fs::canonicalize(&path).ok() {
            real if real.is_some() && real == this => ProgramKind::ThisOne,
            _ if is_this_program(&path) => ProgramKind::AnotherCopy,
            _ => ProgramKind::AnotherProgram,
        };
        found.push(ProgramOnPath { path, kind });
    }
    found
}

/// Whether a file is this program, by a text that only this one holds.
fn is_this_program(path: &Path) -> bool {
    let mark = env!("CARGO_PKG_REPOSITORY").as_bytes();
    let is_script = |bytes: &[u8]| bytes.starts_with(b"#!");
    fs::read(path).is_ok_and(|bytes| !is_script(&bytes) && memchr_find(&bytes, mark))
}

fn memchr_find(bytes: &[u8], mark: &[u8]) -> bool {
    let first = mark.first().copied().unwrap_or_default();
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(mark) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// What the user is told where a program of the same name is another one; none where there is none.
pub(super) fn describe(hook_names_only_ralph: bool) -> Option<(String, bool)> {
    let all = on_path();
    let other = all.iter().find(|found| found.kind == ProgramKind::AnotherProgram)?;
    let first = all.first()?;
    let runs_other = hook_names_only_ralph && first.kind == ProgramKind::AnotherProgram;
    let this = std::env::current_exe().unwrap_or_default();
    let run =
        if hook_names_only_ralph { first.path.display().to_string() } else { this.display().to_string() };
    Some((
        format!("{} is another program called ralph; the hook runs {run}", other.path.display()),
        runs_other,
    ))
}
