//! The config as it is meant: validated, defaults filled in, nothing left to ask "is it set?".
//!
//! What may be written is in [`raw`]; [`Config::parse`] turns one into the other once and reports what is wrong with
//! line, column and a hint.

use std::time::Duration;

use globset::{Glob, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use crate::clients::profile::Profile;
use crate::model::budget::Budget;
use crate::model::gate::plan::{GatePlan, PlanError};
use crate::model::gate::{DEFAULT_TIMEOUT, Gate, Order};
use crate::model::id::GateName;
use crate::model::layout::Layout;
use crate::model::problem::{Problem, did_you_mean};
use crate::model::result_format::ResultFormat;
use crate::model::results_source::{ResultsSource, ResultsSourceError};
use crate::model::{duration, foreign_text};

mod agents;
mod budget;
pub mod detect;
mod position;
pub mod raw;
pub mod reports;
pub mod user;

use raw::{RawConfig, RawGate, Spanned};
pub use reports::Reports;

/// A config larger than this is refused before it is parsed.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// More gates than anybody reads. Their order is kept as pairs, so a long list costs its square.
const MOST_GATES: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub enabled: bool,
    pub gates: Vec<Gate>,
    pub guard: Guard,
    /// Only what this file sets; the preset and the person's own config fill the rest.
    pub budget: Budget,
    /// What the driver may run besides the agents that it knows.
    pub agents: Vec<Profile>,
    /// Where reports go, where this file says so.
    pub reports: Option<Reports>,
}

/// Values that the file does not have to give; they come from the person's config, a variable or a flag.
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
        Self { enabled: true, gates, guard, budget, agents, reports: None }
    }
}

impl Config {
    /// Reads a config of that layout. An empty text is a valid config with nothing in it.
    pub fn parse(text: &str, layout: Layout, defaults: &Defaults) -> Result<Self, Problem> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(Problem::whole_file(
                "the file is larger than 1 MiB",
                "a list of gates is a few lines long",
            ));
        }
        let raw = RawConfig::parse(text, layout)?;
        let gates = gates(raw.verify.unwrap_or_default(), defaults)?;
        if !gates.is_empty() && gates.iter().all(|gate| gate.advisory) {
            let hint = "make at least one gate required: leave `advisory` out";
            return Err(Problem::whole_file("every gate is advisory: nothing could ever be verified", hint));
        }
        let guard = match raw.guard {
            Some(names) => Guard::new(names)?,
            None => Guard::default(),
        };
        let budget = raw.budget.map(budget::read).transpose()?.unwrap_or_default();
        let agents = agents::of_repo(raw.agents.unwrap_or_default())?;
        let reports = raw.reports.map(Reports::from_raw).transpose()?;
        Ok(Self { enabled: raw.enabled.unwrap_or(true), gates, guard, budget, agents, reports })
    }

    /// The gates that hold somebody.
    pub fn required_gates(&self) -> Vec<GateName> {
        let required = self.gates.iter().filter(|gate| self.enabled && !gate.advisory);
        required.map(|gate| gate.name.clone()).collect()
    }

    /// Whether anything in this config could run.
    pub fn has_gates(&self) -> bool {
        self.enabled && !self.gates.is_empty()
    }
}

fn gates(raw: Vec<Spanned<RawGate>>, defaults: &Defaults) -> Result<Vec<Gate>, Problem> {
    let places: Vec<_> = raw.iter().map(position::Position::of).collect();
    if let Some(place) = places.get(MOST_GATES) {
        let what = format!("more than {MOST_GATES} gates");
        return Err(place.problem(what, "let one gate run a script that runs the others"));
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

fn gate(entry: Spanned<RawGate>, defaults: &Defaults, above: &[Gate]) -> Result<Gate, Problem> {
    let place = position::Position::of(&entry);
    let raw = entry.value;
    if raw.run.trim().is_empty() {
        return Err(place.problem("a gate without a command", "give a command, for example `- npm test`"));
    }
    // What a person accepts must be what they see.
    let names = raw.needs.iter().flatten().chain(&raw.name).chain(&raw.inputs).chain(&raw.results);
    if foreign_text::deceives(&raw.run)
        || names.clone().any(|text| text.contains('\n') || foreign_text::deceives(text))
    {
        let hint = "commands and names hold no escapes, control characters or text that changes direction";
        return Err(place.problem("a character that hides what is written", hint));
    }
    let timeout = match &raw.timeout {
        Some(text) => {
            duration::parse(text).map_err(|hint| place.problem("a `timeout` that cannot be read", hint))?
        }
        None => defaults.gate_timeout,
    };
    if timeout.is_zero() {
        return Err(place.problem("a `timeout` of nothing", "leave it out for 120s"));
    }
    for glob in &raw.inputs {
        check_glob(glob)
            .map_err(|error| place.problem(format!("`inputs`: {error}"), "write it like `src/**`"))?;
    }
    let results = raw.results.as_deref().map(|text| results_source(text, place)).transpose()?;
    let order = match (raw.needs, raw.parallel) {
        (Some(names), _) => Order::After(names.into_iter().map(GateName::new).collect()),
        (None, true) => Order::WithNeighbours,
        (None, false) => Order::AfterAllAbove,
    };
    let name = match raw.name {
        Some(name) if above.iter().any(|gate| gate.name.as_str() == name) => {
            return Err(
                place.problem(format!("two gates are called `{name}`"), "give one of them another name")
            );
        }
        Some(name) => GateName::new(name),
        None => unused_name(&raw.run, above),
    };
    let (run, advisory, inputs, retries) = (raw.run, raw.advisory, raw.inputs, raw.retries);
    Ok(Gate { name, run, timeout, advisory, inputs, retries, order, results })
}

fn results_source(text: &str, place: position::Position) -> Result<ResultsSource, Problem> {
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

/// A gate without a name is called by the first line of its command; the same command twice gets a number.
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

fn plan_problem(error: &PlanError, gates: &[Gate], places: &[position::Position]) -> Problem {
    let (gate, hint) = match error {
        PlanError::NoSuchGate { gate, missing } => {
            let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
            (gate, did_you_mean(missing.as_str(), names.iter().copied(), &names.join(", ")))
        }
        PlanError::Circle { gate } => (gate, "take one of the `needs` out".to_owned()),
    };
    let at = gates.iter().position(|other| other.name == *gate).unwrap_or_default();
    places[at].problem(error.to_string(), hint)
}

/// Who is held: sub-agents by name or glob, the session itself, teammates and the tasks of a team. Stored as the words of
/// the config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Guard {
    agents: Vec<String>,
    session: bool,
    teammates: bool,
    tasks: bool,
}

/// The word for the session itself.
const SESSION: &str = "session";
/// The word for every teammate, whatever its name.
const TEAMMATES: &str = "teammates";
/// The word for the tasks that a session or its team works through.
const TASKS: &str = "tasks";

/// Words that mean somebody else than a sub-agent of that name.
const RESERVED: [&str; 3] = [SESSION, TEAMMATES, TASKS];

/// What makes a reserved word the name of a sub-agent.
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
    fn new(names: Vec<Spanned<String>>) -> Result<Self, Problem> {
        let mut words = Vec::with_capacity(names.len());
        for entry in names {
            let place = position::Position::of(&entry);
            let name = entry.value;
            if foreign_text::deceives(&name) {
                return Err(
                    place.problem("`guard`: a character that hides what is written", "write plain names")
                );
            }
            let nearly = strsim::damerau_levenshtein(&name, SESSION) <= 2;
            if nearly && name != SESSION {
                let hint =
                    format!("did you mean `{SESSION}`? For a sub-agent of that name write `agent:{name}`");
                return Err(
                    place.problem(format!("`guard`: `{name}` is nearly a word for something else"), hint)
                );
            }
            check_glob(&name)
                .map_err(|error| place.problem(format!("`guard`: {error}"), "write it like `check*`"))?;
            words.push(name);
        }
        Ok(words.into())
    }

    /// Whether every stop of a session that changed the tree is judged.
    pub fn holds_session(&self) -> bool {
        self.session
    }

    /// Whether every teammate is judged before it rests.
    pub fn holds_teammates(&self) -> bool {
        self.teammates
    }

    /// Whether a task is looked at before it counts as completed.
    pub fn holds_tasks(&self) -> bool {
        self.tasks
    }

    /// Whether a sub-agent of that name is held. A plugin's agent arrives as `plugin:check`: the prefix is stripped.
    pub fn holds_agent(&self, agent_type: &str) -> bool {
        let bare = bare_agent_name(agent_type);
        self.agents.iter().any(|pattern| pattern == bare || glob_matches(pattern, bare))
    }

    /// The sub-agents that are held, as names and globs.
    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// The words of the config.
    pub fn names(&self) -> Vec<String> {
        self.clone().into()
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self { agents: vec!["check".into()], session: false, teammates: false, tasks: false }
    }
}

/// The name of an agent without the plugin it comes from.
pub fn bare_agent_name(agent_type: &str) -> &str {
    agent_type.rsplit_once(':').map_or(agent_type, |(_plugin, name)| name)
}

/// A pattern can be longer, or nested deeper, than any matcher can be built for; none that anybody means is.
fn check_glob(pattern: &str) -> Result<(), String> {
    const LONGEST: usize = 300;
    if pattern.len() > LONGEST {
        return Err(format!("a pattern longer than {LONGEST} characters"));
    }
    Glob::new(pattern).map(drop).map_err(|error| error.to_string())
}

fn glob_matches(pattern: &str, name: &str) -> bool {
    // Most guards are plain names: no matcher is built for those.
    if !pattern.contains(['*', '?', '[', '{']) {
        return false;
    }
    // `compile_matcher` panics where it cannot build one.
    let matcher = Glob::new(pattern).and_then(|glob| GlobSetBuilder::new().add(glob).build());
    matcher.is_ok_and(|matcher| matcher.is_match(name))
}

#[cfg(test)]
mod tests;
