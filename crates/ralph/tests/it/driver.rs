//! `ralph loop` with scripts as the agent: small shell scripts that do what an agent would do, or should not do.

mod scene;

mod busy;
mod commands;
mod environment;
mod escapes;
mod failing_agents;
mod holes;
mod hook_inside;
mod leftovers;
mod limits;
mod progress;
mod refusals;
mod signals;
mod silence;
mod tampering;
mod usage_limit;
mod verdicts;
