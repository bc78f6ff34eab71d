//! From green gates to a merged pull request, with the real `gh` and the real git: a scripted GitHub on loopback and a bare
//! repository as its remote.
//!
//! Needs `gh` (Debian package `gh`), which `.ci/run` installs: `cargo test -p ralph --test ship`.

#![expect(
    clippy::disallowed_methods,
    reason = "a test has an environment of its own, and may start programs"
)]

mod headless;
mod kills;
mod never_fooled;
mod scene;
mod session;

/// The binary under test.
const RALPH: &str = env!("CARGO_BIN_EXE_ralph");
