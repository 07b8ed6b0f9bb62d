//! Long values of a table in memory get another key, or come in parts, without a copy of the whole.
//!
//! ```text
//! move_value   the record of the new key refers to the extent -> the record of the old key is removed
//! put_parts    a new extent <- part, part, part -> the record of the key refers to it
//! ```
//!
//! Not for tables in a file, whose log has whole values, nor for values in pages, which are short: both functions
//! return `false` and change nothing, and the caller reads and stores the value.

use super::handle::Table;
use super::wal_record::WalRecord;
use crate::buckets::edit::{Edit, EditFn};
use crate::buckets::{Bucket, Delta, HashedKey, PairLocation};
use crate::error::Result;
use std::ops::Range;

impl Table {
    /// Removes `from` and stores its value under `to`, replacing any earlier value. O(1), however long the value is.
    /// Returns `false` and changes nothing if `from` is absent or its value has to be copied.
    ///
    /// Other writers wait. A reader may find the value under both keys.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    #[doc(hidden)] // the server's
    pub fn move_value(&self, from: &[u8], to: &[u8]) -> Result<bool> {
        self.pager.refuse_if_forked()?;
        if self.pager.has_file() || from == to {
            return Ok(false);
        }
        let (from, to) = (self.buckets.key(from), self.buckets.key(to));
        // Without other writers, which could free the extent while two records refer to it.
        let (alone, writer) = self.enter_alone_to_log(WalRecord::Remove { key: from.bytes })?;
        let mut extent = None;
        self.edit_alone(from, &mut |bucket, location| {
            let found = location.map(|location| bucket.value_at(location)).transpose()?;
            extent = found.and_then(|(extent, _)| extent);
            Ok(None)
        })?;
        let Some(extent) = extent.filter(|extent| extent.is_without_key() && self.buckets.keeps_key(to.bytes)) else {
            return Ok(false);
        };
        let set = self.edit_alone(to, &mut |bucket, location| bucket.set_extent(to, location, &extent).map(Some))?;
        let mut remove = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            location.map(|location| bucket.remove_record(from, location)).transpose()
        };
        // Both records refer to the extent, which nothing may free now.
        let removed = self.edit_alone(from, &mut remove).inspect_err(|e| self.pager.poison(e.message()))?;
        drop(alone);
        writer.leave(set + removed, 2, 1);
        Ok(true)
    }

    fn edit_alone(&self, key: HashedKey<'_>, edit: &mut EditFn<'_>) -> Result<Delta> {
        let address = self.buckets.prefetch_bucket(key.hash);
        let edited = self.buckets.latch(key, address)?.edit(key, Edit::With(edit))?;
        Ok(edited.map_or(Delta::default(), |(delta, _)| delta))
    }

    /// Stores under `key` a value of `len` bytes, which `read` appends to its buffer range by range. Returns `false`
    /// and changes nothing if the value has to be stored as a whole, or if `read` appends another number of bytes.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put) and of `read`.
    #[doc(hidden)] // the server's
    pub fn put_parts(
        &self,
        key: &[u8],
        len: usize,
        read: impl FnMut(Range<usize>, &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        self.pager.refuse_if_forked()?;
        self.buckets.check_lengths(key, len)?;
        if self.pager.has_file() {
            return Ok(false);
        }
        let key = self.buckets.key(key);
        let address = self.buckets.prefetch_bucket(key.hash);
        let record = WalRecord::Put { key: key.bytes, value: b"" };
        let writer = self.enter_to_log(|| record.log_bytes())?;
        let Some(extent) = self.buckets.extent_of_parts(key.bytes, len, read)? else { return Ok(false) };
        self.put_extent(writer, key, address, record, &extent).map(|_| true)
    }
}

#[cfg(test)]
mod tests {
    use crate::error::{Error, ErrorKind};
    use crate::table::{Table, TableOptions};
    use std::collections::BTreeMap;

    fn value(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * 31 + seed) as u8).collect()
    }

    #[test]
    fn values_of_any_length_get_another_key_and_none_is_lost() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        let mut model = BTreeMap::new();
        let long_key = vec![b'k'; 3000];
        let keys: Vec<Vec<u8>> = (0..40).map(|n| format!("key {n}").into_bytes()).chain([long_key]).collect();
        let mut moves = 0;
        for step in 0..2000usize {
            let (from, to) = (&keys[step * 7 % keys.len()], &keys[step * 13 % 31]);
            let len = [0, 40, 400, 5_000, 70_000][step % 5];
            table.put(from, &value(step, len)).unwrap();
            model.insert(from.clone(), value(step, len));
            let is_long = from != to && len >= 400 && from.len() < 3000;
            assert_eq!(table.move_value(from, to).unwrap(), is_long, "step {step}");
            if is_long {
                let moved = model.remove(from).unwrap();
                model.insert(to.clone(), moved);
                moves += 1;
            }
            assert!(!table.move_value(b"absent", to).unwrap());
            // A long key needs an extent with the key.
            assert!(!table.move_value(to, &keys[40]).unwrap());
            if step % 100 == 0 {
                assert!(table.verify().unwrap().is_empty());
            }
        }
        assert!(moves > 800);
        assert_eq!(table.len(), model.len() as u64);
        let payload: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!(table.counters().payload_bytes, payload as u64);
        for (key, value) in model {
            assert!(table.get(&key).unwrap().unwrap() == value);
            table.remove(&key).unwrap();
        }
        assert_eq!(table.verify().unwrap(), []);
        // The memory of moved values is free.
        assert!(table.usage().used_bytes < 1 << 20, "{}", table.usage().used_bytes);
    }

    #[test]
    fn a_value_in_parts_is_the_value_or_nothing() {
        let (table, source) = (Table::in_memory().unwrap(), Table::in_memory().unwrap());
        let (whole, long_key) = (value(3, 1_000_000), vec![b'k'; 60_000]);
        source.put(b"from", &whole).unwrap();
        for key in [b"to".as_slice(), &long_key] {
            for len in [1_000_000, 70_001, 70_000] {
                let read = |range, part: &mut Vec<u8>| source.get_part(b"from", |_| range, part).map(drop);
                assert!(table.put_parts(key, len, read).unwrap());
                assert!(table.get(key).unwrap().unwrap() == whole[..len]);
            }
            // Too few bytes, and an error: the value stays.
            assert!(
                !table
                    .put_parts(key, 1_000_001, |range, part| { source.get_part(b"from", |_| range, part).map(drop) })
                    .unwrap()
            );
            let fails = || Error::new(ErrorKind::Io, "the other disk fails");
            assert_eq!(table.put_parts(key, 200_000, |_, _| Err(fails())).unwrap_err().kind(), ErrorKind::Io);
            assert!(table.get(key).unwrap().unwrap() == whole[..70_000]);
        }
        assert!(!table.put_parts(b"short", 3, |_, _| panic!("it is stored as a whole")).unwrap());
        assert_eq!(table.len(), 2);
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn a_file_logs_whole_values() {
        let folder = tempfile::tempdir().unwrap();
        let table = Table::open(folder.path().join("t")).unwrap();
        table.put(b"a", &value(1, 100_000)).unwrap();
        assert!(!table.move_value(b"a", b"b").unwrap());
        assert!(!table.put_parts(b"b", 100_000, |_, _| panic!("it is stored as a whole")).unwrap());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn values_that_move_meet_readers_and_writers() {
        let table = Table::in_memory().unwrap();
        let values: Vec<Vec<u8>> = (0..4).map(|seed| vec![seed as u8 + 1; 200_000]).collect();
        let is_whole = |value: &[u8]| value.iter().all(|byte| *byte == value[0]);
        table.put(b"a", &values[0]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        table.move_value(b"a", b"b").unwrap();
                        table.move_value(b"b", b"a").unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..300 {
                    table.put([b"a", b"b"][round % 2], &values[round % 4]).unwrap();
                }
            });
            for _ in 0..600 {
                for key in [b"a", b"b"] {
                    assert!(table.get(key).unwrap().is_none_or(|value| value.len() == 200_000 && is_whole(&value)));
                }
            }
        });
        assert_eq!(table.verify().unwrap(), []);
    }
}
