//! The expected behaviour, written from the rules of the session loop only: no code of the program is used
//! here.

use std::collections::{BTreeMap, BTreeSet};

use super::step::{Command, Event, Plain, Start, Stop, Task, Who};

/// Three equal stops mean stuck.
const EQUAL_STOPS: u32 = 3;

/// The client overrides a hook after this many blocks without a tool call.
const CLIENT_CAP: u32 = 8;

/// This many errors in a row pause.
const ERRORS: u32 = 3;

#[derive(Clone, Debug)]
pub(super) struct Model {
    gated: bool,
    green: bool,
    edits: u32,
    ann: Session,
    bob: Session,
    /// Sessions whose loop ended outside their stops since they last stopped.
    freed: BTreeMap<String, Freed>,
    /// In the order in which they began.
    pub(super) loops: Vec<Loop>,
    /// The loop that the file in the repo shows.
    pub(super) shown: Option<usize>,
    /// The loops that the last step may have shown.
    pub(super) touched: BTreeSet<usize>,
    waiting: BTreeMap<String, Waiting>,
    /// Sessions whose pending notices are unknown, after a kill.
    unsure: BTreeSet<String>,
    /// Whether a kill may have come between a loop and its file.
    pub(super) file_is_unsure: bool,
}

#[derive(Clone, Debug)]
struct Session {
    /// A cleared session continues under another name.
    generation: u32,
    is_there: bool,
    tool_calls: u32,
}

/// A notice that a session has not received yet, by words in it.
#[derive(Clone, Debug, Default)]
struct Waiting {
    user: Vec<String>,
    agent: Vec<String>,
}

#[expect(clippy::struct_excessive_bools, reason = "four questions that have nothing to do with each other")]
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) task: Task,
    promise: bool,
    most: Option<u32>,
    pub(super) session: Option<String>,
    /// The session announced its end, and has not come back.
    session_is_gone: bool,
    pub(super) status: LoopStatus,
    pub(super) attempts: u32,
    pub(super) agents: BTreeSet<String>,
    pub(super) errors: u32,
    pub(super) false_promises: u32,
    pub(super) renewals: u32,
    /// Its file was deleted and this was not detected yet.
    file_deleted: bool,
    promise_asked: bool,
    last: Option<BlockedStop>,
    equal: u32,
    idle: u32,
    /// An agent was called for the first time since the last judged stop.
    called_agent: bool,
    /// The files where it began.
    start: (bool, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopStatus {
    Running,
    Paused(Cause),
    Ended(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    User,
    SessionEnded,
    Cleared,
    /// Continuing grants the same budget again.
    Limit,
    ClientCap,
    Stuck,
    Errors,
}

/// A blocked stop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockedStop {
    tree: Option<(bool, u32)>,
    gate_failed: bool,
    tool_call: Option<(String, u32)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) reply: Reply,
    /// Words that must be somewhere in it.
    pub(super) says: Vec<String>,
    /// It may contain more than that.
    pub(super) or_more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Silent,
    Blocked,
    /// A message to the user or the agent, and no block.
    Told,
    /// The hook answers the user itself; the agent is not called.
    Answered,
}

impl Expected {
    fn silent() -> Self {
        Self { reply: Reply::Silent, says: Vec::new(), or_more: false }
    }

    fn new(reply: Reply, says: impl Into<String>) -> Self {
        Self { reply, says: vec![says.into()], or_more: false }
    }
}

/// Whether a session must still read that its loop ended outside its stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freed {
    Surely,
    /// A hook was killed on the way.
    Perhaps,
}

impl Freed {
    fn reported_beside(self, mut expected: Expected) -> Expected {
        match self {
            Self::Perhaps => expected.or_more = true,
            Self::Surely => {
                expected.says.push("ended outside a stop".into());
                if expected.reply == Reply::Silent {
                    expected.reply = Reply::Told;
                }
            }
        }
        expected
    }
}

/// Who can receive pending notices, by the kind of event.
#[derive(Clone, Copy)]
struct Recipients {
    user: bool,
    agent: bool,
}

/// What the model takes from the real binary where several results are right.
pub(super) trait Choices {
    /// Whether the real loop is cancelled.
    fn is_cancelled(&self, index: usize) -> bool;
    /// Whether the real loop belongs to that session.
    fn is_attached_to(&self, index: usize, session: &str) -> bool;
}

impl Loop {
    fn new(task: Task, promise: bool, most: Option<u32>, session: Option<String>) -> Self {
        Self {
            task,
            promise,
            most,
            session,
            session_is_gone: false,
            status: LoopStatus::Running,
            attempts: 0,
            agents: BTreeSet::new(),
            errors: 0,
            false_promises: 0,
            renewals: 0,
            file_deleted: false,
            promise_asked: false,
            last: None,
            equal: 0,
            idle: 0,
            called_agent: false,
            start: (false, 0),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.status == LoopStatus::Running
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(self.status, LoopStatus::Ended(_))
    }

    fn is_without_session(&self) -> bool {
        self.session.is_none() || self.session_is_gone
    }

    pub(super) fn iteration(&self) -> u32 {
        self.attempts + 1
    }

    fn pause(&mut self, cause: Cause) -> bool {
        let runs = self.is_running();
        if runs {
            self.status = LoopStatus::Paused(cause);
        }
        runs
    }

    /// Errors are forgotten, everything else is kept.
    fn resume(&mut self) {
        self.renewals += u32::from(self.status == LoopStatus::Paused(Cause::Limit));
        self.status = LoopStatus::Running;
        self.errors = 0;
        self.equal = 0;
        self.last = None;
        self.idle = 0;
    }

    fn attached_to(&mut self, session: &str) {
        self.session = Some(session.to_owned());
        self.session_is_gone = false;
        self.idle = 0;
    }

    fn count_again(&mut self) {
        let fresh = Self::new(self.task, self.promise, self.most, self.session.clone());
        *self = Self { session_is_gone: self.session_is_gone, start: self.start, ..fresh };
    }

    fn cancelled_line(&self) -> String {
        format!("Cancelled Ralph loop (was at iteration {})", self.iteration())
    }
}

impl Model {
    pub(super) fn new(gated: bool) -> Self {
        let session = Session { generation: 0, is_there: true, tool_calls: 0 };
        Self {
            gated,
            green: false,
            edits: 0,
            ann: session.clone(),
            bob: session,
            loops: Vec::new(),
            freed: BTreeMap::new(),
            shown: None,
            touched: BTreeSet::new(),
            waiting: BTreeMap::new(),
            unsure: BTreeSet::new(),
            file_is_unsure: false,
        }
    }

    fn session(&self, who: Who) -> &Session {
        match who {
            Who::Ann => &self.ann,
            Who::Bob => &self.bob,
        }
    }

    fn session_mut(&mut self, who: Who) -> &mut Session {
        match who {
            Who::Ann => &mut self.ann,
            Who::Bob => &mut self.bob,
        }
    }

    pub(super) fn name(&self, who: Who) -> String {
        format!("{who:?}-{}", self.session(who).generation).to_lowercase()
    }

    pub(super) fn name_after_clear(&self, who: Who) -> String {
        format!("{who:?}-{}", self.session(who).generation + 1).to_lowercase()
    }

    /// A session that is gone has to come back before any other event.
    pub(super) fn possible(&self, plain: Plain) -> Plain {
        match plain {
            Plain::In(who, _) if !self.session(who).is_there => Plain::In(who, Event::Begins),
            // Its owner could not be determined.
            Plain::DeleteFile if self.file_is_unsure => Plain::Edit,
            other => other,
        }
    }

    /// Which of both is judged when stopping, preferring this one.
    pub(super) fn who_is_blocked(&self, who: Who) -> Who {
        let other = match who {
            Who::Ann => Who::Bob,
            Who::Bob => Who::Ann,
        };
        let blocked = |who: Who| self.own(&self.name(who)).is_some_and(|own| self.loops[own].is_running());
        if blocked(other) && !blocked(who) { other } else { who }
    }

    pub(super) fn is_there(&self, who: Who) -> bool {
        self.session(who).is_there
    }

    pub(super) fn own(&self, session: &str) -> Option<usize> {
        self.loops.iter().position(|one| one.is_open() && one.session.as_deref() == Some(session))
    }

    fn open(&self) -> Vec<usize> {
        (0..self.loops.len()).filter(|index| self.loops[*index].is_open()).collect()
    }

    fn orphans(&self) -> Vec<usize> {
        self.open().into_iter().filter(|index| self.loops[*index].is_without_session()).collect()
    }

    /// Another step begins.
    pub(super) fn begin_step(&mut self) {
        self.touched.clear();
    }

    /// A tool was called in the session since its last stop.
    pub(super) fn call_tool(&mut self, who: Who) -> u32 {
        let session = self.session_mut(who);
        session.tool_calls += 1;
        session.tool_calls
    }

    pub(super) fn take(&mut self, plain: Plain, choices: &dyn Choices) -> Expected {
        self.detect_deletions(plain, choices);
        match plain {
            Plain::In(who, event) => self.event(who, event, choices),
            Plain::Command(command) => self.command(command),
            Plain::DeleteFile => {
                if let Some(shown) = self.shown.take() {
                    self.loops[shown].file_deleted = true;
                }
                Expected::silent()
            }
            Plain::Gate { green } => {
                self.green = green;
                Expected::silent()
            }
            Plain::Edit => {
                self.edits += 1;
                Expected::silent()
            }
        }
    }

    /// Deleting the file of a loop cancels it. Sessions of that loop must detect it; others may.
    fn detect_deletions(&mut self, plain: Plain, choices: &dyn Choices) {
        for index in self.open() {
            let must = match plain {
                // A stop may contain the promise, which makes it a claim.
                Plain::In(_, Event::Stop(_)) => false,
                Plain::In(who, event) => {
                    let own = self.loops[index].session == Some(self.name(who));
                    own && !matches!(event, Event::SaysOther)
                }
                Plain::Command(Command::Start(_)) => false,
                Plain::Command(_) => true,
                Plain::DeleteFile | Plain::Gate { .. } | Plain::Edit => continue,
            };
            let stops = matches!(plain, Plain::In(_, Event::Stop(_)));
            if self.loops[index].file_deleted && (must || !stops && choices.is_cancelled(index)) {
                self.cancel_for_deletion(index);
            }
        }
    }

    fn cancel_for_deletion(&mut self, index: usize) {
        let line = self.loops[index].cancelled_line();
        if let Some(session) = self.loops[index].session.clone() {
            self.waiting.entry(session).or_default().user.push(line);
        }
        self.end_outside(index, "cancelled");
    }

    /// Ends a loop outside a stop: its session reads about it at its next stop.
    fn end_outside(&mut self, index: usize, verdict: &'static str) {
        if let Some(session) = self.loops[index].session.clone() {
            self.freed.insert(session, Freed::Surely);
        }
        self.end(index, verdict);
    }

    fn end(&mut self, index: usize, verdict: &'static str) {
        self.loops[index].status = LoopStatus::Ended(verdict);
        self.touched.insert(index);
    }

    fn event(&mut self, who: Who, event: Event, choices: &dyn Choices) -> Expected {
        let session = self.name(who);
        let (expected, recipients) = match event {
            Event::Stop(stop) => {
                let tool_call = self.last_tool_call(who);
                return self.stop(&session, stop, tool_call);
            }
            Event::Start(start) => (self.start(&session, start, choices), (true, true)),
            Event::StartBare => {
                let refused = Expected::new(Reply::Answered, "Nothing was started");
                (self.resume_loop(&session).unwrap_or(refused), (true, true))
            }
            Event::CancelCommand => (self.cancel(&session), (true, true)),
            Event::SaysPause => (self.pause(&session), (true, true)),
            Event::SaysContinue => {
                (self.resume_loop(&session).unwrap_or_else(Expected::silent), (true, true))
            }
            Event::SaysOther => (Expected::silent(), (true, true)),
            Event::Begins => (self.begins(who, &session), (false, true)),
            Event::Ends => (self.ends(who, &session), (false, false)),
            Event::Clears => return self.clears(who, &session),
            Event::CallsAgent(n) => {
                if let Some(one) = self.running(&session) {
                    one.called_agent |= one.agents.insert(format!("{session}-{n}"));
                }
                // No other recipient gets a message; the agent itself is given its gates.
                return Expected { or_more: true, ..Expected::silent() };
            }
            Event::AgentEnds(_) => {
                if let Some(one) = self.running(&session) {
                    one.errors = 0;
                }
                (Expected::silent(), (false, false))
            }
            Event::TurnFails => {
                self.fails(&session);
                (Expected::silent(), (false, false))
            }
        };
        self.with_pending(&session, expected, Recipients { user: recipients.0, agent: recipients.1 })
    }

    /// The session's own loop if it runs; marked as accessed.
    fn running(&mut self, session: &str) -> Option<&mut Loop> {
        let own = self.own(session)?;
        self.touched.insert(own);
        Some(&mut self.loops[own]).filter(|one| one.is_running())
    }

    fn start(&mut self, session: &str, start: Start, choices: &dyn Choices) -> Expected {
        if let Some(own) = self.own(session) {
            let one = &mut self.loops[own];
            match (start.replace, one.is_running()) {
                (false, false) if one.task == start.task => {
                    one.resume();
                    self.touched.insert(own);
                    return Expected::new(Reply::Told, "Loop resumed");
                }
                (false, _) => return Expected::new(Reply::Answered, "Nothing was started"),
                (true, _) => self.end_outside(own, "cancelled"),
            }
        }
        let same: Vec<usize> =
            self.orphans().into_iter().filter(|index| self.loops[*index].task == start.task).collect();
        let claimed =
            same.iter().find(|index| choices.is_attached_to(**index, session)).or(same.first()).copied();
        if let Some(claimed) = claimed {
            self.claim(claimed, session);
            return Expected::new(Reply::Told, "Loop resumed");
        }
        self.begin(Loop::new(start.task, start.promise, start.most, Some(session.to_owned())));
        Expected::new(Reply::Told, "Loop started")
    }

    fn begin(&mut self, one: Loop) {
        one.session.as_ref().map(|session| self.freed.remove(session));
        self.loops.push(Loop { start: (self.green, self.edits), ..one });
        self.touched.insert(self.loops.len() - 1);
    }

    fn claim(&mut self, index: usize, session: &str) {
        self.touched.insert(index);
        self.freed.remove(session);
        self.loops[index].resume();
        self.loops[index].attached_to(session);
    }

    /// The session's own loop, else the only one whose session is gone.
    fn resume_loop(&mut self, session: &str) -> Option<Expected> {
        let meant = match (self.own(session), self.orphans().as_slice()) {
            (Some(own), _) if self.loops[own].is_running() => {
                self.touched.insert(own);
                return None;
            }
            (Some(own), _) => own,
            (None, [only]) => *only,
            (None, _) => return None,
        };
        self.claim(meant, session);
        Some(Expected::new(Reply::Told, "Loop resumed"))
    }

    fn cancel(&mut self, session: &str) -> Expected {
        let Some(own) = self.own(session) else {
            return Expected::new(Reply::Answered, "No active Ralph loop found.");
        };
        let line = self.loops[own].cancelled_line();
        self.end_outside(own, "cancelled");
        Expected::new(Reply::Answered, line)
    }

    fn pause(&mut self, session: &str) -> Expected {
        match self.own(session) {
            Some(own) if self.loops[own].pause(Cause::User) => {
                self.touched.insert(own);
                Expected::new(Reply::Answered, "Loop paused")
            }
            // A paused loop repeats why.
            Some(own) if self.loops[own].is_open() => Expected::new(Reply::Answered, "Loop "),
            _ => Expected::silent(),
        }
    }

    fn begins(&mut self, who: Who, session: &str) -> Expected {
        self.session_mut(who).is_there = true;
        let Some(own) = self.own(session) else { return self.report_orphans() };
        self.touched.insert(own);
        let one = &mut self.loops[own];
        one.attached_to(session);
        if one.status == LoopStatus::Paused(Cause::SessionEnded) {
            one.resume();
        }
        Expected::new(Reply::Told, if one.is_running() { "Loop resumed" } else { "Loop " })
    }

    fn report_orphans(&self) -> Expected {
        if self.orphans().is_empty() {
            return Expected::silent();
        }
        Expected::new(Reply::Told, "There is a paused loop here")
    }

    fn ends(&mut self, who: Who, session: &str) -> Expected {
        self.session_mut(who).is_there = false;
        if let Some(own) = self.own(session) {
            self.touched.insert(own);
            self.loops[own].pause(Cause::SessionEnded);
            self.loops[own].session_is_gone = true;
        }
        Expected::silent()
    }

    /// The loop moves to the new session, paused.
    fn clears(&mut self, who: Who, session: &str) -> Expected {
        self.session_mut(who).generation += 1;
        let new = self.name(who);
        let Some(own) = self.own(session) else { return self.report_orphans() };
        self.touched.insert(own);
        self.loops[own].pause(Cause::Cleared);
        self.loops[own].attached_to(&new);
        Expected::new(Reply::Told, "Loop ")
    }

    fn fails(&mut self, session: &str) {
        let Some(one) = self.running(session) else { return };
        one.errors += 1;
        if one.errors == ERRORS {
            one.pause(Cause::Errors);
            let line = "Loop interrupted by errors".to_owned();
            self.waiting.entry(session.to_owned()).or_default().user.push(line);
        }
    }

    fn command(&mut self, command: Command) -> Expected {
        let open = self.open();
        let mut changed = open.len();
        match command {
            Command::Start(task) => {
                self.begin(Loop::new(task, false, None, None));
                return Expected::silent();
            }
            Command::Pause => {
                changed = open.iter().filter(|index| self.loops[**index].pause(Cause::User)).count();
            }
            Command::Resume => {
                let rests = |index: &&usize| !self.loops[**index].is_running();
                let resting: Vec<usize> = open.iter().filter(rests).copied().collect();
                for index in &resting {
                    self.loops[*index].resume();
                }
                changed = resting.len();
            }
            Command::Cancel => open.iter().for_each(|index| self.end_outside(*index, "cancelled")),
            Command::Reset => open.iter().for_each(|index| self.loops[*index].count_again()),
        }
        self.touched.extend(open);
        match (changed, command) {
            (0, Command::Reset) => Expected::new(Reply::Told, "No active or paused loop in this repo."),
            (0, _) => Expected::new(Reply::Told, "No active Ralph loop found."),
            _ => Expected::silent(),
        }
    }

    fn last_tool_call(&self, who: Who) -> Option<(String, u32)> {
        let calls = self.session(who).tool_calls;
        (calls > 0).then(|| (format!("{who:?}"), calls))
    }

    /// Whether the gate is run for a stop, if there is no result for this tree yet.
    pub(super) fn runs_gate(&self, session: &str, stop: Stop) -> bool {
        let judged = |own: usize| self.loops[own].is_running() && !self.is_cancelled_by(own, stop);
        self.gated && self.own(session).is_some_and(judged)
    }

    fn is_cancelled_by(&self, own: usize, stop: Stop) -> bool {
        let one = &self.loops[own];
        one.file_deleted && !(one.promise && stop.promised)
    }

    fn stop(&mut self, session: &str, stop: Stop, tool_call: Option<(String, u32)>) -> Expected {
        let expected = match self.own(session) {
            Some(own) if self.loops[own].is_running() && self.is_cancelled_by(own, stop) => {
                let line = self.loops[own].cancelled_line();
                self.end(own, "cancelled");
                Expected::new(Reply::Told, line)
            }
            Some(own) if self.loops[own].is_running() => self.judge(own, stop, tool_call),
            _ => Expected::silent(),
        };
        let expected = match self.freed.remove(session) {
            Some(freed) if self.own(session).is_none() => freed.reported_beside(expected),
            _ => expected,
        };
        // A second stop of a turn in which a stop was allowed is reported.
        let or_more = expected.or_more || self.own(session).is_none();
        let expected = Expected { or_more, ..expected };
        // Whether the user or the agent paused it, the user reads that it is paused.
        let rests =
            self.own(session).is_some_and(|own| self.loops[own].is_open() && !self.loops[own].is_running());
        let or_more = expected.or_more || rests;
        let mut expected = self.with_pending(session, expected, Recipients { user: true, agent: false });
        expected.or_more |= or_more;
        expected
    }

    /// A stop whose gate ran during other events: it counts for its loop if that loop still
    /// runs.
    pub(super) fn slow_stop_ends(&mut self, of: usize, session: &str, who: Who, stop: Stop) -> Expected {
        self.touched.insert(of);
        let one = &self.loops[of];
        let expected = if one.is_running() {
            let tool_call = self.last_tool_call(who);
            let deleted = self.is_cancelled_by(of, stop);
            let expected = self.judge(of, stop, tool_call);
            if deleted && self.loops[of].is_open() {
                let line = self.loops[of].cancelled_line();
                self.end(of, "cancelled");
                Expected::new(Reply::Told, line)
            } else {
                expected
            }
        } else {
            // Freed while the gate ran: whether it was reported before depends on another stop.
            self.freed.remove(session);
            Freed::Perhaps.reported_beside(Expected::silent())
        };
        let or_more = expected.or_more;
        let mut expected = self.with_pending(session, expected, Recipients { user: true, agent: false });
        expected.or_more |= or_more;
        expected
    }

    /// The hook was killed while the gate ran: nothing is counted, and it is reported.
    pub(super) fn killed(&mut self, session: &str) {
        let waiting = self.waiting.entry(session.to_owned()).or_default();
        waiting.user.push("were interrupted".into());
        waiting.agent.push("were interrupted".into());
    }

    /// The possible results of an event whose hook was killed: all of it, nothing, or the first of two changes that
    /// it makes one
    /// after the other. The most complete comes first.
    pub(super) fn after_kill(&self, who: Who, event: Event, choices: &dyn Choices) -> Vec<Self> {
        let plain = Plain::In(who, event);
        let mut whole = self.clone();
        whole.take(plain, choices);
        let mut only_cancelled = self.clone();
        only_cancelled.detect_deletions(plain, choices);
        let mut replaced = only_cancelled.clone();
        if let (Event::Start(Start { replace: true, .. }), Some(own)) = (event, replaced.own(&self.name(who)))
        {
            replaced.end(own, "cancelled");
        }
        let mut all = vec![whole, replaced, only_cancelled, self.clone()];
        for model in &mut all {
            // The client continues, whatever became of the hook.
            model.session_mut(who).is_there = !matches!(event, Event::Ends);
            model.waiting.clear();
            for session in [self.name(Who::Ann), self.name(Who::Bob)] {
                model.freed.insert(session, Freed::Perhaps);
            }
            model.unsure.extend([self.name(Who::Ann), self.name(Who::Bob)]);
            model.file_is_unsure = true;
        }
        all
    }

    fn judge(&mut self, own: usize, stop: Stop, tool_call: Option<(String, u32)>) -> Expected {
        let (gated, tree) = (self.gated, (self.green, self.edits));
        self.touched.insert(own);
        let one = &mut self.loops[own];
        one.file_deleted = false;
        one.attempts += 1;
        one.errors = 0;
        let gate_failed = gated && !self.green;
        let unpromised = one.promise && !stop.promised;
        // Requested once; with a passing gate it is not required.
        if !gate_failed && (!unpromised || gated && one.promise_asked) {
            let (verdict, words) = match one.start {
                _ if !gated => ("claimed", "Loop completed on claim, unverified"),
                start if start == tree => ("unchanged", "Loop done: gates pass, nothing changed"),
                // What made it green was there before.
                (true, _) => ("passing", "Loop done: gates pass, task not shown"),
                (false, _) => ("verified", "Loop done, verified"),
            };
            self.end(own, verdict);
            return Expected::new(Reply::Told, words);
        }
        one.promise_asked |= gated && !gate_failed;
        one.false_promises += u32::from(one.promise && stop.promised);
        let blocked = BlockedStop { tree: gated.then_some(tree), gate_failed, tool_call };
        let called_agent = std::mem::take(&mut one.called_agent);
        let same_tool =
            !called_agent && one.last.as_ref().is_some_and(|last| last.tool_call == blocked.tool_call);
        one.equal = if same_tool && one.last.as_ref() == Some(&blocked) { one.equal + 1 } else { 1 };
        one.idle = if same_tool { one.idle + 1 } else { 1 };
        one.last = Some(blocked);
        let at_limit = one.most.is_some_and(|most| one.attempts >= most * (one.renewals + 1));
        if at_limit {
            one.pause(Cause::Limit);
            return Expected::new(Reply::Told, "Loop safety valve triggered");
        }
        if one.equal >= EQUAL_STOPS {
            one.pause(Cause::Stuck);
            return Expected::new(Reply::Told, "Loop stuck");
        }
        if same_tool && one.idle >= CLIENT_CAP {
            one.pause(Cause::ClientCap);
            return Expected::new(Reply::Told, "Loop released, unverified");
        }
        let line = format!("iteration {}", one.attempts);
        Expected::new(Reply::Blocked, line)
    }

    fn with_pending(&mut self, session: &str, mut expected: Expected, recipients: Recipients) -> Expected {
        let reaches_all = recipients.user && recipients.agent && expected.reply != Reply::Answered;
        expected.or_more =
            if reaches_all { self.unsure.remove(session) } else { self.unsure.contains(session) };
        let Some(waiting) = self.waiting.get_mut(session) else { return expected };
        let mut message = Vec::new();
        if recipients.user {
            message.append(&mut waiting.user);
        }
        // A prompt answered by the hook does not reach the agent.
        if recipients.agent && expected.reply != Reply::Answered {
            message.append(&mut waiting.agent);
        }
        if expected.reply == Reply::Silent && !message.is_empty() {
            expected.reply = Reply::Told;
        }
        expected.says.append(&mut message);
        expected
    }
}
