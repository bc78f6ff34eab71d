//! `ralph loop` with stand-ins for the agent: small shell scripts that do what an agent would, or what none should.

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
