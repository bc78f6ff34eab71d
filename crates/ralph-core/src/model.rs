//! The words that everything else is said in.

pub mod budget;
pub mod config_problem;
pub mod drive_options;
pub mod duration;
pub mod finding;
pub mod foreign_text;
pub mod gate;
pub mod goal;
pub mod hygiene;
pub mod id;
pub mod language;
pub mod layout;
pub mod limits;
pub mod loop_error;
pub mod money;
pub mod note;
pub mod preset;
pub mod promise_seen;
pub mod result_format;
pub mod results;
pub mod results_source;
pub mod secrets;
pub mod short_id;
pub mod verdict;
pub mod visible_text;
