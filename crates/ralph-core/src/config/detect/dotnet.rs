//! .NET solutions and projects.

use super::{GateKind, Project, Proposal};

pub(super) fn dotnet(project: &Project) -> Vec<Proposal> {
    let is_one = |name: &str| [".sln", ".slnx", ".csproj", ".fsproj"].iter().any(|end| name.ends_with(end));
    let Some(file) = project.any_name(|name| !name.contains('/') && is_one(name)) else { return Vec::new() };
    vec![
        Proposal::new(GateKind::Format, "format", "dotnet format --verify-no-changes", file),
        Proposal::new(GateKind::Test, "test", "dotnet test --nologo", file),
    ]
}
