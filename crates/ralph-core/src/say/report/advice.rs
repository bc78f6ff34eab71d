//! What a report recommends and what comes next, from codes alone.

use std::collections::BTreeSet;

use super::phrase::{Phrase, one_line};
use super::{Ending, GateSeen, LoopKind, LoopReport, Mark};
use crate::ledger::event::{CancelCause, PauseCause};
use crate::model::verdict::{LimitHit, Reason, Trouble, Verdict};

/// Of gates, rules and processes; more of them say no more.
const MOST: usize = 10;

impl LoopReport {
    /// What would make the next try go better.
    pub(super) fn recommendations(&self) -> Vec<Phrase> {
        let mut advice: Vec<Phrase> = self.open_gates().take(MOST).map(about_gate).collect();
        advice.extend(self.missing_rules().into_iter().take(MOST).map(|rule| {
            Phrase::new(
                "The agent was not allowed to do what it tried. To allow it, add to your own config: ",
            )
            .code(format!("allow: [{}]", quoted(&rule)))
        }));
        advice.extend(self.did_nothing());
        advice.extend(self.ending.limit().and_then(raise));
        advice.extend(self.definition());
        let flaky: BTreeSet<&str> =
            self.seen().filter(|seen| seen.flaky).map(|seen| seen.gate.as_str()).collect();
        advice.extend(flaky.into_iter().take(MOST).map(|gate| {
            Phrase::new("Gate ").foreign(gate).words(" is flaky: it passed only when it was tried again.")
        }));
        if self.iterations.iter().any(|row| !row.left_running.is_empty()) {
            advice.push(Phrase::new("The agent left processes running; they were ended. Servers that it starts do not outlive an iteration."));
        }
        if let Some(branch) = self.iterations.iter().rev().find_map(|row| row.switched_to.as_deref()) {
            advice.push(Phrase::new("The agent switched to the branch ").foreign(branch).words("."));
        }
        if self.false_promises > 0 {
            let times = times(self.false_promises);
            advice.push(Phrase::new(format!("The agent promised {times} what was not so.")));
        }
        if !self.waits.is_empty() {
            let times = times(u32::try_from(self.waits.len()).unwrap_or(u32::MAX));
            advice.push(Phrase::new(format!("A usage limit was waited for {times}.")));
        }
        if let Some(after) = self.strategy_changed_after {
            advice.push(Phrase::new(format!(
                "Iterations were equal: the strategy was changed after iteration {after}."
            )));
        }
        advice
    }

    /// What a verdict is worth that was there before the work began.
    pub(super) fn did_nothing(&self) -> Option<Phrase> {
        let is_verified = matches!(self.ending, Ending::Judged { verdict: Verdict::Verified, .. });
        let no_file = self.files.as_ref().is_some_and(Vec::is_empty);
        (is_verified && no_file).then(|| {
            Phrase::new("No file was changed: the gates would have passed before, and cannot tell whether this task is done.")
        })
    }

    /// What a person does now.
    pub(super) fn next_steps(&self) -> Vec<Phrase> {
        let mut steps = match &self.ending {
            Ending::Judged { verdict: Verdict::Verified, .. } => {
                return vec![Phrase::new("Look at the changes and commit them.")];
            }
            Ending::Judged { verdict: Verdict::Claimed, .. } => {
                return vec![
                    Phrase::new("Nothing was checked: set up gates with ").code("ralph init").words("."),
                    Phrase::new("Then see whether it is really done: ").code("ralph verify"),
                ];
            }
            Ending::Open => vec![self.resume("It has not ended. If nobody drives it any more, go on with ")],
            Ending::Paused(why) => self.after_pause(why),
            Ending::Cancelled(CancelCause::Replaced) => {
                vec![Phrase::new("Another loop took its place.")]
            }
            Ending::Cancelled(_) => vec![self.again("What was done so far is in the tree. To go on, start ")],
            Ending::Judged { verdict, limit, reason } => self.after_verdict(*verdict, *limit, reason),
        };
        steps.push(Phrase::new("See every step: ").code(format!("ralph log {}", self.id)));
        steps
    }

    fn after_pause(&self, why: &PauseCause) -> Vec<Phrase> {
        let go_on = || self.resume("Go on where it was: ");
        match why {
            PauseCause::Denied { rule } => vec![
                Phrase::new("Decide whether the agent may do this, and if so add to your own config: ")
                    .code(format!("allow: [{}]", quoted(rule))),
                go_on(),
            ],
            PauseCause::NotSignedIn { .. } => {
                vec![Phrase::new("Sign in with the agent's own client, or give it its key."), go_on()]
            }
            PauseCause::AgentCouldNotStart { .. } => {
                vec![Phrase::new("Install the agent's program, or name another with --agent."), go_on()]
            }
            PauseCause::Unproven => {
                vec![Phrase::new("Run the gates yourself: ").code("ralph verify --fresh"), go_on()]
            }
            PauseCause::StillRunning { .. } => {
                vec![Phrase::new("End what the agent left running."), go_on()]
            }
            PauseCause::NoGates => {
                vec![Phrase::new("Look at the gates and accept them: ").code("ralph trust"), go_on()]
            }
            PauseCause::Errors => vec![Phrase::new("Mend what stands under Errors."), go_on()],
            PauseCause::Limit { .. } => vec![self.resume("Grant as much once more and go on: ")],
            PauseCause::Word
            | PauseCause::Command
            | PauseCause::SessionEnded { .. }
            | PauseCause::Cleared { .. }
            | PauseCause::Interrupted => vec![go_on()],
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
                Phrase::new("Something wrote to ralph's own files while the loop ran; look at what the agent did: ")
                    .code(format!("ralph log {}", self.id)),
            ],
            (Verdict::NeedsHuman, _) => vec![
                Phrase::new("Look at the gates that are accepted now: ").code("ralph trust --show"),
                self.again("If they are what you want, start "),
            ],
            (Verdict::Tampered, _) => vec![
                Phrase::new("The gate definition is not the accepted one. See what was changed: ")
                    .code("ralph trust --show"),
            ],
            (Verdict::Stuck, _) => vec![
                by_hand(),
                self.again("Make the task smaller or clearer, or mend the gate if it is the gate that is wrong; then start "),
            ],
            (_, Some(limit)) => vec![by_hand(), self.again(more(limit))],
            _ if *reason == Reason::DefinitionRevoked => {
                vec![Phrase::new("Accept the gates again: ").code("ralph trust")]
            }
            _ => vec![by_hand()],
        }
    }

    fn resume(&self, words: &str) -> Phrase {
        Phrase::new(words).code(format!("ralph resume {}", self.id))
    }

    fn again(&self, words: &str) -> Phrase {
        let command = match self.kind {
            LoopKind::Driver => "ralph loop",
            LoopKind::Session => "/ralph-loop",
        };
        Phrase::new(words).code(command).words(" again.")
    }

    fn seen(&self) -> impl Iterator<Item = &GateSeen> {
        self.iterations.iter().flat_map(|row| &row.gates)
    }

    /// Required gates that did not pass when they were last looked at.
    pub(super) fn open_gates(&self) -> impl Iterator<Item = &GateSeen> {
        let last = self.last_judged().map(|row| row.gates.as_slice()).unwrap_or_default();
        last.iter().filter(|seen| !seen.advisory && matches!(seen.mark, Mark::Failed | Mark::CouldNotTell))
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
            Reason::CannotTell { trouble: Trouble::Config { file, .. } } => {
                Some(Phrase::new("Mend ").foreign(file).words(": it cannot be read."))
            }
            _ => None,
        }
    }
}

fn about_gate(seen: &GateSeen) -> Phrase {
    let gate = Phrase::new("Gate ").foreign(seen.gate.as_str());
    match seen.mark {
        Mark::Failed | Mark::Passed | Mark::NotRun => match &seen.log {
            Some(log) => gate.words(" still fails; its whole output: ").foreign(log),
            None => gate.words(" still fails."),
        },
        Mark::CouldNotTell => gate.words(" could not be run to its end: mend its command or its time limit."),
    }
}

fn raise(limit: LimitHit) -> Option<Phrase> {
    let flag = match limit {
        LimitHit::Attempts { .. } | LimitHit::AgentCalls { .. } => "--max-iterations",
        LimitHit::Clock { .. } => "--max-time",
        LimitHit::Cost { .. } => "--max-cost",
        LimitHit::Errors { .. } | LimitHit::NoProgress { .. } | LimitHit::ClientCap { .. } => return None,
    };
    Some(Phrase::new("If it was on a good way, give it more: raise ").code(flag).words("."))
}

fn more(limit: LimitHit) -> &'static str {
    match limit {
        LimitHit::Attempts { .. }
        | LimitHit::Clock { .. }
        | LimitHit::AgentCalls { .. }
        | LimitHit::Cost { .. } => "To give it more, raise the limit and start ",
        LimitHit::Errors { .. } | LimitHit::NoProgress { .. } | LimitHit::ClientCap { .. } => {
            "To go on, start "
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
