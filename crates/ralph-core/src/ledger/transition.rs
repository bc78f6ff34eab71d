//! What happens to a loop besides a stop: it is paused, carried on, cancelled; agents are called; something goes wrong.
//!
//! The same pure step as [`decide`](mod@crate::ledger::decide): the state and what happened in, what to remember out. Nothing to
//! remember means that it makes no difference to this loop.

use crate::claims::agent_report::AgentReport;
use crate::ledger::event::{CancelCause, Event, PauseCause, ProcessIdentity, TypedError};
use crate::ledger::state::{State, Status};
use crate::model::id::{AgentId, SessionId};
use crate::model::note::{MOST_NOTES, NoteValue};
use crate::model::verdict::LimitHit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    Pause(PauseCause),
    /// A person wants it to go on, in this session where one is known.
    Resume {
        by: Option<Carrier>,
    },
    Cancel(CancelCause),
    AgentCalled {
        agent: AgentId,
        name: String,
    },
    AgentFinished {
        agent: AgentId,
        name: String,
        report: Option<AgentReport>,
    },
    Error(TypedError),
    /// The session went away and is back, or goes on under another id.
    CarriedOn(Carrier),
    Note {
        key: String,
        value: NoteValue,
    },
    /// One more under that key.
    Count {
        key: String,
    },
    /// It ends if it has not, and its session has nothing to do with it any more.
    Forget,
}

/// The session that carries a loop, and the process of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    pub session: SessionId,
    pub client: Option<ProcessIdentity>,
}

impl Carrier {
    /// Whether nothing about it is new to the loop.
    fn carries(&self, state: &State) -> bool {
        // A caller that cannot tell which process its client is says nothing new about it.
        let same_client = self.client.is_none() || state.client == self.client;
        state.session.as_ref() == Some(&self.session) && same_client && state.gone.is_none()
    }

    fn event(&self) -> Event {
        Event::Bound { session: self.session.clone(), client: self.client.clone() }
    }
}

pub fn happen(state: &State, happening: &Happening) -> Vec<Event> {
    match happening {
        Happening::Pause(why) => pause(state, why),
        Happening::Resume { by } => resume(state, by.as_ref()),
        Happening::Cancel(why) => match state.status {
            Status::Running | Status::Paused { .. } => vec![Event::Cancelled { why: why.clone() }],
            Status::Fresh | Status::Ended { .. } => Vec::new(),
        },
        Happening::AgentCalled { agent, name } => {
            let known = !state.is_running() || state.agents.contains(agent);
            events_unless(known, Event::AgentCalled { agent: agent.clone(), name: name.clone() })
        }
        Happening::AgentFinished { agent, name, report } => {
            let (agent, name, report) = (agent.clone(), name.clone(), *report);
            events_unless(!state.is_running(), Event::AgentFinished { agent, name, report })
        }
        Happening::Error(error) => err(state, error),
        Happening::CarriedOn(carrier) => carry_on(state, carrier),
        Happening::Note { key, value } => note(state, key, value.clone()),
        Happening::Count { key } => {
            let first = NoteValue::Number(1.into());
            let count = state.notes.get(key).map_or(Some(first), NoteValue::one_more);
            count.map_or_else(Vec::new, |count| note(state, key, count))
        }
        Happening::Forget => forget(state),
    }
}

fn events_unless(makes_no_difference: bool, event: Event) -> Vec<Event> {
    if makes_no_difference { Vec::new() } else { vec![event] }
}

fn pause(state: &State, why: &PauseCause) -> Vec<Event> {
    let paused = |event| vec![event];
    match state.status {
        Status::Running => paused(Event::Paused { why: why.clone() }),
        // A guarded session is freed before it was ever held.
        Status::Fresh | Status::Ended { .. } if state.goal.is_none() => {
            paused(Event::Paused { why: why.clone() })
        }
        // It waits for the same as before, and any session may now claim it.
        Status::Paused { .. } if why.is_departure() && state.gone.is_none() => {
            paused(Event::Paused { why: why.clone() })
        }
        Status::Fresh | Status::Ended { .. } | Status::Paused { .. } => Vec::new(),
    }
}

/// What was used up is granted once more to a loop that stands at its limit.
fn resume(state: &State, by: Option<&Carrier>) -> Vec<Event> {
    let is_taken_over = by.is_some_and(|carrier| state.session.as_ref() != Some(&carrier.session));
    match state.status {
        Status::Paused { .. } => {}
        // Its session is gone without a word, or there never was one.
        Status::Running if is_taken_over => {}
        Status::Running | Status::Fresh | Status::Ended { .. } => return Vec::new(),
    }
    let renewed = matches!(
        state.paused(),
        Some(PauseCause::Limit { limit: LimitHit::Attempts { .. } | LimitHit::AgentCalls { .. } })
    );
    let bound = by.filter(|carrier| !carrier.carries(state));
    bound.map(Carrier::event).into_iter().chain([Event::Resumed { renewed }]).collect()
}

/// What is over is not added to, and nobody reads a thousand notes.
fn note(state: &State, key: &str, value: NoteValue) -> Vec<Event> {
    let is_open = state.is_open();
    let has_room = state.notes.contains_key(key) || state.notes.len() < MOST_NOTES;
    events_unless(!is_open || !has_room, Event::Noted { key: key.to_owned(), value })
}

fn forget(state: &State) -> Vec<Event> {
    let mut events = happen(state, &Happening::Cancel(CancelCause::Command));
    events.extend(events_unless(state.session.is_none(), Event::Unbound));
    events
}

/// First and second: remembered. One too many in a row: it waits for a person.
fn err(state: &State, error: &TypedError) -> Vec<Event> {
    if !state.is_running() {
        return Vec::new();
    }
    let in_a_row = state.errors().saturating_add(1);
    let most = state.limits.as_ref().map_or(DEFAULT_ERRORS, |limits| limits.errors.value);
    let mut events = vec![Event::Erred { error: error.clone(), in_a_row }];
    if in_a_row >= most {
        events.push(Event::Paused { why: PauseCause::Errors });
    }
    events
}

const DEFAULT_ERRORS: u32 = 3;

fn carry_on(state: &State, carrier: &Carrier) -> Vec<Event> {
    let mut events = Vec::new();
    let same = state.session.as_ref() == Some(&carrier.session);
    if !carrier.carries(state) {
        events.push(carrier.event());
    }
    match (&state.status, &state.paused()) {
        // Its own session is back.
        (Status::Paused { .. }, Some(PauseCause::SessionEnded { .. })) if same => {
            events.push(Event::Resumed { renewed: false });
        }
        (Status::Ended { .. } | Status::Fresh, _) => events.clear(),
        _ => {}
    }
    events
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::ledger::event::Subject;
    use crate::model::goal::Goal;
    use crate::model::layout::{Clocks, Layout};
    use crate::model::limits::Limits;
    use crate::model::loop_error::ErrorKind;
    use crate::model::preset;
    use crate::model::verdict::Verdict;

    fn started() -> State {
        let goal = Goal { task: "x".into(), promise: None, list: None, archive: false, lang: None };
        let mut state = State::default();
        take(
            &mut state,
            &Event::Began {
                subject: Subject::Session,
                session: Some(SessionId::new("s1")),
                task: None,
                layout: Layout::Native,
                preset: "tasks".into(),
                definition: None,
                limits: Limits::new(&preset::TASKS, Clocks { stale_after: None, clock: None }),
                goal: Some(goal),
                prompt: None,
                drive: None,
                rewritten: Vec::new(),
            },
        );
        state
    }

    fn take(state: &mut State, event: &Event) {
        state.apply(Timestamp::UNIX_EPOCH, event);
    }

    fn after(mut state: State, happenings: &[Happening]) -> State {
        for happening in happenings {
            for event in happen(&state, happening) {
                take(&mut state, &event);
            }
        }
        state
    }

    fn error(what: &str) -> Happening {
        Happening::Error(TypedError { kind: ErrorKind::AgentExecution, what: what.into() })
    }

    fn carrier(session: &str, client: i32) -> Carrier {
        Carrier { session: SessionId::new(session), client: Some(process(client)) }
    }

    fn process(number: i32) -> ProcessIdentity {
        ProcessIdentity { process: number, started: 1, boot: "b".into(), pid_namespace: None }
    }

    fn finished() -> Happening {
        let (agent, name) = (AgentId::new("a1"), "ralph-coder".into());
        Happening::AgentFinished { agent, name, report: Some(AgentReport::Reject) }
    }

    #[test]
    fn s1_r3_the_third_error_in_a_row_pauses_with_all_three() {
        let state = after(started(), &[error("one"), error("two")]);
        assert!(state.is_running());
        let state = after(state, &[error("three")]);
        assert_eq!(state.paused(), Some(&PauseCause::Errors));
        let told: Vec<_> = state.troubles.iter().map(|error| error.what.as_str()).collect();
        assert_eq!(told, ["one", "two", "three"]);
        // A paused loop counts nothing more.
        assert_eq!(after(state.clone(), &[error("four")]), state);
    }

    #[test]
    fn s1_r14_a_finished_agent_in_between_starts_the_errors_again() {
        let state =
            after(started(), &[error("one"), error("two"), finished(), error("three"), error("four")]);
        assert!(state.is_running());
        assert_eq!((state.errors(), state.troubles.len()), (2, 2));
        assert_eq!(state.last_report, Some(AgentReport::Reject));
    }

    #[test]
    fn s1_r18_resume_forgets_errors_and_keeps_iterations() {
        let called = Happening::AgentCalled { agent: AgentId::new("a1"), name: "ralph-coder".into() };
        let paused = after(started(), &[called, error("1"), error("2"), error("3")]);
        let state = after(paused, &[Happening::Resume { by: None }]);
        assert!(state.is_running());
        assert_eq!((state.errors(), state.agent_calls(), state.renewals), (0, 1, 0));
    }

    #[test]
    fn a_session_that_ends_leaves_its_loop_paused_and_goes_on_when_it_is_back() {
        let ended = PauseCause::SessionEnded { reason: "other".into() };
        let state = after(started(), &[Happening::Pause(ended)]);
        assert!(state.paused().is_some());
        let back = after(state.clone(), &[Happening::CarriedOn(carrier("s1", 7))]);
        assert_eq!((back.status, back.client), (Status::Running, Some(process(7))));
        // Another session has to ask for it.
        let other = after(state, &[Happening::CarriedOn(carrier("s2", 8))]);
        assert_eq!((other.paused().is_some(), other.session), (true, Some(SessionId::new("s2"))));
    }

    #[test]
    fn a_caller_that_does_not_know_its_client_keeps_the_recorded_one() {
        let state = after(started(), &[Happening::CarriedOn(carrier("s1", 7))]);
        let unknown = Carrier { client: None, ..carrier("s1", 7) };
        assert_eq!(after(state.clone(), &[Happening::CarriedOn(unknown)]).client, Some(process(7)));
        assert_eq!(after(state, &[Happening::CarriedOn(carrier("s1", 8))]).client, Some(process(8)));
    }

    #[test]
    fn what_a_person_paused_does_not_go_on_by_itself() {
        let state =
            after(started(), &[Happening::Pause(PauseCause::Word), Happening::CarriedOn(carrier("s1", 7))]);
        assert!(state.paused().is_some());
    }

    #[test]
    fn a_loop_that_was_paused_before_its_session_went_waits_for_the_same_as_before() {
        let ended = || Happening::Pause(PauseCause::SessionEnded { reason: "other".into() });
        let gone = after(started(), &[Happening::Pause(PauseCause::Word), ended()]);
        assert_eq!((gone.paused(), gone.gone.is_some()), (Some(&PauseCause::Word), true));
        // Said twice it says no more.
        assert_eq!(after(gone.clone(), &[ended()]), gone);
        let back = after(gone.clone(), &[Happening::CarriedOn(carrier("s1", 7))]);
        assert_eq!((back.paused().is_some(), &back.gone), (true, &None));
        let claimed = after(gone, &[Happening::Resume { by: Some(carrier("s2", 8)) }]);
        assert_eq!((claimed.status, &claimed.gone), (Status::Running, &None));
    }

    #[test]
    fn another_session_may_claim_what_runs_without_its_own() {
        let state = after(started(), &[error("one"), Happening::Resume { by: Some(carrier("s2", 8)) }]);
        assert_eq!((&state.status, state.errors()), (&Status::Running, 0));
        assert_eq!(state.session, Some(SessionId::new("s2")));
    }

    #[test]
    fn what_is_over_stays_over() {
        let over = after(started(), &[Happening::Cancel(CancelCause::Command)]);
        assert_eq!(over.status, Status::Ended { verdict: Verdict::Cancelled });
        let everything = [
            Happening::Pause(PauseCause::Word),
            Happening::Resume { by: Some(carrier("s2", 1)) },
            Happening::Cancel(CancelCause::Command),
            Happening::CarriedOn(carrier("s2", 1)),
            error("x"),
            finished(),
            noted("a", "b"),
            Happening::Count { key: "n".into() },
        ];
        assert_eq!(after(over.clone(), &everything), over);
    }

    fn noted(key: &str, value: &str) -> Happening {
        Happening::Note { key: key.into(), value: NoteValue::of(value) }
    }

    #[test]
    fn a_note_changes_nothing_but_the_notes() {
        let count = || Happening::Count { key: "iteration".into() };
        for before in [started(), after(started(), &[Happening::Pause(PauseCause::Word)])] {
            let story = [
                noted("verified_done", "true"),
                count(),
                count(),
                noted("status", "complete"),
                noted("a", "1"),
            ];
            let now = after(before.clone(), &story);
            let notes: Vec<_> = now.notes.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            let expected = [
                ("a", NoteValue::Number(1.into())),
                ("iteration", NoteValue::Number(2.into())),
                ("status", NoteValue::Text("complete".into())),
                ("verified_done", NoteValue::Bool(true)),
            ];
            assert_eq!(notes, expected);
            let rest = State { notes: before.notes.clone(), events: before.events, ..now };
            assert_eq!(rest, before);
        }
    }

    #[test]
    fn what_is_no_count_is_not_counted_and_notes_have_an_end() {
        for value in ["abc", "true", "-1", "0.5", "18446744073709551615"] {
            let before = after(started(), &[noted("n", value)]);
            assert_eq!(after(before.clone(), &[Happening::Count { key: "n".into() }]), before, "{value}");
        }
        let many: Vec<_> = (0..MOST_NOTES + 5).map(|n| noted(&format!("n{n}"), "x")).collect();
        let full = after(started(), &many);
        assert_eq!(full.notes.len(), MOST_NOTES);
        assert_eq!(after(full, &[noted("n0", "y")]).notes["n0"], NoteValue::Text("y".into()));
    }

    #[test]
    fn given_up_is_over_with_the_reason_and_forgotten_is_nobodys() {
        let failed = || Happening::Cancel(CancelCause::Failed { why: "no disk".into() });
        for before in [started(), after(started(), &[Happening::Pause(PauseCause::Word)])] {
            let over = after(before, &[failed()]);
            assert_eq!(over.status, Status::Ended { verdict: Verdict::Failed });
            assert_eq!((over.given_up.as_deref(), over.paused()), (Some("no disk"), None));
            let gone = after(over.clone(), &[Happening::Forget]);
            assert_eq!((&gone.status, &gone.session), (&over.status, &None));
            assert_eq!(after(gone.clone(), &[Happening::Forget]), gone);
        }
        let gone = after(started(), &[Happening::Forget]);
        assert_eq!((gone.status, &gone.session), (Status::Ended { verdict: Verdict::Cancelled }, &None));
    }

    fn any_happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            Just(Happening::Pause(PauseCause::Word)),
            Just(Happening::Pause(PauseCause::SessionEnded { reason: "x".into() })),
            Just(Happening::Resume { by: None }),
            (1..3_i32).prop_map(|n| Happening::Resume { by: Some(carrier(&format!("s{n}"), n)) }),
            (1..3_i32).prop_map(|n| Happening::CarriedOn(carrier(&format!("s{n}"), n))),
            (0..4_u8).prop_map(|n| Happening::AgentCalled {
                agent: AgentId::new(n.to_string()),
                name: "a".into()
            }),
            Just(finished()),
            Just(error("x")),
            Just(Happening::Cancel(CancelCause::Command)),
            Just(Happening::Cancel(CancelCause::Failed { why: "x".into() })),
            Just(noted("a", "b")),
            Just(Happening::Count { key: "n".into() }),
            Just(Happening::Forget),
        ]
    }

    proptest! {
        #[test]
        fn every_story_keeps_its_count_its_errors_below_the_limit_and_its_end(
            story in proptest::collection::vec(any_happening(), 0..40)
        ) {
            let mut state = started();
            for happening in story {
                let before = state.clone();
                state = after(state, &[happening]);
                prop_assert!(state.agent_calls() >= before.agent_calls());
                prop_assert!(state.errors() <= 3);
                if let Status::Ended { .. } = before.status {
                    prop_assert_eq!(&state.status, &before.status);
                }
            }
        }
    }
}
