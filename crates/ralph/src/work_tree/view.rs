//! A changed view of the work tree, in which a gate can run without writing to the tree.
//!
//! Where the system permits it, the view is an **overlay at the same path**: a process of ours ([`overlay`]) makes a mount
//! namespace (as an ordinary user with a user namespace) whose repo is an overlay with its changes in memory. Gates enter that
//! namespace. The mounts exist only there, so nothing is left when its last process ends, however it ends. Dependencies and
//! build outputs are visible, at their usual paths.
//!
//! Else it is a **copy** of the counted files in ralph's own folder, with dependency folders linked in ([`copy`]); the path is
//! another one, and everything is built anew. Copies of a killed process are removed before the next one is made.
//!
//! Files laid in get the current time as their modification time: with an old one, build tools would reuse stale outputs.

mod copy;
mod lay_in;
mod overlay;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ralph_core::model::file_change::ViewEdit;

use self::copy::CopiedTree;
use self::overlay::OverlayHolder;
use crate::sys::{env, files};
use crate::work_tree::fingerprint::Tree;

/// The first argument of ralph's own processes that make or enter a view.
const WORD: &str = "__view";

/// Runs this process as part of a view, if it was started for that.
pub(crate) fn called(arguments: &[OsString]) -> Option<ExitCode> {
    (arguments.first().map(OsString::as_os_str) == Some(OsStr::new(WORD)))
        .then(|| overlay::run(&arguments[1..]))
}

/// Where views of a tree are made.
#[derive(Debug)]
pub(crate) struct ViewPlace<'a> {
    /// The root of the tree, canonical.
    pub(crate) root: &'a Path,
    /// The counted files as they are.
    pub(crate) tree: &'a Tree,
    /// A folder of ralph's own for mounts and copies.
    pub(crate) scratch: PathBuf,
}

/// How a view was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewKind {
    Overlay,
    /// In a folder of its own, because an overlay cannot be had.
    Copy {
        why: String,
    },
}

impl fmt::Display for ViewKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlay => f.write_str("in an overlay at the same path"),
            Self::Copy { why } => write!(f, "in a copy of the files ({why})"),
        }
    }
}

/// A view that gates can run in. It ends with this value.
#[derive(Debug)]
pub(crate) enum TreeView {
    Overlay { root: PathBuf, holder: OverlayHolder },
    Copy { tree: CopiedTree },
}

/// How a command is started inside a view.
#[derive(Clone, Debug)]
pub(crate) struct ViewEntrance {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Printed before a message if the view could not be entered.
    pub(crate) token: String,
}

impl ViewPlace<'_> {
    /// A view of the tree with these changes, and how it was made. An error means that there is none.
    pub(crate) fn view(&self, edits: &[ViewEdit]) -> io::Result<(TreeView, ViewKind)> {
        let refused = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        files::private_dir(&self.scratch)?;
        if std::fs::canonicalize(&self.scratch)?.starts_with(self.root) {
            return refused(
                "ralph's own folder is inside the repo; set RALPH_HOME to a folder outside of it",
            );
        }
        copy::sweep(&self.scratch);
        match self.overlay(edits) {
            Ok(view) => Ok((view, ViewKind::Overlay)),
            Err(why) => {
                let tree = CopiedTree::make(self, edits)?;
                Ok((TreeView::Copy { tree }, ViewKind::Copy { why: why.to_string() }))
            }
        }
    }

    fn overlay(&self, edits: &[ViewEdit]) -> io::Result<TreeView> {
        if env::text("RALPH_NO_OVERLAY").is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "RALPH_NO_OVERLAY is set"));
        }
        let mount_point = self.scratch.join("mount");
        files::private_dir(&mount_point)?;
        let holder = OverlayHolder::start(self.root, &mount_point)?;
        holder.lay_in(edits)?;
        Ok(TreeView::Overlay { root: self.root.to_owned(), holder })
    }
}

impl TreeView {
    /// Where the files are for a gate in the view.
    pub(crate) fn root(&self) -> &Path {
        match self {
            Self::Overlay { root, .. } => root,
            Self::Copy { tree } => tree.root(),
        }
    }

    /// How a command line is started in the view; `None`: as usual, in [`root`](Self::root).
    pub(crate) fn entrance(&self, command: &str) -> Option<ViewEntrance> {
        match self {
            Self::Overlay { root, holder } => Some(holder.entrance(root, command)),
            Self::Copy { .. } => None,
        }
    }

    /// A folder in which the files below `path` of the view can be read afterwards, at the same relative path.
    pub(crate) fn files_below(&self, path: &Path, scratch: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Overlay { holder, .. } => {
                holder.copy_out(path, scratch)?;
                Ok(scratch.to_owned())
            }
            Self::Copy { tree } => Ok(tree.root().to_owned()),
        }
    }
}
