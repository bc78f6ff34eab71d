//! The briefing of a sub-agent in a judged session: the gates, the standards and the task. Short, because every call
//! pays for it.

use crate::model::gate::Gate;

/// Further gates are only counted.
const MOST_GATES: usize = 12;
const MOST_TASK: usize = 500;

/// `task` is that of the session's loop, if it has one.
pub fn text(gates: &[Gate], task: Option<&str>) -> String {
    let required: Vec<&Gate> = gates.iter().filter(|gate| !gate.advisory).collect();
    let mut lines =
        vec!["ralph judges this work. These gates decide, on the files as you leave them:".to_owned()];
    lines.extend(required.iter().take(MOST_GATES).map(|gate| {
        let command = gate.run.trim().lines().next().unwrap_or_default();
        format!("- {command}")
    }));
    if required.len() > MOST_GATES {
        lines.push(format!("- and {} more", required.len() - MOST_GATES));
    }
    lines.push(
        "Run the tests you need; ralph runs all gates when you stop. Only gate results count.".to_owned(),
    );
    lines.push(
        "Leave no debugger statements, placeholders, private keys or unparsable files behind, and never weaken a test or a gate: if one is wrong, report it."
            .to_owned(),
    );
    if let Some(task) = task.map(str::trim).filter(|task| !task.is_empty()) {
        let task: String = task.chars().take(MOST_TASK).collect();
        lines.push(format!("The session's task: {task}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(run: &str, advisory: bool) -> Gate {
        Gate { advisory, ..Gate::sample(run, run) }
    }

    #[test]
    fn it_names_the_gates_the_standards_and_the_task() {
        let briefing =
            text(&[gate("cargo test\nmore", false), gate("cargo audit", true)], Some(" fix the login \n"));
        insta::assert_snapshot!("role_briefing", briefing);
        assert!(!text(&[gate("x", false)], None).contains("session's task"));
    }

    #[test]
    fn it_stays_short() {
        let gates: Vec<Gate> = (0..100).map(|number| gate(&format!("gate {number}"), false)).collect();
        let briefing = text(&gates, Some(&"long ".repeat(1_000)));
        assert!(
            briefing.contains("- and 88 more") && briefing.len() < 1_500,
            "{} {briefing}",
            briefing.len()
        );
    }
}
