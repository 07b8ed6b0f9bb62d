//! Scans over the keys of a database, and keys at random.
//!
//! A scan follows the hash order of the table or the dictionary, so its cursor is a position in that order. A random
//! key is chosen from a part of that order.

use super::clock::now_ms;
use super::{KeySpace, Kind, Result, marks};
use splitpoint::Table;

/// A random key is chosen from a part of the hash space. `RANDOM_PART` is the least average number of keys of a part,
/// `RANDOM_PART_MAX` the number of keys of the fullest part.
const RANDOM_PART: u64 = 8;
const RANDOM_PART_MAX: usize = 64;

impl KeySpace {
    /// A key at random, each about equally likely; `None` if the database is empty.
    ///
    /// Picks a part of the hash space with about `RANDOM_PART` keys, and one of its keys. Parts with fewer keys are
    /// rejected more often, so that their keys are not more likely than others.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn random_key(&self, database: usize) -> Result<Option<Vec<u8>>> {
        /// The most parts to try; with evenly distributed hashes about eight are needed.
        const TRIES: usize = 1000;
        if let Some(dictionary) = self.dictionary_of(database) {
            return self.first_key(database, dictionary.cursor_at(self.random()));
        }
        let Some(table) = self.databases[database].table.load_full() else { return Ok(None) };
        let bits = (table.len() / RANDOM_PART).checked_ilog2().unwrap_or(0);
        for _ in 0..TRIES {
            let keys = self.keys_of_part(database, &table, self.random(), bits)?;
            // If the whole table is one part, it is not rejected.
            let count = if bits == 0 { keys.len() } else { RANDOM_PART_MAX.max(keys.len()) };
            if count == 0 {
                return Ok(None);
            }
            let index = ((u128::from(self.random()) * count as u128) >> u64::BITS) as usize; // below `count`
            if let Some(key) = keys.into_iter().nth(index) {
                return Ok(Some(key));
            }
        }
        // Nearly all keys have expired, or have equal hashes.
        self.first_key(database, self.random() >> 1)
    }

    /// The keys of the part of the hash space given by the first `bits` bits of `prefix`.
    fn keys_of_part(&self, database: usize, table: &Table, prefix: u64, bits: u32) -> Result<Vec<Vec<u8>>> {
        let (now_ms, coding, mut keys) = (now_ms(), self.coding(&self.databases[database]), Vec::new());
        let mut scan = table.scan_prefix(prefix, bits).only_heads(self.databases[database].head_bytes());
        while let Some((stored, head)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored)
                && !coding.decode(head).attributes.expired(now_ms)
            {
                keys.push(key.to_vec());
            }
        }
        Ok(keys)
    }

    /// Returns the first key from a cursor on, or else the first of all.
    fn first_key(&self, database: usize, from: u64) -> Result<Option<Vec<u8>>> {
        for mut cursor in [from, 0] {
            loop {
                let mut found = None;
                cursor = self.scan(database, cursor, 1, now_ms(), |key| {
                    found.get_or_insert_with(|| key.to_vec());
                })?;
                if found.is_some() {
                    return Ok(found);
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Scans from `cursor` on: calls `take` with keys that have not expired, until it has taken `count` or
    /// more and the position can be resumed. Returns the cursor of the next call, 0 at the end.
    ///
    /// A key that is present throughout a whole scan is returned at least once. Cursors have 63 bits, since some
    /// clients store them in signed integers.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn scan(
        &self,
        database: usize,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64> {
        self.scan_typed(database, cursor, count, now_ms, |key, _| take(key))
    }

    /// [`scan`](Self::scan) with the types of the values.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn scan_typed(
        &self,
        database: usize,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut take: impl FnMut(&[u8], Kind),
    ) -> Result<u64> {
        if let Some(dictionary) = self.dictionary_of(database) {
            return Ok(dictionary.scan(cursor, count, |key, _| take(key, Kind::String))?);
        }
        let database = &self.databases[database];
        let Some(table) = database.table.load_full() else { return Ok(0) };
        let coding = self.coding(database);
        let mut scan = table.scan_from(cursor << 1).only_heads(database.head_bytes());
        let mut taken = 0;
        while let Some((stored, head)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored) {
                let attributes = coding.decode(head).attributes;
                if !attributes.expired(now_ms) {
                    take(key, attributes.kind);
                }
            }
            taken += 1;
            if taken >= count && scan.at_boundary() {
                break;
            }
        }
        // At least 1, since 0 would start the scan again; no pair that was returned is before position 2.
        Ok(scan.cursor().map_or(0, |cursor| (cursor >> 1).max(1)))
    }

    /// The client's key for a stored key; `None` for the header pair.
    pub(super) fn key_of<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        if self.in_file() { marks::parse(stored) } else { Some(stored) }
    }
}
