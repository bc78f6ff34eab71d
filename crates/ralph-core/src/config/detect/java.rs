//! Maven and Gradle, with their modules.

use super::{GateKind, Project, Proposal};

pub(super) fn java(project: &Project) -> Vec<Proposal> {
    if project.has("pom.xml") {
        let maven = if project.has("mvnw") { "./mvnw" } else { "mvn" };
        return vec![Proposal::new(
            GateKind::Test,
            "test",
            format!("{maven} -B -q test"),
            maven_reason(project),
        )];
    }
    let builds = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    let Some(build) = project.first(&builds) else { return Vec::new() };
    // A check of the root checks every module.
    let settings = project.first(&builds[2..]).map_or("", |file| project.text(file));
    let modules = settings.lines().filter(|line| line.trim_start().starts_with("include")).count();
    let because = if modules > 0 { format!("{build}, with included modules") } else { build.to_owned() };
    let gradle = if project.has("gradlew") { "./gradlew" } else { "gradle" };
    // The daemon would outlive the gate.
    vec![Proposal::new(GateKind::Test, "test", format!("{gradle} --no-daemon --quiet check"), because)]
}

fn maven_reason(project: &Project) -> String {
    let modules = project.text("pom.xml").matches("<module>").count();
    if modules > 0 { format!("pom.xml with {modules} modules") } else { "pom.xml".into() }
}
