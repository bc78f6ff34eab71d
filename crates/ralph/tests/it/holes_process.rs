//! Holes in the process: what the code under test can learn about ralph, what an agent's shell can do after it hid
//! its environment, and which processes can modify the one that judges.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use crate::RALPH;
use ralph_testkit::{OrdinaryUser, Sandbox, Session, misbehave, verify_list};

const GATE: &str = "verify:\n  - name: tests\n    run: test -f done.txt\n";

/// The value of a variable in what `env` printed.
fn variable<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    environment.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[track_caller]
fn is_invocation_id(value: &str) {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    assert!(value.len() == 32 && value.chars().all(hex), "{value}");
}

#[test]
fn a_gate_cannot_see_that_ralph_runs_it() {
    let mut sandbox = Sandbox::gated(&verify_list(&["env > ../environment"]));
    for name in ["RALPH_LANG", "RALPH_GATE_TIMEOUT", "RALPH_LOOP", "RALPH_ANYTHING"] {
        sandbox.set(name, "5s");
    }
    sandbox.set("INVOCATION_ID", "0123456789abcdef0123456789abcdef");
    sandbox.ralph(&["verify"]).success();
    let environment = fs::read_to_string(sandbox.path("../environment")).expect("the gate ran");
    assert!(!environment.contains("RALPH"), "{environment}");
    let mark = variable(&environment, "INVOCATION_ID").expect("a mark").to_owned();
    is_invocation_id(&mark);
    assert_ne!(mark, "0123456789abcdef0123456789abcdef");

    sandbox.ralph(&["verify", "--fresh"]).success();
    let environment = fs::read_to_string(sandbox.path("../environment")).expect("the gate ran");
    let second = variable(&environment, "INVOCATION_ID").expect("a mark");
    assert_ne!(mark, second, "one mark for each run");
    assert_eq!(mark[..16], second[..16], "the same beginning for the same loop");
}

#[test]
fn ralph_and_systemd_variables_of_the_user_do_not_change_a_receipt() {
    let mut sandbox = Sandbox::new();
    sandbox.file("ralph.yaml", &verify_list(&[&sandbox.counting("true")]));
    sandbox.trust();
    sandbox.ralph(&["verify"]).success();
    sandbox.set("RALPH_LANG", "es");
    sandbox.set("INVOCATION_ID", "0123456789abcdef0123456789abcdef");
    sandbox.ralph(&["verify"]).success();
    assert_eq!(sandbox.runs(), 1);
}

#[test]
fn an_agents_run_has_the_same_neutral_mark() {
    let sandbox = Sandbox::gated(GATE);
    let agent = "command:cat > /dev/null; env > ../environment; : > done.txt";
    sandbox.ralph(&["loop", "fix it", "--agent", agent]).success();
    let environment = fs::read_to_string(sandbox.path("../environment")).expect("the agent ran");
    is_invocation_id(variable(&environment, "INVOCATION_ID").expect("a mark"));
    assert_eq!(variable(&environment, "RALPH_RUN"), None);
}

/// Each command with its expected message, from a gate of the same repo and without any mark in the environment.
#[test]
fn a_gate_of_the_same_repo_is_recognised_by_what_started_it() {
    let sandbox = Sandbox::new();
    let script = format!(
        r#"#!/bin/sh
export HOME="{home}"
for words in verify "verify --fresh" "start more" "loop more --agent command:true" "trust --hash 00" \
    "init --yes --gate true" "state complete session-1 loop" "state init session-2 loop more" cancel pause reset
do
    echo "$ ralph $words"
    timeout 10 "{RALPH}" $words 2>&1
    echo "code $?"
done > ../said
"#,
        home = sandbox.home().display()
    );
    sandbox.file("check.sh", &script);
    sandbox.file("ralph.yaml", &verify_list(&["sh check.sh"]));
    sandbox.trust();
    Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    sandbox.ralph(&["verify"]).success();
    let said = fs::read_to_string(sandbox.path("../said")).expect("the gate ran");
    let asked: Vec<&str> = said.split("$ ralph ").skip(1).collect();
    assert_eq!(asked.len(), 11, "{said}");
    for part in asked {
        assert!(part.contains("gate") && !part.contains("code 0") && !part.contains("code 124"), "{part}");
    }
    let status = sandbox.status();
    let open = status["loops"].as_array().expect("loops").iter().filter(|it| it["id"] != "verify");
    assert_eq!(
        open.map(|it| it["state"]["status"]["status"].clone()).collect::<Vec<_>>(),
        [json!("running")]
    );
}

/// Gates that ran before, and an agent that runs now: the same process, but no gate is an ancestor of the agent.
#[test]
fn an_agent_of_a_driver_that_has_run_gates_is_not_taken_for_a_gate() {
    let sandbox = Sandbox::gated(GATE);
    let agent = format!(
        "command:cat > /dev/null; {RALPH} verify >> ../said 2>&1; echo code $? >> ../said; test -e once && : > done.txt; : > once"
    );
    sandbox.ralph(&["loop", "fix it", "--agent", &agent]).success();
    let said = fs::read_to_string(sandbox.path("../said")).expect("the agent ran");
    assert_eq!(said.lines().filter(|line| *line == "code 1").count(), 2, "{said}");
}

#[test]
fn the_client_of_a_loop_is_recorded_so_that_it_can_be_recognised() {
    let sandbox = Sandbox::gated(GATE);
    Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let client = &sandbox.state()["client"];
    assert_eq!(client["process"], sandbox.client().process());
    assert!(client["started"].as_u64().is_some_and(|ticks| ticks > 0), "{client}");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    assert_eq!(client["boot"], boot.trim());
    let namespace = fs::metadata("/proc/self/ns/pid").expect("a namespace").ino();
    assert_eq!(client["pid_namespace"], namespace);
}

#[test]
fn a_client_that_does_not_name_its_process_is_found_above_the_shells() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::new(&sandbox);
    let more = json!({
        "expansion_type": "slash_command",
        "command_name": "ralph-loop",
        "command_args": "\"fix it\" --completion-promise DONE",
        "prompt": "/ralph-loop \"fix it\" --completion-promise DONE",
    });
    // The stand-in client is a shell, so the first other process is this test.
    talk.event_with("UserPromptExpansion", &more).answer_without_client_pid();
    assert_eq!(sandbox.state()["client"]["process"], std::process::id());
}

/// Everything that only the user may do, as a descendant of the loop's client and without any of its variables.
#[test]
fn an_agents_shell_without_the_clients_variables_is_refused_by_its_ancestors() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let process = format!("(process {})", sandbox.client().process());
    for words in [
        &["ralph", "cancel"][..],
        &["ralph", "pause"],
        &["ralph", "reset"],
        &["ralph", "state", "fail", "session-1", "loop", "no"],
        &["ralph", "state", "delete", "session-1", "loop"],
        &["ralph", "init", "--uninstall"],
        &["ralph", "init", "--yes", "--gate", "true"],
        &["ralph", "trust", "--revoke"],
        &["ralph", "trust", "--hash", "00"],
        &["ralph", "trust"],
    ] {
        let ran = sandbox.in_agents_shell(words).exits(3);
        ran.says("refused: this shell was started by").says(&process).says("open a new terminal");
    }
    sandbox.in_agents_shell(&["ralph", "trust", "--show"]).success();
    sandbox.in_agents_shell(&["ralph", "status"]).success();
    talk.agent_works_with("Bash").stops("Done.").blocked();
    sandbox.ralph(&["pause"]).success();
    sandbox.in_agents_shell(&["ralph", "resume"]).exits(3).says(&process);
    sandbox.ralph(&["cancel"]).success().says("Cancelled");
}

#[test]
fn a_terminal_of_its_own_does_not_make_an_agents_shell_the_users() {
    let sandbox = Sandbox::gated(GATE);
    Session::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    let on_terminal = misbehave("on-terminal");
    for verb in ["trust", "cancel", "verify"] {
        let line = format!("(sleep 0.3; echo y; sleep 0.3) | env -u CLAUDECODE {on_terminal} {RALPH} {verb}");
        let said = sandbox.in_agents_shell(&["sh", "-c", &line]).stdout;
        if verb != "verify" {
            assert!(said.contains("refused: this shell was started by"), "{verb}: {said}");
        }
    }
    let status = sandbox.status();
    assert_eq!(status["accepted"].as_array().map(Vec::len), Some(1), "{status:#}");
    assert_eq!(sandbox.state()["status"]["status"], "running");
}

#[test]
fn the_client_of_a_guarded_session_is_recognised_too() {
    let sandbox = Sandbox::gated("guard: [session]\nverify: ['test ! -e broken']\n");
    let talk = Session::new(&sandbox);
    talk.user_says("make it faster").silent();
    talk.agent_writes("broken", "x");
    talk.agent_stops().blocked();
    let process = format!("(process {})", sandbox.client().process());
    sandbox.in_agents_shell(&["ralph", "pause"]).exits(3).says(&process);
    sandbox.in_agents_shell(&["ralph", "reset"]).exits(3).says(&process);
    talk.agent_stops().blocked();
    sandbox.ralph(&["pause"]).success();
}

#[test]
fn a_session_of_another_repo_does_not_refuse_the_user() {
    let (here, other) = (Sandbox::gated(GATE), Sandbox::gated(GATE));
    Session::looping(&here, "\"fix it\" --completion-promise DONE");
    Session::looping(&other, "\"fix it\" --completion-promise DONE");
    let cancel = other.command(&["cancel"]);
    assert_eq!(here.client().output(&cancel, b"").status.code(), Some(0));
}

/// Runs a command and tries to modify it once `running` exists; then continues it by `go`. The attacking shell is
/// its parent, which even a hardened kernel (Yama) allows to debug a process.
fn attack(user: &OrdinaryUser, words: &[&str]) -> Attacked {
    let script = r#"
input=$1; shift
"$@" < "$input" > ../stdout 2> ../stderr &
victim=$!
until test -e ../running || ! kill -0 $victim; do sleep 0.01; done
true 3<> /proc/$victim/mem && echo reached
stat -c 'owner %u' /proc/$victim/environ
if command -v gdb > /dev/null; then
    gdb -batch -nx -p $victim -ex 'call (void)_exit(0)' > ../gdb 2>&1
    case $(cat ../gdb) in *'exited normally'*) echo debugged ;; esac
fi
: > ../go
wait $victim
echo "code $?""#;
    for name in ["running", "go"] {
        let _none_yet = fs::remove_file(user.sandbox.path("..").join(name));
    }
    let input = user.sandbox.path("../input");
    fs::write(&input, user.sandbox.stop("check").text()).expect("a file");
    let arguments = [&["-c", script, "sh", input.to_str().expect("UTF-8")], words].concat();
    let output = user.command("sh", &arguments).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| panic!("{words:?}: {output:?}"))
    };
    Attacked {
        reached: said.contains("reached"),
        debugged: said.contains("debugged"),
        owner: number("owner"),
        code: number("code"),
    }
}

/// The result of an attack on a process.
#[derive(Debug, PartialEq, Eq)]
struct Attacked {
    /// Its memory could be opened for writing.
    reached: bool,
    /// gdb, where there is one, made it exit with 0.
    debugged: bool,
    /// The owner of its files in `/proc`: root, once it is protected.
    owner: u32,
    code: u32,
}

/// Marks that it runs, and waits for the attack to end.
const WAITS: &str = ": > ../running; while ! test -e ../go; do sleep 0.02; done";

#[test]
fn no_process_of_the_same_user_can_modify_a_judging_process() {
    let config = verify_list(&[WAITS]);
    let user = OrdinaryUser::of(Sandbox::gated(&config));
    let own = user.uid();
    let plain = attack(&user, &["sh", "-c", &format!("{WAITS}; exit 7")]);
    assert_eq!(plain.owner, own, "without the shield the files are the user's own: {plain:?}");
    assert_eq!(plain.debugged, plain.code == 0, "a successful gdb is detected: {plain:?}");
    for words in [&["verify"][..], &["hook", "claude"]] {
        // Another user, so that no receipt exists.
        let user = OrdinaryUser::of(Sandbox::gated(&config));
        let attacked = attack(&user, &[&[user.program().as_str()], words].concat());
        assert_eq!(attacked, Attacked { reached: false, debugged: false, owner: 0, code: 0 }, "{words:?}");
    }
    // The agent does nothing and the gate fails: no attack makes the loop verified.
    let user = OrdinaryUser::of(Sandbox::gated("verify: ['test -f done.txt']\n"));
    let agent = format!("command:cat > /dev/null; {WAITS}");
    let attacked =
        attack(&user, &[&user.program(), "loop", "fix it", "--max-iterations", "1", "--agent", &agent]);
    assert_eq!(attacked, Attacked { reached: false, debugged: false, owner: 0, code: 1 });
}

/// Leftovers of an agent are found by the mark in its environment, which has to be readable.
#[test]
fn a_verify_inside_an_agents_run_can_still_be_found_by_its_mark() {
    let user = OrdinaryUser::of(Sandbox::gated(&verify_list(&[WAITS])));
    let agent = format!(
        "command:cat > /dev/null; {} verify > /dev/null 2>&1 & victim=$!; \
         until test -e ../running || ! kill -0 $victim; do sleep 0.01; done; \
         stat -c %u /proc/$victim/environ > ../owner; : > ../go; wait",
        user.program()
    );
    let words = ["loop", "fix it", "--max-iterations", "1", "--no-baseline", "--agent", &agent];
    let output = user.command(&user.program(), &words).output().expect("the driver");
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let owner = fs::read_to_string(user.sandbox.path("../owner")).expect("it was looked at");
    let own = user.uid();
    assert_eq!(owner.trim(), own.to_string());
}
