//! A sample driven loop for tests: a plan, and all events until it is verified.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ralph_core::clients::stream::{AgentEvent, Denial, RunResult};
use ralph_core::ledger::drive::Approach;
use ralph_core::ledger::drive_plan::DrivePlan;
use ralph_core::ledger::event::{AgentEnd, AgentRun, Event, FailureMark, Judgement, PauseCause, Subject};
use ralph_core::ledger::loop_event::LoopEvent;
use ralph_core::ledger::state::State;
use ralph_core::model::budget::{Attempts, Budget};
use ralph_core::model::drive_options::{AgentContext, DriveOptions};
use ralph_core::model::gate::{Gate, GateOutcome, GateReport};
use ralph_core::model::goal::Goal;
use ralph_core::model::id::{Digest, GateName, LoopId, SessionId, TreeHash};
use ralph_core::model::layout::Layout;
use ralph_core::model::limits::{Limits, Origin};
use ralph_core::model::money::Micros;
use ralph_core::model::preset;
use ralph_core::model::verdict::{LimitHit, Reason, Verdict};

use crate::show::progress::lines::Lines;

/// 2026-01-02 03:04:05 plus that many seconds.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
    Timestamp::from_second(begin.as_second() + seconds).expect("a time")
}

pub(crate) fn gate(name: &str, run: &str) -> Gate {
    Gate::sample(name, run)
}

pub(crate) fn report(name: &str, outcome: GateOutcome, millis: u64) -> GateReport {
    GateReport {
        gate: GateName::new(name),
        run: format!("make {name}"),
        outcome,
        advisory: false,
        took: Duration::from_millis(millis),
        runs: 1,
        log: Some(format!("/logs/{name}")),
        excerpt: String::new(),
        results: None,
        changed: Vec::new(),
    }
}

pub(crate) fn plan() -> DrivePlan {
    let profile = ralph_core::clients::list::find("claude", &[]).expect("it is built in");
    let flags = Budget { cost: Some(Some(Micros::new(5_000_000))), ..Budget::default() };
    let lint = Gate { advisory: true, ..gate("lint", "make lint") };
    DrivePlan {
        loop_id: LoopId::new("fix-the-tests-1a2b3c"),
        goal: Goal {
            task: "Fix the tests of the parser: 測試 must pass".into(),
            promise: None,
            list: None,
            archive: false,
            lang: None,
            ship: None,
            proof: None,
            accept: Vec::new(),
        },
        profile,
        options: DriveOptions {
            agent: "claude".into(),
            memory: AgentContext::Fresh,
            model: None,
            checkpoints: true,
            longest_run: Duration::from_secs(1800),
            longest_silence: Duration::from_secs(600),
            gate_timeout: None,
            no_baseline: false,
            accept_green: false,
        },
        limits: Limits::new(&preset::DRIVE, Layout::Native.data().clocks).with(&flags, Origin::Flag),
        gates: vec![gate("fmt", "make fmt"), gate("test", "make test"), lint],
        allow: vec!["Bash(git log:*)".into()],
    }
}

pub(crate) fn lines() -> Lines {
    Lines::new(&plan(), TimeZone::UTC)
}

pub(crate) fn began() -> Event {
    let plan = plan();
    Event::Began {
        subject: Subject::Driver,
        session: None,
        task: None,
        layout: Layout::Native,
        preset: "drive".into(),
        definition: Some(Digest::of("gates")),
        limits: plan.limits,
        goal: Some(plan.goal),
        prompt: None,
        drive: Some(plan.options),
        rewritten: Vec::new(),
    }
}

pub(crate) fn run(ended: AgentEnd, seconds: u64, micros: u64) -> AgentRun {
    AgentRun {
        cost: Some(Micros::new(micros)),
        session: Some(SessionId::new("s-1")),
        ..AgentRun::new(ended, Duration::from_secs(seconds))
    }
}

pub(crate) fn judged(attempt: u32, verdict: Verdict, reason: Reason, limit: Option<LimitHit>) -> Event {
    let failures = match &reason {
        Reason::GatesFailed { gates } => gates
            .iter()
            .map(|gate| FailureMark {
                gate: gate.clone(),
                outcome: "failed".into(),
                text: Digest::of("text"),
                failures: Vec::new(),
            })
            .collect(),
        _ => Vec::new(),
    };
    Event::Judged(Judgement {
        attempt,
        verdict,
        reason,
        limit,
        tree: Some(TreeHash::new("ab12")),
        failures,
        head: None,
        tool_call: None,
        false_promise: false,
        shown: Vec::new(),
        process: Some(42),
    })
}

/// The state after the events, one per minute.
pub(crate) fn state(events: &[Event]) -> State {
    let mut state = State::default();
    for (minute, event) in (0..).zip(events) {
        state.apply(at(60 * minute), event);
    }
    state
}

pub(crate) fn test_fails() -> Reason {
    Reason::GatesFailed { gates: vec![GateName::new("test")] }
}

/// After one iteration in which `test` failed.
pub(crate) fn blocked() -> State {
    state(&[
        began(),
        Event::IterationBegan { iteration: 1, fresh: true },
        Event::AgentEnded { iteration: 1, run: run(AgentEnd::Finished, 130, 120_000) },
        judged(1, Verdict::Blocked, test_fails(), None),
    ])
}

/// The same at its end.
pub(crate) fn ended(verdict: Verdict, reason: Reason, limit: Option<LimitHit>) -> State {
    let mut state = blocked();
    state.apply(at(240), &Event::IterationBegan { iteration: 2, fresh: true });
    state.apply(at(300), &Event::AgentEnded { iteration: 2, run: run(AgentEnd::Finished, 60, 80_000) });
    state.apply(at(360), &judged(2, verdict, reason, limit));
    state
}

pub(crate) fn paused(why: PauseCause) -> State {
    let mut state = blocked();
    state.apply(at(200), &Event::Paused { why });
    state
}

/// A complete loop: a denial and a failing test, no progress, a wait, a different approach, verified.
pub(crate) fn story(tell: &mut dyn FnMut(&LoopEvent)) {
    let (plan, fresh) = (plan(), state(&[began()]));
    let of = Attempts::AtMost(15);
    tell(&LoopEvent::begins(&plan, &fresh));
    tell(&LoopEvent::IterationBegan { number: 1, of, approach: Approach::Continue });
    let edit = AgentEvent::UsedTool { name: "Edit".into(), about: "src/lib.rs".into() };
    let curl = AgentEvent::Denied { tool: "Bash".into(), about: "curl http://example.invalid".into() };
    let said = AgentEvent::Said { text: "I have fixed 測試.\n\nAll tests pass.".into() };
    let result = RunResult {
        ok: true,
        cost_usd: Some(Micros::new(120_000)),
        text: "Done.".into(),
        ..Default::default()
    };
    for event in [
        AgentEvent::Session { id: SessionId::new("s-1") },
        edit,
        curl,
        said,
        AgentEvent::Unknown,
        AgentEvent::Result(result),
    ] {
        tell(&LoopEvent::Agent(event.clone()));
    }
    let denied = Denial {
        tool: "Bash".into(),
        about: "curl http://example.invalid".into(),
        rule: "Bash(curl:*)".into(),
        count: 2,
    };
    let first = AgentRun { denied: vec![denied], ..run(AgentEnd::Finished, 130, 120_000) };
    let blocked = blocked();
    tell(&LoopEvent::agent_ended(&first, &blocked));
    for (gate, outcome) in plan.gates.iter().zip([GateOutcome::Passed, GateOutcome::Failed { code: 101 }]) {
        tell(&LoopEvent::GateStarted { gate: gate.name.clone() });
        tell(&LoopEvent::GateEnded { gate: gate.name.clone() });
        tell(&LoopEvent::gate_finished(&report(gate.name.as_str(), outcome, 3_100)));
    }
    tell(&LoopEvent::TreeChanged { files: vec!["src/lib.rs".to_owned()] });
    tell(&LoopEvent::judged(1, &blocked));
    tell(&LoopEvent::StrategyChanged);
    tell(&LoopEvent::Waits { until: at(4 * 3600), why: "rate limit".into() });
    tell(&LoopEvent::Waits { until: at(4 * 3600), why: "rate limit".into() });
    tell(&LoopEvent::IterationBegan { number: 2, of, approach: Approach::Rethink });
    let verified = ended(Verdict::Verified, Reason::AllGatesPassed, None);
    tell(&LoopEvent::agent_ended(&run(AgentEnd::Finished, 60, 80_000), &verified));
    for gate in &plan.gates {
        tell(&LoopEvent::GateStarted { gate: gate.name.clone() });
        tell(&LoopEvent::GateEnded { gate: gate.name.clone() });
        tell(&LoopEvent::gate_finished(&report(gate.name.as_str(), GateOutcome::Passed, 800)));
    }
    tell(&LoopEvent::judged(2, &verified));
    tell(&LoopEvent::Warning { what: "no checkpoint: git is not installed".into() });
    tell(&LoopEvent::ends(&plan, &verified));
}
