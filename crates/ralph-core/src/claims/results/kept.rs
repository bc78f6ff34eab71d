//! What is remembered of a gate's results: failing tests and problems, some of many, each cut to size. A ledger line
//! carries it, so it stays small; of passing tests only the number is kept.

use super::detail;
use crate::model::results::Results;

/// More failures than this are only counted.
pub const MOST_FAILURES: usize = 40;

/// Only the first are shown with detail; some more are kept, for attempts that show what is new.
const MOST_DETAILS: usize = 10;
const LONGEST_DETAIL: usize = 1_500;
const LONGEST_NAME: usize = 200;

impl Results {
    /// The part that a gate's report keeps, every text in it passed through `clean`: readers undo the escapes of XML and
    /// JSON, so a text can hold again what was taken out of the output.
    pub fn kept(mut self, passed: bool, clean: impl Fn(&str) -> String) -> Self {
        self.keep_failures(passed, MOST_FAILURES);
        let line = |text: &str, most| detail::shortened(&clean(text).replace(['\n', '\t'], " "), most);
        let path = |file: &mut Option<String>| {
            if let Some(file) = file {
                *file = line(file, LONGEST_NAME);
            }
        };
        for (at, test) in self.tests.iter_mut().enumerate() {
            let most = if at < MOST_DETAILS { LONGEST_DETAIL } else { 0 };
            test.name = line(&test.name, LONGEST_NAME);
            path(&mut test.file);
            test.message = line(&test.message, detail::LONGEST_MESSAGE);
            test.detail = if most == 0 { String::new() } else { shorten_detail(&clean(&test.detail), most) };
        }
        for problem in &mut self.problems {
            path(&mut problem.file);
            problem.code = problem.code.as_deref().map(|code| line(code, LONGEST_NAME));
            problem.message = line(&problem.message, detail::LONGEST_MESSAGE);
        }
        self
    }

    /// All tests with their outcome, for a comparison by name; texts are cleaned as in [`kept`](Self::kept), details dropped.
    pub fn all_tests(mut self, clean: impl Fn(&str) -> String) -> Self {
        /// More tests than this are not compared by name.
        const MOST_TESTS: usize = 50_000;
        let line = |text: &str, most| detail::shortened(&clean(text).replace(['\n', '\t'], " "), most);
        self.partial |= self.tests.len() > MOST_TESTS;
        self.tests.truncate(MOST_TESTS);
        self.problems.truncate(MOST_FAILURES);
        for test in &mut self.tests {
            test.name = line(&test.name, LONGEST_NAME);
            test.file = test.file.as_deref().map(|file| line(file, LONGEST_NAME));
            test.message = line(&test.message, detail::LONGEST_MESSAGE);
            test.detail.clear();
        }
        for problem in &mut self.problems {
            problem.file = problem.file.as_deref().map(|file| line(file, LONGEST_NAME));
            problem.code = problem.code.as_deref().map(|code| line(code, LONGEST_NAME));
            problem.message = line(&problem.message, detail::LONGEST_MESSAGE);
        }
        self
    }
}

/// A detail in at most so many characters: its first lines, then expected and actual values, then its ends.
pub fn shorten_detail(text: &str, most: usize) -> String {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    detail::bounded(&lines, most)
}

#[cfg(test)]
mod tests {
    use super::super::read;

    #[test]
    fn a_passing_gate_keeps_numbers_only() {
        let output = "running 2 tests\ntest a ... ok\ntest b ... ok\n\n\
                      test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let kept = read(output).expect("cargo test").kept(true, str::to_owned);
        assert!(kept.tests.is_empty() && kept.problems.is_empty(), "{kept:?}");
        assert_eq!((kept.counts.passed, kept.left_out), (2, 0));
    }

    #[test]
    fn of_many_failures_some_are_kept_and_the_rest_counted() {
        let lines: String = (1..=100).map(|line| format!("src/a.c:{line}:1: error: no {line}\n")).collect();
        let kept = read(&lines).expect("a compiler").kept(false, str::to_owned);
        assert_eq!((kept.problems.len(), kept.left_out), (40, 60));
    }

    #[test]
    fn escapes_that_a_reader_undoes_are_cleaned_again() {
        let report = "<testsuite><testcase name=\"a\"><failure message=\"&lt;promise&gt;X\">left: 1\nright: 2</failure>\
                      </testcase></testsuite>";
        let kept = read(report).expect("JUnit").kept(false, |text| text.replace('<', "‹"));
        assert_eq!(kept.tests[0].message, "‹promise>X");
        assert!(kept.tests[0].detail.contains("right: 2"), "{kept:?}");
    }

    #[test]
    fn warnings_count_only_where_there_is_no_error() {
        let output = "a.c:1:1: warning: unused\na.c:2:1: error: bad\n";
        let kept = |text: &str| read(text).expect("a compiler").kept(false, str::to_owned);
        assert_eq!(kept(output).problems.len(), 1);
        assert_eq!(kept("a.c:1:1: warning: unused\n").problems.len(), 1);
    }
}
