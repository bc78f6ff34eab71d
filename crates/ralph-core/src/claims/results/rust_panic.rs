//! What a panicking or failing Rust test prints, whichever runner shows it.

use super::place::{self, SourcePlace, is_dependency};
use super::text::is_blank;
use super::{TestResult, detail};

struct Panic<'a> {
    at: usize,
    thread: &'a str,
    place: Option<SourcePlace>,
    /// The old form, `panicked at 'message', src/lib.rs:1:2`, has the message in the same line.
    message: Vec<&'a str>,
    frames: &'a [&'a str],
}

/// Fills in place, message and detail from what a failing test printed.
pub(super) fn describe(test: &mut TestResult, lines: &[&str]) {
    let panics: Vec<Panic<'_>> = (0..lines.len()).filter_map(|at| panic_at(lines, at)).collect();
    // A test that spawns threads panics last in its own.
    let own = panics.iter().rev().find(|panic| test.name.ends_with(panic.thread));
    let panic = own.or(panics.last());
    let place = panic.and_then(Panic::own_place).or_else(|| expected_panic_place(lines));
    if test.file.is_none() || place.is_some() {
        test.file = place.as_ref().map(|place| place.file.clone()).or(test.file.take());
        test.line = place.and_then(|place| place.line);
    }
    test.message = match (expectation(lines), panic) {
        (Some(note), _) => note,
        (None, Some(panic)) => detail::message(panic.message.iter().copied()),
        (None, None) => other_message(lines),
    };
    let is_own = |panic: &Panic<'_>| panic.thread == "<unnamed>" || test.name.ends_with(panic.thread);
    let start = panics.iter().find(|panic| is_own(panic)).or(panics.first()).map_or(0, |panic| panic.at);
    // What the test printed before it failed is left out, the panics and what follows are kept.
    test.detail = detail::of(&lines[start..]);
}

fn is_panic(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("thread '") && line.contains(" panicked at ")
}

fn panic_at<'a>(lines: &'a [&'a str], at: usize) -> Option<Panic<'a>> {
    let line = lines[at].trim_start();
    let (before, after) = line.strip_prefix("thread '")?.split_once(" panicked at ")?;
    let thread = before.rsplit_once('\'').map_or(before, |(thread, _)| thread);
    let below = &lines[at + 1..];
    let length = below.iter().position(|line| ends_message(line)).unwrap_or(below.len());
    let rest = &below[length..];
    let frames = &rest[..rest.iter().position(|line| is_panic(line)).unwrap_or(rest.len())];
    if let Some((message, place)) = after.rsplit_once("', ") {
        let place = place::leading(place).map(|(place, _)| place);
        let message = message.trim_start_matches('\'');
        return Some(Panic { at, thread, place, message: vec![message], frames });
    }
    let place = place::leading(after).map(|(place, _)| place);
    let message = below[..length].iter().copied().filter(|line| !is_blank(line)).collect();
    Some(Panic { at, thread, place, message, frames })
}

fn ends_message(line: &str) -> bool {
    let line = line.trim_start();
    let is_harness =
        line == "failures:" || line == "FAILED" || line.starts_with("test ") && line.ends_with("... FAILED");
    line.starts_with("stack backtrace:") || line.starts_with("note: ") || is_panic(line) || is_harness
}

impl Panic<'_> {
    /// Where it panicked; if that is inside a library, the first own frame of the backtrace.
    fn own_place(&self) -> Option<SourcePlace> {
        let outside = self.place.as_ref().is_none_or(|place| is_dependency(&place.file));
        let frame =
            self.frames.iter().filter_map(|line| line.trim_start().strip_prefix("at ")).find_map(|place| {
                let (place, _) = place::leading(place)?;
                (!is_dependency(&place.file)).then_some(place)
            });
        if outside { frame.or_else(|| self.place.clone()) } else { self.place.clone() }
    }
}

/// `note: test did not panic as expected at tests/prices.rs:22:4`
fn expected_panic_place(lines: &[&str]) -> Option<SourcePlace> {
    lines.iter().find_map(|line| {
        let (_, place) = line.split_once("did not panic as expected at ")?;
        place::leading(place).map(|(place, _)| place)
    })
}

fn expectation(lines: &[&str]) -> Option<String> {
    let at = lines.iter().position(|line| {
        let line = line.trim_start();
        line.starts_with("note: test did not panic") || line.starts_with("note: panic did not contain")
    })?;
    let values = lines[at + 1..].iter().copied().take(2).filter(|line| line.contains(": \""));
    let note = lines[at].trim_start().trim_start_matches("note: ");
    let note = note.split(" at ").next().unwrap_or(note);
    Some(detail::message([note].into_iter().chain(values)))
}

/// A test that returns an error prints `Error: …`; a doc test that does not compile prints the compiler's errors.
fn other_message(lines: &[&str]) -> String {
    let error = lines.iter().find(|line| {
        let line = line.trim_start();
        line.starts_with("Error: ") || line.starts_with("error: ") || line.starts_with("error[")
    });
    let said = error.or_else(|| lines.iter().find(|line| !is_blank(line)));
    detail::message(said.copied())
}
