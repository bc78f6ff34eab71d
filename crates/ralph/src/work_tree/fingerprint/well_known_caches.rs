//! Files and folders that tools create in a work tree unasked.
//!
//! A gate that runs the tests also writes `.pytest_cache`; if that counted, running a gate would invalidate its own
//! evidence. Many projects forget to ignore some of these, so they are always excluded unless tracked.

/// Excluded with their content.
const FOLDERS: &[&str] = &[
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".venv",
    ".gradle",
    ".parcel-cache",
    ".turbo",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".nyc_output",
    ".cache",
    ".terraform",
    ".dart_tool",
    ".eggs",
    ".ipynb_checkpoints",
];

/// Names that may also be source folders: a cache only next to a file of the tool that creates it.
const FOLDERS_BESIDE: &[(&str, &[&str])] =
    &[("node_modules", &["package.json"]), ("target", &["Cargo.toml", "pom.xml", "build.sbt"])];

const FILES: &[&str] = &[".DS_Store", ".eslintcache", ".coverage"];

const SUFFIXES: &[&str] = &[".pyc", ".pyo", ".tsbuildinfo"];

/// Metadata of version control: it changes with every commit and is not part of the work.
const VERSION_CONTROL: &[&str] = &[".git", ".hg", ".svn", ".jj"];

/// `beside` returns whether a file of that name is next to the folder.
pub(super) fn is_cache_folder(name: &[u8], beside: impl Fn(&[u8]) -> bool) -> bool {
    let proven = |(folder, makers): &(&str, &[&str])| {
        folder.as_bytes() == name && makers.iter().any(|maker| beside(maker.as_bytes()))
    };
    is_one_of(FOLDERS, name) || FOLDERS_BESIDE.iter().any(proven)
}

pub(super) fn is_cache_file(name: &[u8]) -> bool {
    is_one_of(FILES, name) || SUFFIXES.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
}

pub(super) fn is_version_control(name: &[u8]) -> bool {
    is_one_of(VERSION_CONTROL, name)
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}
