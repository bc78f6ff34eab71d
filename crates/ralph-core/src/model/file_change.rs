//! A file of the work tree that differs between two moments, with its content at both.

use std::borrow::Cow;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    File {
        /// The permission bits.
        mode: u16,
        bytes: Vec<u8>,
    },
    Link {
        target: Vec<u8>,
    },
}

/// One path that differs. `None` is "no such file".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the root, with `/`; any bytes.
    pub path: Vec<u8>,
    pub before: Option<FileContent>,
    pub now: Option<FileContent>,
}

/// What a view lays over a path of the tree; `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewEdit {
    pub path: Vec<u8>,
    pub content: Option<FileContent>,
}

impl FileChange {
    /// The path as text, to classify and to show it.
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.path)
    }

    /// The edit that puts the file back.
    pub fn undone(&self) -> ViewEdit {
        ViewEdit { path: self.path.clone(), content: self.before.clone() }
    }
}

impl FileContent {
    /// The content of a text file.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::File { bytes, .. } => str::from_utf8(bytes).ok(),
            Self::Link { .. } => None,
        }
    }

    /// The same file with another text.
    #[must_use]
    pub fn with_text(&self, text: String) -> Self {
        let mode = match self {
            Self::File { mode, .. } => *mode,
            Self::Link { .. } => 0o644,
        };
        Self::File { mode, bytes: text.into_bytes() }
    }
}
