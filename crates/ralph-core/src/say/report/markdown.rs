//! The report as Markdown. `grep "Status: FAILED"` finds exactly the failed ones, because no other text can forge that
//! line.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::phrase::{Phrase, clipped, inline, one_line};
use super::{
    AgentEnd, GateInIteration, GateMark, LoopEnding, LoopKind, LoopReport, ReportIteration, ReportStatus,
};
use crate::ledger::event::{CancelCause, PauseCause};
use crate::model::duration;
use crate::model::evidence::ShownFact;
use crate::model::language::Lang;
use crate::model::verdict::Reason;
use crate::say::words;

/// The most file names listed.
const MOST_FILES: usize = 50;
const MOST_ERRORS: usize = 30;
const TITLE: usize = 80;

impl LoopReport {
    pub fn markdown(&self) -> String {
        let mut page = Page::new(&self.task, self.status());
        page.section("Summary", &self.summary_items());
        page.section("Execution Details", &self.details());
        page.names(self.files.as_deref().unwrap_or_default());
        page.table(&self.iterations);
        if !self.shipped.is_empty() {
            let steps: Vec<Phrase> = self.shipped.iter().map(|step| Phrase::new("").foreign(step)).collect();
            page.section("Pull Request", &steps);
        }
        page.heading("Results");
        let failing = self.failing_items();
        if !failing.is_empty() {
            page.subsection("Failing", &failing);
        }
        page.subsection("Errors", &self.error_items());
        page.subsection("Recommendations", &self.recommendations());
        page.section("Next Steps", &self.next_steps());
        page.text
    }

    fn summary_items(&self) -> Vec<Phrase> {
        let mut items = vec![Phrase::new("Task: ").foreign(&self.task), self.verdict_phrase()];
        if !self.shown.is_empty() {
            items.push(Phrase::new("ShownFact: ").foreign(words::shown(&self.shown)));
            items.extend(self.shown_tests());
        }
        items.extend(self.ending.limit().map(|limit| Phrase::new(format!("Limit: {}", words::limit(limit)))));
        items.push(Phrase::new("Loop: ").code(self.id.as_str()));
        items
    }

    /// The tests that show the task, by name.
    fn shown_tests(&self) -> Option<Phrase> {
        let tests = self.shown.iter().flat_map(|shown| match shown {
            ShownFact::TestsFixed { tests, .. }
            | ShownFact::NewTests { tests, .. }
            | ShownFact::FailsWithoutChange { tests, .. } => tests.as_slice(),
            ShownFact::GateFixed { .. } | ShownFact::BehaviourKept { .. } => &[],
        });
        let names: Vec<&str> = tests.map(String::as_str).take(MOST_ERRORS).collect();
        (!names.is_empty())
            .then(|| Phrase::new("Tests that fail without the change: ").foreign(names.join(", ")))
    }

    fn verdict_phrase(&self) -> Phrase {
        let verdict = Phrase::new(format!("Verdict: {}", self.ending.word()));
        match self.why() {
            Some(why) => verdict.words(". ").foreign(why),
            None => verdict,
        }
    }

    /// Why it ended or is paused.
    pub(super) fn why(&self) -> Option<String> {
        match &self.ending {
            LoopEnding::Judged { reason, .. } => Some(sentence(reason)),
            LoopEnding::Paused(why) => Some(super::plain(&words::pause_cause(why))),
            LoopEnding::Cancelled(why) => Some(super::plain(&words::cancel_cause(why))),
            LoopEnding::Open => None,
        }
    }

    fn details(&self) -> Vec<Phrase> {
        let mut items = vec![
            Phrase::new(format!("Began: {}", moment(self.began))),
            Phrase::new(format!("Ended: {}", moment(self.ended))),
            Phrase::new(format!("Duration: {}", duration::show(self.duration()))),
        ];
        items.push(match (&self.agent, self.kind) {
            (Some(agent), _) => Phrase::new("Agent: ").foreign(agent),
            (None, LoopKind::Driver) => Phrase::new("Agent: unknown"),
            (None, LoopKind::Session) => Phrase::new("Agent: the session itself"),
        });
        items.push(Phrase::new(format!("Iterations: {}", self.iterations_in_words())));
        items.extend(self.cost().map(|cost| Phrase::new(format!("Cost: {cost}"))));
        let tokens = self.tokens();
        if tokens.input > 0 || tokens.output > 0 {
            items.push(Phrase::new(format!(
                "Tokens: {} in ({} cached), {} out",
                tokens.input, tokens.cached, tokens.output
            )));
        }
        items.extend(self.waits.iter().take(MOST_ERRORS).map(|wait| {
            Phrase::new(format!("Waited from {} until {}: ", moment(wait.from), moment(wait.until)))
                .foreign(&wait.why)
        }));
        if let Some(files) = &self.files {
            items.push(Phrase::new(format!("Files modified: {}", files.len())));
        }
        items
    }

    /// `3 of 15`, or `3` without a limit.
    pub(super) fn iterations_in_words(&self) -> String {
        let count = self.iterations_run();
        match self.most_iterations {
            Some(most) => format!("{count} of {most}"),
            None => count.to_string(),
        }
    }

    fn error_items(&self) -> Vec<Phrase> {
        let shown = self.errors.iter().rev().take(MOST_ERRORS).rev();
        shown
            .map(|fault| Phrase::new(format!("Iteration {}: ", fault.iteration)).foreign(&fault.what))
            .collect()
    }
}

impl LoopEnding {
    /// The ending in a word or two.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused(PauseCause::Interrupted) => "interrupted",
            Self::Paused(_) => "paused",
            Self::Cancelled(CancelCause::Failed { .. }) => "failed",
            Self::Cancelled(_) => "cancelled",
            Self::Judged { verdict, .. } => words::verdict_in_report(*verdict),
        }
    }
}

/// A Markdown page under construction; untrusted text in headings, items and cells is escaped.
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    pub(super) fn new(task: &str, status: ReportStatus) -> Self {
        let title = inline(&clipped(&one_line(task), TITLE));
        Self { text: format!("# Loop report: {title}\n\nStatus: {}\n", status.word()) }
    }

    pub(super) fn heading(&mut self, name: &str) {
        self.put(&format!("\n## {name}\n"));
    }

    pub(super) fn section(&mut self, name: &str, items: &[Phrase]) {
        self.heading(name);
        self.list(items);
    }

    pub(super) fn subsection(&mut self, name: &str, items: &[Phrase]) {
        self.put(&format!("\n### {name}\n"));
        self.list(items);
    }

    fn list(&mut self, items: &[Phrase]) {
        self.put("\n");
        if items.is_empty() {
            self.put("None.\n");
        }
        for item in items {
            self.put(&format!("- {}\n", item.markdown()));
        }
    }

    /// File names under the last item of the list above.
    fn names(&mut self, names: &[String]) {
        for name in names.iter().take(MOST_FILES) {
            self.put(&format!("  - {}\n", inline(name)));
        }
        if names.len() > MOST_FILES {
            self.put(&format!("  - and {} more\n", names.len() - MOST_FILES));
        }
    }

    fn table(&mut self, iterations: &[ReportIteration]) {
        if iterations.is_empty() {
            return;
        }
        self.put("\n| # | Agent | Took | Cost | Gates | Verdict |\n| --: | --- | --: | --: | --- | --- |\n");
        for row in iterations {
            let cells = [
                row.number.to_string(),
                agent_cell(row),
                row.took.map(duration::show).unwrap_or_default(),
                row.cost.map(|cost| cost.to_string()).unwrap_or_default(),
                row.gates.iter().map(gate_cell).collect::<Vec<_>>().join(", "),
                verdict_cell(row),
            ];
            self.put(&format!("| {} |\n", cells.join(" | ")));
        }
    }

    fn put(&mut self, text: &str) {
        let _into_memory = self.text.write_str(text);
    }
}

fn agent_cell(row: &ReportIteration) -> String {
    let mut notes: Vec<String> = row.agent.iter().map(|ended| agent_word(ended).to_owned()).collect();
    let denials: u32 = row.denied.iter().map(|denial| denial.count).sum();
    if denials > 0 {
        notes.push(format!("{denials} denied"));
    }
    if !row.left_running.is_empty() {
        notes.push(format!("left {} running", row.left_running.len()));
    }
    notes.join(", ")
}

/// How a run of the agent ended, in a word or two.
pub(super) fn agent_word(ended: &AgentEnd) -> &'static str {
    match ended {
        AgentEnd::Finished => "ended",
        AgentEnd::Failed { .. } => "failed",
        AgentEnd::TimedOut => "timed out",
        AgentEnd::WentSilent => "went silent",
        AgentEnd::OutOfUsage { .. } => "usage limit reached",
        AgentEnd::CouldNotStart { .. } => "could not start",
        AgentEnd::LoginRefused { .. } => "login refused",
        AgentEnd::Interrupted => "interrupted",
    }
}

fn gate_cell(seen: &GateInIteration) -> String {
    format!("{} {}", sign(seen), inline(seen.gate.as_str()))
}

/// The mark of a gate, the same as in all other output.
pub(super) fn sign(seen: &GateInIteration) -> &'static str {
    match seen.mark {
        GateMark::Passed => "✓",
        GateMark::Failed | GateMark::NotEvaluated if seen.advisory => "!",
        GateMark::Failed => "✗",
        GateMark::NotEvaluated => "?",
        GateMark::NotRun => "·",
    }
}

fn verdict_cell(row: &ReportIteration) -> String {
    match &row.end {
        Some((verdict, reason)) => format!("{verdict}: {}", inline(&sentence(reason))),
        None => "not judged".into(),
    }
}

/// A reason in English.
pub(super) fn sentence(reason: &Reason) -> String {
    super::plain(&words::reason_in(reason, Lang::En))
}

pub(super) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
