//! The outcomes of a gate and what each means for the verdict.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The four possible results of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    Pass,
    Fail,
    NotYet,
    CannotTell,
}

/// The outcome of one gate.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GateOutcome {
    Passed,
    Failed {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut {
        #[serde(with = "crate::model::duration::seconds")]
        #[cfg_attr(feature = "schema", schemars(with = "f64"))]
        after: Duration,
    },
    /// It exited 0 and left processes running, which were killed.
    Leaked {
        processes: Vec<String>,
    },
    /// The command could not be run: the gate is broken, not the work.
    CouldNotStart {
        why: String,
    },
    /// The hook's deadline was reached before the gate finished.
    DeadlineReached,
    /// It exited 0 without running a test, although tests ran when the loop began.
    NoTestsRan {
        /// How many ran then.
        before: usize,
    },
}

impl GateOutcome {
    pub fn answer(&self) -> CheckResult {
        match self {
            Self::Passed => CheckResult::Pass,
            Self::Failed { .. }
            | Self::Signalled { .. }
            | Self::TimedOut { .. }
            | Self::Leaked { .. }
            | Self::NoTestsRan { .. } => CheckResult::Fail,
            Self::CouldNotStart { .. } | Self::DeadlineReached => CheckResult::CannotTell,
        }
    }

    /// One word, for tables and scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed { .. } => "failed",
            Self::Signalled { .. } => "signalled",
            Self::TimedOut { .. } => "timed out",
            Self::Leaked { .. } => "leaked",
            Self::CouldNotStart { .. } => "could not start",
            Self::DeadlineReached => "not finished",
            Self::NoTestsRan { .. } => "no tests ran",
        }
    }
}

/// The line in which a shell reports that it could not run a program. The exit codes 126 and 127 alone are not enough,
/// because some runners exit with the number of failures.
pub fn shell_found_no_program(output: &str) -> Option<&str> {
    // The caller of the shell (npm, make) may print lines after it.
    const LAST_LINES: usize = 20;
    let lines = output.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LAST_LINES).find(|line| is_from_shell(line) && names_missing_program(line))
}

/// `sh: 1: …`, `/bin/bash: line 1: …`, `env: …`, `./script.sh: line 3: …`, `./script.sh: 3: …`
fn is_from_shell(line: &str) -> bool {
    const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "env"];
    let Some((speaker, rest)) = line.split_once(':') else { return false };
    let program = speaker.rsplit('/').next().unwrap_or(speaker);
    // Compilers write `a.c:3:` without the space.
    let rest = rest.strip_prefix(' ').unwrap_or_default();
    let rest = rest.strip_prefix("line ").unwrap_or(rest);
    let has_line = rest.split_once(':').is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    SHELLS.contains(&program) || has_line && !speaker.contains(char::is_whitespace)
}

fn names_missing_program(line: &str) -> bool {
    const ENDS: [&str; 8] = [
        ": not found",
        ": command not found",
        ": Permission denied",
        ": permission denied",
        ": No such file or directory",
        ": Is a directory",
        ": required file not found",
        ": Exec format error",
    ];
    ENDS.iter().any(|end| line.ends_with(end)) || line.contains(": command not found: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_exit_is_a_pass() {
        let table = [
            (GateOutcome::Passed, CheckResult::Pass),
            (GateOutcome::Failed { code: 1 }, CheckResult::Fail),
            (GateOutcome::Signalled { signal: 9 }, CheckResult::Fail),
            (GateOutcome::TimedOut { after: Duration::from_secs(1) }, CheckResult::Fail),
            (GateOutcome::Leaked { processes: vec!["7 sleep".into()] }, CheckResult::Fail),
            (GateOutcome::NoTestsRan { before: 3 }, CheckResult::Fail),
            (GateOutcome::CouldNotStart { why: String::new() }, CheckResult::CannotTell),
            (GateOutcome::DeadlineReached, CheckResult::CannotTell),
        ];
        for (outcome, answer) in table {
            assert_eq!(outcome.answer(), answer, "{outcome:?}");
        }
    }

    #[test]
    fn a_missing_program_is_read_from_the_shells_message() {
        for line in [
            "sh: 1: nosuch: not found",
            "/bin/sh: 1: ./gate.sh: Permission denied",
            "bash: line 1: nosuch: command not found",
            "./check.sh: line 3: nosuch: command not found",
            "./check.sh: 3: nosuch: not found",
            "zsh:1: command not found: nosuch",
            "/usr/bin/env: 'python9': No such file or directory",
            "sh: vitest: not found\nnpm error code 127\nnpm error path /app",
        ] {
            assert_eq!(shell_found_no_program(line), line.lines().next(), "{line}");
        }
        for output in [
            "",
            "127 failing",
            "Error: user: not found",
            "1) the page is not found\n2) login: Permission denied",
            "  Error: ENOENT: No such file or directory",
        ] {
            assert_eq!(shell_found_no_program(output), None, "{output}");
        }
    }
}
