//! Files that are half source, half setting, merged by key: the start's sources, and settings and dependencies as they are now.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use toml_edit::{DocumentMut, Item, Table};

use super::{NotSeparable, Separated};
use crate::model::file_change::FileContent;

/// Keys of `package.json` that stay: scripts, settings of tools, dependencies. The others (`main`, `exports`, `type`, `bin`, …) are
/// part of the source.
const PACKAGE_JSON: [&str; 44] = [
    "scripts",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "nyc",
    "c8",
    "karma",
    "cypress",
    "eslintConfig",
    "eslintIgnore",
    "prettier",
    "stylelint",
    "babel",
    "browserslist",
    "lint-staged",
    "husky",
    "pre-commit",
    "simple-git-hooks",
    "tsd",
    "xo",
    "standard",
    "commitlint",
    "wireit",
    "nx",
    "config",
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "optionalDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "overrides",
    "resolutions",
    "pnpm",
    "packageManager",
    "devEngines",
    "engines",
    "volta",
    "workspaces",
    "installConfig",
    "trustedDependencies",
];

/// Keys of `Cargo.toml` that stay. Of the others, `package`, `lib`, `bin` and `example` say what is built from the sources.
const CARGO_TOML: [&str; 12] = [
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "target",
    "patch",
    "replace",
    "profile",
    "lints",
    "test",
    "bench",
    "features",
    "badges",
];

const CARGO_WORKSPACE: [&str; 3] = ["dependencies", "lints", "resolver"];

const PYPROJECT: [&str; 2] = ["build-system", "dependency-groups"];
const PYPROJECT_PROJECT: [&str; 3] = ["dependencies", "optional-dependencies", "requires-python"];

/// Tools that say what belongs to the package; every other tool's table is a setting.
const PYTHON_BUILD_TOOLS: [&str; 8] =
    ["setuptools", "setuptools_scm", "hatch", "flit", "maturin", "scikit-build", "cibuildwheel", "poetry"];

const POETRY: [&str; 4] = ["dependencies", "dev-dependencies", "group", "extras"];

pub(super) fn is_half_setting(path: &str) -> bool {
    ["package.json", "Cargo.toml", "pyproject.toml"].contains(&path.rsplit('/').next().unwrap_or(path))
}

pub(super) fn merged(path: &str, before: &FileContent, now: &FileContent) -> Separated {
    if !is_half_setting(path) {
        return None;
    }
    let texts = before.text().zip(now.text());
    let text = texts.and_then(|(before, now)| match path.rsplit('/').next() {
        Some("package.json") => package_json(before, now),
        Some("Cargo.toml") => cargo_toml(before, now),
        _ => pyproject(before, now),
    });
    Some(text.map(|text| now.with_text(text)).ok_or(NotSeparable))
}

/// The members of a JSON object, in order and as written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Members {
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
    }
}

fn package_json(before: &str, now_text: &str) -> Option<String> {
    let (before, now) = (Members::parse(before)?, Members::parse(now_text)?);
    let stays = |key: &str| PACKAGE_JSON.contains(&key);
    let sources = |members: &Members| -> Vec<(String, String)> {
        let own = members.0.iter().filter(|(key, _)| !stays(key));
        own.map(|(key, value)| (key.clone(), value.get().to_owned())).collect()
    };
    if sources(&before) == sources(&now) {
        return Some(now_text.to_owned());
    }
    let from_before = before.0.iter().filter(|(key, _)| !stays(key));
    let from_now = now.0.iter().filter(|(key, _)| stays(key));
    let lines = from_before.chain(from_now).map(|(key, value)| {
        let key = serde_json::to_string(key).unwrap_or_default();
        format!("  {key}: {}", value.get())
    });
    Some(format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n")))
}

fn cargo_toml(before: &str, now: &str) -> Option<String> {
    merged_toml(before, now, |merged, now| {
        for key in CARGO_TOML {
            take(merged, now, key);
        }
        for key in CARGO_WORKSPACE {
            take_in(merged, now, "workspace", key);
        }
    })
}

fn pyproject(before: &str, now: &str) -> Option<String> {
    merged_toml(before, now, |merged, now| {
        for key in PYPROJECT {
            take(merged, now, key);
        }
        for key in PYPROJECT_PROJECT {
            take_in(merged, now, "project", key);
        }
        let tools = |table: &Table| -> Vec<String> {
            let tools = table.get("tool").and_then(Item::as_table_like);
            tools.into_iter().flat_map(|tools| tools.iter()).map(|(key, _)| key.to_owned()).collect()
        };
        for tool in tools(merged).into_iter().chain(tools(now)) {
            if !PYTHON_BUILD_TOOLS.contains(&tool.as_str()) {
                take_in(merged, now, "tool", &tool);
            }
        }
        let poetry = |table: &Table| Some(table.get("tool")?.as_table_like()?.get("poetry")?.clone());
        if let (Some(mut old), Some(new)) = (poetry(merged), poetry(now)) {
            for key in POETRY {
                let value = new.as_table_like().and_then(|new| new.get(key)).cloned();
                let Some(old) = old.as_table_like_mut() else { continue };
                match value {
                    Some(value) => drop(old.insert(key, value)),
                    None => drop(old.remove(key)),
                }
            }
            if let Some(tool) = merged.get_mut("tool").and_then(Item::as_table_like_mut) {
                tool.insert("poetry", old);
            }
        }
    })
}

/// The text before with some tables from now; the text now if both say the same then.
fn merged_toml(before: &str, now_text: &str, merge: impl Fn(&mut Table, &Table)) -> Option<String> {
    let (mut merged, now): (DocumentMut, DocumentMut) = (before.parse().ok()?, now_text.parse().ok()?);
    merge(merged.as_table_mut(), now.as_table());
    let text = merged.to_string();
    Some(if sorted_lines(&text) == sorted_lines(now_text) { now_text.to_owned() } else { text })
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}

/// Takes a key as it is now, or away if it is not there.
fn take(merged: &mut Table, now: &Table, key: &str) {
    match now.get(key) {
        Some(value) => drop(merged.insert(key, value.clone())),
        None => drop(merged.remove(key)),
    }
}

/// The same one level deeper.
fn take_in(merged: &mut Table, now: &Table, table: &str, key: &str) {
    let value = now.get(table).and_then(Item::as_table_like).and_then(|table| table.get(key)).cloned();
    if value.is_some() && merged.get(table).is_none() {
        let mut new = Table::new();
        new.set_implicit(true);
        merged.insert(table, Item::Table(new));
    }
    let Some(there) = merged.get_mut(table).and_then(Item::as_table_like_mut) else { return };
    match value {
        Some(value) => drop(there.insert(key, value)),
        None => drop(there.remove(key)),
    }
}
