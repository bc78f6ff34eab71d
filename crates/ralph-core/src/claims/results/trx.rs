//! TRX, the report of `dotnet test --logger trx`.

use super::place::SourcePlace;
use super::text::{is_blank, plain};
use super::xml::{XmlPart, parts};
use super::{TestOutcome, TestResult, detail, place};

/// All results in a report.
pub(super) fn tests(text: &str) -> Vec<TestResult> {
    let mut tests: Vec<TestResult> = Vec::new();
    let mut inside = String::new();
    let (mut message, mut trace) = (String::new(), String::new());
    for part in parts(text) {
        match part {
            XmlPart::Open(element) if element.name == "UnitTestResult" => {
                let outcome = match element.attribute("outcome") {
                    Some("Passed" | "PassedButRunAborted" | "Warning") => TestOutcome::Passed,
                    Some("NotExecuted" | "Inconclusive" | "NotRunnable" | "Pending") => TestOutcome::Skipped,
                    _ => TestOutcome::Failed,
                };
                tests.push(TestResult::new(element.attribute("testName").unwrap_or_default(), outcome));
            }
            XmlPart::Open(element) => inside = element.name,
            XmlPart::Text(text) if inside == "Message" => message.push_str(&text),
            XmlPart::Text(text) if inside == "StackTrace" => trace.push_str(&text),
            XmlPart::Text(_) => {}
            XmlPart::Close(name) => {
                inside.clear();
                if name == "UnitTestResult"
                    && let Some(test) = tests.last_mut().filter(|test| test.outcome == TestOutcome::Failed)
                {
                    describe(test, &plain(&message), &plain(&trace));
                }
                if name == "UnitTestResult" {
                    message.clear();
                    trace.clear();
                }
            }
        }
    }
    tests
}

fn describe(test: &mut TestResult, message: &str, trace: &str) {
    *test = test.clone().at(trace.lines().find_map(frame));
    test.message = detail::message(message.lines().filter(|line| !is_blank(line)).take(3));
    test.detail = detail::of(&message.lines().chain(trace.lines()).collect::<Vec<_>>());
}

/// `at Shop.Tests.Half() in /app/Tests.cs:line 12`
fn frame(line: &str) -> Option<SourcePlace> {
    let (head, number) = line.trim().rsplit_once(":line ")?;
    let (_, file) = head.split_once(" in ")?;
    Some(SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: None })
}
