//! Runs real shell lines. Every `sleep` has a unique duration, so that each test can check afterwards whether any of
//! its processes is still alive.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use tempfile::TempDir;

use super::capture::{HEAD, LOG_CAP, TAIL};
use super::*;

/// More than any command below takes, even on a busy machine.
const AMPLE: Duration = Duration::from_secs(30);

/// One command, its folder, and a unique sleep duration.
struct Scene {
    dir: TempDir,
    nap: String,
    timeout: Duration,
    grace: Duration,
    log: PathBuf,
    stop: StopRequest,
}

/// Not every machine has a `setsid`.
fn with_setsid(command: &str) -> String {
    command.replace("setsid", &ralph_testkit::misbehave("in-session"))
}

impl Scene {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        adopt_orphans();
        let dir = TempDir::new().unwrap();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            nap: format!("600.{}{count:04}", std::process::id()),
            timeout: AMPLE,
            grace: Duration::from_millis(300),
            log: dir.path().join("gate.log"),
            stop: StopRequest::new(),
            dir,
        }
    }

    /// `NAP` in `command` becomes `sleep` for this scene's own duration, `setsid` the testkit's own.
    fn run(&self, command: &str) -> FinishedJob {
        let env = [
            ("PATH".into(), crate::sys::env::all().find(|(name, _)| name == "PATH").unwrap().1),
            ("COLOUR".into(), "blue".into()),
        ];
        let job = Job {
            command: Program::Shell(&with_setsid(command).replace("NAP", &format!("sleep {}", self.nap))),
            dir: self.dir.path(),
            env: &env,
            timeout: self.timeout,
            manners: ShutdownRules::of_a_tool(self.grace),
            errors_apart: false,
            log: &self.log,
            marker: &self.nap,
        };
        run(&job, &self.stop)
    }

    /// Runs `command` and asserts that none of its processes is left.
    fn ended(&self, command: &str) -> FinishedJob {
        let ended = self.run(command);
        assert_eq!(self.alive(), Vec::<String>::new(), "left alive by `{command}`: {ended:?}");
        ended
    }

    fn how(&self, command: &str) -> Termination {
        self.ended(command).how
    }

    fn leaked(&self, command: &str) -> Vec<String> {
        match self.how(command) {
            Termination::Leaked { code: 0, processes } => processes,
            other => panic!("`{command}` ended as {other:?}"),
        }
    }

    /// Command lines with our duration, and processes with it as their marker.
    fn alive(&self) -> Vec<String> {
        let marker = format!("INVOCATION_ID={}", self.nap);
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let found = entries.filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            (line.contains(&self.nap) || String::from_utf8_lossy(&environ).contains(&marker)).then_some(line)
        });
        found.collect()
    }

    fn await_alive(&self) {
        while self.alive().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a program without a shell; returns how it ended and what it printed.
fn program(program: &str, arguments: &[&str], path: &str, dir: &Path) -> (Termination, String) {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let job = Job {
        command: Program::Program { program: program.as_ref(), arguments: &arguments, stdin: None },
        dir,
        env: &[("PATH".into(), path.into())],
        timeout: AMPLE,
        manners: ShutdownRules::of_an_agent(),
        errors_apart: false,
        log: &dir.join("program.log"),
        marker: "a program",
    };
    let ended = run(&job, &StopRequest::new());
    (ended.how.clone(), printed(&ended))
}

fn script(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn finds_programs_like_a_shell() {
    let dir = TempDir::new().unwrap();
    script(&dir.path().join("one/tool"), "#!/bin/sh\necho one $0 $1\n", 0o755);
    script(&dir.path().join("two/tool"), "#!/bin/sh\necho two $1\n", 0o755);
    script(&dir.path().join("three/tool"), "echo three $1\n", 0o755);
    script(&dir.path().join("four/tool"), "#!/bin/sh\necho four\n", 0o644);
    let at = |folder: &str| dir.path().join(folder).display().to_string();
    let ran = |name: &str, path: &str| program(name, &["word"], path, dir.path());
    let said = |text: &str| (Termination::Exited { code: 0 }, format!("{text}\n"));
    assert_eq!(ran("tool", &at("two")), said("two word"));
    // The command's own PATH is searched in order, and non-executable files are skipped.
    assert_eq!(ran("tool", &format!("{}:{}:{}", at("none"), at("four"), at("two"))), said("two word"));
    // A script without a shebang is run by the shell.
    assert_eq!(ran("tool", &at("three")), said("three word"));
    // Paths are relative to the command's folder.
    assert_eq!(ran("./one/tool", ""), said("one ./one/tool word"));
    assert_eq!(ran("tool", "two"), said("two word"));
    for (name, path) in [("tool", at("none")), ("./none/tool", String::new()), ("./four/tool", String::new())]
    {
        let (how, _) = ran(name, &path);
        assert!(matches!(&how, Termination::CouldNotStart { why } if why.contains(name)), "{name}: {how:?}");
    }
    let (how, _) = program("to\0ol", &[], "/bin", dir.path());
    assert!(matches!(how, Termination::CouldNotStart { .. }), "{how:?}");
}

/// Our own handlers and the ignored SIGPIPE are not inherited, and no signal is blocked.
#[test]
fn signal_handling_is_not_inherited() {
    let _handled = crate::sys::signals::Signals::watch();
    let scene = Scene::new();
    let sets = |status: &str| {
        ["SigBlk:", "SigCgt:", "SigIgn:"].map(|name| {
            let set = status.lines().find_map(|line| line.strip_prefix(name)).expect("a set of signals");
            u64::from_str_radix(set.trim(), 16).expect("a number")
        })
    };
    let [_, caught, ignored] = sets(&fs::read_to_string("/proc/self/status").unwrap());
    let pipe = 1 << 12;
    assert!(caught != 0 && ignored & pipe != 0, "there is nothing to see here");
    assert_eq!(sets(&printed(&scene.ended("cat /proc/self/status"))), [0, 0, ignored & !pipe]);
    assert_eq!(scene.how("kill -INT $$; sleep 1"), Termination::Signalled { signal: 2 });
    assert_eq!(scene.how("kill -PIPE $$; sleep 1"), Termination::Signalled { signal: 13 });
}

/// Strays are killed by any sweep, so tests that create or sweep strays run one at a time.
fn sweeping() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn printed(ended: &FinishedJob) -> String {
    String::from_utf8_lossy(&ended.output.head).into_owned()
}

#[test]
fn reports_how_a_command_ended() {
    let scene = Scene::new();
    assert_eq!(scene.how("true"), Termination::Exited { code: 0 });
    assert_eq!(scene.how("exit 7"), Termination::Exited { code: 7 });
    assert_eq!(scene.how("no-such-command-here"), Termination::Exited { code: 127 });
    assert_eq!(scene.how("touch plain; ./plain"), Termination::Exited { code: 126 });
    assert_eq!(scene.how("kill -9 $$"), Termination::Signalled { signal: 9 });
    assert_eq!(scene.how("kill -SEGV $$"), Termination::Signalled { signal: 11 });
}

#[test]
fn could_not_start_in_a_missing_folder() {
    let mut scene = Scene::new();
    let missing = scene.dir.path().join("nowhere");
    let job = Job {
        command: Program::Shell("true"),
        dir: &missing,
        env: &[],
        timeout: AMPLE,
        manners: ShutdownRules::of_a_tool(scene.grace),
        errors_apart: false,
        log: &scene.log,
        marker: "none",
    };
    let Termination::CouldNotStart { why } = run(&job, &scene.stop).how else { panic!("it started") };
    assert!(why.contains("nowhere"), "{why}");
    scene.log = missing.join("gate.log");
    assert!(matches!(scene.how("\0"), Termination::CouldNotStart { .. }));
}

#[test]
fn passes_the_environment_and_the_marker() {
    let scene = Scene::new();
    let ended = scene.ended("echo $COLOUR $INVOCATION_ID ${HOME-none}");
    assert_eq!(printed(&ended), format!("blue {} none\n", scene.nap));
}

#[test]
fn has_no_terminal_and_nothing_to_read() {
    let scene = Scene::new();
    assert!(matches!(scene.how("exec 3</dev/tty"), Termination::Exited { code } if code != 0));
    assert_eq!(printed(&scene.ended("cat; read line || echo nothing")), "nothing\n");
}

#[test]
fn passes_no_other_file_descriptors() {
    let scene = Scene::new();
    let _held = fs::File::create(scene.dir.path().join("held")).unwrap();
    // The fourth is the listed folder itself.
    assert_eq!(printed(&scene.ended("ls /proc/self/fd")), "0\n1\n2\n3\n");
}

#[test]
fn keeps_both_streams_in_the_order_written() {
    let scene = Scene::new();
    let ended = scene.ended("for i in 1 2 3; do echo out $i; echo err $i >&2; done");
    assert_eq!(printed(&ended), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert_eq!(fs::read(&scene.log).unwrap(), ended.output.head);
    assert_eq!(fs::metadata(&scene.log).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A process that holds only one of the two pipes is found too.
#[test]
fn separate_stderr_is_tapped_and_supervised_like_stdout() {
    let _turn = sweeping();
    let dir = TempDir::new().unwrap();
    let tapped = std::sync::Arc::new(Mutex::new((String::new(), String::new())));
    let run_it = |line: &str| {
        let tap_output = tapped.clone();
        let tap: OutputTap = Box::new(move |channel, bytes| {
            let mut tap_output = tap_output.lock().unwrap();
            let text = String::from_utf8_lossy(bytes);
            match channel {
                Channel::Output => tap_output.0.push_str(&text),
                Channel::Errors => tap_output.1.push_str(&text),
            }
        });
        let job = Job {
            command: Program::Shell(line),
            dir: dir.path(),
            env: &[("PATH".into(), crate::sys::env::path())],
            timeout: AMPLE,
            manners: ShutdownRules::of_an_agent(),
            errors_apart: true,
            log: &dir.path().join("log"),
            marker: "errors apart",
        };
        run_tapped(&job, &[], Some(tap))
    };
    let ended = run_it("printf '{\"half'; echo warning >&2; printf ' a row\"}'");
    assert_eq!(ended.how, Termination::Exited { code: 0 });
    assert_eq!(*tapped.lock().unwrap(), ("{\"half a row\"}".to_owned(), "warning\n".to_owned()));
    assert_eq!(ended.output.total, 22);
    // No marker in its environment, another session, no parent: only the pipe identifies it.
    let ended = run_it(&with_setsid("(setsid env -i sleep 600.77 >/dev/null 2>&2 </dev/null &) ; sleep 0.1"));
    assert!(
        matches!(&ended.how, Termination::Leaked { processes, .. } if processes[0].contains("600.77")),
        "{ended:?}"
    );
}

#[test]
fn ends_a_command_that_hangs() {
    let mut scene = Scene::new();
    scene.timeout = Duration::from_millis(300);
    scene.grace = Duration::from_secs(20);
    let ended = scene.ended("echo begun; NAP");
    assert_eq!((ended.how.clone(), printed(&ended).as_str()), (Termination::TimedOut, "begun\n"));
    assert!(ended.took < Duration::from_secs(5), "it went at SIGTERM, the grace was not used: {ended:?}");
}

#[test]
fn ends_a_command_that_ignores_sigterm() {
    let mut scene = Scene::new();
    scene.timeout = Duration::from_millis(300);
    let ended = scene.ended("trap '' TERM; while :; do sleep 1; done");
    assert_eq!(ended.how, Termination::TimedOut);
    assert!(ended.took < scene.timeout + scene.grace + Duration::from_secs(1), "{ended:?}");
}

#[test]
fn ends_detached_descendants_of_a_command_that_hangs() {
    let mut scene = Scene::new();
    scene.timeout = Duration::from_millis(400);
    let detached = "setsid sh -c 'trap \"\" TERM; setsid NAP & NAP; NAP' >/dev/null 2>&1 </dev/null & NAP";
    assert_eq!(scene.how(detached), Termination::TimedOut);
    assert_eq!(scene.how("(env -i setsid NAP &); (setsid env -i NAP &) ; NAP"), Termination::TimedOut);
}

#[test]
fn waits_for_processes_that_end_soon() {
    let scene = Scene::new();
    let begun = Instant::now();
    let ended = scene.ended("(sleep 0.2; echo late) & (setsid sleep 0.2 >/dev/null 2>&1 &) ; exit 0");
    let all_of_it = begun.elapsed();
    assert_eq!((ended.how.clone(), printed(&ended).as_str()), (Termination::Exited { code: 0 }, "late\n"));
    assert!(
        ended.took + Duration::from_millis(100) < all_of_it,
        "without the latecomers: {ended:?} {all_of_it:?}"
    );
}

#[test]
fn finds_leaked_processes() {
    let scene = Scene::new();
    let nap = format!("sleep {}", scene.nap);
    for command in [
        "NAP & exit 0",
        "(NAP >/dev/null 2>&1 </dev/null &); exit 0",
        "(setsid NAP &); exit 0",
        "(setsid NAP >/dev/null 2>&1 </dev/null &); exit 0",
        "(setsid sh -c 'setsid NAP >/dev/null 2>&1 </dev/null & exit 0' &); sleep 0.1; exit 0",
        "(env -i NAP >/dev/null 2>&1 </dev/null &); sleep 0.1; exit 0",
        "(env -i setsid NAP &); sleep 0.1; exit 0",
        "(setsid sh -c 'trap \"\" TERM; NAP; NAP' >/dev/null 2>&1 &); exit 0",
    ] {
        let processes = scene.leaked(command);
        assert!(processes.iter().any(|process| process.contains(&nap)), "`{command}` left {processes:?}");
    }
}

#[test]
fn a_failure_takes_precedence_over_a_leak() {
    let scene = Scene::new();
    assert_eq!(scene.how("(setsid NAP >/dev/null 2>&1 &); exit 3"), Termination::Exited { code: 3 });
    assert_eq!(scene.how("NAP & kill -9 $$"), Termination::Signalled { signal: 9 });
}

#[test]
fn sweeps_strays() {
    let _turn = sweeping();
    let scene = Scene::new();
    let lose_one = "(env -i setsid NAP >/dev/null 2>&1 </dev/null &); sleep 0.4; exit 0";
    // A job of another test may scan before the process has detached; then it is ended as a leak.
    let lost = (0..20).any(|_| scene.run(lose_one).how == Termination::Exited { code: 0 });
    assert!(lost, "it is always seen in time");
    assert_eq!(scene.alive().len(), 1, "without marker, session, output and parent it belongs to no family");
    let swept = sweep_all();
    assert!(swept.iter().any(|process| process.contains(&scene.nap)), "{swept:?}");
    assert!(scene.alive().is_empty());
    assert_eq!(sweep_all(), Vec::<String>::new());
}

#[test]
fn leaves_the_programs_own_children_alone() {
    let _turn = sweeping();
    let scene = Scene::new();
    let mut own = Command::new("sh")
        .args(["-c", "read line; exit 5"])
        .stdin(Stdio::piped())
        .env("INVOCATION_ID", "inherited from a run around us")
        .spawn()
        .unwrap();
    assert_eq!(scene.leaked("(setsid NAP &); exit 0").len(), 1);
    sweep_all();
    assert_eq!(own.try_wait().unwrap(), None);
    drop(own.stdin.take());
    assert_eq!(own.wait().unwrap().code(), Some(5), "and its status is still there to be read");
}

#[test]
fn a_leak_in_another_job_does_not_interfere() {
    let _turn = sweeping();
    let (tidy, leaky) = (Scene::new(), Scene::new());
    let tree = "(setsid sh -c 'sleep 1.5; echo detached') & (sh -c 'sleep 1.5; echo near') & wait; exit 4";
    thread::scope(|scope| {
        let unharmed = scope.spawn(|| tidy.ended(tree));
        tidy.await_alive();
        assert_eq!(leaky.leaked("(setsid NAP >/dev/null 2>&1 &); NAP & exit 0").len(), 2);
        sweep_all();
        let unharmed = unharmed.join().unwrap();
        assert_eq!(unharmed.how, Termination::Exited { code: 4 });
        assert!(printed(&unharmed).contains("detached") && printed(&unharmed).contains("near"));
    });
}

#[test]
fn concurrent_jobs_find_only_their_own_leaks() {
    thread::scope(|scope| {
        let leaks = (0..6).map(|_| {
            scope.spawn(|| {
                let scene = Scene::new();
                let processes = scene.leaked("(setsid NAP >/dev/null 2>&1 </dev/null &); NAP & exit 0");
                assert!(processes.len() == 2 && processes.iter().all(|it| it.contains(&scene.nap)));
            })
        });
        let leaks: Vec<_> = leaks.collect();
        for round in 0..20 {
            let scene = Scene::new();
            assert_eq!(scene.how(&format!("exit {round}")), Termination::Exited { code: round });
        }
        for leak in leaks {
            leak.join().unwrap();
        }
    });
}

#[test]
fn stop_ends_every_listening_job() {
    let scenes = [Scene::new(), Scene::new()];
    let stop = StopRequest::new();
    let [first, second] = scenes.map(|scene| Scene { stop: stop.clone(), ..scene });
    thread::scope(|scope| {
        let jobs = [
            scope.spawn(|| first.ended("trap '' TERM; (setsid NAP &); NAP; NAP")),
            scope.spawn(|| second.ended("(setsid NAP >/dev/null 2>&1 &); NAP")),
        ];
        first.await_alive();
        second.await_alive();
        let asked = Instant::now();
        stop.ask();
        for job in jobs {
            assert_eq!(job.join().unwrap().how, Termination::Stopped);
        }
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    });
    assert!(stop.is_requested());
    assert_eq!(first.how("touch begun"), Termination::Stopped);
    assert!(!first.dir.path().join("begun").exists());
}

#[test]
fn a_flood_is_bounded_and_does_not_block() {
    let scene = Scene::new();
    let ended = scene.ended("printf begin; head -c 20000000 /dev/zero; printf end");
    let Captured { head, tail, total } = &ended.output;
    assert_eq!(ended.how, Termination::Exited { code: 0 });
    assert_eq!((head.len(), tail.len(), *total), (HEAD, TAIL, 20_000_008));
    assert_eq!(ended.output.missing(), 20_000_008 - (HEAD + TAIL) as u64);
    assert!(head.starts_with(b"begin\0") && tail.ends_with(b"\0end"));
}

#[test]
fn the_log_is_capped_and_keeps_the_end() {
    let scene = Scene::new();
    let ended = scene.ended("head -c 20000000 /dev/zero; printf end");
    let lost = ended.output.total - LOG_CAP - TAIL as u64;
    let note = format!("\n[{lost} bytes omitted]\n");
    let mut log = Vec::new();
    fs::File::open(&scene.log).unwrap().read_to_end(&mut log).unwrap();
    assert_eq!(log.len() as u64, LOG_CAP + note.len() as u64 + TAIL as u64);
    assert!(log.ends_with(&ended.output.tail));
    assert_eq!(&log[log.len() - TAIL - note.len()..][..note.len()], note.as_bytes());
    assert_eq!(ended.log_error, None);
}

#[test]
fn a_log_just_over_the_cap_is_whole() {
    let scene = Scene::new();
    let size = LOG_CAP + 1000;
    let ended = scene.ended(&format!("head -c {size} /dev/zero; printf end"));
    let log = fs::read(&scene.log).unwrap();
    assert_eq!((log.len() as u64, ended.output.total), (size + 3, size + 3));
    assert!(log.ends_with(b"\0end"));
}

#[test]
fn an_unwritable_log_is_not_a_failure() {
    let mut scene = Scene::new();
    for log in ["/dev/full", "/nowhere/at/all/gate.log"] {
        scene.log = log.into();
        let ended = scene.ended("echo fine");
        assert_eq!(
            (ended.how.clone(), printed(&ended).as_str()),
            (Termination::Exited { code: 0 }, "fine\n")
        );
        assert!(ended.log_error.is_some(), "{log}");
    }
}

/// Any split of a stream into chunks gives the same head and tail.
#[test]
fn captures_the_same_for_any_chunking() {
    let stream: Vec<u8> = (0..900_001u32).map(|number| (number % 251) as u8).collect();
    let dir = TempDir::new().unwrap();
    for length in [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + TAIL, HEAD + TAIL + 1, stream.len()] {
        for cut in [997, 4096, 65_536, 131_072, 500_000] {
            let mut recorder = Recorder::new(&dir.path().join("log"), None);
            for chunk in stream[..length].chunks(cut) {
                recorder.add(Channel::Output, chunk);
            }
            let (captured, log_error) = recorder.finish();
            let (head, rest) = stream[..length].split_at(HEAD.min(length));
            assert_eq!(captured.head, head);
            assert_eq!(captured.tail, rest[rest.len().saturating_sub(TAIL)..]);
            assert_eq!((captured.total, log_error), (length as u64, None));
        }
    }
}
