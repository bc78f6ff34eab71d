//! The source systems, each with the configuration and commands of its document (quoted from its code blocks) and the layout of
//! its repository: they start, block and end with the real binary, and `ralph init --from` takes their own hooks out.

use std::fs;

use ralph_testkit::{Sandbox, Session};
use serde_json::{Value, json};

/// cc-workflow, "配置示例".
const IDEAL: &str = "# .ideal/worktree.yaml\nverify:\n  - pnpm lint\n  - pnpm typecheck\n  - pnpm test\n";

/// Trellis, "Configuration".
const TRELLIS: &str = "verify:\n  - pnpm lint\n  - pnpm typecheck\n  # - pnpm test\n  # - pnpm build\n";

/// A `pnpm` that logs its script and fails where there is a file of that name.
const PNPM: &str = "echo \"$1\" >> \"$HOME/pnpm.log\"; test ! -e \"fails-$1\"";

fn with_pnpm(mut sandbox: Sandbox) -> Sandbox {
    sandbox.program("pnpm", PNPM);
    sandbox
}

fn pnpm_ran(sandbox: &Sandbox) -> String {
    let log = sandbox.home().join("pnpm.log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let _gone = fs::remove_file(log);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn cc_workflow_its_example_runs_in_order_and_its_sentences_are_used() {
    let sandbox = with_pnpm(Sandbox::ideal(IDEAL));
    sandbox.file("fails-typecheck", "");
    let (reason, _) = sandbox.stop("check").answer().blocked();
    assert!(reason.contains("Verification failed (iteration 1)"), "{reason}");
    assert_eq!(pnpm_ran(&sandbox), "lint typecheck");
    let state: Value = serde_json::from_str(&sandbox.read(".ideal/.verify-state.json")).expect("JSON");
    assert_eq!(state["iteration"], 1);
    sandbox.remove("fails-typecheck");
    let told = sandbox.stop("check").answer().allowed().expect("a message");
    assert!(told.contains("All verify commands passed"), "{told}");
    assert_eq!(pnpm_ran(&sandbox), "lint typecheck test");
    assert!(!sandbox.exists(".ideal/.verify-state.json"));
    sandbox.stop("implement").answer().silent();
    assert_eq!(pnpm_ran(&sandbox), "");
}

#[test]
fn trellis_its_example_its_state_file_and_its_debugging_commands() {
    let sandbox = with_pnpm(Sandbox::trellis(TRELLIS));
    sandbox.file("fails-lint", "");
    for iteration in [1, 2] {
        let (reason, _) = sandbox.stop("check").answer().blocked();
        assert!(reason.contains("Verification failed"), "{reason}");
        // cat .trellis/.ralph-state.json
        let state: Value = serde_json::from_str(&sandbox.read(".trellis/.ralph-state.json")).expect("JSON");
        assert_eq!(state["iteration"], iteration);
    }
    assert_eq!(pnpm_ran(&sandbox), "lint lint");
    // rm .trellis/.ralph-state.json
    sandbox.remove(".trellis/.ralph-state.json");
    sandbox.stop("check").answer().blocked();
    let state: Value = serde_json::from_str(&sandbox.read(".trellis/.ralph-state.json")).expect("JSON");
    assert_eq!(state["iteration"], 1);
    sandbox.remove("fails-lint");
    let told = sandbox.stop("check").answer().allowed().expect("a message");
    assert!(told.contains("Verification passed"), "{told}");
    assert_eq!(pnpm_ran(&sandbox), "lint lint typecheck");
}

#[test]
fn in_foreign_files_our_keys_work_under_ralph_and_are_refused_elsewhere() {
    for (make, file) in [
        (Sandbox::trellis as fn(&str) -> Sandbox, ".trellis/worktree.yaml"),
        (Sandbox::ideal, ".ideal/worktree.yaml"),
    ] {
        let sandbox = make("verify: ['false']\nralph: { guard: [worker], budget: { attempts: 2 } }\n");
        sandbox.stop("check").answer().silent();
        sandbox.stop("worker").answer().blocked();
        sandbox.stop("worker").answer().allowed().expect("at the limit");
        let asked = sandbox.ralph(&["init", "--yes", "--guard", "session"]).exits(2);
        assert!(
            asked.stderr.contains("`ralph: { guard: [session] }`") && asked.stderr.contains(file),
            "{asked:#?}"
        );
        sandbox.file(file, "verify: ['false']\nguard: [worker]\n");
        let refused = sandbox.ralph(&["trust", "--show"]);
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains("under `ralph:`") && told.contains(file), "{told}");
    }
}

/// claude-workflow, "恢復機制" and its valves.
#[test]
fn claude_workflow_its_words_pause_and_resume_and_its_command_does() {
    let mut sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.set("RALPH_LANG", "zh-TW");
    sandbox.file(
        "openspec/changes/add-login/tasks.md",
        "## 1. Phase (sequential)\n\n- [x] 1.1 a\n- [ ] 1.2 b\n",
    );
    let talk = Session::looping(&sandbox, "--openspec add-login");
    for word in ["暫停", "停", "中斷"] {
        assert!(talk.user_says(word).shown_to_user().contains("Loop 已暫停"), "{word}");
        assert!(talk.user_says("持續執行").context().contains("Next task: 1.2 b"), "{word}");
    }
    talk.user_says("暫停");
    assert!(talk.command("ralph-loop", "--openspec add-login").context().contains("Next task: 1.2 b"));
    for (agent, message, next) in [
        ("reviewer", "Missing tests.\n\n### Verdict: ❌ REJECTED", "developer"),
        ("tester", "2 of 7.\n\n**❌ FAIL**", "debugger"),
        ("reviewer", "REJECT", "developer"),
        ("tester", "FAIL", "debugger"),
    ] {
        talk.agent("SubagentStop", 1, agent, message).answer().silent();
        let (_, detail) = talk.agent_works_with("Agent").stops("還沒。").blocked();
        assert!(detail.contains(next), "{agent}: {detail}");
        assert_eq!(talk.state()["errors"], 0);
    }
}

/// zenithjoy-engine, every command block of its document: what follows `/ralph-loop`.
const COMMANDS: [(&str, &str); 6] = [
    (
        "\"实现 <功能描述>，完成质检并创建 PR 后输出 <promise>QUALITY_GATE_PASSED</promise>\" \\\n    --completion-promise \"QUALITY_GATE_PASSED\"\n    # 不设置 --max-iterations = 无限循环",
        "QUALITY_GATE_PASSED",
    ),
    (
        "\"修复 PR #<number> 的 CI 失败，CI 通过并合并后输出 <promise>CI_PASSED</promise>\" \\\n    --completion-promise \"CI_PASSED\"\n    # 不设置 --max-iterations = 无限循环",
        "CI_PASSED",
    ),
    (
        "\"实现用户登录功能，完成质检并创建 PR\" \\\n    --completion-promise \"QUALITY_GATE_PASSED\"",
        "QUALITY_GATE_PASSED",
    ),
    ("\"修复 PR #123 的 CI 失败，CI 通过并合并\" \\\n    --completion-promise \"CI_PASSED\"", "CI_PASSED"),
    ("\"任务描述\" --completion-promise \"SIGNAL\"", "SIGNAL"),
    ("\"任务描述，完成后输出 <promise>DONE</promise>\" \\\n    --completion-promise \"DONE\"", "DONE"),
];

#[test]
fn zenithjoy_engine_its_commands_start_as_pasted_and_promise_only_what_is_checked() {
    for (words, promise) in COMMANDS {
        let sandbox = Sandbox::gated("verify: ['true']\n");
        let talk = Session::new(&sandbox);
        let is_shipping = promise == "QUALITY_GATE_PASSED" || promise == "CI_PASSED";
        let words = if is_shipping {
            // It is about a pull request: without a forge nothing is started. With one: `tests/ship/session.rs`.
            let refused = talk.command("ralph-loop", words).shown_to_user();
            assert!(
                refused.contains("needs a forge") && refused.contains("Nothing was started"),
                "{refused}"
            );
            format!("--until verified {words}")
        } else {
            words.to_owned()
        };
        let started = talk.command("ralph-loop", &words).shown_to_user();
        assert_eq!(started.contains("cannot end verified"), is_shipping, "{started}");
        assert_eq!(talk.state()["goal"]["promise"], promise);
        assert_eq!(talk.state()["limits"]["attempts"]["value"], "unlimited");
        let told = talk.stops(&format!("<promise>{promise}</promise>")).allowed().expect("a banner");
        // Its gate passes from the start and nothing was changed: that shows no task.
        let verdict = if is_shipping { "claimed" } else { "unchanged" };
        assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": verdict}), "{told}");
    }
}

/// Its scripts, and a gate that rewrites a tracked file at every run.
fn zenithjoy() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.program("npm", "case \"$*\" in *qa:gate*) date +%s%N > .quality-evidence.json; echo 'test: PASS' > .quality-gate-passed;; esac");
    let scripts = json!({"scripts": {"typecheck": "tsc", "test": "vitest", "build": "vite", "qa": "x", "qa:gate": "bash scripts/qa-with-gate.sh"}});
    sandbox.file("package.json", &scripts.to_string());
    sandbox.file(".quality-evidence.json", "{}");
    sandbox
}

#[test]
fn zenithjoy_engine_init_proposes_its_gate_and_what_it_rewrites_and_then_it_settles() {
    let sandbox = zenithjoy();
    let init = sandbox.ralph(&["init", "--yes"]).success().stdout;
    assert!(init.contains("the gates changed the tree") && init.contains(".quality-evidence.json"), "{init}");
    let config = sandbox.read("ralph.yaml");
    assert!(config.contains("npm run qa:gate") && config.contains("npm run build"), "{config}");
    assert!(config.contains("writes: [") && config.contains("quality-evidence.json"), "{config}");
    let verified = sandbox.verify(&[]);
    assert_eq!(verified["verdict"], "verified", "{verified:#}");
    sandbox.stop("check").answer().allowed().expect("a message");
    // Without it the tree never settles.
    let plain = zenithjoy();
    plain.file("ralph.yaml", "verify: [npm run qa:gate]\n");
    plain.trust();
    assert_ne!(plain.verify(&[])["verdict"], "verified");
}

#[test]
fn what_a_gate_writes_is_data_and_never_what_it_judges() {
    for pattern in ["src/main.ts", "package.json", "**", "tests/a.json", "../x.json"] {
        let sandbox = Sandbox::new();
        sandbox.file("ralph.yaml", &format!("verify: [{{ run: 'true', writes: ['{pattern}'] }}]\n"));
        let refused = sandbox.ralph(&["trust", "--show"]);
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains("`writes`"), "{pattern}: {told}");
    }
}

/// multi-agent-ralph-loop: its `/loop` is `/ralph-iterate`, with the log and the report of the document.
#[test]
fn multi_agent_ralph_loop_its_loop_has_limit_gates_log_and_report() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\nguard: [nobody-here]\n");
    let talk = Session::new(&sandbox);
    let started = talk.command("ralph-iterate", "implement OAuth2 authentication").shown_to_user();
    assert!(started.contains("15"), "{started}");
    let agent = |event: &str, number: u32, name: &str, message: &str| {
        talk.agent(event, number, name, message).answer()
    };
    agent("SubagentStart", 1, "general-purpose", "").silent();
    // A coder that changed files is blocked; one that hands the task back, or changed nothing, is not.
    agent("SubagentStart", 2, "ralph-coder", "");
    sandbox.file("code.txt", "1\n");
    agent("SubagentStop", 2, "ralph-coder", "CODE: DONE").blocked();
    agent("SubagentStart", 3, "ralph-tester", "");
    sandbox.file("notes.txt", "1\n");
    agent("SubagentStop", 3, "ralph-tester", "**❌ FAIL**").silent();
    agent("SubagentStart", 4, "explorer", "");
    agent("SubagentStop", 4, "explorer", "I looked.").silent();
    let (reason, _) = agent("SubagentStop", 1, "general-purpose", "VERIFIED_DONE").blocked();
    assert!(reason.contains("test -e done.txt"), "{reason}");
    sandbox.file("done.txt", "");
    agent("SubagentStop", 1, "general-purpose", "VERIFIED_DONE").allowed();
    let end = talk.stops("VERIFIED_DONE").shown_to_user();
    assert!(end.contains("verified"), "{end}");
    let log = fs::read_to_string(sandbox.ralph_home().join("logs/loop-latest.log")).expect("a log");
    assert!(
        log.contains("started (iterate)") && log.contains("blocked") && log.contains("verified"),
        "{log}"
    );
    // cat $(ls -t docs/actions/loop/*.md | head -1)
    let reports = fs::read_dir(sandbox.path("docs/actions/loop")).expect("reports");
    let report = fs::read_to_string(reports.flatten().next().expect("a report").path()).expect("text");
    assert!(
        report.contains("code.txt") && report.contains("done.txt") && !report.contains("Status: FAILED"),
        "{report}"
    );
    let status = talk.command("ralph-status", "").shown_to_user();
    assert!(status.contains("Last loop: implement OAuth2 authentication"), "{status}");
}

#[test]
fn rounds_pause_after_fifteen_attempts() {
    let sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    let talk = Session::new(&sandbox);
    talk.command("ralph-iterate", "fix it");
    for number in 1..15 {
        sandbox.file("work.txt", &number.to_string());
        talk.agent_works_with("Edit").stops("VERIFIED_DONE").blocked();
    }
    sandbox.file("work.txt", "15");
    talk.agent_works_with("Edit").stops("VERIFIED_DONE").allowed().expect("a banner");
    let state = talk.state();
    assert_eq!((&state["status"]["status"], &state["false_promises"]), (&json!("paused"), &json!(15)));
}

/// One system as its repository has it: its name, its files, and the settings with its hooks.
struct Layout {
    name: &'static str,
    files: Vec<(&'static str, &'static str)>,
    settings: Value,
    /// What of the settings must be gone, and what must stay.
    gone: &'static [&'static str],
    stays: &'static [&'static str],
}

fn hook(command: &str) -> Value {
    json!([{"hooks": [{"type": "command", "command": command}]}])
}

fn systems() -> Vec<Layout> {
    let check = "---\nname: check\n---\nCheck it.\n";
    vec![
        Layout {
            name: "official-plugin",
            files: vec![(
                ".claude/ralph-loop.local.md",
                "---\nactive: true\niteration: 3\nsession_id: abc\nmax_iterations: 20\ncompletion_promise: \"DONE\"\nstarted_at: \"2026-01-31T10:30:00Z\"\n---\n\nFix it.\n",
            )],
            settings: json!({"enabledPlugins": {"ralph-loop@claude-plugins-official": true, "other@x": true}}),
            gone: &["\"ralph-loop@claude-plugins-official\":true"],
            stays: &["\"other@x\":true"],
        },
        Layout {
            name: "trellis",
            files: vec![
                (
                    ".trellis/worktree.yaml",
                    "worktree_dir: ../w\ncopy: [.env]\nverify:\n  - test -e done.txt\n",
                ),
                (".trellis/.current-task", ".trellis/tasks/01-31-add-login\n"),
                (".trellis/tasks/01-31-add-login/task.json", "{}"),
                (".claude/agents/check.md", check),
                (".claude/hooks/ralph-loop.py", "raise SystemExit(2)\n"),
            ],
            settings: json!({"hooks": {"SubagentStop": [{"matcher": "check", "hooks": [{"type": "command",
                "command": "python3 \"$CLAUDE_PROJECT_DIR/.claude/hooks/ralph-loop.py\"", "timeout": 10}]}]}}),
            gone: &["ralph-loop.py"],
            stays: &[],
        },
        Layout {
            name: "trellis",
            files: vec![
                (".trellis/config.yaml", "x: 1\n"),
                (".claude/agents/trellis-check.md", "---\nname: trellis-check\n---\nCheck it.\n"),
                (".claude/agents/trellis-implement.md", "---\nname: trellis-implement\n---\nDo it.\n"),
            ],
            settings: json!({"hooks": {"SessionStart": hook("python3 .claude/hooks/session-start.py")}}),
            gone: &[],
            stays: &["session-start.py"],
        },
        Layout {
            name: "cc-workflow",
            files: vec![
                (".ideal/worktree.yaml", "worktree_dir: ../w\nverify:\n  - test -e done.txt\n"),
                (".ideal/.current-task", "iteration-3\n"),
                (".claude/agents/check.md", check),
            ],
            settings: json!({"hooks": {
                "SubagentStop": hook("python3 .claude/hooks/verify-loop.py"),
                "PreToolUse": [{"matcher": "Task", "hooks": [{"type": "command", "command": "python3 .claude/hooks/inject.py"}]}],
            }}),
            gone: &["verify-loop.py"],
            stays: &["inject.py"],
        },
        Layout {
            name: "claude-workflow",
            files: vec![
                (
                    "openspec/changes/add-login/tasks.md",
                    "## 1. Core (sequential)\n\n- [ ] 1.1 text | agent: developer | files: a.ts\n",
                ),
                (".claude/commands/ralph-loop.md", "Their command.\n"),
                (
                    ".claude/ralph-loop.local.md",
                    "---\nactive: true\niteration: 1\nmax_iterations: 100\ncompletion_promise: null\nopenspec_mode: true\nstarted_at: \"2026-01-31T10:30:00Z\"\n---\n\nDo it.\n",
                ),
            ],
            settings: json!({}),
            gone: &[],
            stays: &[],
        },
        Layout {
            name: "zenithjoy-engine",
            files: vec![("hooks/stop.sh", "exit 2\n"), ("docs/AUDIT-REPORT.md", "Decision: PASS\n")],
            settings: json!({"hooks": {"Stop": hook("bash hooks/stop.sh")}}),
            gone: &["stop.sh"],
            stays: &[],
        },
        Layout {
            name: "multi-agent-ralph-loop",
            files: vec![("docs/actions/loop/old.md", "x\n")],
            settings: json!({"hooks": {
                "TeammateIdle": hook("~/.claude/hooks/teammate-idle-quality-gate.sh"),
                "TaskCompleted": hook("~/.claude/hooks/task-completed-quality-gate.sh"),
                "Stop": hook("~/.claude/hooks/ralph-stop-quality-gate.sh"),
                "SubagentStart": hook("~/.claude/hooks/ralph-subagent-start.sh"),
                "SubagentStop": hook("~/.claude/hooks/ralph-subagent-stop.sh"),
                "Notification": hook("notify-send done"),
            }}),
            gone: &["teammate-idle", "task-completed", "ralph-stop-quality", "ralph-subagent"],
            stays: &["notify-send done"],
        },
    ]
}

#[test]
fn init_from_each_system_takes_its_hook_out_keeps_a_copy_and_leaves_doctor_green() {
    for Layout { name, files, settings, gone, stays } in systems() {
        let sandbox = Sandbox::new();
        for (path, text) in &files {
            sandbox.file(path, text);
        }
        let before = settings.to_string();
        sandbox.file(".claude/settings.json", &before);
        let has_config = sandbox.exists(".trellis/worktree.yaml") || sandbox.exists(".ideal/worktree.yaml");
        let mut words = vec!["init", "--yes", "--no-try", "--from", name];
        if has_config {
            sandbox.trust();
        } else {
            words.extend(["--gate", "test -e done.txt"]);
        }
        let doctor = sandbox.ralph(&["doctor"]);
        if !gone.is_empty() {
            assert!(
                doctor.stdout.contains(&format!("--from {name}")) || doctor.stdout.contains("plugin"),
                "{}",
                doctor.stdout
            );
        }
        let told = sandbox.ralph(&words).success().stdout;
        let after = sandbox.read(".claude/settings.json");
        let compact: String = after.chars().filter(|c| !c.is_whitespace()).collect();
        for gone in gone {
            assert!(!compact.contains(gone), "{name}: {after}\n{told}");
            assert_eq!(sandbox.read(".claude/settings.json.before-ralph"), before, "{name}: a copy is kept");
        }
        for stays in stays {
            assert!(after.contains(stays) || compact.contains(stays), "{name}: {after}");
        }
        if files.iter().any(|(path, _)| *path == ".claude/ralph-loop.local.md") {
            assert!(
                !sandbox.exists(".claude/ralph-loop.local.md")
                    && sandbox.exists(".claude/ralph-loop.local.md.before-ralph")
            );
        }
        let healthy = sandbox.ralph(&["doctor", "--json"]).json();
        assert_eq!(healthy["healthy"], true, "{name}: {healthy:#}");
    }
}

#[test]
fn today_s_trellis_is_recognised_by_its_agent() {
    let sandbox = Sandbox::new();
    sandbox.file(".trellis/config.yaml", "x: 1\n");
    sandbox.file(".claude/agents/trellis-check.md", "---\nname: trellis-check\n---\nCheck it.\n");
    sandbox.ralph(&["init", "--yes", "--no-try", "--gate", "test -e done.txt"]).success();
    assert!(
        sandbox.read("ralph.yaml").contains("guard: [check, trellis-check]"),
        "{}",
        sandbox.read("ralph.yaml")
    );
    sandbox.stop("trellis-check").answer().blocked();
}

#[test]
fn a_stop_hook_that_only_notifies_is_named_and_no_problem_and_can_be_taken_out() {
    let sandbox = Sandbox::new();
    sandbox.file(".claude/settings.json", &json!({"hooks": {"Stop": hook("notify-send done")}}).to_string());
    let told = sandbox.ralph(&["init", "--yes", "--no-try", "--gate", "true"]).success().stdout;
    assert!(told.contains("notify-send done") && told.contains("--replace-hooks"), "{told}");
    let doctor = sandbox.ralph(&["doctor"]).success().stdout;
    assert!(doctor.contains("notify-send done"), "{doctor}");
    sandbox.ralph(&["init", "--yes", "--replace-hooks"]).success();
    assert!(!sandbox.read(".claude/settings.json").contains("notify-send"));
    assert!(sandbox.read(".claude/settings.json.before-ralph").contains("notify-send"));
}

#[test]
fn another_program_called_ralph_is_named_with_the_one_that_the_hook_runs() {
    let mut sandbox = Sandbox::new();
    sandbox.program("ralph", "echo another ralph");
    let told = sandbox.ralph(&["init", "--yes", "--no-try", "--gate", "true"]).success().stdout;
    assert!(told.contains("another program called ralph"), "{told}");
    let doctor = sandbox.ralph(&["doctor"]).success().stdout;
    assert!(doctor.contains("another program called ralph; the hook runs"), "{doctor}");
}

#[test]
fn guards_that_do_not_name_check_are_no_problem_for_doctor() {
    for guard in ["ralph-coder", "'ralph-*'", "teammates, tasks", "session"] {
        let sandbox = Sandbox::new();
        sandbox.file("ralph.yaml", &format!("verify: ['true']\nguard: [{guard}]\n"));
        sandbox.trust();
        sandbox.ralph(&["init", "--yes", "--no-try"]).success();
        let doctor = sandbox.ralph(&["doctor"]);
        assert_eq!(doctor.code, Some(0), "{guard}: {}", doctor.stdout);
    }
}

#[test]
fn in_a_repo_that_was_never_accepted_the_user_is_told_once_a_session() {
    for guard in ["check", "ralph-coder", "session", "teammates"] {
        let sandbox = Sandbox::new();
        sandbox.file("ralph.yaml", &format!("verify: ['true']\nguard: [{guard}]\n"));
        let talk = Session::new(&sandbox);
        talk.user_says("hello").silent();
        let told = talk.stops("Done.").allowed().expect("a notice");
        assert!(told.contains("ralph trust") && told.contains("accept"), "{guard}: {told}");
        talk.stops("Done.").silent();
        let other = Session::named(&sandbox, "session-2");
        other.stops("Done.").allowed().expect("a notice");
        // Where a sub-agent's stop said so, the session's does not again.
        let third = Session::named(&sandbox, "session-3");
        if guard != "session" {
            let by_agent = third.agent("SubagentStop", 1, guard, "Done.").answer().allowed().is_some();
            assert_eq!(
                third.stops("Done.").shown_to_user().matches("ralph trust").count(),
                1,
                "{guard} {by_agent}"
            );
        }
    }
}

#[test]
fn help_and_status_are_answered_and_name_what_is_installed() {
    let sandbox = Sandbox::new();
    sandbox.ralph(&["init", "--yes", "--no-try", "--gate", "true", "--guard", "session"]).success();
    sandbox.remove(".claude/skills/ralph-audit/SKILL.md");
    let talk = Session::new(&sandbox);
    let help = talk.command("ralph-help", "").shown_to_user();
    assert!(help.contains("/ralph-loop TASK") && help.contains("/ralph-iterate TASK"), "{help}");
    assert!(!help.contains("ralph-audit") && !help.contains("/ralph:"), "{help}");
    assert!(talk.command("ralph:ralph-help", "").shown_to_user().contains("/ralph:ralph-audit"));
    let status = talk.command("ralph-status", "").shown_to_user();
    assert!(status.contains("No active Ralph loop found.") && status.contains("Guard: on"), "{status}");
}
