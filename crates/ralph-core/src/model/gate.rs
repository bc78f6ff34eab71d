//! A gate: a command that passes or fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::id::{Digest, GateName};
use crate::model::results::{Failure, Results};
use crate::model::results_source::ResultsSource;

pub mod outcome;
pub mod plan;
pub mod receipt;

pub use outcome::{Answer, Outcome, shell_found_no_program};

/// How long a gate may take where nobody says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub name: GateName,
    /// Given to `sh -c` as written.
    pub run: String,
    pub timeout: Duration,
    /// Shown, never blocks.
    pub advisory: bool,
    /// Globs of what the gate depends on; empty: the whole tree.
    pub inputs: Vec<String>,
    /// How often a failure is tried again; a pass then is *flaky*.
    pub retries: u32,
    pub order: Order,
    /// Where its results are, if not in its output or in a format that is recognised. It explains, so it is no part of
    /// the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<ResultsSource>,
}

/// When a gate may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// After every gate above it: the plain list, in order.
    AfterAllAbove,
    /// Together with its neighbours that are marked so (`parallel: true`).
    WithNeighbours,
    /// After these and no others (`needs: […]`).
    After(Vec<GateName>),
}

impl Gate {
    /// What makes two definitions of a gate the same one, for the receipt's key.
    pub fn definition(&self) -> Digest {
        let parts = (&self.name, &self.run, self.timeout, &self.inputs, self.retries);
        Digest::of(serde_json::to_vec(&parts).expect("strings and numbers are always JSON"))
    }
}

/// One gate's run, or the receipt that stood in for it, as everybody after the runner sees it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub gate: GateName,
    pub run: String,
    pub outcome: Outcome,
    pub advisory: bool,
    pub took: Duration,
    /// How often it was run; 0 when a receipt stood in.
    pub runs: u32,
    /// Where the whole output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The informative part of the output: plain text, secrets and control tokens neutralised.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
    /// The failing tests and problems that its output names, and how many tests ran. None where nothing was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Files of the tree that differ after this gate ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

impl GateReport {
    /// It passed, but not the first time.
    pub fn flaky(&self) -> bool {
        self.outcome == Outcome::Passed && self.runs > 1
    }

    pub fn reused(&self) -> bool {
        self.outcome == Outcome::Passed && self.runs == 0
    }

    /// The failing tests and problems of a gate that did not pass.
    pub fn failures(&self) -> Vec<Failure<'_>> {
        if self.outcome == Outcome::Passed {
            return Vec::new();
        }
        self.results.as_ref().map(Results::failures).unwrap_or_default()
    }

    /// What a required gate's result means for the verdict; an advisory one never holds anybody.
    pub fn answer(&self) -> Answer {
        if self.advisory { Answer::Pass } else { self.outcome.answer() }
    }
}
