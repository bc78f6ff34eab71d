//! Places in source files, as tools print them: `src/lib.rs:12:5`, `at f (file:///app/a.js:3:9)`, `File "a.py", line 3`.

use super::text::has_source_extension;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourcePlace {
    pub(super) file: String,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

impl SourcePlace {
    pub(super) fn file(file: &str) -> Self {
        Self { file: tidy_path(file), line: None, column: None }
    }
}

/// `./a.go` and `file:///app/a.js` as plain paths.
pub(super) fn tidy_path(path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix("file://").unwrap_or(path);
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path.to_owned()
}

/// Reads `path:line[:column]` at the start of a text, and returns what follows. The path may have spaces.
pub(super) fn leading(text: &str) -> Option<(SourcePlace, &str)> {
    // The drive of a Windows path has a colon too.
    let drive = if text.get(1..3).is_some_and(|t| t == ":\\" || t == ":/") { 2 } else { 0 };
    let start = if text.starts_with("file://") { 7 } else { drive };
    let colon = text[start..]
        .match_indices(':')
        .map(|(at, _)| at + start)
        .find(|&at| starts_with_digit(&text[at + 1..]))?;
    let path = &text[..colon];
    if !is_path(path) {
        return None;
    }
    let (line, rest) = number(&text[colon + 1..])?;
    let (column, rest) = match rest.strip_prefix(':').and_then(number) {
        Some((column, rest)) => (Some(column), rest),
        None => (None, rest),
    };
    Some((SourcePlace { file: tidy_path(path), line: Some(line), column }, rest))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text.get(..digits)?.parse().ok()?, &text[digits..]))
}

fn is_path(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with(char::is_whitespace)
        && !path.contains(['"', '\'', '<', '>', '|', '\t', '`', '='])
        && path.len() < 500
}

/// The place in a stack frame, wherever in the line it stands.
pub(super) fn of_frame(line: &str) -> Option<SourcePlace> {
    let line = line.trim();
    if let Some(place) = python_frame(line) {
        return Some(place);
    }
    let inner = match line.strip_suffix(')').and_then(|line| line.rsplit_once('(')) {
        Some((_, inner)) => inner,
        None => line.rsplit_once(['❯', '@']).map_or(line, |(_, rest)| rest).trim(),
    };
    let inner = inner.strip_prefix("at ").unwrap_or(inner).trim();
    let inner = inner.strip_prefix("async ").unwrap_or(inner);
    // `❯ check src/a.test.js:19:26` names the function first.
    let last = inner.rsplit(' ').next().unwrap_or(inner);
    let place = [last, inner].into_iter().find_map(|text| {
        let (place, rest) = leading(text)?;
        (rest.is_empty() && has_source_extension(&place.file)).then_some(place)
    })?;
    Some(place)
}

/// `File "a.py", line 3, in f`
fn python_frame(line: &str) -> Option<SourcePlace> {
    let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, _) = number(rest)?;
    Some(SourcePlace { file: tidy_path(file), line: Some(line), column: None })
}

/// Whether two paths may mean the same file: one is the end of the other.
pub(super) fn same_file(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() >= other.len() { (one, other) } else { (other, one) };
    long.strip_suffix(short)
        .is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']) || short.starts_with('/'))
}

/// Whether a file is part of a dependency, the runner or the language, and not of the project.
pub(super) fn is_dependency(path: &str) -> bool {
    const FOLDERS: &[&str] = &[
        "node_modules/",
        "site-packages/",
        "dist-packages/",
        ".cargo/registry/",
        "/rustc/",
        "/rustlib/",
        "/gems/",
        "/vendor_ruby/",
        "/lib/ruby/",
        "/pkg/mod/",
        "/share/php/",
        "/phpunit/phpunit",
        "/.pnpm/",
        "/.yarn/",
        "/_pytest/",
        "/importlib/",
        "(ex_unit",
    ];
    const STARTS: &[&str] =
        &["node:", "internal/", "vendor/", "deps/", "<frozen ", "<anonymous>", "/usr/lib/", "/usr/local/go/"];
    let path = path.strip_prefix("file://").unwrap_or(path).trim_start_matches("./");
    STARTS.iter().any(|start| path.starts_with(start))
        || FOLDERS.iter().any(|folder| path.contains(folder))
        || is_in(path, "/lib/python3")
        || (is_in(path, "/go/src/") && path.contains("/usr/"))
}

fn is_in(path: &str, folder: &str) -> bool {
    path.contains(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, line: u32, column: Option<u32>) -> SourcePlace {
        SourcePlace { file: file.into(), line: Some(line), column }
    }

    #[test]
    fn places_at_the_start_of_a_line() {
        assert_eq!(leading("a.c:3:5: error"), Some((place("a.c", 3, Some(5)), ": error")));
        assert_eq!(leading("./a b.py:3: note"), Some((place("a b.py", 3, None), ": note")));
        assert_eq!(leading("C:\\a.cs:3"), Some((place("C:\\a.cs", 3, None), "")));
        assert_eq!(leading("no place"), None);
    }

    #[test]
    fn places_in_stack_frames() {
        let js = place("/p/a.test.mjs", 8, Some(14));
        assert_eq!(of_frame("    at T.<anonymous> (file:///p/a.test.mjs:8:14)"), Some(js));
        assert_eq!(of_frame(" ❯ check src/a.js:19:26"), Some(place("src/a.js", 19, Some(26))));
        assert_eq!(of_frame("  File \"/p/a.py\", line 3, in f"), Some(place("/p/a.py", 3, None)));
        assert_eq!(of_frame("    at node:internal/timers:483:21"), None);
    }

    #[test]
    fn files_are_the_same_by_their_ends() {
        assert!(same_file("/project/tests/a.py", "tests/a.py"));
        assert!(!same_file("/project/tests/ba.py", "a.py"));
    }
}
