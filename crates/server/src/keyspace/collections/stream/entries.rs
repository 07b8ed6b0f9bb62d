//! Entries of a stream: the newest ones in the key's value, all others in the tree.
//!
//! ```text
//! append -> the newest entries -> beyond TAIL_BYTES: all of them become records of the tree
//! ```
//!
//! Entries are the last records of the tree, so the first entry's rank is the number of all other records.

use super::change::StreamMut;
use super::records::{Record, bad_record, entry_of};
use super::{EntryId, Stream, TAIL_BYTES};
use crate::keyspace::Result;
use crate::keyspace::collections::elements;
use crate::keyspace::pairs::Pairs;

impl Stream {
    /// Calls `take` with the entries from one ID to another, each with its fields and values, until it
    /// returns `false`. O(log n + entries).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn for_entries(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (from, to): (EntryId, EntryId),
        is_reverse: bool,
        take: &mut dyn FnMut(EntryId, &[u8]) -> bool,
    ) -> Result<()> {
        if from > to {
            return Ok(());
        }
        let mut pass = |record: &[u8]| -> Result<bool> {
            let (id, fields) = entry_of(record).ok_or_else(|| bad_record("entry"))?;
            Ok(match () {
                () if id < from => !is_reverse,
                () if id > to => is_reverse,
                () => take(id, fields),
            })
        };
        let tail_first = self.tail_first()?;
        let is_in_tree = self.in_tree() > 0 && tail_first.is_none_or(|first| from < first);
        let is_in_tail = tail_first.is_some_and(|first| to >= first);
        let first = self.before_entries();
        for is_tail in [is_reverse, !is_reverse] {
            if is_tail && is_in_tail {
                let mut records: Vec<&[u8]> = elements::iter(&self.tail).collect();
                if is_reverse {
                    records.reverse();
                }
                for record in records {
                    if !pass(record)? {
                        return Ok(());
                    }
                }
            } else if !is_tail && is_in_tree {
                let start = if from == EntryId::MIN { 0 } else { self.rank(pairs, &Record::entry(from).0, false)? };
                let end = if is_reverse { self.rank(pairs, &Record::entry(to).0, true)? } else { self.records };
                let ranks = start.max(first)..end;
                let mut stopped = false;
                self.for_ranks(pairs, ranks, is_reverse, &mut |record| {
                    let goes_on = pass(record)?;
                    stopped |= !goes_on;
                    Ok(goes_on)
                })?;
                if stopped {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The first ID of the newest entries, which are in the key's value.
    fn tail_first(&self) -> Result<Option<EntryId>> {
        let first = elements::iter(&self.tail).next();
        first.map(|record| entry_of(record).map(|(id, _)| id).ok_or_else(|| bad_record("entry"))).transpose()
    }

    /// The ID of the first or the last entry.
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn edge(&self, pairs: &mut (impl Pairs + ?Sized), is_last: bool) -> Result<Option<EntryId>> {
        let mut edge = None;
        self.for_entries(pairs, (EntryId::MIN, EntryId::MAX), is_last, &mut |id, _| {
            edge = Some(id);
            false
        })?;
        Ok(edge)
    }

    /// Whether the entry exists. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn contains(&self, pairs: &mut (impl Pairs + ?Sized), id: EntryId) -> Result<bool> {
        let mut found = false;
        self.for_entries(pairs, (id, id), false, &mut |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// The number of entries before an ID. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn count_before(&self, pairs: &mut (impl Pairs + ?Sized), id: EntryId) -> Result<u64> {
        let first = self.before_entries();
        let before = self.rank(pairs, &Record::entry(id).0, false)?.saturating_sub(first);
        if before < self.in_tree() {
            return Ok(before);
        }
        let mut in_tail = 0;
        for record in elements::iter(&self.tail) {
            let (other, _) = entry_of(record).ok_or_else(|| bad_record("entry"))?;
            in_tail += u64::from(other < id);
        }
        Ok(self.in_tree() + in_tail)
    }
}

impl<'e, 'k> StreamMut<'e, 'k> {
    /// Adds an entry whose ID is greater than all before. Writes one pair, and a leaf of the tree about every kilobyte.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn append<'f>(&mut self, id: EntryId, fields: impl Iterator<Item = &'f [u8]>) -> Result<()> {
        let mut record = Record::entry(id).0;
        fields.for_each(|field| elements::push(&mut record, field));
        elements::push(&mut self.stream.tail, &record);
        self.stream.tail_entries += 1;
        self.stream.entries += 1;
        self.stream.added = self.stream.added.wrapping_add(1);
        self.stream.bytes += record.len() as u64;
        self.stream.last = id;
        if self.stream.tail.len() > TAIL_BYTES {
            let tail = std::mem::take(&mut self.stream.tail);
            self.stream.tail_entries = 0;
            elements::iter(&tail).try_for_each(|record| self.insert(record))?;
        }
        Ok(())
    }

    /// Removes an entry. Returns whether it was there. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn remove_entry(&mut self, id: EntryId) -> Result<bool> {
        let prefix = Record::entry(id).0;
        let bytes = if self.stream.tail_first()?.is_some_and(|first| id >= first) {
            let mut records = elements::iter(&self.stream.tail);
            let (mut start, mut found) = (0, None);
            while let Some(record) = records.next() {
                if record.starts_with(&prefix) {
                    found = Some((start..records.at(), record.len()));
                    break;
                }
                start = records.at();
            }
            let Some((range, bytes)) = found else { return Ok(false) };
            self.stream.tail.drain(range);
            self.stream.tail_entries -= 1;
            bytes
        } else {
            let Some(rest) = self.remove(&prefix)? else { return Ok(false) };
            prefix.len() + rest.len()
        };
        self.stream.entries = self.stream.entries.saturating_sub(1);
        self.stream.bytes = self.stream.bytes.saturating_sub(bytes as u64);
        Ok(true)
    }

    /// Removes the first `count` entries, or all if there are fewer. O(entries + log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn trim(&mut self, count: u64) -> Result<()> {
        let from_tree = count.min(self.stream.in_tree());
        let first = self.stream.before_entries();
        let mut bytes = 0;
        self.remove_ranks(first..first + from_tree, |record| bytes += record.len() as u64)?;
        self.stream.entries -= from_tree;
        let from_tail = (count - from_tree).min(self.stream.tail_entries);
        let mut records = elements::iter(&self.stream.tail);
        for _ in 0..from_tail {
            bytes += records.next().map_or(0, |record| record.len() as u64);
        }
        let end = records.at();
        self.stream.tail.drain(..end);
        self.stream.tail_entries -= from_tail;
        self.stream.entries -= from_tail;
        self.stream.bytes = self.stream.bytes.saturating_sub(bytes);
        Ok(())
    }
}
