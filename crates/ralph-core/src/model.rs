//! The words that everything else is said in.

pub mod budget;
pub mod duration;
pub mod foreign_text;
pub mod gate;
pub mod goal;
pub mod hygiene;
pub mod id;
pub mod layout;
pub mod loop_error;
pub mod money;
pub mod note;
pub mod preset;
pub mod secrets;
pub mod verdict;
pub mod visible_text;
