//! What a runner prints about a failing test, made short: frames inside dependencies dropped, values kept.

use super::place::{is_dependency, of_frame};
use super::text::{indent, is_blank};

/// Longer details keep their head, their tail, and the lines with expected and actual values.
const MOST_CHARACTERS: usize = 4_000;
const LONGEST_LINE: usize = 600;
pub(super) const LONGEST_MESSAGE: usize = 400;

/// The lines of a block as a detail.
pub(super) fn of(lines: &[&str]) -> String {
    let kept = without_dependency_frames(lines);
    let margin = kept.iter().filter(|line| !is_blank(line)).map(|line| indent(line)).min().unwrap_or(0);
    let mut tidy: Vec<String> = Vec::with_capacity(kept.len());
    for line in kept {
        let line = shortened(line.get(margin..).unwrap_or("").trim_end(), LONGEST_LINE);
        // One blank line is as good as several.
        if !line.is_empty() || tidy.last().is_some_and(|last| !last.is_empty()) {
            tidy.push(line);
        }
    }
    while tidy.last().is_some_and(String::is_empty) {
        tidy.pop();
    }
    bounded(&tidy, MOST_CHARACTERS)
}

/// A message of one line: its parts, trimmed and joined.
pub(super) fn message<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut message = String::new();
    for part in parts {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        if !message.is_empty() {
            message.push_str(if message.ends_with(':') { " " } else { "; " });
        }
        message.push_str(part);
    }
    shortened(&message, LONGEST_MESSAGE)
}

pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

pub(super) fn bounded(lines: &[String], most: usize) -> String {
    let length: usize = lines.iter().map(|line| line.chars().count() + 1).sum();
    if length <= most {
        return lines.join("\n");
    }
    let mut kept = vec![false; lines.len()];
    let mut left = most;
    let mut keep = |at: usize, kept: &mut Vec<bool>| {
        let cost = lines[at].chars().count() + 1;
        let fits = kept[at] || cost <= left;
        if !kept[at] && fits {
            left -= cost;
            kept[at] = true;
        }
        fits
    };
    // The first words, then the values, then as much of both ends as fits.
    (0..lines.len().min(5)).for_each(|at| {
        keep(at, &mut kept);
    });
    (0..lines.len()).filter(|&at| tells_value(&lines[at])).take(20).for_each(|at| {
        keep(at, &mut kept);
    });
    let mut at = 0;
    while at < lines.len()
        && keep(at, &mut kept)
        && kept.iter().filter(|kept| **kept).count() < lines.len() / 2
    {
        at += 1;
    }
    let mut at = lines.len();
    while at > 0 && keep(at - 1, &mut kept) {
        at -= 1;
    }
    let mut parts: Vec<&str> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if kept[at] {
            parts.push(line);
        } else if parts.last() != Some(&"…") {
            parts.push("…");
        }
    }
    parts.join("\n")
}

/// Whether a line names an expected or actual value.
pub(super) fn tells_value(line: &str) -> bool {
    const WORDS: &[&str] =
        &["expected", "actual", "received", "left:", "right:", "got:", "want:", "!=", "=="];
    let line = line.to_lowercase();
    WORDS.iter().any(|word| line.contains(word))
}

fn without_dependency_frames<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        let dropped = frame_to_drop(&lines[at..]);
        if dropped == 0 {
            kept.push(lines[at]);
        }
        at += dropped.max(1);
    }
    kept
}

/// How many lines the dependency's frame at the start has; 0 if there is none.
fn frame_to_drop(lines: &[&str]) -> usize {
    let line = lines[0].trim_start();
    if let Some(path) = line.strip_prefix("File \"").and_then(|rest| rest.split('"').next()) {
        // Python shows the source line and its marks below the frame.
        let shown =
            lines[1..].iter().take(3).take_while(|next| indent(next) > indent(lines[0]) && !is_blank(next));
        return if is_dependency(path) { 1 + shown.count() } else { 0 };
    }
    if is_rust_frame(line) {
        let place = lines.get(1).and_then(|next| next.trim_start().strip_prefix("at "));
        let is_foreign = place.map_or_else(|| is_rust_library(line), is_dependency);
        return if is_foreign { 1 + usize::from(place.is_some()) } else { 0 };
    }
    if line.starts_with("stack backtrace:") || line.starts_with("note: run with `RUST_BACKTRACE") {
        return 1;
    }
    if line.starts_with("note: Some details are omitted, run with `RUST_BACKTRACE") {
        return 1;
    }
    usize::from(is_dependency_frame(line))
}

/// `  3: shop::discount`
fn is_rust_frame(line: &str) -> bool {
    line.split_once(": ")
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn is_rust_library(line: &str) -> bool {
    const CRATES: &[&str] =
        &["std::", "core::", "alloc::", "test::", "__rust", "rust_begin", "_start", "__libc", "main", "<"];
    line.split_once(": ").is_some_and(|(_, name)| CRATES.iter().any(|start| name.starts_with(start)))
}

fn is_dependency_frame(line: &str) -> bool {
    let is_anonymous = ["(<anonymous>)", "(native)", "(index 0)"].iter().any(|end| line.ends_with(end));
    let line = line.trim_end_matches([' ', '{']);
    if let Some(place) = line.strip_prefix("at ").or_else(|| line.strip_prefix("❯ ")) {
        let inside = place
            .strip_suffix(')')
            .and_then(|place| place.rsplit_once('('))
            .map_or(place, |(_, inside)| inside);
        return is_anonymous || is_library_frame(place) || is_dependency(inside.trim_start_matches("async "));
    }
    // Frames without a mark: TAP's `stack:` and Ruby's `from`.
    let bare = line.strip_prefix("from ").or_else(|| line.strip_prefix("# ")).unwrap_or(line);
    let inside =
        bare.strip_suffix(')').and_then(|bare| bare.rsplit_once('(')).map_or(bare, |(_, inside)| inside);
    let looks_like_frame = of_frame(bare).is_some() || inside.starts_with("node:") || bare.contains(":in `");
    (is_anonymous && !bare.contains("at ")) || (looks_like_frame && is_dependency(inside))
}

/// `at app//org.junit.jupiter.api.AssertEquals.fail(AssertEquals.java:197)`: by the package, since the file has no folder.
fn is_library_frame(place: &str) -> bool {
    const PACKAGES: &[&str] = &[
        "java.",
        "javax.",
        "jdk.",
        "sun.",
        "org.junit.",
        "junit.",
        "org.opentest4j.",
        "org.hamcrest.",
        "org.assertj.",
        "org.gradle.",
        "org.apache.maven.",
        "org.testng.",
        "kotlin.",
        "scala.",
        "Xunit.",
        "NUnit.",
        "System.",
        "Microsoft.",
    ];
    let name = place.split_once('/').map_or(place, |(_, name)| name.trim_start_matches('/'));
    [place, name].iter().any(|name| PACKAGES.iter().any(|package| name.starts_with(package)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_dependencies_are_dropped() {
        let lines = [
            "Error: takes 50 %",
            "    at Test.equal (/app/node_modules/tape/lib/test.js:734:7)",
            "    at Test.<anonymous> (/app/test/discount.js:5:5)",
            "    at process.processImmediate (node:internal/timers:483:21)",
        ];
        assert_eq!(of(&lines), "Error: takes 50 %\n    at Test.<anonymous> (/app/test/discount.js:5:5)");
    }

    #[test]
    fn the_values_survive_in_a_long_detail() {
        let filler = ["    some line of a long output that says little"; 400];
        let lines = [&["Error"][..], &filler, &["    expected: 100", "    actual:   180"], &filler].concat();
        let detail = of(&lines);
        assert!(detail.contains("expected: 100\n") && detail.contains("actual:   180\n"), "{detail}");
        assert!(detail.chars().count() <= MOST_CHARACTERS + 100, "{}", detail.len());
    }
}
