//! Parses what agents, users, files in the repo and command output state. A claim alone never verifies; a gate is
//! decided by its exit code.

pub mod agent_report;
pub mod completion_marker;
pub mod control_word;
pub mod honest_exit;
pub mod loop_file;
pub mod promise;
mod prose;
pub mod quality_files;
pub mod results;
pub mod start_request;
pub mod state_file;
pub mod task_list;
