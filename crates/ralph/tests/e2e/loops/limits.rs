//! What limits a loop: its own limit and lack of progress, and never the client's cap.

use ralph_testkit::{Claude, Sandbox, Script, Turn};
use serde_json::json;

use super::{BLOCKED, LOOP, PROMISE, START, VERIFIED, attempts, loop_status, session, unfinished};
use crate::session::{bash, life_of, verdicts_of};

/// Calls a tool, and stops.
fn rounds(numbers: std::ops::RangeInclusive<usize>) -> Vec<Turn> {
    let round = |n: usize| [bash(&format!("touch {n}")), Turn::say(format!("Round {n}."))];
    numbers.flat_map(round).collect()
}

/// The client overrides a hook after 8 blocks without a tool call; these have one each.
#[test]
fn twenty_stops_with_tool_calls_between_them_are_all_blocked() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let mut turns = rounds(1..=20);
    turns.push(bash("touch done.txt").expecting("Not done yet (iteration 20)"));
    turns.push(Turn::say(PROMISE));
    let seen =
        session(&claude, &sandbox).arg("--max-turns").arg("60").prompt(START).play(Script::new().main(turns));
    let mut verdicts = vec![BLOCKED; 20];
    verdicts.push(VERIFIED);
    assert_eq!(verdicts_of(&sandbox, LOOP), verdicts, "{seen}");
}

#[test]
fn stops_without_a_tool_call_between_them_end_stuck() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let words = (1..=12).map(|n| Turn::say(format!("It is as good as done, I say for the {n}th time.")));
    let seen = session(&claude, &sandbox).prompt(START).play(Script::new().main(words.collect()));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, BLOCKED, "stuck gates_failed"], "{seen}");
    assert_eq!(loop_status(&sandbox)["status"], "paused");
    assert_eq!(seen.requests_of_session(), 3, "{seen}");
    assert!(seen.user_saw(&["Loop stuck", "NOT verified", "test -e done.txt"]), "{seen}");
    assert!(!seen.output.said("Loop done"), "{seen}");
}

/// Every failure differs, so the loop is not stuck; but no tool is called, and the client would end the turn.
#[test]
fn before_the_client_ends_the_turn_the_loop_allows_the_stop_and_reports_it() {
    let claude = Claude::for_test();
    let sandbox = Sandbox::gated("verify:\n  - printf x >> ../longer; cat ../longer; test -e done.txt\n");
    let words = (1..=12).map(|n| Turn::say(format!("It is as good as done, I say for the {n}th time.")));
    let seen = session(&claude, &sandbox)
        .env("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "4")
        .prompt(START)
        .play(Script::new().main(words.collect()));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, BLOCKED, BLOCKED, "paused gates_failed"], "{seen}");
    assert!(seen.user_saw(&["overrides a hook after 4 consecutive blocks", "NOT verified"]), "{seen}");
    assert!(!seen.output.said("Loop done"), "{seen}");
}

#[test]
fn the_user_reads_their_language_and_the_agent_reads_english() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let seen = session(&claude, &sandbox)
        .env("RALPH_LANG", "zh-TW")
        .prompt(&format!("{START} --max-iterations 2"))
        .play(Script::new().main(vec![
            Turn::say("I looked around."),
            Turn::say("And again.").expecting("Not done yet (iteration 1 of 2)").expecting_not("迭代"),
        ]));
    assert_eq!(verdicts_of(&sandbox, LOOP), [BLOCKED, "paused gates_failed"], "{seen}");
    assert!(seen.user_saw(&["Stop says", "迭代: #1 / 2"]), "{seen}");
    assert!(seen.user_saw(&["已達最大迭代次數 (2)", "「繼續」- 再執行 2 次迭代"]), "{seen}");
}

#[test]
fn at_its_limit_a_loop_pauses_and_the_user_can_renew_the_budget() {
    let claude = Claude::for_test();
    let sandbox = unfinished();
    let mut turns = rounds(1..=6);
    turns[6] = bash("touch 4").expecting("The task:\nmake the file").expecting("Stops judged so far: 3.");
    let seen = session(&claude, &sandbox)
        .prompt(&format!("{START} --max-iterations 3"))
        .then_prompt("繼續")
        .play(Script::new().main(turns));
    let at_limit = "paused gates_failed";
    assert_eq!(
        life_of(&sandbox, LOOP)[..8],
        ["began", "bound", BLOCKED, BLOCKED, at_limit, "resumed renewed", BLOCKED, BLOCKED],
        "{seen}"
    );
    assert_eq!(verdicts_of(&sandbox, LOOP)[5..], [at_limit], "{seen}");
    assert_eq!(attempts(&sandbox), [1, 2, 3, 4, 5, 6]);
    assert_eq!(loop_status(&sandbox), json!({"status": "paused"}));
    let more = "run 3 more iterations";
    assert!(seen.user_saw(&["Maximum iterations reached (3)", more]), "{seen}");
    assert!(seen.user_saw(&["Maximum iterations reached (6)", more]), "{seen}");
}
