//! The steps of a story, and their readable form.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Everything that happens in one repo.
#[derive(Clone, Debug)]
pub(super) struct Story {
    /// Whether the repo has a gate; without one there are only claims.
    pub(super) gated: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Ann,
    Bob,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Login,
    Search,
}

impl Task {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Login => "fix the login",
            Self::Search => "speed up the search",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Plain(Plain),
    /// A stop with a slow gate, and an event in between.
    SlowStop(Who, Stop, Between),
    /// Both sessions stop at the same moment.
    BothStop(Stop, Stop),
    /// `kill -9` of the event's hook this many microseconds after it began.
    Killed(Who, Event, u16),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Between {
    /// `kill -9` of the hook.
    Kill,
    Happens(Plain),
}

/// A step that is over before the next one begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plain {
    In(Who, Event),
    Command(Command),
    DeleteFile,
    /// The gate passes from now on, or fails.
    Gate {
        green: bool,
    },
    /// The tree changes to one without receipts.
    Edit,
}

/// What happens in a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Start(Start),
    /// `/ralph-loop` and nothing else.
    StartBare,
    CancelCommand,
    Stop(Stop),
    SaysPause,
    SaysContinue,
    SaysOther,
    Begins,
    Ends,
    Clears,
    CallsAgent(u8),
    AgentEnds(u8),
    TurnFails,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) task: Task,
    pub(super) promise: bool,
    pub(super) most: Option<u32>,
    pub(super) replace: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) promised: bool,
    pub(super) after_tool: bool,
}

/// A command that the user types in a terminal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// `ralph start`: a loop without an attached session.
    Start(Task),
    Pause,
    Resume,
    Cancel,
    Reset,
}

pub(super) fn any_story() -> impl Strategy<Value = Story> {
    // Without a loop there is little to test: most stories begin with one.
    let first = option::weighted(0.9, any_start());
    (prop::bool::weighted(0.85), first, vec(any_step(), 5..=19)).prop_map(|(gated, first, rest)| {
        let first = first.map(|start| Step::Plain(Plain::In(Who::Ann, Event::Start(start))));
        Story { gated, steps: first.into_iter().chain(rest).collect() }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => any_plain().prop_map(Step::Plain),
        2 => (any_who(), any_stop(), any_between()).prop_map(|(who, stop, between)| Step::SlowStop(who, stop, between)),
        1 => (any_stop(), any_stop()).prop_map(|(ann, bob)| Step::BothStop(ann, bob)),
        1 => (any_who(), any_event_of_one_hook(), 0..12_000_u16)
            .prop_map(|(who, event, after)| Step::Killed(who, event, after)),
    ]
}

fn any_between() -> impl Strategy<Value = Between> {
    let quick = prop_oneof![
        3 => (any_who(), any_quick_event()).prop_map(|(who, event)| Plain::In(who, event)),
        1 => any_command().prop_map(Plain::Command),
        1 => Just(Plain::DeleteFile),
    ];
    prop_oneof![Just(Between::Kill), quick.prop_map(Between::Happens)]
}

fn any_plain() -> impl Strategy<Value = Plain> {
    prop_oneof![
        10 => (any_who(), any_quick_event()).prop_map(|(who, event)| Plain::In(who, event)),
        8 => (any_who(), any_stop()).prop_map(|(who, stop)| Plain::In(who, Event::Stop(stop))),
        2 => any_command().prop_map(Plain::Command),
        1 => Just(Plain::DeleteFile),
        2 => any::<bool>().prop_map(|green| Plain::Gate { green }),
        1 => Just(Plain::Edit),
    ]
}

/// Every event but a stop.
fn any_quick_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any_start().prop_map(Event::Start),
        1 => Just(Event::StartBare),
        1 => Just(Event::CancelCommand),
        2 => Just(Event::SaysPause),
        3 => Just(Event::SaysContinue),
        1 => Just(Event::SaysOther),
        1 => Just(Event::Begins),
        2 => Just(Event::Ends),
        1 => Just(Event::Clears),
        2 => (0..3_u8).prop_map(Event::CallsAgent),
        1 => (0..3_u8).prop_map(Event::AgentEnds),
        5 => Just(Event::TurnFails),
    ]
}

/// Every event that is a single call of the hook.
fn any_event_of_one_hook() -> impl Strategy<Value = Event> {
    let quick = any_quick_event().prop_map(|event| match event {
        Event::Clears => Event::Ends,
        other => other,
    });
    prop_oneof![4 => quick, 1 => any_stop().prop_map(Event::Stop)]
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        1 => any_task().prop_map(Command::Start),
        3 => Just(Command::Pause),
        3 => Just(Command::Resume),
        1 => Just(Command::Cancel),
        2 => Just(Command::Reset),
    ]
}

fn any_start() -> impl Strategy<Value = Start> {
    (any_task(), any::<bool>(), option::of(1..4_u32), prop::bool::weighted(0.2))
        .prop_map(|(task, promise, most, replace)| Start { task, promise, most, replace })
}

fn any_stop() -> impl Strategy<Value = Stop> {
    (any::<bool>(), any::<bool>()).prop_map(|(promised, after_tool)| Stop { promised, after_tool })
}

fn any_who() -> impl Strategy<Value = Who> {
    prop_oneof![Just(Who::Ann), Just(Who::Bob)]
}

fn any_task() -> impl Strategy<Value = Task> {
    prop_oneof![Just(Task::Login), Just(Task::Search)]
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(plain) => plain.fmt(f),
            Self::SlowStop(who, stop, between) => write!(f, "{who:?} {stop}; while the gate runs: {between}"),
            Self::BothStop(ann, bob) => write!(f, "Ann {ann} and at the same moment Bob {bob}"),
            Self::Killed(who, event, after) => {
                write!(f, "{who:?} {event}; kill -9 of the hook after {after} µs")
            }
        }
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill -9 of the hook"),
            Self::Happens(plain) => plain.fmt(f),
        }
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(who, event) => write!(f, "{who:?} {event}"),
            Self::Command(command) => command.fmt(f),
            Self::DeleteFile => f.write_str("the loop file is deleted"),
            Self::Gate { green: true } => f.write_str("the gate turns green"),
            Self::Gate { green: false } => f.write_str("the gate turns red"),
            Self::Edit => f.write_str("the tree is edited"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(start) => write!(f, "types /ralph-loop {start}"),
            Self::StartBare => f.write_str("types /ralph-loop"),
            Self::CancelCommand => f.write_str("types /cancel-ralph"),
            Self::Stop(stop) => stop.fmt(f),
            Self::SaysPause => f.write_str("says pause"),
            Self::SaysContinue => f.write_str("says continue"),
            Self::SaysOther => f.write_str("says something for the agent"),
            Self::Begins => f.write_str("begins or comes back"),
            Self::Ends => f.write_str("ends"),
            Self::Clears => f.write_str("types /clear"),
            Self::CallsAgent(n) => write!(f, "calls agent {n}"),
            Self::AgentEnds(n) => write!(f, "gets the report of agent {n}"),
            Self::TurnFails => f.write_str("fails in its turn"),
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.task.words())?;
        if self.promise {
            f.write_str(" --completion-promise DONE")?;
        }
        if let Some(most) = self.most {
            write!(f, " --max-iterations {most}")?;
        }
        f.write_str(if self.replace { " --replace" } else { "" })
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.promised { "stops with the promise" } else { "stops" };
        write!(f, "{how}{}", if self.after_tool { " after a tool call" } else { "" })
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(task) => write!(f, "$ ralph start {}", task.words()),
            Self::Pause => f.write_str("$ ralph pause"),
            Self::Resume => f.write_str("$ ralph resume"),
            Self::Cancel => f.write_str("$ ralph cancel"),
            Self::Reset => f.write_str("$ ralph reset"),
        }
    }
}
