//! Taking other systems out of a project before ralph is put in: their stop hooks and plugins in the client's settings, their
//! commands of the same names, their running loop. Of every file that changes a copy is kept beside it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::clients::installation::{Installation, OtherHook, TakeOut};
use crate::clients::source_systems::{self, SourceSystem};
use crate::store::exports::loop_file;
use crate::sys::files;

/// What the copy of a file is called.
const COPY: &str = ".before-ralph";

/// Which hooks of others go.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// Those of the system that the user comes from.
    From(&'static SourceSystem),
    /// Every stop hook that is not ours.
    AllStopHooks,
    Nothing,
}

impl Wanted {
    pub(super) fn system(self) -> Option<&'static SourceSystem> {
        match self {
            Self::From(system) => Some(system),
            Self::AllStopHooks | Self::Nothing => None,
        }
    }

    fn includes(self, hook: &OtherHook) -> bool {
        match self {
            Self::From(system) => system.runs(&hook.command),
            Self::AllStopHooks => hook.judges,
            Self::Nothing => false,
        }
    }

    fn includes_plugin(self, name: &str) -> bool {
        match self {
            Self::From(system) => system.has_plugin(name),
            Self::AllStopHooks | Self::Nothing => false,
        }
    }
}

/// A settings file without what others had in it.
pub(super) struct Cleaned {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// What was taken out, in words.
    pub(super) what: Vec<String>,
}

/// Every settings file of the project and of the user that has something to be taken out.
pub(super) fn clean(installation: &Installation, root: &Path, wanted: Wanted) -> io::Result<Vec<Cleaned>> {
    let mut cleaned = Vec::new();
    for (path, found) in (installation.look)(root) {
        let hooks = found.other_hooks.iter().filter(|hook| wanted.includes(hook));
        let hooks = hooks.map(|hook| format!("{} → {}", hook.event, hook.command));
        let plugins = found.plugins.iter().filter(|name| wanted.includes_plugin(name));
        let plugins = plugins.map(|name| format!("the plugin `{name}`"));
        let what: Vec<String> = hooks.chain(plugins).collect();
        if what.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&files::read_if_there(&path)?.unwrap_or_default()).into_owned();
        let take =
            TakeOut { hook: &|hook| wanted.includes(hook), plugin: &|name| wanted.includes_plugin(name) };
        if let Some(text) = (installation.take_out_others)(&text, &take) {
            cleaned.push(Cleaned { path, text, what });
        }
    }
    Ok(cleaned)
}

/// Stop hooks of others that stay, each with its file.
pub(super) fn staying(installation: &Installation, root: &Path, wanted: Wanted) -> Vec<(PathBuf, OtherHook)> {
    let found = (installation.look)(root).into_iter();
    let hooks =
        found.flat_map(|(path, found)| found.other_hooks.into_iter().map(move |hook| (path.clone(), hook)));
    hooks.filter(|(_, hook)| hook.judges && !wanted.includes(hook)).collect()
}

/// How a hook of another program is told to the user, and how it is taken out.
pub(super) fn describe(path: &Path, hook: &OtherHook) -> (String, String) {
    let of = source_systems::of_command(&hook.command);
    let whose = of.map(|system| format!(", the hook of {},", system.name)).unwrap_or_default();
    let what = format!(
        "{}: {} also runs `{}`{whose} which can block the same stop",
        path.display(),
        hook.event,
        hook.command
    );
    let fix = match of {
        Some(system) => format!("`ralph init --from {}` takes it out and keeps a copy", system.name),
        None => {
            "keep it if it only notifies; `ralph init --replace-hooks` takes it out and keeps a copy".into()
        }
    };
    (what, fix)
}

/// Writes a file that somebody else wrote, and keeps what was there beside it. Returns where.
pub(super) fn replace_with_copy(path: &Path, text: &str) -> io::Result<PathBuf> {
    let copy = keep_copy(path)?;
    let mode = fs::metadata(path)?.permissions();
    files::replace(path, text.as_bytes())?;
    fs::set_permissions(path, mode)?;
    Ok(copy)
}

/// The running loop of another system would be taken for one of this project's sessions: it goes, and a copy stays.
pub(super) fn set_loop_file_aside(root: &Path) -> io::Result<Option<PathBuf>> {
    let path = root.join(loop_file::PATH);
    if !files::lies_below(&path, root) || !path.is_file() {
        return Ok(None);
    }
    let copy = keep_copy(&path)?;
    fs::remove_file(&path)?;
    Ok(Some(copy))
}

pub(super) fn keep_copy(path: &Path) -> io::Result<PathBuf> {
    let bytes = fs::read(path)?;
    for number in 1_u32.. {
        let mut name: OsString = path.as_os_str().to_owned();
        name.push(COPY);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let copy = PathBuf::from(name);
        match fs::symlink_metadata(&copy) {
            Ok(_) => {}
            Err(error) if files::is_absent(&error) => {
                files::replace(&copy, &bytes)?;
                return Ok(copy);
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are more numbers than files")
}
