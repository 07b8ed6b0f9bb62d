//! A sorted set that is being changed: members and scores set and removed, and moved between the two forms.

use super::{Element, Form, LAYOUT, PACKED_MEMBERS, SortedSet, UNPACKED, damaged_small, score_of};
use crate::keyspace::collections::elements;
use crate::keyspace::collections::hashed::{self, NewField, ReadSegment, SMALL_AGAIN_BYTES, push};
use crate::keyspace::collections::shape::{LargeFields, LargeSorted, Tree, damaged};
use crate::keyspace::collections::tree::{Editor, Entries, Entry, Key, Loaded, Place, order};

use crate::keyspace::pairs::PairsMut;
use crate::keyspace::{Attributes, Kind, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;
const PACKED_MEMBER_BYTES: usize = 64;

/// A sorted set that is being changed, with exclusive entry. [`finish`](Self::finish) stores the rest of the change.
pub(crate) struct SortedSetMut<'e, 'k> {
    alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    pub(super) set: SortedSet,
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
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType), or the errors of
    /// [`splitpoint::Table::get`].
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
                elements::replace(run, at..at, &element_of(member, score));
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
