//! The layout of both crates: every `use crate::` points down the list of rooms, and no modules depend on each other
//! in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the top: a room may use those below it.
const PROGRAM: [&str; 9] =
    ["doors", "loops", "checks", "forge", "clients", "show", "store", "work_tree", "sys"];
const CORE: [&str; 6] = ["say", "ledger", "claims", "config", "clients", "model"];

/// The text of every source file, by its module path.
type Sources = BTreeMap<Vec<String>, String>;

fn sources_of(crate_name: &str) -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(crate_name).join("src");
    let mut sources = Sources::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = path.strip_prefix(&root).expect("below").with_extension("");
                let module = module.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                sources.insert(module, fs::read_to_string(&path).expect("text"));
            }
        }
    }
    sources
}

/// Every path after `crate::` in a text, except in tests and comments.
fn used_paths(text: &str) -> Vec<Vec<String>> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    code.match_indices("crate::")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        .flat_map(|(at, word)| leaves(&code[at + word.len()..]))
        .collect()
}

/// The paths of a `use` tree: `a::{b, c::d}` are `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let (mut stack, mut path, mut name, mut found) = (Vec::new(), Vec::new(), String::new(), Vec::new());
    for c in tree.chars() {
        match c {
            c if c.is_alphanumeric() || c == '_' => name.push(c),
            ':' if !name.is_empty() => path.push(std::mem::take(&mut name)),
            ':' => {}
            '{' => stack.push(path.clone()),
            ',' | '}' if !stack.is_empty() => {
                if !name.is_empty() {
                    path.push(std::mem::take(&mut name));
                    found.push(path.clone());
                }
                path.clone_from(stack.last().expect("it is not empty"));
                if c == '}' {
                    stack.pop();
                    if stack.is_empty() {
                        return found;
                    }
                    path.clone_from(stack.last().expect("it is not empty"));
                }
            }
            c if c.is_whitespace() && !stack.is_empty() => {}
            _ => break,
        }
    }
    path.push(name);
    found.push(path);
    found
}

/// The problems of the layout.
fn problems(sources: &Sources, rooms: &[&str]) -> Vec<String> {
    let level = |room: &String| rooms.iter().position(|name| name == room);
    let is_module = |path: &[String]| sources.contains_key(path);
    let (mut problems, mut uses) = (Vec::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for (module, text) in sources {
        let Some(own) = module.first().and_then(level) else { continue };
        if module.iter().any(|part| part == "tests") {
            continue;
        }
        for path in used_paths(text) {
            let length = (1..=path.len()).rev().find(|length| is_module(&path[..*length]));
            let Some(used) = length.map(|length| &path[..length]) else { continue };
            if used.first().and_then(level).is_some_and(|used| used < own) {
                problems.push(format!("{} uses {}, which is above it", module.join("::"), used.join("::")));
            }
            if let ([room, part, ..], [used_room, used_part, ..]) = (module.as_slice(), used) {
                uses.entry(format!("{room}::{part}"))
                    .or_default()
                    .insert(format!("{used_room}::{used_part}"));
            }
        }
    }
    problems.extend(
        uses.keys()
            .filter(|module| reaches_itself(module, &uses))
            .map(|module| format!("{module} is part of a ring")),
    );
    problems
}

fn reaches_itself(module: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> bool {
    let used_by = |name: &str| -> Vec<String> {
        uses.get(name).into_iter().flatten().filter(|used| *used != name).cloned().collect()
    };
    let (mut seen, mut open) = (BTreeSet::new(), used_by(module));
    while let Some(next) = open.pop() {
        if next == module {
            return true;
        }
        if seen.insert(next.clone()) {
            open.extend(used_by(&next));
        }
    }
    false
}

#[test]
fn every_dependency_points_down_the_list_of_rooms_without_a_cycle() {
    for (crate_name, rooms) in [("ralph", &PROGRAM[..]), ("ralph-core", &CORE[..])] {
        let sources = sources_of(crate_name);
        let is_room = |module: &Vec<String>| module.len() == 1 && rooms.contains(&module[0].as_str());
        assert_eq!(sources.keys().filter(|module| is_room(module)).count(), rooms.len(), "{crate_name}");
        let alone: Vec<_> = sources.keys().filter(|module| module.len() == 1 && !is_room(module)).collect();
        assert!(alone.iter().all(|module| ["lib", "main"].contains(&module[0].as_str())), "{alone:?}");
        assert_eq!(problems(&sources, rooms), Vec::<String>::new(), "{crate_name}");
    }
}

#[test]
fn a_reversed_dependency_and_a_cycle_are_found() {
    let sources = |texts: &[(&str, &str)]| -> Sources {
        let rooms = PROGRAM.iter().map(|room| (*room, ""));
        rooms
            .chain(texts.iter().copied())
            .map(|(path, text)| (path.split("::").map(str::to_owned).collect(), text.to_owned()))
            .collect()
    };
    let right = sources(&[
        ("loops::judge", "use crate::store::{ledger::{self, Loop}, trust};\nuse crate::sys::clock;"),
        ("store::ledger", "// crate::loops::judge is above\nuse crate::sys::clock;"),
        ("store::trust", "fn now() { crate::sys::clock::now(); }"),
        ("sys::clock", "#[cfg(test)]\nmod tests {\n    use crate::doors::hook;\n}"),
        ("doors::hook", ""),
    ]);
    assert_eq!(problems(&right, &PROGRAM), Vec::<String>::new());
    let mut turned = right.clone();
    turned.insert(vec!["sys".into(), "clock".into()], "use crate::{show::exit, store::trust};".into());
    let found = problems(&turned, &PROGRAM);
    assert!(found.contains(&"sys::clock uses store::trust, which is above it".to_owned()), "{found:?}");
    assert!(found.contains(&"store::trust is part of a ring".to_owned()), "{found:?}");
    let mut ring = right;
    ring.insert(vec!["store".into(), "trust".into()], "use crate::store::ledger::Loop;".into());
    ring.insert(vec!["store".into(), "ledger".into()], "use crate::store::trust;".into());
    assert_eq!(
        problems(&ring, &PROGRAM),
        ["store::ledger is part of a ring", "store::trust is part of a ring"]
    );
}
