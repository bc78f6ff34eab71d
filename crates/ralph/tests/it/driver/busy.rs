//! A busy machine: no client waits for the driver's answer, so the driver waits for the lock.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use super::scene::{DONE, Scene, verified};

/// Longer than a hook would wait.
const LONG: Duration = Duration::from_secs(4);

#[test]
fn a_state_lock_held_for_long_does_not_end_a_loop() {
    let agent = r#"echo $$ > "$NOTES/agent"; until test -f "$NOTES/go"; do sleep 0.02; done; : > done.txt"#;
    let scene = Scene::new(DONE, agent);
    let running = scene.start(&[]);
    scene.await_note("agent");
    let mut remembered = scene.sandbox.remembered().into_iter();
    let path = remembered.find(|path| path.starts_with("repos/") && path.ends_with("/lock")).expect("a lock");
    let lock = File::options().append(true).open(scene.sandbox.ralph_home().join(path)).expect("a lock");
    lock.lock().expect("held for moments only");
    fs::write(scene.note_path("go"), "").expect("a note");
    thread::sleep(LONG);
    drop(lock);
    verified(running.end());
    scene.has_iterations(1);
}
