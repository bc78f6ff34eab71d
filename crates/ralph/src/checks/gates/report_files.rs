//! Report files written by a gate (`results: junit:target/*.xml`). Only those of this run count.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use ralph_core::claims::results;
use ralph_core::model::result_format::ResultFormat;
use ralph_core::model::results::Results;

const MOST_FILES: usize = 1_000;
const MOST_ENTRIES: usize = 100_000;
const MOST_BYTES: u64 = 8 << 20;

/// File systems store times more coarsely than clocks.
const COARSE: Duration = Duration::from_secs(1);

/// The results in the report files that match the glob and were written since the gate began. `None` if there are none in
/// this format.
pub(super) fn read(root: &Path, glob: &str, format: ResultFormat, begun: SystemTime) -> Option<Results> {
    let matcher = GlobBuilder::new(glob).literal_separator(true).build().ok()?.compile_matcher();
    let mut all: Option<Results> = None;
    for path in written_since(root, glob, &matcher, begun.checked_sub(COARSE)?) {
        let read = contents(&path).ok().and_then(|text| results::read_as(format, &text));
        match (&mut all, read) {
            (Some(all), Some(read)) => all.merge(read),
            (None, read) => all = read,
            (Some(_), None) => {}
        }
    }
    all
}

/// The path before the first wildcard.
pub(super) fn literal_part(glob: &str) -> PathBuf {
    glob.split('/').take_while(|part| !part.contains(['*', '?', '[', '{'])).collect()
}

fn written_since(root: &Path, glob: &str, matcher: &GlobMatcher, since: SystemTime) -> Vec<PathBuf> {
    // Reports are often in large ignored folders, so walk only below the path before the first wildcard.
    let base = root.join(literal_part(glob));
    let is_new = |path: &Path| {
        let metadata = fs::symlink_metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.modified().is_ok_and(|at| at >= since))
    };
    let walk = WalkBuilder::new(base).standard_filters(false).follow_links(false).build();
    let entries = walk.take(MOST_ENTRIES).flatten().map(ignore::DirEntry::into_path);
    let matching =
        entries.filter(|path| path.strip_prefix(root).is_ok_and(|inside| matcher.is_match(inside)));
    let mut files: Vec<PathBuf> = matching.filter(|path| is_new(path)).take(MOST_FILES).collect();
    files.sort();
    files
}

fn contents(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
