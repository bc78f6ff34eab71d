//! Every agent and skill of the plugin, and its help, as the real client loads and runs them. Its other commands are
//! tested
//! in [`crate::loops`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use ralph_testkit::{Claude, Lane, Sandbox, Script, Turn};
use serde_json::{Value, json};

use crate::session::{ClaudeSession, bash, gate_runs, life_of, verdicts, verdicts_of};

const START: &str = "/ralph:ralph-loop \"make the file\" --completion-promise DONE";
const LOOP: &str = "make-the-file";
const BLOCKED: &str = "blocked gates_failed";
const VERIFIED: &str = "verified all_gates_passed";

/// The agents of the plugin, and a line of each that its model must have received.
const AGENTS: [(&str, &str); 6] = [
    ("ralph-coder", "You write the code."),
    ("ralph-tester", "You find out whether the change works."),
    ("ralph-reviewer", "You review the change as its future maintainer."),
    ("ralph-debugger", "You find the cause; ralph-coder fixes it."),
    ("ralph-auditor", "You audit the work as somebody who did not write it."),
    ("check", "Review the changes against the request."),
];
const SKILLS: [&str; 2] = ["ralph-audit", "ralph-iterate"];
/// All but the last are tested in [`crate::loops`].
const COMMANDS: [&str; 4] = ["ralph-loop", "cancel-ralph", "ralph-status", "ralph-help"];

fn unfinished() -> Sandbox {
    Sandbox::gated("verify:\n  - printf x >> ../canary; test -e done.txt\n")
}

fn session<'a>(claude: &Claude, sandbox: &'a Sandbox) -> ClaudeSession<'a> {
    ClaudeSession::new(claude, sandbox).with_our_plugin()
}

/// The main agent's call of an agent of the plugin.
fn call(name: &str) -> Turn {
    Turn::agent(format!("ralph:{name}"), format!("PART-OF-{name}"), false)
}

/// The turns of that agent; a request without the plugin's own text matches no lane.
fn part_of(name: &str, turns: Vec<Turn>) -> Lane {
    let (_, words) = AGENTS.iter().find(|(agent, _)| *agent == name).expect("an agent of the plugin");
    Lane::new(name)
        .when_first_user_contains(format!("PART-OF-{name}"))
        .when_system_contains(*words)
        .turns(turns)
}

/// The names in a folder of the plugin, without file extensions.
fn in_plugin(folder: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin").join(folder);
    let entries = fs::read_dir(&folder).expect("a folder of the plugin");
    let stem = |entry: fs::DirEntry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned();
    entries.map(|entry| stem(entry.expect("an entry"))).collect()
}

#[test]
fn the_plugin_contains_exactly_what_these_tests_cover() {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(in_plugin("agents"), named(&AGENTS.map(|(name, _)| name)));
    assert_eq!(in_plugin("skills"), named(&SKILLS));
    assert_eq!(in_plugin("commands"), named(&COMMANDS));
}

#[test]
fn every_agent_of_the_plugin_works_and_its_report_is_read() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let says = |words: &str| vec![Turn::say(words)];
    let script = Script::new()
        .lane(part_of("ralph-coder", says("I wrote it.\n\nCODE: DONE")))
        .lane(part_of("ralph-tester", says("0 passed.\n\nTESTS: FAIL - no file")))
        .lane(part_of("ralph-debugger", says("Nobody made the file.\n\n**DIAGNOSIS: DONE**")))
        .lane(part_of("ralph-reviewer", says("I cannot approve this.\n\nREVIEW: REJECT")))
        .lane(part_of("ralph-auditor", says("Nothing blocks.\n\nAUDIT: PASS")))
        .lane(part_of(
            "check",
            vec![
                Turn::say("It looks good."),
                bash("touch done.txt").expecting("gate `printf x >> ../canary; test -e done.txt` failed"),
                Turn::say("I made the file."),
            ],
        ))
        .main(vec![
            call("ralph-coder"),
            call("ralph-tester").expecting("CODE: DONE"),
            Turn::say("The tests fail.").expecting("TESTS: FAIL"),
            call("ralph-debugger").expecting("the debugger (ralph-debugger) finds the cause next"),
            call("ralph-reviewer").expecting("DIAGNOSIS: DONE"),
            Turn::say("It was rejected.").expecting("REVIEW: REJECT"),
            call("check").expecting("The reviewer rejected it: the developer (ralph-coder) fixes that next."),
            call("ralph-auditor").expecting("I made the file."),
            Turn::say("Now it is there.\n\n<promise>DONE</promise>").expecting("AUDIT: PASS"),
        ]);
    let seen = session(&claude, &sandbox).prompt(START).play(script);
    let rounds: [&[&str]; 4] = [
        &["began", "bound"],
        &[
            "agent_called ralph-coder",
            "agent_finished ralph-coder",
            "agent_called ralph-tester",
            "agent_finished ralph-tester",
            BLOCKED,
        ],
        &[
            "agent_called ralph-debugger",
            "agent_finished ralph-debugger",
            "agent_called ralph-reviewer",
            "agent_finished ralph-reviewer",
            BLOCKED,
        ],
        &[
            "agent_called check",
            "agent_finished check",
            "agent_called ralph-auditor",
            "agent_finished ralph-auditor",
            VERIFIED,
        ],
    ];
    assert_eq!(life_of(&sandbox, LOOP), rounds.concat(), "{seen}");
    let finished = sandbox.events_named("agent_finished");
    let reports: Vec<&Value> = finished.iter().map(|event| &event["report"]).collect();
    assert_eq!(
        reports,
        [&json!("done"), &json!("fail"), &json!("diagnosis"), &json!("reject"), &Value::Null, &Value::Null],
        "{seen}"
    );
    // The checking agent has a loop of its own.
    assert_eq!(verdicts(&sandbox), [BLOCKED, "passing all_gates_passed"], "{seen}");
    assert!(seen.user_saw(&["Loop done, verified"]), "{seen}");
}

/// The skill is a fork: an agent of its own, which calls others.
#[test]
fn the_iterate_skill_leads_a_coder_and_a_tester_until_the_gates_pass() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let leader =
        Lane::new("leader").when_first_user_contains("You are the leader: you split the task").turns(vec![
            call("ralph-coder").expecting("Task: make the file, and \"quote\" it"),
            call("ralph-tester").expecting("CODE: DONE"),
            bash("ralph verify; echo exit code $?").expecting("TESTS: PASS"),
            Turn::say("One round.\n\nVERIFIED_DONE").expecting("exit code 0"),
        ]);
    let script = Script::new()
        .lane(leader)
        .lane(part_of("ralph-coder", vec![bash("touch done.txt"), Turn::say("I wrote it.\n\nCODE: DONE")]))
        .lane(part_of("ralph-tester", vec![Turn::say("1 passed.\n\nTESTS: PASS")]));
    let seen = session(&claude, &sandbox)
        .prompt("/ralph:ralph-iterate make the file, and \"quote\" it")
        .play(script);
    assert_eq!(seen.served.lane("leader").len(), 4, "{seen}");
    assert!(seen.output.results().concat().contains("VERIFIED_DONE"), "{seen}");
    assert_eq!(verdicts_of(&sandbox, "verify"), [VERIFIED], "{seen}");
    assert_eq!(verdicts_of(&sandbox, LOOP), [VERIFIED], "{seen}");
    // The coder's stop, the leader's own check, the leader's stop; then once as it is and once without the change.
    assert_eq!(gate_runs(&sandbox), 5);
}

/// By the user's command, and by the agent's own choice.
#[test]
fn the_audit_skill_writes_the_report() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let allowed = json!({"permissions": {"allow": ["Skill(ralph:ralph-audit)"]}});
    sandbox.file(".claude/settings.local.json", &allowed.to_string());
    let report = |decision: &str| {
        let file = sandbox.path("docs/AUDIT-REPORT.md");
        let content = format!("# Audit Report\n\nDecision: {decision}\n");
        Turn::tool("Write", json!({"file_path": file, "content": content}))
    };
    let audit = "Review the current work and write down what you find.";
    let seen = session(&claude, &sandbox)
        .prompt("/ralph:ralph-audit the door")
        .then_prompt("And what do you say now?")
        .play(Script::new().main(vec![
            report("FAIL").expecting(audit).expecting("the door"),
            Turn::say("It is not there yet.").expecting("docs/AUDIT-REPORT.md"),
            Turn::tool("Skill", json!({"skill": "ralph:ralph-audit"})).expecting("And what do you say now?"),
            bash("cat docs/AUDIT-REPORT.md").expecting(audit),
            Turn::say("As I said.").expecting("Decision: FAIL"),
        ]));
    assert_eq!(sandbox.read("docs/AUDIT-REPORT.md"), "# Audit Report\n\nDecision: FAIL\n", "{seen}");
    assert_eq!(seen.requests_of_session(), 5, "{seen}");
}

#[test]
fn the_help_is_answered_without_the_model_and_starts_nothing() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox).prompt("/ralph:ralph-help").play(Script::new());
    let help = seen.output.results().concat();
    assert!(
        help.contains("/ralph:ralph-loop TASK [OPTIONS]") && help.contains("/ralph:cancel-ralph"),
        "{seen}"
    );
    assert_eq!(seen.requests_of_session(), 0, "{seen}");
    assert_eq!(sandbox.events(), Vec::<Value>::new());
    assert_eq!(gate_runs(&sandbox), 0);
}
