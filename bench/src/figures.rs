//! All figures with their limits. Each is measured in its own scene.

use std::{fs, io};

use crate::build::Programs;
use crate::contest::{Call, Contestant, Rounds, Times, times};
use crate::report::{Figure, Limit, megabytes, millions, milliseconds};
use crate::scene::{HookInput, Scene, stop};
use crate::{driver, instructions, memory, reading};

type Measure = fn(&Programs, &Rounds) -> io::Result<Vec<Figure>>;

/// By the name that selects one. Figures with thousands of files come last: the disk stays busy with them for a while.
pub(crate) const ALL: [(&str, Measure); 13] = [
    ("start", start),
    ("judged", judged),
    ("ledger", ledger),
    ("list", list),
    ("against", against),
    ("driver", driver::driver),
    ("transcript", transcript),
    ("fingerprint", fingerprint),
    ("views", views),
    ("parallel", parallel),
    ("flood", flood),
    ("reading", reading::reading),
    ("size", size),
];

const ONE_GATE: &str = "verify:\n  - 'true'\n";
const EMPTY: &str = "an empty program";
const VERIFIED: &str = "systemMessage";

/// Calls that must be almost free.
fn start(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, 20, ONE_GATE)?;
    let irrelevant = HookInput { name: "PreToolUse", ..stop("", 0) };
    let unguarded = stop("worker", 0);
    // The stop searches for its session's loop among these.
    for number in 0..20 {
        crate::contest::run(scene.hook(&stop("check", number)), VERIFIED)?;
    }
    let session = HookInput { name: "Stop", ..stop("", 0) };
    let [empty, nothing, worker, idle, version] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(scene.empty())),
            Contestant::new(|_| Ok(scene.hook(&irrelevant))),
            Contestant::new(|_| Ok(scene.hook(&unguarded))),
            Contestant::new(|_| Ok(scene.hook(&session))),
            Contestant::new(|_| Ok(scene.ralph(&["--version"]))).saying("ralph"),
        ],
    )?;
    let mut figures = vec![
        Figure::of(EMPTY, &empty),
        Figure::compared("hook, irrelevant event", &nothing, EMPTY, &empty).limit(Limit::Ratio(1.3)),
        Figure::compared("hook, unguarded sub-agent", &worker, EMPTY, &empty).limit(Limit::Ratio(1.3)),
        Figure::compared("hook, session stop without a loop, among 20 loops", &idle, EMPTY, &empty)
            .limit(Limit::Ratio(1.4)),
        Figure::compared("`ralph --version`", &version, EMPTY, &empty).limit(Limit::Ratio(2.0)),
    ];
    let counted = [
        (EMPTY, scene.empty(), Limit::None),
        ("hook, irrelevant event", scene.hook(&irrelevant), Limit::AtMost(1.0)),
        ("hook, unguarded sub-agent", scene.hook(&unguarded), Limit::AtMost(1.0)),
        ("`ralph --version`", scene.ralph(&["--version"]), Limit::None),
    ];
    for (name, call, limit) in counted {
        let count = instructions::of(call)?.map(millions);
        figures.push(Figure::single(&format!("{name}: instructions"), count, "M").limit(limit));
    }
    Ok(figures)
}

/// The newest of a thousand loops.
fn list(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, 20, ONE_GATE)?;
    for number in 0..1_000 {
        crate::contest::run(scene.hook(&stop("check", number)), VERIFIED)?;
    }
    let [list] = times(rounds.short, [Contestant::new(|_| Ok(scene.ralph(&["ls"]))).saying("gates pass")])?;
    Ok(vec![Figure::of("`ralph ls` among 1,000 loops", &list).limit(Limit::AtMost(100.0))])
}

/// Judged stops, each of a new agent.
fn judged(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let (changing, still) = (Scene::new(programs, 20, ONE_GATE)?, Scene::new(programs, 20, ONE_GATE)?);
    let [empty, gate, receipt] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(changing.empty())),
            Contestant::new(|round| {
                changing.change(round)?;
                Ok(changing.hook(&stop("check", round)))
            })
            .saying(VERIFIED),
            Contestant::new(|_| Ok(still.ralph(&["verify"]))).saying("passed"),
        ],
    )?;
    Ok(vec![
        Figure::compared("judged stop with one `true` gate", &gate, EMPTY, &empty).limit(Limit::Ratio(8.0)),
        Figure::compared("`ralph verify` with a receipt", &receipt, EMPTY, &empty),
    ])
}

/// A long ledger: a stop reads only its end.
fn ledger(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const EVENTS: u64 = 10_000;
    let (short, long) = (Scene::new(programs, 20, ONE_GATE)?, Scene::new(programs, 20, ONE_GATE)?);
    for scene in [&short, &long] {
        crate::contest::run(scene.hook(&stop("check", 0)), VERIFIED)?;
    }
    long.lengthen_ledger(EVENTS)?;
    // The first stop after that writes a snapshot.
    crate::contest::run(long.hook(&stop("check", 0)), VERIFIED)?;
    let [with_short, with_long] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(short.hook(&stop("check", 0)))).saying(VERIFIED),
            Contestant::new(|_| Ok(long.hook(&stop("check", 0)))).saying(VERIFIED),
        ],
    )?;
    let more = milliseconds(with_long.tenth_percentile()) - milliseconds(with_short.tenth_percentile());
    let baseline = "the same with a new ledger";
    Ok(vec![
        Figure::compared("judged stop, ledger of 10,000 events", &with_long, baseline, &with_short),
        Figure::single("judged stop, ledger of 10,000 events: overhead", Some(more), "ms")
            .limit(Limit::AtMost(5.0)),
    ])
}

/// Compares with another build, alternately; measured only if one is given.
fn against(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const OTHER: &str = "the other build";
    if programs.other.is_none() {
        return Ok(Vec::new());
    }
    let scenes = [Scene::new(programs, 20, ONE_GATE)?, Scene::new(programs, 20, ONE_GATE)?];
    let [ours, others] = &scenes;
    let irrelevant = HookInput { name: "PreToolUse", ..stop("", 0) };
    let by_other = |call: Call| others.by_other(&call).ok_or_else(|| io::Error::other("no other build"));
    let [idle, idle_before, judged, judged_before, verify, verify_before] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(ours.hook(&irrelevant))),
            Contestant::new(|_| by_other(others.hook(&irrelevant))),
            Contestant::new(|round| {
                ours.change(round)?;
                Ok(ours.hook(&stop("check", round)))
            })
            .saying(VERIFIED),
            Contestant::new(|round| {
                others.change(round)?;
                by_other(others.hook(&stop("check", round)))
            })
            .saying(VERIFIED),
            Contestant::new(|_| Ok(ours.ralph(&["verify", "--fresh"]))).saying("passed"),
            Contestant::new(|_| by_other(others.ralph(&["verify", "--fresh"]))).saying("passed"),
        ],
    )?;
    let against = |what: &str, now: &Times, before: &Times| {
        Figure::compared(&format!("{what}, compared with another build"), now, OTHER, before)
            .limit(Limit::Ratio(1.1))
    };
    Ok(vec![
        against("hook, irrelevant event", &idle, &idle_before),
        against("judged stop with one `true` gate", &judged, &judged_before),
        against("`ralph verify --fresh`", &verify, &verify_before),
    ])
}

/// A transcript is not read here, so its size must not matter.
fn transcript(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, 20, ONE_GATE)?;
    let (small, large) = (scene.path("small.jsonl"), scene.path("large.jsonl"));
    fs::write(&small, "{}\n")?;
    fs::File::create(&large)?.set_len(1 << 30)?;
    let stop_with = |transcript: &std::path::Path, round| {
        scene.hook(&HookInput { transcript: transcript.to_owned(), ..stop("check", round) })
    };
    let [with_small, with_large] = times(
        rounds.short,
        [
            Contestant::new(|round| Ok(stop_with(&small, 2 * round))).saying(VERIFIED),
            Contestant::new(|round| Ok(stop_with(&large, 2 * round + 1))).saying(VERIFIED),
        ],
    )?;
    let baseline = "the same with 3 bytes";
    Ok(vec![
        Figure::compared("judged stop, transcript of 1 GB", &with_large, baseline, &with_small)
            .limit(Limit::Ratio(1.1)),
    ])
}

/// `ralph verify` with a receipt: nearly all of its time is the fingerprint.
fn fingerprint(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const REUSED: &str = "Verification passed";
    let (warm, cold) = (Scene::new(programs, 10_000, ONE_GATE)?, Scene::new(programs, 10_000, ONE_GATE)?);
    let [status, warm, cold] = times(
        rounds.long,
        [
            Contestant::new(|_| Ok(warm.git_status())),
            Contestant::new(|_| Ok(warm.ralph(&["verify"]))).saying(REUSED),
            Contestant::new(|round| {
                if round > 0 {
                    cold.forget_hashes()?;
                }
                Ok(cold.ralph(&["verify"]))
            })
            .saying(REUSED),
        ],
    )?;
    let baseline = "`git status --porcelain`";
    Ok(vec![
        Figure::of("`git status --porcelain`, 10,000 files", &status),
        Figure::compared("fingerprint of 10,000 files, warm", &warm, baseline, &status)
            .limit(Limit::Ratio(1.5)),
        Figure::compared("fingerprint of 10,000 files, cold", &cold, baseline, &status),
    ])
}

/// A gate on a view of the tree. `ralph prove` runs the gate on three views, and `true` takes no time; what it reads of git
/// and of the tree counts too, so the real overhead of one run is smaller.
fn views(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const VIEWS: f64 = 3.0;
    // A test and a source differ from the commit, so all three views are different.
    let scene = Scene::new(programs, 5_000, "verify:\n  - 'true'\n")?;
    fs::create_dir(scene.project().join("tests"))?;
    fs::write(scene.project().join("tests/new.rs"), "// new\n")?;
    scene.change(1)?;
    let prove = |more: &str| {
        let ralph = programs.ralph.display();
        scene.shell(&format!("{more} '{ralph}' prove --json; [ $? = 6 ]"))
    };
    let [overlay, copy] = times(
        rounds.long,
        [
            Contestant::new(|_| Ok(prove(""))).saying("in an overlay at the same path"),
            Contestant::new(|_| Ok(prove("RALPH_NO_OVERLAY=1"))).saying("in a copy of the files"),
        ],
    )?;
    let one = |times: &Times| Some(milliseconds(times.tenth_percentile()) / VIEWS);
    Ok(vec![
        Figure::single("a gate in an overlay, 5,000 files: overhead", one(&overlay), "ms")
            .limit(Limit::AtMost(150.0)),
        Figure::single("a gate in a copy of 5,000 files: overhead", one(&copy), "ms"),
    ])
}

/// Parallel gates take as long as the longest.
fn parallel(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let gate = |length| format!("  - {{run: sleep {length}, parallel: true}}\n");
    let config = format!("verify:\n{}{}{}", gate(1), gate(2), gate(3));
    let scene = Scene::new(programs, 20, &config)?;
    let [wall] =
        times(rounds.slow, [Contestant::new(|_| Ok(scene.ralph(&["verify", "--fresh"]))).saying("passed")])?;
    Ok(vec![Figure::of("parallel gates of 1 s, 2 s and 3 s", &wall).limit(Limit::AtMost(3050.0))])
}

/// A gate that prints a lot is not slowed down, and memory stays small.
fn flood(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const LINE: &str = "test parser::tests::an_empty_list_is_a_list ... ok, in 3 ms\n";
    let scene = Scene::new(programs, 20, "verify:\n  - cat ../lines\n")?;
    fs::write(scene.path("lines"), LINE.repeat(200_000_000 / LINE.len()))?;
    let verify = || scene.ralph(&["verify", "--fresh"]);
    let [plain, wall] = times(
        rounds.long,
        [
            Contestant::new(|_| Ok(scene.shell("cat ../lines | cat >/dev/null"))),
            Contestant::new(|_| Ok(verify())).saying("passed"),
        ],
    )?;
    let over = milliseconds(wall.tenth_percentile()) - milliseconds(plain.tenth_percentile());
    let most = memory::most_resident(verify())?.map(megabytes);
    Ok(vec![
        Figure::compared("a gate that prints 200 MB", &wall, "the same into `cat >/dev/null`", &plain)
            .limit(Limit::AtMost(300.0)),
        Figure::single("a gate that prints 200 MB: overhead over the plain command", Some(over), "ms"),
        Figure::single("a gate that prints 200 MB: memory", most, "MB").limit(Limit::AtMost(20.0)),
    ])
}

fn size(programs: &Programs, _: &Rounds) -> io::Result<Vec<Figure>> {
    let bytes = fs::metadata(&programs.ralph)?.len();
    Ok(vec![
        Figure::single("size of the executable", Some(megabytes(bytes)), "MB").limit(Limit::AtMost(12.0)),
    ])
}
