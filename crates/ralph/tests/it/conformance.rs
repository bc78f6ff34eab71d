//! `docs/conformance.md` names every requirement, and every test it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/conformance.md")).expect("the page")
}

/// The id and the last cell of every row of the tables.
fn rows(page: &str) -> Vec<(String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    page.lines()
        .filter(|line| line.starts_with("| S"))
        .map(|line| {
            let cells = cells(line);
            assert_eq!(cells.len(), 3, "{line}");
            assert!(!cells[1].is_empty(), "{line}");
            (cells[0].trim_end_matches('†').trim().to_owned(), cells[2].clone())
        })
        .collect()
}

/// Every `file::test` in backticks.
fn named_tests(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).map(str::to_owned).collect()
}

/// `file::function` of every function below `crates`.
fn functions(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("source");
            for line in text.lines().map(str::trim_start).filter_map(|line| line.strip_prefix("fn ")) {
                let name = line.split(['(', '<']).next().unwrap_or_default();
                found.insert(format!("{file}::{name}"));
            }
        }
    }
}

#[test]
fn every_requirement_has_its_row_and_at_least_one_test() {
    let rows = rows(&page());
    let ids: Vec<&str> = rows.iter().map(|(id, _)| id.as_str()).collect();
    let expected: Vec<String> = (1..=22)
        .map(|number| format!("S0-R{number}"))
        .chain((1..=18).map(|number| format!("S1-R{number}")))
        .chain((1..=14).map(|number| format!("S2-R{number}")))
        .chain((1..=18).map(|number| format!("S3-R{number}")))
        .chain((1..=9).chain(12..=17).map(|number| format!("S4-R{number}")))
        .collect();
    assert_eq!(ids, expected);
    for (id, tests) in &rows {
        assert!(!named_tests(tests).is_empty(), "{id} names no test");
    }
}

#[test]
fn every_named_test_exists() {
    let mut found = BTreeSet::new();
    functions(&root().join("crates"), &mut found);
    let named = named_tests(&page());
    assert!(named.len() > 30, "the page is read: {named:?}");
    let missing: Vec<&String> = named.iter().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "there is no such test: {missing:#?}");
}

#[test]
fn every_marked_deviation_is_explained() {
    let page = page();
    let marked: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" † |"))
        .map(|(id, _)| id)
        .collect();
    assert!(marked.len() >= 5, "{marked:?}");
    for id in marked {
        assert!(page.contains(&format!("- **{id}**:")), "{id} is marked and not explained");
    }
}
