//! Gate reports as SARIF 2.1.0 for code scanning: one run per gate, one result per failing test or problem.

use serde_json::{Value, json};

use crate::model::gate::{CheckResult, GateOutcome, GateReport};
use crate::model::results::{Failure, Severity};

/// Files inside `root`, the repo's folder, get relative paths.
pub fn log(reports: &[GateReport], root: &str) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": reports.iter().map(|report| run(report, root)).collect::<Vec<_>>(),
    })
}

fn run(report: &GateReport, root: &str) -> Value {
    let failures = report.failures();
    let mut results: Vec<Value> = failures.iter().map(|failure| result(failure, root)).collect();
    if results.is_empty() && report.outcome.answer() != CheckResult::Pass {
        let text = format!("gate `{}` {}", report.gate, report.outcome.sentence());
        results.push(json!({ "ruleId": "gate", "level": "error", "message": { "text": text } }));
    }
    let mut invocation = json!({
        "commandLine": report.run,
        "executionSuccessful": report.outcome.answer() != CheckResult::CannotTell,
    });
    match report.outcome {
        GateOutcome::Passed => invocation["exitCode"] = json!(0),
        GateOutcome::Failed { code } => invocation["exitCode"] = json!(code),
        _ => {}
    }
    json!({
        "tool": { "driver": {
            "name": "ralph",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules(&results),
        } },
        "automationDetails": { "id": format!("ralph/{}/", report.gate) },
        "invocations": [invocation],
        "results": results,
    })
}

/// Every rule used by a result, once.
fn rules(results: &[Value]) -> Vec<Value> {
    let mut ids: Vec<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| json!({ "id": id })).collect()
}

fn result(failure: &Failure<'_>, root: &str) -> Value {
    let level = match failure.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let rule = if failure.is_test() { "failing-test" } else { failure.name.unwrap_or("problem") };
    let mut result = json!({ "ruleId": rule, "level": level, "message": { "text": message(failure) } });
    if let Some(file) = failure.file {
        let mut place = json!({ "artifactLocation": { "uri": uri(relative(file, root)) } });
        // SARIF counts lines and columns from 1.
        if let Some(line) = failure.line.filter(|line| *line > 0) {
            place["region"] = json!({ "startLine": line });
            if let Some(column) = failure.column.filter(|column| *column > 0) {
                place["region"]["startColumn"] = json!(column);
            }
        }
        result["locations"] = json!([{ "physicalLocation": place }]);
    }
    result
}

fn message(failure: &Failure<'_>) -> String {
    let name = failure.name.filter(|_| failure.is_test());
    let parts: Vec<&str> =
        name.into_iter().chain([failure.message]).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "failed".into() } else { parts.join(": ") }
}

/// A file's path relative to the repo's folder, if it is inside.
pub(super) fn relative<'a>(file: &'a str, root: &str) -> &'a str {
    let inside = file.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    inside.unwrap_or(file)
}

fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' | b'@' | b'+' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::results;
    use crate::model::result_format::ResultFormat;
    use crate::say::failures::tests::report;

    #[test]
    fn it_is_read_back_by_our_own_reader() {
        let output = "/repo/src/a b.c:3:5: error: no such type\nsrc/b.c:4:1: error: bad\n";
        let passed = GateReport { outcome: GateOutcome::Passed, ..report("") };
        let log = log(&[passed, report(output), report("nothing is known about it")], "/repo");
        let uri =
            &log["runs"][1]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(uri, "src/a%20b.c", "{log:#}");
        assert_eq!(log["runs"][2]["results"][0]["message"]["text"], "gate `test` failed with exit code 1");
        let read = results::read_as(ResultFormat::Sarif, &log.to_string()).expect("SARIF");
        assert_eq!(read.problems.len(), 3, "{read:?}");
        assert_eq!((read.problems[1].line, read.problems[1].column), (Some(4), Some(1)));
    }
}
