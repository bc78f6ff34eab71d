//! Random stories of two sessions in one repo, played with the real binary and with a small model of the expected
//! results:
//! starts, stops, pauses, resumes, cancels, a deleted loop file, hooks that are killed while their gate runs.
//!
//! 50 of them by default; `RALPH_STORIES=2000` plays more, as `.ci/run` does, `RALPH_STORIES_SEED=…` plays those of a
//! failure
//! again.

mod model;
mod step;
mod world;

use std::process::Child;
use std::time::{Duration, Instant};

use model::{Expected, Loop, LoopStatus, Model, Reply};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use serde_json::{Value, json};
use step::{Between, Event, Plain, Step, Stop, Story, Who};
use world::{Said, Seen, World};

/// The tests run in parallel; each plays its part of the stories.
const PARTS: u32 = 4;

#[test]
fn stories_match_the_model_part_1() {
    play_stories(1);
}

#[test]
fn stories_match_the_model_part_2() {
    play_stories(2);
}

#[test]
fn stories_match_the_model_part_3() {
    play_stories(3);
}

#[test]
fn stories_match_the_model_part_4() {
    play_stories(4);
}

/// The same stories every time, unless configured: `RALPH_STORIES_SEED`, and `RALPH_STORIES` of them.
fn play_stories(part: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let stories = number("RALPH_STORIES").unwrap_or(50);
    let given = number("RALPH_STORIES_SEED").unwrap_or_default();
    let seed = given.wrapping_mul(4).wrapping_add(part);
    let config = Config {
        cases: u32::try_from(stories).expect("not that many").div_ceil(PARTS),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let bytes: Vec<u8> = seed.to_le_bytes().repeat(4);
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&step::any_story(), |story| play(&story).map_err(TestCaseError::fail));
    if let Err(TestError::Fail(divergence, story)) = outcome {
        // A failure that depends on timing may not repeat: the steps are needed too, not only the seed.
        panic!("{}\n\nRALPH_STORIES_SEED={given} plays it again.\n{story:?}", divergence.message());
    }
    outcome.expect("no story is given up");
}

/// Plays a story; if the real binary and the model differ, the error is the story so far and the difference.
fn play(story: &Story) -> Result<(), String> {
    let mut play =
        Play { world: World::new(story.gated), model: Model::new(story.gated), notice: Vec::new() };
    play.notice.push(if story.gated { "a repo with a gate, red" } else { "a repo without a gate" }.into());
    for step in &story.steps {
        play.step(*step).map_err(|wrong| format!("{}\n=> {wrong}", play.notice.join("\n")))?;
    }
    Ok(())
}

struct Play {
    world: World,
    model: Model,
    /// The story so far, one line per step.
    notice: Vec<String>,
}

impl Play {
    fn step(&mut self, step: Step) -> Result<(), String> {
        self.model.begin_step();
        match step {
            Step::Plain(plain) => self.plain(plain),
            Step::SlowStop(who, stop, between) => self.slow_stop(who, stop, between),
            Step::BothStop(ann, bob) => self.both_stop(ann, bob),
            Step::Killed(who, event, after) => self.killed(who, event, Duration::from_micros(after.into())),
        }
    }

    fn note(&mut self, line: impl std::fmt::Display) {
        self.notice.push(format!("{:2}. {line}", self.notice.len()));
    }

    fn plain(&mut self, plain: Plain) -> Result<(), String> {
        let plain = self.model.possible(plain);
        self.note(plain);
        let (mut session, mut next) = (String::new(), String::new());
        if let Plain::In(who, event) = plain {
            if let Event::Stop(stop) = event {
                self.before_stop(who, stop);
            }
            session = self.model.name(who);
            next = self.model.name_after_clear(who);
        }
        let said = self.world.act(plain, &session, &next);
        let seen = self.world.look();
        let expected = self.model.take(plain, &seen);
        compare_reply(&expected, &said)?;
        compare_states(&mut self.model, &seen)
    }

    fn before_stop(&mut self, who: Who, stop: Stop) {
        if stop.after_tool {
            let n = self.model.call_tool(who);
            self.world.tool_call(who, n);
        }
    }

    fn slow_stop(&mut self, who: Who, stop: Stop, between: Between) -> Result<(), String> {
        let who = self.model.who_is_blocked(who);
        if !self.model.is_there(who) {
            return self.plain(Plain::In(who, Event::Begins));
        }
        self.note(Step::SlowStop(who, stop, between));
        self.before_stop(who, stop);
        let session = self.model.name(who);
        let should_run = self.model.runs_gate(&session, stop);
        self.world.slow_down();
        let mut hook = self.world.begins(who, Event::Stop(stop), &session);
        if !self.world.gate_runs(&mut hook) {
            self.world.speed_up();
            self.note("   (the gate is not run for it)");
            return self.stop_ends(who, stop, hook);
        }
        if !should_run {
            self.world.speed_up();
            hook.wait().expect("an end");
            return Err("the gate is run for a stop that is not judged".into());
        }
        let of = self.model.own(&session).expect("who is judged has a loop");
        match between {
            Between::Kill => self.kill(&session, hook),
            Between::Happens(plain) => self.happens_between(plain, of, &session, who, stop, hook),
        }
    }

    fn stop_ends(&mut self, who: Who, stop: Stop, hook: Child) -> Result<(), String> {
        let said = Said::of("Stop", hook);
        let seen = self.world.look();
        let expected = self.model.take(Plain::In(who, Event::Stop(stop)), &seen);
        compare_reply(&expected, &said)?;
        compare_states(&mut self.model, &seen)
    }

    fn kill(&mut self, session: &str, mut hook: Child) -> Result<(), String> {
        hook.kill().expect("a child of ours");
        hook.wait().expect("an end");
        self.world.speed_up();
        self.model.killed(session);
        compare_states(&mut self.model, &self.world.look())
    }

    /// An event while the gate runs. If it frees the session, the hook ends, and the gate with it; otherwise the
    /// gate runs to its end.
    fn happens_between(
        &mut self,
        plain: Plain,
        of: usize,
        session: &str,
        who: Who,
        stop: Stop,
        mut hook: Child,
    ) -> Result<(), String> {
        let between = self.plain(plain);
        let still_running = self.model.loops[of].is_running();
        let freed = between.is_ok() && !still_running;
        let ended = !freed || ends_soon(&mut hook);
        self.world.speed_up();
        let said = Said::of("Stop", hook);
        between?;
        if !ended {
            return Err("the gates still run although no session is blocked by them any more".into());
        }
        let seen = self.world.look();
        let expected = self.model.slow_stop_ends(of, session, who, stop);
        compare_reply(&expected, &said).map_err(|wrong| format!("the stop, once it ends: {wrong}"))?;
        compare_states(&mut self.model, &seen)
    }

    /// Whenever it was killed, the state is either the old one or the new one.
    fn killed(&mut self, who: Who, event: Event, after: Duration) -> Result<(), String> {
        let Plain::In(_, event) = self.model.possible(Plain::In(who, event)) else {
            unreachable!("an event stays one")
        };
        self.note(Step::Killed(who, event, u16::try_from(after.as_micros()).expect("it was one")));
        if let Event::Stop(stop) = event {
            self.before_stop(who, stop);
        }
        let mut hook = self.world.begins(who, event, &self.model.name(who));
        std::thread::sleep(after);
        hook.kill().expect("a child of ours");
        hook.wait().expect("an end");
        let seen = self.world.look();
        let possible = self.model.after_kill(who, event, &seen);
        let wrong: Vec<String> =
            possible.iter().filter_map(|model| compare_loops(model, &seen).err()).collect();
        let real = possible.into_iter().find(|model| compare_loops(model, &seen).is_ok());
        self.model =
            real.ok_or_else(|| format!("it is neither as before nor as after:\n{}", wrong.join("\n")))?;
        Ok(())
    }

    fn both_stop(&mut self, ann: Stop, bob: Stop) -> Result<(), String> {
        for who in [Who::Ann, Who::Bob] {
            if !self.model.is_there(who) {
                return self.plain(Plain::In(who, Event::Begins));
            }
        }
        self.note(Step::BothStop(ann, bob));
        let stops = [(Who::Ann, ann), (Who::Bob, bob)];
        let mut hooks = Vec::new();
        for (who, stop) in stops {
            self.before_stop(who, stop);
            hooks.push(self.world.begins(who, Event::Stop(stop), &self.model.name(who)));
        }
        let said: Vec<Said> = hooks.into_iter().map(|hook| Said::of("Stop", hook)).collect();
        let seen = self.world.look();
        for ((who, stop), said) in stops.into_iter().zip(said) {
            let expected = self.model.take(Plain::In(who, Event::Stop(stop)), &seen);
            compare_reply(&expected, &said).map_err(|wrong| format!("{who:?}: {wrong}"))?;
        }
        compare_states(&mut self.model, &seen)
    }
}

/// Whether a hook ends by itself.
fn ends_soon(hook: &mut Child) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if hook.try_wait().expect("a child").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn compare_reply(expected: &Expected, said: &Said) -> Result<(), String> {
    let missing: Vec<_> = expected.says.iter().filter(|words| !said.text.contains(*words)).collect();
    let cut_off = "were interrupted";
    let unasked = said.text.contains(cut_off) && !expected.says.iter().any(|words| words == cut_off);
    let more = expected.or_more && (expected.reply, said.reply) == (Reply::Silent, Reply::Told);
    if (expected.reply == said.reply || more) && missing.is_empty() && (!unasked || expected.or_more) {
        return Ok(());
    }
    Err(format!("expected {expected:?}\n   but it was {:?}:\n{}", said.reply, said.text))
}

/// Every loop, its attached session, and what the file in the repo shows.
fn compare_states(model: &mut Model, seen: &Seen<'_>) -> Result<(), String> {
    compare_loops(model, seen)?;
    model.file_is_unsure &= !model.touched.iter().any(|index| model.loops[*index].is_open());
    if !model.file_is_unsure {
        model.shown = compare_file(model, seen)?;
    }
    Ok(())
}

fn compare_loops(model: &Model, seen: &Seen<'_>) -> Result<(), String> {
    if model.loops.len() != seen.loops.len() {
        return Err(format!("{} loops expected, there are {}", model.loops.len(), seen.loops.len()));
    }
    for (index, one) in model.loops.iter().enumerate() {
        let (expected, real) = (summary(one), seen.loop_at(index).map(real_summary));
        if real.as_ref() != Some(&expected) {
            return Err(format!("loop {}: expected {expected}\n   but it is  {real:?}", index + 1));
        }
    }
    let mut carriers: Vec<_> = model.loops.iter().filter(|one| one.is_open()).collect();
    carriers.retain(|one| one.session.is_some());
    carriers.sort_by_key(|one| one.session.clone());
    if let Some(two) = carriers.windows(2).find(|two| two[0].session == two[1].session) {
        return Err(format!("a session carries two loops: {two:#?}"));
    }
    Ok(())
}

fn summary(one: &Loop) -> Value {
    let status = match one.status {
        LoopStatus::Running => json!({"status": "running"}),
        LoopStatus::Paused(_) => json!({"status": "paused"}),
        LoopStatus::Ended(verdict) => json!({"status": "ended", "verdict": verdict}),
    };
    json!({
        "status": status,
        "task": one.task.words(),
        "session": one.session,
        "attempts": one.attempts,
        "agents": one.agents,
        "errors": one.errors,
        "false_promises": one.false_promises,
        "renewals": one.renewals,
    })
}

fn real_summary(state: &Value) -> Value {
    let mut summary = json!({"task": state["goal"]["task"]});
    for field in ["status", "session", "attempts", "agents", "errors", "false_promises", "renewals"] {
        summary[field] = state[field].clone();
    }
    summary
}

/// The loop that the file shows must be one of the possible ones, and current.
fn compare_file(model: &Model, seen: &Seen<'_>) -> Result<Option<usize>, String> {
    let touched = model.touched.iter().copied().filter(|index| model.loops[*index].is_open());
    let may_show: Vec<usize> = touched.chain(model.shown).collect();
    let Some(file) = &seen.file else {
        let missed = may_show.iter().find(|index| model.loops[**index].is_open());
        return missed.map_or(Ok(None), |index| Err(format!("no loop file shows loop {}", index + 1)));
    };
    let is_it = |index: &&usize| {
        let one = &model.loops[**index];
        one.is_open()
            && file.session == one.session
            && file.task == one.task.words()
            && file.active == one.is_running()
            && file.iteration == one.iteration()
    };
    match may_show.iter().find(is_it) {
        Some(shown) => Ok(Some(*shown)),
        None => Err(format!("the loop file shows {file:?}, which is none of the loops {may_show:?}")),
    }
}
