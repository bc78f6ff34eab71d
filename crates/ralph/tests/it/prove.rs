//! `ralph prove`, and with it runs on a view of the tree: as root and as an ordinary user, in an overlay and in a copy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ralph_testkit::{Dice, Finished, OrdinaryUser, Sandbox, search_path, wait_until};
use serde_json::Value;

/// Prints one TAP line for each file in `tests`, which is a shell script that may use `lib.sh`.
const RUNNER: &str = r#"echo "TAP version 13"; echo "1..$(ls tests | wc -l)"
at=0; bad=0
for test in tests/*; do
    at=$((at + 1))
    if (. ./lib.sh; . "./$test") >/dev/null 2>&1; then echo "ok $at - $(basename "$test")"; else echo "not ok $at - $(basename "$test")"; bad=1; fi
done
exit $bad
"#;

/// A committed repo: `double` is wrong, `half` is right, each with its test.
fn repo() -> Sandbox {
    let sandbox = Sandbox::gated("verify: [{name: test, run: sh run-tests.sh}]\n");
    sandbox.file("run-tests.sh", RUNNER);
    sandbox.file("lib.sh", "double() { echo $(($1 + 1)); }\nhalf() { echo $(($1 / 2)); }\n");
    sandbox.file("tests/half", "test \"$(half 4)\" = 2");
    sandbox.file("tests/double", "test \"$(double 4)\" = 8");
    commit(&sandbox);
    sandbox
}

fn commit(sandbox: &Sandbox) {
    sandbox.git(&["add", "-A"]);
    sandbox.git(&["commit", "-qm", "a commit"]);
}

const FIXED: &str = "double() { echo $(($1 * 2)); }\nhalf() { echo $(($1 / 2)); }\n";

fn proven(sandbox: &Sandbox, more: &[&str]) -> (Value, Option<i32>) {
    let ran = sandbox.ralph(&[&["prove", "--json"], more].concat());
    (ran.json(), ran.code)
}

fn kind_of<'a>(proof: &'a Value, test: &str) -> &'a str {
    let rows = proof["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["test"] == test).unwrap_or_else(|| panic!("{test}: {proof:#}"));
    row["kind"].as_str().expect("a kind")
}

/// Everything that a view could leave behind, as far as this test can see it.
fn surroundings(sandbox: &Sandbox) -> Vec<String> {
    let mut seen = vec![
        sandbox.git(&["status", "--porcelain", "--ignored"]),
        sandbox.git(&["stash", "list"]),
        sandbox.git(&["worktree", "list"]),
        sandbox.git(&["for-each-ref"]),
        format!("{:?}", fs::read(sandbox.path(".git/index")).expect("an index")),
    ];
    let project = sandbox.project();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    seen.extend(mounts.lines().filter(|line| line.contains(&*project.to_string_lossy())).map(str::to_owned));
    seen.extend(views(sandbox));
    seen
}

/// What is in ralph's folder for views, without the empty folder that they are mounted on.
fn views(sandbox: &Sandbox) -> Vec<String> {
    let mut found = Vec::new();
    for repo in fs::read_dir(sandbox.ralph_home().join("repos")).into_iter().flatten().flatten() {
        for entry in fs::read_dir(repo.path().join("views")).into_iter().flatten().flatten() {
            let is_empty = || fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
            if entry.file_name() != "mount" || !is_empty() {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn every_test_gets_its_row_and_nothing_is_left() {
    let sandbox = repo();
    sandbox.file("lib.sh", FIXED);
    sandbox.file("tests/double-3", "test \"$(double 3)\" = 6");
    sandbox.file("tests/nothing", "test \"$(half 2)\" = 1");
    let before = surroundings(&sandbox);
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!(kind_of(&proof, "double"), "fixed");
    assert_eq!(kind_of(&proof, "double-3"), "fixed");
    assert_eq!(kind_of(&proof, "nothing"), "proves_nothing");
    assert_eq!(kind_of(&proof, "half"), "unaffected");
    assert_eq!((proof["verdict"].as_str(), code), (Some("proven"), Some(0)));
    assert_eq!(surroundings(&sandbox), before);
    let ran = sandbox.ralph(&["prove"]).success();
    let table = ran.stdout.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("prove", table);
    ran.says("PROVEN  2 tests fail without the change");
}

#[test]
fn broken_and_gone_tests_exit_with_1_and_no_proof_with_6() {
    let sandbox = repo();
    sandbox.file("lib.sh", "double() { echo $(($1 * 2)); }\nhalf() { echo 7; }\n");
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!((kind_of(&proof, "half"), code), ("broken", Some(1)));
    sandbox.file("lib.sh", FIXED);
    sandbox.remove("tests/half");
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!((kind_of(&proof, "half"), kind_of(&proof, "double"), code), ("gone", "fixed", Some(1)));
    sandbox.file("tests/half", "test \"$(half 4)\" = 2");
    sandbox.file("lib.sh", "double() { echo $(($1 + 1)); }\nhalf() { echo $(($1 / 2)); } # a word\n");
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!((proof["verdict"].as_str(), code), (Some("not_proven"), Some(6)));
    assert_eq!(kind_of(&proof, "double"), "failing");
}

#[test]
fn the_base_is_the_merge_base_or_the_named_commit() {
    let sandbox = repo();
    sandbox.git(&["checkout", "-qb", "fix"]);
    sandbox.file("lib.sh", FIXED);
    commit(&sandbox);
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!((proof["base"]["why"].as_str(), code), (Some("merge base with main"), Some(0)));
    sandbox.git(&["checkout", "-q", "--detach"]);
    let (proof, code) = proven(&sandbox, &["--base", "HEAD~1"]);
    assert_eq!((proof["base"]["why"].as_str(), code), (Some("HEAD~1"), Some(0)));
    let none = sandbox.ralph(&["prove", "--base", "HEAD"]);
    assert_eq!(none.code, Some(2));
    none.says("no file differs from");
    let unknown = sandbox.ralph(&["prove", "--base", "origin/main"]);
    assert_eq!(unknown.code, Some(2));
    unknown.says("unknown commit `origin/main`").says("git fetch origin main");
}

#[test]
fn it_needs_trust_and_writes_what_ci_systems_read() {
    let sandbox = repo();
    sandbox.file("lib.sh", FIXED);
    let report = sandbox.home().join("prove.xml");
    let ran = sandbox.ralph(&["prove", "--markdown", "--junit", report.to_str().expect("UTF-8")]).success();
    ran.says("### ✅ PROVEN: 1 test fails without the change").says("| fixed | fails | passes | 1 |");
    let xml = fs::read_to_string(report).expect("a report");
    assert!(xml.contains("<testcase classname=\"test\" name=\"double\"/>"), "{xml}");
    sandbox.file("ralph.yaml", "verify: [{name: test, run: touch ran}]\n");
    assert_eq!(sandbox.ralph(&["prove"]).code, Some(3));
    assert!(!sandbox.exists("ran"));
}

#[test]
fn a_gate_that_must_not_run_twice_does_not_run() {
    let sandbox = repo();
    sandbox.file("ralph.yaml", "verify: [{name: test, run: touch ran, rerun: false}]\n");
    sandbox.trust();
    let ran = sandbox.ralph(&["prove"]);
    assert_eq!(ran.code, Some(2));
    ran.says("no gate may run again (`rerun: false`)");
    assert!(!sandbox.exists("ran"));
}

/// Gates write into the view, a report file included, and none of it reaches the tree.
#[test]
fn what_a_gate_writes_stays_in_the_view() {
    let sandbox = Sandbox::gated("verify: [{name: test, run: sh run.sh, results: 'junit:out/*.xml'}]\n");
    sandbox.file(".gitignore", "out\n");
    let script = "mkdir -p out new; echo x > new/file; rm -f tracked\n\
                  if case $(cat value) in *right*) ;; *) false ;; esac; then bad=; else bad='<failure message=\"wrong\"/>'; fi\n\
                  echo \"<testsuite><testcase name=\\\"right\\\">$bad</testcase></testsuite>\" > out/r.xml\ntest -z \"$bad\"\n";
    sandbox.file("run.sh", script);
    sandbox.file("value", "wrong\n");
    sandbox.file("tracked", "kept\n");
    commit(&sandbox);
    sandbox.file("value", "right\n");
    let before = surroundings(&sandbox);
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!((kind_of(&proof, "right"), code), ("fixed", Some(0)));
    assert_eq!(surroundings(&sandbox), before);
    assert!(!sandbox.exists("new") && sandbox.exists("tracked") && !sandbox.exists("out"));
}

#[test]
fn odd_names_links_and_modes_are_put_back() {
    let sandbox = Sandbox::gated("verify: [{name: test, run: sh run.sh}]\n");
    // What the base has, the change takes away, and the other way round.
    let script = "if test -e now; then test ! -e 'a  b' && test ! -L link && test ! -x tool; else\n\
                  test \"$(cat 'a  b')\" = base && test \"$(readlink link)\" = 'a  b' && test -x tool && exit 1; exit 3; fi\n";
    sandbox.file("run.sh", script);
    sandbox.file("a  b", "base\n");
    sandbox.file("tool", "#!/bin/sh\n");
    fs::set_permissions(sandbox.path("tool"), fs::Permissions::from_mode(0o755)).expect("a mode");
    std::os::unix::fs::symlink("a  b", sandbox.path("link")).expect("a link");
    commit(&sandbox);
    for name in ["a  b", "link"] {
        sandbox.remove(name);
    }
    sandbox.file("link/inside", "a folder now\n");
    sandbox.file("now", "\n");
    fs::set_permissions(sandbox.path("tool"), fs::Permissions::from_mode(0o644)).expect("a mode");
    for overlay in [true, false] {
        let mut command = sandbox.command(&["prove", "--json"]);
        if !overlay {
            command.env("RALPH_NO_OVERLAY", "1");
        }
        let ran = Finished::of(command.output().expect("the binary"));
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    // Exit code 1 and not 3: everything was as it had been.
    sandbox.git(&["stash", "-qu"]);
    assert_eq!(sandbox.ralph(&["verify", "--json"]).json()["gates"][0]["outcome"]["code"], 1);
}

#[test]
fn in_a_linked_worktree_and_below_the_top_of_a_repo() {
    let sandbox = repo();
    let linked = sandbox.home().join("linked");
    sandbox.git(&["worktree", "add", "-q", "-b", "fix", linked.to_str().expect("UTF-8")]);
    fs::write(linked.join("lib.sh"), FIXED).expect("a file");
    let mut command = sandbox.command(&["prove", "--json"]);
    let ran = Finished::of(command.current_dir(&linked).output().expect("the binary"));
    assert_eq!((ran.json()["verdict"].as_str(), ran.code), (Some("proven"), Some(0)), "{ran:#?}");

    let sandbox = Sandbox::new();
    sandbox.file("app/ralph.yaml", "verify: [{name: test, run: sh run-tests.sh}]\n");
    sandbox.file("app/run-tests.sh", RUNNER);
    sandbox.file("app/lib.sh", "double() { echo 0; }\n");
    sandbox.file("app/tests/double", "test \"$(double 4)\" = 8");
    sandbox.file("outside", "x");
    commit(&sandbox);
    sandbox.file("app/lib.sh", FIXED);
    let below = |arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        Finished::of(command.current_dir(sandbox.path("app")).output().expect("the binary"))
    };
    let sha256 =
        below(&["trust", "--show", "--json"]).json()["sha256"].as_str().expect("a SHA-256").to_owned();
    below(&["trust", "--hash", &sha256]).success();
    assert_eq!(below(&["prove", "--json"]).json()["verdict"], "proven");
}

#[test]
fn a_home_inside_of_the_repo_is_refused() {
    let mut sandbox = repo();
    sandbox.set("RALPH_HOME", sandbox.path(".ralph").to_str().expect("UTF-8"));
    sandbox.file(".gitignore", ".ralph\n");
    sandbox.trust();
    sandbox.file("lib.sh", FIXED);
    let ran = sandbox.ralph(&["prove"]);
    assert_eq!(ran.code, Some(2));
    ran.says("ralph's own folder is inside the repo");
}

/// As an ordinary user the overlay needs a user namespace, which some systems do not permit: then the copy must be said.
#[test]
fn as_an_ordinary_user_it_is_the_same() {
    let user = OrdinaryUser::of(repo());
    user.sandbox.file("lib.sh", FIXED);
    user.own_all();
    for home in [Some("1"), None] {
        let mut command = user.ralph(&["prove", "--json"]);
        if let Some(set) = home {
            command.env("RALPH_NO_OVERLAY", set);
        }
        let ran = Finished::of(command.output().expect("the binary"));
        assert_eq!((ran.json()["verdict"].as_str(), ran.code), (Some("proven"), Some(0)), "{ran:#?}");
        let said = ran.json()["view"].as_str().expect("a view").to_owned();
        match home {
            Some(_) => assert_eq!(said, "in a copy of the files (RALPH_NO_OVERLAY is set)"),
            None => {
                let is_copy = said.starts_with("in a copy of the files (cannot ");
                assert!(said == "in an overlay at the same path" || is_copy, "{said}");
            }
        }
    }
    assert_eq!(views(&user.sandbox), [""; 0]);
}

/// A build that is newer than the files put back must not be reused.
#[test]
fn a_stale_cargo_build_does_not_lie_and_tests_in_source_files_are_separated() {
    let mut sandbox = Sandbox::gated("verify: [{name: test, run: cargo test --offline}]\n");
    // The toolchain that built this test: rustup's proxies look for theirs in the home folder.
    let toolchain = Path::new(env!("CARGO")).parent().expect("a folder");
    sandbox.set("PATH", format!("{}:{}", toolchain.display(), search_path()));
    sandbox.file("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    sandbox.file(".gitignore", "target\n");
    let tests = "\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn doubles() { assert_eq!(super::double(4), 8); }\nMORE}\n";
    sandbox.file(
        "src/lib.rs",
        &format!("pub fn double(n: i32) -> i32 {{ n + 1 }}\n{}", tests.replace("MORE", "")),
    );
    commit(&sandbox);
    let more = "    #[test]\n    fn triples() { assert_eq!(super::triple(4), 12); }\n    #[test]\n    fn nothing() {}\n";
    sandbox.file(
        "src/lib.rs",
        &format!(
            "pub fn double(n: i32) -> i32 {{ n * 2 }}\npub fn triple(n: i32) -> i32 {{ n * 3 }}\n{}",
            tests.replace("MORE", more)
        ),
    );
    // Built with the change, in place.
    sandbox.verify(&[]);
    let (proof, code) = proven(&sandbox, &[]);
    assert_eq!(kind_of(&proof, "tests::doubles"), "fixed");
    assert_eq!(kind_of(&proof, "tests::triples"), "fixed");
    assert_eq!(code, Some(0));
    // Nothing compiles without `triple`; without that test, `nothing` proves nothing.
    let fewer = "    #[test]\n    fn nothing() {}\n";
    sandbox.file(
        "src/lib.rs",
        &format!("pub fn double(n: i32) -> i32 {{ n * 2 }}\n{}", tests.replace("MORE", fewer)),
    );
    sandbox.verify(&[]);
    let (proof, _) = proven(&sandbox, &[]);
    assert_eq!(
        (kind_of(&proof, "tests::doubles"), kind_of(&proof, "tests::nothing")),
        ("fixed", "proves_nothing")
    );
}

/// Processes of views of this project that still run.
fn view_processes(project: &Path) -> Vec<String> {
    let project = project.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains("__view") && line.contains(&project) {
            found.push(line);
        }
    }
    found
}

/// Killed at any moment: the tree is as it was, nothing is mounted, and a copy that was left is removed by the next run.
#[test]
fn nothing_is_left_after_a_kill_at_any_moment() {
    let sandbox = repo();
    sandbox.file("lib.sh", FIXED);
    sandbox.ralph(&["prove"]).success();
    let begun = Instant::now();
    sandbox.ralph(&["prove"]).success();
    let takes = begun.elapsed();
    let before = surroundings(&sandbox);
    let kills: u32 = std::env::var("RALPH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let mut dice = Dice::new(17);
    for at in 0..kills {
        let mut command = sandbox.command(&["prove"]);
        if at % 3 == 0 {
            command.env("RALPH_NO_OVERLAY", "1");
        }
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
        let micros = u64::try_from(takes.as_micros()).expect("not that long").max(1);
        sleep(Duration::from_micros(dice.roll() % micros));
        child.kill().expect("a child of ours");
        child.wait().expect("an end");
        wait_until("the processes of the view end", || view_processes(&sandbox.project()).is_empty());
        let left: Vec<String> =
            surroundings(&sandbox).into_iter().filter(|line| !line.contains("/views/copy-")).collect();
        assert_eq!(left, before, "after kill {at}");
    }
    sandbox.ralph(&["prove"]).success();
    assert_eq!(surroundings(&sandbox), before);
}

/// A view that is killed with its gate still running ends too, with the gate's processes.
#[test]
fn an_interrupt_ends_the_gates_of_a_view() {
    let sandbox = Sandbox::gated("verify: [{name: test, run: 'touch started; sleep 300'}]\n");
    sandbox.file("a", "1");
    commit(&sandbox);
    sandbox.file("a", "2");
    let mut child =
        sandbox.command(&["prove"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
    wait_until("the gate runs in the view", || {
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
        children.split_whitespace().any(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sh\0-c\0touch"))
        })
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child of ours");
    assert_eq!(child.wait().expect("an end").code(), Some(143));
    assert_eq!(view_processes(&sandbox.project()), [""; 0]);
    assert!(!sandbox.exists("started"));
    assert_eq!(views(&sandbox), [""; 0]);
}
