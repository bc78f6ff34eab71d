//! SARIF 2.1, the report format of many linters and scanners.

use super::{CodeProblem, Severity, detail, place};
use serde::Deserialize;

#[derive(Deserialize)]
struct Log {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    results: Option<Vec<Finding>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    rule_id: Option<String>,
    level: Option<String>,
    kind: Option<String>,
    message: Option<Message>,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    suppressions: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Message {
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<PhysicalLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: Option<ArtifactLocation>,
    region: Option<Region>,
}

#[derive(Deserialize)]
struct ArtifactLocation {
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<u32>,
    start_column: Option<u32>,
}

/// The problems in a report, or `None` if it is no SARIF.
pub(super) fn problems(text: &str) -> Option<Vec<CodeProblem>> {
    let log: Log = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
    let findings = log.runs.into_iter().filter_map(|run| run.results).flatten();
    Some(findings.filter(Finding::counts).map(Finding::problem).collect())
}

impl Finding {
    /// Suppressed findings, and those that say something is in order, are no problems.
    fn counts(&self) -> bool {
        self.suppressions.is_empty()
            && !matches!(self.kind.as_deref(), Some("pass" | "notApplicable" | "informational"))
    }

    fn problem(self) -> CodeProblem {
        let location = self.locations.into_iter().next().and_then(|location| location.physical_location);
        let (artifact, region) =
            location.map_or((None, None), |location| (location.artifact_location, location.region));
        let text = self.message.and_then(|message| message.text).unwrap_or_default();
        CodeProblem {
            file: artifact.and_then(|artifact| artifact.uri).map(|uri| place::tidy_path(&uri)),
            line: region.as_ref().and_then(|region| region.start_line),
            column: region.as_ref().and_then(|region| region.start_column),
            severity: match self.level.as_deref() {
                Some("error") => Severity::Error,
                Some("note" | "none") => Severity::Note,
                _ => Severity::Warning,
            },
            code: self.rule_id,
            message: detail::message(text.lines().take(1)),
        }
    }
}
