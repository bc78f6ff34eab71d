//! The programs under test, built as released.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Programs {
    pub(crate) ralph: PathBuf,
    /// Another build of ralph to compare with (`--against=PATH`).
    pub(crate) other: Option<PathBuf>,
    /// A Rust program that does nothing.
    pub(crate) empty: PathBuf,
    /// Folder of all scenes, removed only at the end: for minutes after deleting many files, ext4 creates new ones more
    /// slowly, which would distort the next measurement.
    pub(crate) scenes: TempDir,
}

impl Programs {
    pub(crate) fn build(other: Option<PathBuf>) -> io::Result<Self> {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--profile", "dist", "--package", "ralph", "--package", "ralph-bench"])
            .args(["--bin", "ralph", "--bin", "empty", "--message-format", "json-render-diagnostics"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit())
            .output()?;
        let mut executables = executables(&built.stdout);
        let mut take = |name: &str| {
            let missing = || io::Error::other(format!("cargo did not build `{name}`"));
            executables.remove(name).ok_or_else(missing)
        };
        let scenes = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        Ok(Self { ralph: take("ralph")?, other, empty: take("empty")?, scenes })
    }
}

/// The executables in cargo's JSON messages, one line per artifact.
fn executables(messages: &[u8]) -> HashMap<String, PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let message: Value = serde_json::from_slice(line).ok()?;
            let name = message["target"]["name"].as_str()?.to_owned();
            Some((name, message["executable"].as_str()?.into()))
        })
        .collect()
}
