//! Sorted sets: members with scores, ordered by score, then by member.
//!
//! ```text
//! small   flags, u8 | score, f64, and member of each element        up to SMALL_BYTES, in the key's value
//! large   flags, u8 | numbers of the two parts (shape.rs)           both parts in segments (segments.rs)
//!
//!         scores   member -> score, as a hash has its fields (hashed.rs)     ZSCORE: two lookups
//!         tree     the elements in order, counted (tree/)                    ZRANGE, ZRANK, ZCOUNT: O(log n) lookups
//! ```
//!
//! All bytes here are on disk.
//!
//! Here: reading. Not here: changes (`change.rs`).

mod change;
#[cfg(test)]
mod tests;

use super::fields::below;
use super::hashed::Layout;
use super::shape::{LARGE, LargeSorted, damaged};
use super::tree::{Entries, Entry, Key, NoEntry, Place, order};
use crate::keyspace::pairs::Pairs;
use crate::keyspace::{Kind, Result, SpaceError};
pub(crate) use change::SortedSetMut;
use std::cmp::Ordering;
use std::ops::Range;

/// Set once Redis would have left its compact encoding, to which it never returns.
const UNPACKED: u8 = 2; // on disk

/// Redis's limits for its compact encoding.
pub(crate) const PACKED_MEMBERS: u64 = 128;

/// A field of the scores: the member and its score.
const LAYOUT: Layout = Layout::Pairs;

/// A member and its score.
pub(crate) type Element = (Vec<u8>, f64);

/// The order of elements.
pub(crate) fn compare(one: &Element, other: &Element) -> Ordering {
    order((one.1, &one.0), (other.1, &other.0))
}

/// A sorted set, as its key describes it.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet {
    database: usize,
    flags: u8,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Small(Vec<u8>),
    Large(LargeSorted),
}

fn damaged_small(NoEntry: NoEntry) -> SpaceError {
    damaged("a small one has bytes that are no element")
}

/// The score that is stored for a member.
fn score_of(bytes: &[u8]) -> Result<f64> {
    let score = bytes.try_into().ok().map(f64::from_le_bytes).filter(|score| !score.is_nan());
    score.ok_or_else(|| damaged("a score is not a number"))
}

impl SortedSet {
    /// The sorted set at `key`; `None` if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn open(pairs: &mut (impl Pairs + ?Sized), database: usize, key: &[u8]) -> Result<Option<SortedSet>> {
        let mut value = Vec::new();
        let found = pairs.name(database, key, Kind::SortedSet, &mut value)?;
        found.map(|_| SortedSet::decode(database, value)).transpose()
    }

    fn decode(database: usize, mut value: Vec<u8>) -> Result<SortedSet> {
        let flags = value.first().copied().unwrap_or(0);
        let form = match LargeSorted::decode(&value)? {
            Some(large) => Form::Large(large),
            None => {
                value.drain(..value.len().min(1));
                Form::Small(value)
            }
        };
        Ok(SortedSet { database, flags, form })
    }

    fn encode(&self) -> Vec<u8> {
        match &self.form {
            Form::Small(run) => [&[self.flags & !LARGE], run.as_slice()].concat(),
            Form::Large(large) => {
                let mut value = vec![self.flags | LARGE];
                large.encode(&mut value);
                value
            }
        }
    }

    fn place(&self, large: &LargeSorted) -> Place {
        Place { database: self.database, id: large.scores.id }
    }

    /// The number of members. O(1).
    pub(crate) fn len(&self) -> u64 {
        match &self.form {
            Form::Small(run) => Entries::of_small(run).filter(|entry| entry.is_ok()).count() as u64,
            Form::Large(large) => large.scores.count,
        }
    }

    /// Bytes of all elements, without the inner nodes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.form {
            Form::Small(run) => run.len() as u64,
            Form::Large(large) => 2 * large.scores.bytes,
        }
    }

    /// Redis's name for the encoding that it would use.
    pub(crate) fn encoding(&self) -> &'static str {
        if self.flags & UNPACKED != 0 { "skiplist" } else { "listpack" }
    }

    /// The score of `member`; `None` if it is absent. One lookup if the set is large.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn score(&self, pairs: &mut (impl Pairs + ?Sized), member: &[u8]) -> Result<Option<f64>> {
        match &self.form {
            Form::Small(run) => {
                for entry in Entries::of_small(run) {
                    let (score, other) = entry.map_err(damaged_small)?.key;
                    if other == member {
                        return Ok(Some(score));
                    }
                }
                Ok(None)
            }
            Form::Large(large) => {
                let mut score = Vec::new();
                let found = large.scores.get(pairs, (self.database, LAYOUT), member, &mut score)?;
                found.map(|_| score_of(&score)).transpose()
            }
        }
    }

    /// The number of elements for which `is_before` returns true; they come first. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn count_before(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        mut is_before: impl FnMut(f64, &[u8]) -> bool,
    ) -> Result<u64> {
        match &self.form {
            Form::Small(run) => {
                let mut before = 0;
                for entry in Entries::of_small(run) {
                    let (score, member) = entry.map_err(damaged_small)?.key;
                    if !is_before(score, member) {
                        break;
                    }
                    before += 1;
                }
                Ok(before)
            }
            Form::Large(large) => {
                let is_before = |(score, member): Key<'_>| is_before(score, member);
                let before = large.tree.count_before(pairs, self.place(large), is_before)?;
                Ok(before.min(large.scores.count))
            }
        }
    }

    /// The number of elements before this one, which must be present. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn rank(&self, pairs: &mut (impl Pairs + ?Sized), member: &[u8], score: f64) -> Result<u64> {
        self.count_before(pairs, |other, element| order((other, element), (score, member)) == Ordering::Less)
    }

    /// Calls `take` with the elements of a range of ranks, in order or the last one first, until it returns `false`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn for_range(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        range: Range<u64>,
        is_reverse: bool,
        mut take: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<()> {
        match &self.form {
            Form::Small(run) => {
                let entries: std::result::Result<Vec<_>, _> = Entries::of_small(run).collect();
                let entries = entries.map_err(damaged_small)?;
                let len = entries.len();
                let end = usize::try_from(range.end).map_or(len, |end| end.min(len));
                let start = usize::try_from(range.start).map_or(end, |start| start.min(end));
                let mut take = |entry: &Entry<'_>| take(entry.key.1, entry.key.0);
                let _ = match is_reverse {
                    false => entries[start..end].iter().all(&mut take),
                    true => entries[start..end].iter().rev().all(&mut take),
                };
                Ok(())
            }
            Form::Large(large) => {
                let (range, place) = ((large.scores.count, range), self.place(large));
                let take = &mut |(score, member): Key<'_>| take(member, score);
                large.tree.for_range(pairs, place, range, is_reverse, take)
            }
        }
    }

    /// Calls `take` with about `count` elements from a position in hash order on; a small set has one
    /// position. Returns the next position, 0 at the end.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn scan(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        cursor: u64,
        count: usize,
        mut take: impl FnMut(&[u8], f64),
    ) -> Result<u64> {
        let Form::Large(large) = &self.form else {
            self.for_range(pairs, 0..u64::MAX, false, |member, score| {
                take(member, score);
                true
            })?;
            return Ok(0);
        };
        let mut error = None;
        let next =
            large.scores.scan(pairs, (self.database, LAYOUT), cursor, count, |member, score| {
                match score_of(score) {
                    Ok(score) => take(member, score),
                    Err(damaged) => error = Some(damaged),
                }
            })?;
        error.map_or(Ok(next), Err)
    }

    /// An element at random, each equally likely. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn random(&self, pairs: &mut (impl Pairs + ?Sized)) -> Result<Option<Element>> {
        let (rank, mut found) = (below(pairs.random(), self.len()), None);
        self.for_range(pairs, rank..rank + 1, false, |member, score| {
            found = Some((member.to_vec(), score));
            false
        })?;
        Ok(found)
    }
}
