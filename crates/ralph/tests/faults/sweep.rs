//! A kill or an error at every system call that touches files: the first, the second, and so on until a run is not hit.
//!
//! `strace` counts the calls of each thread separately, so an error hits the Nth call of every thread that makes as
//! many, and a kill hits the first thread that gets there. It detaches from every child at its `execve`: the shells
//! of gates
//! and `git` are not injected.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use ralph_core::model::verdict::Verdict;
use serde_json::{Value, json};

use crate::RALPH;
use crate::oracle::{Kept, KeptLedger, Tail};
use crate::saved::{Saved, age, unfinished};
use ralph_testkit::{ClientEvent, Finished, Sandbox, Session, note};

pub(crate) const CALLS: [&str; 8] = [
    "write",
    "fsync,fdatasync",
    "rename,renameat,renameat2",
    "unlink,unlinkat",
    "flock",
    "ftruncate",
    "mkdir,mkdirat",
    "openat",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    Error(&'static str),
}

impl Fault {
    fn injection(self) -> String {
        match self {
            Self::Kill => "signal=SIGKILL".into(),
            Self::Error(name) => format!("error={name}"),
        }
    }

    /// What a default run covers at every call; the rest is for a full one.
    pub(crate) fn is_worth(self, calls: &str, extent: Extent) -> bool {
        match self {
            Self::Kill | Self::Error("ENOSPC" | "EACCES") => true,
            Self::Error(_) => extent == Extent::Full || calls != "openat",
        }
    }
}

pub(crate) const FAULTS: [Fault; 5] =
    [Fault::Kill, Fault::Error("ENOSPC"), Fault::Error("EIO"), Fault::Error("EACCES"), Fault::Error("EINTR")];

/// What is running when the fault occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// The very first stop: nothing is stored yet.
    FirstHeld,
    /// A stop that first truncates the torn end of the ledger.
    HeldAfterTear,
    Verified,
    TrellisHeld,
    TrellisFirstHeld,
    TrellisVerified,
    Verify,
    Trust,
    Reset,
    /// The stop of a session with a loop.
    SessionHeld,
    /// Its last one: the promise is given, and the gates pass.
    SessionVerified,
}

const SCENES: [Scene; 11] = [
    Scene::SessionVerified,
    Scene::SessionHeld,
    Scene::TrellisVerified,
    Scene::TrellisHeld,
    Scene::Verified,
    Scene::TrellisFirstHeld,
    Scene::HeldAfterTear,
    Scene::FirstHeld,
    Scene::Verify,
    Scene::Reset,
    Scene::Trust,
];

const LOOP_FILE: &str = ".claude/ralph-loop.local.md";

const GATES: &str = "verify:\n  - test -e done.txt\n";
const OTHER_GUARD: &str = "verify:\n  - test -e done.txt\nguard: [worker]\n";

/// A scene set up, restored before each fault.
struct Stage {
    scene: Scene,
    sandbox: Sandbox,
    home: Saved,
    shown: Saved,
    /// The content that `trust` is about to accept.
    offered: String,
    trusted_before: Vec<String>,
}

/// The result of the injected run.
pub(crate) struct Injured {
    pub(crate) ran: Finished,
    pub(crate) killed: bool,
    /// The calls that were hit, as `strace` shows them.
    pub(crate) hits: Vec<String>,
}

impl Injured {
    /// Runs a command of the sandbox with a fault at one of its calls.
    pub(crate) fn run(
        plain: &Command,
        sandbox: &Sandbox,
        input: &str,
        (calls, fault, number): (&str, Fault, u32),
    ) -> Self {
        let log = sandbox.home().join("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "--detach-on=execve", "-e", "signal=none", "-o"]).arg(&log);
        command.args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={calls}:{}:when={number}", fault.injection())]);
        command.arg(RALPH).args(plain.get_args()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(sandbox.project()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("strace");
        // A process killed before it read its input closes the pipe.
        let _gone = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
        let output = child.wait_with_output().expect("an end");
        let killed = output.status.signal() == Some(9) || output.status.code() == Some(128 + 9);
        let log = fs::read(&log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let hits = injected(&log);
        Self { ran: Finished::of(output), killed, hits }
    }

    /// Whether the run reached the call at all.
    pub(crate) fn was_hit(&self) -> bool {
        self.killed || !self.hits.is_empty()
    }

    /// Whether it ended before our own code began: its libraries could not be loaded.
    pub(crate) fn never_began(&self) -> bool {
        self.ran.code == Some(127) && self.ran.stderr.contains("shared libraries")
    }
}

impl Scene {
    fn is_trellis(self) -> bool {
        matches!(self, Self::TrellisHeld | Self::TrellisFirstHeld | Self::TrellisVerified | Self::Reset)
    }

    fn is_verified(self) -> bool {
        matches!(self, Self::Verified | Self::TrellisVerified | Self::SessionVerified)
    }

    fn is_session(self) -> bool {
        matches!(self, Self::SessionHeld | Self::SessionVerified)
    }

    /// The prefix of its loop's id: the guarded agent, or the task of the session.
    fn agent(self) -> &'static str {
        match self {
            Self::HeldAfterTear => "worker",
            Self::SessionHeld | Self::SessionVerified => "fix-it",
            _ => "check",
        }
    }

    /// The number of this attempt when nothing goes wrong.
    fn attempt(self) -> u32 {
        match self {
            Self::FirstHeld | Self::TrellisFirstHeld => 1,
            _ => 2,
        }
    }

    fn set_up(self) -> Stage {
        let sandbox = Sandbox::new();
        if self.is_trellis() {
            sandbox.file(".trellis/worktree.yaml", GATES);
            sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
        } else {
            sandbox.file("ralph.yaml", if self == Self::HeldAfterTear { OTHER_GUARD } else { GATES });
        }
        sandbox.trust();
        match self {
            Self::FirstHeld | Self::TrellisFirstHeld | Self::Verify | Self::Trust => {}
            Self::SessionHeld | Self::SessionVerified => {
                drop(Session::looping(&sandbox, "fix it --completion-promise DONE"));
                session_stop(&sandbox, 1, "Not yet.").answer().blocked();
            }
            _ => drop(sandbox.stop(self.agent()).answer().blocked()),
        }
        match self {
            Self::Verified | Self::TrellisVerified | Self::Verify | Self::SessionVerified => {
                sandbox.file("done.txt", "");
            }
            Self::Trust => sandbox.file("ralph.yaml", "verify:\n  - test -e other\n"),
            Self::HeldAfterTear => tear(&sandbox),
            _ => {}
        }
        let offered = sandbox.ralph(&["trust", "--show", "--json"]).json()["sha256"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let trusted_before = Kept::look(&sandbox.ralph_home(), Tail::MayBeTorn).expect("sound").trusted;
        let home = Saved::of(&sandbox.ralph_home());
        let shown = Saved::of(&if self.is_session() { sandbox.project() } else { sandbox.path(".trellis") });
        Stage { scene: self, sandbox, home, shown, offered, trusted_before }
    }
}

/// The session stops after its agent used a tool.
fn session_stop<'a>(sandbox: &'a Sandbox, tool_call: u32, message: &str) -> ClientEvent<'a> {
    let call = json!({"type": "tool_use", "id": format!("toolu_{tool_call}"), "name": "Bash"});
    let line = json!({"type": "assistant", "message": {"content": [call]}});
    fs::write(sandbox.home().join("session-1.jsonl"), format!("{line}\n")).expect("a transcript");
    Session::new(sandbox).stop(message)
}

/// Half a line at the end, as on a full disk.
fn tear(sandbox: &Sandbox) {
    let ledger = sandbox.remembered().into_iter().find(|path| path.ends_with("ledger.jsonl")).expect("one");
    let mut file =
        fs::File::options().append(true).open(sandbox.ralph_home().join(ledger)).expect("a ledger");
    file.write_all(b"{\"v\":1,\"seq\":99,\"at\":\"20").expect("room");
}

impl Stage {
    fn arguments(&self) -> Vec<&str> {
        match self.scene {
            Scene::Verify => vec!["verify", "--json"],
            Scene::Trust => vec!["trust", "--hash", &self.offered],
            Scene::Reset => vec!["reset"],
            _ => vec!["hook", "claude"],
        }
    }

    fn input(&self) -> String {
        if self.scene.is_session() {
            let message = if self.scene.is_verified() { "<promise>DONE</promise>" } else { "Not yet." };
            return session_stop(&self.sandbox, 2, message).text();
        }
        json!({
            "session_id": "session-1",
            "cwd": self.sandbox.project(),
            "agent_id": "agent-1",
            "agent_type": self.scene.agent(),
            "hook_event_name": "SubagentStop",
            "last_assistant_message": "Done.",
        })
        .to_string()
    }

    fn put_back(&self) {
        self.home.put_back();
        if self.scene.is_trellis() || self.scene.is_session() {
            self.shown.put_back();
        }
    }

    /// One point: None if the run ended before it.
    fn point(&self, calls: &str, fault: Fault, number: u32) -> Option<Result<(), String>> {
        self.put_back();
        let plain = self.sandbox.command(&self.arguments());
        let injured = Injured::run(&plain, &self.sandbox, &self.input(), (calls, fault, number));
        if !injured.was_hit() {
            return None;
        }
        let checked = self.after_fault(&injured).and_then(|()| self.after_clean_run(fault));
        Some(checked.map_err(|why| {
            let hits = injured.hits.join("\n    ");
            format!("{:?}, {calls} {number}, {fault:?}: {why}\n    {hits}\n    {:?}", self.scene, injured.ran)
        }))
    }

    fn after_fault(&self, injured: &Injured) -> Result<(), String> {
        let kept = Kept::look(&self.sandbox.ralph_home(), Tail::MayBeTorn)?;
        let ran = &injured.ran;
        if injured.killed || injured.never_began() {
            let whole = ran.stdout.is_empty() || one_object(&ran.stdout).is_ok();
            ensure(whole || self.arguments()[0] != "hook", "half an answer to the client")?;
        } else {
            self.answered(injured, &kept)?;
        }
        if self.scene == Scene::Trust {
            let old = kept.trusted == self.trusted_before;
            let new = kept.trusted.last() == Some(&self.offered)
                && kept.trusted[..kept.trusted.len() - 1] == self.trusted_before;
            ensure(old || new, "trust is neither the old nor the new one")?;
            ensure(new || ran.code != Some(0), "said to be accepted, and was not")?;
        } else {
            ensure(kept.trusted == self.trusted_before, "trust changed")?;
        }
        Ok(())
    }

    /// The run ended in spite of the fault: checks its answer.
    fn answered(&self, injured: &Injured, kept: &Kept) -> Result<(), String> {
        let (ran, code) = (&injured.ran, injured.ran.code);
        match self.scene {
            Scene::Trust | Scene::Reset => ensure(matches!(code, Some(0..=3)), "an unknown exit code"),
            Scene::Verify => {
                ensure(matches!(code, Some(0..=4)), "an unknown exit code")?;
                let verdicts = kept.loop_named("verify").map(KeptLedger::verdicts).unwrap_or_default();
                let verified = verdicts.last() == Some(&Verdict::Verified);
                ensure(code != Some(0) || verified, "exit code 0 without a verdict in the ledger")
            }
            _ => {
                ensure(code == Some(0), "a hook ends with exit code 0")?;
                let deaf = injured.hits.iter().any(|hit| hit.contains("write(1,"));
                if ran.stdout.is_empty() {
                    return ensure(deaf || !ran.stderr.is_empty(), "allowed without a message");
                }
                let said = one_object(&ran.stdout)?;
                let notice = said["systemMessage"].as_str().unwrap_or_default();
                let verdicts =
                    kept.loop_named(self.scene.agent()).map(KeptLedger::verdicts).unwrap_or_default();
                let passed =
                    ["Verification passed", "Loop done, verified"].iter().any(|words| notice.contains(words));
                match (said["decision"] == "block", passed) {
                    (true, _) => Ok(()),
                    (false, true) => {
                        ensure(verdicts.last() == Some(&Verdict::Verified), "said to be verified, and is not")
                    }
                    (false, false) => {
                        ensure(notice.contains("UNVERIFIED"), "allowed without saying UNVERIFIED")
                    }
                }
            }
        }
    }

    /// The same again without a fault: the right answer, nothing lost, nothing counted twice, no temporary files left.
    fn after_clean_run(&self, fault: Fault) -> Result<(), String> {
        let home = self.sandbox.ralph_home();
        age(&unfinished(&home));
        age(&unfinished(&self.sandbox.project()));
        let before = Kept::look(&home, Tail::MayBeTorn)?.lines();
        let clean = || Finished::of(self.run_clean());
        let expected = self.scene.attempt();
        match self.scene {
            Scene::Trust => {
                ensure(clean().code == Some(0), "cannot be accepted any more")?;
                let trusted = Kept::look(&home, Tail::Whole)?.trusted;
                ensure(trusted.last() == Some(&self.offered) && trusted.len() == 2, "not accepted")?;
            }
            Scene::Verify => ensure(clean().code == Some(0), "not verified any more")?,
            Scene::Reset => {
                ensure(clean().code == Some(0), "cannot be reset any more")?;
                self.is_blocked_again("agent-1", &[1])?;
            }
            Scene::SessionVerified => self.session_is_over(&clean(), fault)?,
            Scene::SessionHeld => {
                let said = one_object(&session_stop(&self.sandbox, 3, "Not yet.").answer().ran.stdout)?;
                let reason = said["reason"].as_str().unwrap_or_default();
                let fits = ["iteration 2", "iteration 3"].iter().any(|words| reason.contains(words));
                ensure(said["decision"] == "block" && fits, &format!("not the next attempt: {said}"))?;
                ensure(self.sandbox.exists(LOOP_FILE), "the loop is not shown any more")?;
            }
            scene if scene.is_verified() => {
                // Nothing of this loop is carried over to the next agent's.
                self.sandbox.remove("done.txt");
                let next = self.is_blocked_again("agent-2", &[1]);
                self.sandbox.file("done.txt", "");
                next?;
                let notice = one_object(&clean().stdout)?;
                let passed =
                    notice["systemMessage"].as_str().is_some_and(|text| text.contains("Verification passed"));
                ensure(passed, &format!("not verified any more: {notice}"))?;
            }
            _ => self.is_blocked_again("agent-1", &[expected, expected + 1])?,
        }
        let kept = Kept::look(&home, Tail::Whole)?;
        // A loop that has ended is not continued.
        let is_silent = matches!(self.scene, Scene::Trust | Scene::SessionVerified);
        ensure(is_silent || kept.lines() > before, "nothing was written down")?;
        let mut left = unfinished(&home);
        left.extend(unfinished(&self.sandbox.project()));
        ensure(left.is_empty(), &format!("left lying: {left:?}"))
    }

    /// The same stop ends the loop, or finds it ended; it is verified once, by its second attempt.
    fn session_is_over(&self, ran: &Finished, fault: Fault) -> Result<(), String> {
        ensure(ran.code == Some(0), "a hook ends with exit code 0")?;
        let notice = ran.stdout.contains("Loop done, verified");
        let kept = Kept::look(&self.sandbox.ralph_home(), Tail::Whole)?;
        let ledger = kept.loop_named(self.scene.agent()).ok_or("the loop is gone")?;
        // A verdict of a killed process is not repeated by another one.
        let past = ran.stdout.is_empty()
            || ran.stdout.contains("ended outside a stop (verified)")
            || ran.stdout.contains("a stop of this turn was already judged (verified)")
            || ran.stdout.contains("Not confirmed, UNVERIFIED");
        ensure(notice || past, &format!("neither the end nor past it: {ran:?}"))?;
        let mut verdicts = ledger.verdicts();
        if fault != Fault::Kill {
            // An unreadable ledger is no reason to allow the stop.
            verdicts.dedup();
        }
        ensure(
            verdicts == [Verdict::Blocked, Verdict::Verified],
            &format!("judged otherwise: {verdicts:?}"),
        )?;
        ensure(!self.sandbox.exists(LOOP_FILE), "a loop that is over is still shown")
    }

    fn run_clean(&self) -> std::process::Output {
        let mut command = self.sandbox.command(&self.arguments());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary");
        let _gone = child.stdin.take().expect("a pipe").write_all(self.input().as_bytes());
        child.wait_with_output().expect("an end")
    }

    /// The agent's next stop is blocked, and it is one of these attempts.
    fn is_blocked_again(&self, agent: &str, attempts: &[u32]) -> Result<(), String> {
        let said = one_object(&self.sandbox.stop(self.scene.agent()).agent(agent).answer().ran.stdout)?;
        let reason = said["reason"].as_str().unwrap_or_default();
        let fits = attempts.iter().any(|attempt| reason.contains(&format!("(iteration {attempt}/5)")));
        ensure(said["decision"] == "block" && fits, &format!("expected attempt {attempts:?}: {said}"))
    }

    /// Sweeps one kind of fault at one kind of call, to its end.
    fn sweep(&self, calls: &str, fault: Fault, extent: Extent, tally: &mut Tally) {
        // Most calls open something, and most of those fail in the same way.
        let stride = match (calls, extent) {
            ("openat", Extent::Usual) if self.scene.is_session() => 4,
            ("openat", Extent::Usual) if fault != Fault::Kill => 2,
            _ => 1,
        };
        for number in points(fault, stride) {
            match self.point(calls, fault, number) {
                None => return,
                Some(outcome) => tally.count(outcome),
            }
        }
    }
}

/// Every `stride`th call, with a different offset for every fault.
pub(crate) fn points(fault: Fault, stride: usize) -> impl Iterator<Item = u32> {
    let offset = FAULTS.iter().position(|other| *other == fault).unwrap_or_default() % stride;
    (1..).skip(offset).step_by(stride)
}

#[derive(Default)]
pub(crate) struct Tally {
    points: usize,
    wrong: Vec<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, outcome: Result<(), String>) {
        self.points += 1;
        self.wrong.extend(outcome.err());
    }

    pub(crate) fn take(&mut self, other: Self) {
        self.points += other.points;
        self.wrong.extend(other.wrong);
    }

    /// Prints the result; there must have been at least this many points.
    pub(crate) fn report(self, what: &str, begun: Instant, at_least: usize) {
        let Self { points, wrong } = self;
        let seconds = begun.elapsed().as_secs_f64();
        note(format_args!(
            "faults: {points} faults injected into {what} in {seconds:.0} s, {} wrong",
            wrong.len()
        ));
        let shown = wrong.iter().take(25).cloned().collect::<Vec<_>>().join("\n\n");
        assert!(wrong.is_empty(), "{} of {points} points:\n\n{shown}", wrong.len());
        assert!(points >= at_least, "only {points} points: is strace at work?");
    }
}

pub(crate) fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// How much to sweep.
pub(crate) fn extent() -> Extent {
    let strace = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    assert!(strace.is_ok_and(|status| status.success()), "the sweep needs strace: `apt-get install strace`");
    if setting("RALPH_FAULTS") == "full" { Extent::Full } else { Extent::Usual }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Usual,
    Full,
}

/// Runs jobs on both cores.
pub(crate) fn on_two_cores<T: Send>(jobs: VecDeque<T>, work: impl Fn(T) -> Tally + Sync) -> Tally {
    let (jobs, tally) = (Mutex::new(jobs), Mutex::new(Tally::default()));
    let worker = || {
        loop {
            let Some(job) = jobs.lock().expect("no panic").pop_front() else { return };
            let own = work(job);
            tally.lock().expect("no panic").take(own);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(worker);
        scope.spawn(worker);
    });
    tally.into_inner().expect("no panic")
}

/// Whether a scene of this name was requested.
pub(crate) fn is_asked_for(scene: &str) -> bool {
    scene.contains(&setting("RALPH_FAULTS_ONLY"))
}

fn one_object(stdout: &str) -> Result<Value, String> {
    match serde_json::from_str(stdout) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        _ => Err(format!("not one JSON object: {stdout:?}")),
    }
}

#[expect(clippy::disallowed_methods, reason = "the test's own settings")]
fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The calls that failed. If another thread interrupted one, the beginning of the call is in an earlier line.
fn injected(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let begun = |at: usize, process: &str| {
        let mut before = lines[..at].iter().rev();
        before.find(|line| line.starts_with(process) && line.ends_with("<unfinished ...>"))
    };
    let hits = lines.iter().enumerate().filter(|(_, line)| line.ends_with("(INJECTED)"));
    hits.map(|(at, line)| match line.split_once(" <... ") {
        Some((process, rest)) => format!("{} {rest}", begun(at, process).unwrap_or(line)),
        None => (*line).to_owned(),
    })
    .collect()
}

#[test]
fn a_failed_call_is_recognised_when_another_thread_interrupts_it() {
    let log = "7 write(1, \"{\", 9 <unfinished ...>\n8 close(3) = 0\n7 <... write resumed>) = -1 EIO (INJECTED)\n\
               7 write(5, \"x\", 1) = -1 EIO (INJECTED)";
    let hits = injected(log);
    assert!(hits[0].contains("write(1,") && hits[1].contains("write(5,") && hits.len() == 2, "{hits:?}");
}

#[test]
fn law_9_a_fault_at_any_system_call_leaves_the_old_or_the_new_state() {
    let extent = extent();
    let begun = Instant::now();
    let scenes: Vec<Scene> = SCENES.into_iter().filter(|scene| is_asked_for(&format!("{scene:?}"))).collect();
    let jobs = scenes.iter().flat_map(|scene| FAULTS.map(|fault| (*scene, fault))).collect();
    let tally = on_two_cores(jobs, |(scene, fault): (Scene, Fault)| {
        let (stage, mut own) = (scene.set_up(), Tally::default());
        for calls in CALLS.into_iter().filter(|calls| fault.is_worth(calls, extent)) {
            stage.sweep(calls, fault, extent, &mut own);
        }
        own
    });
    tally.report("hooks and commands", begun, if scenes.len() == SCENES.len() { 500 } else { 0 });
}

/// The whole project is restored, and only the project and its home were touched.
#[test]
fn a_saved_folder_is_restored_exactly() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join("x").join(name);
    fs::create_dir_all(path("a")).expect("folders");
    fs::write(path("a/b"), "1").expect("a file");
    let saved = Saved::of(&dir.path().join("x"));
    fs::write(path("a/b"), "2").expect("a file");
    fs::write(path("c"), "3").expect("a file");
    saved.put_back();
    assert_eq!(fs::read(path("a/b")).expect("a file"), b"1");
    assert!(!path("c").exists() && saved.text(Path::new("nowhere")).is_none());
}
