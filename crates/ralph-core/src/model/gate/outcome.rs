//! Everything that can become of a gate, and what each means for the verdict.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::duration;

/// What a check says: the only four answers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Pass,
    Fail,
    NotYet,
    CannotTell,
}

/// What became of one gate.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    TimedOut {
        after: Duration,
    },
    /// It exited 0 and left processes running; they were ended.
    Leaked {
        processes: Vec<String>,
    },
    /// The command could not be run at all: the gate is broken, which says nothing about the work.
    CouldNotStart {
        why: String,
    },
    /// Our own deadline came first.
    DidNotFit,
}

impl Outcome {
    pub fn answer(&self) -> Answer {
        match self {
            Self::Passed => Answer::Pass,
            Self::Failed { .. } | Self::Signalled { .. } | Self::TimedOut { .. } | Self::Leaked { .. } => {
                Answer::Fail
            }
            Self::CouldNotStart { .. } | Self::DidNotFit => Answer::CannotTell,
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
            Self::DidNotFit => "did not fit",
        }
    }

    /// What happened, to stand after the gate's name.
    pub fn sentence(&self) -> String {
        match self {
            Self::Passed => "passed".into(),
            Self::Failed { code } => format!("failed with exit code {code}"),
            Self::Signalled { signal } => format!("was ended by signal {signal}{}", signal_name(*signal)),
            Self::TimedOut { after } => {
                format!("timed out after {} and was ended with all its processes", duration::show(*after))
            }
            Self::Leaked { processes } => {
                format!(
                    "exited 0 but left {} running ({}); ended",
                    processes_in_words(processes),
                    processes.join(", ")
                )
            }
            Self::CouldNotStart { why } => format!("could not start: {why}"),
            Self::DidNotFit => "was ended before it had finished".into(),
        }
    }
}

/// The line in which a shell says that it could not run a program, where an output has one. The exit codes 126 and 127
/// alone do not say so: some runners exit with the number of their failures.
pub fn shell_found_no_program(output: &str) -> Option<&str> {
    // What called the shell (npm, make) may add some lines of its own.
    const LAST_LINES: usize = 20;
    let lines = output.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    lines.take(LAST_LINES).find(|line| is_from_shell(line) && names_missing_program(line))
}

/// `sh: 1: …`, `/bin/bash: line 1: …`, `env: …`, `./script.sh: line 3: …`, `./script.sh: 3: …`
fn is_from_shell(line: &str) -> bool {
    const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "env"];
    let Some((speaker, rest)) = line.split_once(':') else { return false };
    let program = speaker.rsplit('/').next().unwrap_or(speaker);
    // A compiler writes `a.c:3:`, without the space.
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

fn processes_in_words(processes: &[String]) -> String {
    if processes.len() == 1 { "1 process".into() } else { format!("{} processes", processes.len()) }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        6 => " (SIGABRT)",
        9 => " (SIGKILL: out of memory?)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_exit_is_a_pass() {
        let table = [
            (Outcome::Passed, Answer::Pass),
            (Outcome::Failed { code: 1 }, Answer::Fail),
            (Outcome::Signalled { signal: 9 }, Answer::Fail),
            (Outcome::TimedOut { after: Duration::from_secs(1) }, Answer::Fail),
            (Outcome::Leaked { processes: vec!["7 sleep".into()] }, Answer::Fail),
            (Outcome::CouldNotStart { why: String::new() }, Answer::CannotTell),
            (Outcome::DidNotFit, Answer::CannotTell),
        ];
        for (outcome, answer) in table {
            assert_eq!(outcome.answer(), answer, "{outcome:?}");
        }
    }

    #[test]
    fn a_shell_says_itself_what_it_could_not_run() {
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

    #[test]
    fn a_time_out_names_itself() {
        let sentence = Outcome::TimedOut { after: Duration::from_secs(300) }.sentence();
        assert_eq!(sentence, "timed out after 5m and was ended with all its processes");
    }
}
