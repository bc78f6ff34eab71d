//! The life cycle of a loop: started, judged, driven, paused, ended, reported.

pub(crate) mod ancestry;
pub(crate) mod driver;
pub(crate) mod evidence;
pub(crate) mod judge;
pub(crate) mod report;
pub(crate) mod session;
