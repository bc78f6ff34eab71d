//! Installs a pinned npm package on this machine, once, however many test processes need it at the same time.
//!
//! Each package has a cache folder of its own, named after it and its version. It appears by a rename, so it is either
//! complete or absent; a lock beside it makes other processes wait for the installation. A cached package is trusted
//! only after it has printed its version.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fmt, io};

use tempfile::TempDir;

use crate::bounded;

const NPM_TIMEOUT: Duration = Duration::from_secs(600);
const VERSION_TIMEOUT: Duration = Duration::from_secs(60);
/// How many of npm's last lines an error shows.
const NPM_LINES: usize = 15;

/// A package of the npm registry that real-client tests need, in the one supported version.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its display name.
    pub(crate) title: &'static str,
    /// Its npm name.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The beginning of its folder's name in the cache; no two packages share one.
    pub(crate) folder: &'static str,
    /// What it needs on the machine, for the error message.
    pub(crate) needs: &'static str,
    /// Where its program can be below `node_modules`, the best first.
    pub(crate) programs: fn(&Path) -> Vec<PathBuf>,
    /// How its program is started, given a home directory of its own.
    pub(crate) start: fn(&Path, &Path) -> Command,
}

/// Why a real program is not available, with a hint on how to fix it.
pub struct InstallError {
    wanted: String,
    tried: String,
    cause: String,
    hint: String,
}

impl InstallError {
    fn new(package: &Package, tried: impl Into<String>, cause: impl fmt::Display) -> Self {
        let hint = format!("install {}", package.needs);
        let wanted = format!("{} {}", package.title, package.version);
        Self { wanted, tried: tried.into(), cause: cause.to_string(), hint }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, tried, cause, hint } = self;
        write!(f, "{wanted} is not available: {tried} failed:\n{cause}\nhint: {hint}")
    }
}

/// As `Display`: `unwrap` and `expect` in a test print this one.
impl fmt::Debug for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for InstallError {}

impl Package {
    /// The program, checked to start once per process: `proven` caches it. A failure is not cached.
    pub(crate) fn installed(&self, proven: &OnceLock<PathBuf>) -> Result<PathBuf, InstallError> {
        if let Some(program) = proven.get() {
            return Ok(program.clone());
        }
        let cache = self.cache_folder(|name| env::var_os(name))?;
        let program = self.installed_in(&cache)?;
        Ok(proven.get_or_init(|| program).clone())
    }

    fn cache_folder(
        &self,
        var: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<PathBuf, InstallError> {
        let set = |name| var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("RALPH_E2E_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("ralph-testkit")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/ralph-testkit")))
            .ok_or_else(|| {
                let cause = "RALPH_E2E_CACHE, XDG_CACHE_HOME and HOME are not set";
                InstallError::new(self, "looking for a cache folder", cause)
                    .hint("set RALPH_E2E_CACHE to a folder with 1 GB to spare")
            })
    }

    fn installed_in(&self, cache: &Path) -> Result<PathBuf, InstallError> {
        let folder = cache.join(format!("{}-{}", self.folder, self.version));
        let _lock = self.locked(cache).map_err(|error| {
            InstallError::new(self, format!("locking the cache folder {}", cache.display()), error)
                .hint("set RALPH_E2E_CACHE to a folder that can be written")
        })?;
        if !folder.exists() {
            self.install(cache, &folder)?;
        }
        self.program_that_starts(&folder)
    }

    /// Held until it is dropped, or until the owning process dies.
    fn locked(&self, cache: &Path) -> io::Result<File> {
        fs::create_dir_all(cache)?;
        let file = File::create(cache.join(format!("{}-{}.lock", self.folder, self.version)))?;
        file.lock()?;
        Ok(file)
    }

    fn install(&self, cache: &Path, folder: &Path) -> Result<(), InstallError> {
        let failed =
            |what: &str, error| InstallError::new(self, format!("{what} in {}", cache.display()), error);
        let sibling = TempDir::with_prefix_in("installing.", cache)
            .map_err(|error| failed("making a temporary folder", error))?;
        self.npm_install(sibling.path())?;
        fs::rename(sibling.path(), folder)
            .map_err(|error| failed("moving the finished installation into place", error))?;
        // It was moved; there is nothing left to remove.
        let _moved = sibling.keep();
        Ok(())
    }

    fn npm_install(&self, prefix: &Path) -> Result<(), InstallError> {
        let package = format!("{}@{}", self.name, self.version);
        let tried = format!("`npm install --prefix {} --no-audit --no-fund {package}`", prefix.display());
        let mut npm = Command::new("npm");
        npm.arg("install").arg("--prefix").arg(prefix).args(["--no-audit", "--no-fund", &package]);
        let ended = bounded::run(&mut npm, NPM_TIMEOUT)
            .map_err(|error| InstallError::new(self, &tried, format!("npm cannot be started: {error}")))?;
        if ended.status.success() && !ended.timed_out {
            return Ok(());
        }
        let end = match ended.timed_out {
            true => format!("stopped after {} seconds", NPM_TIMEOUT.as_secs()),
            false => ended.status.to_string(),
        };
        let said = last_lines(&[ended.stdout, ended.stderr].concat(), NPM_LINES);
        Err(InstallError::new(self, tried, format!("{end}\n{said}")))
    }

    fn program_that_starts(&self, folder: &Path) -> Result<PathBuf, InstallError> {
        let mut failures = Vec::new();
        for program in (self.programs)(&folder.join("node_modules")) {
            match self.check_version(&program) {
                Ok(()) => return Ok(program),
                Err(failure) => failures.push(format!("{}: {failure}", program.display())),
            }
        }
        let tried = "starting the installed program with --version";
        Err(InstallError::new(self, tried, failures.join("\n")).hint(format!(
            "it needs {}; remove {} to have it installed again",
            self.needs,
            folder.display()
        )))
    }

    fn check_version(&self, program: &Path) -> Result<(), String> {
        let home = TempDir::with_prefix("ralph-e2e-home.").map_err(|error| error.to_string())?;
        let ended = bounded::run((self.start)(program, home.path()).arg("--version"), VERSION_TIMEOUT)
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&ended.stdout);
        if ended.status.success()
            && said.split_whitespace().any(|word| word.trim_end_matches('.') == self.version)
        {
            return Ok(());
        }
        Err(format!("{}, it said: {} {}", ended.status, said.trim(), last_lines(&ended.stderr, 3)))
    }
}

fn last_lines(output: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_claude::CLAUDE_CODE;

    fn folder_from(set: &[(&str, &str)]) -> Result<PathBuf, InstallError> {
        CLAUDE_CODE
            .cache_folder(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    /// Written by another process: a file that this process has open for writing may leak into a child that another
    /// test starts at this moment, and cannot be executed until that child has called exec.
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
        assert!(error.contains("set RALPH_E2E_CACHE to a folder"), "{error}");
    }

    #[test]
    fn the_native_binary_replaces_a_launcher_that_does_not_start() {
        let folder = TempDir::new().unwrap();
        let modules = folder.path().join("node_modules");
        script(&modules.join(".bin/claude"), "exit 1");
        let native = modules.join("@anthropic-ai/claude-code-some-os/claude");
        script(&native, "echo '2.1.325 (Claude Code)'");
        assert_eq!(CLAUDE_CODE.program_that_starts(folder.path()).unwrap(), native);
    }

    #[test]
    fn a_cache_with_another_version_is_refused_with_a_hint() {
        let folder = TempDir::new().unwrap();
        script(&folder.path().join("node_modules/.bin/claude"), "echo '2.1.3 (Claude Code)'");
        let error = CLAUDE_CODE.program_that_starts(folder.path()).unwrap_err().to_string();
        assert!(error.contains("2.1.3 (Claude Code)") && error.contains("; remove "), "{error}");
    }
}
