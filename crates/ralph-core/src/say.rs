//! Every sentence that a user or an agent reads.

pub mod annotations;
pub mod banner;
pub mod excerpt;
pub mod failures;
pub mod feedback;
pub mod help;
pub mod junit;
pub mod lang;
pub mod loop_row;
pub mod loop_texts;
pub mod prompt;
pub mod proof;
pub mod report;
pub mod role_briefing;
pub mod sarif;
pub mod words;
