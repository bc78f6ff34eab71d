//! The part of a gate's output that explains a failure: error lines and the end, never just the head.

use std::collections::HashMap;
use std::ops::Range;

/// Words that mark a line as one that carries an error, in lower case.
const ERROR_WORDS: [&str; 16] = [
    "error",
    "fail",
    "panic",
    "assert",
    "expected",
    "exception",
    "traceback",
    "fatal",
    "not ok",
    "not found",
    "undefined",
    "cannot",
    "unexpected",
    "mismatch",
    "✗",
    "✕",
];

const GAP: &str = "…";

/// How many lines an error's block has at most, how many before it may be its title, and how many of its frames are kept.
const LONGEST_BLOCK: usize = 15;
const TITLE_LINES: usize = 2;
const MOST_FRAMES: usize = 3;

/// The same line is shown so often.
const MOST_REPEATS: usize = 2;

/// At most `limit` characters of `text`, chosen for information. All of it where it fits.
///
/// The end comes first: it is where most tools sum up. Then the first error with what belongs to it (later ones often follow
/// from it) and the last (where a tool stopped), then the errors between. Lines that repeat others, and those of tests that
/// passed, are left out.
pub fn excerpt(text: &str, limit: usize) -> String {
    let text = text.trim_matches('\n').trim_end();
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut useless = useless_lines(&lines);
    let blocks = error_blocks(&lines, &useless);
    drop_counters(&lines, &blocks, &mut useless);
    let mut chosen = Chosen { kept: vec![false; lines.len()], useless, left: limit };
    chosen.keep_from_the_end(&lines, limit / 3);
    if let [first, .., last] | [first @ last] = blocks.as_slice() {
        chosen.keep_block(&lines, first, limit / 3);
        chosen.keep_block(&lines, last, limit / 4);
    }
    for block in &blocks {
        chosen.keep_block(&lines, block, limit / 6);
    }
    chosen.keep_from_the_end(&lines, limit);
    let picked = chosen.join(&lines);
    if picked.is_empty() { last_characters(text, limit) } else { picked }
}

/// Lines that are not worth a place: those that say that a test passed, frames in dependencies, and the same line again.
fn useless_lines(lines: &[&str]) -> Vec<bool> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let is_blank = |at: usize| lines[at].trim().is_empty();
    let is_second_blank = |at: usize| at > 0 && is_blank(at) && is_blank(at - 1);
    let mut useless: Vec<bool> = (0..lines.len())
        .map(|at| is_second_blank(at) || tells_passed(lines[at]) || is_foreign_frame(lines[at]))
        .collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let count = seen.entry(line.trim()).or_default();
        *count += 1;
        useless[at] |= *count > MOST_REPEATS;
    }
    useless
}

/// Outside of errors, lines that differ only in their numbers are repeats too.
fn drop_counters(lines: &[&str], blocks: &[Range<usize>], useless: &mut [bool]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut blocks = blocks.iter().peekable();
    for (at, line) in lines.iter().enumerate() {
        while blocks.next_if(|block| block.end <= at).is_some() {}
        if line.trim().is_empty() || blocks.peek().is_some_and(|block| block.contains(&at)) {
            continue;
        }
        let count = seen.entry(without_digits(line)).or_default();
        *count += 1;
        useless[at] |= *count > MOST_REPEATS;
    }
}

fn without_digits(line: &str) -> String {
    line.trim().chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// `✓ name`, `ok 3 - name`, `name ... ok`, `name | PASS |`
fn tells_passed(line: &str) -> bool {
    let line = line.trim();
    let begins =
        ["✓ ", "✔ ", "√ ", "ok ", "PASS ", "PASS: ", "PASSED ", "[ OK ]", "[       OK ]", "[PASS]", "• "];
    let ends = ["... ok", " ... passed", "| PASS |", " PASSED", "[OK]", " ... OK"];
    begins.iter().any(|start| line.starts_with(start)) && !carries_error(line)
        || ends.iter().any(|end| line.ends_with(end))
}

/// Errors with their titles and what belongs to them, in order.
fn error_blocks(lines: &[&str], useless: &[bool]) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if useless[at] || !carries_error(lines[at]) {
            at += 1;
            continue;
        }
        let free_from = blocks.last().map_or(0, |block| block.end);
        let is_title = |line: usize| !lines[line].trim().is_empty() && !useless[line];
        let title =
            (free_from.max(at.saturating_sub(TITLE_LINES))..at).rev().take_while(|&line| is_title(line));
        let start = at - title.count();
        let end = end_of_block(lines, at);
        blocks.push(start..end);
        at = end;
    }
    blocks
}

/// A block goes on over one blank line if what follows is indented: it still belongs to the error above.
fn end_of_block(lines: &[&str], error: usize) -> usize {
    let is_blank = |line: usize| lines[line].trim().is_empty();
    let is_indented = |line: usize| lines.get(line).is_some_and(|line| line.starts_with([' ', '\t']));
    let mut end = error + 1;
    while end < lines.len() && end - error < LONGEST_BLOCK {
        if tells_passed(lines[end]) || is_blank(end) && !is_indented(end + 1) {
            break;
        }
        end += 1;
    }
    end
}

/// `at f (a.js:1:2)`, `from a.rb:3`, `#4 0x1 in f`: where the error came through.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let is_numbered =
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    line.starts_with("at ") || line.starts_with("from ") || is_numbered
}

/// A frame in a dependency says nothing about the project.
fn is_foreign_frame(line: &str) -> bool {
    let folders = ["node_modules/", "site-packages/", "node:internal/", "at <"];
    is_frame(line) && folders.iter().any(|folder| line.contains(folder))
}

struct Chosen {
    kept: Vec<bool>,
    useless: Vec<bool>,
    left: usize,
}

impl Chosen {
    /// A line with its line end and the gap marker before it.
    fn cost(line: &str) -> usize {
        line.chars().count() + 1 + GAP.len()
    }

    fn keep(&mut self, at: usize, line: &str) -> bool {
        if self.kept[at] {
            return true;
        }
        let cost = Self::cost(line);
        if cost > self.left {
            return false;
        }
        self.left -= cost;
        self.kept[at] = true;
        true
    }

    fn keep_from_the_end(&mut self, lines: &[&str], most: usize) {
        let mut used = 0;
        let is_last = |at: usize| at + 1 == lines.len();
        for (at, line) in lines.iter().enumerate().rev() {
            if self.useless[at] && !is_last(at) {
                continue;
            }
            used += Self::cost(line);
            if used > most || !self.keep(at, line) {
                return;
            }
        }
    }

    /// A block in at most so many characters; of its frames the first few.
    fn keep_block(&mut self, lines: &[&str], block: &Range<usize>, most: usize) {
        let (mut used, mut frames) = (0, 0);
        for at in block.clone() {
            frames += usize::from(is_frame(lines[at]) && !is_foreign_frame(lines[at]));
            if self.useless[at] || is_frame(lines[at]) && frames > MOST_FRAMES || is_foreign_frame(lines[at])
            {
                continue;
            }
            used += Self::cost(lines[at]);
            if used > most || !self.keep(at, lines[at]) {
                return;
            }
        }
    }

    fn join(&self, lines: &[&str]) -> String {
        let mut parts = Vec::new();
        let mut last_kept = None;
        for at in (0..lines.len()).filter(|&at| self.kept[at]) {
            if last_kept.map_or(at > 0, |last| last + 1 < at) {
                parts.push(GAP);
            }
            parts.push(lines[at]);
            last_kept = Some(at);
        }
        parts.join("\n")
    }
}

fn carries_error(line: &str) -> bool {
    let line = line.to_lowercase();
    !is_good_news(&line) && ERROR_WORDS.iter().any(|word| line.contains(word))
}

/// `0 errors`, `0 failed`; but not `10 failed`.
fn is_good_news(line: &str) -> bool {
    let counts_none = |word: &str| {
        line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_digit()))
    };
    ["0 error", "0 fail"].into_iter().any(counts_none)
        || ["no error", "errors: 0", "failed: 0", "failures: 0"].iter().any(|word| line.contains(word))
}

fn last_characters(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(limit.saturating_sub(1))).collect();
    format!("{GAP}{tail}")
}

#[cfg(test)]
mod recorded_tests;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_output_is_shown_whole() {
        assert_eq!(excerpt("\nall of it\n", 500), "all of it");
    }

    #[test]
    fn the_failing_test_at_the_end_is_not_cut_away() {
        let mut text = "banner of the test runner\n".repeat(100);
        text.push_str("test login ... FAILED\nexpected 200, found 500\n");
        let picked = excerpt(&text, 500);
        assert!(picked.contains("test login ... FAILED\nexpected 200, found 500"), "{picked}");
    }

    #[test]
    fn an_error_in_the_middle_is_found() {
        let mut text = "compiling a crate with a long name\n".repeat(60);
        text.push_str("error[E0308]: mismatched types\n --> src/lib.rs:7:5\n");
        text.push_str(&"compiling another crate with a name\n".repeat(60));
        let picked = excerpt(&text, 500);
        assert!(picked.contains("error[E0308]: mismatched types\n --> src/lib.rs:7:5"), "{picked}");
        assert!(picked.ends_with("compiling another crate with a name"), "{picked}");
    }

    #[test]
    fn one_endless_line_keeps_its_end() {
        let picked = excerpt(&format!("{}the end", "x".repeat(10_000)), 100);
        assert!(picked.starts_with('…') && picked.ends_with("the end"), "{picked}");
    }

    proptest! {
        #[test]
        fn never_longer_than_the_limit(text in "(.{0,40}\n){0,60}", limit in 50usize..600) {
            prop_assert!(excerpt(&text, limit).chars().count() <= limit);
        }
    }
}
