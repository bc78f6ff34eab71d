use ralph_core::clients::stream::RunResult;
use ralph_core::model::verdict::Reason;

use super::*;
use crate::show::progress::sample;

struct Stage {
    scene: ViewState,
    now: ClockTime,
    left: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        let now = ClockTime { tick: Instant::now(), clock: sample::at(0) };
        Self { scene: ViewState::new(&sample::plan(), sample::lines(), true, now), now, left: Vec::new() }
    }

    fn receive(&mut self, event: &LoopEvent) {
        let rows = self.scene.receive(event, self.now);
        self.left.extend(rows.iter().map(|row| row.show(false)));
    }

    fn pass(&mut self, seconds: u64) {
        self.now.tick += Duration::from_secs(seconds);
        self.now.clock = self.now.clock.checked_add(Duration::from_secs(seconds)).expect("a time");
    }

    fn shown(&self, columns: usize, rows: usize) -> String {
        let size = Size { columns, rows };
        let drawn = self.scene.draw(self.now, 0, size);
        assert!(drawn.len() < rows.max(1), "{} rows of {rows}", drawn.len());
        let lines: Vec<String> = drawn.iter().map(|row| row.show(false)).collect();
        for line in &lines {
            assert!(cells(line) < columns.max(1), "{line:?} in {columns}");
        }
        lines.join("\n")
    }
}

fn use_tool(stage: &mut Stage, name: &str, about: &str) {
    stage.receive(&LoopEvent::Agent(AgentEvent::UsedTool { name: name.into(), about: about.into() }));
}

/// An agent at work in the second iteration.
fn at_work() -> Stage {
    let mut stage = Stage::new();
    let state = sample::blocked();
    let plan = sample::plan();
    stage.receive(&LoopEvent::begins(&plan, &state));
    stage.receive(&LoopEvent::judged(1, &state));
    stage.pass(60);
    stage.receive(&LoopEvent::IterationBegan {
        number: 2,
        of: Attempts::AtMost(15),
        approach: Approach::Continue,
    });
    use_tool(&mut stage, "Read", "src/lib.rs");
    stage.receive(&LoopEvent::Agent(AgentEvent::Said {
        text: "測試失敗的原因是解析器沒有處理空行，我先看看 parser.rs 這個檔案".into(),
    }));
    use_tool(&mut stage, "Bash", "make test");
    stage.scene.tasks = Some(TaskProgress { done: 3, total: 7 });
    stage.pass(75);
    stage
}

fn at_the_gates() -> Stage {
    let mut stage = at_work();
    let plan = sample::plan();
    let state = sample::blocked();
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 75, 120_000), &state));
    stage.receive(&LoopEvent::GateStarted { gate: plan.gates[0].name.clone() });
    stage.receive(&LoopEvent::gate_finished(&sample::report("fmt", GateOutcome::Passed, 800)));
    stage.receive(&LoopEvent::GateStarted { gate: plan.gates[1].name.clone() });
    stage.pass(12);
    stage
}

#[test]
fn the_agent_at_work() {
    let stage = at_work();
    insta::assert_snapshot!("agent_at_work_in_40_columns", stage.shown(40, 24));
    insta::assert_snapshot!("agent_at_work_in_80_columns", stage.shown(80, 24));
    insta::assert_snapshot!("agent_at_work_in_120_columns", stage.shown(120, 24));
}

#[test]
fn the_gates_as_they_finish() {
    let mut stage = at_the_gates();
    insta::assert_snapshot!("gates_running", stage.shown(80, 24));
    let plan = sample::plan();
    stage.receive(&LoopEvent::GateEnded { gate: plan.gates[1].name.clone() });
    assert!(stage.shown(80, 24).contains("  ⠋ test  12s, reading the tree"));
    stage.receive(&LoopEvent::gate_finished(&sample::report(
        "test",
        GateOutcome::Failed { code: 101 },
        12_300,
    )));
    let warns = GateReport { advisory: true, ..sample::report("lint", GateOutcome::Failed { code: 1 }, 40) };
    stage.receive(&LoopEvent::gate_finished(&warns));
    let shown = stage.shown(40, 24);
    assert!(shown.contains("  ✗ test  12.3s, exit 101\n  ! lint  40ms, exit 1"), "{shown}");
}

#[test]
fn failing_tests_are_named_under_their_gate_as_far_as_there_is_room() {
    let mut stage = at_the_gates();
    let output: String = (1..=6).map(|line| format!("src/a.c:{line}:1: error: no {line}\n")).collect();
    let results = ralph_core::claims::results::read(&output).map(|read| read.kept(false, str::to_owned));
    let failed = sample::report("test", GateOutcome::Failed { code: 1 }, 12_300);
    stage.receive(&LoopEvent::gate_finished(&GateReport { results, ..failed }));
    let shown = stage.shown(80, 24);
    let named = "\
  ✗ test  12.3s, exit 1, 6 problems
      src/a.c:1:1 no 1
      src/a.c:2:1 no 2
      src/a.c:3:1 no 3
      src/a.c:4:1 no 4
      and 2 more
  · lint";
    assert!(shown.contains(named), "{shown}");
    let low = stage.shown(80, 9);
    assert!(low.contains("no 1\n      and 5 more\n  · lint"), "{low}");
    let lowest = stage.shown(80, 7);
    assert!(lowest.contains("6 problems\n  · lint"), "{lowest}");
}

#[test]
fn a_wait_counts_down() {
    let mut stage = at_work();
    stage.receive(&LoopEvent::Waits { until: sample::at(3600), why: "5-hour limit reached".into() });
    assert_eq!(stage.left.last().expect("a line"), "! waiting until Fri 04:04:05: 5-hour limit reached");
    let left = stage.left.len();
    stage.receive(&LoopEvent::Waits { until: sample::at(3600), why: "5-hour limit reached".into() });
    assert_eq!(stage.left.len(), left, "the same wait is shown once");
    let shown = stage.shown(80, 24);
    assert!(
        shown.starts_with("⠋ iteration 2 of 15 · waiting until Fri 04:04:05 · 57m 45s · $0.12 of $5.00"),
        "{shown}"
    );
    assert!(shown.contains("\n  5-hour limit reached\n"), "{shown}");
}

#[test]
fn shows_that_an_interrupt_was_received() {
    let mut stage = at_work();
    stage.scene.is_asked_to_end = true;
    assert!(stage.shown(80, 24).ends_with("\n  pausing; press Ctrl-C again to stop at once"));
}

#[test]
fn the_cost_of_a_run_counts_early_and_only_once() {
    let mut stage = at_work();
    let result = RunResult { cost_usd: Some(Micros::new(80_000)), ..RunResult::default() };
    stage.receive(&LoopEvent::Agent(AgentEvent::Result(result)));
    assert!(stage.shown(80, 24).contains("$0.20 of $5.00"));
    let state = sample::ended(Verdict::Verified, Reason::AllGatesPassed, None);
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 60, 80_000), &state));
    assert!(stage.shown(80, 24).contains("$0.20 of $5.00"));
}

#[test]
fn only_the_last_actions_are_kept() {
    let mut stage = at_work();
    for number in 0..10_000 {
        use_tool(&mut stage, "Edit", &format!("src/{number}.rs"));
    }
    let shown = stage.shown(80, 24);
    assert!(shown.contains("src/9999.rs") && !shown.contains("src/9994.rs"), "{shown}");
}

#[test]
fn a_small_terminal_shows_the_relevant_gates() {
    let mut stage = at_the_gates();
    for number in 0..20 {
        let gate = sample::gate(&format!("more{number}"), "true");
        stage.receive(&LoopEvent::GateStarted { gate: gate.name.clone() });
        stage.receive(&LoopEvent::gate_finished(&sample::report(gate.name.as_str(), GateOutcome::Passed, 5)));
    }
    stage.receive(&LoopEvent::gate_finished(&sample::report("more7", GateOutcome::Failed { code: 1 }, 5)));
    insta::assert_snapshot!("gates_in_a_small_terminal", stage.shown(40, 8));
}

#[test]
fn a_complete_loop_leaves_a_line_per_iteration() {
    let mut stage = Stage::new();
    sample::story(&mut |event| {
        if matches!(event, LoopEvent::AgentEnded { .. } | LoopEvent::Judged { .. }) {
            stage.pass(61);
        }
        stage.receive(event);
        for (columns, rows) in [(80, 24), (40, 10), (1, 1), (0, 0), (7, 3), (200, 2)] {
            stage.shown(columns, rows);
        }
    });
    let after_the_plan =
        stage.left.iter().skip(crate::show::progress::plan::PlanSheet(&sample::plan()).lines().len());
    let left = after_the_plan.cloned().collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("complete_loop", left);
}

#[test]
fn a_failed_run_is_shown_at_once() {
    let mut stage = at_work();
    let state = sample::blocked();
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::WentSilent, 600, 0), &state));
    assert_eq!(
        stage.left.last().expect("a line"),
        "! agent was silent for too long and was stopped after 10m, $0.00"
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide(
        text in "(\\PC|\t|\u{1b}|[一-龥]|👩‍💻|☑️){0,200}",
        columns in 0_usize..140,
        rows in 0_usize..30,
    ) {
        let mut stage = at_work();
        use_tool(&mut stage, "Bash", &text);
        stage.receive(&LoopEvent::Agent(AgentEvent::Said { text: text.clone() }));
        stage.shown(columns, rows);
        let gate = sample::gate(&text, "true");
        stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 1, 1), &sample::blocked()));
        stage.receive(&LoopEvent::GateStarted { gate: gate.name.clone() });
        stage.shown(columns, rows);
    }
}
