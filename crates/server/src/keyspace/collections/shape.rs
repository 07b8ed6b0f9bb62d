//! The descriptor of a large collection, in its key's value: its number, and which segments belong to it.
//!
//! ```text
//! flags, u8 | id | seed | count | bytes | segments, u64 each       a hash or a set (fields/)
//! flags, u8 | first | as of a hash | expiring | root | height | nodes | free, u64 each   a hash with lifetimes
//! flags, u8 | id | start | count | per segment | bytes, u64 each   a list (list.rs)
//! flags, u8 | as of a hash | root | height | nodes | free, u64 each a sorted set (sorted/, tree/)
//! flags, u8 | id | root | height | nodes | free | ..., u64 each   a stream (stream/)
//! ```
//!
//! All bytes here are on disk. A file may come from anywhere, so contradictions are errors, and numbers that
//! cannot be checked here cost no more work than there are segments ([`GAP_MAX`]).

use crate::keyspace::collections::counts::numbers;
use crate::keyspace::{Kind, Result, SpaceError};
use splitpoint::{Error, ErrorKind};
use std::ops::Range;

/// The flag of a large collection.
pub(super) const LARGE: u8 = 1; // on disk
/// The flag of a hash whose fields may have lifetimes: the time of the first follows the flags, 0 if none has.
pub(super) const LIFETIMES: u8 = 4; // on disk
/// Larger numbers of elements or bytes count as damage.
const ELEMENTS_MAX: u64 = 1 << 60;
/// The most segments for each field of a hash or set. `LargeFields::shrink` merges more than that.
pub(super) const SEGMENTS_PER_FIELD: u64 = 4;
/// The most elements of a list's segment.
pub(super) const SEGMENT_ELEMENTS: u64 = 64;
/// Numbers that a list may begin with: up to 2^61 pushes or pops from the middle.
const STARTS: Range<u64> = 1 << 61..3 << 61;

/// Gaps between the segments of a hash or set stay shorter: a segment is empty with a probability below 0.9.
pub(super) const GAP_MAX: u64 = 1024;

/// The error for a collection that contradicts its key.
pub(crate) fn damaged(what: impl std::fmt::Display) -> SpaceError {
    let hint = "The file is damaged, or another program changed it: delete the key, or restore a backup.";
    SpaceError::Table(Error::new(ErrorKind::Corrupt, format!("damaged collection: {what}")).with_hint(hint))
}

/// Counts missing segments of a hash or set that follow one another.
#[derive(Default)]
pub(in crate::keyspace) struct Gap(u64);

impl Gap {
    /// Notes whether the next segment is there. Returns whether the gap is impossibly long.
    pub(super) fn is_too_long(&mut self, is_there: bool) -> bool {
        self.0 = if is_there { 0 } else { self.0 + 1 };
        self.0 >= GAP_MAX
    }

    /// [`is_too_long`](Self::is_too_long), as an error.
    pub(in crate::keyspace) fn check(&mut self, is_there: bool) -> Result<()> {
        if self.is_too_long(is_there) { Err(damaged("its segments are missing")) } else { Ok(()) }
    }
}

/// A large hash or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeFields {
    pub(super) id: u64,
    pub(super) seed: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
}

/// The lifetimes of a large hash: a tree of the fields that have one, ordered by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lifetimes {
    /// Fields in the tree.
    pub(super) count: u64,
    pub(super) tree: Tree,
}

/// A large list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeList {
    pub(super) id: u64,
    /// The number of the first element.
    pub(super) start: u64,
    pub(super) count: u64,
    /// Elements per segment.
    pub(super) per: u64,
    pub(super) bytes: u64,
}

/// The numbers of a large collection; `None` if it is small.
fn large<const N: usize>(value: &[u8]) -> Result<Option<[u64; N]>> {
    if value.first().is_none_or(|flags| flags & LARGE == 0) {
        return Ok(None);
    }
    let found = numbers(&value[1..]);
    found.map(Some).ok_or_else(|| damaged("its description has another length"))
}

/// Checks a number of elements against their bytes: each takes at least the byte of its length.
fn check_count(count: u64, bytes: u64) -> Result<()> {
    if (1..=bytes.min(ELEMENTS_MAX)).contains(&count) && bytes <= ELEMENTS_MAX {
        return Ok(());
    }
    Err(damaged(format_args!("{count} elements of {bytes} bytes")))
}

/// A large sorted set: the scores by member, stored like a hash's fields, and a tree of the members in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeSorted {
    pub(super) scores: LargeFields,
    pub(super) tree: Tree,
}

/// The tree of a sorted set or a stream. Its nodes are segments, numbered from [`NODES`] on.
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

    /// Whether a tree with nodes may have these numbers.
    pub(super) fn is_possible(&self) -> bool {
        let Tree { root, height, nodes, free } = *self;
        root < nodes && nodes < NODES && free <= nodes && (1..=Tree::HEIGHT_MAX).contains(&height)
    }
}

/// The segment number of a tree's node 0, above all segments of a hash.
pub(super) const NODES: u64 = 1 << 63; // on disk

impl Lifetimes {
    pub(super) fn encode(&self, value: &mut Vec<u8>) {
        let Tree { root, height, nodes, free } = self.tree;
        value.extend([self.count, root, height, nodes, free].into_iter().flat_map(u64::to_le_bytes));
    }
}

impl LargeSorted {
    /// As [`LargeFields::decode`].
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub(super) fn decode(value: &[u8]) -> Result<Option<LargeSorted>> {
        let Some([id, seed, count, bytes, segments, root, height, nodes, free]) = large(value)? else {
            return Ok(None);
        };
        let scores = LargeFields { id, seed, count, bytes, segments }.checked()?;
        let tree = Tree { root, height, nodes, free };
        if tree.is_possible() {
            return Ok(Some(LargeSorted { scores, tree }));
        }
        Err(damaged(format_args!("a tree of {nodes} nodes and {height} levels with the root {root}")))
    }

    /// Its segments: the scores, then the nodes.
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
    /// The description in a key's value; `None` if the collection is small. Only a hash may have lifetimes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub(super) fn decode(kind: Kind, value: &[u8]) -> Result<Option<(LargeFields, Lifetimes)>> {
        if !has_lifetimes(kind, value) {
            let Some([id, seed, count, bytes, segments]) = large(value)? else { return Ok(None) };
            let large = LargeFields { id, seed, count, bytes, segments }.checked()?;
            return Ok(Some((large, Lifetimes::default())));
        }
        let Some([_, id, seed, count, bytes, segments, expiring, root, height, nodes, free]) = large(value)? else {
            return Ok(None);
        };
        let large = LargeFields { id, seed, count, bytes, segments }.checked()?;
        let lifetimes = Lifetimes { count: expiring, tree: Tree { root, height, nodes, free } };
        if !lifetimes.tree.is_possible() || expiring > count {
            return Err(damaged(format_args!("{expiring} of {count} fields expire, in a tree of {nodes} nodes")));
        }
        Ok(Some((large, lifetimes)))
    }

    /// The numbers of its segments: segments of fields, then nodes of the tree.
    pub(super) fn segments(&self, lifetimes: &Lifetimes) -> [Range<u64>; 2] {
        [0..self.segments, NODES..NODES + lifetimes.tree.nodes]
    }

    fn checked(self) -> Result<LargeFields> {
        let LargeFields { count, segments, .. } = self;
        check_count(count, self.bytes)?;
        if !(1..=SEGMENTS_PER_FIELD * count).contains(&segments) {
            return Err(damaged(format_args!("{segments} segments for {count} fields")));
        }
        Ok(self)
    }
}

impl LargeList {
    /// The description in a key's value; `None` if the list is small.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub(super) fn decode(value: &[u8]) -> Result<Option<LargeList>> {
        let Some([id, start, count, per, bytes]) = large(value)? else { return Ok(None) };
        check_count(count, bytes)?;
        if !(1..=SEGMENT_ELEMENTS).contains(&per) || !STARTS.contains(&start) {
            return Err(damaged(format_args!("{per} elements for each segment, the first is number {start}")));
        }
        Ok(Some(LargeList { id, start, count, per, bytes }))
    }
}

/// The segments that a value of this kind has: the collection's number, and two ranges of segment numbers.
/// `None` for a string and a small collection.
///
/// # Errors
/// [`ErrorKind::Corrupt`].
pub(in crate::keyspace) fn segments_of(kind: Kind, value: &[u8]) -> Result<Option<(u64, [Range<u64>; 2])>> {
    match kind {
        Kind::String => Ok(None),
        Kind::Hash | Kind::Set => {
            Ok(LargeFields::decode(kind, value)?.map(|(large, lifetimes)| (large.id, large.segments(&lifetimes))))
        }
        Kind::List => Ok(LargeList::decode(value)?.map(|large| {
            let LargeList { id, start, count, per, .. } = large;
            (id, [start / per..(start + count).div_ceil(per), 0..0])
        })),
        Kind::SortedSet => Ok(LargeSorted::decode(value)?.map(|large| (large.scores.id, large.segments()))),
        Kind::Stream => Ok(super::stream::segments(value)?.map(|(id, nodes)| (id, [nodes, 0..0]))),
    }
}

/// Sets the collection's number in a large collection's value.
pub(in crate::keyspace) fn set_id(kind: Kind, value: &mut [u8], id: u64) {
    let at = if has_lifetimes(kind, value) { 9 } else { 1 };
    value[at..at + 8].copy_from_slice(&id.to_le_bytes());
}

/// Whether this is the value, or its beginning, of a hash whose fields may have lifetimes.
#[inline]
pub(in crate::keyspace) fn has_lifetimes(kind: Kind, value: &[u8]) -> bool {
    kind == Kind::Hash && value.first().is_some_and(|flags| flags & LIFETIMES != 0)
}

/// Bytes of a value that [`first_expiry`] reads.
pub(in crate::keyspace) const FIRST_EXPIRY_BYTES: usize = 1 + 8;

/// When the first field of a hash expires, from the beginning of the value; 0 if none does.
#[inline]
pub(in crate::keyspace) fn first_expiry(kind: Kind, value: &[u8]) -> u64 {
    if !has_lifetimes(kind, value) {
        return 0;
    }
    value[1..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
