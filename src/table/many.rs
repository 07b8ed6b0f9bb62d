//! Lookups of many keys at a time, their cache misses side by side.
//!
//! A lookup waits for two or three lines of memory, each known only once the one before has come: the slots of its
//! bucket's page, then a record; for one pair in six those of an overflow page between. For one key there is nothing to
//! do meanwhile. For many there is: each step is taken for a whole window of keys, and asks for what the next one needs.
//!
//! ```text
//! 1  hash the key; ask for the state, header and slots of its bucket's page
//! 2  which slots have the tag? ask for the record, or for the slots of the overflow page
//! 3  (overflow pages) which slots have the tag? ask for the record
//! 4  compare and copy the record; was there a change meanwhile? then the ordinary lookup
//! ```
//!
//! Writes of many pairs look ahead in the same way: the page of a pair some places on, then where in it a new record would
//! come. They are made one after the other all the same, each for itself, and wait for the disk once, together.
//!
//! What it costs and gains: docs/benchmarks.md, "Many keys at a time".
//! Not here: the steps themselves, which are those of a single lookup (`peek.rs`).

use super::Table;
use super::chain::Key;
use super::commit::Change;
use super::live;
use super::peek::{Peeked, Sight};
use crate::error::Result;
use crate::pager::log::Lsn;

/// Keys looked up side by side: enough to keep every line buffer of a core busy, few enough to stay in its first cache.
const WINDOW: usize = 32;

impl Table {
    /// The values of `keys`, in their order; `None` for a key that is absent.
    ///
    /// Faster than a [`get`](Self::get) for each: the cache misses of many keys overlap. Each key is looked up by
    /// itself, so beside writers the values need not be of one moment.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// assert_eq!(table.get_many(&["alice", "bob"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get), the first there is.
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keys, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    /// [`get_many`](Self::get_many) without an allocation for each value: gives the number of each key, in order, and
    /// its value to `take`. No latch is held meanwhile, so `take` may use the table.
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
    /// As [`get`](Self::get), the first there is; `take` was given the keys before it.
    pub fn get_many_with(&self, keys: &[impl AsRef<[u8]>], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let mut value = Vec::new();
        for (window, keys) in keys.chunks(WINDOW).enumerate() {
            let mut looked_up = [const { None }; WINDOW];
            let looked_up = &mut looked_up[..keys.len()];
            self.sight_many(keys, looked_up);
            for (index, (key, sight)) in keys.iter().zip(looked_up).enumerate() {
                let found = self.settle(key.as_ref(), sight.as_ref(), &mut value)?;
                take(window * WINDOW + index, found.then_some(&value));
            }
        }
        Ok(())
    }

    /// [`put`](Self::put) for each pair, in their order. Faster than one by one: cache misses overlap, and with
    /// [`Durability::Sync`](crate::Durability) all wait for the disk once.
    ///
    /// Not one change: others see them one by one, and after an error or a crash those up to some pair are there. See
    /// [`batch`](Self::batch) for all or nothing.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put_many(&[("alice", "1"), ("bob", "2")])?;
    /// assert_eq!(table.len(), 2);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`put`](Self::put), the first there is; pairs before it are stored, as durably as if there had been no error. Where
    /// that fails, too, the error is about that, and the handle takes no more writes.
    pub fn put_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.write_many(pairs, |key, value| {
            let change = Change::Put { key: key.bytes, value };
            Ok(self.change_unsynced(key, change, |bucket, place| bucket.set(key, place, value).map(Some))?.1)
        })
    }

    /// [`append`](Self::append) for each pair, in their order, as [`put_many`](Self::put_many) does.
    ///
    /// # Errors
    /// As [`append`](Self::append), the first there is; pairs before it are appended, as with [`put_many`](Self::put_many).
    pub fn append_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.write_many(pairs, |key, tail| {
            let change = Change::Append { key: key.bytes, tail };
            let (_, lsn) = self.change_unsynced(key, change, |bucket, place| match place {
                None => bucket.set(key, None, tail).map(Some),
                Some(place) => bucket.append(key, place, tail).map(Some),
            })?;
            Ok(lsn)
        })
    }

    fn write_many(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        write: impl Fn(Key<'_>, &[u8]) -> Result<Lsn>,
    ) -> Result<()> {
        let mut last = 0;
        let written = self.write_unsynced(pairs, write, &mut last);
        // After an error too: what was stored before it is as safe as the caller may believe.
        self.wait_durable(last)?;
        written
    }

    /// Writes the pairs up to the first error; `last` is the position of the last that was written.
    fn write_unsynced(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        write: impl Fn(Key<'_>, &[u8]) -> Result<Lsn>,
        last: &mut Lsn,
    ) -> Result<()> {
        // Far enough for memory to answer, near enough for the answer to be there still.
        const PAGE_AHEAD: usize = 16;
        const PLACE_AHEAD: usize = 8;
        let mut hashes = [0; PAGE_AHEAD];
        for index in 0..pairs.len() + PAGE_AHEAD {
            let slot = index % PAGE_AHEAD;
            if let Some(index) = index.checked_sub(PAGE_AHEAD) {
                let (key, value) = (pairs[index].0.as_ref(), pairs[index].1.as_ref());
                self.check_lengths(key, value.len())?;
                let key = Key { bytes: key, hash: hashes[slot], tag: super::page::tag(hashes[slot]) };
                *last = write(key, value)?;
            }
            if let Some(pair) = pairs.get(index) {
                hashes[slot] = self.key(pair.0.as_ref()).hash;
                self.prefetch_bucket(hashes[slot]);
            }
            if (PLACE_AHEAD..pairs.len() + PLACE_AHEAD).contains(&index) {
                self.prefetch_overflow(hashes[(index - PLACE_AHEAD) % PAGE_AHEAD]);
            }
        }
        Ok(())
    }

    /// Steps 1 to 3. What could not be seen without a latch is `None`.
    #[inline]
    fn sight_many<'t, 'k>(&'t self, keys: &'k [impl AsRef<[u8]>], looked_up: &mut [Option<(Key<'k>, Sight<'t>)>]) {
        let mut hashes = [0; WINDOW];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = self.key(key.as_ref()).hash;
            self.prefetch_bucket(*hash);
        }
        let mut behind = 0u32;
        for (index, key) in keys.iter().enumerate() {
            let key = Key { bytes: key.as_ref(), hash: hashes[index], tag: super::page::tag(hashes[index]) };
            let Some(sight) = self.sight(key, true) else { continue };
            behind |= u32::from(self.prefetch_sighted(&sight)) << index;
            looked_up[index] = Some((key, sight));
        }
        while behind != 0 {
            if let Some((key, sight)) = &mut looked_up[behind.trailing_zeros() as usize] {
                self.sight_behind(sight, *key);
            }
            behind &= behind - 1;
        }
    }

    /// Step 4: the value of `key` from what was sighted, or by the ordinary lookup.
    #[inline]
    fn settle(&self, key: &[u8], sight: Option<&(Key<'_>, Sight<'_>)>, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if let (Some((key, sight)), false) = (sight, live::is_due()) {
            match self.judge(*key, sight, Some(value)) {
                Peeked::Found => return Ok(true),
                Peeked::Absent => return Ok(false),
                Peeked::Unknown => {}
            }
        }
        self.get_latched(self.key(key), value)
    }
}
