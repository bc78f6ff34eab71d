//! A config error in the style of compilers: the line, the position, the hint.

use annotate_snippets::renderer::{DecorStyle, Renderer};
use annotate_snippets::{AnnotationKind, Group, Level, Snippet};
use ralph_core::model::config_problem::ConfigProblem;

/// The problem with its line.
pub(crate) fn draw(path: &str, text: &str, problem: &ConfigProblem) -> String {
    let place = span(text, problem);
    let snippet = Snippet::source(text).path(path).annotation(AnnotationKind::Primary.span(place));
    let report = [
        Group::with_title(Level::ERROR.primary_title(problem.what.as_str())).element(snippet),
        Group::with_title(Level::HELP.secondary_title(problem.hint.as_str())),
    ];
    Renderer::styled().decor_style(DecorStyle::Ascii).render(&report)
}

/// The word at the problem's line and column, in bytes.
fn span(text: &str, problem: &ConfigProblem) -> std::ops::Range<usize> {
    let line_start: usize = text.split_inclusive('\n').take(problem.line - 1).map(str::len).sum();
    let line = text[line_start..].lines().next().unwrap_or_default();
    let column = line.char_indices().nth(problem.column - 1).map_or(line.len(), |(at, _)| at);
    let word = line[column..]
        .find([':', ' ', ',', '\n'])
        .filter(|length| *length > 0)
        .unwrap_or(line.len() - column);
    let start = line_start + column;
    start..(start + word).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underlines_the_word_at_the_position() {
        let text = "verify:\n  - run: a\n    tiemout: 5m\n";
        let problem =
            ConfigProblem { line: 3, column: 5, what: "unknown key".into(), hint: "timeout?".into() };
        assert_eq!(&text[span(text, &problem)], "tiemout");
    }

    #[test]
    fn its_colours_are_among_ours() {
        let problem =
            ConfigProblem { line: 1, column: 1, what: "unknown key".into(), hint: "timeout?".into() };
        let drawn = draw("ralph.yaml", "tiemout: 5m\n", &problem);
        assert!(drawn.contains('\u{1b}'));
        assert_eq!(crate::show::terminal::harmless(&drawn), drawn);
    }

    #[test]
    fn a_position_outside_the_text_is_accepted() {
        for (line, column) in [(1, 1), (1, 99), (99, 1), (2, 3)] {
            let problem = ConfigProblem { line, column, what: "w".into(), hint: "h".into() };
            for text in ["", "a\n", "a", "é\né"] {
                assert!(draw("ralph.yaml", text, &problem).contains('w'));
            }
        }
    }
}
