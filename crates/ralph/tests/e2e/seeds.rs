//! The five source documents with the real client: their commands as pasted, their valves, their rounds.

use ralph_testkit::{Claude, Lane, Sandbox, Script, Turn};
use serde_json::json;

use crate::session::{ClaudeSession, Runs, bash, life_of, one_sub_agent, verdicts_of};

const BLOCKED: &str = "blocked gates_failed";
const VERIFIED: &str = "verified all_gates_passed";
const PASSING: &str = "passing all_gates_passed";

fn unfinished() -> Sandbox {
    Sandbox::gated("verify:\n  - test -e done.txt\n")
}

fn session<'a>(claude: &Claude, sandbox: &'a Sandbox) -> ClaudeSession<'a> {
    ClaudeSession::new(claude, sandbox).with_our_plugin()
}

/// A stand-in for `pnpm` that fails where there is a file `fails-SCRIPT`.
const PNPM: &str = "test ! -e \"fails-$1\"";

/// cc-workflow's example configuration, from its code block.
const IDEAL: &str = "# .ideal/worktree.yaml\nverify:\n  - pnpm lint\n  - pnpm typecheck\n  - pnpm test\n";

/// Trellis's.
const TRELLIS: &str = "verify:\n  - pnpm lint\n  - pnpm typecheck\n  # - pnpm test\n  # - pnpm build\n";

#[test]
fn the_check_agent_of_cc_workflow_and_trellis_is_blocked_by_their_example_commands() {
    let claude = Claude::for_test();
    for (mut sandbox, state_file) in [
        (Sandbox::ideal(IDEAL), ".ideal/.verify-state.json"),
        (Sandbox::trellis(TRELLIS), ".trellis/.ralph-state.json"),
    ] {
        sandbox.program("pnpm", PNPM);
        sandbox.file("fails-typecheck", "");
        let turns = vec![
            Turn::say("All checks pass."),
            bash(&format!("cp {state_file} ../state.json && rm fails-typecheck")).expecting("pnpm typecheck"),
            Turn::say("Now they do."),
        ];
        let seen = ClaudeSession::new(&claude, &sandbox).with_programs_of_sandbox().play(one_sub_agent(
            "check",
            Runs::InForeground,
            turns,
            Turn::say("It is done."),
        ));
        assert_eq!(verdicts_of(&sandbox, "check-"), [BLOCKED, PASSING], "{seen}");
        let state = std::fs::read_to_string(sandbox.path("../state.json")).expect("the state file was there");
        assert!(state.contains("\"iteration\": 1"), "{state}");
        assert!(!sandbox.exists(state_file), "{seen}");
    }
}

/// zenithjoy-engine's first start command, from its code block.
const PRE_PR: &str = "/ralph:ralph-loop \"实现 <功能描述>，完成质检并创建 PR 后输出 <promise>QUALITY_GATE_PASSED</promise>\" \\\n    \
                      --completion-promise \"QUALITY_GATE_PASSED\"\n    # 不设置 --max-iterations = 无限循环";

/// Its second one.
const AFTER_PR: &str = "/ralph:ralph-loop \"修复 PR #<number> 的 CI 失败，CI 通过并合并后输出 <promise>CI_PASSED</promise>\" \\\n    \
                        --completion-promise \"CI_PASSED\"\n    # 不设置 --max-iterations = 无限循环";

#[test]
fn both_start_commands_of_zenithjoy_engine_are_read_as_pasted_and_without_a_forge_never_end_verified() {
    let claude = Claude::for_test();
    for (command, promise) in [(PRE_PR, "QUALITY_GATE_PASSED"), (AFTER_PR, "CI_PASSED")] {
        let sandbox = unfinished();
        // With a forge: `tests/ship/session.rs`.
        let command = command.replace("ralph-loop ", "ralph-loop --until verified ");
        let seen = session(&claude, &sandbox).prompt(&command).play(Script::new().main(vec![
            Turn::say("Looking."),
            bash("touch done.txt").expecting("test -e done.txt"),
            Turn::say(format!("Finished.\n\n<promise>{promise}</promise>")),
        ]));
        assert!(seen.user_saw(&[promise, "pull request", "cannot end verified"]), "{seen}");
        let state = sandbox.state();
        assert_eq!(state["goal"]["promise"], promise, "{seen}");
        assert_eq!(state["status"], json!({"status": "ended", "verdict": "claimed"}), "{seen}");
        assert!(!state["goal"]["task"].as_str().expect("a task").contains("--max-iterations"), "{seen}");
    }
}

#[test]
fn the_cap_of_claude_workflow_pauses_an_agent_that_works_alone() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    sandbox.file("openspec/changes/add-login/tasks.md", "## 1. Phase (sequential)\n\n- [ ] 1.1 Task\n");
    let work = |n: u32| bash(&format!("echo {n} > work.txt"));
    let seen = session(&claude, &sandbox)
        .env("RALPH_LANG", "zh-TW")
        .prompt("/ralph:ralph-loop --openspec add-login --max-iterations 3")
        .then_prompt("暫停")
        .then_prompt("繼續")
        .play(Script::new().main(vec![
                work(1),
                Turn::say("還沒。"),
                work(2).expecting("Next task: 1.1 Task"),
                Turn::say("還沒。"),
                work(3),
                Turn::say("還沒。"),
                bash("touch done.txt; sed -i 's/\\[ \\]/[x]/' openspec/changes/add-login/tasks.md")
                    .expecting("Next task: 1.1 Task"),
                Turn::say("<promise>所有任務完成</promise>"),
            ]));
    assert!(seen.user_saw(&["已達最大迭代次數 (3)", "再執行 3 次迭代"]), "{seen}");
    assert!(seen.user_saw(&["迭代: #2 / 3"]), "{seen}");
    assert!(seen.output.results()[1].contains("Loop 已暫停"), "{seen}");
    assert_eq!(sandbox.state()["status"], json!({"status": "ended", "verdict": "verified"}), "{seen}");
}

#[test]
fn a_stuck_loop_is_resumed() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox)
        .prompt("/ralph:ralph-loop \"make the file\"")
        .then_prompt("continue")
        .play(Script::new().main(vec![
            Turn::say("I cannot."),
            Turn::say("I cannot."),
            Turn::say("I cannot."),
            bash("touch done.txt").expecting("make the file"),
            Turn::say("Now it is there."),
        ]));
    let life = life_of(&sandbox, "make-the-file");
    assert!(
        life.contains(&"stuck gates_failed".to_owned()) && life.contains(&"resumed".to_owned()),
        "{life:?}\n{seen}"
    );
    assert_eq!(life.last().map(String::as_str), Some(VERIFIED), "{seen}");
}

/// multi-agent-ralph-loop's `/loop`: the leader says that it is done while the gates are red, and a coder stops on red gates.
#[test]
fn rounds_are_a_loop_that_a_claim_on_red_gates_does_not_end() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let leader =
        Lane::new("leader").when_first_user_contains("You are the leader: you split the task").turns(vec![
            Turn::agent("ralph:ralph-tester", "PART-OF-tester", false),
            Turn::agent("ralph:ralph-coder", "PART-OF-coder", false),
            Turn::say("One round.\n\nVERIFIED_DONE"),
            bash("touch done.txt").expecting("test -e done.txt"),
            Turn::say("Two rounds.\n\nVERIFIED_DONE"),
        ]);
    let tester = Lane::new("tester")
        .when_first_user_contains("PART-OF-tester")
        .turns(vec![bash("echo x > notes.txt"), Turn::say("1 failed.\n\n**❌ FAIL**")]);
    let mut coding = vec![bash("echo 1 > code.txt")];
    coding.extend((0..5).map(|_| Turn::say("I wrote it.\n\nCODE: DONE")));
    let coder = Lane::new("coder").when_first_user_contains("PART-OF-coder").turns(coding);
    let seen = session(&claude, &sandbox)
        .prompt("/ralph:ralph-iterate make the file")
        .then_prompt("/ralph:ralph-status")
        .play(Script::new().lane(leader).lane(tester).lane(coder));
    let life = life_of(&sandbox, "make-the-file");
    assert_eq!(verdicts_of(&sandbox, "make-the-file"), [BLOCKED, VERIFIED], "{life:?}\n{seen}");
    let judged = sandbox.events_named("judged");
    assert_eq!(judged.iter().filter(|event| event["false_promise"] == true).count(), 1, "{seen}");
    // How the last loop ended is answered without the model.
    let status = seen.output.results().last().copied().unwrap_or_default();
    assert!(status.contains("Last loop: make the file") && status.contains("Guard: off"), "{status}\n{seen}");
    assert!(verdicts_of(&sandbox, "ralph-tester").is_empty(), "{seen}");
    assert_eq!(verdicts_of(&sandbox, "ralph-coder").first().map(String::as_str), Some(BLOCKED), "{seen}");
}

/// A hook of another system that blocks every stop once, and writes down that it ran.
const THEIRS: &str = "echo ran >> ../theirs.log; if [ ! -e ../theirs.once ]; then touch ../theirs.once; echo theirs >&2; exit 2; fi";

/// Each system's own hook, by the file names of its layout: the event, the command and where the script is.
const OTHER_HOOKS: [(&str, &str, &str, &str); 6] = [
    ("official-plugin", "Stop", "sh hooks/stop-hook.sh", "hooks/stop-hook.sh"),
    (
        "trellis",
        "SubagentStop",
        "sh \"$CLAUDE_PROJECT_DIR/.claude/hooks/ralph-loop.py\"",
        ".claude/hooks/ralph-loop.py",
    ),
    ("cc-workflow", "SubagentStop", "sh .claude/hooks/verify-loop.py", ".claude/hooks/verify-loop.py"),
    (
        "claude-workflow",
        "Stop",
        "sh skills/ralph-loop/hooks/stop-hook.sh",
        "skills/ralph-loop/hooks/stop-hook.sh",
    ),
    ("zenithjoy-engine", "Stop", "sh hooks/stop.sh", "hooks/stop.sh"),
    (
        "multi-agent-ralph-loop",
        "SubagentStop",
        "sh .claude/hooks/ralph-subagent-stop.sh",
        ".claude/hooks/ralph-subagent-stop.sh",
    ),
];

#[test]
fn after_init_from_a_system_a_check_agent_is_blocked_once_and_not_twice() {
    let claude = Claude::for_test();
    for (name, event, command, script) in OTHER_HOOKS {
        let sandbox = Sandbox::new();
        sandbox.file(script, THEIRS);
        let settings = json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}});
        sandbox.file(".claude/settings.json", &settings.to_string());
        let config = match name {
            "trellis" => Some((".trellis/worktree.yaml", ".trellis/.current-task")),
            "cc-workflow" => Some((".ideal/worktree.yaml", ".ideal/.current-task")),
            _ => None,
        };
        let mut words = vec!["init", "--yes", "--no-try", "--from", name];
        if let Some((config, task)) = config {
            sandbox.file(config, "verify:\n  - test -e done.txt\n");
            sandbox.file(task, "tasks/one\n");
            sandbox.trust();
        } else {
            words.extend(["--gate", "test -e done.txt", "--guard", "check"]);
        }
        sandbox.ralph(&words).success();
        let turns = vec![
            Turn::say("Done."),
            bash("touch done.txt").expecting("test -e done.txt"),
            Turn::say("Now it is done."),
        ];
        let seen = ClaudeSession::new(&claude, &sandbox).already_installed().play(one_sub_agent(
            "check",
            Runs::InForeground,
            turns,
            Turn::say("It is done."),
        ));
        assert_eq!(verdicts_of(&sandbox, "check-"), [BLOCKED, PASSING], "{name}: {seen}");
        assert!(!sandbox.path("../theirs.log").exists(), "{name}: its own hook ran: {seen}");
        let healthy = sandbox.ralph(&["doctor", "--json"]).json();
        assert_eq!(healthy["healthy"], true, "{name}: {healthy:#}");
    }
}
