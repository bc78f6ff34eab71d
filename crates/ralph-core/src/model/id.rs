//! Newtypes for ids that must not be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

macro_rules! text_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

text_id! {
    /// A gate's name in the config; by default the command itself.
    GateName,
    /// One loop: one durable attempt of one subject at one task.
    LoopId,
    /// The client's session id from its hook input.
    SessionId,
    /// The client's id of a running sub-agent.
    AgentId,
    /// The fingerprint of a work tree, or of the part a gate depends on.
    TreeHash,
}

/// A SHA-256, written as 64 hexadecimal digits so that `sha256sum` can check it.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self::from_raw(&Sha256::digest(bytes.as_ref()))
    }

    /// A digest over several parts, each preceded by its length to keep them apart.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self::from_raw(&hasher.finalize())
    }

    pub fn from_raw(bytes: &[u8]) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digits = bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        Self(digits.map(char::from).collect())
    }

    /// The 32 bytes; none if a stored text is not a digest.
    pub fn to_raw(&self) -> Option<[u8; 32]> {
        let mut raw = [0; 32];
        for (place, byte) in raw.iter_mut().enumerate() {
            *byte = u8::from_str_radix(self.0.get(2 * place..2 * place + 2)?, 16).ok()?;
        }
        Some(raw)
    }

    /// Parses user input: 64 hexadecimal digits in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let valid = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A short prefix for display.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_sha256sum_prints() {
        assert_eq!(
            Digest::of("").as_str(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn parts_are_kept_apart_in_a_digest() {
        let one: [&[u8]; 2] = [b"ab", b"c"];
        let other: [&[u8]; 2] = [b"a", b"bc"];
        assert_ne!(Digest::of_parts(one), Digest::of_parts(other));
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_digest() {
        assert!(Digest::parse(&"A".repeat(64)).is_some());
        assert!(Digest::parse(&"a".repeat(63)).is_none());
        assert!(Digest::parse(&"g".repeat(64)).is_none());
    }
}
