//! node:test's spec reporter, from the first line of its tree to the end of `✖ failing tests:`, and its dot reporter.

use super::place::{self, SourcePlace, same_file};
use super::sections::Section;
use super::text::{announces_command, indent, is_blank, leading_number, without_duration};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let sections = [spec_section(lines, from), dot_section(lines, from)];
    sections.into_iter().flatten().min_by_key(|section| section.lines.start)
}

/// The dot reporter: rows of `.` and `X`, then the failing tests without their suites.
fn dot_section(lines: &[&str], from: usize) -> Option<Section> {
    let listed = (from..lines.len()).find(|&at| lines[at] == "Failed tests:")?;
    let above = lines[from..listed].iter().rev().skip_while(|line| is_blank(line));
    let is_row = |line: &&&str| !line.is_empty() && line.bytes().all(|byte| byte == b'.' || byte == b'X');
    let rows = above.clone().take_while(is_row).count();
    if rows == 0 {
        return None;
    }
    let blank = lines[from..listed].iter().rev().take_while(|line| is_blank(line)).count();
    let mut section = Section::new(ResultFormat::NodeTest, listed - blank - rows..listed + 1);
    section.lines.end = read_failures(lines, listed + 1, &[], &mut section.tests);
    section.counts.passed = above.take(rows).map(|line| line.matches('.').count()).sum();
    Some(section)
}

fn spec_section(lines: &[&str], from: usize) -> Option<Section> {
    let summary = (from..lines.len()).find(|&at| counted(lines[at], "tests").is_some())?;
    let command = |at: &usize| announces_command(lines, *at);
    let first = (from..summary).rev().find(command).map_or(from, |at| at + 1);
    let start =
        (first..summary).find(|&at| indent(lines[at]) == 0 && marked(lines[at]).is_some()).unwrap_or(summary);
    let rows = lines[summary..].iter().take_while(|line| line.starts_with("ℹ ")).count();
    let end = summary + rows;
    let tree = tree(&lines[start..summary]);
    let mut section = Section::new(ResultFormat::NodeTest, start..end);
    section.counts = counts(&lines[summary..end]);
    let listed = (end..lines.len().min(end + 3)).find(|&at| lines[at] == "✖ failing tests:");
    if let Some(listed) = listed {
        section.lines.end = read_failures(lines, listed + 1, &tree, &mut section.tests);
    }
    let others = tree.into_iter().filter(|entry| entry.outcome != TestOutcome::Failed);
    section.tests.extend(others.map(|entry| TestResult::new(entry.name, entry.outcome)));
    Some(section)
}

/// The number in `ℹ tests 4`.
fn counted(line: &str, word: &str) -> Option<usize> {
    let rest = line.strip_prefix("ℹ ")?.strip_prefix(word)?.strip_prefix(' ')?;
    leading_number(rest).filter(|(_, rest)| rest.is_empty()).map(|(count, _)| count)
}

fn counts(rows: &[&str]) -> TestCounts {
    let count = |word: &str| rows.iter().find_map(|line| counted(line, word)).unwrap_or(0);
    TestCounts {
        passed: count("pass"),
        failed: count("fail") + count("cancelled"),
        skipped: count("skipped") + count("todo"),
    }
}

/// A line of the tree, without its indentation.
fn marked(line: &str) -> Option<(char, &str)> {
    let line = line.trim_start_matches(' ');
    let mark = line.chars().next().filter(|mark| "▶✔✖﹣⚠".contains(*mark))?;
    line[mark.len_utf8()..].strip_prefix(' ').map(|rest| (mark, rest))
}

struct Entry<'a> {
    /// As printed after the mark: the duration makes it unique.
    printed: &'a str,
    name: String,
    outcome: TestOutcome,
}

fn tree<'a>(lines: &[&'a str]) -> Vec<Entry<'a>> {
    let mut suites: Vec<&str> = Vec::new();
    let mut entries: Vec<Entry<'a>> = Vec::new();
    for line in lines {
        let Some((mark, printed)) = marked(line) else { continue };
        let depth = indent(line) / 2;
        // The end of a suite is printed like a test.
        let is_end = suites.get(depth).is_some_and(|suite| title(printed) == *suite);
        suites.truncate(depth);
        let name = suites.iter().copied().chain([title(printed)]).collect::<Vec<_>>().join(" > ");
        let outcome = match mark {
            '▶' => {
                suites.push(printed);
                continue;
            }
            '✔' if is_end => continue,
            '✔' => TestOutcome::Passed,
            '✖' if !is_to_do(printed) => TestOutcome::Failed,
            _ => TestOutcome::Skipped,
        };
        entries.push(Entry { printed, name, outcome });
    }
    entries
}

fn is_to_do(printed: &str) -> bool {
    printed.ends_with(" # TODO") || printed.contains(") # TODO")
}

/// The name in `name (8.7ms) # SKIP`.
fn title(printed: &str) -> &str {
    let name = printed
        .split_once("ms) #")
        .map_or(printed, |(name, _)| name.rsplit_once(" (").map_or(name, |(name, _)| name));
    without_duration(name)
}

/// Reads `test at file:line:column`, `✖ name (…)` and the error below it; returns where the list ends.
fn read_failures(lines: &[&str], from: usize, tree: &[Entry<'_>], tests: &mut Vec<TestResult>) -> usize {
    let mut at = from;
    while at < lines.len() {
        if is_blank(lines[at]) {
            at += 1;
            continue;
        }
        let defined = lines[at].strip_prefix("test at ").and_then(place::leading).map(|(place, _)| place);
        at += usize::from(defined.is_some());
        let Some(('✖', printed)) = lines.get(at).and_then(|line| marked(line)) else { return at };
        let shown = &lines[at + 1..];
        let length =
            shown.iter().position(|line| !is_blank(line) && indent(line) == 0).unwrap_or(shown.len());
        at += 1 + length;
        if !is_to_do(printed) {
            let known = tree.iter().find(|entry| entry.printed == printed);
            let name = known.map_or_else(|| title(printed).to_owned(), |entry| entry.name.clone());
            tests.extend(failed_test(name, defined, &shown[..length]));
        }
    }
    at
}

fn failed_test(name: String, defined: Option<SourcePlace>, shown: &[&str]) -> Option<TestResult> {
    // A suite fails because its tests do: they are listed themselves.
    let says = |words: &str| shown.iter().any(|line| line.contains(words));
    if says("subtest failed") || says("subtests failed") {
        return None;
    }
    let mut test = TestResult::failed(name).at(defined.clone());
    let frames = shown
        .iter()
        .filter(|line| line.trim_start().starts_with("at "))
        .filter_map(|line| place::of_frame(line.trim_end_matches([' ', '{'])));
    let own = match &defined {
        Some(defined) => frames.into_iter().find(|place| same_file(&place.file, &defined.file)),
        None => frames.into_iter().find(|place| !place::is_dependency(&place.file)),
    };
    if let Some(own) = own {
        test.file.get_or_insert(own.file);
        test.line = own.line;
    }
    let mut said = shown.iter().copied().filter(|line| !is_blank(line));
    let first = said.next().unwrap_or_default().trim();
    let second = said.next().filter(|_| first.ends_with(':'));
    test.message = detail::message([unquoted(first)].into_iter().chain(second));
    test.detail = detail::of(shown);
    Some(test)
}

/// A thrown text is printed in quotes.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or(text)
}
