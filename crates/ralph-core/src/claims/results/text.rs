//! Output on its way to the readers: bounded, without escapes, and one list of lines for each program that printed it.

use crate::model::foreign_text::without_escapes;
use std::collections::HashMap;

/// More than this is not read: the head says which tools ran, the tail how they ended.
pub(super) const MOST_BYTES: usize = 3 << 20;

/// A list of lines costs memory for each of them, however short they are.
const MOST_LINES: usize = 60_000;

/// The part of a limit that is spent on the head.
const HEAD_PART: usize = 4;

/// A report cannot be read from its tail; one this long has tens of thousands of tests.
const MOST_BYTES_OF_REPORT: usize = 8 << 20;

/// Plain text: colours and cursor movements removed, overwritten progress dropped.
pub(super) fn plain(text: &str) -> String {
    without_escapes(text)
}

/// The start of a report, and whether its end is left out.
pub(super) fn bounded_report(report: &str) -> (&str, bool) {
    if report.len() <= MOST_BYTES_OF_REPORT {
        return (report, false);
    }
    (&report[..report.floor_char_boundary(MOST_BYTES_OF_REPORT)], true)
}

/// An output as lines, one list for each program that printed under a prefix of its own.
pub(super) struct Streams {
    text: String,
    lines: usize,
    /// Whether the middle is left out.
    pub(super) partial: bool,
}

impl Streams {
    pub(super) fn of(output: &str) -> Self {
        if output.len() <= MOST_BYTES {
            return Self::new(plain(output), false);
        }
        let head = &output[..output.floor_char_boundary(MOST_BYTES / HEAD_PART)];
        let tail = &output[output.ceil_char_boundary(output.len() - (MOST_BYTES - MOST_BYTES / HEAD_PART))..];
        // Cut at line ends, so that no half of a line is taken for a whole one.
        let head = head.rfind('\n').map_or("", |end| &head[..=end]);
        let tail = tail.find('\n').map_or("", |end| &tail[end + 1..]);
        let mut text = plain(head);
        text.push_str(&plain(tail));
        Self::new(text, true)
    }

    fn new(text: String, partial: bool) -> Self {
        let lines = text.lines().count();
        Self { text, lines, partial: partial || lines > MOST_LINES }
    }

    /// Those without a prefix, and of each prefix those that have it.
    pub(super) fn lists(&self) -> Vec<Vec<&str>> {
        let (head, tail) = match self.lines > MOST_LINES {
            true => (MOST_LINES / HEAD_PART, self.lines - (MOST_LINES - MOST_LINES / HEAD_PART)),
            false => (self.lines, self.lines),
        };
        let chosen = self.text.lines().enumerate().filter(|(at, _)| *at < head || *at >= tail);
        split_by_prefix(chosen.map(|(_, line)| without_log_prefix(line)).collect())
    }
}

/// Removes what CI systems put before each line: `2024-01-01T00:00:00.0000000Z `, also after `job\tstep\t`.
fn without_log_prefix(line: &str) -> &str {
    let line = line.trim_end();
    let candidate = match line.splitn(3, '\t').collect::<Vec<_>>()[..] {
        [_, _, rest] if starts_with_timestamp(rest) => rest,
        _ => line,
    };
    if !starts_with_timestamp(candidate) {
        return without_marker(line);
    }
    let rest = candidate.split_once(['Z', ' ']).map_or("", |(_, rest)| rest);
    without_marker(rest.strip_prefix(' ').unwrap_or(rest))
}

/// `2024-01-01T00:00:00`, as the start of a longer stamp.
fn starts_with_timestamp(line: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let stamp = line.as_bytes();
    stamp.len() > shape.len()
        && shape.iter().zip(stamp).all(
            |(&shape, &byte)| {
                if shape == b'd' { byte.is_ascii_digit() } else { shape == byte }
            },
        )
}

/// `##[error]` and the like mark a line for the CI system.
fn without_marker(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("##[") else { return line };
    rest.split_once(']').map_or(line, |(_, rest)| rest)
}

/// A prefix that fewer lines have is part of the text.
const FEWEST_PREFIXED: usize = 3;

fn split_by_prefix(lines: Vec<&str>) -> Vec<Vec<&str>> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in &lines {
        if let Some(prefix) = prefix_of(line) {
            *counts.entry(prefix).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= FEWEST_PREFIXED);
    if counts.is_empty() {
        return vec![lines];
    }
    let mut order: Vec<&str> = Vec::new();
    let mut streams: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in lines {
        let prefix = prefix_of(line).filter(|prefix| counts.contains_key(prefix)).unwrap_or("");
        let stream = streams.entry(prefix).or_insert_with(|| {
            order.push(prefix);
            Vec::new()
        });
        let rest = &line[prefix.len()..];
        stream.push(rest.strip_prefix(' ').filter(|_| !prefix.is_empty()).unwrap_or(rest));
    }
    order.iter().filter_map(|prefix| streams.remove(prefix)).collect()
}

/// The prefix of a monorepo tool, with its last mark: `web:test:` (turbo), `packages/web test:` (pnpm), `[web]:` (yarn),
/// `[0]` (concurrently), `web-1  |` (compose).
fn prefix_of(line: &str) -> Option<&str> {
    let first = line.split(' ').next()?;
    if let Some(name) = first.strip_suffix(':') {
        let is_bracketed = name.starts_with('[') && name.ends_with(']') && is_name(&name[1..name.len() - 1]);
        let (package, task) = name.split_once(':').unwrap_or((name, ""));
        let is_task = is_name(package) && !task.is_empty() && task.split(':').all(is_task_name);
        return (is_bracketed || is_task).then_some(first);
    }
    if first.len() > 2
        && first.starts_with('[')
        && first.ends_with(']')
        && is_name(&first[1..first.len() - 1])
    {
        return Some(first);
    }
    if !is_name(first) {
        return None;
    }
    let rest = &line[first.len()..];
    let second = rest.trim_start();
    if second.starts_with("| ") || second == "|" {
        return Some(&line[..line.len() - second.len() + 1]);
    }
    let word = rest.strip_prefix(' ')?.split(' ').next()?;
    let is_script = word.strip_suffix(':').is_some_and(is_task_name) && first.contains(['/', '@', '.']);
    is_script.then(|| &line[..first.len() + 1 + word.len()])
}

/// The name of a package or its folder; a file's name has an extension and is none.
fn is_name(text: &str) -> bool {
    let looks_right = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"@/._-".contains(&b));
    looks_right && !text.is_empty() && !has_source_extension(text)
}

fn is_task_name(text: &str) -> bool {
    let looks_right = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-#".contains(&b));
    looks_right && text.bytes().any(|b| b.is_ascii_alphabetic())
}

/// Whether a path ends as source files do. `web.1` and `app.web` are names of processes.
pub(super) fn has_source_extension(path: &str) -> bool {
    const EXTENSIONS: &[&str] = &[
        "astro", "bash", "c", "cc", "cfg", "cjs", "clj", "cpp", "cs", "css", "cts", "cu", "cxx", "dart",
        "erl", "ex", "exs", "feature", "fs", "go", "gradle", "graphql", "groovy", "h", "hh", "hpp", "hs",
        "html", "hxx", "inc", "ini", "ipynb", "java", "js", "json", "jsx", "kt", "kts", "less", "lua", "m",
        "md", "mdx", "mjs", "ml", "mli", "mm", "mts", "nim", "php", "pl", "pm", "proto", "py", "pyi", "pyx",
        "r", "rb", "rs", "rst", "s", "sass", "scala", "scss", "sh", "sol", "sql", "svelte", "swift", "t",
        "tf", "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig", "zsh",
    ];
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str())
    })
}

pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

/// The title in a line such as `==== title ====`.
pub(super) fn titled(line: &str, mark: char) -> Option<&str> {
    let inner = line.trim_end().trim_start_matches(mark);
    let title = inner.trim_end_matches(mark);
    let is_marked = inner.len() < line.trim_end().len() && title.len() < inner.len();
    let title = title.strip_prefix(' ')?.strip_suffix(' ')?;
    (is_marked && !title.is_empty()).then_some(title)
}

/// Whether a line is nothing but at least `least` of a mark.
pub(super) fn is_rule(line: &str, mark: char, least: usize) -> bool {
    let line = line.trim_end();
    line.chars().all(|c| c == mark) && line.chars().count() >= least
}

/// The number a text starts with, and what follows.
pub(super) fn leading_number(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text.get(..digits)?.parse().ok()?, &text[digits..]))
}

/// Counts such as `1 failed, 3 passed` or `1 failed | 3 passed (4)`: each number with the word after it.
pub(super) fn counted_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split([',', '|', ';']).filter_map(|part| {
        let (count, rest) = leading_number(part.trim())?;
        Some((count, rest.split_whitespace().next()?))
    })
}

/// `name (12 ms)`, `name (0.00s)`, `name 12ms`: the name.
pub(super) fn without_duration(text: &str) -> &str {
    let text = text.trim_end();
    let is_time = |time: &str| {
        let digits = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        digits.len() < time.len() && matches!(digits.trim_start(), "ms" | "s" | "m" | "μs" | "µs")
    };
    if let Some((name, time)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        return if is_time(time) { name.trim_end() } else { text };
    }
    match text.rsplit_once(' ') {
        Some((name, time)) if is_time(time) => name.trim_end(),
        _ => text,
    }
}

/// Whether a script runner announces a command here: npm prints two lines that start with `> `, others `$ command`.
pub(super) fn announces_command(lines: &[&str], at: usize) -> bool {
    let says = |line: &str, mark: &str| {
        line.strip_prefix(mark)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '@'))
    };
    let near = |at: usize| lines.get(at).is_some_and(|line| says(line, "> "));
    says(lines[at], "$ ") || says(lines[at], "> ") && (near(at + 1) || near(at.wrapping_sub(1)))
}
