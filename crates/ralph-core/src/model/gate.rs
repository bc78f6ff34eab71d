//! A gate: a command that passes or fails.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::id::{Digest, GateName};
use crate::model::results::{Failure, Results};
use crate::model::results_source::ResultsSource;

pub mod calls;
pub mod outcome;
pub mod plan;
pub mod receipt;

pub use outcome::{CheckResult, GateOutcome, shell_found_no_program};

/// The timeout of gates without their own.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub name: GateName,
    /// Given to `sh -c` as written.
    pub run: String,
    #[serde(with = "crate::model::duration::seconds")]
    pub timeout: Duration,
    /// Shown, never blocks.
    pub advisory: bool,
    /// Globs of the files the gate depends on; empty means the whole tree.
    pub inputs: Vec<String>,
    /// Files that it rewrites at every run; they are no part of the tree that it judges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// How often a failing gate is retried; a pass on retry is *flaky*.
    pub retries: u32,
    pub order: GateOrder,
    /// Where its results are, if not in its output in a recognised format. It only explains failures, so it is not part
    /// of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<ResultsSource>,
    /// Whether it may run on a changed view of the tree as well (databases, ports: `rerun: false`). Not part of the
    /// definition: it changes no result.
    #[serde(default = "may_rerun", skip_serializing_if = "Clone::clone")]
    pub rerun: bool,
}

fn may_rerun() -> bool {
    true
}

impl Gate {
    /// A required gate with the defaults, for tests.
    #[doc(hidden)]
    pub fn sample(name: &str, run: &str) -> Self {
        Self {
            name: GateName::new(name),
            run: run.into(),
            timeout: DEFAULT_TIMEOUT,
            advisory: false,
            inputs: Vec::new(),
            writes: Vec::new(),
            retries: 0,
            order: GateOrder::AfterAllAbove,
            results: None,
            rerun: true,
        }
    }
}

/// When a gate may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateOrder {
    /// After every gate above it: the plain list, in order.
    AfterAllAbove,
    /// Together with its neighbours that are marked so (`parallel: true`).
    WithNeighbours,
    /// After these and no others (`needs: […]`).
    After(Vec<GateName>),
}

impl Gate {
    /// The digest that identifies the definition in receipt keys.
    pub fn definition(&self) -> Digest {
        let parts = (&self.name, &self.run, self.timeout, &self.inputs, self.retries, &self.writes);
        Digest::of(serde_json::to_vec(&parts).expect("strings and numbers are always JSON"))
    }
}

/// One gate's run, or the receipt that replaced it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    pub gate: GateName,
    pub run: String,
    pub outcome: GateOutcome,
    pub advisory: bool,
    #[serde(with = "crate::model::duration::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub took: Duration,
    /// How often it was run; 0 if a receipt was reused.
    pub runs: u32,
    /// The file with the full output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The informative part of the output: plain text, secrets and control tokens neutralised.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
    /// The failing tests and problems in its output and the test counts; none if nothing was recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Files of the tree that differ after this gate ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

impl GateReport {
    /// It passed only on a retry.
    pub fn flaky(&self) -> bool {
        self.outcome == GateOutcome::Passed && self.runs > 1
    }

    pub fn reused(&self) -> bool {
        self.outcome == GateOutcome::Passed && self.runs == 0
    }

    /// The failing tests and problems of a gate that did not pass.
    pub fn failures(&self) -> Vec<Failure<'_>> {
        if self.outcome == GateOutcome::Passed {
            return Vec::new();
        }
        self.results.as_ref().map(Results::failures).unwrap_or_default()
    }

    /// The result for the verdict; an advisory gate never blocks.
    pub fn answer(&self) -> CheckResult {
        if self.advisory { CheckResult::Pass } else { self.outcome.answer() }
    }
}
