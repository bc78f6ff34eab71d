//! What it costs to read a gate's output into results: next to nothing for ordinary output, and bounded for any.

use std::path::Path;
use std::{fs, io};

use crate::build::Programs;
use crate::contest::{Contestant, Rounds, times};
use crate::memory;
use crate::report::{Figure, Limit, megabytes, milliseconds};
use crate::scene::Scene;

const RECORDED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/ralph-core/src/claims/results/recorded");

pub(crate) fn reading(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let mut figures = ordinary(programs, rounds)?;
    figures.extend(long(programs, rounds)?);
    Ok(figures)
}

/// Two thousand tests of which twelve fail, against a gate that prints nothing.
fn ordinary(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let silent = Scene::new(programs, 20, "verify:\n  - cat ../output >/dev/null\n")?;
    let telling = Scene::new(programs, 20, "verify:\n  - cat ../output\n")?;
    let passing: String =
        (0..2_000).map(|number| format!("test parser::tests::list_{number} ... ok\n")).collect();
    let failing = fs::read_to_string(format!("{RECORDED}/cargo_test/twelve_failures.txt"))?;
    let output = failing.replacen("running 8 tests\n", &format!("running 2008 tests\n{passing}"), 1);
    for scene in [&silent, &telling] {
        fs::write(scene.path("output"), &output)?;
    }
    let verify = |scene: &Scene<'_>| scene.ralph(&["verify", "--fresh"]);
    let [without, with] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(verify(&silent))).saying("passed"),
            Contestant::new(|_| Ok(verify(&telling))).saying("passed"),
        ],
    )?;
    let more = milliseconds(with.tenth_percentile()) - milliseconds(without.tenth_percentile());
    let baseline = "the same, printing nothing";
    Ok(vec![
        Figure::compared("a gate that prints the results of 2,000 tests", &with, baseline, &without),
        Figure::single("a gate that prints the results of 2,000 tests: more", Some(more), "ms")
            .limit(Limit::AtMost(5.0)),
    ])
}

/// All recordings again and again, so that every reader has much to do.
fn long(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const LENGTH: usize = 50_000_000;
    let scene = Scene::new(programs, 20, "verify:\n  - cat ../output\n")?;
    let all = recordings(Path::new(RECORDED))?;
    fs::write(scene.path("output"), all.repeat(LENGTH / all.len() + 1))?;
    let verify = || scene.ralph(&["verify", "--fresh"]);
    let [wall] = times(rounds.long, [Contestant::new(|_| Ok(verify())).saying("passed")])?;
    let most = memory::most_resident(verify())?.map(megabytes);
    Ok(vec![
        Figure::of("a gate that prints 50 MB of results", &wall).limit(Limit::AtMost(1000.0)),
        Figure::single("a gate that prints 50 MB of results: memory", most, "MB").limit(Limit::AtMost(20.0)),
    ])
}

fn recordings(folder: &Path) -> io::Result<Vec<u8>> {
    let mut paths = Vec::new();
    for tool in fs::read_dir(folder)? {
        let tool = tool?.path();
        if tool.is_dir() {
            paths.extend(fs::read_dir(tool)?.map(|entry| entry.map(|entry| entry.path())));
        }
    }
    let mut paths = paths.into_iter().collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "txt")) {
        all.extend(fs::read(path)?);
        all.push(b'\n');
    }
    Ok(all)
}
