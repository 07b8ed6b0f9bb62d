//! What a file's header says of its records: their lengths, compression and order; and the limits of both.

/// The sizes that a page may have: powers of two in this range.
pub(crate) const PAGE_BYTES_MIN: u32 = 512;
pub(crate) const PAGE_BYTES_MAX: u32 = 1 << 16;
/// The most raw bytes that a compressed block can be asked to have; a record that is longer has a block for itself.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 24;

/// How the bytes of records follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Every record has its lengths before it.
    Varied,
    /// All keys have one length and all values one, which the header has. Never both zero.
    Fixed { key_len: u32, value_len: u32 },
}

impl Layout {
    /// The layout for records that all have these lengths.
    pub fn fixed(key_len: u32, value_len: u32) -> Self {
        if key_len == 0 && value_len == 0 { Layout::Varied } else { Layout::Fixed { key_len, value_len } }
    }

    pub fn record_bytes(self) -> Option<u64> {
        match self {
            Layout::Varied => None,
            Layout::Fixed { key_len, value_len } => Some(u64::from(key_len) + u64::from(value_len)),
        }
    }
}

/// Whether records are compressed, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum Compression {
    /// Uncompressed: one read gives the bytes of a value.
    #[default]
    None = 0, // on disk
    /// LZ4, in blocks of 16 KiB by default.
    Lz4 = 1, // on disk
}

/// In which order records lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Ascending by position, then key.
    Hash = 0, // on disk
    /// Chunks of ascending position; inside as the `chunk` index says.
    Chunks = 1, // on disk
}
