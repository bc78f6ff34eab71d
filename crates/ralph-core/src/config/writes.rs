//! The files that a gate rewrites at every run (`writes:`). They are left out of the fingerprint, so that such a gate can
//! settle; nothing that a gate is there to judge may be among them: code, tests and configuration are refused.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// What data files are called at their end.
const DATA: [&str; 18] = [
    "json", "jsonl", "xml", "html", "txt", "log", "md", "csv", "tsv", "lcov", "info", "sarif", "tap", "out",
    "report", "svg", "pid", "stamp",
];

/// Names of configuration that end like data.
const CONFIGURATION: [&str; 16] = [
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "composer.json",
    "deno.json",
    "biome.json",
    "turbo.json",
    "nx.json",
    "lerna.json",
    "angular.json",
    "project.json",
    "jsconfig.json",
    "renovate.json",
    "requirements.txt",
    "cmakelists.txt",
    "agents.md",
];

/// Folders whose files are code or tests. Folders with a dot in front belong to tools and steer them.
const FOLDERS: [&str; 9] =
    ["test", "tests", "__tests__", "spec", "specs", "fixtures", "testdata", "src", "openspec"];

/// A Markdown file at the root steers agents or is the project's own text.
fn dotless(name: &str) -> bool {
    !name.starts_with('.')
}

/// Why a pattern may not stand under `writes:`; none: it may.
pub fn refusal(pattern: &str) -> Option<&'static str> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let name = parts.last().copied().unwrap_or_default().to_ascii_lowercase();
    let folders = &parts[..parts.len() - 1];
    if pattern.starts_with('/') || parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return Some("it must be a path inside of the repo");
    }
    if pattern.contains(['?', '[', ']', '{', '}', '\\', '!']) || folders.iter().any(|part| part.contains('*'))
    {
        return Some("only the name of the file may have a `*`");
    }
    let steers = |part: &&str| part.starts_with('.') || FOLDERS.contains(&part.to_ascii_lowercase().as_str());
    if folders.iter().any(steers) {
        return Some("the folder holds code, tests or configuration");
    }
    let is_configuration = CONFIGURATION.contains(&name.as_str())
        || name.contains("config")
        || (name.ends_with(".md") && folders.is_empty() && dotless(&name))
        || name.contains(".test.")
        || name.contains(".spec.");
    if is_configuration {
        return Some("it is configuration or a test");
    }
    let dotted = name.strip_prefix('.');
    let end = dotted.unwrap_or(&name).rsplit_once('.').map(|(_, end)| end);
    match (end, dotted) {
        (Some(end), _) if DATA.contains(&end) => {
            // `*.json` would stand for `package.json` too.
            let stem = name.strip_suffix(end).unwrap_or_default();
            let is_open = stem.trim_end_matches('.').trim_start_matches('.') == "*" && folders.is_empty();
            is_open.then_some("it would match configuration too; name the files")
        }
        (None, Some(mark)) => {
            let steers = ["rc", "ignore", "env", "version", "versions", "attributes", "modules", "*"];
            let is_setting = steers.iter().any(|end| mark.ends_with(end)) || mark.starts_with("env");
            is_setting.then_some("it is configuration")
        }
        _ => Some("it may be code or configuration; only data files can be left out"),
    }
}

/// What matches these patterns, which were all accepted.
pub fn matcher(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        if let Ok(glob) = GlobBuilder::new(pattern).literal_separator(true).build() {
            set.add(glob);
        }
    }
    set.build().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_left_out_and_nothing_that_is_judged() {
        for pattern in [
            ".quality-evidence.json",
            ".quality-gate-passed",
            ".layer2-evidence.md",
            "docs/AUDIT-REPORT.md",
            "coverage/lcov.info",
            "reports/junit-*.xml",
            "build/*.log",
            "test-results.json",
        ] {
            assert_eq!(refusal(pattern), None, "{pattern}");
        }
        for pattern in [
            "src/main.ts",
            "src/data.json",
            "app.py",
            "package.json",
            "tsconfig.json",
            "tests/a.json",
            "a.test.json",
            "**",
            "*",
            "*.json",
            "dir/**",
            "**/*.json",
            "../x.json",
            "/etc/x.json",
            "a//b.json",
            "Makefile",
            ".eslintrc",
            ".env",
            ".env.local",
            ".gitignore",
            ".claude/settings.json",
            "ralph.yaml",
            "Cargo.toml",
            "lib/{a,b}.json",
            "jest.config.json",
            "CLAUDE.md",
            "",
            "x/",
        ] {
            assert!(refusal(pattern).is_some(), "{pattern}");
        }
    }

    #[test]
    fn a_pattern_matches_its_file_and_no_other() {
        let set = matcher(&["reports/junit-*.xml".into(), ".quality-gate-passed".into()]);
        assert!(set.is_match("reports/junit-1.xml") && set.is_match(".quality-gate-passed"));
        assert!(!set.is_match("reports/a/junit-1.xml") && !set.is_match("x/.quality-gate-passed"));
    }
}
