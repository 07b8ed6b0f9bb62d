//! Reads and writes of many pairs. Writes prefetch: the page of a later pair, then the place of its new record.
//!
//! The writes are made one after another, each by itself; they wait for the disk once, together. Lookups of many keys
//! overlap more: `buckets/many.rs`.

use super::handle::Table;
use super::stored::STORED_BYTES_MIN;
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
            if value.len() >= STORED_BYTES_MIN
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

    fn write_many(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        write: impl FnMut(HashedKey<'_>, &[u8]) -> Result<Lsn>,
    ) -> Result<()> {
        let mut last = 0;
        let written = self.write_unsynced(pairs, write, &mut last);
        // After an error too: the pairs before it must be as durable as the caller may assume.
        self.wait_durable(last)?;
        written
    }

    /// Writes the pairs up to the first error. `last` becomes the log position of the last one written.
    fn write_unsynced(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        mut write: impl FnMut(HashedKey<'_>, &[u8]) -> Result<Lsn>,
        last: &mut Lsn,
    ) -> Result<()> {
        // Far enough ahead for memory to respond, near enough for the line to be still in the cache.
        const PAGE_AHEAD: usize = 16;
        const PLACE_AHEAD: usize = 8;
        let mut hashes = [0; PAGE_AHEAD];
        for index in 0..pairs.len() + PAGE_AHEAD {
            let slot = index % PAGE_AHEAD;
            if let Some(index) = index.checked_sub(PAGE_AHEAD) {
                let (key, value) = (pairs[index].0.as_ref(), pairs[index].1.as_ref());
                self.buckets.check_lengths(key, value.len())?;
                let key = HashedKey::new(key, hashes[slot]);
                *last = write(key, value)?;
            }
            if let Some(pair) = pairs.get(index) {
                hashes[slot] = self.buckets.key(pair.0.as_ref()).hash;
                self.buckets.prefetch_bucket(hashes[slot]);
            }
            if (PLACE_AHEAD..pairs.len() + PLACE_AHEAD).contains(&index) {
                self.buckets.prefetch_overflow(hashes[(index - PLACE_AHEAD) % PAGE_AHEAD]);
            }
        }
        Ok(())
    }
}
