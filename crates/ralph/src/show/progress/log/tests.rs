use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use ralph_core::clients::stream::AgentEvent;

use super::*;
use crate::show::progress::sample::{self, at};

fn open(dir: &Path, id: &str, seconds: i64) -> ProgressLog {
    ProgressLog::open(dir, &LoopId::new(id), sample::lines(), at(seconds), &TimeZone::UTC).expect("a log")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_resumed_loop_continues_its_log() {
    let home = tempfile::tempdir().expect("a folder");
    let dir = home.path().join("logs");
    let mut log = open(&dir, "mine-1", 0);
    sample::story(&mut |event| log.receive(event, at(1)).expect("room"));
    drop(log);
    let mut again = open(&dir, "mine-1", 7200);
    again.receive(&LoopEvent::StrategyChanged, at(7201)).expect("room");
    assert_eq!(names(&dir), ["loop-20260102-030405-mine-1.log", "loop-latest.log"]);
    let text = fs::read_to_string(dir.join("loop-latest.log")).expect("the link leads to it");
    assert!(text.contains("2026-01-02 03:04:06   gate test failed (exit 101) in 3.1s\n"), "{text}");
    assert!(
        text.ends_with("2026-01-02 05:04:06 no progress; the next iteration tries a different approach\n"),
        "{text}"
    );
    assert_eq!((mode(&dir), mode(&dir.join("loop-latest.log"))), (0o700, 0o600));
}

#[test]
fn latest_points_to_the_last_driven_loop() {
    let home = tempfile::tempdir().expect("a folder");
    let dir = home.path();
    let latest = || fs::read_link(dir.join(LATEST)).expect("a link").to_str().expect("text").to_owned();
    drop(open(dir, "one", 0));
    assert_eq!(latest(), "loop-20260102-030405-one.log");
    // The end of another loop's id is not the same loop.
    drop(open(dir, "other-one", 60));
    assert_eq!(latest(), "loop-20260102-030505-other-one.log");
    drop(open(dir, "one", 120));
    assert_eq!(latest(), "loop-20260102-030405-one.log");
    assert_eq!(names(dir).len(), 3, "{:?}", names(dir));
}

#[test]
fn keeps_the_newest_fifty_logs_only() {
    let home = tempfile::tempdir().expect("a folder");
    let dir = home.path();
    fs::write(dir.join("notes.log"), "mine").expect("a file");
    for number in 0..61 {
        drop(open(dir, &format!("n{number}"), number));
        let path = dir.join(name_of(&LoopId::new(format!("n{number}")), at(number), &TimeZone::UTC));
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + number.unsigned_abs());
        File::options()
            .append(true)
            .open(path)
            .and_then(|file| file.set_modified(written))
            .expect("its time");
    }
    let names = names(dir);
    assert_eq!(names.iter().filter(|name| loop_in(name).is_some()).count(), MOST_LOGS);
    assert!(names.contains(&"notes.log".into()) && names.contains(&LATEST.into()));
    assert!(names.iter().any(|name| name.ends_with("-n60.log")));
    assert!(!names.iter().any(|name| name.ends_with("-n9.log")));
    drop(open(dir, "one-more", 70));
    let now = self::names(dir).into_iter().filter(|name| loop_in(name).is_some()).count();
    assert_eq!(now, MOST_LOGS + 1, "a few more may stay for a while");
}

#[test]
fn agent_output_leaves_room_for_the_loop() {
    let home = tempfile::tempdir().expect("a folder");
    let mut log = open(home.path(), "flood", 0);
    log.room = Room { for_agent: 2_000, for_loop: 4_000 };
    let said = AgentEvent::Said { text: "x".repeat(90) };
    for _ in 0..1_000 {
        log.receive(&LoopEvent::Agent(said.clone()), at(0)).expect("room");
    }
    log.receive(&LoopEvent::StrategyChanged, at(0)).expect("room");
    let text = || fs::read_to_string(home.path().join(LATEST)).expect("the log");
    let so_far = text();
    assert!(so_far.len() < 2_400, "{}", so_far.len());
    assert_eq!(so_far.matches("agent output is no longer logged").count(), 1);
    assert!(so_far.ends_with("tries a different approach\n"));
    for _ in 0..1_000 {
        log.receive(&LoopEvent::StrategyChanged, at(0)).expect("room");
    }
    assert!(
        text().len() < 4_400 && text().ends_with("this log is full: nothing more is logged\n"),
        "{}",
        text()
    );
}

#[test]
fn reports_a_log_that_cannot_be_opened() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("logs");
    fs::write(&file, "not a folder").expect("a file");
    let opened = ProgressLog::open(&file, &LoopId::new("x"), sample::lines(), at(0), &TimeZone::UTC);
    assert!(opened.is_err());
}
