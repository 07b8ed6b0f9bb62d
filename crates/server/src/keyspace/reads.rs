//! Lookups, whatever the entry to the key space: the record of a key, what is known about it, a part of its value.

use super::record::{Coding, HEAD_BYTES_MAX};
use super::{Attributes, Clock, Database, KeySpace, Kind, Record, Result, SpaceError, marks};
use crate::dictionary::Served;
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

/// What is known about a key without reading a large value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) attributes: Attributes,
    /// The length of the head in front of the value.
    pub(super) head_bytes: usize,
    /// The length of the client's value.
    pub(super) len: usize,
}

impl Known {
    /// Fails if the value is a collection.
    pub(super) fn refuse_collection(&self) -> Result<()> {
        if self.attributes.kind == Kind::String { Ok(()) } else { Err(SpaceError::WrongType) }
    }
}

impl KeySpace {
    /// The records of `keys`, in their order; `None` for absent and expired ones.
    #[inline]
    pub(super) fn read_many(
        &self,
        database: &Database,
        keys: &[&[u8]],
        clock: &Clock,
        mut take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            if let Some(dictionary) = self.dictionary.as_ref().filter(|_| std::ptr::eq(database, &self.databases[0])) {
                return read_dictionary(dictionary, keys, |index, value| take(index, value.map(Coding::of_plain)));
            }
            (0..keys.len()).for_each(|index| take(index, None));
            return Ok(());
        };
        self.memory.note_use(keys, clock);
        let coding = self.coding(database);
        let mut take = |index: usize, stored: Option<&[u8]>| {
            let record = stored
                .map(|stored| coding.decode(stored))
                .filter(|record| record.attributes.expires_at_ms == 0 || !record.attributes.expired(clock.now_ms()));
            take(index, record);
        };
        if self.in_file() && keys.iter().any(|key| marks::is_marked(key)) {
            return keys.iter().enumerate().try_for_each(|(index, key)| {
                take(index, table.get(&marks::of_key(key))?.as_deref());
                Ok(())
            });
        }
        if let [key] = keys {
            return with_scratch(|value| {
                let found = table.get_into(key, value)?;
                take(0, found.then_some(value));
                Ok(())
            });
        }
        Ok(table.get_many_with(keys, take)?)
    }

    /// What is known about `key`, expired or not; `None` if it is absent. Does not count as a use of the key.
    pub(super) fn known(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<Option<Known>> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            let mut len = None;
            self.read_many(database, &[key], clock, |_, record| len = record.map(|record| record.value.len()))?;
            return Ok(len.map(|len| Known { attributes: Attributes::NONE, head_bytes: 0, len }));
        };
        // Most values are short; of longer ones only the head is read.
        let (stored, mut short) = (self.stored(key), [0; 4 * HEAD_BYTES_MAX]);
        match table.get_to(&stored, &mut short)? {
            None => return Ok(None),
            Some(len) if len <= short.len() => return Ok(Some(self.known_of(database, &short[..len], len))),
            Some(len) if self.coding(database) == Coding::Plain => {
                return Ok(Some(Known { attributes: Attributes::NONE, head_bytes: 0, len }));
            }
            Some(_) => {}
        }
        with_scratch(|head| {
            let len = table.get_part(&stored, |len| 0..len.min(HEAD_BYTES_MAX), head)?;
            Ok(len.map(|len| self.known_of(database, head, len)))
        })
    }

    /// What is known about a key from the first bytes of its stored value, and its length.
    pub(super) fn known_of(&self, database: &Database, head: &[u8], len: usize) -> Known {
        let Record { attributes, value } = self.coding(database).decode(head);
        let head_bytes = head.len() - value.len();
        Known { attributes, head_bytes, len: len - head_bytes }
    }

    /// [`known`](Self::known) of a key that has not expired.
    pub(super) fn known_now(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<Option<Known>> {
        let is_now = |known: &Known| known.attributes.expires_at_ms == 0 || !known.attributes.expired(clock.now_ms());
        Ok(self.known(database, key, clock)?.filter(is_now))
    }

    /// Converts `key` to its stored key.
    pub(super) fn stored<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        if self.in_file() { marks::of_key(key) } else { key.into() }
    }

    /// The length of the value of `key`, and a part of the value: `choose` gets the length and returns the range.
    pub(super) fn read_part(
        &self,
        database: &Database,
        key: &[u8],
        clock: &Clock,
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        part.clear();
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            let (mut choose, mut len) = (Some(choose), None);
            self.read_many(database, &[key], clock, |_, record| {
                let (Some(record), Some(choose)) = (record, choose.take()) else { return };
                let range = choose(record.value.len());
                part.extend_from_slice(cut(record.value, range));
                len = Some(record.value.len());
            })?;
            return Ok(len);
        };
        let Some(mut known) = self.known_now(database, key, clock)? else { return Ok(None) };
        known.refuse_collection()?;
        let mut choose = Some(choose);
        let mut range = 0..0;
        loop {
            let Known { head_bytes, len, .. } = known;
            if let Some(choose) = choose.take() {
                range = choose(len);
            }
            let within = head_bytes + range.start..head_bytes + range.end;
            let now_len = table.get_part(&self.stored(key), |_| within, part)?;
            // Another thread may have given the value a head of another length between the two lookups.
            let Some(again) = self.known_now(database, key, clock)? else {
                part.clear();
                return Ok(None);
            };
            if again.head_bytes == head_bytes && now_len == Some(head_bytes + len) {
                return Ok(Some(len));
            }
            known = again;
            // The range was chosen for another length: cut it to the new value.
            range.end = range.end.min(known.len);
            range.start = range.start.min(range.end);
        }
    }
}

/// The part of `value` within `range`.
pub(super) fn cut(value: &[u8], range: Range<usize>) -> &[u8] {
    &value[range.start.min(value.len())..range.end.clamp(range.start, usize::MAX).min(value.len())]
}

fn read_dictionary(dictionary: &Served, keys: &[&[u8]], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
    if let [key] = keys {
        return with_scratch(|value| {
            let found = dictionary.get_into(key, value)?;
            take(0, found.then_some(value));
            Ok(())
        });
    }
    Ok(dictionary.get_many_with(keys, take)?)
}

/// Lends a buffer that keeps its capacity between calls on this thread.
#[inline]
pub(super) fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! { static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) } }
    // The capacity for a large value is freed.
    const KEPT_BYTES: usize = 1 << 16;
    let mut buffer = SCRATCH.take();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES {
        SCRATCH.set(buffer);
    }
    result
}
