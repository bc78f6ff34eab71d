//! The real client, once: it calls a `Stop` hook, the hook blocks, and the model receives the reason. This proves that
//! the tools of this crate observe what they claim to observe; the answers of ralph are tested in its own crate.

use std::fs;

use ralph_testkit::{Claude, ClaudeOutput, Script, ScriptedModel, Served, Turn};
use serde_json::json;
use tempfile::TempDir;

/// Blocks once. In a file, not in the settings: the client sends the hook's command line to the model too, and a needle
/// found there would prove nothing.
const BLOCK_ONCE: &str =
    r#"test -e blocked || { touch blocked; echo '{"decision":"block","reason":"FEEDBACK-CANARY"}'; }"#;

fn run_with_a_hook_that_blocks_once(claude: &Claude, needle: &str) -> (ClaudeOutput, Served) {
    let project = TempDir::new().unwrap();
    fs::write(project.path().join("hook.sh"), BLOCK_ONCE).unwrap();
    let script = Script::new().main(vec![
        Turn::say("FIRST-ANSWER").expecting("the-prompt").expecting_not("FEEDBACK"),
        Turn::say("SECOND-ANSWER").expecting(needle),
    ]);
    let model = ScriptedModel::start(script).unwrap();
    let output = claude
        .run_in(project.path())
        .prompt("the-prompt")
        .settings(json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "sh hook.sh"}]}]}}))
        .run(&model);
    (output, model.finish())
}

#[test]
fn the_models_second_turn_gets_the_feedback_of_a_blocking_hook() {
    let claude = Claude::for_test();
    let (output, served) = run_with_a_hook_that_blocks_once(&claude, "FEEDBACK-CANARY");
    served.assert_clean();
    assert_eq!(output.exit, Some(0), "{}\n{}", output.text_of_rows(), output.stderr);
    assert!(!output.timed_out);
    assert_eq!(served.lane("main").len(), 2);
    assert_eq!(output.hook_responses("Stop").len(), 2, "{}", output.text_of_rows());
    assert_eq!(output.result().unwrap()["result"], "SECOND-ANSWER");
    assert!(output.said("Stop hook feedback:\nFEEDBACK-CANARY"), "{}", output.text_of_rows());
}

#[test]
fn feedback_that_does_not_arrive_is_a_problem() {
    let claude = Claude::for_test();
    let (output, served) = run_with_a_hook_that_blocks_once(&claude, "ANOTHER-CANARY");
    assert_eq!(output.exit, Some(0), "{}\n{}", output.text_of_rows(), output.stderr);
    assert_eq!(served.problems.len(), 1, "{:?}", served.problems);
    assert!(served.problems[0].contains("ANOTHER-CANARY"), "{:?}", served.problems);
    assert!(served.problems[0].contains("FEEDBACK-CANARY"), "the request is quoted: {:?}", served.problems);
}
