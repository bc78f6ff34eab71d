//! User-visible output: the terminal, the progress of a driven loop, exit codes, the language.

pub(crate) mod exit;
pub(crate) mod language;
pub(crate) mod progress;
pub(crate) mod terminal;
