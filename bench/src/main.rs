//! Benchmarks with limits: `cargo run --release -p ralph-bench`. `-- --quick` runs fewer rounds, names such as
//! `-- judged size` select figures; `-- --against=PATH` compares with another build of ralph. The exit code is 1 if a
//! figure is over its limit.
//!
//! Each run is a whole process as a client would start it, built as released. Compared programs run alternately, so that a
//! busy machine slows both equally; ratios use the tenth percentiles, which other load disturbs least. Instruction counts
//! (with valgrind) do not depend on the machine.

mod build;
mod contest;
mod driver;
mod figures;
mod instructions;
mod memory;
mod reading;
mod report;
mod scene;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use build::Programs;
use contest::Rounds;
use report::Report;

fn main() -> io::Result<ExitCode> {
    let (flags, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let rounds = if flags.iter().any(|flag| flag == "--quick") { Rounds::FEW } else { Rounds::MANY };
    let other = flags.iter().find_map(|flag| flag.strip_prefix("--against=")).map(PathBuf::from);
    let programs = Programs::build(other)?;
    let mut report = Report::default();
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    for (name, measure) in figures::ALL.into_iter().filter(|(name, _)| chosen(name)) {
        writeln!(io::stderr(), "measuring: {name}")?;
        report.add(measure(&programs, &rounds)?);
    }
    write!(io::stdout(), "{}", report.for_terminal())?;
    if rounds == Rounds::MANY && words.is_empty() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md"), report.page())?;
    }
    Ok(if report.all_within() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
