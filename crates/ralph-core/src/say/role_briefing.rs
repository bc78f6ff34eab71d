//! What an agent hears when it is called into a session whose work is judged: by what, by which standards, and for what.
//! Short: every agent that is called pays for it.

use crate::model::gate::Gate;

/// More gates than this are only counted.
const MOST_GATES: usize = 12;
const MOST_TASK: usize = 500;

/// `task` is that of the session's loop, where it carries one.
pub fn text(gates: &[Gate], task: Option<&str>) -> String {
    let required: Vec<&Gate> = gates.iter().filter(|gate| !gate.advisory).collect();
    let mut lines =
        vec!["This work is judged by ralph. These gates decide, on the files as they are:".to_owned()];
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
        "Leave no debugger statements, placeholders, private keys or files that cannot be parsed behind, and never weaken \
         a test or a gate: if one is wrong, say so."
            .to_owned(),
    );
    if let Some(task) = task.map(str::trim).filter(|task| !task.is_empty()) {
        let task: String = task.chars().take(MOST_TASK).collect();
        lines.push(format!("The session works on: {task}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gate::{DEFAULT_TIMEOUT, Order};
    use crate::model::id::GateName;

    fn gate(run: &str, advisory: bool) -> Gate {
        Gate {
            name: GateName::new(run),
            run: run.into(),
            timeout: DEFAULT_TIMEOUT,
            advisory,
            inputs: Vec::new(),
            retries: 0,
            results: None,
            order: Order::AfterAllAbove,
        }
    }

    #[test]
    fn it_names_the_gates_the_standards_and_the_task() {
        let told =
            text(&[gate("cargo test\nmore", false), gate("cargo audit", true)], Some(" mend the login \n"));
        assert!(
            told.contains("\n- cargo test\n") && !told.contains("audit") && !told.contains("more"),
            "{told}"
        );
        assert!(told.ends_with("The session works on: mend the login"), "{told}");
        assert!(!text(&[gate("x", false)], None).contains("works on"));
    }

    #[test]
    fn it_stays_short() {
        let gates: Vec<Gate> = (0..100).map(|number| gate(&format!("gate {number}"), false)).collect();
        let told = text(&gates, Some(&"long ".repeat(1_000)));
        assert!(told.contains("- and 88 more") && told.len() < 1_500, "{} {told}", told.len());
    }
}
