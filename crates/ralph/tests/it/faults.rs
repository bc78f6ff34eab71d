//! What must be true when the environment fails: torn files, a stopped lock holder, hostile variables, kills at any
//! time. After
//! each of them one oracle checks everything that ralph stores. Faults at single system calls are in `tests/faults`.

mod corpus;
mod disk;
mod environment;
mod kill;
mod lock;
#[allow(dead_code, reason = "shared with `tests/faults`, which uses more of it")]
mod oracle;
mod saved;
mod torn;
