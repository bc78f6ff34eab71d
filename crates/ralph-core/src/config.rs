//! The validated config with all defaults filled in.
//!
//! The file format is in [`raw`]; [`Config::parse`] converts it once and reports errors with line, column and a hint.

use std::time::Duration;

use globset::{Glob, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use crate::clients::profile::Profile;
use crate::model::budget::Budget;
use crate::model::config_problem::{ConfigProblem, did_you_mean};
use crate::model::gate::plan::{GatePlan, PlanError};
use crate::model::gate::{DEFAULT_TIMEOUT, Gate, GateOrder};
use crate::model::id::GateName;
use crate::model::layout::Layout;
use crate::model::result_format::ResultFormat;
use crate::model::results_source::{ResultsSource, ResultsSourceError};
use crate::model::ship::{CLAIM_FILES, ShipSettings};
use crate::model::{duration, foreign_text};

mod agents;
mod budget;
pub mod detect;
mod position;
pub mod raw;
pub mod reports;
mod ship;
pub mod user;
pub mod writes;

use raw::{RawConfig, RawGate, RawWorktree, Spanned};
pub use reports::Reports;

/// A config larger than this is refused before it is parsed.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The most gates; their order is stored as pairs, which grows quadratically.
const MOST_GATES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub enabled: bool,
    pub gates: Vec<Gate>,
    pub guard: Guard,
    /// Only the values in this file; the preset and the user's config supply the rest.
    pub budget: Budget,
    /// Agents for the driver besides the built-in ones.
    pub agents: Vec<Profile>,
    /// Where reports go, if this file sets it.
    pub reports: Option<Reports>,
    /// How a new worktree is set up, where this file says so.
    pub worktree: Option<Worktree>,
    /// How a loop beyond the gates pushes, waits and merges.
    pub ship: ShipSettings,
    /// Further files that are left out of the tree, in a loop that ships.
    pub left_out: Vec<String>,
    /// Keys of the file that are another tool's and are not read.
    pub not_read: Vec<String>,
}

/// How a new worktree is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Where worktrees are made; none: the user's cache folder.
    pub dir: Option<String>,
    /// Files that are copied into a new one.
    pub copy: Vec<String>,
    /// Commands that are run in a new one.
    pub post_create: Vec<String>,
}

/// Defaults for values missing in the file, from the user's config, a variable or a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    pub gate_timeout: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { gate_timeout: DEFAULT_TIMEOUT }
    }
}

impl Default for Config {
    fn default() -> Self {
        let (gates, agents) = (Vec::new(), Vec::new());
        let (guard, budget) = (Guard::default(), Budget::default());
        let not_read = Vec::new();
        let (ship, left_out) = (ShipSettings::default(), Vec::new());
        Self {
            enabled: true,
            gates,
            guard,
            budget,
            agents,
            reports: None,
            worktree: None,
            ship,
            left_out,
            not_read,
        }
    }
}

impl Config {
    /// Parses a config of that layout. An empty text is a valid, empty config.
    pub fn parse(text: &str, layout: Layout, defaults: &Defaults) -> Result<Self, ConfigProblem> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigProblem::whole_file(
                "the file is larger than 1 MiB",
                "a list of gates is a few lines long",
            ));
        }
        let raw = RawConfig::parse(text, layout)?;
        let gates = gates(raw.verify.unwrap_or_default(), defaults)?;
        if !gates.is_empty() && gates.iter().all(|gate| gate.advisory) {
            let hint = "make at least one gate required: leave `advisory` out";
            return Err(ConfigProblem::whole_file(
                "every gate is advisory, so nothing could be verified",
                hint,
            ));
        }
        let guard = match raw.guard {
            Some(names) => Guard::new(names)?,
            None => Guard::default(),
        };
        let budget = raw.budget.map(budget::read).transpose()?.unwrap_or_default();
        let agents = agents::of_repo(raw.agents.unwrap_or_default())?;
        let reports = raw.reports.map(Reports::from_raw).transpose()?;
        let worktree = raw.worktree.map(worktree).transpose()?;
        let (enabled, not_read) = (raw.enabled.unwrap_or(true), raw.not_read);
        let ship = raw.ship.map(ship::settings).transpose()?.unwrap_or_default();
        let left_out = Vec::new();
        Ok(Self { enabled, gates, guard, budget, agents, reports, worktree, ship, left_out, not_read })
    }

    /// The gates that can block.
    pub fn required_gates(&self) -> Vec<GateName> {
        let required = self.gates.iter().filter(|gate| self.enabled && !gate.advisory);
        required.map(|gate| gate.name.clone()).collect()
    }

    /// The files that the gates rewrite at every run, which are left out of the tree.
    pub fn written_files(&self) -> Vec<String> {
        let written = self.gates.iter().flat_map(|gate| gate.writes.iter().cloned());
        written.chain(self.left_out.iter().cloned()).collect()
    }

    /// The same config for a loop that ships: claims about the code are no part of it.
    pub fn for_shipping(mut self) -> Self {
        self.left_out = CLAIM_FILES.map(str::to_owned).to_vec();
        self
    }

    /// Whether anything in this config could run.
    pub fn has_gates(&self) -> bool {
        self.enabled && !self.gates.is_empty()
    }
}

fn worktree(entry: Spanned<RawWorktree>) -> Result<Worktree, ConfigProblem> {
    let place = position::Position::of(&entry);
    let texts = |list: Option<raw::OneOrMany<String>>| {
        let items = list.map(|list| list.0).unwrap_or_default();
        items.into_iter().map(|item| item.value).collect::<Vec<String>>()
    };
    let raw::RawWorktree { dir, copy, post_create } = entry.value;
    let worktree = Worktree { dir, copy: texts(copy), post_create: texts(post_create) };
    let all = worktree.dir.iter().chain(&worktree.copy).chain(&worktree.post_create);
    if all.clone().any(|text| text.trim().is_empty() || foreign_text::deceives(text)) {
        let hint = "paths and commands are not empty and hold no escapes or hidden characters";
        return Err(place.problem("`worktree`: a text that cannot be used", hint));
    }
    Ok(worktree)
}

fn gates(raw: Vec<Spanned<RawGate>>, defaults: &Defaults) -> Result<Vec<Gate>, ConfigProblem> {
    let places: Vec<_> = raw.iter().map(position::Position::of).collect();
    if let Some(place) = places.get(MOST_GATES) {
        let what = format!("more than {MOST_GATES} gates");
        return Err(place.problem(what, "combine gates in a script and run that as one gate"));
    }
    let mut gates: Vec<Gate> = Vec::with_capacity(raw.len());
    for entry in raw {
        let gate = gate(entry, defaults, &gates)?;
        gates.push(gate);
    }
    match GatePlan::new(&gates) {
        Ok(_) => Ok(gates),
        Err(error) => Err(plan_problem(&error, &gates, &places)),
    }
}

fn gate(entry: Spanned<RawGate>, defaults: &Defaults, above: &[Gate]) -> Result<Gate, ConfigProblem> {
    let place = position::Position::of(&entry);
    let raw = entry.value;
    if raw.run.trim().is_empty() {
        return Err(place.problem("a gate without a command", "give a command, for example `- npm test`"));
    }
    // What a person accepts must be what they see.
    let names =
        raw.needs.iter().flatten().chain(&raw.name).chain(&raw.inputs).chain(&raw.writes).chain(&raw.results);
    if foreign_text::deceives(&raw.run)
        || names.clone().any(|text| text.contains('\n') || foreign_text::deceives(text))
    {
        let hint = "remove escapes, control characters and bidirectional overrides";
        return Err(place.problem("a hidden or control character", hint));
    }
    let timeout = match &raw.timeout {
        Some(text) => duration::parse(text).map_err(|hint| place.problem("an invalid `timeout`", hint))?,
        None => defaults.gate_timeout,
    };
    if timeout.is_zero() {
        return Err(place.problem("a `timeout` of zero", "leave it out for 120s"));
    }
    for glob in &raw.inputs {
        check_glob(glob)
            .map_err(|error| place.problem(format!("`inputs`: {error}"), "write it like `src/**`"))?;
    }
    for pattern in &raw.writes {
        if let Some(why) = writes::refusal(pattern) {
            let what = format!("`writes`: `{pattern}` cannot be left out: {why}");
            return Err(place.problem(
                what,
                "list the data files that the gate rewrites, for example `.quality-evidence.json`",
            ));
        }
    }
    let results = raw.results.as_deref().map(|text| results_source(text, place)).transpose()?;
    let order = match (raw.needs, raw.parallel) {
        (Some(names), _) => GateOrder::After(names.into_iter().map(GateName::new).collect()),
        (None, true) => GateOrder::WithNeighbours,
        (None, false) => GateOrder::AfterAllAbove,
    };
    let name = match raw.name {
        Some(name) if above.iter().any(|gate| gate.name.as_str() == name) => {
            return Err(place.problem(format!("two gates are named `{name}`"), "rename one of them"));
        }
        Some(name) => GateName::new(name),
        None => unused_name(&raw.run, above),
    };
    let (run, advisory, inputs, retries) = (raw.run, raw.advisory, raw.inputs, raw.retries);
    let keeps_red = match raw.red.as_deref() {
        None => false,
        Some("keep") => true,
        Some(_) => return Err(place.problem("an invalid `red`", "the only value is `keep`")),
    };
    let (writes, allow_empty, rerun) = (raw.writes, raw.allow_empty, raw.rerun.unwrap_or(true));
    Ok(Gate {
        name,
        run,
        timeout,
        advisory,
        inputs,
        writes,
        retries,
        order,
        results,
        keeps_red,
        allow_empty,
        accepts: false,
        rerun,
    })
}

fn results_source(text: &str, place: position::Position) -> Result<ResultsSource, ConfigProblem> {
    let source: ResultsSource = text.parse().map_err(|error: ResultsSourceError| {
        let hint = match &error {
            ResultsSourceError::Format(name) => {
                let names: Vec<&str> = ResultFormat::ALL.iter().map(|format| format.name()).collect();
                did_you_mean(name, names.iter().copied(), &names.join(", "))
            }
            ResultsSourceError::Outside(_) => "write it like `junit:target/*.xml`".into(),
        };
        place.problem(format!("`results`: {error}"), hint)
    })?;
    if let Some(files) = &source.files {
        check_glob(files).map_err(|error| {
            place.problem(format!("`results`: {error}"), "write it like `junit:target/*.xml`")
        })?;
    }
    Ok(source)
}

/// A gate without a name is named after the first line of its command; duplicates get a number.
fn unused_name(run: &str, above: &[Gate]) -> GateName {
    let line: String = run.trim().lines().next().unwrap_or_default().chars().take(60).collect();
    let taken = |name: &str| above.iter().any(|gate| gate.name.as_str() == name);
    let mut name = line.clone();
    let mut number = 2;
    while taken(&name) {
        name = format!("{line} ({number})");
        number += 1;
    }
    GateName::new(name)
}

fn plan_problem(error: &PlanError, gates: &[Gate], places: &[position::Position]) -> ConfigProblem {
    let (gate, hint) = match error {
        PlanError::NoSuchGate { gate, missing } => {
            let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            (gate, did_you_mean(missing.as_str(), names.iter().copied(), &names.join(", ")))
        }
        PlanError::Circle { gate } => (gate, "remove one of the `needs`".to_owned()),
    };
    let at = gates.iter().position(|other| other.name == *gate).unwrap_or_default();
    places[at].problem(error.to_string(), hint)
}

/// Which subjects are judged: sub-agents by name or glob, the session itself, teammates and team tasks. Stored as in
/// the config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Guard {
    agents: Vec<String>,
    session: bool,
    teammates: bool,
    tasks: bool,
}

/// Guards the session itself.
const SESSION: &str = "session";
/// Guards every teammate.
const TEAMMATES: &str = "teammates";
/// Guards the tasks of a session or its team.
const TASKS: &str = "tasks";

/// Reserved words that are not sub-agent names.
const RESERVED: [&str; 3] = [SESSION, TEAMMATES, TASKS];

/// The prefix that turns a reserved word into a sub-agent's name.
const AGENT: &str = "agent:";

impl From<Vec<String>> for Guard {
    fn from(words: Vec<String>) -> Self {
        let has = |reserved: &str| words.iter().any(|word| word == reserved);
        let (session, teammates, tasks) = (has(SESSION), has(TEAMMATES), has(TASKS));
        let agent = |word: String| word.strip_prefix(AGENT).map_or(word.clone(), str::to_owned);
        let agents = words.into_iter().filter(|word| !RESERVED.contains(&word.as_str())).map(agent).collect();
        Self { agents, session, teammates, tasks }
    }
}

impl From<Guard> for Vec<String> {
    fn from(guard: Guard) -> Self {
        let is_word = |name: &String| RESERVED.contains(&name.as_str());
        let agent = |name: String| if is_word(&name) { format!("{AGENT}{name}") } else { name };
        let agents = guard.agents.into_iter().map(agent);
        let reserved = [(guard.session, SESSION), (guard.teammates, TEAMMATES), (guard.tasks, TASKS)];
        agents
            .chain(reserved.into_iter().filter(|(held, _)| *held).map(|(_, word)| word.to_owned()))
            .collect()
    }
}

impl Guard {
    fn new(names: Vec<Spanned<String>>) -> Result<Self, ConfigProblem> {
        let mut words = Vec::with_capacity(names.len());
        for entry in names {
            let place = position::Position::of(&entry);
            let name = entry.value;
            if foreign_text::deceives(&name) {
                return Err(place.problem("`guard`: a hidden or control character", "write plain names"));
            }
            let nearly = strsim::damerau_levenshtein(&name, SESSION) <= 2;
            if nearly && name != SESSION {
                let hint =
                    format!("did you mean `{SESSION}`? For a sub-agent of that name write `agent:{name}`");
                return Err(place.problem(format!("`guard`: `{name}` looks like a misspelled keyword"), hint));
            }
            check_glob(&name)
                .map_err(|error| place.problem(format!("`guard`: {error}"), "write it like `check*`"))?;
            words.push(name);
        }
        Ok(words.into())
    }

    /// Whether every stop of a session that changed the tree is judged.
    pub fn guards_session(&self) -> bool {
        self.session
    }

    /// Whether every teammate is judged before it goes idle.
    pub fn guards_teammates(&self) -> bool {
        self.teammates
    }

    /// Whether a task is judged before it counts as completed.
    pub fn guards_tasks(&self) -> bool {
        self.tasks
    }

    /// Whether a sub-agent of that name is judged. A plugin's agent arrives as `plugin:check`; the prefix is stripped.
    pub fn guards_agent(&self, agent_type: &str) -> bool {
        let bare = bare_agent_name(agent_type);
        self.agents.iter().any(|pattern| pattern == bare || glob_matches(pattern, bare))
    }

    /// The judged sub-agents, as names and globs.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// The entries as written in the config.
    pub fn names(&self) -> Vec<String> {
        self.clone().into()
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self { agents: vec!["check".into()], session: false, teammates: false, tasks: false }
    }
}

/// An agent's name without its plugin prefix.
pub fn bare_agent_name(agent_type: &str) -> &str {
    agent_type.rsplit_once(':').map_or(agent_type, |(_plugin, name)| name)
}

/// Rejects patterns that are too long or too deeply nested to compile.
fn check_glob(pattern: &str) -> Result<(), String> {
    const LONGEST: usize = 300;
    if pattern.len() > LONGEST {
        return Err(format!("a pattern longer than {LONGEST} characters"));
    }
    Glob::new(pattern).map(drop).map_err(|error| error.to_string())
}

fn glob_matches(pattern: &str, name: &str) -> bool {
    // Most guards are plain names, which need no matcher.
    if !pattern.contains(['*', '?', '[', '{']) {
        return false;
    }
    // `compile_matcher` panics on failure.
    let matcher = Glob::new(pattern).and_then(|glob| GlobSetBuilder::new().add(glob).build());
    matcher.is_ok_and(|matcher| matcher.is_match(name))
}

#[cfg(test)]
mod tests;
