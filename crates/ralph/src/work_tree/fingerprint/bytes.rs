//! The little-endian, length-prefixed encoding of stored data: the stat cache and the ignore rules.

/// Numbers are little-endian; a slice is its length as `u32`, then its bytes.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.raw(&u32::try_from(count).expect("fewer than 2^32 of anything in a tree").to_le_bytes());
    }

    pub(super) fn slice(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] wrote. `None` means that the bytes end too early.
pub(super) struct ByteReader<'b>(&'b [u8]);

impl<'b> ByteReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn raw(&mut self, length: usize) -> Option<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.chunk().copied()
    }

    /// An array borrowed from the input.
    pub(super) fn chunk<const N: usize>(&mut self) -> Option<&'b [u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        self.array().map(u32::from_le_bytes).and_then(|count| usize::try_from(count).ok())
    }

    pub(super) fn slice(&mut self) -> Option<&'b [u8]> {
        let length = self.count()?;
        self.raw(length)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}
