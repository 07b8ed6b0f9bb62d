//! The properties of records that a file's header states: their lengths, compression and order; and the limits of both.

/// Page sizes are powers of two in this range.
pub(crate) const PAGE_BYTES_MIN: u32 = 512;
pub(crate) const PAGE_BYTES_MAX: u32 = 1 << 16;
/// The largest raw block size that can be requested; a longer record gets its own block.
pub(crate) const BLOCK_BYTES_MAX: u32 = 1 << 24;

/// The arrangement of the bytes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each record is preceded by its lengths.
    Varied,
    /// All keys have one length and all values have one, both given in the header. Never both zero.
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
    /// Uncompressed: one read returns the bytes of a value.
    #[default]
    None = 0, // on disk
    /// LZ4, in blocks of 16 KiB by default.
    Lz4 = 1, // on disk
}

/// The order of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Order {
    /// Ascending by position, then key.
    Hash = 0, // on disk
    /// Chunks in ascending position; within a chunk, the order of the `chunk` index.
    Chunks = 1, // on disk
}
