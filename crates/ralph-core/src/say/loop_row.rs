//! A loop in one line of a list: state, task, agent, iterations, time, cost.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::ledger::event::{PauseCause, Subject};
use crate::ledger::loop_choice;
use crate::ledger::state::{State, Status};
use crate::model::duration;
use crate::model::id::LoopId;
use crate::model::language::Lang;
use crate::model::money::Micros;
use crate::model::verdict::{LimitHit, Verdict};
use crate::say::banner::IterationCount;
use crate::say::loop_texts::{self, LoopTexts};
use crate::say::words;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoopRow {
    pub id: LoopId,
    /// The name to type, unique among the repo's loops.
    pub short: String,
    /// For scripts.
    pub state: &'static str,
    /// The same for people, in their language.
    #[serde(skip)]
    pub shown_state: String,
    /// The task in one line, if there is one.
    pub task: String,
    pub agent: String,
    pub iterations: u32,
    /// None: no limit.
    pub max_iterations: Option<u32>,
    #[serde(with = "duration::seconds")]
    pub elapsed: Duration,
    /// None where the agent reports no cost.
    pub cost_micros: Option<Micros>,
    pub last_activity: Option<Timestamp>,
}

impl LoopRow {
    /// `is_driven` says whether a process drives it now.
    pub fn new(id: &LoopId, short: &str, state: &State, is_driven: bool, lang: Lang, now: Timestamp) -> Self {
        let IterationCount { n, most } = LoopTexts { state, tasks: None, lang }.iteration();
        let until = if state.is_open() { Some(now) } else { state.last_activity };
        let words = loop_choice::task(state).or(state.prompt.as_deref()).unwrap_or_default();
        let state_word = state_word(state, is_driven);
        let is_running = state.is_running() && matches!(state_word, "running" | "interrupted");
        let options = state.drive.options.as_ref();
        Self {
            id: id.clone(),
            short: short.to_owned(),
            state: state_word,
            shown_state: if is_running {
                state_word.to_owned()
            } else {
                loop_texts::status_line(state, lang)
            },
            task: words.split_whitespace().collect::<Vec<_>>().join(" "),
            agent: match (options, &state.subject) {
                (Some(options), _) => options.agent.clone(),
                (None, Some(subject)) => subject.name().to_owned(),
                (None, None) => String::new(),
            },
            iterations: n,
            max_iterations: most,
            elapsed: Duration::from_secs(until.map_or(0, |until| state.seconds_at_work(until))),
            cost_micros: (state.drive.cost > Micros::ZERO).then_some(state.drive.cost),
            last_activity: state.last_activity,
        }
    }

    /// `3/15`, or `3` without a limit.
    pub fn count(&self) -> String {
        self.max_iterations
            .map_or_else(|| self.iterations.to_string(), |most| format!("{}/{most}", self.iterations))
    }
}

/// The state in a word or two.
fn state_word(state: &State, is_driven: bool) -> &'static str {
    match &state.status {
        Status::Fresh => "not judged",
        Status::Running if state.subject == Some(Subject::Driver) && !is_driven => "interrupted",
        Status::Running if state.subject == Some(Subject::Driver) || state.attempts == 0 => "running",
        Status::Running => words::verdict_in_report(Verdict::Blocked),
        Status::Paused { why: PauseCause::Limit { limit: LimitHit::NoProgress { .. } }, .. } => {
            words::verdict_in_report(Verdict::Stuck)
        }
        Status::Paused { .. } => words::verdict_in_report(Verdict::Paused),
        Status::Ended { verdict } => words::verdict_in_report(*verdict),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_a_word_or_two() {
        let since = Timestamp::UNIX_EPOCH;
        let stuck = PauseCause::Limit { limit: LimitHit::NoProgress { equal: 3 } };
        let driver = |status| State { status, subject: Some(Subject::Driver), ..State::default() };
        let session =
            |status, attempts| State { attempts, subject: Some(Subject::Session), ..driver(status) };
        let table = [
            (driver(Status::Running), true, "running"),
            (driver(Status::Running), false, "interrupted"),
            (session(Status::Running, 0), false, "running"),
            (session(Status::Running, 2), false, "blocked"),
            (driver(Status::Paused { why: PauseCause::Word, since }), false, "paused"),
            (session(Status::Paused { why: stuck, since }, 3), false, "stuck"),
            (driver(Status::Ended { verdict: Verdict::Verified }), false, "verified"),
            (driver(Status::Ended { verdict: Verdict::Released }), false, "released unverified"),
            (State::default(), false, "not judged"),
        ];
        for (state, is_driven, word) in table {
            assert_eq!(state_word(&state, is_driven), word, "{:?}", state.status);
        }
    }

    #[test]
    fn an_ended_loop_shows_the_time_it_took() {
        let at = |seconds| Timestamp::from_second(seconds).expect("a time");
        let mut state = State { started_at: Some(at(100)), last_activity: Some(at(160)), ..State::default() };
        let row = |state: &State| LoopRow::new(&LoopId::new("x"), "bcdf", state, false, Lang::En, at(1_000));
        state.status = Status::Ended { verdict: Verdict::Failed };
        assert_eq!(row(&state).elapsed, Duration::from_secs(60));
        state.status = Status::Running;
        assert_eq!(row(&state).elapsed, Duration::from_secs(900));
        assert_eq!((row(&state).count().as_str(), row(&state).cost_micros), ("0", None));
    }
}
