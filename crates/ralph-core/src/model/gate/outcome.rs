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
    fn a_time_out_names_itself() {
        let sentence = Outcome::TimedOut { after: Duration::from_secs(300) }.sentence();
        assert_eq!(sentence, "timed out after 5m and was ended with all its processes");
    }
}
