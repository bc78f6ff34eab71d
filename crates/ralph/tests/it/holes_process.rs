//! Holes in the process: what the code under test can learn of ralph, what an agent's shell can do once it has hidden
//! its environment, and which processes can change the one that gives the verdict.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::conversation::Conversation;
use crate::support::{RALPH, Sandbox, search_path, verify_list};
use crate::talk::Talk;

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
fn a_gate_is_not_told_that_ralph_runs_it() {
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
fn the_users_own_settings_of_ralph_and_systemd_do_not_change_what_a_receipt_stands_for() {
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

/// Each command with what it has to say, from a gate of the same repo and without any mark in the environment.
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
    Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
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

/// Gates that ran before, and an agent that runs now: the same process, but no gate is above the agent.
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
    Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
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
    let talk = Talk::new(&sandbox, "session-1");
    let more = json!({
        "expansion_type": "slash_command",
        "command_name": "ralph-loop",
        "command_args": "\"fix it\" --completion-promise DONE",
        "prompt": "/ralph-loop \"fix it\" --completion-promise DONE",
    });
    // The stand-in client is a shell, so the first other process is this test.
    talk.event("UserPromptExpansion", &more).answer_without_client_pid();
    assert_eq!(sandbox.state()["client"]["process"], std::process::id());
}

/// Everything that only the user may do, from below the client of a loop and without any of its variables.
#[test]
fn an_agents_shell_without_the_clients_variables_is_refused_by_its_ancestors() {
    let sandbox = Sandbox::gated(GATE);
    let talk = Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
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
    talk.uses("Bash").stops("Done.").held();
    sandbox.ralph(&["pause"]).success();
    sandbox.in_agents_shell(&["ralph", "resume"]).exits(3).says(&process);
    sandbox.ralph(&["cancel"]).success().says("Cancelled");
}

#[test]
fn a_terminal_of_its_own_does_not_make_an_agents_shell_the_users() {
    let sandbox = Sandbox::gated(GATE);
    Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    sandbox.file("ralph.yaml", "verify: ['true']\n");
    for verb in ["trust", "cancel", "verify"] {
        let line = format!(
            "(sleep 0.3; echo y; sleep 0.3) | env -u CLAUDECODE script -qec '{RALPH} {verb}' /dev/null"
        );
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
    let talk = Conversation::new(&sandbox);
    talk.person_says("make it faster").silent();
    talk.agent_writes("broken", "x");
    talk.agent_stops().held();
    let process = format!("(process {})", sandbox.client().process());
    sandbox.in_agents_shell(&["ralph", "pause"]).exits(3).says(&process);
    sandbox.in_agents_shell(&["ralph", "reset"]).exits(3).says(&process);
    talk.agent_stops().held();
    sandbox.ralph(&["pause"]).success();
}

/// A sandbox with its own process numbers, in which no process outside is visible. Where this machine allows none, the unit
/// tests of `ancestry` still cover the rules.
#[test]
fn a_sandbox_of_the_client_is_refused_and_the_user_outside_is_not() {
    const SANDBOX: [&str; 5] = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let sandbox = Sandbox::gated(GATE);
    if sandbox.in_agents_shell(&[&SANDBOX[..], &["true"]].concat()).code != Some(0) {
        return;
    }
    Talk::looping(&sandbox, "\"fix it\" --completion-promise DONE");
    let process = format!("(process {})", sandbox.client().process());
    let refused = sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "cancel"]].concat()).exits(3);
    refused.says("may be an agent's sandbox").says(&process).says("only you can cancel a loop");
    sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "status"]].concat()).success();
    // With the numbers of the outside still to be seen, the client is found among the ancestors.
    let refused = sandbox.in_agents_shell(&[&SANDBOX[..4], &[RALPH, "cancel"]].concat()).exits(3);
    refused.says("was started by").says(&process);
    sandbox.ralph(&["cancel"]).success().says("Cancelled");
    // With no loop there is no client to be a sandbox of.
    sandbox.in_agents_shell(&[&SANDBOX[..], &[RALPH, "pause"]].concat()).success();
}

#[test]
fn a_session_of_another_repo_does_not_refuse_the_user() {
    let (here, other) = (Sandbox::gated(GATE), Sandbox::gated(GATE));
    Talk::looping(&here, "\"fix it\" --completion-promise DONE");
    Talk::looping(&other, "\"fix it\" --completion-promise DONE");
    let cancel = other.command(&["cancel"]);
    assert_eq!(here.client().output(&cancel, b"").status.code(), Some(0));
}

/// A user who is not root, with a home and a repo of its own.
struct OrdinaryUser {
    sandbox: Sandbox,
    /// Set when the tests run as root and have to switch to another user.
    uid: Option<u32>,
}

impl OrdinaryUser {
    const NOBODY: u32 = 65534;

    fn new(config: &str) -> Self {
        let sandbox = Sandbox::gated(config);
        let uid = rustix::process::geteuid().is_root().then_some(Self::NOBODY);
        if let Some(uid) = uid {
            let top = sandbox.home().parent().expect("the sandbox").to_owned();
            give_away(&top, uid);
            // By another process: a program that is open for writing here could be inherited by whatever another test starts
            // at that moment, and could not be run ("text file busy").
            let copied = Command::new("cp").arg(RALPH).arg(top.join("ralph")).status();
            assert!(copied.expect("cp").success(), "a copy that every user can read");
        }
        Self { sandbox, uid }
    }

    fn program(&self) -> String {
        match self.uid {
            Some(_) => self.sandbox.path("../ralph").to_str().expect("UTF-8").to_owned(),
            None => RALPH.to_owned(),
        }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", search_path()).env("HOME", self.sandbox.home());
        command.current_dir(self.sandbox.project()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Runs a command and tries to reach into it once `running` is there; then lets it go on by `go`. The shell that tries is
    /// its parent, which is what a hardened kernel (Yama) still lets debug another.
    fn attacks(&self, words: &[&str]) -> Attacked {
        let script = r#"
input=$1; shift
"$@" < "$input" > ../stdout 2> ../stderr &
victim=$!
until test -e ../running || ! kill -0 $victim; do sleep 0.01; done
true 3<> /proc/$victim/mem && echo reached
stat -c 'owner %u' /proc/$victim/environ
if command -v gdb > /dev/null; then
    gdb -batch -nx -p $victim -ex 'call (void)_exit(0)' 2>&1 | grep -q 'exited normally' && echo debugged
fi
: > ../go
wait $victim
echo "code $?""#;
        for name in ["running", "go"] {
            let _none_yet = fs::remove_file(self.sandbox.path("..").join(name));
        }
        let input = self.sandbox.path("../input");
        fs::write(&input, self.sandbox.stop("check").text()).expect("a file");
        let arguments = [&["-c", script, "sh", input.to_str().expect("UTF-8")], words].concat();
        let output = self.command("sh", &arguments).output().expect("a shell");
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
}

/// What came of trying to reach into a process.
#[derive(Debug, PartialEq, Eq)]
struct Attacked {
    /// Its memory could be opened for writing.
    reached: bool,
    /// gdb, where there is one, made it exit with 0.
    debugged: bool,
    /// Whose its files in `/proc` are: root's, once it is shielded.
    owner: u32,
    code: u32,
}

fn give_away(path: &Path, uid: u32) {
    chown(path, Some(uid), Some(uid)).expect("its owner is changed");
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("every user may read it");
        for entry in fs::read_dir(path).expect("a folder") {
            give_away(&entry.expect("an entry").path(), uid);
        }
    }
}

/// What marks that it runs, and waits for the attack to be over.
const WAITS: &str = ": > ../running; while ! test -e ../go; do sleep 0.02; done";

#[test]
fn no_process_of_the_same_user_reaches_into_one_that_gives_a_verdict() {
    let config = verify_list(&[WAITS]);
    let user = OrdinaryUser::new(&config);
    let own = user.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let plain = user.attacks(&["sh", "-c", &format!("{WAITS}; exit 7")]);
    assert_eq!(plain.owner, own, "without the shield the files are the user's own: {plain:?}");
    assert_eq!(plain.debugged, plain.code == 0, "a successful gdb is detected: {plain:?}");
    for words in [&["verify"][..], &["hook", "claude"]] {
        // Another user, so that no receipt is there.
        let user = OrdinaryUser::new(&config);
        let attacked = user.attacks(&[&[user.program().as_str()], words].concat());
        assert_eq!(attacked, Attacked { reached: false, debugged: false, owner: 0, code: 0 }, "{words:?}");
    }
    // The agent does nothing and the gate fails: whatever is tried, the loop is not verified.
    let user = OrdinaryUser::new("verify: ['test -f done.txt']\n");
    let agent = format!("command:cat > /dev/null; {WAITS}");
    let attacked =
        user.attacks(&[&user.program(), "loop", "fix it", "--max-iterations", "1", "--agent", &agent]);
    assert_eq!(attacked, Attacked { reached: false, debugged: false, owner: 0, code: 1 });
}

/// What an agent leaves behind is found by the mark in its environment, which has to be readable.
#[test]
fn a_verify_inside_an_agents_run_can_still_be_found_by_its_mark() {
    let user = OrdinaryUser::new(&verify_list(&[WAITS]));
    let agent = format!(
        "command:cat > /dev/null; {} verify > /dev/null 2>&1 & until test -e ../running || ! kill -0 $victim; do sleep 0.01; done; \
         stat -c %u /proc/$!/environ > ../owner; : > ../go; wait",
        user.program()
    );
    let words = ["loop", "fix it", "--max-iterations", "1", "--agent", &agent];
    let output = user.command(&user.program(), &words).output().expect("the driver");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let owner = fs::read_to_string(user.sandbox.path("../owner")).expect("it was looked at");
    let own = user.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    assert_eq!(owner.trim(), own.to_string());
}
