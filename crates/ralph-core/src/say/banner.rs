//! The banner shown when a loop starts, continues, pauses or ends: a box with a title and the facts under it, or the
//! same on one line.
//!
//! Plain text without terminal codes. Widths are counted in cells, so that Chinese and emoji do not break the box.
//! Field values are untrusted: line breaks and escapes are removed.

use unicode_width::UnicodeWidthStr as _;

use crate::model::foreign_text;
use crate::model::id::GateName;
use crate::model::language::Lang;
use crate::model::loop_error::ErrorKind;
use crate::model::secrets::Secrets;
use crate::model::ship::Until;
use crate::say::lang::{Placeholders, Texts, fill};

#[cfg(test)]
mod tests;

/// The inner width of the box.
const INSIDE: usize = 64;
/// The title's column, if it fits there.
const INDENT: usize = 20;
const BAR: u128 = 26;
/// A task can be a whole prompt; a banner shows its beginning.
const FIELD: usize = 160;

/// How many boxes of the task list are ticked. A total of 0 means that there is no list to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    pub done: usize,
    pub total: usize,
}

impl TaskProgress {
    /// Rounded down, so that 100 means all. None without a list.
    pub fn percent(self) -> Option<u128> {
        (self.total > 0).then(|| self.share(100))
    }

    /// How many of `of` equal parts are done, rounded down.
    fn share(self, of: u128) -> u128 {
        self.done.min(self.total) as u128 * of / self.total as u128
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationCount {
    pub n: u32,
    /// None: no limit.
    pub most: Option<u32>,
}

/// The evidence that a loop is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoneBecause {
    Verified,
    /// The gates passed, but the required promise was not given.
    VerifiedWithoutPromise,
    /// The gates passed; nothing shows the task.
    NotShown,
    /// The gates passed; no file was changed.
    Unchanged,
    /// The gates passed; the rest of what was promised was not looked at.
    GatesPassedOnly,
    /// The agent reported done; no gate verified it.
    Claimed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Banner<'a> {
    /// Without a promise and gates it warns that the first stop ends the loop.
    Started {
        task: &'a str,
        iteration: IterationCount,
        progress: TaskProgress,
        next: Option<&'a str>,
        promise: Option<&'a str>,
        gates: &'a [GateName],
    },
    Running {
        iteration: IterationCount,
        progress: TaskProgress,
        next: Option<&'a str>,
        failing: &'a [GateName],
        /// The promise that is still missing.
        promise: Option<&'a str>,
        false_promises: u32,
    },
    Resumed {
        iteration: IterationCount,
        progress: TaskProgress,
        next: Option<&'a str>,
    },
    /// The limit of `most` is reached; continuing grants `more`.
    Limit {
        most: u32,
        more: u32,
        progress: TaskProgress,
    },
    /// Consecutive errors, the oldest first.
    Errors {
        errors: &'a [(ErrorKind, String)],
        iteration: IterationCount,
        progress: TaskProgress,
    },
    Paused {
        iteration: IterationCount,
        progress: TaskProgress,
    },
    Done {
        proof: DoneBecause,
        iteration: IterationCount,
        progress: TaskProgress,
        false_promises: u32,
    },
    /// The goal beyond the gates is reached; `how` is its sentence.
    Shipped {
        until: Until,
        how: &'a str,
        iteration: IterationCount,
        progress: TaskProgress,
        false_promises: u32,
    },
    /// For a pull request, its CI or its merge.
    Waiting {
        what: &'a str,
        iteration: IterationCount,
    },
    /// The agent says that it cannot continue.
    NeedsReview {
        why: &'a str,
        iteration: IterationCount,
        progress: TaskProgress,
    },
    /// `equal` stops in a row were identical.
    Stuck {
        equal: u32,
        iteration: IterationCount,
        progress: TaskProgress,
        failing: &'a [GateName],
    },
    /// The stop was allowed before the client would have overridden the block.
    Capped {
        cap: u32,
        iteration: IterationCount,
        progress: TaskProgress,
        failing: &'a [GateName],
    },
    Cancelled {
        n: u32,
    },
}

/// The banner as a box with its lines under it; no newline at the end.
pub fn boxed(banner: &Banner<'_>, lang: Lang) -> String {
    let sheet = Sheet::of(banner, lang.words());
    let blocks = sheet.blocks.iter().filter(|block| !block.is_empty());
    let texts = blocks.map(|block| block.iter().map(Part::in_lines).collect::<Vec<_>>().join("\n"));
    [framed(&sheet.title)].into_iter().chain(texts).collect::<Vec<_>>().join("\n\n")
}

/// The same on one line.
pub fn one_line(banner: &Banner<'_>, lang: Lang) -> String {
    let words = lang.words();
    if let Banner::Cancelled { n } = banner {
        return fill(words.cancelled_at, &[("n", n)]);
    }
    let sheet = Sheet::of(banner, words);
    let parts = sheet.blocks.iter().flatten().filter_map(|part| part.in_one_line(words));
    [sheet.title.clone()].into_iter().chain(parts).collect::<Vec<_>>().join(" · ")
}

/// `[████░░…] 46%`; empty without a task list. The bar is full only when everything is done.
pub fn bar(progress: TaskProgress) -> String {
    let Some(percent) = progress.percent() else { return String::new() };
    let nearest = progress.share(BAR * 2).div_ceil(2);
    let full = if percent == 100 { BAR } else { nearest.min(BAR - 1) };
    let cells: String = (0..BAR).map(|cell| if cell < full { '█' } else { '░' }).collect();
    format!("[{cells}] {percent}%")
}

/// A banner's content before layout. Blocks are separated by an empty line.
struct Sheet {
    title: String,
    blocks: Vec<Vec<Part>>,
}

enum Part {
    Line(String),
    /// The progress bar of the line above; omitted in the one-line form.
    Bar(String),
    List {
        heading: &'static str,
        /// Precedes each item that has its own line.
        bullet: &'static str,
        items: Vec<String>,
    },
}

impl Part {
    fn in_lines(&self) -> String {
        match self {
            Self::Line(text) | Self::Bar(text) => text.clone(),
            Self::List { heading, bullet, items } => {
                let items: String = items.iter().map(|item| format!("\n{bullet}{item}")).collect();
                format!("{heading}{items}")
            }
        }
    }

    fn in_one_line(&self, words: &Texts) -> Option<String> {
        match self {
            Self::Line(text) => Some(text.clone()),
            Self::Bar(_) => None,
            Self::List { heading, items, .. } => {
                // A full-width colon includes its own space.
                let gap = if heading.ends_with(':') { " " } else { "" };
                Some(format!("{heading}{gap}{}", items.join(words.item_separator)))
            }
        }
    }
}

impl Sheet {
    fn of(banner: &Banner<'_>, words: &'static Texts) -> Self {
        match *banner {
            Banner::Started { task, iteration, progress, next, promise, gates } => {
                let task = signed("📌", words.task, &[("task", &shown(task))]);
                let nothing_blocks = (promise.is_none() && gates.is_empty())
                    .then(|| Part::Line(format!("⚠️ {}", words.nothing_blocks)));
                let holds =
                    [promise_required(words, promise), gate_list("🚦", words.gates_required, words, gates)];
                Self::titled("🚀", words.title_started)
                    .block([task, iteration_line(words, iteration)])
                    .block(progress_with_bar(words, progress))
                    .block(next_task(words, next).into_iter().chain(holds.into_iter().flatten()))
                    .block(nothing_blocks)
            }
            Banner::Running { iteration, progress, next, failing, promise, false_promises } => {
                let left = [
                    next_task(words, next),
                    gate_list("❌", words.gates_failing, words, failing),
                    promise_required(words, promise),
                    false_promise_count(words, false_promises),
                ];
                Self::titled("🔁", words.title_running)
                    .block(progress_parts(words, iteration, progress))
                    .block(left.into_iter().flatten())
            }
            Banner::Resumed { iteration, progress, next } => Self::titled("▶️", words.title_resumed)
                .block(progress_parts(words, iteration, progress))
                .block(next_task(words, next)),
            Banner::Limit { most, more, progress } => {
                let choices = [fill(words.limit_continue, &[("more", &more)]), words.limit_pause.to_owned()];
                Self::titled("⚠️", words.title_limit)
                    .block(
                        [signed("⚠️", words.limit_reached, &[("most", &most)])]
                            .into_iter()
                            .chain(progress_line(words, progress)),
                    )
                    .block([bullets(words.limit_confirm, choices)])
            }
            Banner::Errors { errors, iteration, progress } => {
                let advice =
                    [words.errors_advice_check, words.errors_advice_continue, words.errors_advice_pause];
                let count = signed("⚠️", words.errors_in_a_row, &[("n", &errors.len())]);
                let how_far =
                    progress_line(words, progress).unwrap_or_else(|| iteration_line(words, iteration));
                Self::titled("❌", words.title_errors)
                    .block([count, how_far])
                    .block([error_list(words, errors)])
                    .block([bullets(words.errors_advice, advice.map(str::to_owned))])
            }
            Banner::Paused { iteration, progress } => {
                let mut how_far = progress_with_bar(words, progress);
                if how_far.is_empty() {
                    how_far.push(iteration_line(words, iteration));
                }
                Self::titled("⏸️", words.title_paused).block(how_far).block([signed(
                    "💾",
                    words.paused_saved,
                    &[],
                )])
            }
            Banner::Done { proof, iteration, progress, false_promises } => {
                let (sheet, how) = match proof {
                    DoneBecause::Verified => (Self::titled("✅", words.title_done), words.done_verified),
                    DoneBecause::VerifiedWithoutPromise => {
                        (Self::titled("✅", words.title_done), words.promise_missing_but_verified)
                    }
                    DoneBecause::NotShown => (Self::titled("☑️", words.title_passing), words.done_verified),
                    DoneBecause::Unchanged => {
                        (Self::titled("☑️", words.title_unchanged), words.reason_nothing_changed)
                    }
                    DoneBecause::GatesPassedOnly => {
                        (Self::titled("☑️", words.title_claimed), words.reason_shipping_not_checked)
                    }
                    DoneBecause::Claimed => (Self::titled("☑️", words.title_claimed), words.done_claimed),
                };
                sheet
                    .block([Part::Line(how.to_owned())])
                    .block(progress_parts(words, iteration, progress))
                    .block(false_promise_count(words, false_promises))
            }
            Banner::Shipped { until, how, iteration, progress, false_promises } => {
                let sheet = match until {
                    Until::Verified => Self::titled("✅", words.title_done),
                    Until::Pr => Self::titled("✅", words.title_pull_request_open),
                    Until::Ci => Self::titled("✅", words.title_ci_passed),
                    Until::Merged => Self::titled("✅", words.title_merged),
                };
                sheet
                    .block([Part::Line(shown(how))])
                    .block(progress_parts(words, iteration, progress))
                    .block(false_promise_count(words, false_promises))
            }
            Banner::Waiting { what, iteration } => Self::titled("⏳", words.title_waiting)
                .block([signed("⏳", words.ship_waiting_for, &[("what", &shown(what))])])
                .block([iteration_line(words, iteration), signed("💾", words.ship_waiting_saved, &[])]),
            Banner::Stuck { equal, iteration, progress, failing } => Self::titled("🛑", words.title_stuck)
                .block([signed("⚠️", words.stuck_because, &[("n", &equal)])])
                .block(progress_parts(words, iteration, progress))
                .block(gate_list("❌", words.gates_failing, words, failing)),
            Banner::Capped { cap, iteration, progress, failing } => Self::titled("⚠️", words.title_released)
                .block([signed("⚠️", words.client_cap, &[("cap", &cap)])])
                .block(progress_parts(words, iteration, progress))
                .block(gate_list("❌", words.gates_failing, words, failing)),
            Banner::NeedsReview { why, iteration, progress } => Self::titled("✋", words.title_needs_review)
                .block([signed("⚠️", words.reason_agent_blocked, &[("why", &shown(why))])])
                .block(progress_parts(words, iteration, progress)),
            Banner::Cancelled { n } => Self::titled("⏹️", words.title_cancelled)
                .block([Part::Line(fill(words.cancelled_at, &[("n", &n)]))]),
        }
    }

    fn titled(sign: &str, title: &str) -> Self {
        Self { title: format!("{sign} {title}"), blocks: Vec::new() }
    }

    fn block(mut self, parts: impl IntoIterator<Item = Part>) -> Self {
        self.blocks.push(parts.into_iter().collect());
        self
    }
}

fn signed(sign: &str, template: &str, values: &Placeholders<'_>) -> Part {
    Part::Line(format!("{sign} {}", fill(template, values)))
}

fn bullets<const N: usize>(heading: &'static str, items: [String; N]) -> Part {
    Part::List { heading, bullet: "- ", items: items.into() }
}

fn progress_parts(words: &Texts, iteration: IterationCount, progress: TaskProgress) -> Vec<Part> {
    let mut parts = vec![iteration_line(words, iteration)];
    parts.extend(progress_with_bar(words, progress));
    parts
}

fn iteration_line(words: &Texts, IterationCount { n, most }: IterationCount) -> Part {
    match most {
        Some(most) => signed("🔁", words.iteration, &[("n", &n), ("most", &most)]),
        None => signed("🔁", words.iteration_unlimited, &[("n", &n)]),
    }
}

fn progress_line(words: &Texts, progress: TaskProgress) -> Option<Part> {
    let TaskProgress { done, total } = progress;
    (total > 0).then(|| signed("📊", words.progress, &[("done", &done), ("total", &total)]))
}

fn progress_with_bar(words: &Texts, progress: TaskProgress) -> Vec<Part> {
    let Some(percent) = progress.percent() else { return Vec::new() };
    let values: &Placeholders<'_> =
        &[("done", &progress.done), ("total", &progress.total), ("percent", &percent)];
    vec![signed("📊", words.progress_percent, values), Part::Bar(bar(progress))]
}

fn next_task(words: &Texts, next: Option<&str>) -> Option<Part> {
    next.map(|task| signed("▶️", words.next_task, &[("task", &shown(task))]))
}

fn promise_required(words: &Texts, promise: Option<&str>) -> Option<Part> {
    promise.map(|promise| signed("🤝", words.promise_required, &[("promise", &shown(promise))]))
}

fn false_promise_count(words: &Texts, n: u32) -> Option<Part> {
    (n > 0).then(|| signed("⚠️", words.false_promises, &[("n", &n)]))
}

fn gate_list(sign: &str, template: &str, words: &Texts, gates: &[GateName]) -> Option<Part> {
    (!gates.is_empty()).then(|| signed(sign, template, &[("gates", &shown(&words.list(gates)))]))
}

fn error_list(words: &'static Texts, errors: &[(ErrorKind, String)]) -> Part {
    let item = |(i, (kind, what)): (usize, &(ErrorKind, String))| {
        let (i, kind, what) = (i + 1, words.error_kind(*kind), shown(what));
        fill(words.error_line, &[("i", &i), ("kind", &kind), ("what", &what)])
    };
    Part::List {
        heading: words.errors_details,
        bullet: "",
        items: errors.iter().enumerate().map(item).collect(),
    }
}

/// Untrusted text as a field: one line of limited length.
fn shown(text: &str) -> String {
    let plain = foreign_text::clean(text.as_bytes(), &Secrets::default());
    clipped(&plain.split_whitespace().collect::<Vec<_>>().join(" "), FIELD)
}

/// The title in its box of three lines.
fn framed(title: &str) -> String {
    let title = clipped(title, INSIDE - 2);
    let width = title.width();
    let indent = if INDENT + width < INSIDE { INDENT } else { (INSIDE - width) / 2 };
    let (before, after) = (" ".repeat(indent), " ".repeat(INSIDE - indent - width));
    let edge = "═".repeat(INSIDE);
    format!("╔{edge}╗\n║{before}{title}{after}║\n╚{edge}╝")
}

/// Clips a text to `cells`. The width of a text is not the sum of its characters' (an emoji with its selector), so
/// whole texts are measured; characters are bounded too, because marks without a width are free.
fn clipped(text: &str, cells: usize) -> String {
    let mut kept: String = text.chars().take(4 * cells).collect();
    if kept.len() == text.len() && kept.width() <= cells {
        return kept;
    }
    loop {
        let short = format!("{}…", kept.trim_end());
        if short.width() <= cells || kept.pop().is_none() {
            return short;
        }
    }
}
