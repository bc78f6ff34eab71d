//! The part of a gate's output that says what is wrong: the lines that carry errors and the end, never just the head.

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

/// At most `limit` characters of `text`, chosen for information. All of it where it fits.
pub fn excerpt(text: &str, limit: usize) -> String {
    let text = text.trim_matches('\n').trim_end();
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut chosen = Chosen { kept: vec![false; lines.len()], left: limit };
    // The end comes first: it is where most runners sum up. It may take half, the errors the rest, the end what is left.
    chosen.keep_from_the_end(&lines, limit / 2);
    chosen.keep_errors(&lines);
    chosen.keep_from_the_end(&lines, limit);
    let picked = chosen.join(&lines);
    if picked.is_empty() { last_characters(text, limit) } else { picked }
}

struct Chosen {
    kept: Vec<bool>,
    left: usize,
}

impl Chosen {
    /// A line costs itself, its line end, and the mark of a gap before it.
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
        for (at, line) in lines.iter().enumerate().rev() {
            used += Self::cost(line);
            if used > most || !self.keep(at, line) {
                return;
            }
        }
    }

    fn keep_errors(&mut self, lines: &[&str]) {
        let errors = lines.iter().enumerate().filter(|(_, line)| carries_error(line));
        for (at, line) in errors {
            if !self.keep(at, line) {
                continue;
            }
            // What follows an error usually says what was expected and where.
            for (next, line) in lines.iter().enumerate().skip(at + 1).take(2) {
                self.keep(next, line);
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
    // "0 errors", "0 failed" are good news.
    let good_news =
        ["0 error", "0 fail", "no error", "errors: 0", "failed: 0"].iter().any(|word| line.contains(word));
    !good_news && ERROR_WORDS.iter().any(|word| line.contains(word))
}

fn last_characters(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(limit.saturating_sub(1))).collect();
    format!("{GAP}{tail}")
}

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
