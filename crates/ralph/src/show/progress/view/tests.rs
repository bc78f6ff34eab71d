use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use ralph_core::clients::stream::AgentEvent;

use super::*;
use crate::show::progress::sample;
use crate::show::terminal::inline::Size;
use crate::show::terminal::inline::tests::Screen;

const SIZE: Size = Size { columns: 80, rows: 24 };

/// Records what is written to it.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("the lock is not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Blocks, as after Ctrl-S.
struct Stopped;

impl Write for Stopped {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        thread::sleep(Duration::from_secs(3600));
        Ok(0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn view(plan: &DrivePlan, tasks: Option<TasksLook>, to: impl Write + Send + 'static) -> View {
    View::start(plan, tasks, &Signals::none(), sample::lines(), Terminal::of(to, || SIZE), true)
}

fn shown(tape: &Tape) -> String {
    let mut screen = Screen::new();
    screen.take(std::str::from_utf8(&tape.0.lock().expect("the lock is not poisoned")).expect("text"));
    screen.text()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never was so: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_finished_loop_leaves_only_its_lines() {
    let (plan, tape) = (sample::plan(), Tape::default());
    let mut view = view(&plan, None, tape.clone());
    wait_until("it is drawn", || shown(&tape).contains("starting"));
    sample::story(&mut |event| view.receive(event));
    drop(view);
    let shown = shown(&tape);
    for part in [
        "task      Fix the tests",
        "✗ iteration 1  not done",
        "✓ iteration 2  done",
        "\nverified after 2 iterations",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    assert!(shown.ends_with("$0.20\n"), "{shown}");
    assert!(!shown.contains("Ctrl-C"), "{shown}");
}

#[test]
fn redraws_without_events_and_shows_ticked_checkboxes() {
    let ticked = Arc::new(AtomicUsize::new(1));
    let (plan, tape, shared) = (sample::plan(), Tape::default(), Arc::clone(&ticked));
    let tasks: TasksLook =
        Box::new(move || Some(TaskProgress { done: shared.load(Ordering::Relaxed), total: 2 }));
    let view = view(&plan, Some(tasks), tape.clone());
    wait_until("one box", || shown(&tape).contains("tasks 1/2"));
    let first = shown(&tape);
    wait_until("the wheel turns", || shown(&tape) != first);
    ticked.store(2, Ordering::Relaxed);
    wait_until("two boxes", || shown(&tape).contains("tasks 2/2 [██████████████████████████] 100%"));
    drop(view);
    assert_eq!(shown(&tape), "");
}

#[test]
fn a_blocked_terminal_does_not_delay_the_loop() {
    let plan = sample::plan();
    let mut view = view(&plan, None, Stopped);
    let said = AgentEvent::Said { text: "word ".repeat(100) };
    let begun = Instant::now();
    for _ in 0..2_000 {
        view.receive(&LoopEvent::Agent(said.clone()));
    }
    sample::story(&mut |event| view.receive(event));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let ended = Instant::now();
    drop(view);
    assert!(ended.elapsed() < PATIENCE * 2, "{:?}", ended.elapsed());
}
