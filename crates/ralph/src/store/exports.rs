//! Files in the repo that show a loop to people and to other tools. Nothing in them is believed.

pub(crate) mod loop_file;
pub(crate) mod prescribed_paths;
pub(crate) mod state_file;
