//! JavaScript and TypeScript: npm, pnpm, yarn, bun; turbo, nx, lerna and workspaces.

use serde_json::Value;

use super::{GateKind, Project, Proposal};

/// How each package manager runs a script and a tool.
struct PackageManager {
    lock: &'static [&'static str],
    name: &'static str,
    test: &'static str,
    run: &'static str,
    exec: &'static str,
    /// A script in every package that has it.
    in_workspaces: fn(&str) -> String,
}

const NPM: PackageManager = PackageManager {
    lock: &["package-lock.json"],
    name: "npm",
    test: "npm test",
    run: "npm run",
    exec: "npx --no-install",
    in_workspaces: |name| format!("npm run {name} --workspaces --if-present"),
};

const MANAGERS: [PackageManager; 4] = [
    PackageManager {
        lock: &["pnpm-lock.yaml"],
        name: "pnpm",
        test: "pnpm test",
        run: "pnpm run",
        exec: "pnpm exec",
        in_workspaces: |name| format!("pnpm -r --if-present run {name}"),
    },
    PackageManager {
        lock: &["yarn.lock"],
        name: "yarn",
        test: "yarn test",
        run: "yarn run",
        exec: "yarn run",
        in_workspaces: |name| format!("yarn workspaces foreach -A run {name}"),
    },
    PackageManager {
        lock: &["bun.lock", "bun.lockb"],
        name: "bun",
        test: "bun run test",
        run: "bun run",
        exec: "bunx --no-install",
        in_workspaces: |name| format!("bun run --filter '*' {name}"),
    },
    NPM,
];

pub(super) fn node(project: &Project) -> Vec<Proposal> {
    let Ok(package) = serde_json::from_str::<Value>(project.text("package.json")) else { return Vec::new() };
    let manager = package_manager(project, &package);
    let script = |names: &[&'static str]| {
        names.iter().find(|name| does_something(&package["scripts"][**name])).copied()
    };
    // A script that another one already runs is not listed twice.
    let is_run_by_test = |name: &str| runs_script(&package["scripts"], manager, "test", name);
    let depends_on = |name: &str| {
        ["dependencies", "devDependencies"].iter().any(|section| package[section].get(name).is_some())
    };
    let mut found = Vec::new();
    let because = |name: &str| format!("script `{name}` in package.json");
    let run = |name: &str| format!("{} {name}", manager.run);
    if let Some(name) = script(&["format:check", "fmt:check", "check:format", "prettier:check"]) {
        found.push(Proposal::new(GateKind::Format, "format", run(name), because(name)));
    }
    let eslint_config =
        project.any_name(|name| name.starts_with("eslint.config.") || name.starts_with(".eslintrc"));
    match (script(&["lint", "eslint", "check:lint"]), eslint_config) {
        (Some(name), _) if is_run_by_test(name) => {}
        (Some(name), _) => found.push(Proposal::new(GateKind::Lint, "lint", run(name), because(name))),
        (None, Some(config)) if depends_on("eslint") => {
            found.push(Proposal::new(GateKind::Lint, "lint", format!("{} eslint .", manager.exec), config));
        }
        (None, _) => {}
    }
    match script(&["typecheck", "type-check", "check-types", "check:types", "types", "tsc"]) {
        Some(name) if is_run_by_test(name) => {}
        Some(name) => found.push(Proposal::new(GateKind::Types, "typecheck", run(name), because(name))),
        None if project.has("tsconfig.json") && depends_on("typescript") => {
            let run = format!("{} tsc --noEmit", manager.exec);
            found.push(Proposal::new(GateKind::Types, "typecheck", run, "tsconfig.json"));
        }
        None => {}
    }
    if let Some(name) = script(&["test"]) {
        found.push(Proposal::new(GateKind::Test, "test", manager.test, because(name)));
    }
    if let Some(name) = script(&["build"]).filter(|name| !is_run_by_test(name)) {
        found.push(Proposal::new(GateKind::Build, "build", run(name), because(name)));
    }
    if let Some(name) = script(&["qa:gate"]) {
        found.push(Proposal::new(GateKind::Combined, "qa:gate", run(name), because(name)));
    }
    for more in monorepo(project, &package, manager) {
        if !found.iter().any(|known| known.kind == more.kind) {
            found.push(more);
        }
    }
    found
}

/// What a task runner or the packages of a workspace offer; a script at the root wins.
fn monorepo(project: &Project, package: &Value, manager: &PackageManager) -> Vec<Proposal> {
    const KINDS: [(GateKind, &str, &[&str]); 4] = [
        (GateKind::Lint, "lint", &["lint"]),
        (GateKind::Types, "typecheck", &["typecheck", "type-check", "check-types"]),
        (GateKind::Test, "test", &["test"]),
        (GateKind::Build, "build", &["build"]),
    ];
    let mut found = Vec::new();
    let packages = || project.texts(|name| name.ends_with("/package.json"));
    let having = |script: &str| -> usize {
        let has = |text: &str| {
            serde_json::from_str::<Value>(text)
                .is_ok_and(|package| does_something(&package["scripts"][script]))
        };
        packages().filter(|(_, text)| has(text)).count()
    };
    let turbo = serde_json::from_str::<Value>(project.text("turbo.json")).unwrap_or_default();
    let is_turbo_task =
        |name: &str| ["tasks", "pipeline"].iter().any(|section| turbo[*section].get(name).is_some());
    let is_workspace = !package["workspaces"].is_null() || project.has("pnpm-workspace.yaml");
    for (kind, gate, names) in KINDS {
        let by_turbo = names.iter().find(|name| is_turbo_task(name));
        let by_packages = names.iter().find(|name| having(name) > 0);
        let exec = manager.exec;
        let (run, because) = match (by_turbo, by_packages) {
            (Some(name), _) => (format!("{exec} turbo run {name}"), format!("task `{name}` in turbo.json")),
            (None, Some(name)) => {
                let packages =
                    if having(name) == 1 { "1 package".into() } else { format!("{} packages", having(name)) };
                let why = format!("script `{name}` in {packages}");
                match () {
                    () if project.has("nx.json") => {
                        (format!("{exec} nx run-many -t {name}"), format!("nx.json, {why}"))
                    }
                    () if project.has("lerna.json") => {
                        (format!("{exec} lerna run {name}"), format!("lerna.json, {why}"))
                    }
                    () if is_workspace => ((manager.in_workspaces)(name), format!("workspaces, {why}")),
                    () => continue,
                }
            }
            (None, None) => continue,
        };
        found.push(Proposal::new(kind, gate, run, because));
    }
    found
}

/// Whether a script runs another one: in its own text or, with npm, in the script that npm runs before it.
fn runs_script(scripts: &Value, manager: &PackageManager, script: &str, other: &str) -> bool {
    let calls = |text: &str| {
        ["npm run ", "npm run -s ", "pnpm run ", "pnpm ", "yarn run ", "yarn ", "bun run "].iter().any(|by| {
            text.split(['&', ';', '|']).any(|part| {
                part.trim().strip_prefix(by).is_some_and(|rest| rest.split_whitespace().next() == Some(other))
            })
        })
    };
    let before = format!("pre{script}");
    let mut texts = vec![scripts[script].as_str()];
    if manager.name == "npm" {
        texts.push(scripts[&before].as_str());
    }
    texts.into_iter().flatten().any(calls)
}

/// `npm init` writes a test script that only fails.
fn does_something(script: &Value) -> bool {
    script.as_str().is_some_and(|text| !text.trim().is_empty() && !text.contains("no test specified"))
}

fn package_manager(project: &Project, package: &Value) -> &'static PackageManager {
    let named = package["packageManager"].as_str().unwrap_or_default();
    MANAGERS
        .iter()
        .find(|manager| named.split('@').next() == Some(manager.name))
        .or_else(|| MANAGERS.iter().find(|manager| project.first(manager.lock).is_some()))
        .unwrap_or(&NPM)
}
