//! Every sentence that a user or an agent reads.

pub mod banner;
pub mod excerpt;
pub mod failures;
pub mod feedback;
pub mod lang;
pub mod prompt;
pub mod report;
pub mod role_briefing;
pub mod telling;
