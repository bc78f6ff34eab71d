//! Plain English: expressions of a private dialect that must not come back, in code, names, messages and docs.

use std::fs;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

/// One regular expression in each line, for whole words in any case.
const EXPRESSIONS: &str = include_str!("wording/expressions.txt");

/// Texts of the source systems that are quoted word for word, and what names the expressions themselves.
const QUOTED: [(&str, &str); 1] = [("crates/ralph/tests/it/wording/", "the list itself")];

fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repo")
}

/// A blank may be an underscore of a name, or the end of a line with the mark of a comment after it.
fn matcher(expressions: &str) -> Regex {
    let any =
        expressions.lines().collect::<Vec<_>>().join("|").replace(' ', r"[\s_]+(?://[/!]?\s+|[>#*]\s+)?");
    let whole_words = format!(r"(?:\b|_)(?:{any})(?:\b|_)");
    RegexBuilder::new(&whole_words).case_insensitive(true).build().expect("each line is an expression")
}

/// Every text that people or agents read: sources, tests, docs and the plugin. What tools printed is theirs.
fn texts() -> Vec<(String, String)> {
    let root = repo();
    let mut texts = Vec::new();
    let mut paths: Vec<PathBuf> = ["crates", "docs", "plugin", "bench", "README.md", "ARCHITECTURE.md"]
        .into_iter()
        .chain(["CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md", "justfile", ".ci/run"])
        .map(|name| root.join(name))
        .collect();
    while let Some(path) = paths.pop() {
        let name = path.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
        if name.ends_with("recordings") || name.ends_with("corpus") || name.ends_with("fixtures") {
            continue;
        }
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            texts.push((name, text));
        }
    }
    texts
}

fn found_in(matcher: &Regex, name: &str, text: &str) -> Vec<String> {
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    let hits = matcher.find_iter(text);
    hits.map(|hit| format!("{name}:{}: {}", line_of(hit.start()), hit.as_str())).collect()
}

#[test]
fn no_text_uses_a_forbidden_expression() {
    let is_quoted = |name: &str| QUOTED.iter().any(|(prefix, _)| name.starts_with(prefix));
    let (texts, matcher) = (texts(), matcher(EXPRESSIONS));
    assert!(texts.len() > 300, "only {} texts were read", texts.len());
    let found: Vec<String> = texts
        .iter()
        .filter(|(name, _)| !is_quoted(name))
        .flat_map(|(name, text)| found_in(&matcher, name, text))
        .collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn an_expression_is_found_as_words_in_a_name_and_over_two_lines() {
    let matcher = matcher("red apple\npear(s|ed)?");
    let text = "/// One red\n/// apple.\nuse red_apple;\nPeared. redapple is another word, and spear too.\n";
    assert_eq!(found_in(&matcher, "a", text), ["a:1: red\n/// apple", "a:3: red_apple", "a:4: Peared"]);
}
