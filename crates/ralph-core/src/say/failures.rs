//! Failing tests and problems as a list: the same lines for the agent, `verify`, and reports.
//!
//! For the agent the list of a gate comes first, then detail for a few, then the output itself only where nothing in it
//! was recognised. A later attempt names what was fixed and what is new, and does not repeat unchanged detail.

use crate::claims::results::kept::{MOST_FAILURES, shorten_detail};
use crate::ledger::event::FailureMark;
use crate::model::gate::GateReport;
use crate::model::results::{Failure, Results};
use crate::say::excerpt::excerpt;

/// Only the first failures get detail; fixing them changes the others.
const MOST_DETAILS: usize = 3;
const LONGEST_LINE: usize = 300;
/// Where there is little room, names come first.
const LITTLE_ROOM: usize = 600;
const LONGEST_LINE_IN_LITTLE_ROOM: usize = 120;
/// Shorter details are useless.
const LEAST_DETAIL: usize = 100;
const MOST_FIXED_NAMED: usize = 10;

/// `src/a.rs:12  name: message`, without unknown parts.
pub fn line(failure: &Failure<'_>) -> String {
    let message = Some(failure.message).filter(|message| !message.is_empty());
    let words: Vec<&str> = [failure.name, message].into_iter().flatten().collect();
    let what = words.join(": ");
    match failure.place() {
        Some(place) if what.is_empty() => place,
        Some(place) => format!("{place}  {what}"),
        None => what,
    }
}

/// `3 of 120 tests fail`, or the number of problems. None if nothing was recognised.
pub fn counts(results: &Results) -> Option<String> {
    let counts = results.counts;
    if counts.failed > 0 {
        let verb = if counts.failed == 1 { "fails" } else { "fail" };
        let tests = if counts.total() == 1 { "test" } else { "tests" };
        return Some(format!("{} of {} {tests} {verb}", counts.failed, counts.total()));
    }
    let problems = results.failures().len() + results.left_out;
    match problems {
        0 => None,
        1 => Some("1 problem".into()),
        many => Some(format!("{many} problems")),
    }
}

/// A failing gate's output for a user, without comparison to earlier attempts.
pub fn shown(report: &GateReport) -> String {
    const MOST: usize = 6_000;
    failure_list(report, &[], false, MOST)
}

/// How the failures of one gate compare with those of the last attempt.
pub(crate) struct Comparison<'a> {
    pub(crate) fixed: Vec<&'a str>,
    pub(crate) new: Vec<Failure<'a>>,
    pub(crate) same: Vec<SameFailure<'a>>,
}

pub(crate) struct SameFailure<'a> {
    failure: Failure<'a>,
    /// It now fails with a different message.
    says_more: bool,
}

impl<'a> Comparison<'a> {
    /// None if either attempt has no recognised failures.
    pub(crate) fn of(report: &'a GateReport, last: &'a [FailureMark]) -> Option<Self> {
        let mark = last.iter().find(|mark| mark.gate == report.gate && !mark.failures.is_empty())?;
        let failures = report.failures();
        if failures.is_empty() {
            return None;
        }
        let mut left: Vec<_> = mark.failures.iter().collect();
        let (mut new, mut same) = (Vec::new(), Vec::new());
        for failure in failures {
            match left.iter().position(|old| old.is_of(&failure)) {
                Some(at) => {
                    let says_more = !left.remove(at).is_same_failure(&failure);
                    same.push(SameFailure { failure, says_more });
                }
                None => new.push(failure),
            }
        }
        // A failure that is missing from a truncated list may still fail.
        let left_out = report.results.as_ref().is_some_and(|results| results.left_out > 0);
        let fixed = if left_out { Vec::new() } else { left.iter().map(|old| old.name.as_str()).collect() };
        Some(Self { fixed, new, same })
    }
}

/// A failing gate's output for an agent, in at most `most` characters. `remembers` tells whether the last feedback is
/// still in its context.
pub(crate) fn failure_list(
    report: &GateReport,
    last: &[FailureMark],
    remembers: bool,
    most: usize,
) -> String {
    let failures = report.failures();
    if failures.is_empty() {
        return excerpt(&report.excerpt, most);
    }
    let left_out = report.results.as_ref().map_or(0, |results| results.left_out);
    let mut text = Bounded::new(most);
    let detailed = match Comparison::of(report, last) {
        None => {
            text.list(&failures, left_out);
            failures
        }
        Some(Comparison { fixed, new, same }) => {
            text.fixed(&fixed);
            let detailed = new
                .iter()
                .copied()
                .chain(same.iter().filter(|same| !remembers || same.says_more).map(|same| same.failure));
            let detailed = detailed.collect();
            let same: Vec<Failure<'_>> = same.iter().map(|same| same.failure).collect();
            if !new.is_empty() {
                text.heading("New:");
                text.list(&new, if same.is_empty() { left_out } else { 0 });
            }
            if !same.is_empty() {
                text.heading("Still failing:");
                text.list(&same, left_out);
            }
            detailed
        }
    };
    text.details(&detailed);
    let is_explained = report.results.as_ref().is_some_and(Results::explain_failure);
    if !is_explained {
        text.output(&report.excerpt);
    }
    text.text
}

/// A text that grows to a limit.
struct Bounded {
    text: String,
    most: usize,
}

impl Bounded {
    fn new(most: usize) -> Self {
        Self { text: String::new(), most }
    }

    fn left(&self) -> usize {
        self.most.saturating_sub(self.text.chars().count() + 1)
    }

    fn push(&mut self, line: &str) -> bool {
        let fits = line.chars().count() <= self.left();
        if fits {
            if !self.text.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(line);
        }
        fits
    }

    fn heading(&mut self, line: &str) {
        self.push(line);
    }

    fn fixed(&mut self, names: &[&str]) {
        if names.is_empty() {
            return;
        }
        let mut line = names.iter().take(MOST_FIXED_NAMED).copied().collect::<Vec<_>>().join(", ");
        if names.len() > MOST_FIXED_NAMED {
            line.push_str(&format!(" and {} more", names.len() - MOST_FIXED_NAMED));
        }
        let line = format!("Fixed since the last attempt: {line}");
        self.push(&cut(&line, self.most / 4));
    }

    /// One line per failure, as many as fit; a third of the room is kept for detail.
    fn list(&mut self, failures: &[Failure<'_>], left_out: usize) {
        let longest = if self.most < LITTLE_ROOM { LONGEST_LINE_IN_LITTLE_ROOM } else { LONGEST_LINE };
        let room = if self.most < LITTLE_ROOM { self.most } else { self.most / 3 * 2 };
        let mut shown = 0;
        for failure in failures.iter().take(MOST_FAILURES) {
            let line = cut(&line(failure), longest);
            let and_more = 20;
            let is_last = shown + 1 == failures.len();
            let needed = line.chars().count() + 1 + if is_last { 0 } else { and_more };
            if self.text.chars().count() + needed > room || !self.push(&line) {
                break;
            }
            shown += 1;
        }
        let more = failures.len() - shown + left_out;
        if more > 0 {
            self.push(&format!("and {more} more"));
        }
    }

    fn details(&mut self, failures: &[Failure<'_>]) {
        let detailed: Vec<&Failure<'_>> =
            failures.iter().filter(|failure| has_detail(failure)).take(MOST_DETAILS).collect();
        for (at, failure) in detailed.iter().enumerate() {
            let title = format!("\n{}:", cut(failure.name.unwrap_or_default(), LONGEST_LINE));
            let share = self.left() / (detailed.len() - at);
            let room = share.saturating_sub(title.chars().count() + 2);
            if room >= LEAST_DETAIL && self.push(&title) {
                self.push(&shorten_detail(failure.detail, room.saturating_sub(10)));
            }
        }
    }

    fn output(&mut self, output: &str) {
        let room = self.left().saturating_sub(2);
        if room >= LEAST_DETAIL && !output.is_empty() {
            let output = excerpt(output, room);
            self.push("");
            self.push(&output);
        }
    }
}

/// Whether the detail adds anything to the one line.
fn has_detail(failure: &Failure<'_>) -> bool {
    let detail = failure.detail.trim();
    !detail.is_empty() && detail != failure.message
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
