//! A loop over a task list, with the safety valves of claude-workflow: a budget of agent calls that pauses and is
//! renewed, errors that count in a row, and a promise that is compared with the list.

use serde_json::{Value, json};

use ralph_testkit::{HookAnswer, Sandbox, Session};

const LIST: &str = "openspec/changes/add-login/tasks.md";
const ALL_DONE: &str = "都做完了。\n\n<promise>所有任務完成</promise>";

/// A change with this many tasks, the first ones done.
fn tasks(sandbox: &Sandbox, done: usize, total: usize) {
    let boxes = (1..=total).map(|number| {
        let mark = if number <= done { 'x' } else { ' ' };
        format!("- [{mark}] 1.{number} Task {number}\n")
    });
    sandbox.file(LIST, &format!("## 1. Phase (sequential)\n\n{}", boxes.collect::<String>()));
}

fn in_chinese() -> Sandbox {
    let mut sandbox = Sandbox::gated("verify:\n  - test -e done.txt\n");
    sandbox.set("RALPH_LANG", "zh-TW");
    tasks(&sandbox, 0, 5);
    sandbox
}

fn lines(answer: &HookAnswer) -> Vec<String> {
    answer.shown_to_user().trim().lines().map(str::to_owned).collect()
}

#[test]
fn s1_r8_to_r10_a_promise_counts_only_when_every_box_is_ticked_and_the_gates_pass() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    let (reason, detail) = talk.agent_works_with("Bash").stops(ALL_DONE).blocked();
    assert!(reason.contains("gate `test -e done.txt` failed"), "{reason}");
    assert!(detail.contains("0 of 5 tasks") && detail.contains("Next task: 1.1 Task 1"), "{detail}");
    sandbox.file("done.txt", "");
    tasks(&sandbox, 4, 5);
    let (reason, detail) = talk.agent_works_with("Bash").stops(ALL_DONE).blocked();
    assert!(reason.contains("1 of 5 tasks are open"), "{reason}");
    assert!(detail.contains("Next task: 1.5 Task 5") && detail.contains("false promise"), "{detail}");
    tasks(&sandbox, 5, 5);
    let message = talk.agent_works_with("Bash").stops(ALL_DONE).allowed().expect("a banner");
    assert!(message.contains("5/5"), "{message}");
    assert_eq!(talk.state()["status"], json!({"status": "ended", "verdict": "verified"}));
    assert_eq!(talk.state()["false_promises"], 2);
}

#[test]
fn s1_r2_r5_r6_r7_a_hundred_agent_calls_pause_with_the_banner_and_continue_grants_a_hundred_more() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec add-login");
    tasks(&sandbox, 2, 5);
    talk.calls_agents(0..41);
    let blocked = talk.agent_works_with("Agent").stops("還沒。");
    assert!(blocked.shown_to_user().contains("迭代: #41 / 100"), "{blocked:#?}");
    talk.calls_agents(41..100);
    let answer = talk.agent_works_with("Agent").stops("還沒。");
    answer.allowed();
    assert_eq!(
        lines(&answer)[..9],
        [
            "╔════════════════════════════════════════════════════════════════╗",
            "║                    ⚠️ Loop 安全閥觸發                          ║",
            "╚════════════════════════════════════════════════════════════════╝",
            "",
            "⚠️ 已達最大迭代次數 (100)",
            "📊 當前進度: 2/5 任務完成",
            "",
            "請確認是否繼續：",
            "- 「繼續」- 再執行 100 次迭代",
        ]
    );
    talk.stops("還沒。").allowed().expect("a word that it rests");
    assert_eq!(talk.state()["status"]["status"], "paused");
    // A hundred more, and the count continues.
    assert!(talk.user_says("「繼續」").context().contains("Next task: 1.3 Task 3"));
    talk.calls_agents(100..101);
    assert!(talk.agent_works_with("Agent").stops("還沒。").shown_to_user().contains("迭代: #101 / 200"));
    talk.calls_agents(101..200);
    let answer = talk.agent_works_with("Agent").stops("還沒。");
    answer.allowed();
    assert!(answer.shown_to_user().contains("已達最大迭代次數 (200)"), "{answer:#?}");
}

#[test]
fn s1_r4_every_agent_counts_once_whatever_its_role() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    for (number, name) in
        ["ralph-coder", "ralph-reviewer", "ralph-tester", "general-purpose"].into_iter().enumerate()
    {
        let number = u32::try_from(number).expect("small");
        for _ in 0..2 {
            assert_eq!(talk.agent("SubagentStart", number, name, "").answer().allowed(), None);
        }
        talk.agent("SubagentStop", number, name, "done").answer().silent();
    }
    // A compaction arrives as an agent without a name.
    talk.agent("SubagentStart", 9, "", "").answer().silent();
    assert_eq!(talk.state()["agents"].as_array().map(Vec::len), Some(4));
}

#[test]
fn at_the_limit_no_further_agent_is_called() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec --max-iterations 2");
    let wanted =
        |tool: &str| talk.event_with("PreToolUse", &json!({"tool_name": tool, "tool_input": {}})).answer();
    talk.calls_agents(0..1);
    wanted("Agent").silent();
    talk.calls_agents(1..2);
    let denied = wanted("Agent").ran.json();
    assert_eq!(denied["hookSpecificOutput"]["permissionDecision"], "deny", "{denied:#}");
    wanted("Bash").silent();
    let message = talk.agent_works_with("Bash").stops("還沒。").allowed().expect("a banner");
    assert!(message.contains("已達最大迭代次數 (2)"), "{message}");
}

#[test]
fn s1_r3_r12_r13_three_errors_in_a_row_pause_with_the_list() {
    let sandbox = in_chinese();
    tasks(&sandbox, 1, 5);
    let talk = Session::looping(&sandbox, "--openspec");
    talk.fails("API Error: 500 one");
    let failed =
        json!({"tool_name": "Agent", "tool_input": {}, "error": "agent died", "is_interrupt": false});
    talk.event_with("PostToolUseFailure", &failed).answer().silent();
    assert_eq!(talk.state()["errors"], 2);
    std::fs::remove_file(sandbox.path(LIST)).expect("gone");
    // The gate fails too, and the missing list is the error.
    sandbox.file("done.txt", "");
    let answer = talk.agent_works_with("Bash").stops("還沒。");
    answer.allowed();
    let lines = lines(&answer);
    assert_eq!(lines[1], "║                    ❌ Loop 錯誤中斷                            ║");
    assert_eq!(lines[4], "⚠️ 連續發生 3 次錯誤");
    let at = lines.iter().position(|line| line == "錯誤詳情：").expect("the details");
    assert!(lines[at + 1].starts_with("1. [Agent 執行錯誤]: "), "{lines:#?}");
    assert!(
        lines[at + 2].starts_with("2. [Agent 執行錯誤]: ") && lines[at + 2].contains("agent died"),
        "{lines:#?}"
    );
    assert!(lines[at + 3].starts_with("3. [找不到任務]: ") && lines[at + 3].contains(LIST), "{lines:#?}");
    assert_eq!(
        lines[at + 5..at + 9],
        ["建議操作：", "- 檢查錯誤原因並修復", "- 使用「繼續」重新嘗試", "- 使用「暫停」中止 Loop"]
    );
    // S1-R18: the error count restarts, the first open task is named, the call count stays.
    tasks(&sandbox, 1, 5);
    talk.calls_agents(0..0);
    let resumed = talk.user_says("繼續");
    assert!(resumed.context().contains("Next task: 1.2 Task 2"), "{resumed:#?}");
    assert_eq!(talk.state()["errors"], 0);
}

#[test]
fn three_errors_without_a_stop_are_reported_at_the_next_event() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    for number in 0..3 {
        talk.fails(&format!("API Error: 500 number {number}"));
    }
    assert_eq!(talk.state()["status"]["status"], "paused");
    let message = talk.user_says("what happened?").shown_to_user();
    assert!(message.contains("錯誤中斷") && message.contains("number 2"), "{message}");
    talk.stops("…").allowed().expect("a word that it rests");
    // Its own banner offers the word.
    assert!(talk.user_says("暫停").shown_to_user().contains("錯誤中斷"));
}

#[test]
fn s1_r11_a_rejecting_reviewer_and_a_failing_tester_are_not_errors_and_name_the_next_role() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    for (name, said, next) in [
        ("ralph-reviewer", "I cannot approve this.\n\nREVIEW: REJECT - no tests", "developer (ralph-coder)"),
        ("ralph-tester", "0 passed\n\nTESTS: FAIL", "debugger (ralph-debugger)"),
        ("ralph-debugger", "Off by one.\n\nDIAGNOSIS: DONE", "developer (ralph-coder)"),
    ] {
        talk.fails("API Error: 500");
        talk.agent("SubagentStop", 1, name, said).answer().silent();
        assert_eq!(talk.state()["errors"], 0, "{name}");
        let (_, detail) = talk.agent_works_with("Agent").stops("還沒。").blocked();
        assert!(detail.contains(next), "{name}: {detail}");
    }
    talk.agent("SubagentStop", 1, "ralph-tester", "0 FAIL, 失敗 none\n\nTESTS: PASS").answer().silent();
    let (_, detail) = talk.agent_works_with("Agent").stops("還沒。").blocked();
    assert!(!detail.contains("debugger"), "{detail}");
}

#[test]
fn s1_r16_the_pause_banner_has_progress_a_bar_and_how_to_resume() {
    let sandbox = in_chinese();
    tasks(&sandbox, 2, 4);
    let talk = Session::looping(&sandbox, "--openspec");
    assert_eq!(
        lines(&talk.user_says("暫停")),
        [
            "╔════════════════════════════════════════════════════════════════╗",
            "║                    ⏸️ Loop 已暫停                              ║",
            "╚════════════════════════════════════════════════════════════════╝",
            "",
            "📊 當前進度: 2/4 任務完成 (50%)",
            "[█████████████░░░░░░░░░░░░░] 50%",
            "",
            "💾 進度已保存。使用「繼續」或 `/ralph-loop` 恢復執行。",
        ]
    );
}

#[test]
fn s1_r17_the_command_with_the_same_change_resumes_it() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec add-login");
    talk.calls_agents(0..7);
    talk.user_says("暫停");
    let resumed = talk.command("ralph-loop", "--openspec add-login");
    assert!(resumed.shown_to_user().contains("迭代: #7 / 100"), "{resumed:#?}");
    assert_eq!(talk.state()["status"]["status"], "running");
}

#[test]
fn a_task_list_in_any_file_makes_a_loop() {
    let sandbox = Sandbox::gated("verify:\n  - 'true'\n");
    sandbox.file("TODO.md", "* [x] one\n  + [ ] two\n1. [X] three\n- [a link](http://x)\n");
    let talk = Session::looping(&sandbox, "--tasks TODO.md");
    let (reason, _) = talk.agent_works_with("Bash").stops("Done.").blocked();
    assert!(reason.contains("1 of 3 tasks are open"), "{reason}");
    sandbox.file("TODO.md", "* [x] one\n  + [x] two\n1. [X] three\n");
    let message = talk.agent_works_with("Bash").stops("Done.").allowed().expect("a banner");
    assert!(message.contains("gates pass, task not shown"), "{message}");
}

#[test]
fn a_list_without_checkboxes_is_an_evaluation_error_and_not_done() {
    let sandbox = Sandbox::gated("verify:\n  - 'true'\n");
    sandbox.file("TODO.md", "# Nothing yet\n- [a link](http://x)\n");
    let talk = Session::looping(&sandbox, "--tasks TODO.md --completion-promise DONE");
    let (reason, detail) = talk.agent_works_with("Bash").stops("<promise>DONE</promise>").blocked();
    assert!(reason.contains("no checkboxes") && detail.contains("TODO.md"), "{reason}\n{detail}");
    assert_eq!(talk.state()["attempts"], 0);
    assert_eq!(talk.state()["errors"], 1);
}

#[test]
fn a_missing_list_is_reported_beside_a_failing_gate() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    sandbox.remove(LIST);
    let (reason, detail) = talk.agent_works_with("Bash").stops("還沒。").blocked();
    assert!(reason.contains("gate `test -e done.txt` failed"), "{reason}");
    let message = format!("the task list `{LIST}` is missing");
    assert!(detail.contains(&message), "{detail}");
    sandbox.file("done.txt", "");
    let (reason, detail) = talk.agent_works_with("Bash").stops("還沒。").blocked();
    assert!(reason.contains(&message) && !detail.contains(&message), "{reason}\n{detail}");
}

#[test]
fn several_changes_are_listed_and_none_is_guessed() {
    let sandbox = in_chinese();
    sandbox.file("openspec/changes/fix-logout/tasks.md", "- [ ] 1.1 x\n");
    sandbox.file("openspec/changes/archive/2026-01-01-old/tasks.md", "- [ ] 1.1 x\n");
    let talk = Session::new(&sandbox);
    let refused = talk.command("ralph-loop", "--openspec").shown_to_user();
    assert!(
        refused.contains("add-login") && refused.contains("fix-logout") && !refused.contains("old"),
        "{refused}"
    );
    let refused = talk.command("ralph-loop", "--openspec ../../etc").shown_to_user();
    assert!(refused.contains("Nothing was started"), "{refused}");
    assert!(sandbox.status()["loops"].as_array().is_none_or(Vec::is_empty));
    let started: Value = talk.command("ralph-loop", "--openspec fix-logout").ran.json();
    assert!(started["systemMessage"].as_str().is_some_and(|message| message.contains("0/1")), "{started:#}");
}

#[test]
fn with_archive_a_finished_change_moves_to_the_archive() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec --archive");
    tasks(&sandbox, 5, 5);
    sandbox.file("done.txt", "");
    let message = talk.agent_works_with("Bash").stops(ALL_DONE).allowed().expect("a banner");
    assert!(message.contains("openspec/archive/add-login"), "{message}");
    assert!(sandbox.path("openspec/archive/add-login/tasks.md").exists());
    assert!(!sandbox.path("openspec/changes/add-login").exists());
}

#[test]
fn an_agent_that_works_alone_is_counted_and_the_cap_pauses_it() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec --max-iterations 5");
    for n in 1..5 {
        let blocked = talk.agent_works_with("Edit").stops("還沒。");
        blocked.blocked();
        assert!(blocked.shown_to_user().contains(&format!("迭代: #{n} / 5")), "{blocked:#?}");
    }
    let told = talk.agent_works_with("Edit").stops("還沒。").allowed().expect("a banner");
    assert!(told.contains("已達最大迭代次數 (5)") && told.contains("再執行 5 次迭代"), "{told}");
    assert_eq!(talk.state()["status"]["status"], "paused");
    // The user's word at the limit: the pause banner, and the limit can still be renewed.
    let paused = talk.user_says("暫停").shown_to_user();
    assert!(paused.contains("Loop 已暫停") && !paused.contains("安全閥"), "{paused}");
    talk.user_says("繼續");
    let blocked = talk.agent_works_with("Edit").stops("還沒。");
    assert!(blocked.shown_to_user().contains("迭代: #6 / 10"), "{blocked:#?}");
}

#[test]
fn without_a_number_the_hundredth_stop_of_a_lone_agent_pauses() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    for _ in 1..100 {
        talk.agent_works_with("Edit").stops("還沒。").blocked();
    }
    let told = talk.agent_works_with("Edit").stops("還沒。").allowed().expect("a banner");
    assert!(told.contains("已達最大迭代次數 (100)"), "{told}");
}

#[test]
fn agent_calls_and_lone_stops_count_together() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec --max-iterations 4");
    talk.agent_works_with("Edit").stops("還沒。").blocked();
    talk.calls_agents(0..2);
    let blocked = talk.agent_works_with("Agent").stops("還沒。");
    assert!(blocked.shown_to_user().contains("迭代: #3 / 4"), "{blocked:#?}");
    talk.agent_works_with("Edit").stops("還沒。").allowed().expect("a banner");
}

#[test]
fn a_stuck_loop_is_resumed_by_the_word_and_by_the_command_with_a_fresh_count() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    let gets_stuck = || {
        talk.stops("還沒。").blocked();
        talk.stops("還沒。").blocked();
        let told = talk.stops("還沒。").allowed().expect("a banner");
        assert!(told.contains("停滯不前") && told.contains("「繼續」"), "{told}");
        assert_eq!(talk.state()["status"]["status"], "paused");
        assert!(sandbox.ralph(&["status"]).stdout.contains("停滯不前"));
    };
    gets_stuck();
    assert!(talk.user_says("繼續").context().contains("Next task: 1.1 Task 1"));
    gets_stuck();
    sandbox.ralph(&["resume"]).success();
    assert_eq!(talk.state()["status"]["status"], "running");
    gets_stuck();
}

#[test]
fn without_a_transcript_agent_calls_and_commits_are_activity() {
    let sandbox = in_chinese();
    let talk = Session::looping(&sandbox, "--openspec");
    for number in 0..4 {
        talk.calls_agents(number..number + 1);
        talk.stops("還沒。").blocked();
    }
    for number in 0..4 {
        sandbox.git(&["commit", "--allow-empty", "--quiet", "-m", &format!("step {number}")]);
        talk.stops("還沒。").blocked();
    }
    talk.stops("還沒。").blocked();
    let told = talk.stops("還沒。").allowed().expect("a banner");
    assert!(told.contains("停滯不前"), "{told}");
}
