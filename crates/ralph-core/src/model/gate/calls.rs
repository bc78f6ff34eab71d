//! What the command of a gate calls: the package scripts behind `npm test`, and daemons that see other files than the gate.

use std::collections::BTreeMap;

/// The scripts of a `package.json`.
#[derive(Clone, Debug, Default)]
pub struct PackageScripts(BTreeMap<String, String>);

impl PackageScripts {
    pub fn parse(package_json: &str) -> Self {
        let file: serde_json::Value = serde_json::from_str(package_json).unwrap_or_default();
        let scripts = file.get("scripts").and_then(serde_json::Value::as_object);
        let texts = scripts
            .into_iter()
            .flatten()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
        Self(texts.collect())
    }

    /// The command and every script that it calls.
    pub fn behind(&self, command: &str) -> Vec<String> {
        const DEEPEST: usize = 5;
        let mut all = vec![command.to_owned()];
        let mut next = vec![(command.to_owned(), 0)];
        while let Some((command, depth)) = next.pop() {
            for (name, text) in self.called_by(&command) {
                let around = ["pre", "post"].map(|hook| self.0.get(&format!("{hook}{name}")));
                for text in [Some(text)].into_iter().chain(around).flatten() {
                    if depth < DEEPEST && !all.contains(text) {
                        all.push(text.clone());
                        next.push((text.clone(), depth + 1));
                    }
                }
            }
        }
        all
    }

    /// The script that a command consists of, if it is nothing else: `npm test`, `pnpm run test`.
    pub fn alone(&self, command: &str) -> Option<&str> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let name = match words.as_slice() {
            ["npm", "test" | "t"] => "test",
            ["npm", "run" | "run-script", name] | ["pnpm" | "yarn" | "bun", "run", name] => name,
            ["pnpm" | "yarn", name] => name,
            _ => return None,
        };
        self.0.get(name).map(String::as_str)
    }

    fn called_by(&self, command: &str) -> Vec<(&str, &String)> {
        const MANAGERS: [&str; 6] = ["npm", "pnpm", "yarn", "bun", "npm-run-all", "run-s"];
        let words: Vec<&str> = words(command).collect();
        let has_manager = words.iter().any(|word| MANAGERS.contains(word));
        let named = self.0.iter().filter(|(name, _)| has_manager && words.contains(&name.as_str()));
        named.map(|(name, text)| (name.as_str(), text)).collect()
    }
}

/// The words of a command line, without paths before program names.
fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split(|c: char| c.is_whitespace() || ";|&()\"'".contains(c)).filter(|word| !word.is_empty())
}

/// A program in the command that lets a process outside of the view do the work, so a green says nothing about the view.
pub fn daemon_in(command: &str) -> Option<&'static str> {
    const DAEMONS: [(&str, &str); 15] = [
        ("gradle", "gradle"),
        ("gradlew", "gradle"),
        ("bazel", "bazel"),
        ("bazelisk", "bazel"),
        ("buck2", "buck2"),
        ("pants", "pants"),
        ("nx", "nx"),
        ("turbo", "turbo"),
        ("mvnd", "mvnd"),
        ("sbtn", "sbt"),
        ("docker", "docker"),
        ("docker-compose", "docker"),
        ("podman", "podman"),
        ("nerdctl", "nerdctl"),
        ("devcontainer", "devcontainer"),
    ];
    let all: Vec<&str> = words(command).collect();
    let program = |word: &&str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let called = all.iter().find_map(|word| {
        let program = program(word);
        DAEMONS.iter().find(|(name, _)| *name == program).map(|(_, tool)| *tool)
    })?;
    let works_alone = match called {
        "gradle" => all.contains(&"--no-daemon"),
        "nx" => all.contains(&"NX_DAEMON=false"),
        "bazel" => all.contains(&"--batch"),
        "turbo" => all.contains(&"--no-daemon"),
        _ => false,
    };
    (!works_alone).then_some(called)
}

/// The command with a reporter that names every test, where the runner does not by default and cannot be told so by its
/// environment. `None` if nothing has to be added, or it is not known how.
pub fn naming_all_tests(command: &str, scripts: &PackageScripts) -> Option<String> {
    const RUNNERS: [(&str, &str, &[&str]); 2] = [
        ("vitest", "--reporter=verbose", &["--reporter", "bench"]),
        ("jest", "--verbose", &["--verbose", "--silent", "--reporters", "--json"]),
    ];
    let script = scripts.alone(command);
    let line = script.unwrap_or(command);
    if line.contains(['|', '>', '#', '`']) {
        return None;
    }
    let last = line.rsplit(['&', ';']).next().unwrap_or(line).trim();
    let mut words = last.split_whitespace().filter(|word| !word.contains('='));
    let mut program = words.next()?;
    while ["npx", "bunx", "exec", "cross-env", "pnpm", "yarn", "dotenv", "--"].contains(&program) {
        program = words.next()?;
    }
    let program = program.rsplit('/').next().unwrap_or(program);
    let (_, flag, unless) = RUNNERS.iter().find(|(name, ..)| *name == program)?;
    if unless.iter().any(|word| last.contains(word)) {
        return None;
    }
    let separator = if script.is_some() && command.starts_with("npm") { " -- " } else { " " };
    Some(format!("{}{separator}{flag}", command.trim_end()))
}

/// Variables that make runners name every test.
pub const NAMING_VARIABLES: [(&str, &str); 2] = [("PYTEST_ADDOPTS", "-vv"), ("GOFLAGS", "-v")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_scripts_are_followed() {
        let scripts = PackageScripts::parse(
            r#"{"scripts": {"test": "npm run unit && npm run lint", "unit": "vitest run", "pretest": "sh scripts/up.sh", "lint": "eslint ."}}"#,
        );
        let mut behind = scripts.behind("npm test");
        behind.sort();
        assert_eq!(
            behind,
            ["eslint .", "npm run unit && npm run lint", "npm test", "sh scripts/up.sh", "vitest run"]
        );
        assert_eq!(scripts.behind("make test"), ["make test"]);
        assert_eq!(scripts.alone("npm run unit"), Some("vitest run"));
        assert_eq!(scripts.alone("npm run unit -- --bail"), None);
    }

    #[test]
    fn daemons_are_recognised_by_their_program() {
        for (command, daemon) in [
            ("./gradlew test", Some("gradle")),
            ("./gradlew --no-daemon test", None),
            ("bazel test //...", Some("bazel")),
            ("npx nx run-many -t test", Some("nx")),
            ("docker compose run app pytest", Some("docker")),
            ("sh -c 'docker-compose up'", Some("docker")),
            ("cargo test", None),
            ("pytest tests/docker_test.py", None),
        ] {
            assert_eq!(daemon_in(command), daemon, "{command}");
        }
    }

    #[test]
    fn runners_are_told_to_name_every_test() {
        let scripts = PackageScripts::parse(
            r#"{"scripts": {"test": "vitest run", "unit": "tsc && jest --ci", "all": "vitest run && eslint .", "dot": "vitest run --reporter=dot"}}"#,
        );
        for (command, expected) in [
            ("npm test", Some("npm test -- --reporter=verbose")),
            ("pnpm test", Some("pnpm test --reporter=verbose")),
            ("npm run unit", Some("npm run unit -- --verbose")),
            ("npm run all", None),
            ("npm run dot", None),
            ("npx vitest run src", Some("npx vitest run src --reporter=verbose")),
            ("CI=1 ./node_modules/.bin/jest", Some("CI=1 ./node_modules/.bin/jest --verbose")),
            ("npx jest | tee log", None),
            ("cargo test", None),
        ] {
            assert_eq!(naming_all_tests(command, &scripts).as_deref(), expected, "{command}");
        }
    }
}
