//! Files in the repo that show a loop to users and other tools; ralph never trusts their content.

pub(crate) mod loop_file;
pub(crate) mod prescribed_paths;
pub(crate) mod state_file;
