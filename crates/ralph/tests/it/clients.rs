//! A client is a value: no code outside the `clients/` folders and their lists names one. Tests may, and the files below
//! for the reason beside each.

use std::fs;
use std::path::{Path, PathBuf};

/// The first client that the program supported.
const NAMED: &str = "claude";

/// Files that name it, from `crates/`, and why.
const EXCEPTIONS: [(&str, &str); 3] = [
    ("ralph/src/clients.rs", "declares the client's module"),
    ("ralph-core/src/clients.rs", "declares the client's module"),
    ("ralph/src/store/exports/prescribed_paths.rs", "paths that the source systems prescribe"),
];

#[test]
fn no_code_outside_of_clients_names_a_client() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/").to_owned();
    let (mut named, mut excused, mut read) = (Vec::new(), Vec::new(), 0);
    for file in ["ralph/src", "ralph-core/src"].iter().flat_map(|folder| rust_files(&crates.join(folder))) {
        let path = file.strip_prefix(&crates).expect("below crates/").display().to_string();
        if path.contains("/clients/") || is_for_tests(&file) {
            continue;
        }
        read += 1;
        let text = fs::read_to_string(&file).expect("a source file");
        let lines = (1..).zip(without_tests(&text).lines());
        let naming: Vec<String> = lines
            .filter(|(_, line)| line.to_lowercase().contains(NAMED))
            .map(|(number, line)| format!("{path}:{number}: {}", line.trim()))
            .collect();
        match EXCEPTIONS.iter().find(|(excepted, _)| *excepted == path) {
            Some((excepted, _)) if !naming.is_empty() => excused.push(*excepted),
            _ => named.extend(naming),
        }
    }
    assert!(read > 100, "only {read} files were read");
    assert!(
        named.is_empty(),
        "these belong into `clients/`, or take the client as a value:\n{}",
        named.join("\n")
    );
    for (excepted, why) in EXCEPTIONS {
        assert!(excused.contains(&excepted), "{excepted} is not an exception any more ({why})");
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let of = |path: PathBuf| match path.is_dir() {
        true => rust_files(&path),
        false => vec![path],
    };
    entries.flat_map(of).filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Whether the module is declared under `#[cfg(test)]` by the one above it.
fn is_for_tests(file: &Path) -> bool {
    let name = file.file_stem().expect("a name").to_string_lossy();
    let parent = file.parent().expect("a folder").with_extension("rs");
    let declared = fs::read_to_string(parent).unwrap_or_default();
    let lines: Vec<&str> = declared.lines().map(str::trim).collect();
    let declares = |line: &str| line.ends_with(&format!("mod {name};"));
    lines.windows(2).any(|pair| pair[0] == "#[cfg(test)]" && declares(pair[1]))
}

/// The file up to the tests at its end.
fn without_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod ").map_or(text, |(code, _)| code)
}

#[test]
fn test_code_is_distinguished_from_program_code() {
    assert_eq!(without_tests("code\n\n#[cfg(test)]\nmod tests {\n    x\n}\n"), "code\n");
    assert_eq!(
        without_tests("code\n#[cfg(test)]\nfn helper() {}\ncode\n"),
        "code\n#[cfg(test)]\nfn helper() {}\ncode\n"
    );
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(is_for_tests(&source.join("checks/hygiene/tests.rs")));
    assert!(!is_for_tests(&source.join("checks/hygiene.rs")));
}
