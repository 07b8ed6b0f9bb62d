//! The order of a large sorted set: a B+ tree whose nodes are segments, and which counts the elements below each node.
//!
//! ```text
//! leaf    0, u8     | for each element: score, f64 | member, as in elements.rs
//! inner   level, u8 | for each child: score, f64 | beginning of a member | node, u32 | elements below it, u64
//! free    255, u8   | the number after that of the next free node, u64
//! ```
//!
//! The score and the member of a child are greater than all elements before it and not greater than its own; in a
//! node's first child they mean nothing. So they are short: the score alone where the scores differ. A node is divided
//! when it exceeds `NODE_BYTES`, and merged with a neighbour when both need less than that. Numbers of nodes that
//! become free are used again, so that the nodes are a range of segments, which can be removed in the background.
//!
//! Cost: a rank reads as many nodes as the tree has levels, and a change writes as many: 4 for 10^6 short members.
//!
//! Nodes may be damaged, or made by an attacker: every level, count and number is checked, so that a walk ends.
//!
//! Source: Bayer & McCreight 1972; counts as in order-statistic trees (Cormen et al., chapter 17). Differs:
//! nodes are found by number in the table of the keys, and have no links to their neighbours.
//!
//! All bytes here are on disk.
//!
//! Here: reading. Not here: changes (`editor.rs`).

mod editor;

use super::elements;
use super::shape::{NODES, Tree, damaged};
use crate::keyspace::pairs::Pairs;
use crate::keyspace::{Result, SpaceError};
pub(super) use editor::{Editor, Loaded};
use std::cmp::Ordering;
use std::ops::Range;

/// The first byte of a free node.
const FREE: u8 = u8::MAX; // on disk

/// An element's position in the order: its score, then its member.
pub(super) type Key<'m> = (f64, &'m [u8]);

/// The order of elements. No score is NaN.
pub(super) fn order(a: Key<'_>, b: Key<'_>) -> Ordering {
    a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(b.1))
}

/// An element of a leaf, or a child of an inner node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'n> {
    pub(super) key: Key<'n>,
    node: u64,
    count: u64,
    /// Where it is in the node.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'n> Entry<'n> {
    fn parse(run: &'n [u8], start: usize, is_leaf: bool) -> Option<Entry<'n>> {
        let score = f64::from_le_bytes(*run.get(start..)?.first_chunk()?);
        let mut element = elements::iter(&run[start + 8..]);
        let key = (score, element.next()?);
        let mut end = start + 8 + element.at();
        let (mut node, mut count) = (0, 1);
        if !is_leaf {
            node = u64::from(u32::from_le_bytes(*run[end..].first_chunk()?));
            count = u64::from_le_bytes(*run.get(end + 4..)?.first_chunk()?);
            end += 12;
        }
        (!score.is_nan()).then_some(Entry { key, node, count, start, end })
    }

    /// Appends an element.
    pub(super) fn push(run: &mut Vec<u8>, key: Key<'_>) {
        run.extend_from_slice(&key.0.to_le_bytes());
        elements::push(run, key.1);
    }

    fn push_child(run: &mut Vec<u8>, key: Key<'_>, node: u64, count: u64) {
        Entry::push(run, key);
        run.extend_from_slice(&(node as u32).to_le_bytes()); // `Editor::new_node` makes no greater ones
        run.extend_from_slice(&count.to_le_bytes());
    }
}

/// The entries of a run. Malformed bytes end it with an error.
#[derive(Clone)]
pub(super) struct Entries<'n> {
    run: &'n [u8],
    at: usize,
    is_leaf: bool,
}

impl<'n> Entries<'n> {
    /// The elements of a small sorted set.
    pub(super) fn of_small(run: &'n [u8]) -> Entries<'n> {
        Entries { run, at: 0, is_leaf: true }
    }

    fn of_node(run: &'n [u8]) -> Entries<'n> {
        Entries { run, at: 1, is_leaf: run.first() == Some(&0) }
    }
}

/// Bytes that are not an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoEntry;

impl<'n> Iterator for Entries<'n> {
    type Item = std::result::Result<Entry<'n>, NoEntry>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.run.len() {
            return None;
        }
        let entry = Entry::parse(self.run, self.at, self.is_leaf);
        self.at = entry.map_or(self.run.len(), |entry| entry.end);
        Some(entry.ok_or(NoEntry))
    }
}

/// A tree's location: the database, and the number of the collection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) database: usize,
    pub(super) id: u64,
}

fn damaged_node(id: u64, number: u64, what: &str) -> SpaceError {
    damaged(format_args!("collection {id}: node {number} {what}"))
}

const BAD_ENTRY: &str = "has bytes that are no entry";

/// All entries of a node.
fn entries_of(place: Place, number: u64, run: &[u8]) -> Result<Vec<Entry<'_>>> {
    let entries: std::result::Result<_, NoEntry> = Entries::of_node(run).collect();
    entries.map_err(|NoEntry| damaged_node(place.id, number, BAD_ENTRY))
}

impl Tree {
    /// Reads a node and checks that it has this level.
    fn read(&self, pairs: &mut (impl Pairs + ?Sized), place: Place, node: (u64, u64), run: &mut Vec<u8>) -> Result<()> {
        let number = node.0;
        let is_there = number < self.nodes && pairs.segment(place.database, place.id, NODES + number, run)?;
        if !is_there {
            return Err(damaged_node(place.id, number, "is missing"));
        }
        check_level(place, node, run)
    }

    /// Counts the elements before a position: `is_before` returns true for these, which come first.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(super) fn count_before(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        place: Place,
        mut is_before: impl FnMut(Key<'_>) -> bool,
    ) -> Result<u64> {
        let (mut number, mut before, mut run) = (self.root, 0u64, Vec::new());
        for level in (0..self.height).rev() {
            self.read(pairs, place, (number, level), &mut run)?;
            let mut chosen: Option<Entry<'_>> = None;
            for entry in Entries::of_node(&run) {
                let entry = entry.map_err(|NoEntry| damaged_node(place.id, number, BAD_ENTRY))?;
                if (level == 0 || chosen.is_some()) && !is_before(entry.key) {
                    break;
                }
                let passed = if level == 0 { Some(entry) } else { chosen.replace(entry) };
                before = before.saturating_add(passed.map_or(0, |entry| entry.count));
            }
            if level > 0 {
                number = chosen.ok_or_else(|| damaged_node(place.id, number, "has no children"))?.node;
            }
        }
        Ok(before)
    }

    /// Calls `take` with the elements of a range of ranks, in their order or the last one first, until it
    /// returns `false`; missing elements are an error. `count`: how many elements the tree has.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(super) fn for_range(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        place: Place,
        (count, range): (u64, Range<u64>),
        is_reverse: bool,
        take: &mut dyn FnMut(Key<'_>) -> bool,
    ) -> Result<()> {
        let range = range.start..range.end.min(count);
        if range.is_empty() {
            return Ok(());
        }
        let skip = if is_reverse { count - range.end } else { range.start };
        let mut walk =
            Walk { tree: self, place, left: range.end - range.start, visited: 0, is_reverse, is_over: false };
        walk.visit(pairs, (self.root, self.height - 1), skip, take)?;
        if walk.left > 0 && !walk.is_over {
            return Err(damaged("it has fewer elements than its key says"));
        }
        Ok(())
    }
}

fn check_level(place: Place, (number, level): (u64, u64), run: &[u8]) -> Result<()> {
    match run.first() {
        Some(&found) if u64::from(found) == level => Ok(()),
        Some(&FREE) => Err(damaged_node(place.id, number, "is in use and free")),
        _ => Err(damaged_node(place.id, number, &format!("is not of level {level}"))),
    }
}

/// A walk through a range of elements.
struct Walk<'t> {
    tree: &'t Tree,
    place: Place,
    /// Elements that are still wanted.
    left: u64,
    visited: u64,
    is_reverse: bool,
    /// Whether the caller wants no more.
    is_over: bool,
}

impl Walk<'_> {
    /// Walks through a node, except for its first `skip` elements. Returns whether to continue.
    fn visit(
        &mut self,
        pairs: &mut (impl Pairs + ?Sized),
        node: (u64, u64),
        mut skip: u64,
        take: &mut dyn FnMut(Key<'_>) -> bool,
    ) -> Result<bool> {
        let (number, level) = node;
        // This ends a walk if a node is its own descendant, or the child of many. Most walks are short.
        const SHORT: u64 = 64;
        self.visited += 1;
        if self.visited > SHORT && self.visited > pairs.segment_count(self.place.database) {
            return Err(damaged_node(self.place.id, number, "is in the tree more than once"));
        }
        let mut run = Vec::new();
        self.tree.read(pairs, self.place, node, &mut run)?;
        let mut pass = |this: &mut Self, entry: Entry<'_>| {
            if skip >= entry.count {
                skip -= entry.count;
                return Ok(true);
            }
            let skipped = std::mem::take(&mut skip);
            if level > 0 {
                return this.visit(pairs, (entry.node, level - 1), skipped, take);
            }
            this.left -= 1;
            let goes_on = take(entry.key);
            this.is_over |= !goes_on;
            Ok(goes_on && this.left > 0)
        };
        if self.is_reverse {
            for entry in entries_of(self.place, number, &run)?.into_iter().rev() {
                if !pass(self, entry)? {
                    return Ok(false);
                }
            }
        } else {
            for entry in Entries::of_node(&run) {
                let entry = entry.map_err(|NoEntry| damaged_node(self.place.id, number, BAD_ENTRY))?;
                if !pass(self, entry)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
