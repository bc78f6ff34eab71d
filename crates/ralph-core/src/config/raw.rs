//! The config file format, parsed as YAML.
//!
//! `verify` may be one command or a list; a list entry may be a command or a map. An unknown key of `ralph.yaml` is an error.
//! In the files of other tools `verify` and `enabled` stand at the top, everything else of ours under `ralph:`
//! (`foreign`).

mod foreign;

use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
pub use serde_saphyr::Spanned;

use crate::config::position::Position;
use crate::model::budget::OnExhausted;
use crate::model::config_problem::{ConfigProblem, did_you_mean};
use crate::model::layout::Layout;
use crate::model::ship::{AuditRule, MergeMethod, RequiredLevel};

#[derive(Debug, Default)]
pub struct RawConfig {
    pub verify: Option<Vec<Spanned<RawGate>>>,
    pub guard: Option<Vec<Spanned<String>>>,
    pub budget: Option<Spanned<RawBudget>>,
    pub agents: Option<Named<RawCommandAgent>>,
    pub enabled: Option<bool>,
    pub reports: Option<Spanned<Scalar>>,
    pub worktree: Option<Spanned<RawWorktree>>,
    pub ship: Option<Spanned<RawShip>>,
    /// Keys of the file that are another tool's.
    pub not_read: Vec<String>,
}

/// How a new worktree is set up.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWorktree {
    pub dir: Option<String>,
    pub copy: Option<OneOrMany<String>>,
    pub post_create: Option<OneOrMany<String>>,
}

/// How a loop beyond the gates pushes, waits and merges.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawShip {
    pub merge: Option<MergeMethod>,
    pub delete_branch: Option<bool>,
    pub draft: Option<bool>,
    pub labels: Option<OneOrMany<String>>,
    pub reviewers: Option<OneOrMany<String>>,
    pub base: Option<String>,
    pub poll: Option<Scalar>,
    pub ci_timeout: Option<Scalar>,
    pub no_ci: Option<bool>,
    pub require: Option<RequiredLevel>,
    pub audit: Option<AuditRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NativeFile {
    verify: Option<OneOrMany<RawGate>>,
    guard: Option<OneOrMany<String>>,
    budget: Option<Spanned<RawBudget>>,
    agents: Option<Named<RawCommandAgent>>,
    enabled: Option<bool>,
    reports: Option<Spanned<Scalar>>,
    worktree: Option<Spanned<RawWorktree>>,
    ship: Option<Spanned<RawShip>>,
}

impl From<NativeFile> for RawConfig {
    fn from(file: NativeFile) -> Self {
        let (verify, guard) = (file.verify.map(|list| list.0), file.guard.map(|list| list.0));
        let (budget, agents, enabled, reports) = (file.budget, file.agents, file.enabled, file.reports);
        let (worktree, ship, not_read) = (file.worktree, file.ship, Vec::new());
        Self { verify, guard, budget, agents, enabled, reports, worktree, ship, not_read }
    }
}

impl RawConfig {
    pub fn parse(text: &str, layout: Layout) -> Result<Self, ConfigProblem> {
        match layout {
            Layout::Native => parse::<NativeFile>(text).map(Self::from),
            Layout::Trellis | Layout::Ideal => foreign::read(text),
        }
    }
}

/// Parses YAML; an empty document is an empty config.
pub(crate) fn parse<'de, T: Deserialize<'de> + Default>(text: &'de str) -> Result<T, ConfigProblem> {
    // The program renders its own error snippets. `off` and `yes` are strings here.
    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        // A few lines of aliases can expand to millions of entries.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 5_000 },
        budget: serde_saphyr::budget! { max_nodes: 20_000 },
    };
    serde_saphyr::from_str_with_options::<Option<T>>(text, options)
        .map(Option::unwrap_or_default)
        .map_err(problem)
}

fn problem(error: serde_saphyr::Error) -> ConfigProblem {
    let error = error.without_snippet();
    let place = error.location().map_or(Position::at(serde_saphyr::Location::UNKNOWN), Position::at);
    match error {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            let known = expected.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            let shown: String = field.chars().take(100).collect();
            let hint = if is_user_only(field, expected) {
                "a repo cannot set this; put it into your own `~/.config/ralph/config.yaml`".to_owned()
            } else {
                did_you_mean(field, expected.iter().copied(), &known)
            };
            place.problem(format!("unknown key `{shown}`"), hint)
        }
        other => {
            let text = other.to_string();
            // The message ends with the position, which is shown separately.
            let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
            place.problem(what, "the file must be YAML with a `verify:` list; quote values with `: `, ` #` or starts with `*`, `&`, `!`, `%`, `@` or a backtick")
        }
    }
}

/// Whether a key unknown in the repo's file is valid in the user's own file at the same place.
fn is_user_only(field: &str, known_here: &[&str]) -> bool {
    let theirs: &[&str] = match () {
        () if known_here.contains(&"verify") => &["allow", "gate_timeout", "keep_env", "proof"],
        () if known_here.contains(&"command") => &["base", "environment", "model"],
        () => &[],
    };
    theirs.contains(&field)
}

/// One thing, or a list of them.
#[derive(Debug)]
pub struct OneOrMany<T>(pub(crate) Vec<Spanned<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A single item has the span of the whole value.
        let value = Spanned::<Items<T>>::deserialize(deserializer)?;
        let (referenced, defined) = (value.referenced, value.defined);
        Ok(Self(match value.value {
            Items::One(item) => vec![Spanned::new(item, referenced, defined)],
            Items::Many(items) => items,
        }))
    }
}

#[derive(Debug)]
pub enum Items<T> {
    One(T),
    Many(Vec<Spanned<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one entry or a list of them")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Ok(Items::Many(Vec::new()))
            }

            fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                self.visit_unit()
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Items::Many)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Items::One)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(serde::de::value::StrDeserializer::new(text)).map(Items::One)
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
                self.visit_str(&value.to_string())
            }
        }

        deserializer.deserialize_any(ItemsVisitor(std::marker::PhantomData))
    }
}

#[derive(Debug, Default)]
pub struct RawGate {
    pub run: String,
    pub name: Option<String>,
    pub timeout: Option<String>,
    pub advisory: bool,
    pub inputs: Vec<String>,
    pub writes: Vec<String>,
    pub retries: u32,
    pub parallel: bool,
    pub needs: Option<Vec<String>>,
    pub results: Option<String>,
    pub red: Option<String>,
    pub allow_empty: bool,
    pub rerun: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GateMap {
    run: String,
    name: Option<String>,
    timeout: Option<Scalar>,
    #[serde(default)]
    advisory: bool,
    #[serde(default)]
    inputs: Vec<String>,
    #[serde(default)]
    writes: Vec<String>,
    #[serde(default)]
    retries: u32,
    #[serde(default)]
    parallel: bool,
    needs: Option<Vec<String>>,
    results: Option<String>,
    red: Option<String>,
    #[serde(default)]
    allow_empty: bool,
    rerun: Option<bool>,
}

impl<'de> Deserialize<'de> for RawGate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GateVisitor;

        impl<'de> Visitor<'de> for GateVisitor {
            type Value = RawGate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command, or a map with `run:`")
            }

            fn visit_str<E: serde::de::Error>(self, run: &str) -> Result<RawGate, E> {
                Ok(RawGate { run: run.to_owned(), ..RawGate::default() })
            }

            // `- true` is a boolean in YAML but meant as a command.
            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<RawGate, E> {
                self.visit_str(&value.to_string())
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<RawGate, E> {
                Err(E::custom("a gate without a command"))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawGate, A::Error> {
                let map = GateMap::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawGate {
                    run: map.run,
                    name: map.name,
                    timeout: map.timeout.map(|scalar| scalar.0),
                    advisory: map.advisory,
                    inputs: map.inputs,
                    writes: map.writes,
                    retries: map.retries,
                    parallel: map.parallel,
                    needs: map.needs,
                    results: map.results,
                    red: map.red,
                    allow_empty: map.allow_empty,
                    rerun: map.rerun,
                })
            }
        }

        deserializer.deserialize_any(GateVisitor)
    }
}

/// A repo's agent entry: only a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawCommandAgent {
    pub command: Option<Spanned<Items<String>>>,
    pub dialect: Option<Spanned<String>>,
    pub max_iterations: Option<Spanned<u32>>,
}

/// A user's agent entry: also overrides of built-in agents and variables.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawAgent {
    pub base: Option<Spanned<String>>,
    pub command: Option<Spanned<Items<String>>>,
    pub dialect: Option<Spanned<String>>,
    pub max_iterations: Option<Spanned<u32>>,
    pub model: Option<Spanned<String>>,
    pub environment: Option<Named<RawValue>>,
}

impl From<RawCommandAgent> for RawAgent {
    fn from(raw: RawCommandAgent) -> Self {
        let RawCommandAgent { command, dialect, max_iterations } = raw;
        Self { base: None, command, dialect, max_iterations, model: None, environment: None }
    }
}

/// A variable's value: a string, `{from: OTHER}`, or nothing to remove it.
#[derive(Debug)]
pub enum RawValue {
    Text(String),
    From(String),
    Nothing,
    /// A number or boolean, whose original spelling is lost: `1.10`, `0x10`.
    NotText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromVariable {
    from: String,
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = RawValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, `{from: VARIABLE}`, or nothing to remove the variable")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawValue, E> {
                Ok(RawValue::Text(text.to_owned()))
            }

            fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<RawValue, E> {
                Ok(RawValue::NotText)
            }

            fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<RawValue, E> {
                Ok(RawValue::NotText)
            }

            fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<RawValue, E> {
                Ok(RawValue::NotText)
            }

            fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<RawValue, E> {
                Ok(RawValue::NotText)
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<RawValue, E> {
                Ok(RawValue::Nothing)
            }

            fn visit_none<E: serde::de::Error>(self) -> Result<RawValue, E> {
                self.visit_unit()
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawValue, A::Error> {
                let map = FromVariable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawValue::From(map.from))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

/// A map that keeps the order of the file.
#[derive(Debug)]
pub struct Named<T>(pub Vec<(Spanned<String>, Spanned<T>)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
                Ok(Named::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }

        deserializer.deserialize_map(NamedVisitor(std::marker::PhantomData))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawBudget {
    pub attempts: Option<Scalar>,
    pub errors: Option<u32>,
    pub on_exhausted: Option<OnExhausted>,
    pub clock: Option<Scalar>,
    pub stale_after: Option<Scalar>,
}

/// A number or a word, as text: `5`, `unlimited`, `30m`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;

        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a word")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Scalar, E> {
                if value.is_finite() { Ok(Scalar(value.to_string())) } else { Err(E::custom("not a number")) }
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}
