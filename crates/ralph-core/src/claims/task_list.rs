//! A Markdown task list (`tasks.md`): its checkboxes and the next task. A list without checkboxes is never complete.
//! Phases and fields only determine the next task.

use std::collections::HashSet;

use crate::claims::prose::{self, ProsePart};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskList {
    pub phases: Vec<Phase>,
    pub tasks: Vec<ListedTask>,
}

/// `## 2. Name (parallel, depends: 1)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    pub number: Option<u32>,
    pub name: String,
    pub order: PhaseOrder,
    pub depends: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PhaseOrder {
    #[default]
    Sequential,
    Parallel,
}

/// `- [ ] 2.1 Text | agent: coder | files: a.rs, b.rs | depends: 1.2`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedTask {
    pub number: Option<String>,
    /// Without the number and the fields.
    pub text: String,
    pub done: bool,
    /// Counted from 1.
    pub line: usize,
    /// The index of its phase.
    pub phase: Option<usize>,
    pub agent: Option<String>,
    pub files: Vec<String>,
    pub depends: Vec<String>,
}

impl TaskList {
    pub fn parse(text: &str) -> Self {
        let mut reading = Reading::default();
        for (line, number) in prose::lines(text).zip(1..) {
            let content = line.text.trim();
            // Four columns of indentation mean a nested item here, not code.
            let counts = match line.part {
                ProsePart::Prose => true,
                ProsePart::Indented => prose::list_item(content).is_some(),
                ProsePart::Fenced | ProsePart::Quote | ProsePart::Comment => false,
            };
            if !counts {
                continue;
            }
            if let Some(heading) = Heading::read(content) {
                reading.heading(heading);
            } else if let Some((done, text)) = ticked_or_open(content) {
                reading.task(ListedTask { done, line: number, ..ListedTask::read(text) });
            }
        }
        reading.list
    }

    pub fn total(&self) -> usize {
        self.tasks.len()
    }

    pub fn done(&self) -> usize {
        self.tasks.iter().filter(|task| task.done).count()
    }

    pub fn open(&self) -> impl Iterator<Item = &ListedTask> {
        self.tasks.iter().filter(|task| !task.done)
    }

    /// The first open task without open dependencies; if all have some, as in a cycle, the first open one.
    pub fn next(&self) -> Option<&ListedTask> {
        let open_numbers: HashSet<&str> = self.open().filter_map(|task| task.number.as_deref()).collect();
        let open_phases: HashSet<u32> = self.open().filter_map(|task| self.phase_of(task)?.number).collect();
        let waits = |phase: &Phase| phase.depends.iter().any(|number| open_phases.contains(number));
        let phase_waits: Vec<bool> = self.phases.iter().map(waits).collect();
        let is_free = |task: &&ListedTask| {
            task.phase.is_none_or(|phase| phase_waits.get(phase) != Some(&true))
                && task.depends.iter().all(|number| !open_numbers.contains(number.as_str()))
        };
        self.open().find(is_free).or_else(|| self.open().next())
    }

    pub fn phase_of(&self, task: &ListedTask) -> Option<&Phase> {
        self.phases.get(task.phase?)
    }
}

/// A list being parsed.
#[derive(Default)]
struct Reading {
    list: TaskList,
    under: Under,
}

/// The current heading.
#[derive(Default)]
enum Under {
    #[default]
    Nothing,
    /// A heading without a number becomes a phase only with its first task; most are titles and notes.
    Title(Phase),
    /// The list's last phase, with its heading's depth if it is numbered.
    LastPhase { numbered_at: Option<usize> },
}

impl Reading {
    fn heading(&mut self, heading: Heading) {
        let is_numbered = heading.phase.number.is_some();
        match self.under {
            // A numbered phase continues through its subsections.
            Under::LastPhase { numbered_at: Some(depth) } if !is_numbered && heading.depth > depth => {}
            _ if is_numbered => {
                self.list.phases.push(heading.phase);
                self.under = Under::LastPhase { numbered_at: Some(heading.depth) };
            }
            _ => self.under = Under::Title(heading.phase),
        }
    }

    fn task(&mut self, task: ListedTask) {
        self.under = match std::mem::take(&mut self.under) {
            Under::Title(phase) => {
                self.list.phases.push(phase);
                Under::LastPhase { numbered_at: None }
            }
            under => under,
        };
        let phase = match self.under {
            Under::LastPhase { .. } => self.list.phases.len().checked_sub(1),
            Under::Nothing | Under::Title(_) => None,
        };
        self.list.tasks.push(ListedTask { phase, ..task });
    }
}

struct Heading {
    depth: usize,
    phase: Phase,
}

impl Heading {
    fn read(line: &str) -> Option<Self> {
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if !(1..=6).contains(&depth) || !(title.is_empty() || title.starts_with(char::is_whitespace)) {
            return None;
        }
        let title = title.trim().trim_end_matches('#').trim_end();
        Some(Self { depth, phase: Phase::read(title) })
    }
}

impl Phase {
    fn read(title: &str) -> Self {
        let (number, title) =
            phase_number(title).map_or((None, title), |(number, rest)| (Some(number), rest));
        let (name, order, depends) = in_parentheses(title)
            .and_then(|(name, inner)| order_and_depends(inner).map(|(order, depends)| (name, order, depends)))
            .unwrap_or_else(|| (title, PhaseOrder::default(), Vec::new()));
        Self { number, name: name.to_owned(), order, depends }
    }
}

/// `2. Name`; not `2.1 Name`, which is a section of one.
fn phase_number(title: &str) -> Option<(u32, &str)> {
    let (number, rest) = title.split_once(['.', ')'])?;
    if rest.starts_with(|c: char| c.is_ascii_digit()) || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, rest.trim_start()))
}

fn in_parentheses(title: &str) -> Option<(&str, &str)> {
    let (name, inner) = title.strip_suffix(')')?.rsplit_once('(')?;
    Some((name.trim_end(), inner))
}

/// None if the words belong to the name.
fn order_and_depends(words: &str) -> Option<(PhaseOrder, Vec<u32>)> {
    let (order, depends) = match words.split_once(',') {
        _ if field(words).is_some() => ("sequential", Some(words)),
        Some((order, depends)) => (order, Some(depends)),
        None => (words, None),
    };
    let order = match order.trim().to_ascii_lowercase().as_str() {
        "sequential" => PhaseOrder::Sequential,
        "parallel" => PhaseOrder::Parallel,
        _ => return None,
    };
    let depends = match depends.map(field) {
        None => Vec::new(),
        Some(Some((Field::Depends, numbers))) => {
            numbers.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
        }
        Some(_) => return None,
    };
    Some((order, depends))
}

/// Whether the checkbox of a list item is ticked, and the text after it. Only `x` ticks; any other mark is open.
fn ticked_or_open(line: &str) -> Option<(bool, &str)> {
    let (mark, text) = prose::list_item(line)?.strip_prefix('[')?.split_once(']')?;
    // A link or a word like `[]byte` has no space after it, but neither do tasks in languages without spaces.
    if text.chars().next().is_some_and(|next| next.is_ascii() && !next.is_ascii_whitespace()) {
        return None;
    }
    let mut marks = mark.trim().chars();
    match (marks.next(), marks.next()) {
        (Some('x' | 'X'), None) => Some((true, text.trim())),
        (None, _) => Some((false, text.trim())),
        (Some(mark), None) if !mark.is_alphanumeric() => Some((false, text.trim())),
        _ => None,
    }
}

impl ListedTask {
    fn read(text: &str) -> Self {
        // A bar without a field after it is part of the text.
        let is_bar = |at: &usize| text[at + 1..].split('|').next().is_some_and(|part| field(part).is_some());
        let bar = text.match_indices('|').map(|(at, _)| at).find(is_bar);
        let (text, fields) = bar.map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
        let (number, text) = task_number(text).map_or((None, text), |(number, rest)| (Some(number), rest));
        let number = number.map(str::to_owned);
        let mut task = Self { number, text: text.trim().to_owned(), ..Self::default() };
        for (field, value) in fields.split('|').filter_map(field) {
            match field {
                Field::Agent => task.agent = entries(value, &[]).next(),
                Field::Files => task.files.extend(entries(value, &[','])),
                Field::Depends => task.depends.extend(entries(value, &[',', ' '])),
            }
        }
        task
    }
}

enum Field {
    Agent,
    Files,
    Depends,
}

fn field(part: &str) -> Option<(Field, &str)> {
    let (key, value) = part.split_once(':')?;
    let fields = [("agent", Field::Agent), ("files", Field::Files), ("depends", Field::Depends)];
    let field = fields.into_iter().find(|(name, _)| key.trim().eq_ignore_ascii_case(name));
    field.map(|(_, field)| (field, value))
}

fn entries(value: &str, between: &[char]) -> impl Iterator<Item = String> {
    let entries = value.split(between).map(|entry| entry.trim().trim_matches('`'));
    entries.filter(|entry| !entry.is_empty()).map(str::to_owned)
}

/// `2.1 Text` or `2. Text`, but not `2 texts`.
fn task_number(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let number = digits.strip_suffix('.').unwrap_or(digits);
    let rest = rest.strip_prefix([')', ':']).unwrap_or(rest);
    let is_marked = number.len() + rest.len() < text.len();
    let is_number = number.split('.').all(|part| !part.is_empty()) && (is_marked || number.contains('.'));
    let is_apart = !rest.starts_with(|next: char| next.is_ascii() && !next.is_ascii_whitespace());
    (is_number && is_apart).then_some((number, rest))
}

#[cfg(test)]
mod tests;
