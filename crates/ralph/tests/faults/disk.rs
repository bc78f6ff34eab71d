//! Disks that are full and folders that may not be written to.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::note;
use crate::oracle::{Kept, Tail};
use crate::saved::below;
use crate::support::{RALPH, Ran, Sandbox};

const GATES: &str = "verify:\n  - test -e done\n";

/// A file system of a few pages, or where mounting is not allowed none.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _status = Command::new("umount").arg(&self.0).status();
    }
}

fn is_loud_or_held(ran: &Ran) -> bool {
    let said: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    ran.code == Some(0)
        && (said["decision"] == "block"
            || said["systemMessage"].as_str().is_some_and(|told| told.contains("UNVERIFIED")))
}

#[test]
fn law_9_a_full_disk_opens_loudly_and_verifies_nothing_it_cannot_write_down() {
    let mut sandbox = Sandbox::new();
    let small = sandbox.home().join("small");
    let disk = SmallDisk::mount(&small, "192k");
    if disk.is_none() {
        note("mounting is not allowed here: a limit on file sizes stands in for the full disk");
        return a_limit_on_file_sizes(&Sandbox::gated(GATES));
    }
    sandbox.set("RALPH_HOME", small.to_string_lossy());
    sandbox.file("ralph.yaml", GATES);
    sandbox.trust();
    sandbox.stop("check").answer().held();
    let filler = small.join("filler");
    for free_pages in 0..12usize {
        let _gone = fs::remove_file(&filler);
        fill(&filler, free_pages * 4096);
        for done in [false, true] {
            if done {
                sandbox.file("done", "");
            } else if sandbox.exists("done") {
                sandbox.remove("done");
            }
            let answer = sandbox.stop("check").agent(&format!("agent-{free_pages}")).answer();
            let passed = done && answer.ran.stdout.contains("Verification passed");
            assert!(passed || is_loud_or_held(&answer.ran), "{free_pages} pages left: {answer:#?}");
            let kept = Kept::look(&small, Tail::MayBeTorn).expect("sound on a full disk");
            if passed {
                assert!(kept.ledgers.iter().any(|ledger| !ledger.verdicts().is_empty()), "{kept:?}");
            }
        }
    }
    fs::remove_file(&filler).expect("our own");
    sandbox.file("done", "");
    let told = sandbox.stop("check").answer().let_go();
    assert_eq!(told.as_deref(), Some("Verification passed: All verify commands passed"));
    drop(disk);
}

/// Fills the disk, then gives back what is to be left.
fn fill(path: &Path, left: usize) {
    let mut size = 0;
    let mut file = fs::File::create(path).expect("a file");
    while std::io::Write::write(&mut file, &[b'x'; 1024]).is_ok_and(|written| written > 0) {
        size += 1024;
    }
    file.set_len(u64::try_from(size).expect("small").saturating_sub(left as u64)).expect("shorter");
}

fn a_limit_on_file_sizes(sandbox: &Sandbox) {
    sandbox.file("done", "");
    for limit in (0..6000).step_by(250) {
        // The shell ignores the signal, so the program sees the error.
        let mut command = sandbox.command(&["hook", "claude"]);
        let input = sandbox.home().join("input");
        fs::write(&input, input_of(sandbox, "agent-1")).expect("a file");
        let mut limited = Command::new("sh");
        let script = "trap '' XFSZ; exec prlimit --fsize=$0 \"$@\"";
        limited.args(["-c", script, &limit.to_string(), RALPH]).args(command.get_args());
        limited.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(sandbox.project()).stdin(fs::File::open(&input).expect("a file"));
        let ran = Ran::of(limited.output().expect("sh"));
        let passed = ran.stdout.contains("Verification passed");
        assert!(passed || is_loud_or_held(&ran), "{limit} bytes: {ran:#?}");
        Kept::look(&sandbox.ralph_home(), Tail::MayBeTorn).expect("sound");
        command.stdin(Stdio::null());
    }
}

fn input_of(sandbox: &Sandbox, agent: &str) -> String {
    serde_json::json!({
        "session_id": "session-1", "cwd": sandbox.project(), "agent_id": agent, "agent_type": "check",
        "hook_event_name": "SubagentStop", "last_assistant_message": "Done.",
    })
    .to_string()
}

/// Another user than root, whom permissions mean something to, with a binary that it can reach.
struct Somebody {
    sandbox: Sandbox,
    binary: PathBuf,
}

const NOBODY: u32 = 65534;

impl Somebody {
    /// None where we are not root, or where that user can run nothing.
    fn with(sandbox: Sandbox) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            note("not root: what read-only folders do to another user is left out");
            return None;
        }
        let top = sandbox.home().parent().expect("a parent").to_owned();
        let binary = top.join("ralph");
        fs::copy(RALPH, &binary).expect("room for the binary");
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).expect("our own");
        let somebody = Self { sandbox, binary };
        somebody.own_all();
        Some(somebody)
    }

    fn own_all(&self) {
        let top = self.sandbox.home().parent().expect("a parent").to_owned();
        for path in below(&top) {
            if !path.is_symlink() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("we are root");
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let plain = self.sandbox.command(arguments);
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(self.sandbox.project()).uid(NOBODY).gid(NOBODY);
        command
    }

    fn stop(&self) -> Ran {
        let input = self.sandbox.home().join("input");
        fs::write(&input, input_of(&self.sandbox, "agent-1")).expect("a file");
        let mut command = self.command(&["hook", "claude"]);
        Ran::of(command.stdin(fs::File::open(&input).expect("a file")).output().expect("the binary"))
    }
}

fn with_mode(path: &Path, mode: u32, then: impl FnOnce()) {
    let before = fs::metadata(path).expect("there").permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("we are root");
    then();
    fs::set_permissions(path, before).expect("we are root");
}

#[test]
fn folders_and_files_that_may_not_be_touched_open_loudly_or_hold() {
    let Some(somebody) = Somebody::with(Sandbox::gated(GATES)) else { return };
    assert!(is_loud_or_held(&somebody.stop()));
    let home = somebody.sandbox.ralph_home();
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
        (somebody.sandbox.path("ralph.yaml"), 0o000),
        (somebody.sandbox.project(), 0o500),
    ];
    for (path, mode) in places {
        with_mode(&path, mode, || {
            let ran = somebody.stop();
            assert!(is_loud_or_held(&ran), "{} {mode:o}: {ran:#?}", path.display());
        });
        Kept::look(&home, Tail::MayBeTorn).expect("sound");
    }
    somebody.sandbox.file("done", "");
    somebody.own_all();
    assert!(somebody.stop().stdout.contains("Verification passed"));
}

/// What is shown in the repo is only shown: making it impossible frees nobody, and the count goes on.
#[test]
fn an_agent_that_takes_our_right_to_show_the_state_stays_held() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/worktree.yaml", GATES);
    sandbox.file(".trellis/.current-task", ".trellis/tasks/login\n");
    sandbox.trust();
    sandbox.stop("check").answer().held();
    // A folder in its place is what even root cannot write over.
    sandbox.remove(".trellis/.ralph-state.json");
    fs::create_dir(sandbox.path(".trellis/.ralph-state.json")).expect("a folder");
    // The deletion starts the count again, once.
    for attempt in [1, 2, 3, 4] {
        let (reason, _) = sandbox.stop("check").answer().held();
        assert!(reason.contains(&format!("iteration {attempt}/5")), "{reason}");
    }
    let Some(somebody) = Somebody::with(sandbox) else { return };
    fs::remove_dir(somebody.sandbox.path(".trellis/.ralph-state.json")).expect("our own");
    somebody.sandbox.ralph(&["reset"]).success();
    somebody.own_all();
    assert!(somebody.stop().stdout.contains("iteration 1/5"));
    let shown = somebody.sandbox.path(".trellis/.ralph-state.json");
    with_mode(&shown, 0o000, || assert!(somebody.stop().stdout.contains("iteration 2/5")));
    with_mode(&somebody.sandbox.path(".trellis"), 0o500, || {
        assert!(somebody.stop().stdout.contains("iteration 3/5"));
    });
    // The pointer to the task: an error, never "no task".
    with_mode(&somebody.sandbox.path(".trellis/.current-task"), 0o000, || {
        let ran = somebody.stop();
        assert!(ran.stdout.contains("UNVERIFIED"), "{ran:#?}");
    });
}

/// Few processes, few open files.
#[test]
fn a_hook_without_room_for_files_or_threads_opens_loudly() {
    let Some(somebody) = Somebody::with(Sandbox::gated(GATES)) else { return };
    assert!(is_loud_or_held(&somebody.stop()));
    let input = somebody.sandbox.home().join("input");
    for limit in (4..24)
        .map(|files| format!("--nofile={files}"))
        .chain((0..12).map(|tasks| format!("--nproc={tasks}")))
    {
        // An agent of its own each time: after three stops in a row that cannot be told, a loop is paused.
        fs::write(&input, input_of(&somebody.sandbox, &limit)).expect("a file");
        let plain = somebody.command(&["hook", "claude"]);
        let mut command = Command::new("prlimit");
        command.arg(&limit).arg(&somebody.binary).args(plain.get_args()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(somebody.sandbox.project()).uid(NOBODY).gid(NOBODY);
        let ran = Ran::of(command.stdin(fs::File::open(&input).expect("a file")).output().expect("prlimit"));
        let never_began = ran.code == Some(127) && ran.stderr.contains("shared libraries");
        assert!(never_began || is_loud_or_held(&ran), "{limit}: {ran:#?}");
        Kept::look(&somebody.sandbox.ralph_home(), Tail::MayBeTorn).expect("sound");
    }
}
