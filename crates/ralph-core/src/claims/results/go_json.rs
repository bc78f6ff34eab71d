//! `go test -json`: one event a line.

use super::sections::Section;
use super::{ResultFormat, Results, TestCounts, TestOutcome, TestResult, detail, go_test, problems};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TestEvent {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    import_path: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| event(lines[at]).is_some())?;
    let mut log = EventLog::default();
    let mut end = start;
    // Build errors stand between the events as plain text.
    for (at, line) in lines.iter().enumerate().skip(start) {
        match event(line) {
            Some(event) => {
                log.add(event);
                end = at + 1;
            }
            None if at > end + 200 => break,
            None => {}
        }
    }
    let mut section = Section::new(ResultFormat::GoJson, start..end);
    log.finish(&mut section);
    Some(section)
}

fn event(line: &str) -> Option<TestEvent> {
    // A cheap look first: most lines of most outputs are no JSON.
    if !line.starts_with('{') || !line.contains("\"Action\":") {
        return None;
    }
    let event: TestEvent = serde_json::from_str(line).ok()?;
    (!event.package.is_empty() || !event.import_path.is_empty()).then_some(event)
}

/// What is known so far of a package or one of its tests.
struct Record {
    package: String,
    name: String,
    is_package: bool,
    outcome: Option<TestOutcome>,
    output: String,
}

#[derive(Default)]
struct EventLog {
    records: Vec<Record>,
    index: HashMap<(String, String), usize>,
    build_output: String,
}

impl EventLog {
    fn add(&mut self, event: TestEvent) {
        if event.action == "build-output" {
            self.build_output.push_str(&event.output);
            return;
        }
        let key = (event.package, event.test);
        let at = self.index.get(&key).copied().unwrap_or_else(|| {
            let (package, test) = key.clone();
            let is_package = test.is_empty();
            let name = if is_package { package.clone() } else { test };
            self.records.push(Record { package, name, is_package, outcome: None, output: String::new() });
            self.index.insert(key, self.records.len() - 1);
            self.records.len() - 1
        });
        let record = &mut self.records[at];
        match event.action.as_str() {
            "output" => record.output.push_str(&event.output),
            "pass" => record.outcome = Some(TestOutcome::Passed),
            "fail" => record.outcome = Some(TestOutcome::Failed),
            "skip" => record.outcome = Some(TestOutcome::Skipped),
            _ => {}
        }
    }

    fn finish(self, section: &mut Section) {
        let mut found = Results::default();
        problems::read(&self.build_output.lines().collect::<Vec<_>>(), &mut found);
        section.problems = found.problems;
        let failed = || self.records.iter().filter(|record| record.outcome == Some(TestOutcome::Failed));
        let parents = go_test::failed_parents(failed().map(|record| record.name.as_str()));
        let explained: HashSet<&str> =
            failed().filter(|record| !record.is_package).map(|record| record.package.as_str()).collect();
        for record in &self.records {
            // A package is listed only if it failed and none of its tests did.
            let is_crash =
                record.outcome == Some(TestOutcome::Failed) && !explained.contains(record.package.as_str());
            if !record.is_package || is_crash {
                section.tests.extend(record.test(parents.contains(record.name.as_str())));
            }
        }
        section.counts = TestCounts::of(&section.tests);
    }
}

impl Record {
    fn test(&self, is_parent: bool) -> Option<TestResult> {
        let mut test = TestResult::new(self.name.as_str(), self.outcome?);
        if test.outcome != TestOutcome::Failed {
            return Some(test);
        }
        let is_frame = |line: &&str| {
            !line.starts_with("=== ") && !line.trim_start().starts_with("--- ") && *line != "FAIL"
        };
        let lines: Vec<&str> = self.output.lines().filter(is_frame).collect();
        if self.is_package {
            let said = lines
                .iter()
                .rev()
                .find(|line| !line.starts_with("FAIL\t") && !line.starts_with("exit status"));
            test.message = detail::message([*said.unwrap_or(&"build failed")]);
            test.detail = detail::of(&lines);
            return Some(test);
        }
        // What the test printed itself is not indented.
        let logged: Vec<&str> = if lines.iter().any(|line| line.starts_with("panic: ")) {
            lines
        } else {
            lines.into_iter().filter(|line| line.starts_with("    ")).collect()
        };
        go_test::describe(&mut test, &logged);
        (!is_parent || !test.message.is_empty()).then_some(test)
    }
}
