//! Files that the user's own gate runs rewrote with equal content, such as generated and lock files. In later loops they
//! are compared by content only.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;

use crate::store::home::RepoHome;
use crate::sys::files;

/// The maximum number of recorded files.
const MOST: usize = 500;

/// When each file was first seen to be rewritten.
type Seen = BTreeMap<String, Timestamp>;

fn read(home: &RepoHome) -> Seen {
    let text = files::read_if_there(&home.rewritten_files()).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The files known before a moment.
pub(crate) fn before(home: &RepoHome, moment: Timestamp) -> Vec<String> {
    read(home).into_iter().filter(|(_, at)| *at < moment).map(|(path, _)| path).collect()
}

pub(crate) fn remember(home: &RepoHome, paths: &[String], now: Timestamp) -> io::Result<()> {
    let mut seen = read(home);
    let new: Vec<&String> = paths.iter().filter(|path| !seen.contains_key(*path)).collect();
    if new.is_empty() || seen.len() + new.len() > MOST {
        return Ok(());
    }
    seen.extend(new.into_iter().map(|path| (path.clone(), now)));
    files::replace(&home.rewritten_files(), &serde_json::to_vec(&seen).map_err(io::Error::other)?)
}
