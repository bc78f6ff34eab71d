use ralph_core::clients::stream::RunResult;
use ralph_core::model::verdict::Reason;

use super::*;
use crate::show::progress::sample;

struct Stage {
    scene: Scene,
    now: Now,
    left: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        let now = Now { tick: Instant::now(), clock: sample::at(0) };
        Self { scene: Scene::new(&sample::plan(), sample::lines(), true, now), now, left: Vec::new() }
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
    let state = sample::held();
    let plan = sample::plan();
    stage.receive(&LoopEvent::begins(&plan, &state));
    stage.receive(&LoopEvent::judged(1, &state));
    stage.pass(60);
    stage.receive(&LoopEvent::IterationBegan {
        number: 2,
        of: Attempts::AtMost(15),
        approach: Approach::GoOn,
    });
    use_tool(&mut stage, "Read", "src/lib.rs");
    stage.receive(&LoopEvent::Agent(AgentEvent::Said {
        text: "測試失敗的原因是解析器沒有處理空行，我先看看 parser.rs 這個檔案".into(),
    }));
    use_tool(&mut stage, "Bash", "make test");
    stage.scene.tasks = Some(Progress { done: 3, total: 7 });
    stage.pass(75);
    stage
}

fn at_the_gates() -> Stage {
    let mut stage = at_work();
    let plan = sample::plan();
    let state = sample::held();
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 75, 120_000), &state));
    stage.receive(&LoopEvent::gate_started(&plan.gates[0]));
    stage.receive(&LoopEvent::gate_finished(&sample::report("fmt", Outcome::Passed, 800)));
    stage.receive(&LoopEvent::gate_started(&plan.gates[1]));
    stage.pass(12);
    stage
}

#[test]
fn the_agent_at_work() {
    let stage = at_work();
    let wide = "\
⠋ iteration 2 of 15 · claude works · 1m 15s · $0.12 of $5.00 · 2m 15s in all · Fix the tests of the parser: 測試 must …";
    let narrow = "\
⠋ iteration 2 of 15 · claude works
  last time: not done: 1 of 2 gates fa…
  Read src/lib.rs
  測試失敗的原因是解析器沒有處理空行，…
  Bash make test
  tasks 3/7
  Ctrl-C to pause";
    let usual = "\
⠋ iteration 2 of 15 · claude works · 1m 15s · $0.12 of $5.00 · 2m 15s in all
  last time: not done: 1 of 2 gates fails: test
  Read src/lib.rs
  測試失敗的原因是解析器沒有處理空行，我先看看 parser.rs 這個檔案
  Bash make test
  tasks 3/7 [███████████░░░░░░░░░░░░░░░] 42%
  Ctrl-C to pause";
    assert_eq!(stage.shown(40, 24), narrow);
    assert_eq!(stage.shown(80, 24), usual);
    let first = stage.shown(120, 24).lines().next().expect("a line").to_owned();
    assert_eq!(first, wide);
}

#[test]
fn the_gates_as_they_finish() {
    let mut stage = at_the_gates();
    assert_eq!(
        stage.shown(80, 24),
        "\
⠋ iteration 2 of 15 · gates · 12s · $0.12 of $5.00 · 2m 27s in all
  ✓ fmt   800ms
  ⠋ test  12s
  · lint  \n  tasks 3/7 [███████████░░░░░░░░░░░░░░░] 42%
  Ctrl-C to pause"
    );
    let plan = sample::plan();
    stage.receive(&LoopEvent::gate_ended(&plan.gates[1]));
    assert!(stage.shown(80, 24).contains("  ⠋ test  12s, reading the tree"));
    stage.receive(&LoopEvent::gate_finished(&sample::report("test", Outcome::Failed { code: 101 }, 12_300)));
    let warns = GateReport { advisory: true, ..sample::report("lint", Outcome::Failed { code: 1 }, 40) };
    stage.receive(&LoopEvent::gate_finished(&warns));
    let shown = stage.shown(40, 24);
    assert!(shown.contains("  ✗ test  12.3s, exit 101\n  ! lint  40ms, exit 1"), "{shown}");
}

#[test]
fn a_wait_counts_down() {
    let mut stage = at_work();
    stage.receive(&LoopEvent::Waits { until: sample::at(3600), why: "5-hour limit reached".into() });
    assert_eq!(stage.left.last().expect("a line"), "! waiting until Fri 04:04:05: 5-hour limit reached");
    let left = stage.left.len();
    stage.receive(&LoopEvent::Waits { until: sample::at(3600), why: "5-hour limit reached".into() });
    assert_eq!(stage.left.len(), left, "the same wait is told once");
    let shown = stage.shown(80, 24);
    assert!(
        shown.starts_with("⠋ iteration 2 of 15 · waiting until Fri 04:04:05 · 57m 45s · $0.12 of $5.00"),
        "{shown}"
    );
    assert!(shown.contains("\n  5-hour limit reached\n"), "{shown}");
}

#[test]
fn a_person_who_wants_it_to_end_sees_that_it_does() {
    let mut stage = at_work();
    stage.scene.is_asked_to_end = true;
    assert!(stage.shown(80, 24).ends_with("\n  pausing; Ctrl-C once more ends everything now"));
}

#[test]
fn what_a_run_costs_counts_before_it_ends_and_only_once() {
    let mut stage = at_work();
    let result = RunResult { cost_usd: Some(Micros::new(80_000)), ..RunResult::default() };
    stage.receive(&LoopEvent::Agent(AgentEvent::Result(result)));
    assert!(stage.shown(80, 24).contains("$0.20 of $5.00"));
    let state = sample::ended(Verdict::Verified, Reason::AllGatesPassed, None);
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 60, 80_000), &state));
    assert!(stage.shown(80, 24).contains("$0.20 of $5.00"));
}

#[test]
fn only_the_last_doings_are_kept() {
    let mut stage = at_work();
    for number in 0..10_000 {
        use_tool(&mut stage, "Edit", &format!("src/{number}.rs"));
    }
    let shown = stage.shown(80, 24);
    assert!(shown.contains("src/9999.rs") && !shown.contains("src/9994.rs"), "{shown}");
}

#[test]
fn in_a_low_terminal_the_gates_to_look_at_are_shown() {
    let mut stage = at_the_gates();
    for number in 0..20 {
        let gate = sample::gate(&format!("more{number}"), "true");
        stage.receive(&LoopEvent::gate_started(&gate));
        stage.receive(&LoopEvent::gate_finished(&sample::report(gate.name.as_str(), Outcome::Passed, 5)));
    }
    stage.receive(&LoopEvent::gate_finished(&sample::report("more7", Outcome::Failed { code: 1 }, 5)));
    assert_eq!(
        stage.shown(40, 8),
        "\
⠋ iteration 2 of 15 · gates · 12s
  ⠋ test    12s
  ✗ more7   5ms, exit 1
  … 21 more gates
  tasks 3/7
  Ctrl-C to pause"
    );
}

#[test]
fn a_whole_loop_leaves_a_line_for_each_iteration() {
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
    assert_eq!(
        left,
        "\
! denied: Bash curl http://example.invalid, 2 times (allow: Bash(curl:*))
  gates changed src/lib.rs
✗ iteration 1  not done: 1 of 2 gates fails: test  2m 2s, $0.12 so far
! no progress: the next iteration begins in another way
! waiting until Fri 07:04:05: rate limit
✓ iteration 2  done: every gate passed  2m 2s, $0.20 so far
! the tree could not be kept: no git
verified after 2 iterations, 6m, $0.20"
    );
}

#[test]
fn a_run_that_ended_badly_is_seen_at_once() {
    let mut stage = at_work();
    let state = sample::held();
    stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::WentSilent, 600, 0), &state));
    assert_eq!(stage.left.last().expect("a line"), "! agent went silent and was ended after 10m, $0.00");
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
        stage.receive(&LoopEvent::agent_ended(&sample::run(AgentEnd::Finished, 1, 1), &sample::held()));
        stage.receive(&LoopEvent::gate_started(&gate));
        stage.shown(columns, rows);
    }
}
