//! Sorted sets: members with scores, ordered by score, then by member.
//!
//! ```text
//! small   flags, u8 | score, f64, and member of each element        up to SMALL_BYTES, in the key's value
//! large   flags, u8 | numbers of the two parts (shape.rs)           both parts in segments (segments.rs)
//!
//!         scores   member -> score, as a hash has its fields (hashed.rs)     ZSCORE: two lookups
//!         tree     the elements in order, counted (tree.rs)                  ZRANGE, ZRANK, ZCOUNT: O(log n) lookups
//! ```
//!
//! All bytes here are on disk.

use super::fields::below;
use super::hashed::{self, Layout, NewField, ReadSegment, SMALL_AGAIN_BYTES, push};
use super::shape::{LARGE, LargeFields, LargeSorted, Tree, damaged};
use super::tree::{Editor, Entries, Entry, Key, Loaded, NoEntry, Place, order};
use crate::keyspace::pairs::{Pairs, PairsMut};
use crate::keyspace::{Attributes, Kind, Result, SpaceError};
use std::cmp::Ordering;
use std::ops::Range;

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;

/// Set once Redis would have left its compact encoding, to which it never returns.
const UNPACKED: u8 = 2; // on disk
/// Redis's limits for its compact encoding.
pub(crate) const PACKED_MEMBERS: u64 = 128;
const PACKED_MEMBER_BYTES: usize = 64;

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

/// A sorted set that is being changed, with exclusive entry. [`finish`](Self::finish) stores the rest of the change.
pub(crate) struct SortedSetMut<'e, 'k> {
    alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    set: SortedSet,
    was_present: bool,
    changed: bool,
    loaded: Loaded,
    /// The segment that [`score`](Self::score) read, for the change that follows.
    scored: Option<ReadSegment>,
}

/// The bytes of an element in a small set.
fn element_of(member: &[u8], score: f64) -> Vec<u8> {
    let mut element = Vec::with_capacity(member.len() + 13);
    Entry::push(&mut element, (score, member));
    element
}

impl<'e, 'k> SortedSetMut<'e, 'k> {
    /// The sorted set at `key`, empty if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn open(
        alone: &'e mut (dyn PairsMut + 'k),
        database: usize,
        key: &'e [u8],
    ) -> Result<SortedSetMut<'e, 'k>> {
        let mut value = Vec::new();
        let found = alone.name(database, key, Kind::SortedSet, &mut value)?;
        let set = SortedSet::decode(database, value)?;
        Ok(SortedSetMut {
            alone,
            key,
            expires_at_ms: found.unwrap_or(0),
            set,
            was_present: found.is_some(),
            changed: false,
            loaded: Loaded::default(),
            scored: None,
        })
    }

    /// The number of members. O(1).
    pub(crate) fn len(&self) -> u64 {
        self.set.len()
    }

    /// [`SortedSet::score`].
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn score(&mut self, member: &[u8]) -> Result<Option<f64>> {
        let Form::Large(large) = &self.set.form else { return self.set.score(self.alone, member) };
        let read = large.scores.read(self.alone, self.set.database, member)?;
        let found = hashed::find(&read.run, LAYOUT, member)?;
        let score = found.map(|found| score_of(&read.run[found.value])).transpose();
        self.scored = Some(read);
        score
    }

    /// The set as it is now, and the entry to read it with.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn read(&mut self) -> Result<(&SortedSet, &mut (dyn PairsMut + 'k))> {
        self.store()?;
        Ok((&self.set, self.alone))
    }

    fn store(&mut self) -> Result<()> {
        match &mut self.set.form {
            Form::Small(_) => Ok(()),
            Form::Large(large) => editor(self.alone, self.set.database, large, &mut self.loaded).store(),
        }
    }

    /// Sets the score of a member, whose score was `before`. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn put(&mut self, member: &[u8], before: Option<f64>, score: f64) -> Result<()> {
        self.changed = true;
        let scored = self.scored.take();
        let is_full = || before.is_none() && self.set.len() >= PACKED_MEMBERS;
        if self.set.flags & UNPACKED == 0 && (member.len() > PACKED_MEMBER_BYTES || is_full()) {
            self.set.flags |= UNPACKED;
        }
        // The compact encoding has no negative zero.
        let score = if score == 0.0 && self.set.flags & UNPACKED == 0 { 0.0 } else { score };
        let database = self.set.database;
        match &mut self.set.form {
            Form::Small(run) => {
                if before.is_some() {
                    remove_small(run, member)?;
                }
                let mut at = run.len();
                for entry in Entries::of_small(run) {
                    let entry = entry.map_err(damaged_small)?;
                    if order(entry.key, (score, member)) == Ordering::Greater {
                        at = entry.start;
                        break;
                    }
                }
                super::elements::replace(run, at..at, &element_of(member, score));
            }
            Form::Large(large) => {
                let mut tree = editor(self.alone, database, large, &mut self.loaded);
                if let Some(before) = before {
                    tree.remove((before, member))?;
                }
                tree.insert((score, member))?;
                let bytes = score.to_le_bytes();
                large.scores.put(self.alone, (database, LAYOUT), score_field(member, &bytes), true, scored)?;
            }
        }
        self.enlarge()
    }

    /// Adds elements with distinct members to an empty set. The encoding depends on all of them. Writes each
    /// segment once.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn fill(&mut self, elements: &[Element]) -> Result<()> {
        let is_long = elements.iter().any(|(member, _)| member.len() > PACKED_MEMBER_BYTES);
        if is_long || elements.len() as u64 > PACKED_MEMBERS {
            self.set.flags |= UNPACKED;
        }
        if elements.iter().map(|(member, _)| member.len() + 9).sum::<usize>() <= SMALL_BYTES {
            return elements.iter().try_for_each(|(member, score)| self.put(member, None, *score));
        }
        self.changed = true;
        // The compact encoding has no negative zero.
        let keeps_sign = self.set.flags & UNPACKED != 0;
        let score_of = |score: f64| if score == 0.0 && !keeps_sign { 0.0 } else { score };
        let mut sorted: Vec<Key<'_>> =
            elements.iter().map(|(member, score)| (score_of(*score), member.as_slice())).collect();
        if !sorted.is_sorted_by(|one, other| order(*one, *other) == Ordering::Less) {
            sorted.sort_by(|one, other| order(*one, *other));
        }
        let database = self.set.database;
        let scores = LargeFields::build(self.alone, (database, LAYOUT), |add| {
            sorted.iter().for_each(|(score, member)| add(score_field(member, &score.to_le_bytes())));
            Ok(())
        })?;
        let mut large = LargeSorted { scores, tree: Tree::default() };
        editor(self.alone, database, &mut large, &mut self.loaded).build(sorted.into_iter())?;
        self.set.form = Form::Large(large);
        Ok(())
    }

    /// Removes a member. Returns whether it was there. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn remove(&mut self, member: &[u8]) -> Result<bool> {
        let database = self.set.database;
        let is_there = match &mut self.set.form {
            Form::Small(run) => remove_small(run, member)?,
            Form::Large(_) => match self.score(member)? {
                None => false,
                Some(score) => {
                    let Form::Large(large) = &mut self.set.form else { return Ok(false) };
                    editor(self.alone, database, large, &mut self.loaded).remove((score, member))?;
                    large.scores.remove(self.alone, (database, LAYOUT), member)?
                }
            },
        };
        self.scored = None;
        self.changed |= is_there;
        Ok(is_there)
    }

    /// Removes the elements of a range of ranks. O(their number + log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn remove_range(&mut self, range: Range<u64>) -> Result<u64> {
        let range = range.start..range.end.min(self.len());
        if range.is_empty() {
            return Ok(0);
        }
        let count = range.end - range.start;
        (self.changed, self.scored) = (true, None);
        if count == self.len() {
            self.clear()?;
            return Ok(count);
        }
        let database = self.set.database;
        match &mut self.set.form {
            Form::Small(run) => {
                let entries: std::result::Result<Vec<_>, _> = Entries::of_small(run).collect();
                let entries = entries.map_err(damaged_small)?;
                // Elements of a small set; `range` is within them.
                let (first, last) = (entries[range.start as usize], entries[range.end as usize - 1]);
                let bytes = first.start..last.end;
                run.drain(bytes);
            }
            Form::Large(large) => {
                let (mut left, mut members) = (count, Vec::new());
                while left > 0 {
                    let mut tree = editor(self.alone, database, large, &mut self.loaded);
                    left -= tree.remove_from(range.start, left, |(_, member)| members.push(member.to_vec()))?;
                }
                if large.scores.remove_many(self.alone, (database, LAYOUT), &members)? != count {
                    return Err(damaged("an element has no score"));
                }
            }
        }
        Ok(count)
    }

    /// Removes all members. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.store()?;
        self.scored = None;
        if let Form::Large(large) = &self.set.form {
            self.alone.release(self.set.database, large.scores.id, large.segments())?;
        }
        self.set.form = Form::Small(Vec::new());
        self.changed = true;
        Ok(())
    }

    /// Moves the elements into segments.
    fn enlarge(&mut self) -> Result<()> {
        let database = self.set.database;
        let Form::Small(run) = &self.set.form else { return Ok(()) };
        if run.len() <= SMALL_BYTES {
            return Ok(());
        }
        let mut fields = Vec::with_capacity(2 * run.len());
        for entry in Entries::of_small(run) {
            let (score, member) = entry.map_err(damaged_small)?.key;
            push(&mut fields, LAYOUT, score_field(member, &score.to_le_bytes()));
        }
        let scores = LargeFields::divide(self.alone, database, LAYOUT, &fields)?;
        let mut large = LargeSorted { scores, tree: Tree::default() };
        let mut tree = editor(self.alone, database, &mut large, &mut self.loaded);
        tree.begin()?;
        for entry in Entries::of_small(run) {
            tree.insert(entry.map_err(damaged_small)?.key)?;
        }
        self.set.form = Form::Large(large);
        Ok(())
    }

    /// Moves the elements back into the key's value if they are short enough.
    fn reduce(&mut self) -> Result<()> {
        let Form::Large(large) = &self.set.form else { return Ok(()) };
        if large.scores.bytes > SMALL_AGAIN_BYTES && large.scores.count > 0 {
            return Ok(());
        }
        let mut run = Vec::new();
        self.store()?;
        self.set.for_range(self.alone, 0..u64::MAX, false, |member, score| {
            Entry::push(&mut run, (score, member));
            true
        })?;
        self.clear()?;
        self.set.form = Form::Small(run);
        Ok(())
    }

    /// Stores the key's new value, or removes the key if the set is empty. Returns the number of members.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn finish(mut self) -> Result<u64> {
        if !self.changed {
            return Ok(self.len());
        }
        self.reduce()?;
        self.store()?;
        let len = self.len();
        let attributes = Attributes { expires_at_ms: self.expires_at_ms, kind: Kind::SortedSet, ..Attributes::NONE };
        if len > 0 {
            let value = self.set.encode();
            self.alone.put_collection(self.set.database, self.key, Some((attributes, &value)))?;
        } else if self.was_present {
            self.alone.put_collection(self.set.database, self.key, None)?;
        }
        Ok(len)
    }
}

/// The field of the scores for a member.
fn score_field<'f>(member: &'f [u8], score: &'f [u8]) -> NewField<'f> {
    NewField { name: member, value: score, expires_at_ms: 0 }
}

fn editor<'t, 'k>(
    alone: &'t mut (dyn PairsMut + 'k),
    database: usize,
    large: &'t mut LargeSorted,
    loaded: &'t mut Loaded,
) -> Editor<'t, 'k> {
    let place = Place { database, id: large.scores.id };
    Editor { alone, place, tree: &mut large.tree, loaded }
}

fn remove_small(run: &mut Vec<u8>, member: &[u8]) -> Result<bool> {
    for entry in Entries::of_small(run) {
        let entry = entry.map_err(damaged_small)?;
        if entry.key.1 == member {
            let bytes = entry.start..entry.end;
            run.drain(bytes);
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::tests::{Random, collection_spaces};
    use crate::keyspace::{Exclusive, Lifetime, Patience};
    use std::collections::HashMap;

    /// Returns the elements of the tree, and checks that scores and ranks agree with it.
    fn checked(alone: &mut Exclusive<'_>, key: &[u8]) -> Vec<Element> {
        let Some(set) = SortedSet::open(alone, 0, key).unwrap() else { return Vec::new() };
        let mut found = Vec::new();
        set.for_range(alone, 0..u64::MAX, false, |member, score| {
            found.push((member.to_vec(), score));
            true
        })
        .unwrap();
        assert_eq!(found.len() as u64, set.len());
        assert!(found.windows(2).all(|pair| compare(&pair[0], &pair[1]) == Ordering::Less));
        let mut reverse = Vec::new();
        set.for_range(alone, 0..u64::MAX, true, |member, score| {
            reverse.push((member.to_vec(), score));
            true
        })
        .unwrap();
        reverse.reverse();
        assert_eq!(reverse, found);
        for (rank, (member, score)) in (0..).zip(&found) {
            assert_eq!(set.score(alone, member).unwrap(), Some(*score));
            assert_eq!(set.rank(alone, member, *score).unwrap(), rank);
        }
        let mut scanned = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = set.scan(alone, cursor, 10, |member, score| scanned.push((member.to_vec(), score))).unwrap();
            if cursor == 0 {
                break;
            }
        }
        scanned.sort_by(compare);
        assert_eq!(scanned, found);
        found
    }

    fn add(set: &mut SortedSetMut<'_, '_>, member: &[u8], score: f64) {
        let before = set.score(member).unwrap();
        set.put(member, before, score).unwrap();
    }

    #[test]
    fn a_range_that_is_removed_changes_each_segment_once() {
        for (space, _folder) in collection_spaces() {
            let mut alone = space.close(Patience::MayWait).unwrap();
            let model: Vec<Element> =
                (0..20_000).map(|number| (format!("member {number}").into_bytes(), f64::from(number))).collect();
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            set.fill(&model).unwrap();
            set.finish().unwrap();
            alone.commit().unwrap();
            let changes = || -> u64 {
                space.tables().map(|table| table.counters()).map(|counters| counters.puts + counters.removals).sum()
            };
            let before = changes();
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            assert_eq!(set.remove_range(300..19_700).unwrap(), 19_400);
            set.finish().unwrap();
            alone.commit().unwrap();
            assert!(changes() - before < 19_400 / 4, "{} changes", changes() - before);
            assert!(checked(&mut alone, b"set") == [&model[..300], &model[19_700..]].concat());
        }
    }

    #[test]
    fn a_sorted_set_is_a_sorted_map_whatever_is_done_to_it() {
        for seed in 1..=6 {
            let mut random = Random(0x9e37_79b9_7f4a_7c15 >> seed);
            let (space, _folder) = collection_spaces().swap_remove((seed % 2) as usize);
            let mut alone = space.close(Patience::MayWait).unwrap();
            let mut model: HashMap<Vec<u8>, f64> = HashMap::new();
            // Some members are long, and some share a long prefix.
            let member = |random: &mut Random| match random.below(30) {
                0 if seed > 2 => vec![b'x'; random.below(3000) as usize],
                1 if seed > 4 => [vec![b'y'; 1500], random.below(50).to_be_bytes().to_vec()].concat(),
                _ => format!("{}", random.below(1500)).into_bytes(),
            };
            for step in 0..120 {
                alone.begin();
                let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
                for _ in 0..random.below(1 + 60 * (step % 7)) {
                    match random.below(10 + step % 20) {
                        0..7 => {
                            let (member, score) = (member(&mut random), random.below(20) as f64 - 10.0);
                            add(&mut set, &member, score);
                            model.insert(member, score);
                        }
                        7 if !model.is_empty() => {
                            let start = random.below(model.len() as u64);
                            let end = (start + 1 + random.below(50)).min(model.len() as u64);
                            let mut all: Vec<Element> = model.drain().collect();
                            all.sort_by(compare);
                            all.drain(start as usize..end as usize);
                            model.extend(all);
                            assert_eq!(set.remove_range(start..end).unwrap(), end - start);
                        }
                        8 if random.below(30) == 0 => {
                            set.clear().unwrap();
                            model.clear();
                        }
                        _ => {
                            let member = member(&mut random);
                            assert_eq!(set.remove(&member).unwrap(), model.remove(&member).is_some());
                        }
                    }
                    assert_eq!(set.len(), model.len() as u64);
                }
                set.finish().unwrap();
                alone.commit().unwrap();
                let mut expected: Vec<Element> = model.clone().into_iter().collect();
                expected.sort_by(compare);
                assert!(checked(&mut alone, b"set") == expected, "seed {seed}, step {step}");
            }
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            for member in model.keys() {
                assert!(set.remove(member).unwrap());
            }
            assert_eq!(set.finish().unwrap(), 0);
            alone.commit().unwrap();
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            let alone = space.close(Patience::MayWait).unwrap();
            assert_eq!(alone.counts(0).segments, 0, "nothing is left");
        }
    }

    #[test]
    fn a_sorted_set_that_is_filled_is_a_sorted_map_and_writes_each_segment_once() {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        for round in 0..40u64 {
            let (space, _folder) = collection_spaces().swap_remove((round % 2) as usize);
            let mut alone = space.close(Patience::MayWait).unwrap();
            let long = [0, 0, 400, 3000][(round / 2 % 4) as usize];
            let mut model: Vec<Element> = (0..[0, 1, 20, 130, 700, 9000][random.below(6) as usize])
                .map(|number| {
                    let member =
                        [vec![b'x'; random.below(1 + long) as usize], format!("{number}").into_bytes()].concat();
                    (member, random.below([1, 20, 1 << 30][(round % 3) as usize]) as f64)
                })
                .collect();
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            set.fill(&model).unwrap();
            assert_eq!(set.finish().unwrap(), model.len() as u64);
            alone.commit().unwrap();
            let puts: u64 = space.tables().map(|table| table.counters().puts).sum();
            assert!(puts <= alone.counts(0).segments + 10, "{puts} puts for {} members", model.len());
            model.sort_by(compare);
            assert!(checked(&mut alone, b"set") == model, "round {round}");
            // It can then be changed like any other.
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            for number in 0..500 {
                let member = format!("new {number}").into_bytes();
                let score = random.below(1000) as f64;
                add(&mut set, &member, score);
                model.push((member, score));
                let at = random.below(model.len() as u64) as usize;
                assert!(set.remove(&model.swap_remove(at).0).unwrap());
            }
            set.finish().unwrap();
            alone.commit().unwrap();
            model.sort_by(compare);
            assert!(checked(&mut alone, b"set") == model, "round {round}");
            alone.remove(0, b"set").unwrap();
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0, "nothing is left");
        }
    }

    #[test]
    fn a_sorted_set_of_a_million_members_is_one_key_and_its_removal_leaves_nothing() {
        for ((space, _folder), members) in collection_spaces().into_iter().zip([1_000_000_u64, 100_000]) {
            let mut alone = space.close(Patience::MayWait).unwrap();
            // In an order that is neither that of the scores nor its reverse.
            for first in (0..members).step_by(10_000) {
                alone.begin();
                let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
                for number in first..first + 10_000 {
                    let score = number * 7919 % members;
                    set.put(format!("member {number}").as_bytes(), None, score as f64).unwrap();
                }
                set.finish().unwrap();
                alone.commit().unwrap();
            }
            assert_eq!(space.len(0), 1);
            let set = SortedSet::open(&mut alone, 0, b"set").unwrap().unwrap();
            let Form::Large(large) = &set.form else { panic!("a large set has segments") };
            assert!(large.tree.height <= 5, "{:?}", large.tree);
            for number in (0..members).step_by(9973) {
                let (member, score) = (format!("member {number}"), (number * 7919 % members) as f64);
                assert_eq!(set.score(&mut alone, member.as_bytes()).unwrap(), Some(score));
                assert_eq!(set.rank(&mut alone, member.as_bytes(), score).unwrap() as f64, score);
            }
            let mut next = 50_000;
            set.for_range(&mut alone, 50_000..50_100, false, |_, score| {
                assert_eq!(score, f64::from(next));
                next += 1;
                true
            })
            .unwrap();
            assert_eq!(next, 50_100);
            assert!(alone.remove(0, b"set").unwrap());
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0);
        }
    }

    #[test]
    fn a_sorted_set_goes_with_its_key_and_is_copied_with_it() {
        for (space, _folder) in collection_spaces() {
            let mut alone = space.close(Patience::MayWait).unwrap();
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            (0..3000u32).for_each(|number| add(&mut set, &number.to_be_bytes(), f64::from(number % 100)));
            set.finish().unwrap();
            alone.commit().unwrap();
            let all = checked(&mut alone, b"set");
            alone.begin();
            alone.copy((0, b"set"), (0, b"copy")).unwrap();
            alone.commit().unwrap();
            alone.rename(0, b"set", b"renamed").unwrap();
            alone.put(0, b"renamed", b"string", Lifetime::Clear).unwrap();
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            let mut alone = space.close(Patience::MayWait).unwrap();
            assert!(checked(&mut alone, b"copy") == all);
            assert!(alone.remove(0, b"copy").unwrap());
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0);
        }
    }

    #[test]
    fn a_damaged_sorted_set_gives_values_or_errors() {
        let mut random = Random(0x1234_5678_9abc_def1);
        let (space, _folder) = collection_spaces().swap_remove(0);
        let mut errors = 0;
        for round in 0..3000u64 {
            let mut alone = space.close(Patience::MayWait).unwrap();
            if round % 50 == 0 {
                alone.remove(0, b"set").unwrap();
                let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
                (0..1500u32).for_each(|number| add(&mut set, &number.to_be_bytes(), f64::from(number % 100)));
                // Free nodes, too.
                set.remove_range(100..700).unwrap();
                set.finish().unwrap();
            }
            let mut value = Vec::new();
            let attributes = alone.get_any(0, b"set", &mut value).unwrap();
            let numbers = LargeSorted::decode(&value).ok().flatten();
            if let (Some(attributes), true) = (attributes, round % 5 == 0) {
                let at = random.below(value.len() as u64) as usize;
                value[at] = random.below(256) as u8;
                alone.put_collection(0, b"set", Some((attributes, &value))).unwrap();
            } else if let Some(LargeSorted { scores, tree }) = numbers {
                let base = if random.below(4) == 0 { 0 } else { crate::keyspace::collections::shape::NODES };
                let nodes = if base == 0 { scores.segments } else { tree.nodes }.clamp(1, 200);
                let (number, mut node) = (base + random.below(nodes), Vec::new());
                let was_there = alone.read_segment(0, scores.id, number, &mut node).unwrap();
                match random.below(6) {
                    0 => node.truncate(random.below(node.len() as u64 + 1) as usize),
                    // Another node of the tree: a cycle, or a child of two parents.
                    1 => drop(alone.read_segment(0, scores.id, base + random.below(nodes), &mut node).unwrap()),
                    2 if node.len() > 1 => node[0] = [0, 1, 2, 255][random.below(4) as usize],
                    _ if !node.is_empty() => {
                        let at = random.below(node.len() as u64) as usize;
                        node[at] = random.below(256) as u8;
                    }
                    _ => {}
                }
                alone.put_segment(0, (scores.id, number), was_there, Some(&node)).unwrap();
            }
            // Every operation ends, and none panics.
            let mut try_all = || -> Result<()> {
                if let Some(set) = SortedSet::open(&mut alone, 0, b"set")? {
                    let mut seen = 0u64;
                    set.for_range(&mut alone, 0..u64::MAX, round % 2 == 0, |_, _| {
                        seen += 1;
                        true
                    })?;
                    assert!(seen < 1_000_000);
                    set.count_before(&mut alone, |score, _| score < 50.0)?;
                    set.random(&mut alone)?;
                    set.scan(&mut alone, 0, 100, |_, _| {})?;
                }
                let mut set = SortedSetMut::open(&mut alone, 0, b"set")?;
                for number in 0..20 {
                    let member = (random.below(1500) as u32).to_be_bytes();
                    let before = set.score(&member)?;
                    set.put(&member, before, f64::from(number))?;
                    set.remove(&(random.below(1500) as u32).to_be_bytes())?;
                    let rank = random.below(1000);
                    set.remove_range(rank..rank + random.below(40))?;
                }
                set.finish().map(drop)
            };
            errors += u32::from(try_all().is_err());
        }
        assert!(errors > 500, "{errors}");
    }
}
