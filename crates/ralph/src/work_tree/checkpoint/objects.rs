//! Writes objects into the store of a plain repository, each a file of its own, as git does it.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest as _, Sha1};

use crate::sys::clock;

/// Of zlib. What we write is small, and git packs it some day.
const QUICK: u8 = 1;

/// The name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectId(pub(super) [u8; 20]);

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Blob,
    Tree,
    Commit,
}

#[derive(Debug)]
pub(super) struct Objects {
    store: PathBuf,
}

impl Objects {
    pub(super) fn in_repository(dir: &Path) -> Self {
        Self { store: dir.join("objects") }
    }

    pub(super) fn write(&self, kind: Kind, content: &[u8]) -> io::Result<ObjectId> {
        let whole = whole(kind, content);
        let id = ObjectId(Sha1::digest(&whole).into());
        let hex = id.to_string();
        let (folder, name) = hex.split_at(2);
        let folder = self.store.join(folder);
        let file = folder.join(name);
        if !is_there(&file) {
            create(&folder, &file, &whole)?;
        }
        Ok(id)
    }
}

/// What git stores, and goes by for the name.
fn whole(kind: Kind, content: &[u8]) -> Vec<u8> {
    let name = match kind {
        Kind::Blob => "blob",
        Kind::Tree => "tree",
        Kind::Commit => "commit",
    };
    [format!("{name} {}\0", content.len()).as_bytes(), content].concat()
}

/// What is old and belongs to nobody git may throw away at any time: it is made young, as git does it.
fn is_there(file: &Path) -> bool {
    File::open(file).and_then(|file| file.set_modified(clock::system_now())).is_ok()
}

fn create(folder: &Path, file: &Path, whole: &[u8]) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Git removes files of this name, should we be killed.
    let mut draft = tempfile::Builder::new()
        .prefix("tmp_obj_")
        .permissions(Permissions::from_mode(0o444))
        .tempfile_in(folder)?;
    draft.write_all(&miniz_oxide::deflate::compress_to_vec_zlib(whole, QUICK))?;
    draft.persist(file)?;
    Ok(())
}

impl ObjectId {
    pub(super) fn of(kind: Kind, content: &[u8]) -> Self {
        Self(Sha1::digest(whole(kind, content)).into())
    }

    pub(super) fn from_hex(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut id = [0; 20];
        if hex.len() != 2 * id.len() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(hex.chunks(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
