use ralph_core::model::goal::ListSource;

use super::*;
use crate::show::progress::sample;

#[test]
fn a_person_reads_what_is_going_to_happen() {
    let wanted = "\
task      Fix the tests of the parser: 測試 must pass
loop      fix-the-tests-1a2b3c
agent     claude
it may    edit files in the project and run the gates' own commands; what else is allowed is in your `allow:` list
          Bash(git log:*) (your config)
gates     fmt   make fmt
          test  make test
          lint  make lint  (advisory: it holds nobody)
ends at   15 iterations (default)
          no clock (default)
          $5.00 (a flag)
          3 iterations without progress (default)
          3 errors in a row (default)
          one run of the agent: at most 30m, silent for at most 10m
context   fresh in every iteration
keeps     the tree of every iteration; `ralph diff N` shows one";
    assert_eq!(PlanSheet(&sample::plan()).lines().join("\n"), wanted);
}

#[test]
fn what_goes_to_another_service_is_shown() {
    let mut plan = sample::plan();
    plan.profile = ralph_core::clients::list::find("glm5", &[]).expect("it is built in");
    plan.options.model = Some("glm-5".into());
    let shown = PlanSheet(&plan).lines().join("\n");
    for part in [
        "agent     glm5 (runs `claude`), model glm-5\n",
        "          with ANTHROPIC_BASE_URL=https://api.z.ai/api/anthropic\n",
        "          with ANTHROPIC_AUTH_TOKEN from ZAI_API_KEY\n",
        "          without ANTHROPIC_API_KEY\n",
        "note      not tried against the service",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
}

#[test]
fn claims_and_missing_gates_are_said() {
    let mut plan = sample::plan();
    plan.gates.clear();
    plan.goal.promise = Some("ALL\u{1b}[2J DONE".into());
    plan.goal.list = Some(ListSource { file: "tasks.md".into(), change: None });
    plan.options.checkpoints = false;
    plan.options.memory = Memory::Continue;
    let shown = PlanSheet(&plan).lines().join("\n");
    for part in [
        "gates     none: nothing can be verified\n",
        "tasks     every box of tasks.md\n",
        "promise   the agent states: ALL DONE\n",
        "context   the agent's session is gone on with in every iteration\n",
        "keeps     no checkpoints",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
}
