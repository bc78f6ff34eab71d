//! The tree of the last checkpoint as git has it, file by file, to go on from.

use std::collections::BTreeMap;
use std::io;

use super::objects::{Kind, ObjectId, Objects};

/// Paths are bytes, relative to the top of the work tree. In their order lie the entries of each of git's trees, too: to
/// git, the name of a folder ends in a slash.
#[derive(Debug, Default)]
pub(super) struct KeptTree {
    files: BTreeMap<Vec<u8>, KeptFile>,
    /// The trees that are written already; those missing hold a change. The topmost folder is the empty path.
    trees: BTreeMap<Vec<u8>, ObjectId>,
}

/// Makes an object of the content of a tree.
type Write<'w> = dyn FnMut(&[u8]) -> io::Result<ObjectId> + 'w;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptFile {
    pub(super) mode: Mode,
    pub(super) id: ObjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Executable,
    Link,
}

impl Mode {
    fn octal(self) -> &'static [u8] {
        match self {
            Self::Plain => b"100644",
            Self::Executable => b"100755",
            Self::Link => b"120000",
        }
    }

    fn read(octal: &[u8]) -> Option<Self> {
        [Self::Plain, Self::Executable, Self::Link].into_iter().find(|mode| mode.octal() == octal)
    }
}

impl KeptTree {
    /// Reads the tree of that name from what `git ls-files -s -v -z` lists of the index that it was made of. None where there
    /// is more in it than files and links, where git was told to overlook what becomes of some, and where it is another tree.
    pub(super) fn read(listed: &[u8], name: ObjectId) -> Option<Self> {
        let mut tree = Self::default();
        for line in listed.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let mut words = line[..tab].split(|byte| *byte == b' ');
            let [flag, mode, id, stage] = [words.next()?, words.next()?, words.next()?, words.next()?];
            if (flag, stage) != (b"H", b"0") {
                return None;
            }
            let file = KeptFile { mode: Mode::read(mode)?, id: ObjectId::from_hex(id)? };
            tree.files.insert(line[tab + 1..].to_vec(), file);
        }
        // Git has just written all of it.
        let whole = tree.trees_with(&mut |content| Ok(ObjectId::of(Kind::Tree, content))).ok()?;
        (whole == name).then_some(tree)
    }

    /// The files in a folder and below it, by their paths from there.
    pub(super) fn files_below(&self, folder: &[u8]) -> impl Iterator<Item = &[u8]> {
        let skip = with_slash(folder).len();
        self.below(folder).map(move |(path, _)| &path[skip..])
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.files.contains_key(path)
    }

    pub(super) fn remove(&mut self, path: &[u8]) {
        if self.files.remove(path).is_some() {
            self.touch(path);
        }
    }

    /// Whatever is in its way goes: a file where a folder is now, a folder where the file is.
    pub(super) fn set(&mut self, path: &[u8], file: KeptFile) {
        let below: Vec<Vec<u8>> = self.below(path).map(|(path, _)| path.clone()).collect();
        let in_the_way = folders_above(path).map(<[u8]>::to_vec).chain(below);
        for path in in_the_way.collect::<Vec<_>>() {
            self.remove(&path);
        }
        if self.files.insert(path.to_vec(), file) != Some(file) {
            self.touch(path);
        }
    }

    fn touch(&mut self, path: &[u8]) {
        for folder in folders_above(path) {
            self.trees.remove(folder);
        }
    }

    fn below(&self, folder: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &KeptFile)> {
        let start = with_slash(folder);
        self.files.range(start.clone()..).take_while(move |(path, _)| path.starts_with(&start))
    }

    /// Writes what has changed, and tells the name of the whole.
    pub(super) fn write(&mut self, objects: &Objects) -> io::Result<ObjectId> {
        self.trees_with(&mut |content| objects.write(Kind::Tree, content))
    }

    fn trees_with(&mut self, write: &mut Write<'_>) -> io::Result<ObjectId> {
        self.write_folder(b"", write)
    }

    fn write_folder(&mut self, folder: &[u8], write: &mut Write<'_>) -> io::Result<ObjectId> {
        if let Some(written) = self.trees.get(folder) {
            return Ok(*written);
        }
        let start = with_slash(folder);
        let (mut content, mut next) = (Vec::new(), start.clone());
        while let Some((path, file)) = self.files.range(next.clone()..).next()
            && let Some(name) = path.strip_prefix(start.as_slice())
        {
            match name.iter().position(|byte| *byte == b'/') {
                None => {
                    add_line(&mut content, file.mode.octal(), name, file.id);
                    next = [path.as_slice(), b"\0"].concat();
                }
                Some(end) => {
                    let (name, subfolder) = (name[..end].to_vec(), path[..start.len() + end].to_vec());
                    let id = self.write_folder(&subfolder, write)?;
                    add_line(&mut content, b"40000", &name, id);
                    // The first path that can come after all that lies in it.
                    next = [subfolder.as_slice(), &[b'/' + 1]].concat();
                }
            }
        }
        let id = write(&content)?;
        self.trees.insert(folder.to_vec(), id);
        Ok(id)
    }
}

fn add_line(content: &mut Vec<u8>, mode: &[u8], name: &[u8], id: ObjectId) {
    for part in [mode, b" ", name, b"\0", &id.0] {
        content.extend_from_slice(part);
    }
}

/// From the one that it lies in up to the topmost.
fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (0..path.len()).rev().filter(|at| path[*at] == b'/');
    ends.map(|end| &path[..end]).chain([&path[..0]])
}

/// The beginning of all paths in a folder.
fn with_slash(folder: &[u8]) -> Vec<u8> {
    if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() }
}
