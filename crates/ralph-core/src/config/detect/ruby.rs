//! Ruby: RuboCop, RSpec, Rake.

use super::{GateKind, Project, Proposal};

pub(super) fn ruby(project: &Project) -> Vec<Proposal> {
    let gems = project.text("Gemfile");
    let bundle = if project.has("Gemfile") { "bundle exec " } else { "" };
    let names = |gem: &str| gems.contains(&format!("\"{gem}\"")) || gems.contains(&format!("'{gem}'"));
    let mut found = Vec::new();
    if let Some(file) = project.first(&[".rubocop.yml"]) {
        found.push(Proposal::new(GateKind::Lint, "rubocop", format!("{bundle}rubocop"), file));
    }
    let rspec = project.first(&[".rspec"]).map(str::to_owned);
    let rspec =
        rspec.or_else(|| (names("rspec") || names("rspec-rails")).then(|| "rspec in Gemfile".to_owned()));
    if let Some(because) = rspec {
        found.push(Proposal::new(GateKind::Test, "test", format!("{bundle}rspec"), because));
    } else if project.text("Rakefile").contains("TestTask") {
        found.push(Proposal::new(
            GateKind::Test,
            "test",
            format!("{bundle}rake test"),
            "a test task in Rakefile",
        ));
    }
    found
}
