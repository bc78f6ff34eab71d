//! The usage limit is reached: the run does not count as an iteration.

use jiff::Timestamp;
use rustix::process::Signal;

use super::scene::{DONE, RECORDED, Scene, unverified, verified};
use ralph_testkit::wait_until;

/// A recorded run that ended at a usage limit; the service states its end. Later runs do the work.
fn out_of_usage(seconds: u32) -> Scene {
    let agent = format!(
        r#"
if [ $run -gt 1 ]; then
    : > done.txt
    echo '{{"type":"result","subtype":"success","is_error":false,"session_id":"session-2","result":"Done.","total_cost_usd":0.5}}'
    exit
fi
echo unfinished > half
head -n -1 '{RECORDED}/claude.rate_limit.jsonl'
echo '{{"type":"rate_limit_event","rate_limit_info":{{"status":"rejected","resetsAt":'$(($(date +%s) + {seconds}))',"rateLimitType":"five_hour"}}}}'
tail -n 1 '{RECORDED}/claude.rate_limit.jsonl'
exit 1"#
    );
    Scene::of_claude(DONE, &agent)
}

fn waited_until(scene: &Scene) -> Vec<Timestamp> {
    let untils = scene.event_fields("waiting_until", "until").into_iter();
    untils.map(|until| until.as_str().and_then(|text| text.parse().ok()).expect("a time")).collect()
}

#[test]
fn the_stated_end_is_waited_out_and_no_iteration_is_counted() {
    let scene = out_of_usage(3);
    verified(scene.drive(&["--max-iterations", "1"]));
    assert_eq!(scene.ends(), ["out_of_usage", "finished"]);
    assert_eq!(scene.event_fields("iteration_began", "iteration"), [1, 1]);
    assert_eq!(scene.event_fields("judged", "attempt"), [1]);
    let waits = waited_until(&scene);
    assert_eq!(waits.len(), 1);
    let mut began =
        scene.sandbox.events().into_iter().filter(|event| event["event"]["event"] == "iteration_began");
    let last =
        began.next_back().and_then(|event| event["at"].as_str()?.parse::<Timestamp>().ok()).expect("a time");
    assert!(last >= waits[0], "it went on at {last}, before {}", waits[0]);
    assert!(scene.prompt(2).starts_with("Iteration 1 of 1."), "{}", scene.prompt(2));
}

#[test]
fn a_wait_survives_a_kill_and_the_user_can_skip_it() {
    let scene = out_of_usage(3_000);
    let running = scene.start(&[]);
    wait_until("it waits", || !scene.sandbox.events_named("waiting_until").is_empty());
    running.signal(Signal::KILL);
    running.end();
    let before = waited_until(&scene);
    // A resume takes the loop over, and keeps waiting.
    let resumed = scene.resume(&[]);
    wait_until("it is taken over", || scene.sandbox.events_named("driver_started").len() == 2);
    let state = scene.sandbox.state();
    assert_eq!(state["drive"]["wait"]["until"].as_str(), Some(before[0].to_string().as_str()), "{state:#}");
    resumed.signal(Signal::INT);
    unverified(resumed.end(), 130);
    assert_eq!((scene.runs(), waited_until(&scene)), (1, before));
    scene.is_paused_because("interrupted");
    verified(scene.resume(&["--now"]).end());
    assert_eq!(scene.event_fields("judged", "attempt"), [1]);
    assert_eq!(scene.runs(), 2);
    // The work of the refused run is not part of the baseline, also after a resume.
    let refs = scene.sandbox.git(&["for-each-ref", "--format=%(refname)", "refs/ralph/"]);
    let has_half = |name: &str| scene.sandbox.git(&["ls-tree", "--name-only", name]).contains("half");
    assert_eq!(refs.lines().map(has_half).collect::<Vec<_>>(), [false, true], "{refs}");
}

#[test]
fn a_wait_can_be_paused_and_cancelled() {
    let scene = out_of_usage(3_000);
    let running = scene.start(&[]);
    wait_until("it waits", || !scene.sandbox.events_named("waiting_until").is_empty());
    scene.sandbox.ralph(&["pause"]).exits(0);
    unverified(running.end(), 3);
    scene.is_paused_because("command");
    let resumed = scene.resume(&[]);
    wait_until("it is taken over", || scene.sandbox.events_named("driver_started").len() == 2);
    scene.sandbox.ralph(&["cancel"]).exits(0);
    unverified(resumed.end(), 3);
    scene.ended_as("cancelled");
    assert_eq!(scene.runs(), 1);
}

#[test]
fn text_about_a_limit_is_not_a_limit() {
    let scene = Scene::of_claude(
        DONE,
        r#": > done.txt
echo '{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"429 rate limit, usage limit reached|1999999999"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"Claude AI usage limit reached|1999999999"}'"#,
    );
    verified(scene.drive(&[]));
    assert!(scene.sandbox.events_named("waiting_until").is_empty());
}
