//! JUnit XML, as nearly every runner can write it; several documents one after the other are read as one.

use super::place::{self, SourcePlace, is_dependency, same_file};
use super::sections::Section;
use super::text::{has_source_extension, is_blank, plain};
use super::xml::{XmlElement, XmlPart, parts};
use super::{ResultFormat, TestOutcome, TestResult, detail, rust_panic};

/// A report printed between other lines.
pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let is_start = |line: &str| {
        line.starts_with("<testsuites") || line.starts_with("<testsuite ") || line.starts_with("<testsuite>")
    };
    let start = (from..lines.len()).find(|&at| {
        is_start(lines[at]) || lines[at].starts_with("<?xml ") && lines[at].contains("<testsuite")
    })?;
    let tag = if lines[start].contains("<testsuites") { "</testsuites>" } else { "</testsuite>" };
    let end = lines[start..].iter().position(|line| line.trim_end().ends_with(tag));
    let end = end.map_or(lines.len(), |at| start + at + 1);
    let mut section = Section::new(ResultFormat::Junit, start..end);
    section.tests = tests(&lines[start..end].join("\n"));
    Some(section)
}

/// What is being said about a test, until its element closes.
struct Case {
    test: TestResult,
    class: String,
    text: String,
    attribute_message: String,
    kind: String,
}

/// All test cases in a report.
pub(super) fn tests(text: &str) -> Vec<TestResult> {
    let mut report = Report::default();
    for part in parts(text) {
        match part {
            XmlPart::Open(element) => report.open(&element),
            XmlPart::Text(text) => report.add_text(&text),
            XmlPart::Close(name) => report.close(&name),
        }
    }
    report.tests
}

#[derive(Default)]
struct Report {
    tests: Vec<TestResult>,
    suites: Vec<Suite>,
    case: Option<Case>,
    in_failure: bool,
}

struct Suite {
    name: String,
    file: Option<String>,
}

impl Report {
    fn open(&mut self, element: &XmlElement) {
        match (element.name.as_str(), &mut self.case) {
            ("testsuite", _) => {
                let name = element.attribute("name").unwrap_or_default().to_owned();
                self.suites.push(Suite { name, file: suite_file(element) });
            }
            ("testcase", _) => self.case = Some(begin(element, &self.suites)),
            ("failure" | "error", Some(case)) => {
                self.in_failure = true;
                case.fail(element);
            }
            ("skipped", Some(case)) => case.test.outcome = TestOutcome::Skipped,
            _ => {}
        }
    }

    fn add_text(&mut self, text: &str) {
        if let Some(case) = self.case.as_mut().filter(|_| self.in_failure) {
            case.text.push_str(text);
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "testsuite" => drop(self.suites.pop()),
            "failure" | "error" => self.in_failure = false,
            "testcase" => self.tests.extend(self.case.take().map(Case::finish)),
            _ => {}
        }
    }
}

fn suite_file(element: &XmlElement) -> Option<String> {
    let file = element.attribute("file").or_else(|| element.attribute("filepath"));
    file.or_else(|| element.attribute("name").filter(|name| is_file(name))).map(str::to_owned)
}

fn is_file(text: &str) -> bool {
    has_source_extension(text) && !text.contains(' ')
}

fn begin(element: &XmlElement, suites: &[Suite]) -> Case {
    let name = element.attribute("name").unwrap_or_default();
    let class = element.attribute("classname").or_else(|| element.attribute("class")).unwrap_or_default();
    // node:test puts every test into the class `test`; its suites have the names.
    let suite_names = suites.iter().map(|suite| suite.name.as_str());
    let whole = match class {
        "test" => suite_names.chain([name]).collect::<Vec<_>>().join(" > "),
        _ if class.is_empty() || name.starts_with(class) || is_file(class) => name.to_owned(),
        _ if class.contains(' ') => format!("{class} > {name}"),
        _ => format!("{class}.{name}"),
    };
    let mut test = TestResult::new(whole, TestOutcome::Passed);
    let own = element.attribute("file").or(Some(class).filter(|class| is_file(class)));
    let suite_file = suites.iter().rev().find_map(|suite| suite.file.as_deref());
    test.file = own.or(suite_file).map(place::tidy_path);
    test.line = element.number("line").filter(|line| *line > 0 && test.file.is_some());
    Case {
        test,
        class: class.to_owned(),
        text: String::new(),
        attribute_message: String::new(),
        kind: String::new(),
    }
}

impl Case {
    fn fail(&mut self, element: &XmlElement) {
        self.test.outcome = TestOutcome::Failed;
        if self.attribute_message.is_empty() {
            self.attribute_message = element.attribute("message").unwrap_or_default().to_owned();
            self.kind = element.attribute("type").unwrap_or_default().to_owned();
        }
    }

    fn finish(mut self) -> TestResult {
        if self.test.outcome != TestOutcome::Failed {
            return self.test;
        }
        let (text, message) = (plain(&self.text), plain(&self.attribute_message));
        let lines: Vec<&str> = text.lines().collect();
        if text.contains(" panicked at ") {
            rust_panic::describe(&mut self.test, &lines);
            return self.test;
        }
        if let Some(place) = self.place(&lines) {
            self.test.file.get_or_insert(place.file);
            self.test.line = place.line;
        }
        // PHPUnit starts with the test's name.
        let is_name =
            |line: &&str| line.ends_with(&self.test.name) || line.replace("::", ".") == self.test.name;
        let mut said =
            message.lines().chain(lines.iter().copied()).filter(|line| !is_blank(line) && !is_name(line));
        let first = said.next().unwrap_or(&self.kind);
        let second = said
            .next()
            .filter(|line| first.trim_end().ends_with(':') && !line.trim_start().starts_with("at "));
        self.test.message = detail::message([first].into_iter().chain(second));
        let shown = if lines.is_empty() { message.lines().collect() } else { lines };
        self.test.detail = detail::of(&shown);
        self.test
    }

    /// The frame in the test's own file or class; else the first that is the project's.
    fn place(&self, lines: &[&str]) -> Option<SourcePlace> {
        let places: Vec<SourcePlace> =
            lines.iter().filter_map(|line| frame(line)).filter(|place| !is_dependency(&place.file)).collect();
        let class = self.class.rsplit(['.', '\\', '$']).next().unwrap_or_default();
        let own = places.iter().find(|place| match &self.test.file {
            Some(file) => same_file(&place.file, file),
            None => stem(&place.file) == class,
        });
        let own = own.or_else(|| {
            places.iter().find(|place| self.class.split('.').any(|part| part == stem(&place.file)))
        });
        if self.test.file.is_some() && self.test.line.is_some() {
            own.cloned()
        } else {
            own.or(places.first()).cloned()
        }
    }
}

fn stem(file: &str) -> &str {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    name.split('.').next().unwrap_or(name)
}

fn frame(line: &str) -> Option<SourcePlace> {
    let text = line.trim();
    let text = text.strip_prefix("# ").unwrap_or(text);
    let leading = place::leading(text)
        .filter(|(place, _)| has_source_extension(&place.file) && !place.file.contains(' '));
    // .NET: `at Shop.Tests.Half() in /app/Tests.cs:line 12`
    let (file, number) = text
        .rsplit_once(":line ")
        .map_or(("", ""), |(head, number)| (head.rsplit(" in ").next().unwrap_or(""), number));
    let dotnet = number.parse().ok().map(|line| SourcePlace {
        file: place::tidy_path(file),
        line: Some(line),
        column: None,
    });
    dotnet.or_else(|| place::of_frame(text)).or(leading.map(|(place, _)| place))
}
