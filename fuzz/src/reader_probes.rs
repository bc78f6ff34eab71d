//! What must hold of each reader of results, for any text.

use ralph_core::claims::results;
use ralph_core::model::foreign_text;
use ralph_core::model::result_format::ResultFormat;
use ralph_core::model::results::Results;
use ralph_core::model::secrets::Secrets;

use super::Probe;

macro_rules! readers {
    ($($target:ident => $format:ident,)+) => {
        $(pub fn $target(bytes: &[u8]) {
            reader(ResultFormat::$format, bytes);
        })+

        /// Every reader under the name of its target.
        pub const READERS: &[(&str, Probe)] = &[$((stringify!($target), $target),)+];
    };
}

readers! {
    results_cargo_test => CargoTest,
    results_nextest => Nextest,
    results_pytest => Pytest,
    results_unittest => Unittest,
    results_vitest => Vitest,
    results_jest => Jest,
    results_mocha => Mocha,
    results_node_test => NodeTest,
    results_tap => Tap,
    results_go_test => GoTest,
    results_go_json => GoJson,
    results_rspec => Rspec,
    results_minitest => Minitest,
    results_phpunit => Phpunit,
    results_exunit => ExUnit,
    results_ctest => Ctest,
    results_junit => Junit,
    results_trx => Trx,
    results_sarif => Sarif,
    results_rustc => Rustc,
    results_tsc => Tsc,
    results_eslint => Eslint,
    results_mypy => Mypy,
    results_pyright => Pyright,
    results_ruff => Ruff,
    results_flake8 => Flake8,
    results_gcc => Gcc,
    results_go_vet => GoVet,
    results_javac => Javac,
    results_shellcheck => Shellcheck,
    results_generic => Generic,
}

/// A text is read the same twice and in colour; a part of it is read without a panic, and counts what it lists.
fn reader(format: ResultFormat, bytes: &[u8]) {
    let text = foreign_text::clean(bytes, &Secrets::default());
    let read = results::read_as(format, &text);
    assert_eq!(read, results::read_as(format, &text));
    check(format, read.as_ref());
    let is_report = text.trim_start_matches('\u{feff}').trim_start().starts_with(['<', '{']);
    if !is_report {
        let coloured: String =
            text.split_inclusive('\n').map(|line| format!("\u{1b}[31m{line}\u{1b}(B")).collect();
        assert_eq!(read, results::read_as(format, &coloured), "in colour");
    }
    for part in 1..4 {
        let cut = text.floor_char_boundary(text.len() * part / 4);
        check(format, results::read_as(format, &text[..cut]).as_ref());
        check(format, results::read_as(format, &text[cut..]).as_ref());
    }
}

fn check(format: ResultFormat, read: Option<&Results>) {
    let Some(read) = read else { return };
    assert_eq!(read.formats, [format]);
    assert!(read.counts.failed >= read.failed_tests().count());
    assert!(read.tests.iter().all(|test| test.line.is_none() || test.file.is_some()), "a line of no file");
}
