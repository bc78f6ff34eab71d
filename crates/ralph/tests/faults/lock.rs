//! Somebody holds a lock and does not let go: nobody waits for ever, and nothing is verified meanwhile.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::Sandbox;

/// A process that took a lock and was stopped.
struct Holder(Child);

impl Holder {
    fn of(lock: &Path) -> Self {
        let child = Command::new("flock")
            .args(["--no-fork".as_ref(), lock.as_os_str(), "sleep".as_ref(), "60".as_ref()])
            .stdin(Stdio::null())
            .spawn()
            .expect("flock, of util-linux");
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
        let pid = holder.0.id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &pid]).status().expect("kill");
        assert!(stopped.success());
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn held_once() -> Sandbox {
    let sandbox = Sandbox::gated("verify:\n  - test -e done\n");
    sandbox.stop("check").answer().held();
    sandbox.file("done", "");
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
fn a_stopped_holder_of_the_lock_keeps_no_hook_waiting() {
    let sandbox = held_once();
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
    // Two seconds of patience each, all at once; the rest is a slow machine.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(holder);
    sandbox.stop("check").answer().let_go().expect("verified now");
}

#[test]
fn a_stopped_run_of_the_gates_is_waited_for_until_the_deadline_and_no_longer() {
    let sandbox = held_once();
    let holder = Holder::of(&lock_file(&sandbox, "gates.lock"));
    let answer = sandbox.stop("check").deadline("1s").answer();
    let (reason, _) = answer.held();
    assert!(
        reason.contains("another ralph") && answer.took < Duration::from_secs(6),
        "{reason} {:?}",
        answer.took
    );
    drop(holder);
    sandbox.stop("check").answer().let_go().expect("verified now");
}

#[test]
fn a_stopped_holder_of_trust_is_told_of() {
    let sandbox = held_once();
    let holder = Holder::of(&lock_file(&sandbox, "trust.lock"));
    let sha256 =
        sandbox.ralph(&["trust", "--show", "--json"]).json()["sha256"].as_str().expect("one").to_owned();
    let ran = sandbox.ralph(&["trust", "--hash", &sha256]).says("another ralph is changing trust.json");
    assert_ne!(ran.code, Some(0));
    drop(holder);
}
