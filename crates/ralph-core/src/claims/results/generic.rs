//! What many tools print: `file:line:column: message`, `file(line,column): error X1: message`, the annotations of
//! GitHub and Azure, and the crashes of Python, Node.js, PHP and Ruby programs.

use super::flake8::code_and_message;
use super::place::{self, SourcePlace};
use super::problems::{Found, problem, severity, trailing_code, without_place};
use super::text::{has_source_extension, indent};
use super::{ResultFormat, Severity, detail, tsc};

const FORMAT: ResultFormat = ResultFormat::Generic;

pub(super) fn read_at(lines: &[&str]) -> Option<Found> {
    let line = lines[0];
    let may_crash =
        line.contains("Error") && (!line.starts_with(' ') || line.starts_with(" Exception during run: "));
    if let Some(found) = may_crash.then(|| node_crash(lines)).flatten() {
        return Some(found);
    }
    if let Some(found) = php_error(line).or_else(|| ruby_crash(lines)) {
        return Some(found);
    }
    match line.as_bytes().first()? {
        b' ' | b'\t' => None,
        b':' => annotation(line),
        b'#' => azure_annotation(line),
        b'T' if line == "Traceback (most recent call last):" => traceback(lines),
        _ => with_place(line).or_else(|| parenthesised(line)),
    }
}

fn with_place(line: &str) -> Option<Found> {
    let (place, rest) = place::leading(line)?;
    let text = rest.strip_prefix(": ").or_else(|| rest.strip_prefix(" - "))?.trim();
    if text.is_empty() || !(has_source_extension(&place.file) || place.file.ends_with("Makefile")) {
        return None;
    }
    let rated = severity(text);
    let is_certain =
        place.column.is_some() || rated.is_some() || text.starts_with("*** ") || text.contains("yntax error");
    let (severity, message) = rated.unwrap_or((Severity::Error, text));
    let (message, code) = trailing_code(message);
    is_certain
        .then(|| Found::one(FORMAT, problem(place, severity, code, message.trim_start_matches("*** ")), 1))?
}

/// `Program.cs(12,5): error CS0103: message`
fn parenthesised(line: &str) -> Option<Found> {
    let (place, rest) = tsc::parenthesised(line)?;
    let (word, rest) = rest.split_once(' ')?;
    let severity = match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let (code, message) = rest.split_once(": ")?;
    let code = code.trim_end();
    let is_code = !code.contains(' ') && has_source_extension(&place.file);
    let message = message
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once(" ["))
        .map_or(message, |(message, _)| message);
    is_code.then(|| Found::one(FORMAT, problem(place, severity, Some(code), message), 1))?
}

/// `::error title=…,file=a.py,line=1,col=8::message`
fn annotation(line: &str) -> Option<Found> {
    let (head, message) = line.strip_prefix("::")?.split_once("::")?;
    let (word, fields) = head.split_once(' ')?;
    let severity = match word {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        "notice" => Severity::Note,
        _ => return None,
    };
    let field =
        |name: &str| fields.split(',').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
    let place = SourcePlace {
        file: place::tidy_path(field("file")?),
        line: field("line").and_then(|line| line.parse().ok()),
        column: field("col").and_then(|column| column.parse().ok()),
    };
    let message = message.split("%0A").next().unwrap_or(message);
    // Many tools repeat the place in the message.
    let message = place::leading(message).and_then(|(_, rest)| rest.strip_prefix(": ")).unwrap_or(message);
    let (code, message) =
        code_and_message(message).map_or((None, message), |(code, message)| (Some(code), message));
    Found::one(FORMAT, problem(place, severity, code, message), 1)
}

/// `##vso[task.logissue type=error;sourcepath=a.py;linenumber=1;columnnumber=8;code=F401;]message`
fn azure_annotation(line: &str) -> Option<Found> {
    let (fields, message) = line.strip_prefix("##vso[task.logissue ")?.split_once(']')?;
    let field =
        |name: &str| fields.split(';').find_map(|field| field.trim().strip_prefix(name)?.strip_prefix('='));
    let severity = if field("type")? == "error" { Severity::Error } else { Severity::Warning };
    let place = SourcePlace {
        file: place::tidy_path(field("sourcepath")?),
        line: field("linenumber").and_then(|line| line.parse().ok()),
        column: field("columnnumber").and_then(|column| column.parse().ok()),
    };
    Found::one(FORMAT, problem(place, severity, field("code").filter(|code| !code.is_empty()), message), 1)
}

/// Whether a program's crash was read here, and not a line with a place of its own.
pub(super) fn is_crash(line: &str) -> bool {
    let has_place = place::leading(line).is_some() || line.starts_with([':', '#']);
    line.starts_with("Traceback ")
        || (line.contains("Error") && !has_place && tsc::parenthesised(line).is_none())
}

/// Whether a crash ended its program: Node.js prints its version then.
pub(super) fn ends_program(lines: &[&str]) -> bool {
    lines.iter().take(60).any(|line| line.starts_with("Node.js v"))
}

/// `PHP Fatal error:  message in /app/a.php:1`, or `… on line 1`
fn php_error(line: &str) -> Option<Found> {
    let text = line.strip_prefix("PHP ").unwrap_or(line);
    let kinds = ["Fatal error: ", "Parse error: "];
    let message = kinds.iter().find_map(|kind| text.strip_prefix(kind))?.trim_start();
    let (message, file) = message.rsplit_once(" in ")?;
    let place = match file.split_once(" on line ") {
        Some((file, number)) => {
            SourcePlace { file: place::tidy_path(file), line: number.parse().ok(), column: None }
        }
        None => place::leading(file)?.0,
    };
    Found::one(FORMAT, problem(place, Severity::Error, None, message), 1)
}

/// ``a.rb:3:in `require': cannot load such file -- x (LoadError)``, then its callers.
fn ruby_crash(lines: &[&str]) -> Option<Found> {
    let is_ruby = lines[0].contains(":in `") || lines[0].contains(":in '");
    let (head, message) = lines[0]
        .split_once("': ")
        .filter(|(head, message)| is_ruby && message.ends_with(')') && !head.starts_with(' '))?;
    let callers = lines[1..].iter().map_while(|line| line.strip_prefix("\tfrom "));
    let length = 1 + callers.clone().count();
    let own = |line: &str| {
        place::leading(line)
            .map(|(place, _)| place)
            .filter(|place| !place::is_dependency(&place.file) && has_source_extension(&place.file))
    };
    let found = match [head].into_iter().chain(callers).find_map(own) {
        Some(place) => problem(place, Severity::Error, None, message),
        None => without_place(Severity::Error, message),
    };
    Found::one(FORMAT, found, length)
}

/// A Node.js program that crashed: `Error: message`, then its frames.
fn node_crash(lines: &[&str]) -> Option<Found> {
    let text = lines[0].trim_start();
    let text = text.strip_prefix("Exception during run: ").unwrap_or(text);
    let (kind, message) = text.split_once(": ")?;
    if !kind.split(' ').next()?.ends_with("Error") || message.is_empty() {
        return None;
    }
    let frame = lines.iter().take(12).position(|line| line.starts_with("    at "))?;
    let frames = lines[frame..].iter().take_while(|line| line.starts_with("    at ")).count();
    let crash = &lines[..frame + frames];
    let own = |place: &SourcePlace| has_source_extension(&place.file) && !place::is_dependency(&place.file);
    let place =
        crash[frame..].iter().filter_map(|line| place::of_frame(line.trim_end_matches([' ', '{']))).find(own);
    let importer = message.split_once(" imported from ").map(|(_, file)| SourcePlace::file(file));
    let found = match place.or(importer) {
        Some(place) => problem(place, Severity::Error, None, text),
        None => without_place(Severity::Error, text),
    };
    Found::one(FORMAT, found, crash.len())
}

/// A Python program that crashed: where in the project, and why.
fn traceback(lines: &[&str]) -> Option<Found> {
    let frames = 1 + lines[1..].iter().take_while(|line| indent(line) > 0).count();
    let error = lines
        .get(frames)
        .filter(|line| line.contains("Error") || line.contains("Exception") || line.contains(": "))?;
    let mut places = lines[..frames].iter().filter_map(|line| place::of_frame(line));
    let own = places.rfind(|place| !place::is_dependency(&place.file) && has_source_extension(&place.file));
    let found = match own {
        Some(place) => problem(place, Severity::Error, None, error),
        None => without_place(Severity::Error, &detail::message([*error])),
    };
    Found::one(FORMAT, found, frames + 1)
}
