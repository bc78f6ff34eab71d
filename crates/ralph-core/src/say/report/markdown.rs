//! The report as Markdown. `grep "Status: FAILED"` finds a failed one and no other: the line is plain and ours alone.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::phrase::{Phrase, clipped, inline, one_line};
use super::{AgentEnd, Ending, GateSeen, Iteration, LoopKind, LoopReport, Mark, ReportStatus};
use crate::ledger::event::{CancelCause, PauseCause};
use crate::model::duration;
use crate::model::language::Lang;
use crate::model::verdict::{LimitHit, Reason, Verdict};
use crate::say::telling;

/// Names of files; a report is no listing.
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
        page.heading("Results");
        page.subsection("Errors", &self.error_items());
        page.subsection("Recommendations", &self.recommendations());
        page.section("Next Steps", &self.next_steps());
        page.text
    }

    fn summary_items(&self) -> Vec<Phrase> {
        let mut items = vec![Phrase::new("Task: ").foreign(&self.task), self.verdict_phrase()];
        items.extend(self.ending.limit().map(|limit| Phrase::new(format!("Limit: {}", limit_words(limit)))));
        items.push(Phrase::new("Loop: ").code(self.id.as_str()));
        items
    }

    fn verdict_phrase(&self) -> Phrase {
        let verdict = Phrase::new(format!("Verdict: {}", self.ending.word()));
        match self.why() {
            Some(why) => verdict.words(". ").foreign(why),
            None => verdict,
        }
    }

    /// Why it ended as it did, or why it rests.
    pub(super) fn why(&self) -> Option<String> {
        match &self.ending {
            Ending::Judged { reason, .. } => Some(sentence(reason)),
            Ending::Paused(why) => Some(pause_sentence(why)),
            Ending::Cancelled(why) => Some(cancel_sentence(why)),
            Ending::Open => None,
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
                "Tokens: {} in ({} of them cached), {} out",
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

    /// How many there were, and of how many.
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

impl Ending {
    /// The verdict in a word or two.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Paused(PauseCause::Interrupted) => "interrupted",
            Self::Paused(_) => "paused",
            Self::Cancelled(CancelCause::Failed { .. }) => "failed",
            Self::Cancelled(_) => "cancelled",
            Self::Judged { verdict, .. } => match verdict {
                Verdict::Verified => "verified",
                Verdict::Claimed => "done, unverified",
                Verdict::Held => "held",
                Verdict::Waiting => "waiting",
                Verdict::Paused => "paused",
                Verdict::Released => "let go, unverified",
                Verdict::Failed => "failed",
                Verdict::Stuck => "stuck",
                Verdict::Tampered => "tampered",
                Verdict::Cancelled => "cancelled",
                Verdict::NeedsHuman => "needs a person",
            },
        }
    }
}

/// Markdown in the making. Headings, list items and cells are ours; what stands in them is rendered harmless.
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

    /// What the last item of the list above counted.
    fn names(&mut self, names: &[String]) {
        for name in names.iter().take(MOST_FILES) {
            self.put(&format!("  - {}\n", inline(name)));
        }
        if names.len() > MOST_FILES {
            self.put(&format!("  - and {} more\n", names.len() - MOST_FILES));
        }
    }

    fn table(&mut self, iterations: &[Iteration]) {
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

fn agent_cell(row: &Iteration) -> String {
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
        AgentEnd::TimedOut => "took too long",
        AgentEnd::WentSilent => "went silent",
        AgentEnd::OutOfUsage { .. } => "out of usage",
        AgentEnd::CouldNotStart { .. } => "could not start",
        AgentEnd::LoginRefused { .. } => "login refused",
        AgentEnd::Interrupted => "interrupted",
    }
}

fn gate_cell(seen: &GateSeen) -> String {
    format!("{} {}", sign(seen), inline(seen.gate.as_str()))
}

/// The mark of a gate, as everywhere else in the program.
pub(super) fn sign(seen: &GateSeen) -> &'static str {
    match seen.mark {
        Mark::Passed => "✓",
        Mark::Failed | Mark::CouldNotTell if seen.advisory => "!",
        Mark::Failed => "✗",
        Mark::CouldNotTell => "?",
        Mark::NotRun => "·",
    }
}

fn verdict_cell(row: &Iteration) -> String {
    match &row.end {
        Some((verdict, reason)) => format!("{verdict}: {}", inline(&sentence(reason))),
        None => "not judged".into(),
    }
}

/// A reason in English.
pub(super) fn sentence(reason: &Reason) -> String {
    super::plain(&telling::sentence(reason, Lang::En))
}

fn pause_sentence(why: &PauseCause) -> String {
    match why {
        PauseCause::Word | PauseCause::Command => "A person paused it.".into(),
        PauseCause::SessionEnded { .. } | PauseCause::Cleared { .. } => "Its session ended.".into(),
        PauseCause::Errors => "Too many errors in a row.".into(),
        PauseCause::Limit { .. } => "A limit was reached.".into(),
        PauseCause::Interrupted => "Whoever drove it was told to end.".into(),
        PauseCause::Denied { rule } => super::plain(&format!("The agent may not do what it needs: {rule}")),
        PauseCause::NotSignedIn { why } => {
            super::plain(&format!("The agent's client is not signed in: {why}"))
        }
        PauseCause::AgentCouldNotStart { why } => {
            super::plain(&format!("The agent could not be started: {why}"))
        }
        PauseCause::Unproven => "The gates proved nothing.".into(),
        PauseCause::StillRunning { .. } => "What the agent left running could not be ended.".into(),
        PauseCause::NoGates => "No gate is accepted here any more.".into(),
    }
}

fn cancel_sentence(why: &CancelCause) -> String {
    match why {
        CancelCause::Command => "A person ended it.".into(),
        CancelCause::FileDeleted => "Its file in the repo was deleted.".into(),
        CancelCause::Replaced => "Another loop took its place.".into(),
        CancelCause::Failed { why } => super::plain(&format!("A person gave it up: {why}")),
    }
}

pub(super) fn limit_words(limit: LimitHit) -> String {
    match limit {
        LimitHit::Attempts { most: 1 } => "its one iteration is used up.".into(),
        LimitHit::Attempts { most } => format!("all {most} iterations are used up."),
        LimitHit::Clock { after } => format!("it may take {}, and took longer.", duration::show(after)),
        LimitHit::Errors { in_a_row } => format!("{in_a_row} errors in a row."),
        LimitHit::NoProgress { equal } => format!("{equal} equal iterations in a row."),
        LimitHit::AgentCalls { most } => format!("all {most} calls of agents are used up."),
        LimitHit::Cost { most } => format!("it may cost {most}, and that is spent."),
        LimitHit::ClientCap { cap } => format!("the client ends a turn after {cap} blocks."),
    }
}

pub(super) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
