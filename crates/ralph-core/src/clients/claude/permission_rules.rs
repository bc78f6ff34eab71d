//! Permission rules for Claude Code's `--allowedTools`.
//!
//! Observed with 2.1.325: `Bash(CMD:*)` allows the command itself, with further arguments, after `timeout`, and piped
//! into a harmless command such as `tail`; every other part of a longer line needs its own rule. A line of several
//! commands is allowed by exactly that line. Nested brackets match nothing.

use crate::clients::profile::is_rule;
use crate::model::gate::Gate;

/// The gates' commands, then the user's additional rules.
pub(crate) fn rules(gates: &[Gate], allow: &[String]) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    let gates = gates.iter().filter_map(|gate| rule(gate.run.trim()));
    let allowed = allow.iter().map(|rule| rule.trim().to_owned()).filter(|rule| is_rule(rule));
    for rule in gates.chain(allowed) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// None for a command that a rule cannot express.
fn rule(command: &str) -> Option<String> {
    let fits = !command.is_empty() && !command.contains(char::is_control) && brackets_are_flat(command);
    let is_plain = !command.contains([';', '|', '&', '>', '<', '`', '$', '(', ')', '{', '*', '\\'])
        // A variable before the command is part of the match.
        && !command.split_whitespace().next().is_some_and(|word| word.contains('='));
    fits.then(|| if is_plain { format!("Bash({command}:*)") } else { format!("Bash({command})") })
}

fn brackets_are_flat(command: &str) -> bool {
    let mut is_open = false;
    for c in command.chars() {
        match c {
            '(' if is_open => return false,
            '(' => is_open = true,
            ')' if !is_open => return false,
            ')' => is_open = false,
            _ => {}
        }
    }
    !is_open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(run: &str) -> Gate {
        Gate::sample(run, run)
    }

    #[test]
    fn a_command_becomes_the_rule_that_allows_exactly_it() {
        let table = [
            ("cargo test --workspace", Some("Bash(cargo test --workspace:*)")),
            ("  pnpm lint\n", Some("Bash(pnpm lint:*)")),
            ("npm ci && npm test", Some("Bash(npm ci && npm test)")),
            ("cargo test --jobs=2", Some("Bash(cargo test --jobs=2:*)")),
            ("CI=1 npm test", Some("Bash(CI=1 npm test)")),
            ("go test ./... > out.txt", Some("Bash(go test ./... > out.txt)")),
            ("python3 -c \"print(1, 2)\"", Some("Bash(python3 -c \"print(1, 2)\")")),
            ("python3 -c \"print(f(1))\"", None),
            ("true), Bash(rm -rf /", None),
            ("npm test\nrm -rf /", None),
            ("", None),
        ];
        for (run, expected) in table {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(rules(&[gate(run)], &[]), expected, "{run:?}");
        }
    }

    #[test]
    fn user_rules_come_after_the_gates_and_are_never_flags() {
        let allow = ["WebFetch", " Bash(git push:*) ", "--dangerously-skip-permissions", "", "Bash(make:*)"];
        assert_eq!(
            rules(&[gate("make"), gate("make")], &allow.map(str::to_owned)),
            ["Bash(make:*)", "WebFetch", "Bash(git push:*)"]
        );
    }
}
