//! The report on a terminal: a short summary, the gates as a grid, and the whole page. It only assigns tones; the
//! program applies the colours.

use unicode_width::UnicodeWidthStr as _;

use super::markdown::{agent_word, sentence, sign};
use super::phrase::{Phrase, clipped, one_line};
use super::{GateInIteration, GateMark, LoopEnding, LoopReport, ReportIteration, ReportStatus};
use crate::model::duration;
use crate::model::evidence::NotShown;
use crate::model::id::GateName;
use crate::model::language::Lang;
use crate::model::verdict::{Reason, Verdict};
use crate::say::words;

/// The kind of a span; the program maps it to a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Odd,
    Bad,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StyledSpan {
    pub tone: Tone,
    pub text: String,
}

/// One terminal line without its line end. Spans contain no escapes or line breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledLine(Vec<StyledSpan>);

impl StyledLine {
    fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push(StyledSpan { tone, text: text.into() });
        self
    }

    pub fn spans(&self) -> &[StyledSpan] {
        &self.0
    }

    pub fn plain(&self) -> String {
        self.0.iter().map(|span| span.text.as_str()).collect()
    }

    fn phrase(self, phrase: &Phrase) -> Self {
        phrase.parts().fold(self, |line, (is_code, text)| {
            line.with(if is_code { Tone::Strong } else { Tone::Plain }, text)
        })
    }
}

const TASK: usize = 70;
const GATE_NAME: usize = 28;
/// The most open items and next steps shown.
const MOST_IN_SUMMARY: usize = 3;

impl LoopReport {
    /// The end in a few lines: verdict and task, effort, open items, next steps.
    pub fn summary(&self) -> Vec<StyledLine> {
        let (mark, tone) = self.mark();
        let head = StyledLine::default()
            .with(tone, format!("{mark} {}", self.ending.word().to_uppercase()))
            .with(Tone::Strong, format!("  {}", clipped(&self.what_is_shown(), TASK)));
        let mut lines = vec![head, indented().with(Tone::Faint, self.what_it_took().join(" · "))];
        match self.status() {
            // The task is named, never as if the headline were about it.
            ReportStatus::Completed => {
                lines
                    .push(labelled("task", &Phrase::default().foreign(clipped(&one_line(&self.task), TASK))));
                return lines;
            }
            ReportStatus::CompletedNotShown | ReportStatus::CompletedUnchanged => {
                lines.extend(self.next_steps().iter().take(1).map(|step| labelled("next", step)));
                return lines;
            }
            ReportStatus::CompletedUnverified | ReportStatus::Failed | ReportStatus::Partial => {}
        }
        lines.extend(self.what_is_open().iter().take(MOST_IN_SUMMARY).map(|open| labelled("open", open)));
        lines.extend(self.next_steps().iter().take(MOST_IN_SUMMARY).map(|step| labelled("next", step)));
        lines
    }

    fn mark(&self) -> (&'static str, Tone) {
        match self.status() {
            ReportStatus::Completed => ("✓", Tone::Good),
            ReportStatus::CompletedNotShown | ReportStatus::CompletedUnchanged => ("•", Tone::Odd),
            ReportStatus::CompletedUnverified => ("?", Tone::Odd),
            ReportStatus::Failed => ("✗", Tone::Bad),
            ReportStatus::Partial => ("‖", Tone::Odd),
        }
    }

    /// What the gates showed; the task, where that is still open.
    fn what_is_shown(&self) -> String {
        let task = clipped(&one_line(&self.task), TASK / 2);
        match &self.ending {
            LoopEnding::Judged { verdict: Verdict::Verified, .. } => {
                let gates = self
                    .last_judged()
                    .map_or(0, |row| row.gates.iter().filter(|seen| !seen.advisory).count());
                let gates = if gates == 1 { "1 gate".to_owned() } else { format!("{gates} gates") };
                let shown = words::shown(&self.shown);
                if shown.is_empty() { gates } else { format!("{gates} · {shown}") }
            }
            LoopEnding::Judged {
                verdict: Verdict::Passing, reason: Reason::TaskNotShown { why }, ..
            } => match why {
                NotShown::NothingNew => format!("as before this loop; no test shows \"{task}\""),
                why => words::not_shown(why, Lang::En),
            },
            LoopEnding::Judged { verdict: Verdict::Passing, .. } => {
                format!("not asked whether they show \"{task}\"")
            }
            LoopEnding::Judged { verdict: Verdict::Unchanged, .. } => {
                format!("gates pass, no file was changed for \"{task}\"")
            }
            _ => one_line(&self.task),
        }
    }

    fn what_it_took(&self) -> Vec<String> {
        let iterations = match (self.iterations_run(), self.most_iterations) {
            (1, None) => "1 iteration".to_owned(),
            (count, None) => format!("{count} iterations"),
            (_, Some(_)) => format!("iteration {}", self.iterations_in_words()),
        };
        let mut parts = vec![iterations, duration::show(self.duration())];
        parts.extend(self.cost().map(|cost| cost.to_string()));
        parts.extend(self.files.as_ref().map(|files| match files.len() {
            0 => "no files changed".to_owned(),
            1 => "1 file changed".to_owned(),
            count => format!("{count} files changed"),
        }));
        parts
    }

    fn what_is_open(&self) -> Vec<Phrase> {
        let gates: Vec<&GateInIteration> = self.open_gates().collect();
        let mut open = Vec::new();
        if !gates.is_empty() {
            let names = gates.iter().map(|seen| seen.gate.as_str()).collect::<Vec<_>>().join(", ");
            let word = if gates.len() == 1 { "gate " } else { "gates " };
            open.push(Phrase::new(word).foreign(names).words(if gates.len() == 1 {
                " fails"
            } else {
                " fail"
            }));
        } else if let Some(why) = self.why() {
            open.push(Phrase::default().foreign(why));
        }
        open.extend(self.ending.limit().map(|limit| Phrase::new(words::limit(limit))));
        open
    }

    /// The gates as rows over the latest iterations, at most `most_columns`.
    pub fn grid(&self, most_columns: usize) -> Vec<StyledLine> {
        let names = self.gates();
        let judged: Vec<&ReportIteration> =
            self.iterations.iter().filter(|row| !row.gates.is_empty()).collect();
        if names.is_empty() || most_columns == 0 {
            return Vec::new();
        }
        let newest = &judged[judged.len().saturating_sub(most_columns)..];
        let is_cut = newest.len() < judged.len();
        let width = newest.iter().map(|row| row.number.to_string().len()).max().unwrap_or(1);
        let cells = |label: &str, ellipsis: &str| {
            let padded = format!("{label}{}", " ".repeat(name_width(&names).saturating_sub(label.width())));
            let line = indented().with(Tone::Plain, padded);
            if is_cut { line.with(Tone::Faint, format!("  {ellipsis}")) } else { line }
        };
        let head = newest
            .iter()
            .fold(cells("", "…"), |line, row| line.with(Tone::Faint, format!("  {:>width$}", row.number)));
        let rows = names.iter().map(|name| {
            newest.iter().fold(cells(&shown(name), " "), |line, row| {
                let (mark, tone) = cell(row, name);
                line.with(Tone::Plain, format!("  {}", " ".repeat(width - 1))).with(tone, mark)
            })
        });
        [head].into_iter().chain(rows).collect()
    }

    /// The whole report for a terminal.
    pub fn page(&self) -> Vec<StyledLine> {
        let mut lines = self.summary();
        let mut block = |more: Vec<StyledLine>| {
            if !more.is_empty() {
                lines.push(StyledLine::default());
                lines.extend(more);
            }
        };
        block(self.grid(MOST_COLUMNS_OF_PAGE));
        block(self.iterations.iter().map(line_of).collect());
        block(self.failing_items().iter().map(|item| labelled("fail", item)).collect());
        let errors = self.errors.iter().map(|fault| {
            indented()
                .with(Tone::Bad, format!("iteration {}  ", fault.iteration))
                .with(Tone::Plain, one_line(&fault.what))
        });
        block(errors.collect());
        block(self.recommendations().iter().map(|advice| labelled("hint", advice)).collect());
        lines
    }
}

const MOST_COLUMNS_OF_PAGE: usize = 15;

fn indented() -> StyledLine {
    StyledLine::default().with(Tone::Plain, "  ")
}

fn labelled(label: &str, phrase: &Phrase) -> StyledLine {
    indented().with(Tone::Faint, format!("{label}  ")).phrase(phrase)
}

fn shown(name: &GateName) -> String {
    clipped(&one_line(name.as_str()), GATE_NAME)
}

fn name_width(names: &[&GateName]) -> usize {
    names.iter().map(|name| shown(name).width()).max().unwrap_or_default()
}

fn cell(row: &ReportIteration, name: &GateName) -> (&'static str, Tone) {
    let Some(seen) = row.gate(name) else { return ("·", Tone::Faint) };
    let tone = match seen.mark {
        GateMark::Passed => Tone::Good,
        GateMark::Failed if !seen.advisory => Tone::Bad,
        GateMark::Failed | GateMark::NotEvaluated => Tone::Odd,
        GateMark::NotRun => Tone::Faint,
    };
    (sign(seen), tone)
}

fn line_of(row: &ReportIteration) -> StyledLine {
    let mut facts: Vec<String> =
        row.agent.iter().map(|ended| format!("agent {}", agent_word(ended))).collect();
    facts.extend(row.took.map(duration::show));
    facts.extend(row.cost.map(|cost| cost.to_string()));
    facts.push(match &row.end {
        Some((verdict, reason)) => format!("{verdict}: {}", one_line(&sentence(reason))),
        None => "not judged".into(),
    });
    indented().with(Tone::Faint, format!("{:>3}  ", row.number)).with(Tone::Plain, facts.join(" · "))
}
