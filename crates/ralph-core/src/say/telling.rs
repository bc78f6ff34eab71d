//! What the person is told about a session's loop, in their language: which banner a state is.

use crate::ledger::decide::Decision;
use crate::ledger::event::{PauseCause, Subject};
use crate::ledger::facts::{Facts, SessionStop};
use crate::ledger::state::{State, Status};
use crate::model::budget::Attempts;
use crate::model::finding::TasksSeen;
use crate::model::goal::Goal;
use crate::model::id::GateName;
use crate::model::language::Lang;
use crate::model::verdict::{LimitHit, Reason, Verdict};
use crate::say::banner::{self, Banner, Iteration, Progress, Proof};
use crate::say::lang::fill;

/// A loop and its task list at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Telling<'a> {
    pub state: &'a State,
    pub tasks: Option<&'a TasksSeen>,
    pub lang: Lang,
}

impl<'a> Telling<'a> {
    pub fn started(&self, gates: &[GateName]) -> String {
        let goal = self.state.goal.as_ref();
        let task = goal.map(Goal::headline).unwrap_or_default();
        let promise = goal.and_then(|goal| goal.promise.as_deref());
        let (iteration, progress, next) = (self.iteration(), self.progress(), self.next());
        self.boxed(&Banner::Started { task: &task, iteration, progress, next, promise, gates })
    }

    /// One line while it is held.
    pub fn running(&self, reason: &Reason) -> String {
        let failing = failing(reason);
        let promise = match reason {
            Reason::PromiseMissing { .. } => {
                self.state.goal.as_ref().and_then(|goal| goal.promise.as_deref())
            }
            _ => None,
        };
        let line = banner::one_line(
            &Banner::Running {
                iteration: self.iteration(),
                progress: self.progress(),
                next: self.next(),
                failing,
                promise,
                false_promises: self.state.false_promises,
            },
            self.lang,
        );
        match reason {
            Reason::GatesFailed { .. } | Reason::TasksOpen { .. } | Reason::PromiseMissing { .. } => line,
            other => format!("{line} · {}", sentence(other, self.lang)),
        }
    }

    /// How a loop ended, or why it waits for the person.
    pub fn let_go(&self, verdict: Verdict, reason: &Reason, limit: Option<LimitHit>) -> String {
        let (iteration, progress) = (self.iteration(), self.progress());
        let false_promises = self.state.false_promises;
        let proof = match (verdict, reason) {
            (Verdict::Verified, Reason::AllGatesPassedUnpromised) => Some(Proof::VerifiedWithoutPromise),
            (Verdict::Verified, _) => Some(Proof::Verified),
            (Verdict::Claimed, _) => Some(Proof::Claimed),
            _ => None,
        };
        if let Some(proof) = proof {
            return self.boxed(&Banner::Done { proof, iteration, progress, false_promises });
        }
        let failing = failing(reason);
        let banner = match limit {
            Some(LimitHit::NoProgress { equal }) => Banner::Stuck { equal, iteration, progress, failing },
            Some(LimitHit::ClientCap { cap }) => Banner::Capped { cap, iteration, progress, failing },
            // The errors themselves stand in it.
            Some(LimitHit::Errors { .. }) => return self.paused(),
            _ => return format!("{}\n\n{}", self.paused(), sentence(reason, self.lang)),
        };
        self.boxed(&banner)
    }

    /// Why it is paused, and how it goes on.
    pub fn paused(&self) -> String {
        let (iteration, progress) = (self.iteration(), self.progress());
        match &self.state.paused() {
            Some(PauseCause::Limit {
                limit: LimitHit::AgentCalls { most } | LimitHit::Attempts { most },
            }) => {
                let more = most / self.state.renewals.saturating_add(1);
                self.boxed(&Banner::Limit { most: *most, more, progress })
            }
            Some(PauseCause::Errors) => {
                let troubles = self.state.troubles.iter();
                let errors: Vec<_> = troubles.map(|error| (error.kind, error.what.clone())).collect();
                self.boxed(&Banner::Errors { errors: &errors, iteration, progress })
            }
            _ => self.boxed(&Banner::Paused { iteration, progress }),
        }
    }

    pub fn resumed(&self) -> String {
        let (iteration, progress, next) = (self.iteration(), self.progress(), self.next());
        self.boxed(&Banner::Resumed { iteration, progress, next })
    }

    /// The sentence that users of the official plugin know.
    pub fn cancelled(&self) -> String {
        banner::one_line(&Banner::Cancelled { n: current_iteration(self.state) }, self.lang)
    }

    pub fn waiting(&self, what: &str) -> String {
        fill(self.lang.words().waiting_for, &[("what", &what)])
    }

    /// For a session that finds a loop without one.
    pub fn is_here(&self) -> String {
        let task = self.state.goal.as_ref().map(Goal::headline).unwrap_or_default();
        fill(self.lang.words().paused_loop_here, &[("task", &task)])
    }

    /// A loop at a glance: labels and what they say.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let (state, words) = (self.state, self.lang.words());
        let mut rows = Vec::new();
        if let Some(goal) = &state.goal {
            rows.push((words.label_task, goal.headline()));
            rows.extend(goal.promise.clone().map(|promise| (words.label_promise, promise)));
        }
        let progress = self.progress();
        if progress.total > 0 {
            rows.push((
                words.label_tasks,
                format!("{}/{} {}", progress.done, progress.total, banner::bar(progress)),
            ));
        }
        let Iteration { n, most } = self.iteration();
        let most = most.map_or_else(|| words.unlimited.to_owned(), |most| most.to_string());
        rows.push((words.label_iteration, format!("#{n} / {most}")));
        rows.extend(self.next().map(|next| (words.label_next, next.to_owned())));
        if state.errors() > 0 {
            rows.push((words.label_errors, state.errors().to_string()));
        }
        let last = state.last.as_ref().map(|last| format!(": {}", sentence(&last.reason, self.lang)));
        rows.push((words.label_last, format!("{}{}", standing(state, self.lang), last.unwrap_or_default())));
        rows
    }

    fn boxed(&self, banner: &Banner<'_>) -> String {
        banner::boxed(banner, self.lang)
    }

    /// For a task list every agent call is an iteration, else every judged stop ends one.
    fn iteration(&self) -> Iteration {
        let limits = self.state.limits.as_ref();
        let calls = limits.and_then(|limits| limits.agent_calls.value);
        let attempts = match limits.map(|limits| limits.attempts.value) {
            Some(Attempts::AtMost(most)) => Some(most),
            Some(Attempts::Unlimited) | None => None,
        };
        let n = match calls {
            Some(_) => self.state.agent_calls(),
            None => self.state.attempts.max(self.state.drive.iterations),
        };
        Iteration { n, most: calls.or(attempts).map(|most| self.state.granted(most)) }
    }

    fn progress(&self) -> Progress {
        match self.tasks {
            Some(TasksSeen::List { done, total, .. }) => Progress { done: *done, total: *total },
            Some(TasksSeen::Trouble(_)) | None => Progress::default(),
        }
    }

    fn next(&self) -> Option<&'a str> {
        match self.tasks {
            Some(TasksSeen::List { next, .. }) => next.as_deref(),
            Some(TasksSeen::Trouble(_)) | None => None,
        }
    }
}

impl SessionStop {
    /// What there is to tell of a loop at this stop.
    pub fn telling<'a>(&'a self, state: &'a State, lang: Lang) -> Telling<'a> {
        Telling { state, tasks: self.tasks.as_ref(), lang }
    }
}

/// The iteration that a loop is in.
pub fn current_iteration(state: &State) -> u32 {
    let counts_calls = state.limits.as_ref().is_some_and(|limits| limits.agent_calls.value.is_some());
    if counts_calls { state.agent_calls().max(1) } else { state.attempts.saturating_add(1) }
}

fn failing(reason: &Reason) -> &[GateName] {
    match reason {
        Reason::GatesFailed { gates } | Reason::RedBefore { gates } => gates,
        _ => &[],
    }
}

/// What a guarded session hears when it is held.
pub fn guard_holds(facts: &Facts, attempt: Option<u32>, reason: &Reason, lang: Lang) -> String {
    let words = lang.words();
    let count = match (attempt, facts.limits.attempts.value) {
        (Some(n), Attempts::AtMost(most)) => fill(words.verdict_held_of, &[("n", &n), ("most", &most)]),
        _ => words.verdict_held.to_owned(),
    };
    match reason {
        Reason::GatesFailed { gates } => {
            format!("ralph: {count}. {}", fill(words.guard_held, &[("gates", &words.list(gates))]))
        }
        other => format!("ralph: {count}. {}", sentence(other, lang)),
    }
}

/// What it hears when it is let go.
pub fn guard_lets_go(decision: &Decision, lang: Lang) -> String {
    let words = lang.words();
    let Decision::LetGo { verdict, reason, .. } = decision else { return String::new() };
    match reason {
        Reason::RedBefore { gates } => {
            format!("ralph: {}", fill(words.guard_red_before, &[("gates", &words.list(gates))]))
        }
        reason => format!("ralph: {}. {}", verdict_word(*verdict, lang), sentence(reason, lang)),
    }
}

pub fn verdict_word(verdict: Verdict, lang: Lang) -> &'static str {
    let words = lang.words();
    match verdict {
        Verdict::Verified => words.verdict_verified,
        Verdict::Claimed => words.verdict_claimed,
        Verdict::Held => words.verdict_held,
        Verdict::Waiting => words.verdict_waiting,
        Verdict::Paused => words.verdict_paused,
        Verdict::Released => words.verdict_released,
        Verdict::Failed => words.verdict_failed,
        Verdict::Stuck => words.verdict_stuck,
        Verdict::Tampered => words.verdict_tampered,
        Verdict::Cancelled => words.verdict_cancelled,
        Verdict::NeedsHuman => words.verdict_needs_person,
    }
}

/// How a loop stands, in a word or two.
pub fn standing(state: &State, lang: Lang) -> String {
    let words = lang.words();
    match state.status {
        Status::Fresh => words.verdict_not_judged.to_owned(),
        Status::Paused { .. } => words.verdict_paused.to_owned(),
        Status::Ended { verdict } => verdict_word(verdict, lang).to_owned(),
        Status::Running if state.subject == Some(Subject::Session) && state.session.is_none() => {
            words.verdict_unbound.to_owned()
        }
        Status::Running if state.attempts == 0 => words.verdict_not_judged.to_owned(),
        Status::Running => match state.limits.as_ref().map(|limits| limits.attempts.value) {
            Some(Attempts::AtMost(most)) => {
                fill(words.verdict_held_of, &[("n", &state.attempts), ("most", &state.granted(most))])
            }
            Some(Attempts::Unlimited) | None => words.verdict_held.to_owned(),
        },
    }
}

/// A reason as a sentence for a person.
pub fn sentence(reason: &Reason, lang: Lang) -> String {
    let words = lang.words();
    match reason {
        Reason::AllGatesPassed => words.reason_all_gates_passed.to_owned(),
        Reason::AllGatesPassedUnpromised => words.promise_missing_but_verified.to_owned(),
        Reason::AllMarkersStated => words.reason_all_markers_stated.to_owned(),
        Reason::Promised | Reason::AllTasksTicked | Reason::NothingAsked => words.reason_claimed.to_owned(),
        Reason::GatesFailed { gates } => fill(words.reason_gates_failed, &[("gates", &words.list(gates))]),
        Reason::RedBefore { gates } => fill(words.guard_red_before, &[("gates", &words.list(gates))]),
        Reason::TreeNeverSettled { files } => {
            fill(words.reason_tree_never_settled, &[("files", &words.list(files))])
        }
        Reason::MarkersMissing { markers } => {
            fill(words.reason_markers_missing, &[("markers", &words.list(markers))])
        }
        Reason::Untidy { flaws } => fill(words.reason_untidy, &[("flaws", &words.list(flaws))]),
        Reason::Tidy => words.reason_tidy.to_owned(),
        Reason::TasksOpen { done, total } => {
            fill(words.tasks_open, &[("open", &(total - done)), ("total", total)])
        }
        Reason::PromiseMissing { .. } => words.reason_promise_missing.to_owned(),
        Reason::DefinitionChanged => words.reason_definition_changed.to_owned(),
        Reason::NotYet { what } => fill(words.reason_not_yet, &[("what", what)]),
        Reason::DefinitionRevoked => words.reason_definition_revoked.to_owned(),
        Reason::AcceptedSince => words.reason_accepted_since.to_owned(),
        Reason::PassedAfterFailing => words.reason_passed_after_failing.to_owned(),
        Reason::FilesMoved { files } => fill(words.reason_files_moved, &[("files", &words.list(files))]),
        Reason::GatesDidNotFit { gates } => {
            fill(words.reason_gates_did_not_fit, &[("gates", &words.list(gates))])
        }
        Reason::LedgerTampered { what } => fill(words.reason_ledger_tampered, &[("what", what)]),
        Reason::CannotTell { trouble } => fill(words.reason_cannot_tell, &[("why", trouble)]),
    }
}
