//! The short name of a loop, such as `k3f9`. It is computed from the loop's id, so every loop has one, whenever it began.

use std::fmt;

use crate::model::id::{Digest, LoopId};

/// Without vowels, so that it is no word of a task; without characters that look alike.
const FIRST: &[u8] = b"bcdfghjkmnpqrstvwxz";
const OTHERS: &[u8] = b"23456789bcdfghjkmnpqrstvwxz";
/// How many characters are shown where nothing else begins with them.
const SHOWN: usize = 4;
const LONGEST: usize = 12;

/// At most twelve characters, of which usually four are shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortId(String);

impl ShortId {
    pub fn of(id: &LoopId) -> Self {
        let bytes = Digest::of(id.as_str()).to_raw().unwrap_or_default();
        let letter = |(place, byte): (usize, &u8)| {
            let alphabet = if place == 0 { FIRST } else { OTHERS };
            char::from(alphabet[usize::from(*byte) % alphabet.len()])
        };
        Self(bytes.iter().take(LONGEST).enumerate().map(letter).collect())
    }

    /// Whether the user may mean this loop.
    pub fn starts_with(&self, word: &str) -> bool {
        self.0.starts_with(word)
    }

    /// The shortest name of at least four characters that none of the others begins with.
    pub fn among<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> &str {
        let shared = |other: &Self| self.0.bytes().zip(other.0.bytes()).take_while(|(a, b)| a == b).count();
        let others = others.into_iter().filter(|other| *other != self);
        let needed = others.map(|other| shared(other) + 1).max().unwrap_or(0);
        &self.0[..needed.clamp(SHOWN, self.0.len())]
    }
}

/// Four characters.
impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0[..SHOWN])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn short(id: &str) -> ShortId {
        ShortId::of(&LoopId::new(id))
    }

    #[test]
    fn it_is_four_characters_and_never_changes() {
        assert_eq!(short("fix-the-tests-0123456789ab").to_string(), "bj88");
        assert_eq!(short("fix-the-tests-0123456789ab"), short("fix-the-tests-0123456789ab"));
    }

    #[test]
    fn among_a_thousand_each_is_shown_by_a_name_of_its_own() {
        let all: Vec<ShortId> = (0..1_000).map(|n| short(&format!("loop-{n}"))).collect();
        let names: BTreeSet<&str> = all.iter().map(|one| one.among(&all)).collect();
        assert_eq!(names.len(), 1_000);
        for one in &all {
            let name = one.among(&all);
            assert!(name.len() >= 4 && name.starts_with(|c: char| c.is_ascii_alphabetic()), "{name}");
            assert_eq!(all.iter().filter(|other| other.starts_with(name)).count(), 1, "{name}");
        }
    }
}
