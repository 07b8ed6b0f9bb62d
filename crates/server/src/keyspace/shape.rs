//! What the key of a large collection has: its number, and which segments belong to it.
//!
//! ```text
//! flags, u8 | id | seed | count | bytes | segments, u64 each       a hash or a set (fields.rs)
//! flags, u8 | id | start | count | per segment | bytes, u64 each   a list (list.rs)
//! ```
//!
//! All bytes here are on disk.

use super::Kind;
use super::counts::numbers;
use std::ops::Range;

/// The flag of a large collection.
pub(super) const LARGE: u8 = 1; // on disk
const LARGE_BYTES: usize = 1 + 5 * 8;

/// A large hash or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeFields {
    pub(super) id: u64,
    pub(super) seed: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
}

/// A large list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeList {
    pub(super) id: u64,
    /// The number of the first element.
    pub(super) start: u64,
    pub(super) count: u64,
    /// Elements of a segment.
    pub(super) per: u64,
    pub(super) bytes: u64,
}

/// The numbers of a large collection; `None` if it is small.
fn large(value: &[u8]) -> Option<[u64; 5]> {
    let is_large = value.first().is_some_and(|flags| flags & LARGE != 0);
    if is_large { numbers(value.get(1..LARGE_BYTES)?) } else { None }
}

impl LargeFields {
    pub(super) fn decode(value: &[u8]) -> Option<LargeFields> {
        let [id, seed, count, bytes, segments] = large(value)?;
        (segments > 0).then_some(LargeFields { id, seed, count, bytes, segments })
    }
}

impl LargeList {
    pub(super) fn decode(value: &[u8]) -> Option<LargeList> {
        let [id, start, count, per, bytes] = large(value)?;
        (per > 0 && start.checked_add(count).is_some()).then_some(LargeList { id, start, count, per, bytes })
    }
}

/// The segments that a value of this kind has: the collection's number, and theirs. `None` for a string and a small
/// collection.
pub(super) fn segments_of(kind: Kind, value: &[u8]) -> Option<(u64, Range<u64>)> {
    match kind {
        Kind::String => None,
        Kind::Hash | Kind::Set => LargeFields::decode(value).map(|large| (large.id, 0..large.segments)),
        Kind::List => LargeList::decode(value).map(|large| {
            let LargeList { id, start, count, per, .. } = large;
            (id, start / per..(start + count).div_ceil(per))
        }),
    }
}

/// Gives a large collection's value another number.
pub(super) fn set_id(value: &mut [u8], id: u64) {
    value[1..9].copy_from_slice(&id.to_le_bytes());
}
