//! The root: what a file's header says about its buckets.
//!
//! Opening and salvage parse it here, and checkpoints encode it here. Format: docs/format.md, "Root".

use super::sizes::{FILL_PERCENT, Fill, PAGE_BYTES, Totals};
use crate::error::{Error, ErrorKind};
use crate::linear;
use crate::little_endian::{padded_text, u16_at, u32_at, u64_at};
use crate::pager::{FRAME_BYTES_MIN, ROOT_BYTES};
use std::path::Path;

/// Offset of the groups' first frames in the root. On disk.
const GROUPS: usize = 128;
/// Offset of the names of a typed table's types in the root, and their bytes. On disk.
const TYPES: usize = 64;
pub(crate) const TYPES_BYTES: usize = GROUPS - TYPES;
/// Offset of the table's name and of the next table's frame, and the end of both. On disk.
const NAME: usize = GROUPS + 4 * linear::GROUP_COUNT;
const ENCODED_BYTES: usize = NAME + 64 + 4;
const _: () = assert!(ENCODED_BYTES <= ROOT_BYTES);

/// The header's fields about the buckets of a table.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub page_bytes: u32,
    /// The hash function's number on disk, seed and check value.
    pub hash_id: u16,
    pub seed: u64,
    pub check_value: u64,
    pub max_bucket: linear::Bucket,
    pub min_max_bucket: linear::Bucket,
    pub fill: Fill,
    pub totals: Totals,
    /// The types of a typed table; empty for one of bytes.
    pub types: String,
    /// The first frame of each group; 0 for none.
    pub groups: [u32; linear::GROUP_COUNT],
}

/// Fails if the file has a table with a name, or several tables: a later version wrote it.
///
/// # Errors
/// [`ErrorKind::Version`].
pub(crate) fn refuse_other_tables(root: &[u8], path: &Path) -> crate::Result<()> {
    if root[NAME..ENCODED_BYTES].iter().all(|&b| b == 0) {
        return Ok(());
    }
    let what = format!("{}: this version does not read tables with names", path.display());
    Err(Error::new(ErrorKind::Version, what).with_hint("Upgrade splitpoint."))
}

impl Root {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; ENCODED_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.page_bytes.to_le_bytes());
        put(4, &self.hash_id.to_le_bytes());
        put(8, &self.seed.to_le_bytes());
        put(16, &self.check_value.to_le_bytes());
        put(24, &self.max_bucket.to_le_bytes());
        put(28, &self.min_max_bucket.to_le_bytes());
        put(32, &self.fill.percent.to_le_bytes());
        put(36, &self.fill.pairs.unwrap_or(0).to_le_bytes());
        let totals = [self.totals.pairs, self.totals.payload_bytes, self.totals.bucket_bytes];
        for (i, total) in totals.iter().enumerate() {
            put(40 + 8 * i, &total.to_le_bytes());
        }
        put(TYPES, self.types.as_bytes());
        for (i, frame) in self.groups.iter().enumerate() {
            put(GROUPS + 4 * i, &frame.to_le_bytes());
        }
        bytes
    }

    /// Parses the root. Returns an error that says what is wrong if it is not that of a table with frames of
    /// `frame_bytes`. Does not compare the groups with the file: [`bounds`](super::bounds) does.
    pub(crate) fn parse(bytes: &[u8], frame_bytes: usize) -> Result<Root, String> {
        let page_bytes = u32_at(bytes, 0);
        let fits = PAGE_BYTES.contains(&page_bytes)
            && page_bytes.is_power_of_two()
            && FRAME_BYTES_MIN.max(page_bytes as usize) == frame_bytes;
        if !fits {
            return Err(format!("pages of {page_bytes} bytes in frames of {frame_bytes}"));
        }
        let reserved = [6..8, ENCODED_BYTES..bytes.len()];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&b| b != 0)) {
            return Err("reserved bytes are not zero".into());
        }
        let types = padded_text(&bytes[TYPES..GROUPS]).map_err(|what| format!("the names of its types {what}"))?;
        let percent = u32_at(bytes, 32);
        if !FILL_PERCENT.contains(&percent) {
            return Err(format!("filled to {percent} percent"));
        }
        Ok(Root {
            page_bytes,
            hash_id: u16_at(bytes, 4),
            seed: u64_at(bytes, 8),
            check_value: u64_at(bytes, 16),
            max_bucket: u32_at(bytes, 24),
            min_max_bucket: u32_at(bytes, 28),
            fill: Fill { percent, pairs: Some(u32_at(bytes, 36)).filter(|&pairs| pairs != 0) },
            totals: Totals {
                pairs: u64_at(bytes, 40),
                payload_bytes: u64_at(bytes, 48),
                bucket_bytes: u64_at(bytes, 56),
            },
            types,
            groups: std::array::from_fn(|i| u32_at(bytes, GROUPS + 4 * i)),
        })
    }

    /// Start of each group, in bytes of the file.
    pub(crate) fn group_starts(&self, frame_bytes: usize) -> [u64; linear::GROUP_COUNT] {
        let together = groups_in_first_frame(frame_bytes, self.page_bytes as usize);
        std::array::from_fn(|group| {
            let first = u64::from(self.groups[group]) * frame_bytes as u64;
            let before: u64 = match group <= together {
                true => (0..group).map(|g| u64::from(linear::group_len(g))).sum(),
                false => 0,
            };
            first + before * u64::from(self.page_bytes)
        })
    }
}

/// The last of the groups that share the first frame. Groups 0 to g together have 2^g buckets.
pub(crate) fn groups_in_first_frame(frame_bytes: usize, page_bytes: usize) -> usize {
    (frame_bytes / page_bytes).trailing_zeros() as usize
}
