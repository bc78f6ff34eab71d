//! A process holds a lock and does not release it: no hook waits forever, and nothing is verified meanwhile.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ralph_testkit::{Sandbox, misbehave_program};
use rustix::process::{Pid, Signal, kill_process};

/// A process that took a lock and was stopped.
struct Holder(Child);

impl Holder {
    fn of(lock: &Path) -> Self {
        let mut command = Command::new(misbehave_program());
        let child = command.arg("hold-lock").arg(lock).stdin(Stdio::null()).spawn().expect("misbehave");
        let holder = Self(child);
        let is_held = || {
            let file = std::fs::File::options().append(true).open(lock).expect("a lock file");
            file.try_lock().is_err()
        };
        let begun = Instant::now();
        while !is_held() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the lock was not taken");
            sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&holder.0), Signal::STOP).expect("a child of ours");
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn blocked_once() -> Sandbox {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.stop("check").answer().blocked();
    sandbox.file("done.txt", "");
    sandbox
}

fn lock_file(sandbox: &Sandbox, name: &str) -> std::path::PathBuf {
    let of_a_repo = |path: &String| path.starts_with("repos/") && path.ends_with(name);
    let mut remembered = sandbox.remembered().into_iter();
    let found =
        remembered.find(|path| of_a_repo(path) || path == name.trim_start_matches('/')).expect("a lock");
    sandbox.ralph_home().join(found)
}

#[test]
fn a_stopped_lock_holder_does_not_block_a_hook() {
    let sandbox = blocked_once();
    let holder = Holder::of(&lock_file(&sandbox, "/lock"));
    let begun = Instant::now();
    let children: Vec<_> =
        (0..8).map(|number| sandbox.stop("check").agent(&format!("a-{number}")).spawn()).collect();
    for child in children {
        let output = child.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("UNVERIFIED") && said.contains("another ralph"),
            "{said}"
        );
        assert!(!said.contains("\"decision\""), "{said}");
    }
    // Two seconds of patience each, all at once; the rest allows for a slow machine.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(holder);
    sandbox.stop("check").answer().allowed().expect("verified now");
}

#[test]
fn a_stopped_gate_run_is_waited_for_until_the_deadline() {
    let sandbox = blocked_once();
    let holder = Holder::of(&lock_file(&sandbox, "gates.lock"));
    let answer = sandbox.stop("check").deadline("1s").answer();
    let (reason, _) = answer.blocked();
    assert!(
        reason.contains("another ralph") && answer.took < Duration::from_secs(6),
        "{reason} {:?}",
        answer.took
    );
    drop(holder);
    sandbox.stop("check").answer().allowed().expect("verified now");
}

#[test]
fn a_stopped_holder_of_the_trust_lock_is_reported() {
    let sandbox = blocked_once();
    let holder = Holder::of(&lock_file(&sandbox, "trust.lock"));
    let sha256 =
        sandbox.ralph(&["trust", "--show", "--json"]).json()["sha256"].as_str().expect("one").to_owned();
    let ran =
        sandbox.ralph(&["trust", "--hash", &sha256]).says("another ralph process is changing trust.json");
    assert_ne!(ran.code, Some(0));
    drop(holder);
}
