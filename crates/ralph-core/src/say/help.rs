//! The help for a session: what ralph does, and the commands that are installed there.

/// A command and what it does.
const COMMANDS: [(&str, &str, &str); 6] = [
    ("ralph-loop", " TASK [OPTIONS]", "start a loop: this session works until the task is verified"),
    ("ralph-iterate", " TASK", "the same in rounds of a coder and a tester, at most 15"),
    ("cancel-ralph", "", "cancel the loop"),
    ("ralph-status", "", "show the loop, the guard and how the last loop ended"),
    ("ralph-audit", "", "audit the work and write docs/AUDIT-REPORT.md"),
    ("ralph-help", "", "show this help"),
];

const OPTIONS: [(&str, &str); 7] = [
    ("--completion-promise TEXT", "also require <promise>TEXT</promise> from the agent, alone on a line"),
    (
        "--max-iterations N",
        "pause and ask after N iterations (with a task list: agent calls, and stops without one)",
    ),
    ("--openspec [ID]", "also require every checkbox of that OpenSpec change to be ticked"),
    ("--tasks FILE", "also require every checkbox in FILE to be ticked"),
    ("--archive", "with --openspec: archive the change when it is finished"),
    ("--replace", "replace the current loop of this session"),
    ("--lang TAG", "language of ralph's messages: en, zh-TW, zh-CN or es"),
];

/// The help, where commands begin with `prefix` and `is_installed` tells which of them there are.
pub fn text(prefix: &str, is_installed: impl Fn(&str) -> bool) -> String {
    let mut lines = vec![
        "ralph: done means verified. At each stop of a loop ralph runs the project's own gates on the current files, \
         reports what fails, and allows the stop when they pass."
            .to_owned(),
        String::new(),
    ];
    for (name, words, what) in COMMANDS.iter().filter(|(name, ..)| is_installed(name)) {
        lines.push(format!("{:<36} {what}", format!("/{prefix}{name}{words}")));
    }
    if is_installed("ralph-loop") {
        lines.push(format!("\nOptions of /{prefix}ralph-loop:"));
        lines.extend(OPTIONS.iter().map(|(option, what)| format!("{option:<36} {what}")));
        lines.push(
            "\nA message that is only `pause` or `stop` (暫停, 停, 中斷, pausa) pauses the loop; `continue` or `resume` \
             (繼續, 持續執行, continuar) resumes it."
                .into(),
        );
    }
    lines.push(
        "\nIn a shell: ralph status, ralph verify (runs the gates now), ralph log, ralph doctor.".into(),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_installed_is_named() {
        let all = text("ralph:", |_| true);
        assert!(COMMANDS.iter().all(|(name, ..)| all.contains(&format!("/ralph:{name}"))), "{all}");
        let some = text("", |name| matches!(name, "ralph-loop" | "cancel-ralph"));
        assert!(some.contains("/ralph-loop TASK") && some.contains("/cancel-ralph"), "{some}");
        assert!(!some.contains("iterate") && !some.contains("audit") && !some.contains("/ralph:"), "{some}");
        assert!(!text("", |_| false).contains('/'));
    }
}
