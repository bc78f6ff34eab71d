use ralph_core::model::goal::ListSource;

use super::*;
use crate::show::progress::sample;

#[test]
fn shows_the_complete_plan() {
    insta::assert_snapshot!("plan", PlanSheet(&sample::plan()).lines().join("\n"));
}

#[test]
fn shows_variables_for_another_service() {
    let mut plan = sample::plan();
    plan.profile = ralph_core::clients::list::find("glm5", &[]).expect("it is built in");
    plan.options.model = Some("glm-5".into());
    insta::assert_snapshot!("plan_with_another_service", PlanSheet(&plan).lines().join("\n"));
}

#[test]
fn shows_claims_and_missing_gates() {
    let mut plan = sample::plan();
    plan.gates.clear();
    plan.goal.promise = Some("ALL\u{1b}[2J DONE".into());
    plan.goal.list = Some(ListSource { file: "tasks.md".into(), change: None });
    plan.options.checkpoints = false;
    plan.options.memory = AgentContext::Continue;
    insta::assert_snapshot!("plan_without_gates", PlanSheet(&plan).lines().join("\n"));
}
