//! A kill at every request to the forge and at every record of the ledger, and a wait of an hour.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ralph_testkit::{KillMoment, ScriptedCheck, wait_until};

use crate::scene::{Scene, finish};

const COMMITS: &str = "echo fixed > work.txt; git add -A; git commit -q -m fix || true";

fn green_after_one_look(scene: &Scene) {
    scene.forge.ci(|question| match question.asked {
        0 => vec![ScriptedCheck::pending("build")],
        _ => vec![ScriptedCheck::run("build", "SUCCESS")],
    });
}

#[test]
fn after_a_kill_at_any_request_there_is_one_pull_request_and_one_merge() {
    let scene = Scene::new(COMMITS);
    green_after_one_look(&scene);
    scene.drive(&["--until", "merged"]).exits(0);
    let requests = scene.forge.requests();
    assert!(
        requests.contains(&"create".to_owned()) && requests.contains(&"merge".to_owned()),
        "{requests:?}"
    );
    // The first request is made before the loop exists.
    for at in 1..requests.len() {
        for moment in [KillMoment::BeforeItIsDone, KillMoment::AfterItIsDone] {
            let scene = Scene::new(COMMITS);
            green_after_one_look(&scene);
            let child = scene.start(&["--until", "merged"]);
            scene.forge.kill_at(at, moment, child.id());
            let ran = finish(child);
            assert_eq!(ran.code, None, "request {at} {moment:?} of {requests:?}: {ran:#?}");
            let ran = scene.resume();
            assert_eq!(ran.code, Some(0), "request {at} {moment:?} of {requests:?}: {ran:#?}");
            assert_eq!(scene.forge.merges_and_creates(), (1, 1), "request {at} {moment:?}");
            assert_eq!(scene.state()["status"]["verdict"], "verified");
        }
    }
}

/// The process that runs the loop is killed by a hook of git: before and after the commit, before and after the push.
#[test]
fn after_a_kill_around_a_commit_or_a_push_nothing_is_lost_or_doubled() {
    for (folder, hook) in [
        ("project/.git", "pre-commit"),
        ("project/.git", "post-commit"),
        ("project/.git", "pre-push"),
        ("home/remote.git", "post-receive"),
    ] {
        let agent = "while [ ! -s \"$NOTES/process\" ]; do sleep 0.02; done; echo fixed > work.txt";
        let scene = Scene::new(agent);
        let notes = scene.sandbox.home().join("notes");
        let path = scene.sandbox.home().parent().expect("a folder").join(folder).join("hooks").join(hook);
        let script = format!(
            "#!/bin/sh\n[ -e {0}/killed ] || {{ touch {0}/killed; kill -9 $(cat {0}/process); }}\n",
            notes.display()
        );
        std::fs::write(&path, script).expect("a hook");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("executable");
        let child = scene.start(&["--until", "merged"]);
        std::fs::write(notes.join("process"), child.id().to_string()).expect("a note");
        assert_eq!(finish(child).code, None, "{hook}");
        let ran = scene.resume();
        assert_eq!(ran.code, Some(0), "{hook}: {ran:#?}");
        assert_eq!(scene.forge.merges_and_creates(), (1, 1), "{hook}");
        let commits = scene.sandbox.git(&["rev-list", "--count", "HEAD"]);
        assert_eq!(commits.trim(), "2", "{hook}: one commit of the work");
    }
}

/// The number of records in the ledger of the driven loop.
fn records(scene: &Scene) -> usize {
    let folders =
        |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let loops =
        folders(&scene.sandbox.ralph_home().join("repos")).flat_map(|repo| folders(&repo.join("loops")));
    let ledgers = loops.filter_map(|folder| std::fs::read(folder.join("ledger.jsonl")).ok());
    ledgers.map(|text| text.iter().filter(|byte| **byte == b'\n').count()).sum()
}

/// Killed right after each write of the ledger.
#[test]
fn after_a_kill_at_any_record_there_is_one_pull_request_and_one_merge() {
    let scene = Scene::new(COMMITS);
    green_after_one_look(&scene);
    scene.drive(&["--until", "merged"]).exits(0);
    let all = records(&scene);
    assert!(all > 10, "{all} records");
    for count in 1..all {
        let scene = Scene::new(COMMITS);
        green_after_one_look(&scene);
        let mut child = scene.start(&["--until", "merged"]);
        while records(&scene) < count && child.try_wait().expect("a child of ours").is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let _gone = child.kill();
        // The last records are written together with the end.
        let ended = finish(child).code == Some(0);
        let ran = scene.resume();
        assert_eq!(ran.code, Some(0), "record {count} of {all}, ended {ended}: {ran:#?}");
        assert_eq!(scene.forge.merges_and_creates(), (1, 1), "record {count} of {all}");
    }
}

#[test]
fn an_hours_wait_costs_no_model_call_and_hardly_any_time_and_survives_ctrl_c() {
    let mut scene = Scene::with("ship: { poll: 30s, ci_timeout: 2h }", COMMITS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    // An hour takes twelve seconds.
    scene.sandbox.set("RALPH_TEST_CLOCK", format!("{now}*300"));
    let begun = Instant::now();
    scene.forge.ci(move |_| {
        if begun.elapsed() < Duration::from_secs(14) {
            vec![ScriptedCheck::pending("build")]
        } else {
            vec![ScriptedCheck::run("build", "SUCCESS")]
        }
    });
    let child = scene.start(&["--until", "merged"]);
    wait_until("the wait", || scene.forge.requests().len() > 8);
    let process = rustix_pid(child.id());
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a child of ours");
    finish(child).exits(130);
    let deadline = scene.sandbox.events_named("ship_waits")[0]["deadline"].clone();
    let resumed = scene.sandbox.command(&["resume"]).spawn().expect("the binary");
    let ticks = cpu_time_at_end(resumed);
    let waits = scene.sandbox.events_named("ship_waits");
    assert!(
        waits.iter().filter(|wait| wait["step"] == "ci").all(|wait| wait["deadline"] == deadline),
        "{waits:?}"
    );
    assert_eq!(scene.runs(), 1, "no model call");
    assert_eq!(scene.forge.merges_and_creates(), (1, 1));
    let polls = scene.events("waited");
    assert!((10..60).contains(&polls), "{polls} polls");
    assert!(ticks < 100, "{ticks} ticks of 10 ms for {polls} polls");
}

fn rustix_pid(id: u32) -> rustix::process::Pid {
    i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw).expect("a process")
}

/// The processor time of a process itself, in ticks of 10 ms, just before its end.
fn cpu_time_at_end(mut child: std::process::Child) -> u64 {
    let path = format!("/proc/{}/stat", child.id());
    let (mut last, end) = (0, Instant::now() + Duration::from_secs(60));
    loop {
        if let Ok(stat) = std::fs::read_to_string(&path) {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
            last = last.max(field(11) + field(12));
        }
        if let Some(status) = child.try_wait().expect("a child of ours") {
            assert!(status.success(), "{status}");
            return last;
        }
        assert!(Instant::now() < end, "it never ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}
