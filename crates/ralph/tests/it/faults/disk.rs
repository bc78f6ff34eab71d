//! Files that cannot grow, and folders that cannot be written to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use ralph_testkit::{Finished, OrdinaryUser, Sandbox, misbehave_program};

use super::oracle::{Kept, Tail};
use super::saved::below;

const GATES: &str = "verify:\n  - test -e done.txt\n";

/// Files cannot grow beyond a size, for any size: as on a full disk, but without root.
#[test]
fn law_9_a_file_size_limit_fails_open_loudly_or_blocks() {
    let sandbox = Sandbox::gated(GATES);
    sandbox.file("done.txt", "");
    for limit in (0..6000).step_by(250) {
        let input = sandbox.home().join("input");
        fs::write(&input, input_of(&sandbox, "agent-1")).expect("a file");
        let plain = sandbox.command(&["hook", "claude"]);
        let ran = with_limit(&format!("file-size={limit}"), plain, &input);
        let passed = ran.stdout.contains("Verification passed");
        assert!(passed || ran.blocks_or_says_unverified(), "{limit} bytes: {ran:#?}");
        Kept::look(&sandbox.ralph_home(), Tail::MayBeTorn).expect("sound");
    }
}

/// The same command under a limit, with this file as its input.
fn with_limit(limit: &str, plain: Command, input: &Path) -> Finished {
    let mut command = Command::new(misbehave_program());
    command.args(["with-limit", limit]).arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(plain.get_current_dir().expect("a folder"));
    Finished::of(command.stdin(fs::File::open(input).expect("a file")).output().expect("misbehave"))
}

fn input_of(sandbox: &Sandbox, agent: &str) -> String {
    serde_json::json!({
        "session_id": "session-1", "cwd": sandbox.project(), "agent_id": agent, "agent_type": "check",
        "hook_event_name": "SubagentStop", "last_assistant_message": "Done.",
    })
    .to_string()
}

fn stop(user: &OrdinaryUser) -> Finished {
    let input = user.sandbox.home().join("input");
    fs::write(&input, input_of(&user.sandbox, "agent-1")).expect("a file");
    let mut command = user.ralph(&["hook", "claude"]);
    Finished::of(command.stdin(fs::File::open(&input).expect("a file")).output().expect("the binary"))
}

fn with_mode(path: &Path, mode: u32, then: impl FnOnce()) {
    let before = fs::metadata(path).expect("there").permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
    then();
    fs::set_permissions(path, before).expect("our own");
}

#[test]
fn inaccessible_folders_and_files_fail_open_loudly_or_block() {
    let user = OrdinaryUser::of(Sandbox::gated(GATES));
    assert!(stop(&user).blocks_or_says_unverified());
    let home = user.sandbox.ralph_home();
    let named = |end: &str| below(&home).into_iter().find(|path| path.ends_with(end)).expect("there");
    let repo = fs::read_dir(home.join("repos")).expect("repos").flatten().next().expect("one").path();
    let loop_dir = named("ledger.jsonl").parent().expect("a folder").to_owned();
    let places = [
        (home.clone(), 0o500),
        (home.clone(), 0o000),
        (home.join("trust.json"), 0o000),
        (home.join("definitions"), 0o000),
        (repo.clone(), 0o500),
        (repo, 0o000),
        (loop_dir.clone(), 0o500),
        (loop_dir, 0o000),
        (named("ledger.jsonl"), 0o400),
        (named("ledger.jsonl"), 0o000),
        (named("lock"), 0o000),
        (user.sandbox.path("ralph.yaml"), 0o000),
        (user.sandbox.project(), 0o500),
    ];
    for (path, mode) in places {
        with_mode(&path, mode, || {
            let ran = stop(&user);
            assert!(ran.blocks_or_says_unverified(), "{} {mode:o}: {ran:#?}", path.display());
        });
        Kept::look(&home, Tail::MayBeTorn).expect("sound");
    }
    user.sandbox.file("done.txt", "");
    user.own_all();
    assert!(stop(&user).stdout.contains("Verification passed"));
}

/// The state file in the repo is only a copy: making it unwritable does not free the agent, and the count continues.
#[test]
fn an_agent_that_makes_the_state_file_unwritable_stays_blocked() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", GATES);
    sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
    sandbox.trust();
    sandbox.stop("check").answer().blocked();
    // A folder in its place cannot be overwritten even by root.
    sandbox.remove(".trellis/.ralph-state.json");
    fs::create_dir(sandbox.path(".trellis/.ralph-state.json")).expect("a folder");
    // The deletion restarts the count, once.
    for attempt in [1, 2, 3, 4] {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains(&format!("iteration {attempt}/5")), "{reason}");
    }
    let user = OrdinaryUser::of(sandbox);
    fs::remove_dir(user.sandbox.path(".trellis/.ralph-state.json")).expect("our own");
    user.sandbox.ralph(&["reset"]).success();
    user.own_all();
    assert!(stop(&user).stdout.contains("iteration 1/5"));
    let shown = user.sandbox.path(".trellis/.ralph-state.json");
    with_mode(&shown, 0o000, || assert!(stop(&user).stdout.contains("iteration 2/5")));
    with_mode(&user.sandbox.path(".trellis"), 0o500, || {
        assert!(stop(&user).stdout.contains("iteration 3/5"));
    });
    // The pointer to the task: an error, never "no task".
    with_mode(&user.sandbox.path(".trellis/.current-task"), 0o000, || {
        let ran = stop(&user);
        assert!(ran.stdout.contains("UNVERIFIED"), "{ran:#?}");
    });
}

/// Few processes, few open files.
#[test]
fn a_hook_without_file_handles_or_threads_fails_open_loudly() {
    let user = OrdinaryUser::of(Sandbox::gated(GATES));
    assert!(stop(&user).blocks_or_says_unverified());
    let input = user.sandbox.home().join("input");
    for limit in
        (4..24).map(|files| format!("files={files}")).chain((0..12).map(|tasks| format!("processes={tasks}")))
    {
        // Another agent each time: after three stops in a row that cannot be evaluated, a loop is paused.
        fs::write(&input, input_of(&user.sandbox, &limit)).expect("a file");
        let mut command = user.ralph_with_limit(&limit, &["hook", "claude"]);
        let input = fs::File::open(&input).expect("a file");
        let ran = Finished::of(command.stdin(input).output().expect("misbehave"));
        let never_began = ran.code == Some(127) && ran.stderr.contains("shared libraries");
        assert!(never_began || ran.blocks_or_says_unverified(), "{limit}: {ran:#?}");
        Kept::look(&user.sandbox.ralph_home(), Tail::MayBeTorn).expect("sound");
    }
}
