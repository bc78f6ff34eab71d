//! The wording of every enum that people read: a short form and a sentence each. Texts in the user's language come from
//! the tables in [`lang`](crate::say::lang).

use std::fmt;

use crate::ledger::event::{CancelCause, PauseCause};
use crate::ledger::ship::short;
use crate::model::duration;
use crate::model::evidence::{NotShown, ShownFact};
use crate::model::gate::GateOutcome;
use crate::model::id::GateName;
use crate::model::language::Lang;
use crate::model::loop_error::ErrorKind;
use crate::model::ship::{ShipStep, Until};
use crate::model::verdict::{EvaluationError, LimitHit, Reason, Verdict};
use crate::say::lang::{Texts, fill};

/// A verdict in a word or two, in the user's language.
pub fn verdict(verdict: Verdict, lang: Lang) -> &'static str {
    let words = lang.words();
    match verdict {
        Verdict::Verified => words.verdict_verified,
        Verdict::Passing => words.verdict_passing,
        Verdict::Unchanged => words.verdict_unchanged,
        Verdict::Claimed => words.verdict_claimed,
        Verdict::Blocked => words.verdict_blocked,
        Verdict::Waiting => words.verdict_waiting,
        Verdict::Paused => words.verdict_paused,
        Verdict::Released => words.verdict_released,
        Verdict::Failed => words.verdict_failed,
        Verdict::Stuck => words.verdict_stuck,
        Verdict::Tampered => words.verdict_tampered,
        Verdict::Cancelled => words.verdict_cancelled,
        Verdict::NeedsHuman => words.verdict_needs_review,
    }
}

/// A verdict in a word or two, for reports.
pub fn verdict_in_report(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "verified",
        Verdict::Passing => "gates pass",
        Verdict::Unchanged => "unchanged",
        Verdict::Claimed => "done, unverified",
        Verdict::Blocked => "blocked",
        Verdict::Waiting => "waiting",
        Verdict::Paused => "paused",
        Verdict::Released => "released unverified",
        Verdict::Failed => "failed",
        Verdict::Stuck => "stuck",
        Verdict::Tampered => "tampered",
        Verdict::Cancelled => "cancelled",
        Verdict::NeedsHuman => "needs review",
    }
}

/// A reason as a sentence for agents and logs.
pub fn reason(reason: &Reason) -> String {
    match reason {
        Reason::AllGatesPassed => "All verify commands passed".into(),
        Reason::TaskNotShown { why } => not_shown(why, Lang::En),
        Reason::ProofMissing { .. } => "the gates pass, but no test fails without the change".into(),
        Reason::NothingChanged => "the gates pass; no file was changed".into(),
        Reason::AgentBlocked { why } => format!("the agent cannot continue: {why}"),
        Reason::AllMarkersStated => "all completion markers stated".into(),
        Reason::Promised => "the promise was given, and no gates are set up".into(),
        Reason::AllTasksTicked => "every box of the task list is ticked, and no gates are set up".into(),
        Reason::NothingAsked => "there is no gate, promise or task list to check".into(),
        Reason::AllGatesPassedUnpromised => "All verify commands passed; the promise is missing".into(),
        Reason::HygieneFailed { flaws } => match flaws.as_slice() {
            [flaw] => format!("problem in an added line: {flaw}"),
            all => format!("{} problems in added lines", all.len()),
        },
        Reason::HygienePassed => "no problems in added lines; the gates run with the last task".into(),
        Reason::TasksOpen { done, total } => format!("{} of {total} tasks are open", total - done),
        Reason::PromiseMissing { .. } => "the promise is missing".into(),
        Reason::FailingBefore { gates } => {
            format!("{} failed in the same way before this prompt", names(gates))
        }
        Reason::GatesFailed { gates } if gates.len() == 1 => format!("gate {} failed", names(gates)),
        Reason::GatesFailed { gates } => format!("gates {} failed", names(gates)),
        Reason::TreeNeverSettled { files } => {
            format!("the gates passed but change files on every run ({})", shortlist(files))
        }
        Reason::MarkersMissing { markers } => format!("missing completion markers: {}", markers.join(", ")),
        Reason::DefinitionChanged => {
            "the gate definition in the repo is not the one the user accepted; nothing can be verified with it".into()
        }
        Reason::NotYet { what } => format!("a limit was reached while waiting for {what}"),
        Reason::DefinitionRevoked => {
            "trust in this repo's gates was revoked while the loop ran; no gate was run".into()
        }
        Reason::AcceptedSince => {
            "the gates passed, but they were accepted after this loop or session began; \
             the user has to review them (`ralph trust --show`) and start a new loop or session"
                .into()
        }
        Reason::ShippingNotChecked => {
            "the gates passed; the pull request and its CI were not looked at".into()
        }
        Reason::Shipped { until, url } => {
            let url = url.as_ref().map(|url| format!(": {url}")).unwrap_or_default();
            match until {
                Until::Verified => "All verify commands passed".into(),
                Until::Pr => format!("All verify commands passed and the pull request is open{url}"),
                Until::Ci => format!("All verify commands passed and CI passed{url}"),
                Until::Merged => format!("All verify commands and CI passed, and the pull request is merged{url}"),
            }
        }
        Reason::ShipUnmet { what, .. } => what.clone(),
        Reason::CiFailed { checks, .. } => format!("CI failed: {}", shortlist(checks)),
        Reason::ShipNeedsUser { what, next, .. } => format!("{what}; {next}"),
        Reason::PassedAfterFailing => "the gates passed on the same files that failed before: flaky, or \
             something outside the repo changed (install, service)"
            .into(),
        Reason::FilesReplaced { files } => {
            format!("files were replaced and restored while the gates ran: {}", shortlist(files))
        }
        Reason::DeadlineReached { gates } => not_finished(gates),
        Reason::LedgerTampered { what } => format!("the ledger was changed by another process: {what}"),
        Reason::NotEvaluated { trouble } => trouble.to_string(),
    }
}

/// A reason as a sentence in the user's language.
pub fn reason_in(reason: &Reason, lang: Lang) -> String {
    let words = lang.words();
    match reason {
        Reason::AllGatesPassed => words.reason_all_gates_passed.to_owned(),
        Reason::AllGatesPassedUnpromised => words.promise_missing_but_verified.to_owned(),
        Reason::TaskNotShown { why } => not_shown(why, lang),
        Reason::ProofMissing { .. } => words.reason_proof_missing.to_owned(),
        Reason::NothingChanged => words.reason_nothing_changed.to_owned(),
        Reason::AgentBlocked { why } => fill(words.reason_agent_blocked, &[("why", why)]),
        Reason::AllMarkersStated => words.reason_all_markers_stated.to_owned(),
        Reason::Promised | Reason::AllTasksTicked | Reason::NothingAsked => words.reason_claimed.to_owned(),
        Reason::GatesFailed { gates } => fill(words.reason_gates_failed, &[("gates", &words.list(gates))]),
        Reason::FailingBefore { gates } => fill(words.guard_failing_before, &[("gates", &words.list(gates))]),
        Reason::TreeNeverSettled { files } => {
            fill(words.reason_tree_never_settled, &[("files", &words.list(files))])
        }
        Reason::MarkersMissing { markers } => {
            fill(words.reason_markers_missing, &[("markers", &words.list(markers))])
        }
        Reason::HygieneFailed { flaws } => {
            fill(words.reason_hygiene_failed, &[("flaws", &words.list(flaws))])
        }
        Reason::HygienePassed => words.reason_hygiene_passed.to_owned(),
        Reason::TasksOpen { done, total } => {
            fill(words.tasks_open, &[("open", &(total - done)), ("total", total)])
        }
        Reason::PromiseMissing { .. } => words.reason_promise_missing.to_owned(),
        Reason::DefinitionChanged => words.reason_definition_changed.to_owned(),
        Reason::NotYet { what } => fill(words.reason_not_yet, &[("what", what)]),
        Reason::DefinitionRevoked => words.reason_definition_revoked.to_owned(),
        Reason::AcceptedSince => words.reason_accepted_since.to_owned(),
        Reason::ShippingNotChecked => words.reason_shipping_not_checked.to_owned(),
        Reason::Shipped { until, url } => {
            let template = match until {
                Until::Verified => words.reason_all_gates_passed,
                Until::Pr => words.reason_pull_request_open,
                Until::Ci => words.reason_ci_passed,
                Until::Merged => words.reason_merged,
            };
            fill(template, &[("url", &url.clone().unwrap_or_default())]).trim_end().to_owned()
        }
        Reason::ShipUnmet { what, next, .. } => {
            fill(words.reason_ship_unmet, &[("what", what), ("next", next)])
        }
        Reason::CiFailed { checks, .. } => fill(words.reason_ci_failed, &[("checks", &words.list(checks))]),
        Reason::ShipNeedsUser { what, next, .. } => {
            fill(words.reason_ship_needs_user, &[("what", what), ("next", next)])
        }
        Reason::PassedAfterFailing => words.reason_passed_after_failing.to_owned(),
        Reason::FilesReplaced { files } => {
            fill(words.reason_files_replaced, &[("files", &words.list(files))])
        }
        Reason::DeadlineReached { gates } => {
            fill(words.reason_deadline_reached, &[("gates", &words.list(gates))])
        }
        Reason::LedgerTampered { what } => fill(words.reason_ledger_tampered, &[("what", what)]),
        Reason::NotEvaluated { trouble } => fill(words.reason_not_evaluated, &[("why", trouble)]),
    }
}

/// A step beyond the gates.
pub fn ship_step(step: &ShipStep) -> String {
    match step {
        ShipStep::SwitchedBranch { branch } => format!("switched to branch `{branch}`"),
        ShipStep::Committed { commit } => format!("committed {}", short(commit)),
        ShipStep::Pushed { branch, commit } => format!("pushed {} to `{branch}`", short(commit)),
        ShipStep::PullRequest { number, url } => format!("pull request #{number} is open: {url}"),
        ShipStep::Merged { number, url, commit } => {
            format!("pull request #{number} is merged at {}: {url}", short(commit))
        }
    }
}

/// Why nothing shows the task, in the user's language.
pub fn not_shown(why: &NotShown, lang: Lang) -> String {
    let words = lang.words();
    match why {
        NotShown::NothingNew => words.not_shown_nothing_new.to_owned(),
        NotShown::PassesWithoutChange { gates, tests } => {
            let what = if tests.is_empty() { words.list(gates) } else { words.list(&few(tests)) };
            fill(words.not_shown_passes_without, &[("what", &what)])
        }
        NotShown::CannotBeJudged { reason } => fill(words.not_shown_cannot_be_judged, &[("why", reason)]),
        NotShown::NoTest { reason } => fill(words.not_shown_no_test, &[("why", reason)]),
        NotShown::TestsGone { tests } => {
            fill(words.not_shown_tests_gone, &[("tests", &words.list(&few(tests)))])
        }
        NotShown::RedAtStart => words.not_shown_red_at_start.to_owned(),
        NotShown::TestsNotListed => words.not_shown_not_listed.to_owned(),
        NotShown::NotAsked => words.reason_all_gates_passed.to_owned(),
    }
}

/// The first few of many names.
fn few(names: &[String]) -> Vec<String> {
    const MOST: usize = 5;
    let more = names.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("+{more}"));
    names.iter().take(MOST).cloned().chain(more).collect()
}

/// `2 tests red → green · 1 new test fails without the change`
pub fn shown(shown: &[ShownFact]) -> String {
    let (mut gates, mut fixed, mut new, mut others) = (Vec::new(), 0, 0, Vec::new());
    let mut kept = 0;
    for shown in shown {
        match shown {
            ShownFact::GateFixed { gate } => gates.push(format!("`{gate}`")),
            ShownFact::TestsFixed { tests, .. } => fixed += tests.len(),
            ShownFact::NewTests { tests, .. } => new += tests.len(),
            ShownFact::FailsWithoutChange { gate, .. } => others.push(format!("`{gate}`")),
            ShownFact::BehaviourKept { tests } => kept += tests,
        }
    }
    let counted = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    let fail = |count: usize| if count == 1 { "fails" } else { "fail" };
    let mut parts = Vec::new();
    if !gates.is_empty() {
        parts.push(format!("{} red → green", gates.join(", ")));
    }
    if fixed > 0 {
        parts.push(format!("{} red → green", counted(fixed, "test")));
    }
    if new > 0 {
        parts.push(format!("{} {} without the change", counted(new, "new test"), fail(new)));
    }
    if !others.is_empty() {
        parts.push(format!("{} {} without the change", others.join(", "), fail(others.len())));
    }
    if kept > 0 {
        parts.push(format!("the same {} before and after", counted(kept, "test")));
    }
    parts.join(" · ")
}

/// The limit that ended a failing loop.
pub fn limit(limit: LimitHit) -> String {
    match limit {
        LimitHit::Attempts { most: 1 } => "The only iteration was used.".into(),
        LimitHit::Attempts { most } => format!("All {most} iterations were used."),
        LimitHit::Clock { after } => format!("The time limit of {} was exceeded.", duration::show(after)),
        LimitHit::Errors { in_a_row } => {
            format!("The gates could not be evaluated {in_a_row} times in a row.")
        }
        LimitHit::NoProgress { equal } => format!("No progress: {equal} identical stops in a row."),
        LimitHit::AgentCalls { most } => format!("All {most} agent calls were used."),
        LimitHit::Cost { most } => format!("The cost limit of {most} was reached."),
        LimitHit::ClientCap { cap } => {
            format!("The client overrides a hook after {cap} consecutive blocks.")
        }
    }
}

/// Why a loop is paused.
pub fn pause_cause(cause: &PauseCause) -> String {
    match cause {
        PauseCause::Word | PauseCause::Command => "Paused by the user.".into(),
        PauseCause::SessionEnded { .. } | PauseCause::Cleared { .. } => "Its session ended.".into(),
        PauseCause::Errors => "Too many errors in a row.".into(),
        PauseCause::Limit { .. } => "A limit was reached.".into(),
        PauseCause::Interrupted => "Interrupted.".into(),
        PauseCause::Denied { rule } => format!("The agent needs a permission that was denied: {rule}"),
        PauseCause::NotSignedIn { why } => format!("The agent's client is not signed in: {why}"),
        PauseCause::AgentCouldNotStart { why } => format!("The agent could not be started: {why}"),
        PauseCause::Unproven => "The gates passed without proof; see the last verdict.".into(),
        PauseCause::StillRunning { .. } => "Processes left running by the agent could not be killed.".into(),
        PauseCause::NoGates => "No gate is accepted here any more.".into(),
    }
}

/// Why a loop was cancelled.
pub fn cancel_cause(cause: &CancelCause) -> String {
    match cause {
        CancelCause::Command => "Cancelled by the user.".into(),
        CancelCause::FileDeleted => "Its file in the repo was deleted.".into(),
        CancelCause::Replaced => "Replaced by another loop.".into(),
        CancelCause::Failed { why } => format!("Given up by the user: {why}"),
    }
}

impl Texts {
    pub fn error_kind(&self, kind: ErrorKind) -> &'static str {
        match kind {
            ErrorKind::AgentExecution => self.error_agent_execution,
            ErrorKind::TaskNotFound => self.error_task_not_found,
            ErrorKind::FileOperation => self.error_file_operation,
            ErrorKind::CannotTell => self.error_not_evaluated,
        }
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { file, problem } => write!(f, "`{file}` cannot be read: {problem}"),
            Self::GateCouldNotStart { gate, why } => write!(f, "gate `{gate}` could not start: {why}"),
            Self::Deadline { gates } => f.write_str(&not_finished(gates)),
            Self::Tree { why } => write!(f, "the work tree cannot be read: {why}"),
            Self::Busy { why } => f.write_str(why),
            Self::NoReceipt { gate } => {
                write!(f, "gate `{gate}` passed, but there is no receipt for this tree")
            }
            Self::Forge { what, next } => write!(f, "{what}; {next}"),
            Self::TaskListGone { file } => write!(f, "the task list `{file}` is missing"),
            Self::TaskListEmpty { file } => write!(f, "the task list `{file}` has no checkboxes"),
            Self::TaskListUnreadable { file, why } => {
                write!(f, "the task list `{file}` cannot be read: {why}")
            }
        }
    }
}

impl std::error::Error for EvaluationError {}

impl GateOutcome {
    /// What happened, to follow the gate's name.
    pub fn sentence(&self) -> String {
        match self {
            Self::Passed => "passed".into(),
            Self::Failed { code } => format!("failed with exit code {code}"),
            Self::Signalled { signal } => format!("was killed by signal {signal}{}", signal_name(*signal)),
            Self::TimedOut { after } => {
                format!("timed out after {} and was killed with all its processes", duration::show(*after))
            }
            Self::Leaked { processes } => {
                format!(
                    "exited 0 but left {} running ({}); killed",
                    process_count(processes),
                    processes.join(", ")
                )
            }
            Self::CouldNotStart { why } => format!("could not start: {why}"),
            Self::DeadlineReached => "was stopped before it finished".into(),
            Self::NoTestsRan { before: 1 } => "exited 0 without running a test; 1 ran at the start".into(),
            Self::NoTestsRan { before } => {
                format!("exited 0 without running a test; {before} ran at the start")
            }
        }
    }
}

fn process_count(processes: &[String]) -> String {
    if processes.len() == 1 { "1 process".into() } else { format!("{} processes", processes.len()) }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        6 => " (SIGABRT)",
        9 => " (SIGKILL: out of memory?)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

fn not_finished(gates: &[GateName]) -> String {
    format!("the gates did not finish before the hook's deadline; not finished: {}", names(gates))
}

/// `` `lint`, `test` ``
pub(crate) fn names(gates: &[GateName]) -> String {
    gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>().join(", ")
}

/// The first few of many files.
pub(crate) fn shortlist(files: &[String]) -> String {
    const MOST: usize = 8;
    let mut text = files.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > MOST {
        text.push_str(&format!(" and {} more", files.len() - MOST));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timeout_is_worded_with_its_length() {
        let sentence = GateOutcome::TimedOut { after: Duration::from_secs(300) }.sentence();
        assert_eq!(sentence, "timed out after 5m and was killed with all its processes");
    }
}
