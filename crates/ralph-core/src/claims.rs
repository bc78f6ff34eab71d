//! What agents, users and files in the repo state. It is read here and believed nowhere: a claim alone never verifies.

pub mod agent_report;
pub mod completion_marker;
pub mod control_word;
pub mod loop_file;
pub mod promise;
mod prose;
pub mod start_request;
pub mod state_file;
pub mod task_list;
