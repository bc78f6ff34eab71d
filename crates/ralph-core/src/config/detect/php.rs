//! PHP: scripts of Composer, PHPStan, PHPUnit.

use serde_json::Value;

use super::{GateKind, Project, Proposal};

pub(super) fn php(project: &Project) -> Vec<Proposal> {
    let Ok(composer) = serde_json::from_str::<Value>(project.text("composer.json")) else {
        return Vec::new();
    };
    let script =
        |names: &[&'static str]| names.iter().find(|name| composer["scripts"].get(**name).is_some()).copied();
    let mut found = Vec::new();
    let by_script = |kind, gate: &str, name: &str| {
        let because = format!("script `{name}` in composer.json");
        Proposal::new(kind, gate, format!("composer run-script {name}"), because)
    };
    if let Some(name) = script(&["lint", "cs", "cs-check", "phpcs"]) {
        found.push(by_script(GateKind::Lint, "lint", name));
    }
    let phpstan = project.first(&["phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"]);
    match (script(&["phpstan", "analyse", "analyze", "stan"]), phpstan) {
        (Some(name), _) => found.push(by_script(GateKind::Types, "phpstan", name)),
        (None, Some(file)) => {
            found.push(Proposal::new(GateKind::Types, "phpstan", "vendor/bin/phpstan analyse", file));
        }
        (None, None) => {}
    }
    match (
        script(&["test", "tests"]),
        project.first(&["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"]),
    ) {
        (Some(name), _) => found.push(by_script(GateKind::Test, "test", name)),
        (None, Some(file)) => found.push(Proposal::new(GateKind::Test, "test", "vendor/bin/phpunit", file)),
        (None, None) => {}
    }
    found
}
