//! From green gates to a merged pull request, with the real `gh` and the real git: a scripted GitHub on loopback and a bare
//! repository as its remote.
//!
//! Needs `gh` (Debian package `gh`), which `.ci/run` installs: `cargo test -p ralph --test ship`.

mod headless;
mod never_fooled;
mod scene;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");
