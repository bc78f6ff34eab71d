//! The programs under test, built the way they are shipped.

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
    /// Where every scene is, until all is measured: for minutes after many files were removed, ext4 takes longer to make new
    /// ones, and whatever is measured next would pay for it.
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
            let missing = || io::Error::other(format!("cargo built no `{name}`"));
            executables.remove(name).ok_or_else(missing)
        };
        let scenes = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        Ok(Self { ralph: take("ralph")?, other, empty: take("empty")?, scenes })
    }
}

/// Cargo says in one JSON line for each artifact where it put it.
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
