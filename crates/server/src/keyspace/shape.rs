//! What the key of a large collection has: its number, and which segments belong to it.
//!
//! ```text
//! flags, u8 | id | seed | count | bytes | segments, u64 each       a hash or a set (fields.rs)
//! flags, u8 | id | start | count | per segment | bytes, u64 each   a list (list.rs)
//! flags, u8 | as of a hash | root | height | nodes | free, u64 each a sorted set (sorted.rs, tree.rs)
//! ```
//!
//! All bytes here are on disk.

use super::counts::numbers;
use super::{Kind, SpaceError};
use splitpoint::{Error, ErrorKind};
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

/// A large sorted set: the scores by member as a hash has its fields, and a tree of the members in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeSorted {
    pub(super) scores: LargeFields,
    pub(super) tree: Tree,
}

/// The tree of a sorted set. Its nodes are segments, numbered from [`NODES`] on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: u64,
    /// Levels; 1 if the root is a leaf.
    pub(super) height: u64,
    /// Numbers of nodes that are in use or free.
    pub(super) nodes: u64,
    /// The number after the first free node, 0 for none.
    pub(super) free: u64,
}

impl Tree {
    /// More levels than a tree with at least 3 children to every two nodes can have.
    pub(super) const HEIGHT_MAX: u64 = 64;
}

/// The segment of a tree's node 0: a hash has fewer.
pub(super) const NODES: u64 = 1 << 63; // on disk

impl LargeSorted {
    pub(super) fn decode(value: &[u8]) -> Option<LargeSorted> {
        let scores = LargeFields::decode(value)?;
        let [root, height, nodes, free] = numbers(value.get(LARGE_BYTES..)?)?;
        let is_whole = root < nodes && nodes <= NODES && free <= nodes && (1..=Tree::HEIGHT_MAX).contains(&height);
        is_whole.then_some(LargeSorted { scores, tree: Tree { root, height, nodes, free } })
    }

    /// Its segments: those of the scores, and the nodes.
    pub(super) fn segments(&self) -> [Range<u64>; 2] {
        [0..self.scores.segments, NODES..NODES + self.tree.nodes]
    }

    pub(super) fn encode(&self, value: &mut Vec<u8>) {
        let LargeFields { id, seed, count, bytes, segments } = self.scores;
        let Tree { root, height, nodes, free } = self.tree;
        let numbers = [id, seed, count, bytes, segments, root, height, nodes, free];
        value.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
    }
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

/// More segments than one collection can have in a database that has this many: some of a hash may be empty.
pub(super) fn segments_max(stored: u64) -> u64 {
    stored.saturating_mul(64).saturating_add(64)
}

/// The error for bytes that no collection has.
pub(super) fn damaged(id: u64, what: &str) -> SpaceError {
    let error = Error::new(ErrorKind::Corrupt, format!("collection {id}: {what}"));
    error.with_hint("Remove the key, or restore a backup; other keys are not affected.").into()
}

/// The segments that a value of this kind has: the collection's number, and two ranges of theirs. `None` for a string
/// and a small collection.
pub(super) fn segments_of(kind: Kind, value: &[u8]) -> Option<(u64, [Range<u64>; 2])> {
    match kind {
        Kind::String => None,
        Kind::Hash | Kind::Set => LargeFields::decode(value).map(|large| (large.id, [0..large.segments, 0..0])),
        Kind::List => LargeList::decode(value).map(|large| {
            let LargeList { id, start, count, per, .. } = large;
            (id, [start / per..(start + count).div_ceil(per), 0..0])
        }),
        Kind::SortedSet => LargeSorted::decode(value).map(|large| (large.scores.id, large.segments())),
    }
}

/// Gives a large collection's value another number.
pub(super) fn set_id(value: &mut [u8], id: u64) {
    value[1..9].copy_from_slice(&id.to_le_bytes());
}
