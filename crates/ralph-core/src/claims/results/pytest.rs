//! pytest: from `test session starts` (or, with `-q`, the first line of dots) to the line of counts.

use super::place::{self, SourcePlace, same_file};
use super::sections::Section;
use super::text::{counted_words, is_blank, titled};
use super::{ResultFormat, TestCounts, TestOutcome, TestResult, detail};
use std::borrow::Cow;

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| starts(lines, at))?;
    let end = end_of(lines, start);
    Some(read(&lines[start..end], start))
}

fn starts(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    match line.as_bytes().first() {
        Some(b'=') => titled(line, '=').is_some_and(|title| {
            matches!(title, "test session starts" | "FAILURES" | "ERRORS" | "short test summary info")
        }),
        Some(b'I') => line.starts_with("ImportError while loading conftest '"),
        Some(b'n' | b'0'..=b'9') => summary(line).is_some(),
        _ => is_progress(line),
    }
}

/// `F...sx    [100%]`, alone on a line with `-q`.
fn is_progress(line: &str) -> bool {
    let Some((marks, percent)) = line.split_once(" [").or_else(|| line.split_once("[")) else { return false };
    let Some(number) = percent.strip_suffix("%]") else { return false };
    let marks = marks.trim_end();
    !marks.is_empty()
        && marks.bytes().all(|mark| b".FEsxXR".contains(&mark))
        && number.trim().bytes().all(|byte| byte.is_ascii_digit())
}

/// The counts in `1 failed, 3 passed in 0.03s`, with or without the rule around it.
fn summary(line: &str) -> Option<TestCounts> {
    let title = titled(line, '=').unwrap_or(line);
    let (words, time) = title.rsplit_once(" in ")?;
    if !time.starts_with(|c: char| c.is_ascii_digit()) || !time.split(' ').next()?.ends_with('s') {
        return None;
    }
    let mut counts = TestCounts::default();
    if words == "no tests ran" {
        return Some(counts);
    }
    let mut parts = 0;
    for (count, word) in counted_words(words) {
        parts += 1;
        match word {
            "passed" | "xpassed" => counts.passed += count,
            "failed" | "error" | "errors" => counts.failed += count,
            "skipped" | "xfailed" => counts.skipped += count,
            "deselected" | "warning" | "warnings" | "rerun" | "subtests" => {}
            _ => return None,
        }
    }
    (parts == words.split(", ").count()).then_some(counts)
}

fn end_of(lines: &[&str], start: usize) -> usize {
    if lines[start].starts_with("ImportError while loading conftest") {
        let shown = lines[start + 1..].iter().take_while(|line| {
            line.starts_with(['E', ' '])
                || place::leading(line).is_some_and(|(_, rest)| rest.starts_with(": in "))
        });
        return start + 1 + shown.count();
    }
    // A test may run pytest itself and show its output: then sessions are nested.
    let mut depth = usize::from(titled(lines[start], '=') != Some("test session starts"));
    let width = width_of(&lines[start..]);
    for (at, line) in lines.iter().enumerate().skip(start) {
        if titled(line, '=') == Some("test session starts") {
            depth += 1;
        } else if summary(line).is_some() && (depth > 1 || is_wide(line, width)) {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    lines.len()
}

/// All rules of a session are as wide as its terminal. Those of a quoted one mostly are not.
fn width_of(lines: &[&str]) -> usize {
    let is_own = |title: &str| {
        matches!(title, "test session starts" | "FAILURES" | "ERRORS" | "short test summary info")
    };
    let first = lines.iter().find(|line| line.starts_with('=') && titled(line, '=').is_some_and(is_own));
    first.map_or(0, |line| line.chars().count())
}

fn is_wide(line: &str, width: usize) -> bool {
    // A title that is too long has one mark on each side; the counts of `-q` have none.
    let is_marked = line.starts_with("==") || line.starts_with("__");
    !is_marked || width == 0 || line.chars().count().abs_diff(width) <= 1
}

/// What is shown of one failing test below `FAILURES` or `ERRORS`.
struct Block<'a> {
    title: &'a str,
    lines: &'a [&'a str],
}

fn read(lines: &[&str], start: usize) -> Section {
    let mut section = Section::new(ResultFormat::Pytest, start..start + lines.len());
    section.counts = lines.last().and_then(|line| summary(line)).unwrap_or_default();
    if let Some(rest) = lines[0].strip_prefix("ImportError while loading conftest '") {
        section.tests.push(conftest_crash(rest, lines));
        return section;
    }
    let summary_at = lines.iter().rposition(|line| titled(line, '=') == Some("short test summary info"));
    let body = &lines[..summary_at.unwrap_or(lines.len())];
    let blocks = blocks(body);
    let listed = lines[summary_at.unwrap_or(lines.len())..].iter().filter_map(|line| {
        if line.contains("SUBFAIL") {
            return failed_subtest(line).map(Cow::Owned);
        }
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        (line.contains("::") || line.contains(".py")).then_some(Cow::Borrowed(rest))
    });
    let mut used = vec![false; blocks.len()];
    section.tests.extend(listed.map(|line| failed_test(&line, &blocks, &mut used, body)));
    if section.tests.is_empty() {
        section.tests.extend(blocks.iter().map(unlisted_test));
    }
    section.tests.extend(verbose_tests(body));
    section
}

/// `(i=1) SUBFAIL a.py::test_b - message`, or `SUBFAILED(i=1) a.py::test_b - message`, with the subtest after the test's
/// name, as in the title of its block.
fn failed_subtest(line: &str) -> Option<String> {
    let (label, rest) = match line.split_once(" SUBFAIL ") {
        Some((label, rest)) => (label, rest),
        None => {
            let rest = line.strip_prefix("SUBFAILED")?;
            let path = rest.find(".py::")?;
            let start = rest[..path].rfind(' ')?;
            (rest[..start].trim(), &rest[start + 1..])
        }
    };
    let (id, message) = rest.split_once(" - ").unwrap_or((rest, ""));
    Some(format!("{id} {label} - {message}"))
}

fn conftest_crash(rest: &str, lines: &[&str]) -> TestResult {
    let file = rest.split('\'').next().unwrap_or(rest);
    let mut test = TestResult::failed(file).at(Some(SourcePlace::file(file)));
    describe(&mut test, &lines[1..]);
    test
}

fn blocks<'a>(lines: &'a [&'a str]) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    let is_part = |line: &str| titled(line, '=').is_some_and(|title| matches!(title, "FAILURES" | "ERRORS"));
    let Some(first) = lines.iter().position(|line| is_part(line)) else { return blocks };
    let width = width_of(lines);
    let mut begun: Option<(usize, &str)> = None;
    for at in first..=lines.len() {
        let line = lines.get(at).filter(|line| is_wide(line, width));
        let title = line.and_then(|line| titled(line, '_')).filter(|title| !title.starts_with("_ _"));
        let ends =
            at == lines.len() || line.is_some_and(|line| titled(line, '=').is_some()) || title.is_some();
        if let Some((start, name)) = begun.filter(|_| ends) {
            blocks.push(Block { title: name, lines: &lines[start..at] });
            begun = None;
        }
        if let Some(title) = title {
            begun = Some((at + 1, title));
        }
    }
    blocks
}

/// A test in the short summary, with what its block says about it.
fn failed_test(listed: &str, blocks: &[Block<'_>], used: &mut [bool], body: &[&str]) -> TestResult {
    let (file, tail) = listed.split_once("::").unwrap_or((listed, ""));
    let unused = |at: usize| !used[at];
    let found = (0..blocks.len()).find(|&at| unused(at) && blocks[at].is_of(file, tail));
    // A fixture fails in its own file, and some frames are not shown.
    let found = found.or_else(|| (0..blocks.len()).find(|&at| unused(at) && blocks[at].is_elsewhere(tail)));
    let (name, message) = match (found, tail.is_empty()) {
        (_, true) => listed.split_once(" - ").unwrap_or((listed, "")),
        (Some(at), false) => {
            let name = &tail[..blocks[at].name_length().min(tail.len())];
            (name, tail[name.len()..].trim_start_matches(" - "))
        }
        (None, false) => name_and_message(tail),
    };
    let file = if tail.is_empty() { name } else { file };
    let mut test = TestResult::failed(name).at(Some(SourcePlace::file(file)));
    match found {
        Some(at) => {
            used[at] = true;
            describe(&mut test, blocks[at].shown());
        }
        None => test.line = line_traceback(body, file, message),
    }
    if test.message.is_empty() {
        test.message = detail::message([message]);
    }
    test
}

/// Without a block the name ends where the message begins; the values in its brackets may have ` - ` too.
fn name_and_message(tail: &str) -> (&str, &str) {
    let end = match (tail.find('['), tail.find(" - ")) {
        (Some(bracket), Some(dash)) if bracket < dash => tail.find("] - ").map(|at| at + 1),
        (Some(_), None) => None,
        (_, dash) => dash,
    };
    end.map_or((tail, ""), |end| (&tail[..end], tail[end..].trim_start_matches(" - ")))
}

/// With `--tb=line` each failure is one line, `path:line: message`.
fn line_traceback(body: &[&str], file: &str, message: &str) -> Option<u32> {
    let start = message.trim_end_matches("...");
    body.iter().find_map(|line| {
        let (place, rest) = place::leading(line)?;
        let is_same = same_file(&place.file, file) && !start.is_empty() && rest.contains(start);
        place.line.filter(|_| is_same)
    })
}

/// Without the short summary only the blocks name the tests.
fn unlisted_test(block: &Block<'_>) -> TestResult {
    if let Some(file) = block.title.strip_prefix("ERROR collecting ") {
        let mut test = TestResult::failed(file).at(Some(SourcePlace::file(file)));
        describe(&mut test, block.shown());
        return test;
    }
    let (name, values) = block.name().split_at(block.name().find('[').unwrap_or(block.name().len()));
    let mut test = TestResult::failed(name.replace('.', "::") + values).at(block.own_place());
    describe(&mut test, block.shown());
    test
}

impl Block<'_> {
    /// The title without what pytest puts before a test's name.
    fn name(&self) -> &str {
        let phases = ["ERROR at setup of ", "ERROR at teardown of ", "[doctest] "];
        phases.iter().find_map(|phase| self.title.strip_prefix(phase)).unwrap_or(self.title)
    }

    /// How long the name is in a listed `Class::name`: there the dots are two colons.
    fn name_length(&self) -> usize {
        let name = self.name();
        let dots = name.split('[').next().unwrap_or(name).matches('.').count();
        if self.title.starts_with("[doctest] ") { name.len() } else { name.len() + dots }
    }

    fn is_of(&self, file: &str, tail: &str) -> bool {
        if tail.is_empty() {
            let path = self.title.strip_prefix("ERROR collecting ");
            return path.is_some_and(|path| file.split(" - ").next() == Some(path));
        }
        self.is_named(tail) && self.places().next().is_none_or(|first| self.is_in(file, &first))
    }

    /// Whether it has the name of a test, and frames in no file of tests.
    fn is_elsewhere(&self, tail: &str) -> bool {
        !tail.is_empty() && self.is_named(tail) && !self.places().any(|place| is_file_of_tests(&place))
    }

    fn is_named(&self, tail: &str) -> bool {
        let (head, values) = tail.split_at(tail.find('[').unwrap_or(tail.len()));
        let dotted = if self.title.starts_with("[doctest]") {
            tail.to_owned()
        } else {
            head.replace("::", ".") + values
        };
        let rest = dotted.strip_prefix(self.name());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" - "))
    }

    /// Tests of the same name in several files are told apart by their frames.
    fn is_in(&self, file: &str, first: &SourcePlace) -> bool {
        same_file(&first.file, file)
            || self.places().any(|place| same_file(&place.file, file))
            || !first.file.ends_with(".py")
    }

    /// The lines before the captured output.
    fn shown(&self) -> &[&str] {
        let captured = |line: &&str| titled(line, '-').is_some_and(|title| title.starts_with("Captured "));
        let end = self.lines.iter().position(captured).unwrap_or(self.lines.len());
        &self.lines[..end]
    }

    fn places(&self) -> impl Iterator<Item = SourcePlace> {
        frames(self.shown())
    }

    /// The first frame in a file of tests, else the first in the project.
    fn own_place(&self) -> Option<SourcePlace> {
        let own = || self.places().filter(|place| !place::is_dependency(&place.file));
        own().find(is_file_of_tests).or_else(|| own().next())
    }
}

fn is_file_of_tests(place: &SourcePlace) -> bool {
    let name = place.file.rsplit('/').next().unwrap_or_default();
    name.starts_with("test_") || name.ends_with("_test.py")
}

fn frames(lines: &[&str]) -> impl Iterator<Item = SourcePlace> {
    lines.iter().filter_map(|line| match line.as_bytes().first()? {
        b' ' | b'E' | b'>' => place::of_frame(line).filter(|_| line.trim_start().starts_with("File \"")),
        _ => place::leading(line).filter(|(_, rest)| rest.starts_with(':')).map(|(place, _)| place),
    })
}

fn describe(test: &mut TestResult, shown: &[&str]) {
    let file = test.file.clone().unwrap_or_default();
    let own = frames(shown).filter(|place| same_file(&place.file, &file)).last();
    let line = own.and_then(|place| place.line);
    test.line = line.or(test.line);
    test.message = message_of(shown);
    test.detail = detail::of(&without_foreign_frames(shown));
}

/// The `E` lines say what failed; the next one repeats it with the values if a message was given.
fn message_of(shown: &[&str]) -> String {
    // Of exceptions that led to one another the last is the one that was not caught.
    let is_cause = |line: &&str| {
        line.starts_with("The above exception was the direct")
            || line.starts_with("During handling of the above")
    };
    let shown = &shown[shown.iter().rposition(is_cause).unwrap_or(0)..];
    let mut said =
        shown.iter().filter_map(|line| line.strip_prefix("E ").or(line.strip_prefix("E\t")).map(str::trim));
    let Some(first) = said.next() else { return native_message(shown) };
    let second = said.next().filter(|next| next.starts_with("assert ") || first.ends_with(':'));
    detail::message([first].into_iter().chain(second))
}

/// The last line of a Python traceback, as `--tb=native` shows it.
fn native_message(shown: &[&str]) -> String {
    let last = shown.iter().rev().find(|line| !is_blank(line) && !line.starts_with(' '));
    detail::message(last.copied())
}

/// pytest separates frames with lines; those in dependencies are dropped with the source that is shown for them.
fn without_foreign_frames<'a>(shown: &[&'a str]) -> Vec<&'a str> {
    let mut kept: Vec<&str> = Vec::new();
    let mut frame: Vec<&str> = Vec::new();
    for line in shown {
        frame.push(line);
        let place = if line.starts_with([' ', 'E', '>']) { None } else { place::leading(line) };
        let Some((place, rest)) = place.filter(|(_, rest)| rest.starts_with(':')) else { continue };
        if rest.starts_with(": in ") {
            // The short form shows the place first: what came before belongs to the frame before.
            let line = frame.pop();
            kept.append(&mut drop_if_foreign(frame));
            frame = line.into_iter().collect();
        } else {
            let has_error = frame.iter().any(|line| line.starts_with('E'));
            if place::is_dependency(&place.file) {
                kept.extend(frame.iter().filter(|line| line.starts_with('E') && has_error));
            } else {
                kept.append(&mut frame);
            }
            frame = Vec::new();
        }
    }
    kept.append(&mut drop_if_foreign(frame));
    kept
}

fn drop_if_foreign(frame: Vec<&str>) -> Vec<&str> {
    let place = frame.first().and_then(|line| place::leading(line));
    if place.is_some_and(|(place, _)| place::is_dependency(&place.file)) {
        return frame.into_iter().filter(|line| line.starts_with('E')).collect();
    }
    frame
}

/// With `-v` every test has a line, `path::name PASSED [ 10%]`; with xdist `[gw0] [ 10%] PASSED path::name`.
fn verbose_tests(body: &[&str]) -> Vec<TestResult> {
    let end =
        body.iter().position(|line| titled(line, '=').is_some_and(|title| title != "test session starts"));
    body[..end.unwrap_or(body.len())].iter().filter_map(|line| verbose_test(line)).collect()
}

fn verbose_test(line: &str) -> Option<TestResult> {
    const WORDS: &[(&str, TestOutcome)] = &[
        ("PASSED", TestOutcome::Passed),
        ("XPASS", TestOutcome::Passed),
        ("SKIPPED", TestOutcome::Skipped),
        ("XFAIL", TestOutcome::Skipped),
    ];
    if let Some(rest) = line.strip_prefix("[gw") {
        let (word, id) = rest.split_once("%] ")?.1.split_once(' ')?;
        let (_, outcome) = WORDS.iter().find(|(name, _)| *name == word)?;
        return listed_test(id, *outcome);
    }
    let (word, outcome) = WORDS.iter().find(|(name, _)| line.contains(name))?;
    let (id, _) = line.rsplit_once(&format!(" {word}"))?;
    listed_test(id, *outcome)
}

fn listed_test(id: &str, outcome: TestOutcome) -> Option<TestResult> {
    let (file, name) = id.trim().split_once("::")?;
    file.contains(".py").then(|| TestResult::new(name, outcome).at(Some(SourcePlace::file(file))))
}
