//! Which lines of an output belong to which test runner.

use super::{CodeProblem, ResultFormat, TestCounts, TestResult};
use std::ops::Range;

/// The output of one run of one test runner.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) format: ResultFormat,
    pub(super) lines: Range<usize>,
    pub(super) tests: Vec<TestResult>,
    pub(super) problems: Vec<CodeProblem>,
    /// As printed in the runner's summary.
    pub(super) counts: TestCounts,
}

impl Section {
    pub(super) fn new(format: ResultFormat, lines: Range<usize>) -> Self {
        Self { format, lines, tests: Vec::new(), problems: Vec::new(), counts: TestCounts::default() }
    }
}

/// Finds and reads the next section at or after a line.
pub(super) type FindSection = fn(&[&str], usize) -> Option<Section>;

pub(super) const READERS: &[FindSection] = &[
    super::pytest::next_section,
    super::unittest::next_section,
    super::nextest::next_section,
    super::cargo_test::next_section,
    super::vitest::next_section,
    super::jest::next_section,
    super::mocha::next_section,
    super::node_test::next_section,
    super::tap::next_section,
    super::go_json::next_section,
    super::go_test::next_section,
    super::rspec::next_section,
    super::minitest::next_section,
    super::phpunit::next_section,
    super::exunit::next_section,
    super::ctest::next_section,
    super::junit::next_section,
];

/// A reader whose sections keep starting inside those of others is asked again only so often: each time it may read the
/// rest of the output.
const MOST_OVERLAPS: usize = 50;

struct Candidate {
    find: FindSection,
    next: Option<Section>,
    overlaps: usize,
}

/// The sections of all runners in order. One that starts inside another is quoted by it and does not count.
pub(super) fn all(lines: &[&str]) -> Vec<Section> {
    let mut candidates: Vec<Candidate> =
        READERS.iter().map(|&find| Candidate { find, next: find(lines, 0), overlaps: 0 }).collect();
    let mut sections: Vec<Section> = Vec::new();
    while let Some(first) = candidates.iter_mut().filter(|c| c.next.is_some()).min_by_key(|c| start_of(c)) {
        let Some(section) = first.next.take() else { break };
        // Even a section without lines moves on, so that this always ends.
        let end = section.lines.end.max(section.lines.start + 1);
        first.next = (first.find)(lines, end);
        sections.push(section);
        for candidate in &mut candidates {
            candidate.continue_from(lines, end);
        }
    }
    sections
}

fn start_of(candidate: &Candidate) -> usize {
    candidate.next.as_ref().map_or(usize::MAX, |section| section.lines.start)
}

impl Candidate {
    fn continue_from(&mut self, lines: &[&str], end: usize) {
        if self.next.is_none() || start_of(self) >= end {
            return;
        }
        self.overlaps += 1;
        self.next = if self.overlaps > MOST_OVERLAPS { None } else { (self.find)(lines, end) };
    }
}
