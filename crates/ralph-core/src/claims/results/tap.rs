//! TAP, as tape, node:test, bats and prove print it: test points around a plan such as `1..4`.

use super::place::{self, SourcePlace, is_dependency};
use super::sections::Section;
use super::text::{has_source_extension, indent, is_blank, leading_number};
use super::{ResultFormat, TestOutcome, TestResult, detail};

pub(super) fn next_section(lines: &[&str], from: usize) -> Option<Section> {
    let start = (from..lines.len()).find(|&at| is_start(lines[at]))?;
    // Test points without a plan are quoted somewhere.
    let has_header = lines[start].starts_with("TAP version ");
    let plan = (start..lines.len()).find(|&at| is_plan(lines[at]));
    if plan.is_none() && !has_header {
        return None;
    }
    let end = end_of(lines, start, plan);
    let mut section = Section::new(ResultFormat::Tap, start..end);
    section.tests = Reader::new(&lines[start..end]).tests();
    Some(section)
}

fn is_start(line: &str) -> bool {
    line.starts_with("TAP version 1") || is_plan(line) || point(line).is_some()
}

fn is_plan(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("1..") else { return false };
    leading_number(rest).is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(" #"))
}

/// The last line that is TAP: a point, its diagnosis, a plan, or a comment after them.
fn end_of(lines: &[&str], start: usize, plan: Option<usize>) -> usize {
    let mut end = plan.unwrap_or(start) + 1;
    let mut in_yaml = false;
    for (at, line) in lines.iter().enumerate().skip(start + 1) {
        let text = line.trim_start();
        // A second run begins.
        if at >= end && line.starts_with("TAP version ") {
            break;
        }
        in_yaml = (in_yaml || text == "---") && text != "...";
        let is_comment = text.starts_with('#') && (at == end || lines[at - 1].is_empty() && at <= end + 2);
        if at < end
            || in_yaml
            || text == "..."
            || is_comment
            || point(text).is_some()
            || line.starts_with("Bail out!")
        {
            end = end.max(at + 1);
        }
    }
    end
}

struct Point<'a> {
    is_ok: bool,
    name: &'a str,
    directive: &'a str,
}

/// `not ok 3 - name # TODO later`
fn point(line: &str) -> Option<Point<'_>> {
    let (is_ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    let (_, rest) = leading_number(rest.strip_prefix(' ')?)?;
    let name = rest.trim_start().strip_prefix("- ").unwrap_or(rest.trim_start());
    let (name, directive) = split_directive(name);
    Some(Point { is_ok, name: name.trim(), directive })
}

/// A mark that is escaped belongs to the name.
fn split_directive(name: &str) -> (&str, &str) {
    let found = name.match_indices('#').map(|(at, _)| at).find(|&at| {
        let word = name[at + 1..].trim_start().to_ascii_lowercase();
        !name[..at].ends_with('\\') && ["skip", "todo", "time="].iter().any(|start| word.starts_with(start))
    });
    found.map_or((name, ""), |at| (&name[..at], name[at + 1..].trim_start()))
}

struct Reader<'a> {
    lines: &'a [&'a str],
    /// node:test names each test in a comment before it; tape names a group of assertions.
    has_subtests: bool,
    is_tape: bool,
    group: &'a str,
    error_comment: &'a str,
    suites: Vec<String>,
    /// How many points there were at each depth.
    points: Vec<usize>,
    /// Suites in braces that are not closed yet.
    open: Vec<OpenSuite<'a>>,
    failed: usize,
    tests: Vec<TestResult>,
}

struct OpenSuite<'a> {
    point: Point<'a>,
    depth: usize,
    /// How many tests had failed before it.
    failed_before: usize,
}

impl<'a> Reader<'a> {
    fn new(lines: &'a [&'a str]) -> Self {
        let nests = |line: &&str| {
            line.trim_start().starts_with("# Subtest: ") || line.ends_with(" {") && point(line).is_some()
        };
        let has_subtests = lines.iter().any(nests);
        // A run that crashed has no summary, but its first group.
        let names_group = lines[0].starts_with("TAP version 13")
            && lines.get(1).is_some_and(|line| line.starts_with("# ") && !line.starts_with("# Subtest"));
        let is_tape = !has_subtests && (names_group || lines.iter().any(|line| line.starts_with("# tests ")));
        Self {
            lines,
            has_subtests,
            is_tape,
            group: "",
            error_comment: "",
            suites: Vec::new(),
            points: Vec::new(),
            open: Vec::new(),
            failed: 0,
            tests: Vec::new(),
        }
    }

    fn tests(mut self) -> Vec<TestResult> {
        let mut at = 0;
        while at < self.lines.len() {
            at += self.read_line(at);
        }
        self.tests
    }

    /// Reads the line and what belongs to it; returns how many lines that was.
    fn read_line(&mut self, at: usize) -> usize {
        let line = self.lines[at];
        let depth = indent(line) / 4;
        let text = line.trim_start();
        if let Some(comment) = text.strip_prefix("# ") {
            match comment.strip_prefix("Subtest: ") {
                Some(name) => {
                    self.suites.truncate(depth);
                    self.suites.push(unescaped(name));
                }
                None if self.is_tape && indent(line) == 0 => self.group = comment,
                None if is_error(comment) => self.error_comment = comment,
                None => {}
            }
            return 1;
        }
        if let Some(reason) = line.strip_prefix("Bail out!") {
            let mut test = TestResult::failed("Bail out!");
            test.message = detail::message([reason]);
            self.tests.push(test);
            return 1;
        }
        if text == "}" {
            self.close_suite();
            return 1;
        }
        let is_nested = !self.has_subtests && indent(line) > 0;
        let Some(point) = point(text).filter(|_| !is_nested) else { return 1 };
        if line.ends_with(" {") {
            // Its subtests follow, up to a closing brace.
            let point = Point { name: point.name.trim_end_matches(" {"), ..point };
            self.suites.truncate(depth);
            self.suites.push(unescaped(point.name));
            self.open.push(OpenSuite { point, depth, failed_before: self.failed });
            return 1;
        }
        let below = diagnosis(&self.lines[at + 1..], indent(line));
        self.add(&point, depth, below);
        1 + below.len()
    }

    fn add(&mut self, point: &Point<'_>, depth: usize, below: &[&str]) {
        let yaml = Diagnosis { lines: below };
        let is_suite = yaml.value("type").as_deref() == Some("suite");
        let is_parent = yaml.value("failureType").as_deref() == Some("subtestsFailed");
        let has_subtests = self.count_points(depth);
        if is_parent || (is_suite && point.is_ok) || (has_subtests && below.is_empty()) {
            return;
        }
        self.push(point, depth, &yaml);
    }

    /// A suite that failed without a failing test has failed itself, in a hook for example.
    fn close_suite(&mut self) {
        let Some(suite) = self.open.pop() else { return };
        if !suite.point.is_ok && self.failed == suite.failed_before {
            self.push(&suite.point, suite.depth, &Diagnosis { lines: &[] });
        }
    }

    fn push(&mut self, point: &Point<'_>, depth: usize, yaml: &Diagnosis<'_>) {
        let name = self.full_name(point, depth);
        let outcome = match (point.directive.is_empty() || point.directive.starts_with("time="), point.is_ok)
        {
            (false, _) => TestOutcome::Skipped,
            (true, true) => TestOutcome::Passed,
            (true, false) => TestOutcome::Failed,
        };
        let mut test = TestResult::new(name, outcome);
        // vitest puts the file before the names.
        let file = test
            .name
            .split(" > ")
            .next()
            .filter(|file| has_source_extension(file) && !file.contains(' '))
            .map(str::to_owned);
        if let Some(file) = file {
            test.name =
                test.name.strip_prefix(&format!("{file} > ")).map_or_else(|| file.clone(), str::to_owned);
            test.file = Some(file);
        }
        if outcome == TestOutcome::Failed {
            yaml.describe(&mut test);
            self.explain(&mut test, point);
        }
        self.error_comment = "";
        self.failed += usize::from(outcome == TestOutcome::Failed);
        self.tests.push(test);
    }

    /// Whether points that are nested one deeper came since the last one at this depth.
    fn count_points(&mut self, depth: usize) -> bool {
        let has_subtests = self.points.get(depth + 1).is_some_and(|count| *count > 0);
        self.points.resize(depth + 1, 0);
        self.points[depth] += 1;
        has_subtests
    }

    /// A file that cannot be loaded only says so in the comments before it; a point without a diagnosis only in its name.
    fn explain(&self, test: &mut TestResult, point: &Point<'_>) {
        if test.message == "test failed" && !self.error_comment.is_empty() {
            test.message = detail::message([self.error_comment]);
        }
        if test.message.is_empty() {
            test.message = detail::message([point.name]);
        }
    }

    fn full_name(&self, point: &Point<'_>, depth: usize) -> String {
        let name = unescaped(point.name);
        if self.is_tape && !self.group.is_empty() {
            return format!("{} > {name}", self.group);
        }
        let suites = self.suites.iter().take(depth).map(String::as_str);
        suites.chain([name.as_str()]).collect::<Vec<_>>().join(" > ")
    }
}

/// `Error [ERR_MODULE_NOT_FOUND]: …`, `SyntaxError: …`
fn is_error(comment: &str) -> bool {
    let word = comment.split([' ', ':']).next().unwrap_or("");
    word.ends_with("Error") && comment.contains(": ")
}

fn unescaped(name: &str) -> String {
    name.replace("\\#", "#")
}

/// The YAML block or the comments below a test point.
fn diagnosis<'a>(lines: &'a [&'a str], point_indent: usize) -> &'a [&'a str] {
    let Some(first) = lines.first() else { return &[] };
    if first.trim_start() == "---" && indent(first) > point_indent {
        let margin = indent(first);
        let end = lines.iter().position(|line| indent(line) == margin && line.trim_start() == "...");
        return &lines[..end.map_or(lines.len(), |end| end + 1)];
    }
    // mocha explains a failure in indented lines, bats and prove in comments.
    let is_text = |line: &&str| {
        indent(line) > point_indent
            && point(line.trim_start()).is_none()
            && !line.trim_start().starts_with('#')
    };
    let indented = lines
        .iter()
        .take_while(|line| is_text(line) || is_blank(line) && indent(first) > point_indent)
        .count();
    if indented > 0 && is_text(first) {
        return &lines[..indented];
    }
    let is_comment =
        |line: &&str| line.starts_with("#  ") || line.starts_with("# (") || line.starts_with("# `");
    let comments = lines.iter().take_while(|line| is_comment(line)).count();
    &lines[..comments]
}

/// What a point's YAML block says, key by key.
struct Diagnosis<'a> {
    lines: &'a [&'a str],
}

impl Diagnosis<'_> {
    fn margin(&self) -> usize {
        self.lines.get(1).map_or(0, |line| indent(line))
    }

    /// The lines of a key: its own, and those that are indented below it.
    fn entry(&self, key: &str) -> Option<&[&str]> {
        let margin = self.margin();
        let is_key = |line: &str| {
            indent(line) == margin
                && line.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with(':'))
        };
        let start = self.lines.iter().position(|line| is_key(line))?;
        let below = &self.lines[start + 1..];
        let length =
            below.iter().position(|line| !is_blank(line) && indent(line) <= margin).unwrap_or(below.len());
        Some(&self.lines[start..=start + length])
    }

    fn value(&self, key: &str) -> Option<String> {
        let entry = self.entry(key)?;
        let (_, first) = entry[0].split_once(':')?;
        let first = first.trim();
        let below = entry[1..].iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        let text = match first {
            "|-" | "|" | ">-" | ">" | "" => below.collect::<Vec<_>>().join(" "),
            _ => first.to_owned(),
        };
        let is_quoted =
            text.len() > 1 && (text.starts_with('\'') || text.starts_with('"')) && text.ends_with(&text[..1]);
        Some(if is_quoted && matches!(key, "error" | "message" | "location" | "type" | "failureType") {
            text[1..text.len() - 1].to_owned()
        } else {
            text
        })
    }

    fn describe(&self, test: &mut TestResult) {
        *test = test.clone().at(self.place(test.file.as_deref()));
        let says = self.nested_message().or_else(|| self.value("error")).or_else(|| self.value("message"));
        let said =
            says.or_else(|| self.stack_error()).or_else(|| self.comment()).or_else(|| self.first_line());
        let values = ["expected", "actual"].map(|key| {
            self.value(key).filter(|value| !value.is_empty()).map(|value| format!("{key}: {value}"))
        });
        let values = values
            .iter()
            .flatten()
            .map(String::as_str)
            .filter(|_| said.is_none() || self.value("operator").is_some());
        test.message = detail::message(said.as_deref().into_iter().chain(values));
        let dropped = |line: &&str| {
            let text = line.trim_start();
            !(text == "---"
                || text == "..."
                || text.starts_with("duration_ms:")
                || text.starts_with("failureType:"))
        };
        test.detail = detail::of(&self.lines.iter().copied().filter(dropped).collect::<Vec<_>>());
    }

    /// vitest's `error:` has a name and a message below it.
    fn nested_message(&self) -> Option<String> {
        let below = self.entry("error")?.get(1..)?;
        let message = below.iter().find_map(|line| line.trim_start().strip_prefix("message: "))?;
        Some(message.trim_matches('"').to_owned())
    }

    /// tape's `stack` starts with the error; it repeats the name unless something was thrown.
    fn stack_error(&self) -> Option<String> {
        let is_thrown = self.value("operator").as_deref() == Some("error");
        let stack = self.entry("stack").filter(|_| is_thrown)?;
        stack.get(1).map(|line| line.trim().to_owned())
    }

    /// The first of the lines that are no YAML.
    fn first_line(&self) -> Option<String> {
        let first = self.lines.first().map(|line| line.trim())?;
        (first != "---" && !first.starts_with('#')).then(|| first.to_owned())
    }

    fn comment(&self) -> Option<String> {
        let texts = self.lines.iter().filter_map(|line| line.strip_prefix('#')).map(str::trim);
        let mut said = texts.filter(|text| {
            !text.starts_with("(in test") && !text.starts_with("at ") && !text.starts_with("in test")
        });
        said.next().map(str::to_owned)
    }

    fn place(&self, known: Option<&str>) -> Option<SourcePlace> {
        let frames = self
            .lines
            .iter()
            .filter_map(|line| place::of_frame(line.trim().trim_start_matches("at: ").trim_matches('"')));
        let defined = self.value("location").and_then(|text| place::leading(&text).map(|(place, _)| place));
        let own: Vec<SourcePlace> = frames.filter(|place| !is_dependency(&place.file)).collect();
        let file = defined.as_ref().map(|place| place.file.as_str()).or(known);
        let in_file = own.iter().find(|place| file.is_some_and(|file| place::same_file(&place.file, file)));
        let own = in_file.or(own.first().filter(|_| defined.is_none())).cloned();
        own.or(defined).or_else(|| self.lines.iter().find_map(|line| spelled_place(line)))
    }
}

/// `# (in test file a.bats, line 5)` and `#   at t/a.t line 5.`
fn spelled_place(line: &str) -> Option<SourcePlace> {
    let line = line.strip_prefix('#')?;
    let (before, after) = line.split_once(" line ")?;
    let (number, _) = leading_number(after)?;
    let file = before.trim_end_matches(',').rsplit(' ').next()?;
    (has_source_extension(file) || file.ends_with(".bats")).then(|| SourcePlace {
        file: place::tidy_path(file),
        line: u32::try_from(number).ok(),
        column: None,
    })
}
