//! The sizes of a table: limits on keys, values and pages; how full buckets get; totals over all buckets.

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = u32::MAX as usize;
/// Longest value in bytes.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

/// Bytes a page may have; a power of two.
pub(crate) const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=65536;
/// The load at which a table grows, in percent of its primary pages.
pub(crate) const FILL_PERCENT: std::ops::RangeInclusive<u32> = 10..=400;

/// The limits on records in pages of one length; computed once, since every operation needs some of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Longest key that stays in its record.
    pub key_inline_max: usize,
    /// Longest record that keeps its value.
    pub record_inline_max: usize,
    /// Longest pair that is stored inline.
    pub pair_inline_max: usize,
}

impl Limits {
    pub fn of(page_bytes: usize) -> Limits {
        const LENGTHS_BYTES: usize = 4;
        Limits {
            key_inline_max: page_bytes / 8,
            record_inline_max: page_bytes / 4,
            pair_inline_max: page_bytes / 4 - LENGTHS_BYTES,
        }
    }
}

/// The load of buckets above which the table grows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    /// Bytes of slots and records, in percent of the primary pages.
    pub percent: u32,
    /// Pairs per bucket; if set, it replaces the percentage (the paper's *ffactor*).
    pub pairs: Option<u32>,
}

/// The number of pairs, and the bytes they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub pairs: u64,
    /// Bytes of keys and values.
    pub payload_bytes: u64,
    /// Bytes of slots and records in pages.
    pub bucket_bytes: u64,
}
