//! Agents that try to escape: the judgement, the end of their run, their limits.

use std::fs;

use super::scene::{DONE, Scene, executable, is_gone, unverified, verified};

/// Its output is written to a note.
fn says(scene: &Scene, note: &str) -> String {
    fs::read_to_string(scene.note_path(note)).unwrap_or_default()
}

#[test]
fn an_agent_that_hides_its_mark_and_opens_a_terminal_is_not_the_user() {
    let agent = r#"
echo 'verify: ["true"]' > ralph.yaml
(sleep 0.3; echo y; sleep 0.3) | env -u RALPH_LOOP "$MISBEHAVE" on-terminal "$RALPH" trust > "$NOTES/trust" 2>&1
for verb in reset cancel pause; do env -u RALPH_LOOP "$RALPH" $verb >> "$NOTES/verbs" 2>&1; done
env -u RALPH_LOOP "$RALPH" loop more --agent command:true >> "$NOTES/verbs" 2>&1"#;
    let scene = Scene::new(DONE, agent);
    unverified(scene.drive(&["--max-iterations", "2"]), 5);
    scene.ended_as("tampered");
    assert_eq!(scene.sandbox.status()["accepted"].as_array().map(Vec::len), Some(1));
    assert!(says(&scene, "trust").contains("only you can"), "{}", says(&scene, "trust"));
    assert_eq!(says(&scene, "verbs").matches("only you can").count(), 6, "{}", says(&scene, "verbs"));
    assert_eq!(
        says(&scene, "verbs").matches("nested loops are not supported").count(),
        2,
        "{}",
        says(&scene, "verbs")
    );
    scene.has_iterations(2);
}

/// A new session, a clean environment, closed output and a dead parent: only its ancestry shows where it came from.
#[test]
fn a_process_that_hides_from_the_end_of_the_run_is_killed_before_the_gates_run() {
    let agent = r#"
("$MISBEHAVE" in-session env -i /bin/sh -c 'echo $$ > '"$NOTES"'/stray; exec sleep 1000' < /dev/null > /dev/null 2>&1 &)
until test -s "$NOTES/stray"; do sleep 0.01; done
: > done.txt"#;
    let scene = Scene::new(r#"! kill -0 "$(cat "$NOTES/stray")" && test -e done.txt"#, agent);
    verified(scene.drive(&[]));
    scene.has_iterations(1);
    is_gone(scene.await_process("stray"));
}

/// Otherwise the git of the checkpoint would start it, after the agent has ended.
#[test]
fn a_git_filter_left_by_the_agent_is_not_run() {
    let agent = r#"
git config filter.e.clean "$NOTES/../filter.sh"
echo '* filter=e' > .gitattributes
echo $run > work
: > done.txt"#;
    let scene = Scene::new(r#"! test -e "$NOTES/filter" && test -e done.txt"#, agent);
    let filter = scene.sandbox.home().join("filter.sh");
    fs::write(&filter, "#!/bin/sh\necho $$ > \"$(dirname \"$0\")/notes/filter\"\nexec cat\n")
        .expect("our own");
    executable(filter);
    let ran = verified(scene.drive(&[]));
    scene.has_iterations(1);
    assert!(!scene.has_note("filter"), "it was started");
    assert!(ran.stderr.contains("not in the checkpoint"), "it is reported: {ran:#?}");
}

#[test]
fn a_pass_in_an_earlier_iteration_does_not_end_a_later_one() {
    let agent = r#"
mkdir -p dist
case $run in
1) echo good > dist/out ;;
*) echo bad > dist/out; echo '<promise>DONE</promise>' ;;
esac"#;
    let scene = Scene::new("test \"$(cat dist/out)\" = good", agent);
    scene.sandbox.file(".gitignore", "dist/\n");
    scene.sandbox.trust();
    unverified(scene.drive(&["--completion-promise", "DONE", "--max-iterations", "2"]), 1);
}

#[test]
fn a_pipe_in_place_of_a_git_file_does_not_block() {
    for file in ["index", "HEAD", "config", "info/attributes"] {
        let agent = format!("echo $run > work; mkdir -p .git/info; rm -f .git/{file}; mkfifo .git/{file}");
        let scene = Scene::new(DONE, &agent);
        let ran = scene.drive(&["--max-iterations", "1"]);
        assert!(matches!(ran.code, Some(1 | 3)), "{file}: {ran:#?}");
    }
}

#[test]
fn a_link_among_the_refs_does_not_change_branches() {
    let agent = "ln -s heads .git/refs/ralph; echo $run > work; test $run = 2 && : > done.txt";
    let scene = Scene::new(DONE, agent);
    scene.sandbox.git(&["add", "-A"]);
    scene.sandbox.git(&["commit", "-qm", "a beginning"]);
    fs::remove_dir_all(scene.sandbox.path(".git/refs/ralph")).ok();
    let branches = scene.sandbox.git(&["branch", "--list"]);
    scene.drive(&["--max-iterations", "3"]);
    assert_eq!(scene.sandbox.git(&["branch", "--list"]), branches);
}

#[test]
fn a_link_to_the_git_folder_gets_no_report() {
    let agent = "mkdir -p docs/actions; ln -s ../../.git/refs/heads docs/actions/loop; : > done.txt";
    let scene = Scene::new(DONE, agent);
    let ran = verified(scene.drive(&[]));
    assert!(ran.stderr.contains("the report could not be written"), "{ran:#?}");
    let heads = fs::read_dir(scene.sandbox.path(".git/refs/heads")).expect("a folder").flatten();
    let odd: Vec<_> =
        heads.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().contains("Z.")).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn resume_without_a_loop_is_not_done() {
    let scene = Scene::new(DONE, "echo $run > work");
    unverified(scene.drive(&["--max-iterations", "1"]), 1);
    unverified(scene.resume(&[]).end(), 1);
    let scene = Scene::new(DONE, ": > done.txt");
    verified(scene.drive(&[]));
    scene.resume(&[]).end().exits(0);
}
