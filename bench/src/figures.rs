//! Every figure that has a limit. Each measures in a scene of its own.

use std::{fs, io};

use crate::build::Programs;
use crate::contest::{Call, Contestant, Rounds, Times, times};
use crate::report::{Figure, Limit, megabytes, millions, milliseconds};
use crate::scene::{Event, Scene, stop};
use crate::{driver, instructions, memory};

type Measure = fn(&Programs, &Rounds) -> io::Result<Vec<Figure>>;

/// By the word that chooses one. What makes thousands of files comes after what makes a few: the disk has to do with them
/// for a while.
pub(crate) const ALL: [(&str, Measure); 10] = [
    ("start", start),
    ("judged", judged),
    ("ledger", ledger),
    ("against", against),
    ("driver", driver::driver),
    ("transcript", transcript),
    ("fingerprint", fingerprint),
    ("parallel", parallel),
    ("flood", flood),
    ("size", size),
];

const ONE_GATE: &str = "verify:\n  - 'true'\n";
const EMPTY: &str = "an empty program";
const VERIFIED: &str = "systemMessage";

/// The doors that must cost next to nothing.
fn start(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, 20, ONE_GATE)?;
    let of_no_interest = Event { name: "PreToolUse", ..stop("", 0) };
    let somebody_else = stop("worker", 0);
    // The loop of its session is searched for among these.
    for number in 0..20 {
        crate::contest::run(scene.hook(&stop("check", number)), VERIFIED)?;
    }
    let session = Event { name: "Stop", ..stop("", 0) };
    let [empty, nothing, worker, idle, version] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(scene.empty())),
            Contestant::new(|_| Ok(scene.hook(&of_no_interest))),
            Contestant::new(|_| Ok(scene.hook(&somebody_else))),
            Contestant::new(|_| Ok(scene.hook(&session))),
            Contestant::new(|_| Ok(scene.ralph(&["--version"]))).saying("ralph"),
        ],
    )?;
    let mut figures = vec![
        Figure::of(EMPTY, &empty),
        Figure::compared("hook, an event of no interest", &nothing, EMPTY, &empty).limit(Limit::Ratio(1.3)),
        Figure::compared("hook, an agent nobody holds", &worker, EMPTY, &empty).limit(Limit::Ratio(1.3)),
        Figure::compared("hook, a stop of a session without a loop, among 20 loops", &idle, EMPTY, &empty)
            .limit(Limit::Ratio(1.3)),
        Figure::compared("`ralph --version`", &version, EMPTY, &empty).limit(Limit::Ratio(2.0)),
    ];
    let counted = [
        (EMPTY, scene.empty(), Limit::None),
        ("hook, an event of no interest", scene.hook(&of_no_interest), Limit::AtMost(1.0)),
        ("hook, an agent nobody holds", scene.hook(&somebody_else), Limit::AtMost(1.0)),
        ("`ralph --version`", scene.ralph(&["--version"]), Limit::None),
    ];
    for (name, call, limit) in counted {
        let count = instructions::of(call)?.map(millions);
        figures.push(Figure::single(&format!("{name}: instructions"), count, "M").limit(limit));
    }
    Ok(figures)
}

/// Stops that are judged, each of an agent that was never seen before.
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
        Figure::compared("judged stop, one `true` gate runs", &gate, EMPTY, &empty).limit(Limit::Ratio(8.0)),
        Figure::compared("`ralph verify`, a receipt at hand", &receipt, EMPTY, &empty),
    ])
}

/// A loop that has lasted for long: a stop reads what is new.
fn ledger(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const EVENTS: u64 = 10_000;
    let (short, long) = (Scene::new(programs, 20, ONE_GATE)?, Scene::new(programs, 20, ONE_GATE)?);
    for scene in [&short, &long] {
        crate::contest::run(scene.hook(&stop("check", 0)), VERIFIED)?;
    }
    long.lengthen_ledger(EVENTS)?;
    // The first stop after that is one of those that carry the state on.
    crate::contest::run(long.hook(&stop("check", 0)), VERIFIED)?;
    let [with_short, with_long] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(short.hook(&stop("check", 0)))).saying(VERIFIED),
            Contestant::new(|_| Ok(long.hook(&stop("check", 0)))).saying(VERIFIED),
        ],
    )?;
    let more = milliseconds(with_long.tenth_percentile()) - milliseconds(with_short.tenth_percentile());
    let baseline = "the same in a new ledger";
    Ok(vec![
        Figure::compared("judged stop, ledger of 10,000 events", &with_long, baseline, &with_short),
        Figure::single("judged stop, ledger of 10,000 events: more", Some(more), "ms")
            .limit(Limit::AtMost(5.0)),
    ])
}

/// Every door against another build, in turns; measured only where one is given.
fn against(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    const OTHER: &str = "the other build";
    if programs.other.is_none() {
        return Ok(Vec::new());
    }
    let scenes = [Scene::new(programs, 20, ONE_GATE)?, Scene::new(programs, 20, ONE_GATE)?];
    let [ours, others] = &scenes;
    let of_no_interest = Event { name: "PreToolUse", ..stop("", 0) };
    let by_other = |call: Call| others.by_other(&call).ok_or_else(|| io::Error::other("no other build"));
    let [idle, idle_before, judged, judged_before, verify, verify_before] = times(
        rounds.short,
        [
            Contestant::new(|_| Ok(ours.hook(&of_no_interest))),
            Contestant::new(|_| by_other(others.hook(&of_no_interest))),
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
        Figure::compared(&format!("{what}, against another build"), now, OTHER, before)
            .limit(Limit::Ratio(1.1))
    };
    Ok(vec![
        against("hook, an event of no interest", &idle, &idle_before),
        against("judged stop, one `true` gate runs", &judged, &judged_before),
        against("`ralph verify --fresh`", &verify, &verify_before),
    ])
}

/// A transcript is never read, so its size is nothing to us.
fn transcript(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let scene = Scene::new(programs, 20, ONE_GATE)?;
    let (small, large) = (scene.path("small.jsonl"), scene.path("large.jsonl"));
    fs::write(&small, "{}\n")?;
    fs::File::create(&large)?.set_len(1 << 30)?;
    let stop_with = |transcript: &std::path::Path, round| {
        scene.hook(&Event { transcript: transcript.to_owned(), ..stop("check", round) })
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

/// The whole of `ralph verify` where a receipt is at hand: nearly all of it is the fingerprint.
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
        Figure::compared("fingerprint of 10,000 files, no hash known", &cold, baseline, &status),
    ])
}

/// Gates that may run together take as long as the longest.
fn parallel(programs: &Programs, rounds: &Rounds) -> io::Result<Vec<Figure>> {
    let gate = |length| format!("  - {{run: sleep {length}, parallel: true}}\n");
    let config = format!("verify:\n{}{}{}", gate(1), gate(2), gate(3));
    let scene = Scene::new(programs, 20, &config)?;
    let [wall] =
        times(rounds.slow, [Contestant::new(|_| Ok(scene.ralph(&["verify", "--fresh"]))).saying("passed")])?;
    Ok(vec![Figure::of("parallel gates of 1 s, 2 s and 3 s", &wall).limit(Limit::AtMost(3050.0))])
}

/// However much a gate prints, it is not held up and little is kept.
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
        Figure::single("a gate that prints 200 MB: over the plain command", Some(over), "ms"),
        Figure::single("a gate that prints 200 MB: memory", most, "MB").limit(Limit::AtMost(10.0)),
    ])
}

fn size(programs: &Programs, _: &Rounds) -> io::Result<Vec<Figure>> {
    let bytes = fs::metadata(&programs.ralph)?.len();
    Ok(vec![Figure::single("the program on disk", Some(megabytes(bytes)), "MB").limit(Limit::AtMost(12.0))])
}
