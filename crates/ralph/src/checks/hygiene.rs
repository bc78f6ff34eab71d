//! A quick inspection of what was added since a commit: added lines from git's diff, new files whole, and whether changed
//! files can be parsed. The core defines the patterns.
//!
//! This is not a gate: without git, or on a timeout, nothing is found.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ralph_core::model::finding::Finding;
use ralph_core::model::hygiene::{self, HygieneProblem, HygieneProblemKind, MOST_FLAWS, added};
use serde::de::IgnoredAny;

use crate::sys::{env, short_command};
use crate::work_tree::git::head::GitHead;
use crate::work_tree::git::{Git, SealedGit};

/// It runs before gates that may take minutes, and must add no noticeable delay.
const PATIENCE: Duration = Duration::from_secs(5);
const PARSER_PATIENCE: Duration = Duration::from_secs(3);

/// The maximum number of files; more were not written by hand.
const MOST_FILES: usize = 500;
/// The maximum number of files for an external parser.
const MOST_PARSED: usize = 40;
/// Larger files are not source code.
const LARGEST: u64 = 1 << 20;

/// The base for a repository before its first commit.
const NOTHING: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

pub(crate) fn check(root: &Path, scratch: &Path, since: Option<&str>) -> Finding {
    Finding::Hygiene { flaws: find_problems(root, scratch, since) }
}

/// The problems in what was added below `root` since that commit, or since the last one.
fn find_problems(root: &Path, scratch: &Path, since: Option<&str>) -> Vec<HygieneProblem> {
    let Ok(git) = Git::find(root, scratch) else { return Vec::new() };
    let mut found = FoundProblems::default();
    let last = GitHead::of(root).commit;
    let diff = git.sealed(PATIENCE).ok().and_then(|sealed| {
        [since, last.as_deref(), Some(NOTHING)].into_iter().flatten().find_map(|from| added_to(&sealed, from))
    });
    added::lines(&diff.unwrap_or_default(), &mut |line| found.add_line(line));
    for file in new_files(&git) {
        found.add_file(root, file);
    }
    found.flaws.extend(unparsable(root, scratch, &found.files));
    found.flaws.truncate(MOST_FLAWS);
    found.flaws
}

#[derive(Default)]
struct FoundProblems {
    flaws: Vec<HygieneProblem>,
    files: Vec<String>,
}

impl FoundProblems {
    fn add_line(&mut self, added::Added { file, number, line }: added::Added) {
        self.flaws.extend(hygiene::look(&file, number, &line));
        if self.files.last() != Some(&file) {
            self.files.push(file);
        }
    }

    fn add_file(&mut self, root: &Path, file: String) {
        let Some(text) = source(&root.join(&file)) else { return };
        let lines = text.lines().zip(1..);
        self.flaws.extend(lines.filter_map(|(line, number)| hygiene::look(&file, number, line)));
        self.files.push(file);
    }
}

fn added_to(git: &SealedGit<'_>, from: &str) -> Option<Vec<u8>> {
    let words = [
        "diff",
        "--unified=0",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--relative",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--ignore-submodules",
        from,
        "--",
    ];
    git.call(words, None, PATIENCE).ok()
}

fn new_files(git: &Git) -> Vec<String> {
    let listed = git.call(["ls-files", "-z", "--others", "--exclude-standard"], PATIENCE).unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.take(MOST_FILES).filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect()
}

/// Reads a text file that may be source code.
fn source(path: &Path) -> Option<String> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > LARGEST {
        return None;
    }
    String::from_utf8(fs::read(path).ok()?).ok().filter(|text| !text.contains('\0'))
}

/// The files that their language's parser rejects. Nothing is executed.
fn unparsable(root: &Path, scratch: &Path, files: &[String]) -> Vec<HygieneProblem> {
    let mut parsed = 0;
    let why = |file: &String| {
        let path = root.join(file);
        match file.rsplit_once('.').map(|(_, extension)| extension) {
            Some("json") => json_problem(&source(&path)?),
            Some(extension) => {
                let command = parser(extension, &path)?;
                source(&path)?;
                parsed += 1;
                if parsed <= MOST_PARSED { problem(command, scratch) } else { None }
            }
            None => None,
        }
        .map(|why| HygieneProblem {
            file: file.clone(),
            line: None,
            what: HygieneProblemKind::Unparsable { why },
        })
    };
    files.iter().filter_map(why).collect()
}

/// Allows comments and trailing commas, which are common in files for lenient tools.
fn json_problem(text: &str) -> Option<String> {
    let strict = serde_json::from_str::<IgnoredAny>(text);
    let lenient = || jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default());
    match (strict, lenient) {
        (Ok(_), _) => None,
        (Err(error), lenient) => lenient().is_err().then(|| error.to_string()),
    }
}

/// The program that parses this kind of file without running it, if installed.
fn parser(extension: &str, path: &Path) -> Option<Command> {
    let (program, arguments): (&str, &[&str]) = match extension {
        // Isolated: imports nothing from the repo.
        "py" => ("python3", &["-I", "-c", "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read())"]),
        "sh" | "bash" => ("bash", &["-n"]),
        // Other kinds may or may not be modules, or contain JSX.
        "mjs" | "cjs" => ("node", &["--check"]),
        _ => return None,
    };
    let folder = Path::new("/");
    env::is_program(program, folder).then(|| {
        let mut command = short_command::command(program);
        command.args(arguments).arg(path).current_dir(folder);
        command
    })
}

/// The parser's last message about a file it rejects.
fn problem(command: Command, scratch: &Path) -> Option<String> {
    let answer = short_command::run(command, None, scratch, PARSER_PATIENCE).ok()??;
    if answer.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&answer.stderr).into_owned();
    let informative =
        said.lines().map(str::trim).rev().find(|line| line.contains("rror") || line.contains("line "));
    Some(informative.unwrap_or("rejected by its parser").chars().take(200).collect())
}

#[cfg(test)]
mod tests;
