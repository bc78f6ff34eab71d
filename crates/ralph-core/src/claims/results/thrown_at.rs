//! Where a test failed of whose own file the runner shows no line: in a fixture, a hook, or code that was awaited.

use super::place::{self, SourcePlace, same_file};
use super::text::has_source_extension;
use super::{TestOutcome, TestResult};

/// Adds the place of the innermost frame inside the project. The test's own file stays: it says where the test is.
pub(super) fn complete(test: &mut TestResult) {
    if test.line.is_some() || test.outcome != TestOutcome::Failed {
        return;
    }
    let Some(SourcePlace { file, line: Some(line), .. }) = innermost_frame(&test.detail) else { return };
    match &test.file {
        Some(known) if !same_file(known, &file) => {
            test.message.push_str(&format!(" (at {file}:{line})"));
        }
        _ => {
            test.file.get_or_insert(file);
            test.line = Some(line);
        }
    }
}

/// JavaScript prints the innermost frame first, Python last.
fn innermost_frame(detail: &str) -> Option<SourcePlace> {
    let is_own =
        |place: &SourcePlace| has_source_extension(&place.file) && !place::is_dependency(&place.file);
    let mut last = None;
    for line in detail.lines() {
        let text = line.trim_start();
        if text.starts_with("at ") {
            let place = place::of_frame(text.trim_end_matches([' ', '{'])).filter(is_own);
            if place.is_some() {
                return place;
            }
        } else if text.starts_with("File \"") {
            last = place::of_frame(text).filter(is_own).or(last);
        } else if line.contains(".py:") && !line.starts_with(' ') {
            let place = place::leading(line).filter(|(_, rest)| rest.starts_with(':'));
            last = place.map(|(place, _)| place).filter(is_own).or(last);
        }
    }
    last
}
