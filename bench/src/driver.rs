//! The overhead of `ralph loop` over the agent and the gates that it runs.

use std::time::Duration;
use std::{fs, io, thread};

use crate::build::Programs;
use crate::contest::{Contestant, Rounds, Times, times};
use crate::memory;
use crate::report::{Figure, Limit, megabytes, milliseconds};
use crate::scene::Scene;

const ITERATIONS: u32 = 20;
const NEVER_DONE: &str = "verify:\n  - 'false'\n";

/// A real agent takes minutes; the overhead must be negligible even for an agent that takes none.
pub(crate) fn driver(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    // First, because it would have to wait for pending disk writes of the others.
    let mut figures = vec![first_call(programs, rounds)?];
    figures.extend(overhead(programs, rounds, 20, "20 files", [8.0, 25.0])?);
    figures.extend(overhead(programs, rounds, 5_000, "5,000 files", [40.0, 60.0])?);
    figures.push(flood(programs)?);
    Ok(figures)
}

fn overhead(
    programs: &Programs,
    rounds: &Rounds,
    files: usize,
    name: &str,
    limits: [f64; 2],
) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, files, NEVER_DONE)?;
    // New content each time, so that no cached result applies.
    fs::write(scene.path("agent.sh"), "cat >/dev/null\necho $$ >src/part-0/file-0.rs\n")?;
    let plain = format!(
        "i=0; while [ $i -lt {ITERATIONS} ]; do sh -c 'sh ../agent.sh </dev/null'; sh -c false; i=$((i+1)); done; true"
    );
    let driven = |more: &str| {
        let ralph = programs.ralph.display();
        scene.shell(&format!(
            "'{ralph}' loop work --agent 'command:sh ../agent.sh' --max-iterations {ITERATIONS} --quiet {more}; [ $? = 1 ]"
        ))
    };
    let [shell, bare, committed] = times(
        rounds.long,
        [
            Contestant::new(|_| Ok(scene.shell(&plain))),
            Contestant::new(|_| Ok(driven("--no-checkpoints"))),
            Contestant::new(|_| Ok(driven(""))),
        ],
    )?;
    let more = |times: &Times| {
        let whole = milliseconds(times.tenth_percentile()) - milliseconds(shell.tenth_percentile());
        Some(whole / f64::from(ITERATIONS))
    };
    Ok(vec![
        Figure::single(&format!("iteration overhead over a shell loop, {name}"), more(&bare), "ms")
            .limit(Limit::AtMost(limits[0])),
        Figure::single(
            &format!("iteration overhead over a shell loop, {name}, checkpoints"),
            more(&committed),
            "ms",
        )
        .limit(Limit::AtMost(limits[1])),
    ])
}

/// The agent immediately kills the driver that called it.
fn first_call(programs: &Programs, rounds: &Rounds) -> io::Result<Figure> {
    let scene = Scene::new(programs, 20, NEVER_DONE)?;
    let ralph = programs.ralph.display();
    let line = format!("'{ralph}' loop work --agent 'command:kill -9 $PPID' --quiet; [ $? = 137 ]");
    let start = |_| {
        // The killed driver left a git process working on its checkpoint.
        thread::sleep(Duration::from_millis(50));
        Ok(scene.shell(&line))
    };
    let [wall] = times(rounds.long, [Contestant::new(start)])?;
    Ok(Figure::of("`ralph loop` until its first agent call", &wall))
}

/// Memory stays small, however much an agent prints.
fn flood(programs: &Programs) -> io::Result<Figure> {
    const LINE: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"still reading the code of the parser"}]}}"#;
    let scene = Scene::new(programs, 20, NEVER_DONE)?;
    fs::write(scene.path("agent.sh"), format!("cat >/dev/null\nyes '{LINE}' | head -c 1000000000\n"))?;
    let config = scene.path("home/.config/ralph");
    fs::create_dir_all(&config)?;
    let agent = "agents:\n  flood:\n    command: [sh, ../agent.sh]\n    dialect: claude\n";
    fs::write(config.join("config.yaml"), agent)?;
    let driven = scene.ralph(&["loop", "work", "--agent", "flood", "--max-iterations", "1", "--quiet"]);
    let most = memory::most_resident(driven)?.map(megabytes);
    Ok(Figure::single("an agent that prints 1 GB: memory", most, "MB").limit(Limit::AtMost(30.0)))
}
