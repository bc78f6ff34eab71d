//! ExUnit: numbered failures, then `3 tests, 1 failure`.

use super::place::{self, SourcePlace, is_dependency, same_file};
use super::problems::{Found, problem};
use super::sections::Section;
use super::text::{indent, is_blank, leading_number};
use super::{ResultFormat, Severity, TestCounts, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let summary = (from..lines.len())
        .find(|&at| counts(lines[at]).is_some() || lines[at] == "There are no tests to run")?;
    let is_start =
        |at: &usize| title(lines, *at).is_some() || lines[*at].starts_with("Running ExUnit with seed");
    let start = (from..summary).find(is_start).unwrap_or(summary);
    let mut section = Section::new(ResultFormat::ExUnit, start..summary + 1);
    section.counts = counts(lines[summary]).unwrap_or_default();
    let titles: Vec<usize> = (start..summary).filter(|&at| title(lines, at).is_some()).collect();
    let ends = titles.iter().skip(1).copied().chain([summary]);
    section.tests = titles
        .iter()
        .zip(ends)
        .filter_map(|(&at, end)| failed_test(title(lines, at)?, block(&lines[at + 1..end])))
        .collect();
    Some(section)
}

/// `2 doctests, 3 tests, 1 failure, 1 skipped`
fn counts(line: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    let (mut total, mut is_summed) = (0, false);
    for part in line.split(", ") {
        let (count, word) = leading_number(part)?;
        match word.trim() {
            "test" | "tests" | "doctest" | "doctests" | "property" | "properties" | "feature"
            | "features" => total += count,
            "failure" | "failures" => (counts.failed, is_summed) = (count, true),
            "skipped" | "excluded" | "invalid" => counts.skipped += count,
            _ => return None,
        }
    }
    counts.passed = total.saturating_sub(counts.failed + counts.skipped);
    is_summed.then_some(counts)
}

/// `  1) test of half takes 50 % (DiscountTest)`, with its place in the next line.
fn title<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let line = lines[at];
    let (_, rest) = leading_number(line.trim_start()).filter(|_| (1..=2).contains(&indent(line)))?;
    let name = rest.strip_prefix(") ").filter(|name| name.ends_with(')') && name.contains(" ("))?;
    let next = lines.get(at + 1)?.trim_start();
    (place::leading(next).is_some_and(|(place, rest)| rest.is_empty() && place.file.ends_with(".exs"))
        || next.starts_with("** (")
        || name.contains(": failure on setup_all"))
    .then_some(name)
}

/// A block is indented by five.
fn block<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let end = lines.iter().position(|line| !is_blank(line) && indent(line) < 5).unwrap_or(lines.len());
    &lines[..end]
}

fn failed_test(name: &str, shown: &[&str]) -> Option<TestResult> {
    let defined = shown.first().and_then(|line| place::leading(line.trim_start())).map(|(place, _)| place);
    let said = usize::from(defined.is_some());
    let frames = shown.iter().filter_map(|line| frame(line));
    let own = match &defined {
        Some(defined) => frames.into_iter().find(|place| same_file(&place.file, &defined.file)),
        None => frames.into_iter().find(|place| !is_dependency(&place.file)),
    };
    let mut test = TestResult::failed(name).at(own.or(defined));
    let rest = shown.get(said..)?;
    let values = rest
        .iter()
        .copied()
        .filter(|line| line.trim_start().starts_with("left:") || line.trim_start().starts_with("right:"));
    test.message = detail::message(rest.first().copied().into_iter().chain(values.take(2)));
    test.detail = detail::of(rest);
    Some(test)
}

/// `(shop 0.1.0) lib/shop.ex:5: Shop.discount/2`
fn frame(line: &str) -> Option<SourcePlace> {
    let text = line.trim_start();
    let text = match text.strip_prefix('(') {
        Some(rest)
            if rest.starts_with("ex_unit") || rest.starts_with("elixir") || rest.starts_with("stdlib") =>
        {
            return None;
        }
        Some(rest) => rest.split_once(") ")?.1,
        None => text,
    };
    let (place, rest) = place::leading(text)?;
    let is_elixir = place.file.ends_with(".exs") || place.file.ends_with(".ex");
    (is_elixir && rest.starts_with(": ")).then_some(place)
}

/// `** (CompileError) test/crash_test.exs:1: message`
pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let (kind, rest) = lines[0].strip_prefix("** (")?.split_once(") ")?;
    let (place, message) = place::leading(rest)?;
    let message = message.trim_start_matches([':', ' ']);
    Found::one(ResultFormat::ExUnit, problem(place, Severity::Error, Some(kind), message), 1)
}
