//! Messages about a session's loop in the user's language, mostly banners.

use crate::ledger::decide::Decision;
use crate::ledger::event::{PauseCause, Subject};
use crate::ledger::facts::{Facts, SessionStop};
use crate::ledger::state::{State, Status};
use crate::model::budget::Attempts;
use crate::model::finding::TasksSeen;
use crate::model::goal::Goal;
use crate::model::id::GateName;
use crate::model::language::Lang;
use crate::model::ship::Until;
use crate::model::verdict::{LimitHit, Reason, Verdict};
use crate::say::banner::{self, Banner, DoneBecause, IterationCount, TaskProgress};
use crate::say::lang::fill;
use crate::say::words;

/// A loop and its task list at one moment.
#[derive(Clone, Copy, Debug)]
pub struct LoopTexts<'a> {
    pub state: &'a State,
    pub tasks: Option<&'a TasksSeen>,
    pub lang: Lang,
}

impl<'a> LoopTexts<'a> {
    pub fn started(&self, gates: &[GateName]) -> String {
        let goal = self.state.goal.as_ref();
        let task = goal.map(Goal::headline).unwrap_or_default();
        let promise = goal.and_then(|goal| goal.promise.as_deref());
        let (iteration, progress, next) = (self.iteration(), self.progress(), self.next());
        let started = self.boxed(&Banner::Started { task: &task, iteration, progress, next, promise, gates });
        let words = self.lang.words();
        let will = match goal.map(Goal::until).unwrap_or_default() {
            Until::Verified => None,
            Until::Pr => Some(words.will_open_pull_request),
            Until::Ci => Some(words.will_wait_for_ci),
            Until::Merged => Some(words.will_merge),
        };
        let started = will.map_or(started.clone(), |will| format!("{started}\n\n🚢 {will}"));
        match promise.filter(|_| goal.is_some_and(Goal::promises_what_is_unchecked)) {
            Some(promise) => {
                let note = fill(words.shipping_not_checked, &[("promise", &promise)]);
                format!("{started}\n\n⚠️ {note}")
            }
            None => started,
        }
    }

    /// One line while the session is blocked.
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
            other => format!("{line} · {}", words::reason_in(other, self.lang)),
        }
    }

    /// How a loop ended or why it is paused.
    pub fn released(&self, verdict: Verdict, reason: &Reason, limit: Option<LimitHit>) -> String {
        let (iteration, progress) = (self.iteration(), self.progress());
        let false_promises = self.state.false_promises;
        let proof = match (verdict, reason) {
            (Verdict::Verified, Reason::AllGatesPassedUnpromised) => {
                Some(DoneBecause::VerifiedWithoutPromise)
            }
            (Verdict::Verified, _) => Some(DoneBecause::Verified),
            (Verdict::Passing, _) => Some(DoneBecause::NotShown),
            (Verdict::Unchanged, _) => Some(DoneBecause::Unchanged),
            (Verdict::Claimed, Reason::ShippingNotChecked) => Some(DoneBecause::GatesPassedOnly),
            (Verdict::Claimed, _) => Some(DoneBecause::Claimed),
            _ => None,
        };
        if let (Verdict::Verified, Reason::Shipped { until, .. }) = (verdict, reason) {
            let how = words::reason_in(reason, self.lang);
            let (until, how) = (*until, how.as_str());
            return self.boxed(&Banner::Shipped { until, how, iteration, progress, false_promises });
        }
        if let Some(proof) = proof {
            let done = self.boxed(&Banner::Done { proof, iteration, progress, false_promises });
            // What is missing for *verified*, where that is known.
            return match reason {
                Reason::TaskNotShown { why } => format!("{done}\n\n{}", words::not_shown(why, self.lang)),
                _ => done,
            };
        }
        if let Reason::AgentBlocked { why } = reason {
            return self.boxed(&Banner::NeedsReview { why, iteration, progress });
        }
        let failing = failing(reason);
        let banner = match limit {
            Some(LimitHit::NoProgress { equal }) => return self.stuck(equal, failing),
            Some(LimitHit::ClientCap { cap }) => Banner::Capped { cap, iteration, progress, failing },
            // That banner lists the errors.
            Some(LimitHit::Errors { .. }) => return self.paused(),
            _ => return format!("{}\n\n{}", self.paused(), words::reason_in(reason, self.lang)),
        };
        self.boxed(&banner)
    }

    /// Why it is paused and how to continue.
    pub fn paused(&self) -> String {
        let (iteration, progress) = (self.iteration(), self.progress());
        match &self.state.paused() {
            Some(PauseCause::Limit {
                limit: LimitHit::AgentCalls { most } | LimitHit::Attempts { most },
            }) => {
                let more = most / self.state.renewals.saturating_add(1);
                self.boxed(&Banner::Limit { most: *most, more, progress })
            }
            Some(PauseCause::Limit { limit: LimitHit::NoProgress { equal } }) => {
                let reason = self.state.last.as_ref().map(|last| &last.reason);
                self.stuck(*equal, reason.map(failing).unwrap_or_default())
            }
            Some(PauseCause::Errors) => {
                let troubles = self.state.recent_errors.iter();
                let errors: Vec<_> = troubles.map(|error| (error.kind, error.what.clone())).collect();
                self.boxed(&Banner::Errors { errors: &errors, iteration, progress })
            }
            _ => self.boxed(&Banner::Paused { iteration, progress }),
        }
    }

    /// The user's own pause, also of a loop that a limit had paused: the same rest, and the same words resume it.
    pub fn paused_by_user(&self) -> String {
        match self.state.paused() {
            Some(PauseCause::Limit { .. }) => {
                self.boxed(&Banner::Paused { iteration: self.iteration(), progress: self.progress() })
            }
            _ => self.paused(),
        }
    }

    /// A paused loop can be resumed, and its banner says how.
    fn stuck(&self, equal: u32, failing: &[GateName]) -> String {
        let (iteration, progress) = (self.iteration(), self.progress());
        let banner = self.boxed(&Banner::Stuck { equal, iteration, progress, failing });
        match self.state.paused() {
            Some(_) => format!("{banner}\n\n💾 {}", self.lang.words().paused_saved),
            None => banner,
        }
    }

    pub fn resumed(&self) -> String {
        let (iteration, progress, next) = (self.iteration(), self.progress(), self.next());
        self.boxed(&Banner::Resumed { iteration, progress, next })
    }

    /// The sentence that the official plugin prints.
    pub fn cancelled(&self) -> String {
        banner::one_line(&Banner::Cancelled { n: current_iteration(self.state) }, self.lang)
    }

    pub fn waiting(&self, what: &str) -> String {
        if self.state.ship.wait.is_some() {
            return self.boxed(&Banner::Waiting { what, iteration: self.iteration() });
        }
        fill(self.lang.words().waiting_for, &[("what", &what)])
    }

    /// For a session that opens in a repo with a paused loop.
    pub fn is_here(&self) -> String {
        let task = self.state.goal.as_ref().map(Goal::headline).unwrap_or_default();
        fill(self.lang.words().paused_loop_here, &[("task", &task)])
    }

    /// The rows of a status table: label and value.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let (state, texts) = (self.state, self.lang.words());
        let mut rows = Vec::new();
        if let Some(goal) = &state.goal {
            rows.push((texts.label_task, goal.headline()));
            rows.extend(goal.promise.clone().map(|promise| (texts.label_promise, promise)));
        }
        let progress = self.progress();
        if progress.total > 0 {
            rows.push((
                texts.label_tasks,
                format!("{}/{} {}", progress.done, progress.total, banner::bar(progress)),
            ));
        }
        let IterationCount { n, most } = self.iteration();
        let most = most.map_or_else(|| texts.unlimited.to_owned(), |most| most.to_string());
        rows.push((texts.label_iteration, format!("#{n} / {most}")));
        rows.extend(self.next().map(|next| (texts.label_next, next.to_owned())));
        if state.errors() > 0 {
            rows.push((texts.label_errors, state.errors().to_string()));
        }
        let last = state.last.as_ref().map(|last| format!(": {}", words::reason_in(&last.reason, self.lang)));
        rows.push((
            texts.label_last,
            format!("{}{}", status_line(state, self.lang), last.unwrap_or_default()),
        ));
        rows
    }

    fn boxed(&self, banner: &Banner<'_>) -> String {
        banner::boxed(banner, self.lang)
    }

    /// For a task list every agent call is an iteration, and every failed stop without one; else every judged stop ends one.
    fn iteration(&self) -> IterationCount {
        let limits = self.state.limits.as_ref();
        let calls = limits.and_then(|limits| limits.agent_calls.value);
        let attempts = match limits.map(|limits| limits.attempts.value) {
            Some(Attempts::AtMost(most)) => Some(most),
            Some(Attempts::Unlimited) | None => None,
        };
        let n = match calls {
            Some(_) => self.state.task_iterations(),
            None => self.state.attempts.max(self.state.drive.iterations),
        };
        IterationCount { n, most: calls.or(attempts).map(|most| self.state.granted(most)) }
    }

    fn progress(&self) -> TaskProgress {
        match self.tasks {
            Some(TasksSeen::List { done, total, .. }) => TaskProgress { done: *done, total: *total },
            Some(TasksSeen::Trouble(_)) | None => TaskProgress::default(),
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
    /// The messages about a loop at this stop.
    pub fn texts<'a>(&'a self, state: &'a State, lang: Lang) -> LoopTexts<'a> {
        LoopTexts { state, tasks: self.tasks.as_ref(), lang }
    }
}

/// The current iteration of a loop.
pub fn current_iteration(state: &State) -> u32 {
    let counts_calls = state.limits.as_ref().is_some_and(|limits| limits.agent_calls.value.is_some());
    if counts_calls { state.task_iterations().max(1) } else { state.attempts.saturating_add(1) }
}

fn failing(reason: &Reason) -> &[GateName] {
    match reason {
        Reason::GatesFailed { gates } | Reason::FailingBefore { gates } => gates,
        _ => &[],
    }
}

/// The message for a guarded session that is blocked.
pub fn guard_blocks(facts: &Facts, attempt: Option<u32>, reason: &Reason, lang: Lang) -> String {
    let texts = lang.words();
    let count = match (attempt, facts.limits.attempts.value) {
        (Some(n), Attempts::AtMost(most)) => fill(texts.verdict_blocked_of, &[("n", &n), ("most", &most)]),
        _ => texts.verdict_blocked.to_owned(),
    };
    match reason {
        Reason::GatesFailed { gates } => {
            format!("ralph: {count}. {}", fill(texts.guard_blocked, &[("gates", &texts.list(gates))]))
        }
        other => format!("ralph: {count}. {}", words::reason_in(other, lang)),
    }
}

/// The message for a guarded session whose stop is allowed.
pub fn guard_allows(decision: &Decision, lang: Lang) -> String {
    let texts = lang.words();
    let Decision::Allow { verdict, reason, .. } = decision else { return String::new() };
    match reason {
        Reason::FailingBefore { gates } => {
            format!("ralph: {}", fill(texts.guard_failing_before, &[("gates", &texts.list(gates))]))
        }
        reason => format!("ralph: {}. {}", words::verdict(*verdict, lang), words::reason_in(reason, lang)),
    }
}

/// The status of a loop in a word or two.
pub fn status_line(state: &State, lang: Lang) -> String {
    let texts = lang.words();
    match state.status {
        Status::Fresh => texts.verdict_not_judged.to_owned(),
        Status::Paused { why: PauseCause::Limit { limit: LimitHit::NoProgress { .. } }, .. } => {
            texts.verdict_stuck.to_owned()
        }
        Status::Paused { .. } => texts.verdict_paused.to_owned(),
        Status::Ended { verdict } => words::verdict(verdict, lang).to_owned(),
        Status::Running if state.subject == Some(Subject::Session) && state.session.is_none() => {
            texts.verdict_unbound.to_owned()
        }
        Status::Running if state.attempts == 0 => texts.verdict_not_judged.to_owned(),
        Status::Running => match state.limits.as_ref().map(|limits| limits.attempts.value) {
            Some(Attempts::AtMost(most)) => {
                fill(texts.verdict_blocked_of, &[("n", &state.attempts), ("most", &state.granted(most))])
            }
            Some(Attempts::Unlimited) | None => texts.verdict_blocked.to_owned(),
        },
    }
}
