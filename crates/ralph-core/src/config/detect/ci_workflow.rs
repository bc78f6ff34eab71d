//! The commands of the project's CI workflows, read as a hint.

use super::Project;

/// A command that CI runs, and the line it was found in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CiCommand {
    pub run: String,
    pub file: String,
    /// From 1.
    pub line: usize,
}

/// What looks like a check: one command on one line, without values that only CI knows.
pub fn commands(project: &Project) -> Vec<CiCommand> {
    let is_workflow = |name: &str| name.starts_with(".github/workflows/");
    let mut found: Vec<CiCommand> = Vec::new();
    for (file, text) in project.texts(is_workflow) {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim().trim_start_matches("- ");
            let Some(run) = line.strip_prefix("run:") else { continue };
            let run = run.trim().trim_matches(['"', '\'']).trim();
            if is_check(run) && !found.iter().any(|known| known.run == run) {
                found.push(CiCommand { run: run.to_owned(), file: file.to_owned(), line: index + 1 });
            }
        }
    }
    found
}

fn is_check(run: &str) -> bool {
    const CHECKS: [&str; 16] = [
        "test",
        "tests",
        "lint",
        "check",
        "fmt",
        "format",
        "clippy",
        "mypy",
        "tsc",
        "ruff",
        "pytest",
        "eslint",
        "vet",
        "typecheck",
        "verify",
        "tox",
    ];
    const OTHERS: [&str; 10] =
        ["install", "ci", "deploy", "publish", "apt-get", "apt", "curl", "upload", "download", "login"];
    let is_one_line = !run.is_empty() && !run.starts_with(['|', '>']) && !run.contains("${{");
    let mut words =
        run.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let (mut checks, mut sets_up) = (false, false);
    words.by_ref().for_each(|word| {
        checks |= CHECKS.contains(&word);
        sets_up |= OTHERS.contains(&word);
    });
    is_one_line && checks && !sets_up
}
