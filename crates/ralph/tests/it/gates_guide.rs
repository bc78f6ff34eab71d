//! `docs/gates.md`: the feedback it shows is what the real binary prints for recordings of real tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::claims::results;
use ralph_core::model::gate::{GateOutcome, GateReport};
use ralph_core::model::id::GateName;
use ralph_core::say::failures;

use ralph_testkit::Sandbox;

const GUIDE: &str = "../../docs/gates.md";
const RECORDED: &str = "../ralph-core/src/claims/results/recorded";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn recorded(name: &str) -> String {
    fs::read_to_string(file(RECORDED).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares a section of the guide, or writes it: `RALPH_BLESS=1 cargo test -p ralph --test it gates_guide`.
fn keep(section: &str, text: &str) {
    let page = fs::read_to_string(file(GUIDE)).expect("the guide");
    let begin =
        format!("<!-- {section}: written by `RALPH_BLESS=1 cargo test -p ralph --test it gates_guide` -->\n");
    let end = format!("<!-- end of {section} -->\n");
    let (before, rest) = page.split_once(&begin).expect("where the section begins");
    let (there, after) = rest.split_once(&end).expect("where the section ends");
    if std::env::var_os("RALPH_BLESS").is_some() {
        fs::write(file(GUIDE), [before, &begin, text, &end, after].concat()).expect("written");
    } else {
        assert_eq!(there, text, "run it once with RALPH_BLESS=1");
    }
}

#[test]
fn the_gates_guide_shows_the_real_feedback_and_its_length() {
    keep("feedback", &feedback());
    keep("table", &table());
}

fn feedback() -> String {
    let sandbox = Sandbox::new();
    sandbox.file("printed.txt", &recorded("mocha/twelve_failures.txt"));
    sandbox.file("ralph.yaml", "verify:\n  - { name: test, run: cat printed.txt; exit 12 }\n");
    sandbox.trust();
    let mut text = String::from("```text\n");
    text.push_str(&foreign_text(&sandbox));
    sandbox.file("printed.txt", &recorded("mocha/one_failure.txt"));
    text.push_str("```\n\nand, when most of them are fixed:\n\n```text\n");
    text.push_str(&foreign_text(&sandbox));
    text.push_str("```\n");
    text
}

/// The text between the marks of foreign text.
fn foreign_text(sandbox: &Sandbox) -> String {
    let (_, detail) = sandbox.stop("check").answer().blocked();
    let foreign_text = detail.split_once("not instructions)\n").expect("a frame").1;
    let foreign_text = foreign_text.split_once("\n</untrusted-output>").expect("its end").0;
    format!("{foreign_text}\n").lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn table() -> String {
    let mut rows = vec![
        "| tool | failures | told (characters) | raw tail (characters) |".to_owned(),
        "| --- | ---: | ---: | ---: |".to_owned(),
    ];
    let mut tools: Vec<PathBuf> =
        fs::read_dir(file(RECORDED)).expect("recordings").flatten().map(|entry| entry.path()).collect();
    tools.sort();
    for tool in tools {
        let case = ["twelve_failures.txt", "many.txt"].map(|case| tool.join(case));
        let Some(case) = case.iter().find(|case| case.exists()) else { continue };
        let output = fs::read_to_string(case).expect("a recording");
        let name = tool.file_name().expect("a name").to_string_lossy().into_owned();
        rows.push(row(&name, &output));
    }
    format!("{}\n", rows.join("\n"))
}

fn row(tool: &str, output: &str) -> String {
    let kept = results::read(output).map(|read| read.kept(false, str::to_owned));
    let report = GateReport {
        gate: GateName::new("test"),
        run: "make".into(),
        outcome: GateOutcome::Failed { code: 1 },
        advisory: false,
        took: Duration::from_secs(1),
        runs: 1,
        log: None,
        excerpt: String::new(),
        results: kept,
        changed: Vec::new(),
    };
    let foreign_text = failures::shown(&report).chars().count();
    assert!(foreign_text <= 6_000, "{tool}: {foreign_text}");
    let failures = report.failures();
    format!("| {tool} | {} | {foreign_text} | {} |", failures.len(), raw_tail(&report, output))
}

/// The shortest end of an output in which every failure's message begins; each is looked for by its first words.
fn raw_tail(report: &GateReport, output: &str) -> usize {
    let begins = |text: &str| {
        let start: String = text.chars().take(16).collect();
        output.rfind(start.trim())
    };
    let failures = report.failures();
    let from = failures.iter().filter_map(|failure| begins(failure.message)).min().unwrap_or(0);
    output[from..].chars().count()
}
