//! Lists: elements in order, fast at both ends.
//!
//! ```text
//! small   flags, u8 | elements                                          up to SMALL_BYTES, in the key's value
//! large   flags, u8 | id | start | count | per segment | bytes, u64 each    elements in segments (segments.rs)
//! ```
//!
//! The elements of a large list are numbered from `start` on; a segment has `per` consecutive numbers, so an
//! index determines the segment. A push or a pop changes the segment at its end and the key's value. LINSERT, and
//! LREM of one element, move an element of each segment between there and the nearer end to the next segment.
//!
//! All bytes here are on disk.

use super::elements;
use super::shape::{LARGE, LargeList as Large, SEGMENT_ELEMENTS, damaged};
use crate::keyspace::pairs::{Pairs, PairsMut};
use crate::keyspace::{Attributes, Kind, Result, SpaceError};
use std::ops::Range;

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;
/// Bytes of a segment if the elements stay as long as they were when the list became large.
const SEGMENT_BYTES: usize = 1024;
/// The first number of a list, far from both ends.
const MIDDLE: u64 = 1 << 62;

/// A list, as its key describes it.
#[derive(Clone, Debug)]
pub(crate) struct List {
    database: usize,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Small(Vec<u8>),
    Large(Large),
}

impl Large {
    /// The indexes of the elements in a segment: the first, and the one after the last.
    fn indexes(&self, segment: u64) -> (u64, u64) {
        let first = (segment * self.per).max(self.start) - self.start;
        (first, ((segment + 1) * self.per - self.start).min(self.count))
    }
}

impl List {
    /// The list at `key`; `None` if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn open(pairs: &mut (impl Pairs + ?Sized), database: usize, key: &[u8]) -> Result<Option<List>> {
        let mut value = Vec::new();
        let found = pairs.name(database, key, Kind::List, &mut value)?;
        found.map(|_| List::decode(database, value)).transpose()
    }

    fn decode(database: usize, mut value: Vec<u8>) -> Result<List> {
        let form = match Large::decode(&value)? {
            Some(large) => Form::Large(large),
            None => {
                value.drain(..value.len().min(1));
                if value.len() > SMALL_BYTES || elements::count(&value).is_none() {
                    return Err(damaged(format_args!("{} bytes that are not its elements", value.len())));
                }
                Form::Small(value)
            }
        };
        Ok(List { database, form })
    }

    fn encode(&self) -> Vec<u8> {
        match &self.form {
            Form::Small(run) => [&[0], run.as_slice()].concat(),
            Form::Large(Large { id, start, count, per, bytes }) => {
                let mut value = vec![LARGE];
                value.extend([id, start, count, per, bytes].into_iter().flat_map(|n| n.to_le_bytes()));
                value
            }
        }
    }

    /// The number of elements. O(1).
    pub(crate) fn len(&self) -> u64 {
        match &self.form {
            Form::Small(run) => elements::iter(run).count() as u64,
            Form::Large(large) => large.count,
        }
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.form {
            Form::Small(run) => run.len() as u64,
            Form::Large(large) => large.bytes,
        }
    }

    /// Calls `take` with the elements of a range of indexes, in order, until it returns `false`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn for_range(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        range: Range<u64>,
        mut take: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<()> {
        let range = range.start..range.end.min(self.len());
        let large = match &self.form {
            Form::Small(run) => {
                for (index, element) in (0..).zip(elements::iter(run)).filter(|(index, _)| range.contains(index)) {
                    if !take(index, element) {
                        break;
                    }
                }
                return Ok(());
            }
            Form::Large(large) => large,
        };
        if range.is_empty() {
            return Ok(());
        }
        let mut run = Vec::new();
        for number in (large.start + range.start) / large.per..=(large.start + range.end - 1) / large.per {
            pairs.segment(self.database, large.id, number, &mut run)?;
            let (first, end) = large.indexes(number);
            let mut elements = elements::iter(&run);
            for index in first..end {
                let Some(element) = elements.next() else { return Err(shorter(&run, end - first)) };
                if range.contains(&index) && !take(index, element) {
                    return Ok(());
                }
            }
            if elements.at() != run.len() {
                return Err(shorter(&run, end - first));
            }
        }
        Ok(())
    }

    /// [`for_range`](Self::for_range) of all elements, the last one first.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn for_each_back(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        mut take: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<()> {
        const AT_ONCE: u64 = 256;
        let mut end = self.len();
        while end > 0 {
            let start = end.saturating_sub(AT_ONCE);
            let mut some = Vec::new();
            self.for_range(pairs, start..end, |index, element| {
                some.push((index, element.to_vec()));
                true
            })?;
            for (index, element) in some.iter().rev() {
                if !take(*index, element) {
                    return Ok(());
                }
            }
            end = start;
        }
        Ok(())
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Left,
    Right,
}

/// A list that is being changed, with exclusive entry. [`finish`](Self::finish) stores the rest of the change.
pub(crate) struct ListMut<'e, 'k> {
    alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    list: List,
    was_present: bool,
    changed: bool,
    /// The segment changed last; it is stored before another one is loaded.
    loaded: Option<Loaded>,
}

struct Loaded {
    number: u64,
    run: Vec<u8>,
    was_there: bool,
    is_changed: bool,
}

/// The error for a segment with other than `count` elements.
#[cold]
fn shorter(run: &[u8], count: u64) -> SpaceError {
    damaged(format_args!("{} bytes instead of {count} elements of a list", run.len()))
}

/// The range of the element at an index, or an empty one where the elements end.
fn element_at(run: &[u8], index: u64) -> Result<Range<usize>> {
    let mut elements = elements::iter(run);
    for _ in 0..index {
        elements.next().ok_or_else(|| shorter(run, index))?;
    }
    let start = elements.at();
    elements.next();
    Ok(start..elements.at())
}

/// Removes the first element of a run; returns its bytes.
fn take_first(run: &mut Vec<u8>) -> Result<Vec<u8>> {
    let first = element_at(run, 0)?;
    if first.is_empty() { Err(shorter(run, 1)) } else { Ok(run.drain(first).collect()) }
}

/// Removes the last element of a run of `count`; returns its bytes.
fn take_last(run: &mut Vec<u8>, count: u64) -> Result<Vec<u8>> {
    let last = element_at(run, count.saturating_sub(1))?;
    if last.is_empty() || last.end != run.len() { Err(shorter(run, count)) } else { Ok(run.split_off(last.start)) }
}

fn encoded(element: &[u8]) -> Vec<u8> {
    let mut run = Vec::with_capacity(element.len() + 5);
    elements::push(&mut run, element);
    run
}

impl<'e, 'k> ListMut<'e, 'k> {
    /// The list at `key`, empty if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn open(alone: &'e mut (dyn PairsMut + 'k), database: usize, key: &'e [u8]) -> Result<ListMut<'e, 'k>> {
        let mut value = Vec::new();
        let found = alone.name(database, key, Kind::List, &mut value)?;
        Ok(ListMut {
            alone,
            key,
            expires_at_ms: found.unwrap_or(0),
            list: List::decode(database, value)?,
            was_present: found.is_some(),
            changed: false,
            loaded: None,
        })
    }

    /// The number of elements. O(1).
    pub(crate) fn len(&self) -> u64 {
        self.list.len()
    }

    /// Loads a segment, after storing the one loaded before.
    fn load(&mut self, id: u64, number: u64) -> Result<&mut Loaded> {
        if self.loaded.as_ref().is_none_or(|loaded| loaded.number != number) {
            self.store()?;
            let mut run = Vec::new();
            let was_there = self.alone.segment(self.list.database, id, number, &mut run)?;
            self.loaded = Some(Loaded { number, run, was_there, is_changed: false });
        }
        Ok(self.loaded.get_or_insert_with(|| Loaded { number, run: Vec::new(), was_there: false, is_changed: false }))
    }

    /// Stores the loaded segment if it was changed.
    fn store(&mut self) -> Result<()> {
        let Form::Large(large) = &self.list.form else { return Ok(()) };
        if let Some(loaded) = self.loaded.take().filter(|loaded| loaded.is_changed) {
            let run = Some(loaded.run.as_slice()).filter(|run| !run.is_empty());
            self.alone.put_segment(self.list.database, (large.id, loaded.number), loaded.was_there, run)?;
        }
        Ok(())
    }

    /// Adds an element at an end. Amortized O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn push(&mut self, end: End, element: &[u8]) -> Result<()> {
        self.changed = true;
        let new = encoded(element);
        match &mut self.list.form {
            Form::Small(run) => {
                match end {
                    End::Left => elements::replace(run, 0..0, &new),
                    End::Right => run.extend_from_slice(&new),
                }
                if run.len() > SMALL_BYTES { self.enlarge() } else { Ok(()) }
            }
            Form::Large(_) => {
                self.push_to_segment(end, &new)?;
                self.divide_again()
            }
        }
    }

    /// Adds an encoded element at an end of a large list.
    fn push_to_segment(&mut self, end: End, new: &[u8]) -> Result<()> {
        let Form::Large(large) = &self.list.form else { return Ok(()) };
        let number = if end == End::Left { large.start - 1 } else { large.start + large.count };
        let (id, number) = (large.id, number / large.per);
        let loaded = self.load_to_change(id, number)?;
        match end {
            End::Left => elements::replace(&mut loaded.run, 0..0, new),
            End::Right => loaded.run.extend_from_slice(new),
        }
        if let Form::Large(large) = &mut self.list.form {
            large.bytes += new.len() as u64;
            large.count += 1;
            large.start -= u64::from(end == End::Left);
        }
        Ok(())
    }

    /// Chooses another number of elements per segment if they have become much longer or shorter. O(elements), once per
    /// change of their average length by `FACTOR`.
    fn divide_again(&mut self) -> Result<()> {
        const FACTOR: u64 = 16;
        let Form::Large(Large { count, per, bytes, .. }) = self.list.form else { return Ok(()) };
        let segment_bytes = bytes / count.max(1) * per;
        let are_long = per > 1 && segment_bytes > FACTOR * SEGMENT_BYTES as u64;
        let has_many = per < SEGMENT_ELEMENTS && count / per >= FACTOR;
        let are_short = has_many && segment_bytes < SEGMENT_BYTES as u64 / FACTOR;
        if !are_long && !are_short {
            return Ok(());
        }
        let all = self.copy_range(0..u64::MAX)?;
        self.drop_at(End::Left, u64::MAX)?;
        self.store()?;
        let mut run = Vec::new();
        all.iter().for_each(|element| elements::push(&mut run, element));
        self.list.form = Form::Small(run);
        self.enlarge()
    }

    /// Moves the elements into segments.
    fn enlarge(&mut self) -> Result<()> {
        let Form::Small(run) = &mut self.list.form else { return Ok(()) };
        let id = self.alone.new_collection(self.list.database)?;
        let run = std::mem::take(run);
        let count = elements::iter(&run).count();
        let per = ((SEGMENT_BYTES * count / run.len().max(1)) as u64).clamp(1, SEGMENT_ELEMENTS);
        // Full segments on both sides of the middle.
        let start = MIDDLE / per * per;
        self.list.form = Form::Large(Large { id, start, count: 0, per, bytes: 0 });
        let moved = elements::iter(&run).try_for_each(|element| self.push_to_segment(End::Right, &encoded(element)));
        if moved.is_err() {
            (self.list.form, self.loaded) = (Form::Small(run), None);
        }
        moved
    }

    /// Removes the element at an end and returns it. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn pop(&mut self, end: End) -> Result<Option<Vec<u8>>> {
        let take = |run: &mut Vec<u8>| {
            let mut elements = elements::iter(run);
            let (mut start, mut element) = (0, elements.next()?);
            let mut len = elements.at();
            if end == End::Right {
                let mut at = len;
                while let Some(next) = elements.next() {
                    (start, element, len) = (at, next, elements.at() - at);
                    at = elements.at();
                }
            }
            let element = element.to_vec();
            match end {
                End::Left => drop(run.drain(..len)),
                End::Right => run.truncate(start),
            }
            Some((element, len))
        };
        let popped = match &mut self.list.form {
            Form::Small(run) => take(run).map(|(element, _)| element),
            Form::Large(large) if large.count == 0 => None,
            Form::Large(large) => {
                let number = if end == End::Left { large.start } else { large.start + large.count - 1 };
                let (id, number) = (large.id, number / large.per);
                let loaded = self.load(id, number)?;
                loaded.is_changed = true;
                let taken = take(&mut loaded.run);
                if taken.is_none() {
                    return Err(shorter(&loaded.run, 1));
                }
                let Form::Large(large) = &mut self.list.form else { return Ok(None) };
                large.count -= 1;
                large.start += u64::from(end == End::Left);
                taken.map(|(element, len)| {
                    large.bytes = large.bytes.saturating_sub(len as u64);
                    element
                })
            }
        };
        self.changed |= popped.is_some();
        Ok(popped)
    }

    /// Makes [`finish`](Self::finish) store the key if it is present, and so report a change.
    pub(crate) fn count_as_changed(&mut self) {
        self.changed = true;
    }

    /// Removes `count` elements at an end. O(segments).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn drop_at(&mut self, end: End, count: u64) -> Result<()> {
        let mut left = count.min(self.len());
        self.changed |= left > 0;
        if let Form::Small(run) = &mut self.list.form {
            let all = elements::iter(run).count() as u64;
            match end {
                End::Left => drop(run.drain(..element_at(run, left)?.start)),
                End::Right => run.truncate(element_at(run, all - left)?.start),
            }
            return Ok(());
        }
        while let (1.., Form::Large(large)) = (left, &self.list.form) {
            let Large { id, start, count, per, .. } = *large;
            // The segment at this end, and the indexes in it.
            let number = if end == End::Left { start / per } else { (start + count - 1) / per };
            let (first, after_last) = large.indexes(number);
            let within = after_last - first;
            let dropped = within.min(left);
            let loaded = self.load(id, number)?;
            let before = loaded.run.len();
            match end {
                End::Left => drop(loaded.run.drain(..element_at(&loaded.run, dropped)?.start)),
                End::Right => {
                    let rest = element_at(&loaded.run, within - dropped)?;
                    if rest.is_empty() {
                        return Err(shorter(&loaded.run, within));
                    }
                    loaded.run.truncate(rest.start);
                }
            }
            loaded.is_changed = true;
            let bytes = (before - loaded.run.len()) as u64;
            if let Form::Large(large) = &mut self.list.form {
                large.bytes = large.bytes.saturating_sub(bytes);
                large.count -= dropped;
                large.start += if end == End::Left { dropped } else { 0 };
            }
            left -= dropped;
        }
        Ok(())
    }

    /// Sets the element at an index that exists. Amortized O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn set(&mut self, index: u64, element: &[u8]) -> Result<()> {
        self.changed = true;
        let new = encoded(element);
        let replace = |run: &mut Vec<u8>, at: u64| {
            let old = element_at(run, at)?;
            if old.is_empty() {
                return Err(shorter(run, at + 1));
            }
            elements::replace(run, old, &new);
            Ok(())
        };
        match &mut self.list.form {
            Form::Small(run) => {
                replace(run, index)?;
                if run.len() > SMALL_BYTES { self.enlarge() } else { Ok(()) }
            }
            Form::Large(large) => {
                let Large { id, start, per, .. } = *large;
                let number = (start + index) / per;
                let at = start + index - (number * per).max(start);
                let loaded = self.load(id, number)?;
                let before = loaded.run.len() as u64;
                replace(&mut loaded.run, at)?;
                loaded.is_changed = true;
                let after = loaded.run.len() as u64;
                if let Form::Large(large) = &mut self.list.form {
                    large.bytes = (large.bytes + after).saturating_sub(before);
                }
                self.divide_again()
            }
        }
    }

    /// Copies a range of elements.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn copy_range(&mut self, range: Range<u64>) -> Result<Vec<Vec<u8>>> {
        self.store()?;
        let mut copied = Vec::new();
        self.list.for_range(self.alone, range, |_, element| {
            copied.push(element.to_vec());
            true
        })?;
        Ok(copied)
    }

    /// Returns up to `most` indexes of elements equal to `element`, the last ones if `from` is the right end.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn find(&mut self, element: &[u8], from: End, most: u64) -> Result<Vec<u64>> {
        self.store()?;
        let mut found = Vec::new();
        let take = |index: u64, other: &[u8]| {
            if other == element {
                found.push(index);
            }
            (found.len() as u64) < most
        };
        match from {
            End::Left => self.list.for_range(self.alone, 0..u64::MAX, take)?,
            End::Right => self.list.for_each_back(self.alone, take)?,
        }
        Ok(found)
    }

    /// Adds an element before the one at `index`, or at the end. O(segments up to the nearer end).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn insert(&mut self, index: u64, element: &[u8]) -> Result<()> {
        match index {
            0 => return self.push(End::Left, element),
            index if index >= self.len() => return self.push(End::Right, element),
            _ => self.changed = true,
        }
        let new = encoded(element);
        let Large { id, start, count, per, .. } = match &mut self.list.form {
            Form::Large(large) => *large,
            Form::Small(run) => {
                let at = element_at(run, index)?.start;
                elements::replace(run, at..at, &new);
                return if run.len() > SMALL_BYTES { self.enlarge() } else { Ok(()) };
            }
        };
        let (is_left, new_bytes) = (index <= count / 2, new.len() as u64);
        if is_left {
            self.insert_to_left((id, start, per), start + index - 1, new)?;
        } else {
            self.insert_to_right((id, start, per), start + index, start + count, new)?;
        }
        if let Form::Large(large) = &mut self.list.form {
            large.start -= u64::from(is_left);
            large.count += 1;
            large.bytes += new_bytes;
        }
        self.divide_again()
    }

    /// Inserts an encoded element after the one of this number; the elements up to there move to the left.
    fn insert_to_left(&mut self, (id, start, per): (u64, u64, u64), last: u64, new: Vec<u8>) -> Result<()> {
        let (mut number, mut carried) = (last / per, new);
        let mut at = last + 1 - (number * per).max(start);
        loop {
            let first = number * per;
            let run = &mut self.load_to_change(id, number)?.run;
            let place = element_at(run, at)?.start;
            elements::replace(run, place..place, &carried);
            if first < start {
                return Ok(()); // one number at the left was free
            }
            carried = take_first(run)?;
            number -= 1;
            at = first - (number * per).max(start);
        }
    }

    /// Inserts an encoded element before the one of this number; the elements up to `end` move to the right.
    fn insert_to_right(&mut self, (id, start, per): (u64, u64, u64), at: u64, end: u64, new: Vec<u8>) -> Result<()> {
        let (mut number, mut carried) = (at / per, new);
        let mut at = at - (number * per).max(start);
        loop {
            let after_last = (number + 1) * per;
            let run = &mut self.load_to_change(id, number)?.run;
            let place = element_at(run, at)?.start;
            elements::replace(run, place..place, &carried);
            if end < after_last {
                return Ok(()); // one number at the right was free
            }
            carried = take_last(run, after_last + 1 - (number * per).max(start))?;
            (number, at) = (number + 1, 0);
        }
    }

    fn load_to_change(&mut self, id: u64, number: u64) -> Result<&mut Loaded> {
        let loaded = self.load(id, number)?;
        loaded.is_changed = true;
        Ok(loaded)
    }

    /// Removes the element at an index that exists. O(segments up to the nearer end).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn remove(&mut self, index: u64) -> Result<()> {
        self.changed = true;
        let Large { id, start, count, per, .. } = match &mut self.list.form {
            Form::Large(large) => *large,
            Form::Small(run) => {
                let old = element_at(run, index)?;
                run.drain(old);
                return Ok(());
            }
        };
        let (target, is_left) = ((start + index) / per, index < count / 2);
        let first_of = |number: u64| (number * per).max(start);
        // From the nearer end on, an element of each segment moves to the next one.
        let mut number = if is_left { start / per } else { (start + count - 1) / per };
        let mut carried = Vec::new();
        let mut at = start + index - first_of(target);
        while number != target {
            let run = &mut self.load_to_change(id, number)?.run;
            if is_left {
                let count = (number + 1) * per - first_of(number) + u64::from(!carried.is_empty());
                elements::replace(run, 0..0, &carried);
                carried = take_last(run, count)?;
                number += 1;
            } else {
                run.extend_from_slice(&carried);
                carried = take_first(run)?;
                number -= 1;
            }
        }
        let run = &mut self.load_to_change(id, target)?.run;
        let place = if is_left { 0 } else { run.len() };
        elements::replace(run, place..place, &carried);
        at += u64::from(is_left && !carried.is_empty());
        let old = element_at(run, at)?;
        if old.is_empty() {
            return Err(shorter(run, at + 1));
        }
        let old_bytes = run.drain(old).len() as u64;
        if let Form::Large(large) = &mut self.list.form {
            large.bytes = large.bytes.saturating_sub(old_bytes);
            large.count -= 1;
            large.start += u64::from(is_left);
        }
        Ok(())
    }

    /// Replaces `count` elements from `index` on with `new`. O(elements up to the nearer end).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn replace(&mut self, index: u64, count: u64, new: &[Vec<u8>]) -> Result<()> {
        let (before, after) = (index, self.len() - (index + count));
        if before <= after {
            let moved = self.copy_range(0..index)?;
            self.drop_at(End::Left, index + count)?;
            moved.iter().chain(new).rev().try_for_each(|element| self.push(End::Left, element))
        } else {
            let moved = self.copy_range(index + count..u64::MAX)?;
            self.drop_at(End::Right, after + count)?;
            new.iter().chain(&moved).try_for_each(|element| self.push(End::Right, element))
        }
    }

    /// Stores the key's new value, or removes the key if the list is empty. Returns its length.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.store()?;
        let len = self.len();
        if !self.changed {
            return Ok(len);
        }
        let attributes = Attributes { expires_at_ms: self.expires_at_ms, kind: Kind::List, ..Attributes::NONE };
        let value = self.list.encode();
        if len > 0 {
            self.alone.put_collection(self.list.database, self.key, Some((attributes, &value)))?;
        } else if self.was_present {
            self.alone.put_collection(self.list.database, self.key, None)?;
        }
        Ok(len)
    }
}
