//! `ralph-loop.local.md`, the official plugin's loop file: front matter, a blank line, the task. Users read it to see
//! the progress and delete it to cancel; a loop that the plugin started is adopted from it.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;

use crate::config::raw;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopFile {
    pub active: bool,
    pub iteration: u32,
    /// 0 means unlimited.
    pub max_iterations: u32,
    pub completion_promise: Option<String>,
    pub session_id: Option<String>,
    pub started_at: Timestamp,
    pub task: String,
}

#[derive(Debug, Default, Deserialize)]
struct FrontMatter {
    active: Option<bool>,
    iteration: Option<u32>,
    max_iterations: Option<u32>,
    completion_promise: Option<String>,
    session_id: Option<String>,
    started_at: Option<String>,
}

impl LoopFile {
    pub fn render(&self) -> String {
        let Self { active, iteration, max_iterations, started_at, task, .. } = self;
        let promise = quoted_or_null(self.completion_promise.as_deref());
        let session = quoted_or_null(self.session_id.as_deref());
        format!(
            "---\nactive: {active}\niteration: {iteration}\nmax_iterations: {max_iterations}\n\
             completion_promise: {promise}\nsession_id: {session}\nstarted_at: \"{started_at}\"\n---\n\n{task}\n"
        )
    }

    /// Parses such a file; none if it is not a loop. An empty promise or session is none, a missing time is the epoch.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Only if the file's first line ends like that, because a task may contain such line ends.
        if text.split('\n').next().is_some_and(|opening| opening.ends_with('\r')) {
            return Self::parse_lines(&text.replace("\r\n", "\n"));
        }
        Self::parse_lines(text)
    }

    fn parse_lines(text: &str) -> Option<Self> {
        let (front, body) = parted(text)?;
        let front = read(front)?;
        let task = body.strip_prefix('\n').unwrap_or(body);
        let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        Some(Self {
            active: front.active.unwrap_or(true),
            iteration: front.iteration?,
            max_iterations: front.max_iterations?,
            completion_promise: said(front.completion_promise),
            session_id: said(front.session_id),
            started_at: front
                .started_at
                .and_then(|at| at.trim().parse().ok())
                .unwrap_or(Timestamp::UNIX_EPOCH),
            task: task.strip_suffix('\n').unwrap_or(task).to_owned(),
        })
    }
}

/// The front matter and the rest.
fn parted(text: &str) -> Option<(&str, &str)> {
    let mut lines = text.split_inclusive('\n');
    let opening = lines.next().filter(|line| line.trim_end() == "---")?;
    let mut end = opening.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Some((&text[opening.len()..end], &text[end + line.len()..]));
        }
        end += line.len();
    }
    None
}

fn read(front: &str) -> Option<FrontMatter> {
    raw::parse(front).ok().or_else(|| raw::parse(&with_quotes_fixed(front)).ok())
}

/// The plugin quotes a promise without escaping, so it writes `"say "yes""` for `say "yes"`.
fn with_quotes_fixed(front: &str) -> String {
    let mut fixed = String::with_capacity(front.len());
    for line in front.lines() {
        let key_and_text = line.split_once(": ").and_then(|(key, value)| {
            let text = value.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((key, text))
        });
        match key_and_text {
            Some((key, text)) => fixed.extend([key, ": ", &quoted(text), "\n"]),
            None => fixed.extend([line, "\n"]),
        }
    }
    fixed
}

fn quoted_or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quoted)
}

/// A JSON string that is also valid YAML, which requires escapes for unprintable characters and line ends.
fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).expect("any text is a JSON string");
    let mut yaml = String::with_capacity(json.len());
    for c in json.chars() {
        let plain =
            !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
        if plain {
            yaml.push(c);
        } else {
            write!(yaml, "\\u{:04x}", u32::from(c)).expect("a string takes any text");
        }
    }
    yaml
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> LoopFile {
        LoopFile {
            active: true,
            iteration: 3,
            max_iterations: 20,
            completion_promise: Some("ALL DONE".into()),
            session_id: Some("00000000-0000-4000-8000-000000000001".into()),
            started_at: "2026-01-31T10:30:00Z".parse().expect("a time"),
            task: "Build it.\n\nThen test it.".into(),
        }
    }

    #[test]
    fn the_file_has_exactly_the_known_keys_in_the_known_order() {
        assert_eq!(
            example().render(),
            "---\nactive: true\niteration: 3\nmax_iterations: 20\ncompletion_promise: \"ALL DONE\"\n\
             session_id: \"00000000-0000-4000-8000-000000000001\"\nstarted_at: \"2026-01-31T10:30:00Z\"\n---\n\n\
             Build it.\n\nThen test it.\n"
        );
        let bare = LoopFile { completion_promise: None, session_id: None, ..example() };
        assert!(bare.render().contains("completion_promise: null\nsession_id: null\n"));
    }

    #[test]
    fn any_task_survives_a_round_trip() {
        for task in [
            "",
            "\n",
            "a",
            "a\n",
            "\n\na\n\n",
            "---",
            "---\niteration: 99\n---\n\nactive: false",
            "iteration: 7\nmax_iterations: 1",
            "a\r\nb\r\n",
            "\u{feff}a",
            "修好測試 $(rm -rf /) `id` \"x\" 'y' \\ {} [] # & * ! | > %",
        ] {
            let file = LoopFile { task: task.into(), ..example() };
            assert_eq!(LoopFile::parse(&file.render()), Some(file), "{task:?}");
        }
    }

    #[test]
    fn files_of_the_plugin_or_the_user_are_read() {
        let bare = LoopFile {
            completion_promise: None,
            session_id: None,
            started_at: Timestamp::UNIX_EPOCH,
            iteration: 1,
            max_iterations: 0,
            task: "do it".into(),
            ..example()
        };
        let promised = |text: &str| LoopFile { completion_promise: Some(text.into()), ..bare.clone() };
        let front = |lines: &str| format!("---\niteration: 1\nmax_iterations: 0\n{lines}\n---\n\ndo it\n");
        let table = [
            (front("active: true"), bare.clone()),
            (front(""), bare.clone()),
            (front("active: false"), LoopFile { active: false, ..bare.clone() }),
            (front("completion_promise: null"), bare.clone()),
            (front("completion_promise: \"null\""), promised("null")),
            (front("completion_promise: ~\nsession_id:"), bare.clone()),
            (front("completion_promise: \"\"\nsession_id: ''"), bare.clone()),
            (front("completion_promise: DONE"), promised("DONE")),
            (front("completion_promise: ALL TESTS PASS"), promised("ALL TESTS PASS")),
            (front("completion_promise: 'it''s done'"), promised("it's done")),
            (front("completion_promise: 42"), promised("42")),
            (front("completion_promise: true"), promised("true")),
            (front("completion_promise: \"所有任務完成\""), promised("所有任務完成")),
            (front("completion_promise: \"say \"yes\"\""), promised("say \"yes\"")),
            (front("completion_promise: \"a \\d\""), promised("a \\d")),
            (front("session_id: abc-1"), LoopFile { session_id: Some("abc-1".into()), ..bare.clone() }),
            (front("openspec_mode: true\nopenspec_change_id: \"add-foo\""), bare.clone()),
            (
                front("started_at: \"2026-01-31T10:30:00Z\""),
                LoopFile { started_at: example().started_at, ..bare.clone() },
            ),
            (
                front("started_at: 2026-01-31T10:30:00Z"),
                LoopFile { started_at: example().started_at, ..bare.clone() },
            ),
            (front("started_at: yesterday"), bare.clone()),
            ("---\nmax_iterations: 0\n\niteration: 1\n---\ndo it".into(), bare.clone()),
            ("--- \niteration: 1 # first\nmax_iterations: 0\n---\t\n\ndo it\n".into(), bare.clone()),
            ("\u{feff}---\r\niteration: 1\r\nmax_iterations: 0\r\n---\r\n\r\ndo it\r\n".into(), bare.clone()),
            (
                "---\r\niteration: 1\r\nmax_iterations: 0\r\n---\r\n\r\na\r\nb\r\n".into(),
                LoopFile { task: "a\nb".into(), ..bare.clone() },
            ),
            (
                "---\niteration: 1\nmax_iterations: 0\n---".into(),
                LoopFile { task: String::new(), ..bare.clone() },
            ),
        ];
        for (text, meant) in table {
            assert_eq!(LoopFile::parse(&text), Some(meant), "{text}");
        }
    }

    #[test]
    fn other_files_are_not_loops() {
        for text in [
            "",
            "do it",
            "---\n",
            "---\niteration: 1\nmax_iterations: 0\n",
            "---\n---\n\ndo it\n",
            "---\niteration: 1\n---\n\ndo it\n",
            "---\nmax_iterations: 1\n---\n\ndo it\n",
            "---\niteration: many\nmax_iterations: 0\n---\n\ndo it\n",
            "---\niteration: -1\nmax_iterations: 0\n---\n\ndo it\n",
            "---\niteration: 4294967296\nmax_iterations: 0\n---\n\ndo it\n",
            "---\niteration: 1\nmax_iterations: 0\nactive: perhaps\n---\n\ndo it\n",
            "---\n- iteration: 1\n---\n\ndo it\n",
            "---\na: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\niteration: *b\n---\n\ndo it\n",
            "\n---\niteration: 1\nmax_iterations: 0\n---\n\ndo it\n",
        ] {
            assert_eq!(LoopFile::parse(text), None, "{text}");
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "(?s).{0,40}",
            "[-:\"'\\\\#{}\\[\\]\u{0}\u{7}\u{85}\u{2028}\u{feff}\u{ffff} \t\r\na]{0,12}",
            "((---|iteration: 5|active: false|\r?)\n){0,4}",
        ]
    }

    fn some_text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of(any_text().prop_filter("of nothing", |text| !text.trim().is_empty()))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            active in any::<bool>(),
            (iteration, max_iterations) in any::<(u32, u32)>(),
            (completion_promise, session_id, task) in (some_text(), some_text(), any_text()),
            second in Timestamp::MIN.as_second() + 1..Timestamp::MAX.as_second(),
            nanosecond in 0..1_000_000_000_i32,
        ) {
            let started_at = Timestamp::new(second, nanosecond).expect("a time in range");
            let file =
                LoopFile { active, iteration, max_iterations, completion_promise, session_id, started_at, task };
            prop_assert_eq!(LoopFile::parse(&file.render()), Some(file.clone()), "{}", file.render());
        }

        #[test]
        fn no_text_panics(text in any_text(), front in any_text()) {
            let _either = (LoopFile::parse(&text), LoopFile::parse(&format!("---\n{front}\n---\n{text}")));
        }
    }
}
