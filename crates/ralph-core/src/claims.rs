//! What agents, users, files in the repo and the output of commands state. It is read here and believed nowhere: a claim
//! alone never verifies, and for a gate its exit code decides.

pub mod agent_report;
pub mod completion_marker;
pub mod control_word;
pub mod loop_file;
pub mod promise;
mod prose;
pub mod results;
pub mod start_request;
pub mod state_file;
pub mod task_list;
