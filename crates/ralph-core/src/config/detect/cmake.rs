//! CMake with CTest.

use super::{GateKind, Project, Proposal};

pub(super) fn cmake(project: &Project) -> Vec<Proposal> {
    let text = project.text("CMakeLists.txt");
    if !project.has("CMakeLists.txt") {
        return Vec::new();
    }
    let build = "cmake -S . -B build && cmake --build build";
    let mut found = vec![Proposal::new(GateKind::Types, "build", build, "CMakeLists.txt")];
    let has_tests =
        ["enable_testing", "include(CTest)", "add_test"].iter().find(|word| text.contains(**word));
    if let Some(word) = has_tests {
        let run = "ctest --test-dir build --output-on-failure";
        found.push(Proposal::new(GateKind::Test, "test", run, format!("`{word}` in CMakeLists.txt")));
    }
    found
}
