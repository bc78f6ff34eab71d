//! The supported repo layouts as data: config path, task pointer, exported state, phrases and clocks. No rule checks
//! for a layout by name.

use std::time::Duration;

use serde::{Deserialize, Serialize};

mod ideal;
mod native;
mod trellis;

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    Native,
    Trellis,
    Ideal,
}

/// Everything in which one layout differs from another.
#[derive(Debug)]
pub struct LayoutData {
    pub name: &'static str,
    /// The config file, relative to the repo root.
    pub config: &'static str,
    /// The folder that marks this layout even without a config file.
    pub folder: Option<&'static str>,
    pub current_task: Option<&'static str>,
    pub no_task: NoTask,
    /// The state file exported to the repo.
    pub export: Option<&'static str>,
    /// The most characters of a gate's output shown to the agent.
    pub excerpt: usize,
    /// The most characters about one gate's failing tests and problems shown to the agent.
    pub failures: usize,
    pub clocks: Clocks,
    pub phrases: Phrases,
}

/// What a stop means while no task is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTask {
    /// The layout has no tasks.
    Nothing,
    LetThrough,
    /// The stop is judged under this name.
    Named(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// A state without activity for this long is discarded.
    pub stale_after: Option<Duration>,
    /// A failing loop older than this is released unverified.
    pub clock: Option<Duration>,
}

/// Sentences that tools of a layout search for; `{n}`, `{max}` and `{minutes}` are filled in.
#[derive(Debug)]
pub struct Phrases {
    pub failed: &'static str,
    pub exhausted: &'static str,
    pub out_of_time: &'static str,
    pub passed: &'static str,
}

impl Layout {
    /// In order of precedence for repos with several layouts.
    pub const ALL: [Self; 3] = [Self::Native, Self::Trellis, Self::Ideal];

    pub fn data(self) -> &'static LayoutData {
        match self {
            Self::Native => &native::NATIVE,
            Self::Trellis => &trellis::TRELLIS,
            Self::Ideal => &ideal::IDEAL,
        }
    }
}

/// The current task from the layout's pointer file: one line, slashes, no leading `./`, `tasks/…` below `.trellis`.
/// None for an empty file.
pub fn normalise_task(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?.replace('\\', "/");
    // It is shown to users, so hidden and control characters are rejected.
    let line: String =
        line.chars().filter(|c| !crate::model::foreign_text::deceives(c.encode_utf8(&mut [0; 4]))).collect();
    let mut task = line.as_str();
    while let Some(rest) = task.strip_prefix("./") {
        task = rest.trim_start_matches('/');
    }
    let task = task.trim_end_matches('/');
    if task.is_empty() {
        return None;
    }
    if task.starts_with("tasks/") { Some(format!(".trellis/{task}")) } else { Some(task.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_pointer_is_normalised_to_one_path() {
        let table = [
            (".trellis/tasks/01-31-add-login\n", Some(".trellis/tasks/01-31-add-login")),
            ("tasks/01-31-add-login", Some(".trellis/tasks/01-31-add-login")),
            ("./tasks/a/", Some(".trellis/tasks/a")),
            (".\\.trellis\\tasks\\a\r\n", Some(".trellis/tasks/a")),
            ("  iteration-3 \nsecond line", Some("iteration-3")),
            ("\n\n", None),
            ("./", None),
        ];
        for (text, task) in table {
            assert_eq!(normalise_task(text).as_deref(), task, "{text:?}");
        }
    }
}
