//! A report written by hand about work outside a loop; its content is a claim.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::{VERSION, millis, texts};
use super::markdown::{Page, moment};
use super::phrase::Phrase;
use super::{ReportStatus, plain};
use crate::model::duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualReport {
    pub task: String,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub outcome: ManualOutcome,
    pub summary: String,
    pub recommendations: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualOutcome {
    Success,
    Failed,
    Partial,
}

impl ManualOutcome {
    pub fn status(self) -> ReportStatus {
        match self {
            // Nothing verified it.
            Self::Success => ReportStatus::CompletedUnverified,
            Self::Failed => ReportStatus::Failed,
            Self::Partial => ReportStatus::Partial,
        }
    }
}

impl ManualReport {
    pub fn markdown(&self) -> String {
        let mut page = Page::new(&plain(&self.task), self.outcome.status());
        page.section(
            "Summary",
            &[
                Phrase::new("Task: ").foreign(plain(&self.task)),
                Phrase::new("Claimed: ").foreign(plain(&self.summary)),
            ],
        );
        page.section(
            "Execution Details",
            &[
                Phrase::new(format!("Began: {}", moment(self.began))),
                Phrase::new(format!("Ended: {}", moment(self.ended))),
                Phrase::new(format!("Duration: {}", duration::show(self.duration()))),
                Phrase::new("Iterations: not counted"),
                Phrase::new("Files modified: unknown"),
            ],
        );
        page.heading("Results");
        page.subsection("Errors", &self.errors());
        page.subsection("Recommendations", &self.recommendations());
        page.section("Next Steps", &self.next_steps());
        page.text
    }

    pub fn json(&self) -> Value {
        json!({
            "version": VERSION,
            "action": "loop",
            "kind": "manual",
            "status": self.outcome.status().word(),
            "task": plain(&self.task),
            "summary": plain(&self.summary),
            "began": self.began,
            "ended": self.ended,
            "duration_ms": millis(self.duration()),
            "errors": texts(&self.errors()),
            "recommendations": texts(&self.recommendations()),
            "next_steps": texts(&self.next_steps()),
        })
    }

    fn duration(&self) -> Duration {
        Duration::try_from(self.ended.duration_since(self.began)).unwrap_or_default()
    }

    fn errors(&self) -> Vec<Phrase> {
        match self.outcome {
            ManualOutcome::Failed => vec![Phrase::default().foreign(plain(&self.summary))],
            ManualOutcome::Success | ManualOutcome::Partial => Vec::new(),
        }
    }

    fn recommendations(&self) -> Vec<Phrase> {
        let lines = self.recommendations.iter().flat_map(|text| text.lines());
        lines
            .filter(|line| !line.trim().is_empty())
            .map(|line| Phrase::default().foreign(plain(line)))
            .collect()
    }

    fn next_steps(&self) -> Vec<Phrase> {
        match self.outcome {
            ManualOutcome::Success => {
                vec![Phrase::new("This is a claim. Verify it: ").code("ralph verify")]
            }
            ManualOutcome::Failed | ManualOutcome::Partial => {
                vec![Phrase::new("To get it done and verified: ").code("ralph loop")]
            }
        }
    }
}
