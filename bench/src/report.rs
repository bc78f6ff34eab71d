//! The figures with their limits, for the terminal and for `RESULTS.md`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::contest::Times;

pub(crate) struct Figure {
    what: String,
    /// `None` if it cannot be measured on this machine.
    measured: Option<Measured>,
    unit: &'static str,
    compared: Option<Compared>,
    limit: Limit,
}

struct Measured {
    /// The tenth percentile of many runs, or the only value.
    value: f64,
    median: Option<f64>,
}

struct Compared {
    baseline: &'static str,
    ratio: f64,
    ratio_of_medians: f64,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// For reference.
    None,
    /// Of the tenth percentiles.
    Ratio(f64),
    /// In the unit of the figure.
    AtMost(f64),
}

impl Figure {
    /// How long something takes.
    pub(crate) fn of(what: &str, times: &Times) -> Self {
        let median = Some(milliseconds(times.median()));
        let measured = Some(Measured { value: milliseconds(times.tenth_percentile()), median });
        Self { what: what.into(), measured, unit: "ms", compared: None, limit: Limit::None }
    }

    /// How long something takes, and its ratio to something else.
    pub(crate) fn compared(what: &str, times: &Times, baseline: &'static str, other: &Times) -> Self {
        let ratio = |of: fn(&Times) -> Duration| of(times).as_secs_f64() / of(other).as_secs_f64();
        let (ratio, ratio_of_medians) = (ratio(Times::tenth_percentile), ratio(Times::median));
        Self { compared: Some(Compared { baseline, ratio, ratio_of_medians }), ..Self::of(what, times) }
    }

    pub(crate) fn single(what: &str, value: Option<f64>, unit: &'static str) -> Self {
        let measured = value.map(|value| Measured { value, median: None });
        Self { what: what.into(), measured, unit, compared: None, limit: Limit::None }
    }

    #[must_use]
    pub(crate) fn limit(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// `None` without a limit or a value.
    fn is_within(&self) -> Option<bool> {
        match self.limit {
            Limit::None => None,
            Limit::Ratio(most) => Some(self.compared.as_ref()?.ratio <= most),
            Limit::AtMost(most) => Some(self.measured.as_ref()?.value <= most),
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let unit = self.unit;
        let measured = match &self.measured {
            None => "not measurable".into(),
            Some(Measured { value, median: None }) => format!("{} {unit}", number(*value)),
            Some(Measured { value, median: Some(median) }) => {
                format!("{} / {} {unit}", number(*value), number(*median))
            }
        };
        let ratio = self.compared.as_ref().map_or_else(String::new, |compared| {
            format!("{:.2}x / {:.2}x", compared.ratio, compared.ratio_of_medians)
        });
        let limit = match self.limit {
            Limit::None => String::new(),
            Limit::Ratio(most) => format!("{most}x"),
            Limit::AtMost(most) => format!("{most} {unit}"),
        };
        let within = self.is_within().map_or("", |within| if within { "ok" } else { "over" });
        let baseline = self.compared.as_ref().map_or("", |compared| compared.baseline);
        [self.what.clone(), measured, baseline.into(), ratio, limit, within.into()]
    }
}

const COLUMNS: usize = 6;
const HEADER: [&str; COLUMNS] = ["figure", "p10 / median", "against", "ratio", "limit", ""];

#[derive(Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
    }

    pub(crate) fn all_within(&self) -> bool {
        self.figures.iter().all(|figure| figure.is_within() != Some(false))
    }

    pub(crate) fn for_terminal(&self) -> String {
        format!("{}\n\n{}", machine(), self.table())
    }

    pub(crate) fn page(&self) -> String {
        format!(
            "# Benchmark results\n\n\
             Written by `cargo run --release -p ralph-bench` on {}. Whole processes, built as released and \
             run alternately with their baseline; limits apply to the tenth percentile (p10). Run it on an idle machine: \
             creating files is slow during builds and for minutes after thousands of files were removed.\n\n{}",
            machine(),
            self.table()
        )
    }

    fn table(&self) -> String {
        let rows: Vec<_> = self.figures.iter().map(Figure::cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].as_str()).chain([HEADER[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        let line = |cells: [&str; COLUMNS]| {
            let cells = cells.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} |"));
            format!("|{}", cells.collect::<String>())
        };
        let rule: String = widths.iter().map(|width| format!(" {} |", "-".repeat(*width.max(&3)))).collect();
        let mut table = format!("{}\n|{rule}\n", line(HEADER));
        for row in &rows {
            let _never_fails = writeln!(table, "{}", line(row.each_ref().map(String::as_str)));
        }
        table
    }
}

/// The kind of machine and its load, without its name: with a load above the number of cores, only instructions and memory
/// are meaningful.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).map_or_else(String::new, |load| format!(", load {load}"));
    format!("{cores} cores, {}, {}{load}", std::env::consts::ARCH, std::env::consts::OS)
}

fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

pub(crate) fn millions(count: u64) -> f64 {
    count as f64 / 1e6
}
