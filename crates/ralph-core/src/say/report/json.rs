//! The report for scripts.

use serde_json::{Value, json};

use super::markdown::sentence;
use super::phrase::Phrase;
use super::{GateInIteration, LoopEnding, LoopKind, LoopReport, ReportIteration};
use crate::model::verdict::{LimitHit, Verdict};

/// Raised when the meaning of a key changes; keys are added, never renamed.
pub(super) const VERSION: u32 = 1;

impl LoopReport {
    pub fn json(&self) -> Value {
        let tokens = self.tokens().known();
        json!({
            "version": VERSION,
            "action": "loop",
            "loop": self.id,
            "kind": match self.kind {
                LoopKind::Driver => "driver",
                LoopKind::Session => "session",
            },
            "status": self.status().word(),
            "verdict": match &self.ending {
                LoopEnding::Judged { verdict, .. } => verdict.code(),
                ending => ending.word(),
            },
            "level": self.level(),
            "shown": self.shown,
            "reason": self.why(),
            "limit": self.ending.limit().map(LimitHit::code),
            "task": self.task,
            "agent": self.agent,
            "began": self.began,
            "ended": self.ended,
            "duration_ms": millis(self.duration()),
            "max_iterations": self.most_iterations,
            "iterations": self.iterations.iter().map(iteration).collect::<Vec<_>>(),
            "cost_micros": self.cost(),
            "tokens": tokens,
            "files_modified": self.files,
            "false_promises": self.false_promises,
            "strategy_changed_after": self.strategy_changed_after,
            "waits": self.waits.iter().map(|wait| json!({
                "from": wait.from, "until": wait.until, "why": wait.why,
            })).collect::<Vec<_>>(),
            "shipped": self.shipped,
            "errors": self.errors.iter().map(|fault| json!({
                "iteration": fault.iteration, "what": fault.what,
            })).collect::<Vec<_>>(),
            "recommendations": texts(&self.recommendations()),
            "next_steps": texts(&self.next_steps()),
        })
    }
}

impl LoopReport {
    /// *verified*, *passing* or *unchanged*; null while the gates have not passed.
    fn level(&self) -> Option<&'static str> {
        match &self.ending {
            LoopEnding::Judged { verdict, .. } => {
                Some(*verdict).filter(|verdict| verdict.gates_passed()).map(Verdict::code)
            }
            _ => None,
        }
    }
}

fn iteration(row: &ReportIteration) -> Value {
    json!({
        "number": row.number,
        "agent": row.agent,
        "took_ms": row.took.map(millis),
        "cost_micros": row.cost,
        "tokens": row.tokens.known(),
        "denied": row.denied,
        "left_running": row.left_running,
        "switched_to": row.switched_to,
        "commit": row.commit,
        "gates": row.gates.iter().map(gate).collect::<Vec<_>>(),
        "verdict": row.end.as_ref().map(|(verdict, _)| verdict),
        "reason": row.end.as_ref().map(|(_, reason)| reason.code()),
        "sentence": row.end.as_ref().map(|(_, reason)| sentence(reason)),
    })
}

fn gate(seen: &GateInIteration) -> Value {
    json!({
        "gate": seen.gate,
        "mark": seen.mark.code(),
        "advisory": seen.advisory,
        "flaky": seen.flaky,
        "log": seen.log,
        "failing": seen.failing.lines,
        "failing_more": seen.failing.more,
        "counts": seen.failing.counts,
    })
}

pub(super) fn texts(phrases: &[Phrase]) -> Vec<String> {
    phrases.iter().map(Phrase::text).collect()
}

pub(super) fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
