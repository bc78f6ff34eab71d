//! Gets the pinned client onto this machine, once, however many test processes ask for it at the same time.
//!
//! The cache folder appears by a rename, so it is either whole or not there; a lock beside it makes the others wait
//! for the one that installs. What is in the cache is trusted only after it has told its version.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use super::{CLAUDE_CODE_VERSION, hermetic};
use crate::bounded;

const NPM_TIMEOUT: Duration = Duration::from_secs(600);
const VERSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How many of npm's last lines an error shows.
const NPM_LINES: usize = 15;

/// Why the real client is not there, in words for the person who can mend it.
pub struct InstallError {
    tried: String,
    cause: String,
    hint: String,
}

impl InstallError {
    fn new(tried: impl Into<String>, cause: impl fmt::Display) -> Self {
        let hint = "install Node.js and npm, or set RALPH_E2E=off to leave the real-client tests out";
        Self { tried: tried.into(), cause: cause.to_string(), hint: hint.into() }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tried, cause, hint } = self;
        write!(
            f,
            "Claude Code {CLAUDE_CODE_VERSION} is not available: {tried} failed:\n{cause}\nhint: {hint}"
        )
    }
}

/// As `Display`: `unwrap` and `expect` in a test show this one.
impl fmt::Debug for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for InstallError {}

/// The program, proven to start once a process. A failure is not remembered.
pub(super) fn installed() -> Result<PathBuf, InstallError> {
    static PROVEN: OnceLock<PathBuf> = OnceLock::new();
    if let Some(program) = PROVEN.get() {
        return Ok(program.clone());
    }
    let cache = cache_folder(|name| env::var_os(name))?;
    let program = installed_in(&cache)?;
    Ok(PROVEN.get_or_init(|| program).clone())
}

fn cache_folder(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf, InstallError> {
    let set = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("RALPH_E2E_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("ralph-testkit")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/ralph-testkit")))
        .ok_or_else(|| {
            let cause = "RALPH_E2E_CACHE, XDG_CACHE_HOME and HOME are not set";
            InstallError::new("looking for a cache folder", cause)
                .hint("set RALPH_E2E_CACHE to a folder with 400 MB to spare, or RALPH_E2E=off")
        })
}

fn installed_in(cache: &Path) -> Result<PathBuf, InstallError> {
    let folder = cache.join(format!("claude-code-{CLAUDE_CODE_VERSION}"));
    let _lock = locked(cache).map_err(|error| {
        InstallError::new(format!("locking the cache folder {}", cache.display()), error)
            .hint("set RALPH_E2E_CACHE to a folder that can be written, or RALPH_E2E=off")
    })?;
    if !folder.exists() {
        install(cache, &folder)?;
    }
    program_that_starts(&folder)
}

/// Held until it is dropped, or until the process that holds it dies.
fn locked(cache: &Path) -> io::Result<File> {
    fs::create_dir_all(cache)?;
    let file = File::create(cache.join(format!("claude-code-{CLAUDE_CODE_VERSION}.lock")))?;
    file.lock()?;
    Ok(file)
}

fn install(cache: &Path, folder: &Path) -> Result<(), InstallError> {
    let tried = |what: &str| format!("{what} in {}", cache.display());
    let sibling = TempDir::with_prefix_in("installing.", cache)
        .map_err(|error| InstallError::new(tried("making a temporary folder"), error))?;
    npm_install(sibling.path())?;
    fs::rename(sibling.path(), folder)
        .map_err(|error| InstallError::new(tried("moving the finished installation into place"), error))?;
    // It has moved, there is nothing left to remove.
    let _moved = sibling.keep();
    Ok(())
}

fn npm_install(prefix: &Path) -> Result<(), InstallError> {
    let package = format!("@anthropic-ai/claude-code@{CLAUDE_CODE_VERSION}");
    let tried = format!("`npm install --prefix {} --no-audit --no-fund {package}`", prefix.display());
    let mut npm = Command::new("npm");
    npm.arg("install").arg("--prefix").arg(prefix).args(["--no-audit", "--no-fund", &package]);
    let ended = bounded::run(&mut npm, NPM_TIMEOUT)
        .map_err(|error| InstallError::new(&tried, format!("npm cannot be started: {error}")))?;
    if ended.status.success() && !ended.timed_out {
        return Ok(());
    }
    let end = match ended.timed_out {
        true => format!("stopped after {} seconds", NPM_TIMEOUT.as_secs()),
        false => ended.status.to_string(),
    };
    let said = last_lines(&[ended.stdout, ended.stderr].concat(), NPM_LINES);
    Err(InstallError::new(tried, format!("{end}\n{said}")))
}

fn last_lines(output: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn program_that_starts(folder: &Path) -> Result<PathBuf, InstallError> {
    let mut failures = Vec::new();
    for program in programs(folder) {
        match tells_its_version(&program) {
            Ok(()) => return Ok(program),
            Err(failure) => failures.push(format!("{}: {failure}", program.display())),
        }
    }
    Err(InstallError::new("starting the installed client with --version", failures.join("\n")).hint(format!(
        "remove {} to have it installed again, or set RALPH_E2E=off to leave the real-client tests out",
        folder.display()
    )))
}

/// Where the client can be: the launcher npm made, else the native binary of the platform's own package. The
/// launcher does not start where npm was told not to run the package's install script.
fn programs(folder: &Path) -> Vec<PathBuf> {
    let modules = folder.join("node_modules");
    let packages = fs::read_dir(modules.join("@anthropic-ai")).into_iter().flatten().flatten();
    let of_platform = packages.filter(|package| is_platform_package(&package.file_name()));
    let native = of_platform.map(|package| package.path().join("claude")).filter(|program| program.is_file());
    [modules.join(".bin/claude")].into_iter().chain(native).collect()
}

fn is_platform_package(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("claude-code-"))
}

fn tells_its_version(program: &Path) -> Result<(), String> {
    let home = TempDir::with_prefix("ralph-e2e-home.").map_err(|error| error.to_string())?;
    let ended = bounded::run(hermetic(program, home.path()).arg("--version"), VERSION_TIMEOUT)
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ended.stdout);
    if ended.status.success() && said.split_whitespace().next() == Some(CLAUDE_CODE_VERSION) {
        return Ok(());
    }
    Err(format!("{}, it said: {} {}", ended.status, said.trim(), last_lines(&ended.stderr, 3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_from(set: &[(&str, &str)]) -> Result<PathBuf, InstallError> {
        cache_folder(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    /// Written by another process: a file this process has open for writing may leak into a child that another
    /// test starts at this moment, and cannot be executed until that child has gone on.
    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod +x "$0""#;
        assert!(Command::new("sh").args(["-c", write]).arg(path).arg(text).status().unwrap().success());
    }

    #[test]
    fn the_cache_is_the_first_of_three_variables() {
        let all = [("RALPH_E2E_CACHE", "/e2e"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/me")];
        assert_eq!(folder_from(&all).unwrap(), Path::new("/e2e"));
        assert_eq!(folder_from(&all[1..]).unwrap(), Path::new("/xdg/ralph-testkit"));
        assert_eq!(folder_from(&all[2..]).unwrap(), Path::new("/home/me/.cache/ralph-testkit"));
        let error = folder_from(&[("HOME", "")]).unwrap_err().to_string();
        assert!(error.contains("RALPH_E2E=off"), "{error}");
    }

    #[test]
    fn the_native_binary_steps_in_for_a_launcher_that_does_not_start() {
        let folder = TempDir::new().unwrap();
        let modules = folder.path().join("node_modules");
        script(&modules.join(".bin/claude"), "exit 1");
        let native = modules.join("@anthropic-ai/claude-code-some-os/claude");
        script(&native, "echo '2.1.325 (Claude Code)'");
        assert_eq!(program_that_starts(folder.path()).unwrap(), native);
    }

    #[test]
    fn a_cache_that_holds_another_version_is_refused_with_a_way_out() {
        let folder = TempDir::new().unwrap();
        script(&folder.path().join("node_modules/.bin/claude"), "echo '2.1.3 (Claude Code)'");
        let error = program_that_starts(folder.path()).unwrap_err().to_string();
        assert!(error.contains("2.1.3 (Claude Code)") && error.contains("hint: remove "), "{error}");
    }
}
