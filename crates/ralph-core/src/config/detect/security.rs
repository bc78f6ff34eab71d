//! A security scan.

use super::{GateKind, Project, Proposal};

/// Semgrep exits 1 for findings of the two highest severities. Other nonzero codes mean that it could not scan, for
/// example because its rules could not be fetched; they are mapped to the shell's code for a command that could not
/// run. Without a network semgrep takes almost two minutes to give up.
pub(super) fn security_scan(project: &Project) -> Option<Proposal> {
    const RUN: &str = "semgrep scan --config auto --error --severity ERROR --severity WARNING \
                       || exit $(($? == 1 ? 1 : 127))";
    let scan = Proposal::new(GateKind::Security, "security", RUN, "semgrep is installed");
    project.programs.contains("semgrep").then_some(Proposal { timeout: Some("10m"), ..scan })
}
