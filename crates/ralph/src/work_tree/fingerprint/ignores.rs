//! Which paths are excluded by the `.gitignore` files of a tree.
//!
//! Only these files are used: they are part of the tree, so hiding something with them changes the fingerprint.
//! `.git/info/exclude` and the user's global excludes would not, and are not read.
//!
//! Rules may be *pinned* to those of an earlier read. A path is then ignored only if both the pinned and the current
//! rules ignore it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::bytes::{ByteReader, Writer};

const MAGIC: &[u8; 8] = b"ralphig1";

/// The `.gitignore` texts found in a tree, by folder.
///
/// Folder names are relative to the root: `` (the root itself), `src/web`, and `..` or `../..` for those between the
/// root and the top of its git work tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoreRules(BTreeMap<Vec<u8>, Vec<u8>>);

impl IgnoreRules {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.raw(MAGIC);
        to.count(self.0.len());
        for (folder, text) in &self.0 {
            to.slice(folder);
            to.slice(text);
        }
        to.into_bytes()
    }

    /// `None` if `bytes` were not written by [`to_bytes`](Self::to_bytes).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = ByteReader::new(bytes);
        if from.array()? != *MAGIC {
            return None;
        }
        let mut rules = Self::default();
        for _ in 0..from.count()? {
            rules.insert(from.slice()?.to_vec(), from.slice()?.to_vec());
        }
        from.is_at_end().then_some(rules)
    }

    pub(super) fn insert(&mut self, folder: Vec<u8>, text: Vec<u8>) {
        self.0.insert(folder, text);
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn get(&self, folder: &[u8]) -> Option<&[u8]> {
        self.0.get(folder).map(Vec::as_slice)
    }
}

/// The effective rules in one folder, including those of its parents.
#[derive(Clone, Default)]
pub(super) struct Scope {
    now: TreeView,
    pinned: Option<TreeView>,
}

/// The same folder under one set of rules.
#[derive(Clone, Default)]
struct TreeView {
    rules: Option<Arc<Level>>,
    /// The folder itself is ignored, and so is everything in it, whatever deeper rules say.
    ignored: bool,
}

/// One `.gitignore`, and the parents used if it does not match.
struct Level {
    matcher: Gitignore,
    above: Option<Arc<Self>>,
}

impl Scope {
    /// The scope outside of any folder with rules.
    pub(super) fn outermost(pinned: bool) -> Self {
        Self { now: TreeView::default(), pinned: pinned.then(TreeView::default) }
    }

    /// Adds the current and the pinned `.gitignore` of `folder` (absolute).
    pub(super) fn add(&mut self, folder: &Path, now: Option<&[u8]>, pinned: Option<&[u8]>) {
        let were_same = self.views_are_same();
        self.now.add(folder, now);
        match &mut self.pinned {
            // Unchanged rules are parsed and evaluated once.
            Some(view) if were_same && now == pinned => *view = self.now.clone(),
            Some(view) => view.add(folder, pinned),
            None => {}
        }
    }

    /// The scope inside `folder` (absolute), before its own rules are added.
    pub(super) fn enter(&self, folder: &Path) -> Self {
        let now = self.now.enter(folder);
        let pinned = match &self.pinned {
            Some(_) if self.views_are_same() => Some(now.clone()),
            Some(view) => Some(view.enter(folder)),
            None => None,
        };
        Self { now, pinned }
    }

    /// Drops the rules of the parent folders: a nested repository uses only its own.
    pub(super) fn start_over(&mut self) {
        self.now.rules = None;
        if let Some(view) = &mut self.pinned {
            view.rules = None;
        }
    }

    /// Drops the rules that would ignore the folder itself.
    ///
    /// For the root of the tree: if a surrounding repository ignores it completely (for example a home folder in
    /// git), the rules of that repository do not apply inside it.
    pub(super) fn start_over_if_ignored(&mut self) {
        for view in [Some(&mut self.now), self.pinned.as_mut()].into_iter().flatten() {
            if view.ignored {
                *view = TreeView::default();
            }
        }
    }

    /// Whether this folder is excluded as a whole.
    pub(super) fn is_ignored(&self) -> bool {
        self.now.ignored && self.pinned.as_ref().is_none_or(|view| view.ignored)
    }

    /// Whether the file `path` (absolute) in this folder is excluded.
    pub(super) fn ignores_file(&self, path: &Path) -> bool {
        let pinned = self.pinned.as_ref().filter(|_| !self.views_are_same());
        self.now.ignores(path, false) && pinned.is_none_or(|view| view.ignores(path, false))
    }

    fn views_are_same(&self) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| {
            let rules = |view: &TreeView| view.rules.as_ref().map(Arc::as_ptr);
            pinned.ignored == self.now.ignored && rules(pinned) == rules(&self.now)
        })
    }
}

impl TreeView {
    fn add(&mut self, folder: &Path, text: Option<&[u8]>) {
        if let Some(matcher) = text.and_then(|text| parse(folder, text)) {
            self.rules = Some(Arc::new(Level { matcher, above: self.rules.take() }));
        }
    }

    fn enter(&self, folder: &Path) -> Self {
        Self { rules: self.rules.clone(), ignored: self.ignores(folder, true) }
    }

    fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        if self.ignored {
            return true;
        }
        let mut level = self.rules.as_ref();
        while let Some(here) = level {
            match here.matcher.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => level = here.above.as_ref(),
            }
        }
        false
    }
}

/// Invalid patterns and non-text lines ignore nothing: in doubt, a file counts.
fn parse(folder: &Path, text: &[u8]) -> Option<Gitignore> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new(folder);
    builder.allow_unclosed_class(false); // To git, a pattern with a lone `[` matches nothing.
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(line) = str::from_utf8(line).map_or_else(|_| safe_translation(line), translate_pattern) {
            // An error concerns only this line, which the builder has then skipped.
            builder.add_line(None, &line).ok();
        }
    }
    builder.build().ok().filter(|matcher| !matcher.is_empty())
}

/// Translates the line for the builder, which interprets some patterns differently from git; `None` if no translation
/// ignores at most what git would.
fn translate_pattern(line: &str) -> Option<Cow<'_, str>> {
    let plain =
        !line.contains(['{', '}', '[', '\\']) && !line.contains("//") && !line.ends_with(char::is_whitespace);
    if plain || line.starts_with('#') {
        return Some(Cow::Borrowed(line));
    }
    narrowed(line).map(Cow::Owned).or_else(|| safe_translation(line.as_bytes()))
}

/// For a line without an exact translation: an ignore pattern is dropped, a negation re-includes everything.
fn safe_translation(line: &[u8]) -> Option<Cow<'static, str>> {
    line.starts_with(b"!").then_some(Cow::Borrowed("!**"))
}

fn narrowed(line: &str) -> Option<String> {
    // Git strips trailing spaces, the builder any white space: `a` and a tab would then ignore `a`.
    if line.trim_end_matches(' ').ends_with(char::is_whitespace) {
        return None;
    }
    let (not, pattern) = match line.strip_prefix('!') {
        Some(pattern) => ("!", pattern),
        None => ("", line),
    };
    let bare = pattern.trim_end_matches([' ', '/']);
    // In git a double slash matches nothing; the builder tolerates it.
    if bare.is_empty() || pattern.contains("//") {
        return None;
    }
    let mut narrowed = String::from(not);
    if !bare.contains('/') {
        // Made explicit, since a slash within a class would make it look like a whole path.
        narrowed.push_str("**/");
    }
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            // The builder drops a final slash with its backslash, and `\/` would become a pattern for every folder.
            '\\' => match rest.next()? {
                '/' => return None,
                escaped => narrowed.extend(['\\', escaped]),
            },
            // `*.{log,tmp}` is two patterns for the builder, but one odd file name for git.
            '{' | '}' => narrowed.extend(['\\', c]),
            '[' => {
                let (class, after) = rest.as_str().split_once(']')?;
                narrowed.push_str(&narrowed_class(class)?);
                rest = after.chars();
            }
            c => narrowed.push(c),
        }
    }
    Some(narrowed)
}

/// In git no class matches a slash; in the builder `[!a]` and `[+-9]` do.
fn narrowed_class(class: &str) -> Option<String> {
    let (not, members) = match class.strip_prefix(['!', '^']) {
        Some(members) => ("!/", members),
        None => ("", class),
    };
    let holds_a_slash = members.contains('/')
        || members
            .as_bytes()
            .windows(3)
            .any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(&b'/'));
    // Empty means that it starts with a literal `]`. The other forms are not supported by the builder.
    let is_odd = members.is_empty() || members.contains(['[', '\\']);
    (!holds_a_slash && !is_odd).then(|| format!("[{not}{members}]"))
}

/// A path from file system bytes.
pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
