//! One type name, one meaning: a name that other modules can see is declared once in the whole workspace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that are declared more than once, each with its reason.
const SHARED: [(&str, &str); 3] = [
    ("Arguments", "clap: the arguments of the program and of each subcommand, always used in their own file"),
    ("Buffer", "the same type for two operating systems; only one of them is compiled"),
    ("Process", "the same type for two operating systems; only one of them is compiled"),
];

/// Where each name is declared.
type Declarations = BTreeMap<String, Vec<String>>;

fn declared_in(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let declaration = |line: &str| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let at = words.iter().position(|word| ["struct", "enum", "trait", "type"].contains(word))?;
        let is_visible = line.trim_start().starts_with("pub ") || line.trim_start().starts_with("pub(");
        is_visible.then(|| words.get(at + 1).map(|name| (*name).to_owned()))?
    };
    code.lines().filter_map(declaration).collect()
}

fn declarations() -> Declarations {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repo");
    let mut found = Declarations::new();
    let folders = ["crates/ralph/src", "crates/ralph-core/src", "crates/ralph-testkit/src", "bench/src"];
    let mut paths: Vec<PathBuf> = folders.map(|folder| root.join(folder)).into();
    while let Some(path) = paths.pop() {
        let is_test = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("tests.rs"));
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).expect("a folder").flatten().map(|entry| entry.path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            let file = path.strip_prefix(&root).expect("below").to_string_lossy().into_owned();
            for name in declared_in(&fs::read_to_string(&path).expect("text")) {
                found.entry(name).or_default().push(file.clone());
            }
        }
    }
    found
}

#[test]
fn a_visible_type_name_is_declared_once() {
    let found = declarations();
    assert!(found.len() > 250, "only {} names were found", found.len());
    let twice: Declarations = found.into_iter().filter(|(_, files)| files.len() > 1).collect();
    let unexplained: Declarations = twice
        .clone()
        .into_iter()
        .filter(|(name, _)| SHARED.iter().all(|(shared, _)| shared != name))
        .collect();
    assert_eq!(unexplained, Declarations::new());
    for (name, reason) in SHARED {
        assert!(twice.contains_key(name), "`{name}` is declared once now; take it out ({reason})");
    }
    assert!(SHARED.len() <= 10);
}

#[test]
fn declarations_are_read_as_they_are_written() {
    let text = "pub struct A {\n    pub(crate) enum B<'a> {\nstruct Hidden;\npub(super) type C = u8;\n#[cfg(test)]\nmod tests {\npub struct D;\n";
    assert_eq!(declared_in(text), ["A", "B", "C"]);
}
