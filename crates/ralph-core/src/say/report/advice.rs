//! Recommendations and next steps of a report, derived from codes alone.

use std::collections::BTreeSet;

use super::phrase::{Phrase, one_line};
use super::{GateInIteration, GateMark, LoopEnding, LoopKind, LoopReport};
use crate::clients::suggested_rule::{self, NOT_SUGGESTED};
use crate::ledger::event::{CancelCause, PauseCause};
use crate::model::short_id::ShortId;
use crate::model::verdict::{EvaluationError, LimitHit, Reason, Verdict};

/// The most gates, rules and processes listed.
const MOST: usize = 10;

impl LoopReport {
    /// What would help the next attempt.
    pub(super) fn recommendations(&self) -> Vec<Phrase> {
        let mut advice: Vec<Phrase> = self.open_gates().take(MOST).map(about_gate).collect();
        advice.extend(self.missing_rules().into_iter().take(MOST).map(|rule| {
            if !suggested_rule::is_narrow(&rule) {
                return Phrase::new("").foreign(rule).words(format!(": {NOT_SUGGESTED}."));
            }
            Phrase::new("The agent was denied a tool call. To allow it, add to your own config: ")
                .code(format!("allow: [{}]", quoted(&rule)))
        }));
        advice.extend(self.ending.limit().and_then(raise));
        advice.extend(self.definition());
        let flaky: BTreeSet<&str> =
            self.seen().filter(|seen| seen.flaky).map(|seen| seen.gate.as_str()).collect();
        advice.extend(
            flaky.into_iter().take(MOST).map(|gate| {
                Phrase::new("Gate ").foreign(gate).words(" is flaky: it passed only on a retry.")
            }),
        );
        if self.iterations.iter().any(|row| !row.left_running.is_empty()) {
            advice.push(Phrase::new("The agent left processes running; they were killed. Servers it starts do not outlive an iteration."));
        }
        if let Some(branch) = self.iterations.iter().rev().find_map(|row| row.switched_to.as_deref()) {
            advice.push(Phrase::new("The agent switched to the branch ").foreign(branch).words("."));
        }
        if self.false_promises > 0 {
            let times = times(self.false_promises);
            advice.push(Phrase::new(format!("The agent gave a false promise {times}.")));
        }
        if !self.waits.is_empty() {
            let times = times(u32::try_from(self.waits.len()).unwrap_or(u32::MAX));
            advice.push(Phrase::new(format!("Waited for a usage limit {times}.")));
        }
        if let Some(after) = self.strategy_changed_after {
            advice.push(Phrase::new(format!(
                "Identical iterations: the strategy was changed after iteration {after}."
            )));
        }
        advice
    }

    /// What the user should do now.
    pub(super) fn next_steps(&self) -> Vec<Phrase> {
        let mut steps = match &self.ending {
            LoopEnding::Judged { verdict: Verdict::Verified, .. } => {
                return vec![Phrase::new("Review the changes and commit them.")];
            }
            LoopEnding::Judged { verdict: Verdict::Passing, .. } => {
                return vec![Phrase::new(
                    "Review the changes: the gates pass, but they do not show that the task is done.",
                )];
            }
            LoopEnding::Judged { verdict: Verdict::Unchanged, .. } => {
                return vec![
                    Phrase::new("No file was changed: if the task is not done, say more precisely what is missing and start ")
                        .code(self.start_command())
                        .words(" again."),
                ];
            }
            LoopEnding::Judged { verdict: Verdict::Claimed, .. } => {
                return vec![
                    Phrase::new("Nothing was checked: set up gates with ").code("ralph init").words("."),
                    Phrase::new("Then verify the work: ").code("ralph verify"),
                ];
            }
            LoopEnding::Open => {
                vec![self.resume("It has not ended. If its driver is gone, resume it: ")]
            }
            LoopEnding::Paused(why) => self.after_pause(why),
            LoopEnding::Cancelled(CancelCause::Replaced) => {
                vec![Phrase::new("Replaced by another loop.")]
            }
            LoopEnding::Cancelled(_) => {
                vec![self.again("The work so far is in the tree. To continue, start ")]
            }
            LoopEnding::Judged { verdict, limit, reason } => self.after_verdict(*verdict, *limit, reason),
        };
        steps.push(Phrase::new("See every step: ").code(format!("ralph log {}", ShortId::of(&self.id))));
        steps
    }

    fn after_pause(&self, why: &PauseCause) -> Vec<Phrase> {
        let resume = || self.resume("Resume it: ");
        match why {
            PauseCause::Denied { rule } if !suggested_rule::is_narrow(rule) => {
                vec![Phrase::new("").foreign(one_line(rule)).words(format!(": {NOT_SUGGESTED}.")), resume()]
            }
            PauseCause::Denied { rule } => vec![
                Phrase::new("If you want to allow this, add to your own config: ")
                    .code(format!("allow: [{}]", quoted(rule))),
                resume(),
            ],
            PauseCause::NotSignedIn { .. } => {
                vec![Phrase::new("Sign in with the agent's client, or set its API key."), resume()]
            }
            PauseCause::AgentCouldNotStart { .. } => {
                vec![Phrase::new("Install the agent's program, or choose another with --agent."), resume()]
            }
            PauseCause::Unproven => {
                vec![Phrase::new("Run the gates yourself: ").code("ralph verify --fresh"), resume()]
            }
            PauseCause::StillRunning { .. } => {
                vec![Phrase::new("Stop the processes that the agent left running."), resume()]
            }
            PauseCause::NoGates => {
                vec![Phrase::new("Review the gates and accept them: ").code("ralph trust"), resume()]
            }
            PauseCause::Errors => vec![Phrase::new("Fix what is listed under Errors."), resume()],
            PauseCause::Limit { limit: LimitHit::NoProgress { .. } } => vec![
                Phrase::new("Tell the agent what it is missing, or correct the gate if the gate is wrong."),
                resume(),
            ],
            PauseCause::Limit { .. } => vec![self.resume("Grant the same limit again and resume: ")],
            PauseCause::Word
            | PauseCause::Command
            | PauseCause::SessionEnded { .. }
            | PauseCause::Cleared { .. }
            | PauseCause::Interrupted => vec![resume()],
        }
    }

    fn after_verdict(&self, verdict: Verdict, limit: Option<LimitHit>, reason: &Reason) -> Vec<Phrase> {
        let by_hand = || {
            let log = self.open_gates().find_map(|seen| seen.log.as_deref());
            let look = Phrase::new("Run the gates yourself: ").code("ralph verify");
            match log {
                Some(log) => look.words("; the last output is in ").foreign(log),
                None => look,
            }
        };
        match (verdict, limit) {
            (Verdict::Tampered, _) if matches!(reason, Reason::LedgerTampered { .. }) => vec![
                Phrase::new(
                    "Another process wrote to ralph's files while the loop ran; check what the agent did: ",
                )
                .code(format!("ralph log {}", ShortId::of(&self.id))),
            ],
            (Verdict::NeedsHuman, _) if matches!(reason, Reason::AgentBlocked { .. }) => {
                vec![by_hand(), self.again("Correct the gate or the task, then start ")]
            }
            (Verdict::NeedsHuman, _) => vec![
                Phrase::new("Review the accepted gates: ").code("ralph trust --show"),
                self.again("If they are right, start "),
            ],
            (Verdict::Tampered, _) => vec![
                Phrase::new("The gate definition is not the accepted one. See the difference: ")
                    .code("ralph trust --show"),
                Phrase::new("Put the accepted one back: ").code("ralph trust --restore"),
            ],
            (Verdict::Stuck, _) => vec![
                by_hand(),
                self.again("Make the task smaller or clearer, or fix the gate if it is wrong; then start "),
            ],
            (_, Some(limit)) => vec![by_hand(), self.with_more(limit)],
            _ if *reason == Reason::DefinitionRevoked => {
                vec![Phrase::new("Accept the gates again: ").code("ralph trust")]
            }
            _ => vec![by_hand()],
        }
    }

    fn resume(&self, words: &str) -> Phrase {
        Phrase::new(words).code(format!("ralph resume {}", ShortId::of(&self.id)))
    }

    /// A driven loop that ended at a limit continues with more of it.
    fn with_more(&self, limit: LimitHit) -> Phrase {
        let more_of = match (self.kind, limit) {
            (LoopKind::Driver, LimitHit::Attempts { .. }) => "--max-iterations +10",
            (LoopKind::Driver, LimitHit::Cost { .. }) => "--max-cost +5",
            (LoopKind::Driver, LimitHit::Clock { .. }) => "--max-time +2h",
            _ => return self.again(more(limit)),
        };
        let short = ShortId::of(&self.id);
        Phrase::new("Continue with a higher limit: ").code(format!("ralph resume {short} {more_of}"))
    }

    fn again(&self, words: &str) -> Phrase {
        Phrase::new(words).code(self.start_command()).words(" again.")
    }

    fn start_command(&self) -> &'static str {
        match self.kind {
            LoopKind::Driver => "ralph loop",
            LoopKind::Session => "/ralph-loop",
        }
    }

    fn seen(&self) -> impl Iterator<Item = &GateInIteration> {
        self.iterations.iter().flat_map(|row| &row.gates)
    }

    /// Required gates that did not pass in their last run.
    pub(super) fn open_gates(&self) -> impl Iterator<Item = &GateInIteration> {
        let last = self.last_judged().map(|row| row.gates.as_slice()).unwrap_or_default();
        last.iter()
            .filter(|seen| !seen.advisory && matches!(seen.mark, GateMark::Failed | GateMark::NotEvaluated))
    }

    fn missing_rules(&self) -> BTreeSet<String> {
        self.iterations.iter().flat_map(|row| &row.denied).map(|denial| one_line(&denial.rule)).collect()
    }

    fn definition(&self) -> Option<Phrase> {
        let reason =
            self.iterations.iter().rev().find_map(|row| row.end.as_ref()).map(|(_, reason)| reason)?;
        match reason {
            Reason::DefinitionChanged => Some(
                Phrase::new("The gate definition in the repo is not the one that was accepted: ")
                    .code("ralph trust --show"),
            ),
            Reason::NotEvaluated { trouble: EvaluationError::Config { file, .. } } => {
                Some(Phrase::new("Fix ").foreign(file).words(": it cannot be read."))
            }
            _ => None,
        }
    }
}

fn about_gate(seen: &GateInIteration) -> Phrase {
    let gate = Phrase::new("Gate ").foreign(seen.gate.as_str());
    match seen.mark {
        GateMark::Failed | GateMark::Passed | GateMark::NotRun => match &seen.log {
            Some(log) => gate.words(" still fails; full output: ").foreign(log),
            None => gate.words(" still fails."),
        },
        GateMark::NotEvaluated => gate.words(" did not finish: fix its command or raise its timeout."),
    }
}

fn raise(limit: LimitHit) -> Option<Phrase> {
    let flag = match limit {
        LimitHit::Attempts { .. } | LimitHit::AgentCalls { .. } => "--max-iterations",
        LimitHit::Clock { .. } => "--max-time",
        LimitHit::Cost { .. } => "--max-cost",
        LimitHit::Errors { .. } | LimitHit::NoProgress { .. } | LimitHit::ClientCap { .. } => return None,
    };
    Some(Phrase::new("If it was making progress, raise ").code(flag).words("."))
}

fn more(limit: LimitHit) -> &'static str {
    match limit {
        LimitHit::Attempts { .. }
        | LimitHit::Clock { .. }
        | LimitHit::AgentCalls { .. }
        | LimitHit::Cost { .. } => "To continue, raise the limit and start ",
        LimitHit::Errors { .. } | LimitHit::NoProgress { .. } | LimitHit::ClientCap { .. } => {
            "To continue, start "
        }
    }
}

/// A rule as a value in YAML.
fn quoted(rule: &str) -> String {
    format!("\"{}\"", one_line(rule).replace('\\', "\\\\").replace('"', "\\\""))
}

fn times(count: u32) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}
