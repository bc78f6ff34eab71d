//! Transitions of a loop other than a stop: pause, resume, cancel, agent calls, errors.
//!
//! A pure step like [`decide`](mod@crate::ledger::decide): state and transition in, events out. No events means that it
//! has no effect on this loop.

use crate::claims::agent_report::AgentReport;
use crate::ledger::event::{CancelCause, Event, PauseCause, ProcessIdentity, TypedError};
use crate::ledger::state::{State, Status};
use crate::model::id::{AgentId, SessionId, TreeHash};
use crate::model::note::{MOST_NOTES, NoteValue};
use crate::model::verdict::LimitHit;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    Pause(PauseCause),
    /// The user resumes it, in this session if known.
    Resume {
        by: Option<AttachedSession>,
    },
    Cancel(CancelCause),
    AgentCalled {
        agent: AgentId,
        name: String,
        leads: bool,
        tree: Option<TreeHash>,
    },
    AgentFinished {
        agent: AgentId,
        name: String,
        report: Option<AgentReport>,
    },
    Error(TypedError),
    /// The session is back, or continues under another id.
    Reattached(AttachedSession),
    Note {
        key: String,
        value: NoteValue,
    },
    /// Increments the count under that key.
    Count {
        key: String,
    },
    /// Ends it if necessary and detaches its session.
    Forget,
}

/// The session attached to a loop and its client process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedSession {
    pub session: SessionId,
    pub client: Option<ProcessIdentity>,
}

impl AttachedSession {
    /// Whether the loop already has this attachment.
    fn is_attached_to(&self, state: &State) -> bool {
        // A caller that does not know its client process keeps the recorded one.
        let same_client = self.client.is_none() || state.client == self.client;
        state.session.as_ref() == Some(&self.session) && same_client && state.detached.is_none()
    }

    fn event(&self) -> Event {
        Event::Bound { session: self.session.clone(), client: self.client.clone() }
    }
}

pub fn apply(state: &State, transition: &Transition) -> Vec<Event> {
    match transition {
        Transition::Pause(why) => pause(state, why),
        Transition::Resume { by } => resume(state, by.as_ref()),
        Transition::Cancel(why) => match state.status {
            Status::Running | Status::Paused { .. } => vec![Event::Cancelled { why: why.clone() }],
            Status::Fresh | Status::Ended { .. } => Vec::new(),
        },
        Transition::AgentCalled { agent, name, leads, tree } => {
            let known = !state.is_running() || state.agents.contains(agent);
            let (agent, name, leads, tree) = (agent.clone(), name.clone(), *leads, tree.clone());
            events_unless(known, Event::AgentCalled { agent, name, leads, tree })
        }
        Transition::AgentFinished { agent, name, report } => {
            let (agent, name, report) = (agent.clone(), name.clone(), *report);
            events_unless(!state.is_running(), Event::AgentFinished { agent, name, report })
        }
        Transition::Error(error) => err(state, error),
        Transition::Reattached(attached) => reattach(state, attached),
        Transition::Note { key, value } => note(state, key, value.clone()),
        Transition::Count { key } => {
            let first = NoteValue::Number(1.into());
            let count = state.notes.get(key).map_or(Some(first), NoteValue::one_more);
            count.map_or_else(Vec::new, |count| note(state, key, count))
        }
        Transition::Forget => forget(state),
    }
}

fn events_unless(makes_no_difference: bool, event: Event) -> Vec<Event> {
    if makes_no_difference { Vec::new() } else { vec![event] }
}

fn pause(state: &State, why: &PauseCause) -> Vec<Event> {
    let paused = |event| vec![event];
    match state.status {
        Status::Running => paused(Event::Paused { why: why.clone() }),
        // A guarded session can be paused before its first stop.
        Status::Fresh | Status::Ended { .. } if state.goal.is_none() => {
            paused(Event::Paused { why: why.clone() })
        }
        // The cause stays, and any session may now claim it.
        Status::Paused { .. } if why.is_departure() && state.detached.is_none() => {
            paused(Event::Paused { why: why.clone() })
        }
        Status::Fresh | Status::Ended { .. } | Status::Paused { .. } => Vec::new(),
    }
}

/// A loop at its limit gets the limits granted again.
fn resume(state: &State, by: Option<&AttachedSession>) -> Vec<Event> {
    let is_taken_over = by.is_some_and(|attached| state.session.as_ref() != Some(&attached.session));
    match state.status {
        Status::Paused { .. } => {}
        // Its session left without an event, or there was none.
        Status::Running if is_taken_over => {}
        Status::Running | Status::Fresh | Status::Ended { .. } => return Vec::new(),
    }
    let renewed = matches!(
        state.paused(),
        Some(PauseCause::Limit { limit: LimitHit::Attempts { .. } | LimitHit::AgentCalls { .. } })
    );
    let bound = by.filter(|attached| !attached.is_attached_to(state));
    bound.map(AttachedSession::event).into_iter().chain([Event::Resumed { renewed }]).collect()
}

/// Ended loops take no notes, and their number is bounded.
fn note(state: &State, key: &str, value: NoteValue) -> Vec<Event> {
    let is_open = state.is_open();
    let has_room = state.notes.contains_key(key) || state.notes.len() < MOST_NOTES;
    events_unless(!is_open || !has_room, Event::Noted { key: key.to_owned(), value })
}

fn forget(state: &State) -> Vec<Event> {
    let mut events = apply(state, &Transition::Cancel(CancelCause::Command));
    events.extend(events_unless(state.session.is_none(), Event::Unbound));
    events
}

/// Records the error; at the error limit the loop is paused.
fn err(state: &State, error: &TypedError) -> Vec<Event> {
    if !state.is_running() {
        return Vec::new();
    }
    let in_a_row = state.errors().saturating_add(1);
    let most = state.limits.as_ref().map_or(DEFAULT_ERRORS, |limits| limits.errors.value);
    let mut events = vec![Event::ErrorSeen { error: error.clone(), in_a_row }];
    if in_a_row >= most {
        events.push(Event::Paused { why: PauseCause::Errors });
    }
    events
}

const DEFAULT_ERRORS: u32 = 3;

fn reattach(state: &State, attached: &AttachedSession) -> Vec<Event> {
    let mut events = Vec::new();
    let same = state.session.as_ref() == Some(&attached.session);
    if !attached.is_attached_to(state) {
        events.push(attached.event());
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
        let goal = Goal {
            task: "x".into(),
            promise: None,
            list: None,
            archive: false,
            lang: None,
            ship: None,
            proof: None,
            accept: Vec::new(),
        };
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

    fn after(mut state: State, happenings: &[Transition]) -> State {
        for transition in happenings {
            for event in apply(&state, transition) {
                take(&mut state, &event);
            }
        }
        state
    }

    fn error(what: &str) -> Transition {
        Transition::Error(TypedError { kind: ErrorKind::AgentExecution, what: what.into() })
    }

    fn attached(session: &str, client: i32) -> AttachedSession {
        AttachedSession { session: SessionId::new(session), client: Some(process(client)) }
    }

    fn process(number: i32) -> ProcessIdentity {
        ProcessIdentity { process: number, started: 1, boot: "b".into(), pid_namespace: None }
    }

    fn finished() -> Transition {
        let (agent, name) = (AgentId::new("a1"), "ralph-coder".into());
        Transition::AgentFinished { agent, name, report: Some(AgentReport::Reject) }
    }

    #[test]
    fn s1_r3_the_third_error_in_a_row_pauses_with_all_three() {
        let state = after(started(), &[error("one"), error("two")]);
        assert!(state.is_running());
        let state = after(state, &[error("three")]);
        assert_eq!(state.paused(), Some(&PauseCause::Errors));
        let texts: Vec<_> = state.recent_errors.iter().map(|error| error.what.as_str()).collect();
        assert_eq!(texts, ["one", "two", "three"]);
        // A paused loop counts nothing more.
        assert_eq!(after(state.clone(), &[error("four")]), state);
    }

    #[test]
    fn s1_r14_a_finished_agent_in_between_starts_the_errors_again() {
        let state =
            after(started(), &[error("one"), error("two"), finished(), error("three"), error("four")]);
        assert!(state.is_running());
        assert_eq!((state.errors(), state.recent_errors.len()), (2, 2));
        assert_eq!(state.last_report, Some(AgentReport::Reject));
    }

    #[test]
    fn s1_r18_resume_forgets_errors_and_keeps_iterations() {
        let called = Transition::AgentCalled {
            agent: AgentId::new("a1"),
            name: "ralph-coder".into(),
            leads: false,
            tree: None,
        };
        let paused = after(started(), &[called, error("1"), error("2"), error("3")]);
        let state = after(paused, &[Transition::Resume { by: None }]);
        assert!(state.is_running());
        assert_eq!((state.errors(), state.agent_calls(), state.renewals), (0, 1, 0));
    }

    #[test]
    fn a_loop_pauses_when_its_session_ends_and_resumes_when_it_returns() {
        let ended = PauseCause::SessionEnded { reason: "other".into() };
        let state = after(started(), &[Transition::Pause(ended)]);
        assert!(state.paused().is_some());
        let back = after(state.clone(), &[Transition::Reattached(attached("s1", 7))]);
        assert_eq!((back.status, back.client), (Status::Running, Some(process(7))));
        // Another session has to ask for it.
        let other = after(state, &[Transition::Reattached(attached("s2", 8))]);
        assert_eq!((other.paused().is_some(), other.session), (true, Some(SessionId::new("s2"))));
    }

    #[test]
    fn a_caller_without_a_client_process_keeps_the_recorded_one() {
        let state = after(started(), &[Transition::Reattached(attached("s1", 7))]);
        let unknown = AttachedSession { client: None, ..attached("s1", 7) };
        assert_eq!(after(state.clone(), &[Transition::Reattached(unknown)]).client, Some(process(7)));
        assert_eq!(after(state, &[Transition::Reattached(attached("s1", 8))]).client, Some(process(8)));
    }

    #[test]
    fn a_pause_by_the_user_is_not_resumed_automatically() {
        let state = after(
            started(),
            &[Transition::Pause(PauseCause::Word), Transition::Reattached(attached("s1", 7))],
        );
        assert!(state.paused().is_some());
    }

    #[test]
    fn a_pause_keeps_its_cause_when_the_session_leaves() {
        let ended = || Transition::Pause(PauseCause::SessionEnded { reason: "other".into() });
        let gone = after(started(), &[Transition::Pause(PauseCause::Word), ended()]);
        assert_eq!((gone.paused(), gone.detached.is_some()), (Some(&PauseCause::Word), true));
        // Repeating it has no effect.
        assert_eq!(after(gone.clone(), &[ended()]), gone);
        let back = after(gone.clone(), &[Transition::Reattached(attached("s1", 7))]);
        assert_eq!((back.paused().is_some(), &back.detached), (true, &None));
        let claimed = after(gone, &[Transition::Resume { by: Some(attached("s2", 8)) }]);
        assert_eq!((claimed.status, &claimed.detached), (Status::Running, &None));
    }

    #[test]
    fn another_session_may_claim_a_loop_without_a_session() {
        let state = after(started(), &[error("one"), Transition::Resume { by: Some(attached("s2", 8)) }]);
        assert_eq!((&state.status, state.errors()), (&Status::Running, 0));
        assert_eq!(state.session, Some(SessionId::new("s2")));
    }

    #[test]
    fn an_ended_loop_stays_ended() {
        let over = after(started(), &[Transition::Cancel(CancelCause::Command)]);
        assert_eq!(over.status, Status::Ended { verdict: Verdict::Cancelled });
        let everything = [
            Transition::Pause(PauseCause::Word),
            Transition::Resume { by: Some(attached("s2", 1)) },
            Transition::Cancel(CancelCause::Command),
            Transition::Reattached(attached("s2", 1)),
            error("x"),
            finished(),
            noted("a", "b"),
            Transition::Count { key: "n".into() },
        ];
        assert_eq!(after(over.clone(), &everything), over);
    }

    fn noted(key: &str, value: &str) -> Transition {
        Transition::Note { key: key.into(), value: NoteValue::of(value) }
    }

    #[test]
    fn a_note_changes_nothing_but_the_notes() {
        let count = || Transition::Count { key: "iteration".into() };
        for before in [started(), after(started(), &[Transition::Pause(PauseCause::Word)])] {
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
    fn only_counts_are_incremented_and_notes_are_bounded() {
        for value in ["abc", "true", "-1", "0.5", "18446744073709551615"] {
            let before = after(started(), &[noted("n", value)]);
            assert_eq!(after(before.clone(), &[Transition::Count { key: "n".into() }]), before, "{value}");
        }
        let many: Vec<_> = (0..MOST_NOTES + 5).map(|n| noted(&format!("n{n}"), "x")).collect();
        let full = after(started(), &many);
        assert_eq!(full.notes.len(), MOST_NOTES);
        assert_eq!(after(full, &[noted("n0", "y")]).notes["n0"], NoteValue::Text("y".into()));
    }

    #[test]
    fn giving_up_records_the_reason_and_forgetting_detaches_the_session() {
        let failed = || Transition::Cancel(CancelCause::Failed { why: "no disk".into() });
        for before in [started(), after(started(), &[Transition::Pause(PauseCause::Word)])] {
            let over = after(before, &[failed()]);
            assert_eq!(over.status, Status::Ended { verdict: Verdict::Failed });
            assert_eq!((over.cancelled_because.as_deref(), over.paused()), (Some("no disk"), None));
            let gone = after(over.clone(), &[Transition::Forget]);
            assert_eq!((&gone.status, &gone.session), (&over.status, &None));
            assert_eq!(after(gone.clone(), &[Transition::Forget]), gone);
        }
        let gone = after(started(), &[Transition::Forget]);
        assert_eq!((gone.status, &gone.session), (Status::Ended { verdict: Verdict::Cancelled }, &None));
    }

    fn any_transition() -> impl Strategy<Value = Transition> {
        prop_oneof![
            Just(Transition::Pause(PauseCause::Word)),
            Just(Transition::Pause(PauseCause::SessionEnded { reason: "x".into() })),
            Just(Transition::Resume { by: None }),
            (1..3_i32).prop_map(|n| Transition::Resume { by: Some(attached(&format!("s{n}"), n)) }),
            (1..3_i32).prop_map(|n| Transition::Reattached(attached(&format!("s{n}"), n))),
            (0..4_u8).prop_map(|n| Transition::AgentCalled {
                agent: AgentId::new(n.to_string()),
                name: "a".into(),
                leads: n == 0,
                tree: None,
            }),
            Just(finished()),
            Just(error("x")),
            Just(Transition::Cancel(CancelCause::Command)),
            Just(Transition::Cancel(CancelCause::Failed { why: "x".into() })),
            Just(noted("a", "b")),
            Just(Transition::Count { key: "n".into() }),
            Just(Transition::Forget),
        ]
    }

    proptest! {
        #[test]
        fn any_sequence_keeps_counts_error_limit_and_end(
            story in proptest::collection::vec(any_transition(), 0..40)
        ) {
            let mut state = started();
            for transition in story {
                let before = state.clone();
                state = after(state, &[transition]);
                prop_assert!(state.agent_calls() >= before.agent_calls());
                prop_assert!(state.errors() <= 3);
                if let Status::Ended { .. } = before.status {
                    prop_assert_eq!(&state.status, &before.status);
                }
            }
        }
    }
}
