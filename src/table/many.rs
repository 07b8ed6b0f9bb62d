//! Reads and writes of many pairs. Writes prefetch: the page of a later pair, then the place of its new record.
//!
//! The writes are made one after another, each by itself; they wait for the disk once, together. Lookups of many keys
//! overlap more: `buckets/many.rs`.

use super::handle::Table;
use super::wal_record::WalRecord;
use crate::buckets::HashedKey;
use crate::error::Result;
use crate::pager::wal::Lsn;

impl Table {
    /// The values of `keys`, in their order; `None` for a key that is absent.
    ///
    /// Faster than a [`get`](Self::get) for each: the cache misses of many keys overlap. Each key is looked up by
    /// itself, so beside writers the values may be of different moments.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// assert_eq!(table.get_many(&["alice", "bob"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get), the first that occurs.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    /// [`get_many`](Self::get_many) without an allocation for each value: calls `take` with the index of each key, in
    /// order, and its value. No latch is held during the call, so `take` may use the table.
    ///
    /// ```
    /// # let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// let mut found = 0;
    /// table.get_many_with(&["alice", "bob"], |_, value| found += u32::from(value.is_some()))?;
    /// assert_eq!(found, 1);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`get`](Self::get), the first that occurs; `take` was called for the keys before it.
    pub fn get_many_with(&self, keys: &[impl AsRef<[u8]>], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.buckets.get_many(keys, take)
    }

    /// [`put`](Self::put) for each pair, in their order. Faster than one by one: cache misses overlap, and with
    /// [`Durability::Sync`](crate::Durability) all wait for the disk once.
    ///
    /// Not atomic: other threads see the pairs one by one, and after an error or a crash those up to some pair are
    /// stored. For all or nothing see [`batch`](Self::batch).
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put_many(&[("alice", "1"), ("bob", "2")])?;
    /// assert_eq!(table.len(), 2);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`put`](Self::put), the first that occurs; the pairs before it are stored, as durably as without an
    /// error. If making them durable fails, that is the error, and the handle refuses further writes.
    pub fn put_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.write_many(pairs, |key, value| {
            if value.len() >= self.stored_bytes_min
                && let Some(lsn) = self.put_stored(key, value)?
            {
                return Ok(lsn);
            }
            let change = WalRecord::Put { key: key.bytes, value };
            Ok(self.change_unsynced(key, change, |bucket, location| bucket.set(key, location, value).map(Some))?.1)
        })
    }

    /// [`append`](Self::append) for each pair, in their order. Returns the new length of each value. Faster than one
    /// by one, for the reasons of [`put_many`](Self::put_many).
    ///
    /// # Errors
    /// Those of [`append`](Self::append), the first that occurs; the pairs before it are appended.
    pub fn append_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<Vec<usize>> {
        let mut lens = Vec::with_capacity(pairs.len());
        self.write_many(pairs, |key, tail| {
            let mut len = 0;
            let record = WalRecord::Append { key: key.bytes, tail };
            let (_, lsn) = self.change_unsynced(key, record, |bucket, location| {
                bucket.append_or_set(key, location, tail, &mut len).map(Some)
            })?;
            lens.push(len);
            Ok(lsn)
        })?;
        Ok(lens)
    }

    /// [`append_many`](Self::append_many) with a limit for each value: calls `take` with the index of each pair, in
    /// order, and the new length of its value. `None`: that would exceed `len_max(index)`, and nothing was appended.
    /// No latch is held during the calls.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let mut lens = Vec::new();
    /// table.append_many_within(&[("alice", "12"), ("alice", "34"), ("alice", "5")], |_| 3, |_, len| lens.push(len))?;
    /// assert_eq!(lens, [Some(2), None, Some(3)]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`append`](Self::append), the first that occurs; `take` was called for the pairs before it, which are
    /// appended.
    pub fn append_many_within(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        let mut index = 0;
        self.write_many(pairs, |key, tail| {
            let mut len = 0;
            let record = WalRecord::Append { key: key.bytes, tail };
            let (appended, lsn) = self.change_unsynced(key, record, |bucket, location| {
                let before = location.map_or(Ok(0), |at| bucket.value_at(at).map(|(_, len)| len))?;
                if before + tail.len() > len_max(index) {
                    return Ok(None);
                }
                bucket.append_or_set(key, location, tail, &mut len).map(Some)
            })?;
            take(index, appended.then_some(len));
            index += 1;
            Ok(lsn)
        })
    }

    /// [`remove`](Self::remove) for each key, in their order: calls `take` with the index of each and whether it was
    /// present. Faster than one by one, for the reasons of [`put_many`](Self::put_many).
    ///
    /// # Errors
    /// Those of [`remove`](Self::remove), the first that occurs; `take` was called for the keys before it, which are
    /// removed.
    pub fn remove_many_with(&self, keys: &[impl AsRef<[u8]>], mut take: impl FnMut(usize, bool)) -> Result<()> {
        let mut last = 0;
        let remove = |index: usize, key: HashedKey<'_>| {
            let record = WalRecord::Remove { key: key.bytes };
            let (was_present, lsn) = self.change_unsynced(key, record, |bucket, location| match location {
                None => Ok(None),
                Some(location) => bucket.remove(key, location).map(Some),
            })?;
            take(index, was_present);
            Ok(lsn)
        };
        let removed = self.write_unsynced(keys.len(), |index| keys[index].as_ref(), remove, &mut last);
        self.wait_durable(last)?;
        removed
    }

    fn write_many(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        mut write: impl FnMut(HashedKey<'_>, &[u8]) -> Result<Lsn>,
    ) -> Result<()> {
        let mut last = 0;
        let write = |index: usize, key: HashedKey<'_>| {
            let value = pairs[index].1.as_ref();
            self.buckets.check_lengths(key.bytes, value.len())?;
            write(key, value)
        };
        let written = self.write_unsynced(pairs.len(), |index| pairs[index].0.as_ref(), write, &mut last);
        // After an error too: the pairs before it must be as durable as the caller may assume.
        self.wait_durable(last)?;
        written
    }

    /// Writes for each key, up to the first error. `last` becomes the log position of the last write.
    fn write_unsynced<'k>(
        &self,
        count: usize,
        key_at: impl Fn(usize) -> &'k [u8],
        mut write: impl FnMut(usize, HashedKey<'k>) -> Result<Lsn>,
        last: &mut Lsn,
    ) -> Result<()> {
        // Far enough ahead for memory to respond, near enough for the line to be still in the cache.
        const PAGE_AHEAD: usize = 16;
        const PLACE_AHEAD: usize = 8;
        let mut hashes = [0; PAGE_AHEAD];
        for index in 0..count + PAGE_AHEAD {
            let slot = index % PAGE_AHEAD;
            if let Some(index) = index.checked_sub(PAGE_AHEAD) {
                *last = write(index, HashedKey::new(key_at(index), hashes[slot]))?;
            }
            if index < count {
                hashes[slot] = self.buckets.key(key_at(index)).hash;
                self.buckets.prefetch_bucket(hashes[slot]);
            }
            if (PLACE_AHEAD..count + PLACE_AHEAD).contains(&index) {
                self.buckets.prefetch_overflow(hashes[(index - PLACE_AHEAD) % PAGE_AHEAD]);
            }
        }
        Ok(())
    }
}
