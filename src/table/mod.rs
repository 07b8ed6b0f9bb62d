//! The table: what users hold. It adds durability, batches and backups to the buckets.
//!
//! ```text
//! put(k, v)   enter -> latch the bucket -> change it -> log the change, under the latch -> leave: count it, and
//!             split or merge if due                                                  (writer.rs, buckets/edit.rs)
//! get(k)      Buckets::get: no gate, no log
//! open        Pager::open takes the last checkpoint -> replay the log with put, append, remove (open.rs)
//! ```
//!
//! Source: Seltzer & Yigit 1991. Not here: pages and buckets (`buckets`), frames, blocks, the log's bytes
//! (`pager`).

mod backup;
mod batch;
mod changes;
mod checkpoint;
mod codec;
mod compact;
mod counters;
mod deferred;
mod edits;
mod entry;
mod follower;
mod gate;
mod handle;
mod iterate;
mod long_values;
mod many;
mod open;
mod options;
mod parts;
mod publish;
mod replay;
mod stored;
#[cfg(test)]
mod tests;
mod typed;
mod types;
mod usage;
mod view;
mod wal_record;
mod writer;

use crate::buckets::address::BucketAddress;
use crate::buckets::edit::{Edit, EditFn};
use crate::buckets::{Bucket, Delta, HashedKey, Located, PairLocation, Scan, TableSurvey, ValueRef};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::fault::Fault;
use crate::linear;
use crate::pager::pool::refuse_to_wait_with_values;
use crate::pager::wal::{Lsn, Short};
pub use backup::Backup;
pub use batch::Batch;
pub use codec::Codec;
#[cfg(feature = "serde")]
pub use codec::Json;
pub use counters::TableCounters;
pub use edits::{KeyEdit, OldValue};
pub use entry::Entry;
pub use follower::Follower;
pub use handle::Table;
pub use iterate::{Keys, Values};
pub use options::{Durability, TableOptions};
pub use publish::PublishedCounters;
use std::ops::ControlFlow;
pub use typed::{TypedPairs, TypedTable};
pub use usage::TableUsage;
pub use view::WriteView;
use wal_record::WalRecord;
use writer::{Writer, Written};

impl Table {
    /// Returns the value of `key`.
    ///
    /// O(1): one page, and one more for pairs in overflow pages and extents. Never waits for a sync: it may return
    /// another thread's write that is not durable yet.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
    /// assert_eq!(table.get(b"bob")?, None);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Corrupt`] if the page must be read from the file.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Copies the value of `key` to `value`, replacing its content. Returns `false`, with an empty `value`, if the key
    /// is absent.
    ///
    /// Allocates only if `value` is too small.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// let mut value = Vec::new(); // used again for each lookup
    /// assert!(table.get_into(b"alice", &mut value)? && value == b"admin");
    /// assert!(!table.get_into(b"bob", &mut value)? && value.is_empty());
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        self.buckets.get(self.buckets.key(key), value)
    }

    /// [`get_into`](Self::get_into) that never waits for the disk or a latch. Returns `None`, with an empty `value`, if
    /// it might have to wait. For callers that hold their own lock during the lookup: most lookups in a table in memory
    /// succeed.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// let mut value = Vec::new();
    /// let found = match table.get_ready(b"alice", &mut value) {
    ///     Some(found) => found,
    ///     None => table.get_into(b"alice", &mut value)?,
    /// };
    /// assert!(found && value == b"1");
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    #[inline]
    #[doc(hidden)] // the Python package's
    pub fn get_ready(&self, key: &[u8], value: &mut Vec<u8>) -> Option<bool> {
        value.clear();
        self.buckets.get_ready(self.buckets.key(key), value)
    }

    /// Copies the value of `key` to the start of `buffer`, and returns its length; `None` if the key is absent. If the
    /// value is longer than the buffer, the buffer's content is unspecified.
    ///
    /// Allocates only for values in extents, for pairs after more than one overflow page, and for one lookup in 512.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// let mut buffer = [0; 8];
    /// assert_eq!(table.get_to(b"alice", &mut buffer)?, Some(5));
    /// assert_eq!(&buffer[..5], b"admin");
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    #[inline]
    pub fn get_to(&self, key: &[u8], buffer: &mut [u8]) -> Result<Option<usize>> {
        self.buckets.get_to(self.buckets.key(key), buffer)
    }

    /// Returns the value of `key`, borrowed from its page; a value in an extent is copied.
    ///
    /// While the [`ValueRef`] lives, writers of its bucket wait. A write of this thread that would have to wait
    /// returns [`ErrorKind::WouldDeadlock`].
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"numbers", &[1, 2, 3])?;
    /// let sum: u8 = table.get_ref(b"numbers")?.map_or(0, |numbers| numbers.iter().sum());
    /// assert_eq!(sum, 6);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_ref(&self, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        self.buckets.get_ref(self.buckets.key(key))
    }

    /// Returns whether `key` is present.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"")?;
    /// assert!(table.contains(b"alice")? && !table.contains(b"bob")?);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.buckets.contains(self.buckets.key(key))
    }

    /// Stores `value` under `key`, replacing any earlier value.
    ///
    /// O(1): one page, and for large pairs an extent; may split one bucket.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"guest")?;
    /// table.put(b"alice", b"admin")?;
    /// assert_eq!((table.len(), table.get(b"alice")?.as_deref()), (1, Some(&b"admin"[..])));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] above [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) or [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX);
    /// [`ErrorKind::ReadOnly`]; [`ErrorKind::DiskFull`] and [`ErrorKind::Busy`], with nothing changed;
    /// [`ErrorKind::Io`] and [`ErrorKind::Corrupt`] if a page must be read from the file; [`ErrorKind::Poisoned`] after
    /// a failed checkpoint, unless the disk had no room for it and it did not begin.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let lsn = self.put_unsynced(key, value)?;
        self.wait_durable(lsn)
    }

    #[inline(always)]
    pub(super) fn put_unsynced(&self, key: &[u8], value: &[u8]) -> Result<Lsn> {
        self.buckets.check_lengths(key, value.len())?;
        let key = self.buckets.key(key);
        if value.len() >= self.stored_bytes_min
            && let Some(lsn) = self.put_stored(key, value)?
        {
            return Ok(lsn);
        }
        let put = WalRecord::Put { key: key.bytes, value };
        self.write_unsynced(key, put, Edit::Set(value)).map(|written| written.lsn)
    }

    /// Stores `value` under `key` and returns the earlier value.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.replace(b"alice", b"guest")?, None);
    /// assert_eq!(table.replace(b"alice", b"admin")?.as_deref(), Some(&b"guest"[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.replace_as(self.durability, key, value)
    }

    pub(super) fn replace_as(&self, asked: Durability, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.buckets.check_lengths(key, value.len())?;
        let key = self.buckets.key(key);
        let mut old = None;
        let mut replace = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            old = location.map(|location| bucket.value(location)).transpose()?;
            bucket.set(key, location, value).map(Some)
        };
        self.write_with(asked, key, WalRecord::Put { key: key.bytes, value }, &mut replace)?;
        Ok(old)
    }

    /// Stores `value` under `key` if the key is absent. Returns whether it stored the value.
    ///
    /// With [`Durability::Sync`] both answers are durable: the earlier value may come from another thread whose sync is
    /// still in flight, so `false` waits for it too. The same holds for [`remove`](Self::remove) and
    /// [`compare_and_set`](Self::compare_and_set).
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert!(table.insert_new(b"alice", b"first")?);
    /// assert!(!table.insert_new(b"alice", b"second")?);
    /// assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"first"[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.insert_new_as(self.durability, key, value)
    }

    pub(super) fn insert_new_as(&self, asked: Durability, key: &[u8], value: &[u8]) -> Result<bool> {
        self.buckets.check_lengths(key, value.len())?;
        let key = self.buckets.key(key);
        let mut insert = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| match location {
            Some(_) => Ok(None),
            None => bucket.set(key, None, value).map(Some),
        };
        self.write_with(asked, key, WalRecord::Put { key: key.bytes, value }, &mut insert)
    }

    /// The value of `key`, or `value`, which is stored if the key is absent.
    pub(super) fn get_or_insert_as(&self, asked: Durability, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        self.buckets.check_lengths(key, value.len())?;
        let key = self.buckets.key(key);
        let mut old = None;
        let mut insert = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| match location {
            Some(location) => {
                old = Some(bucket.value(location)?);
                Ok(None)
            }
            None => bucket.set(key, None, value).map(Some),
        };
        self.write_with(asked, key, WalRecord::Put { key: key.bytes, value }, &mut insert)?;
        Ok(old.unwrap_or_else(|| value.to_vec()))
    }

    /// Removes `key` and returns its value.
    pub(super) fn take_as(&self, asked: Durability, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.buckets.key(key);
        let mut old = None;
        let mut take = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            let Some(location) = location else { return Ok(None) };
            old = Some(bucket.value(location)?);
            bucket.remove(key, location).map(Some)
        };
        self.write_with(asked, key, WalRecord::Remove { key: key.bytes }, &mut take)?;
        Ok(old)
    }

    /// Appends `tail` to the value of `key`; an absent key counts as an empty value. Returns the new length of the
    /// value.
    ///
    /// O(length of `tail`), amortized: a value in an extent moves when it outgrows its room, to room that is a quarter
    /// larger than needed.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.append(b"log", b"in;")?, 3);
    /// assert_eq!(table.append(b"log", b"out;")?, 7);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put); [`ErrorKind::TooLong`] also if the resulting value would be longer than
    /// [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    pub fn append(&self, key: &[u8], tail: &[u8]) -> Result<usize> {
        let (len, lsn) = self.append_unsynced(key, tail)?;
        self.wait_durable(lsn)?;
        Ok(len)
    }

    #[inline(always)]
    pub(super) fn append_unsynced(&self, key: &[u8], tail: &[u8]) -> Result<(usize, Lsn)> {
        self.buckets.check_lengths(key, tail.len())?;
        let key = self.buckets.key(key);
        let append = Edit::Append { tail, len_max: usize::MAX };
        let written = self.write_unsynced(key, WalRecord::Append { key: key.bytes, tail }, append)?;
        Ok((written.answer, written.lsn))
    }

    /// Removes `key` and its value. Returns whether it was present.
    ///
    /// O(1); may merge two buckets, so that a table shrinks when most of its pairs are removed.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// assert!(table.remove(b"alice")? && !table.remove(b"alice")?);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let (removed, lsn) = self.remove_unsynced(key)?;
        self.wait_durable(lsn)?;
        Ok(removed)
    }

    #[inline(always)]
    pub(super) fn remove_unsynced(&self, key: &[u8]) -> Result<(bool, Lsn)> {
        let key = self.buckets.key(key);
        let written = self.write_unsynced(key, WalRecord::Remove { key: key.bytes }, Edit::Remove)?;
        Ok((written.changed, written.lsn))
    }

    /// Compares the value of `key` with `expected` and, if they are equal, stores `new`; `None` stands for an absent
    /// key. Returns whether they were equal.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert!(table.compare_and_set(b"lock", None, Some(b"mine"))?); // taken
    /// assert!(!table.compare_and_set(b"lock", None, Some(b"yours"))?);
    /// assert!(table.compare_and_set(b"lock", Some(b"mine"), None)?); // released
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn compare_and_set(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        let (equal, lsn) = self.compare_and_set_unsynced(key, expected, new)?;
        self.wait_durable(lsn).map(|()| equal)
    }

    pub(super) fn compare_and_set_unsynced(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<(bool, Lsn)> {
        self.set_if_equal(self.buckets.key(key), expected, new, None)
    }

    /// [`compare_and_set`](Self::compare_and_set) of a pair that is likely where it was `located` with that value: then
    /// it is neither searched nor compared.
    fn set_if_equal(
        &self,
        key: HashedKey<'_>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        located: Option<&Located<'_>>,
    ) -> Result<(bool, Lsn)> {
        let record = match new {
            Some(value) => {
                self.buckets.check_lengths(key.bytes, value.len())?;
                WalRecord::Put { key: key.bytes, value }
            }
            None => WalRecord::Remove { key: key.bytes },
        };
        let mut equal = true;
        let set = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| match (new, location) {
            (Some(new), _) => bucket.set(key, location, new).map(Some),
            (None, Some(location)) => bucket.remove(key, location).map(Some),
            (None, None) => Ok(None),
        };
        let mut set_if_equal = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            equal = bucket.value_equals(location, expected)?;
            if equal { set(bucket, location) } else { Ok(None) }
        };
        let address = self.buckets.prefetch_bucket(key.hash);
        let mut writer = self.enter_to_log(|| record.log_bytes())?;
        let mut place = Short::new();
        let short = writer.put_together(record, &mut place);
        let mut bucket = self.buckets.latch(key, address)?;
        let delta = match located {
            Some(located) if bucket.primary.is_unchanged_since(located.frame) => {
                set(&mut bucket.bucket(), located.location)?
            }
            _ => bucket.edit(key, Edit::With(&mut set_if_equal))?.map(|(delta, _)| delta),
        };
        let Some(delta) = delta else { return Ok((equal, self.position_seen())) };
        let lsn = writer.log_last(record, short)?;
        drop(bucket);
        writer.leave(delta, 1, usize::from(record.is_removal()));
        Ok((equal, lsn))
    }

    /// Calls `f` with the value of `key`, or `None`, and stores what it returns; `None` removes the key. Returns
    /// whether the key is present afterwards.
    ///
    /// No latch is held while `f` runs, so it may use the table and may panic. It is called again if another thread
    /// changed the value in the meantime.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// for _ in 0..3 {
    ///     table.update(b"visits", |count| Some(vec![count.map_or(0, |count| count[0]) + 1]))?;
    /// }
    /// assert_eq!(table.get(b"visits")?, Some(vec![3]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn update(&self, key: &[u8], f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<bool> {
        let (is_present, lsn) = self.update_unsynced(key, f)?;
        self.wait_durable(lsn).map(|()| is_present)
    }

    pub(super) fn update_unsynced(
        &self,
        key: &[u8],
        mut f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(bool, Lsn)> {
        let key = self.buckets.key(key);
        let mut value = Vec::new();
        loop {
            value.clear();
            let located = self.buckets.get_located(key, &mut value)?;
            let old = located.location.map(|_| &value[..]);
            let new = f(old);
            if let (true, lsn) = self.set_if_equal(key, old, new.as_deref(), Some(&located))? {
                return Ok((new.is_some(), lsn));
            }
        }
    }

    /// Makes one write with a closure as the edit, which is as durable as `asked` when it returns. Returns whether it
    /// changed anything; if not, once the writes on which that depends are durable.
    #[inline(never)]
    fn write_with(
        &self,
        asked: Durability,
        key: HashedKey<'_>,
        record: WalRecord<'_>,
        edit: &mut EditFn<'_>,
    ) -> Result<bool> {
        let written = self.write_unsynced(key, record, Edit::With(edit))?;
        self.wait_as(written.lsn, asked).map(|()| written.changed)
    }

    /// Makes one write without waiting for the disk.
    #[inline(always)]
    fn write_unsynced(&self, key: HashedKey<'_>, record: WalRecord<'_>, edit: Edit<'_>) -> Result<Written> {
        // Fetch the page early, while the previous write's stores are still in flight.
        let address = self.buckets.prefetch_bucket(key.hash);
        let writer = self.enter_to_log(|| record.log_bytes())?;
        if matches!(edit, Edit::Set(_)) && writer.inside.take_added() {
            self.buckets.prefetch_expected(address.bucket);
        }
        self.write_inside(writer, key, address, record, edit)
    }

    /// [`write_unsynced`](Self::write_unsynced) by a writer that has entered. `address` is that of the bucket.
    #[inline(always)]
    fn write_inside(
        &self,
        mut writer: Writer<'_>,
        key: HashedKey<'_>,
        address: BucketAddress<'_>,
        record: WalRecord<'_>,
        edit: Edit<'_>,
    ) -> Result<Written> {
        let Some((delta, answer, lsn)) = self.edit_and_log(&mut writer, key, address, record, edit)? else {
            return Ok(Written { changed: false, answer: 0, lsn: self.position_seen() });
        };
        writer.leave(delta, 1, usize::from(record.is_removal()));
        Ok(Written { changed: true, answer, lsn })
    }

    /// Makes a change and logs it; the writer stays inside. Returns `None` if nothing changed.
    #[inline(always)]
    fn edit_and_log(
        &self,
        writer: &mut Writer<'_>,
        key: HashedKey<'_>,
        address: BucketAddress<'_>,
        record: WalRecord<'_>,
        edit: Edit<'_>,
    ) -> Result<Option<(Delta, usize, Lsn)>> {
        let mut place;
        let short = if writer.logs() {
            place = Short::new();
            writer.put_together(record, &mut place)
        } else {
            None
        };
        let mut bucket = self.buckets.latch(key, address)?;
        let Some((delta, answer)) = bucket.edit(key, edit)? else { return Ok(None) };
        Ok(Some((delta, answer, writer.log_last(record, short)?)))
    }

    /// Returns whether the table has no pairs. Free.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all pairs and frees their space.
    ///
    /// O(buckets). Other writers wait. A reader may find one pair removed and another still present.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// table.clear()?;
    /// assert!(table.is_empty());
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`], with nothing changed, while this thread holds a value. The errors of
    /// [`remove`](Self::remove), after which some pairs may be removed, and the handle refuses further writes; the next
    /// open finds the table unchanged.
    pub fn clear(&self) -> Result<()> {
        self.clear_as(self.durability)
    }

    pub(super) fn clear_as(&self, asked: Durability) -> Result<()> {
        // The value's own bucket could not be cleared after others were.
        refuse_to_wait_with_values()?;
        let lsn = {
            let (_alone, mut writer) = self.enter_alone_to_log(WalRecord::Clear)?;
            for number in (0..=self.buckets.view().max_bucket()).rev() {
                // A cleared bucket cannot be restored, and the log has no record of it yet.
                let delta = self.buckets.clear_bucket(number).inspect_err(|e| self.pager.poison(e.message()))?;
                writer.inside.count(delta, (0, 0), self.buckets.load());
            }
            writer.log(WalRecord::Clear)?
        };
        {
            let _inside = self.enter_anyway()?;
            while self.buckets.merge_within_fill(self.gate.totals())? {}
        }
        self.wait_as(lsn, asked)
    }

    /// Scans all pairs, bucket by bucket; pairs within a bucket have no particular order.
    ///
    /// A key that is present throughout the scan is returned exactly once; one that is added or removed during it, at
    /// most once. This is the fastest scan; it can be resumed between two buckets. For hash order, or to stop after any
    /// pair, use [`scan_from`](Self::scan_from).
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put_many(&[(b"a", b"1"), (b"b", b"2")])?;
    /// let (mut scan, mut bytes) = (table.scan(), 0);
    /// while let Some((key, value)) = scan.next_ref()? {
    ///     bytes += key.len() + value.len(); // both are borrowed
    /// }
    /// assert_eq!(bytes, 4);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn scan(&self) -> Scan<'_> {
        self.buckets.scan()
    }

    /// Scans the pairs in hash order from `cursor` on: a value of [`Scan::cursor`] from this or an earlier run, or 0
    /// for the beginning.
    ///
    /// The guarantees of [`scan`](Self::scan) for keys that stay, are added or are removed hold across all runs.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// for i in 0..100u8 {
    ///     table.put(&[i], b"")?;
    /// }
    /// let mut scan = table.scan_from(0);
    /// let first: Vec<_> = scan.by_ref().take(30).collect();
    /// let cursor = scan.cursor().expect("it is not at the end"); // to be kept, also across restarts
    /// assert_eq!(first.len() + table.scan_from(cursor).count(), 100);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn scan_from(&self, cursor: u64) -> Scan<'_> {
        self.buckets.scan_from(linear::Position(cursor), None)
    }

    /// Scans the pairs whose positions in hash order start with the high `bits` bits of `prefix`: one of 2^`bits`
    /// parts of the table, which different threads or machines can scan.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// for i in 0..100u8 {
    ///     table.put(&[i], b"")?;
    /// }
    /// let parts = (0..4u64).map(|part| table.scan_prefix(part << 62, 2).count());
    /// assert_eq!(parts.sum::<usize>(), 100);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn scan_prefix(&self, prefix: u64, bits: u32) -> Scan<'_> {
        let rest = u64::MAX.checked_shr(bits).unwrap_or(0);
        self.buckets.scan_from(linear::Position(prefix & !rest), Some(linear::Position(prefix | rest)))
    }

    /// Walks all buckets and measures the table. If other threads write, the figures mix several moments.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// let survey = table.survey()?;
    /// assert_eq!((survey.pairs, survey.payload_bytes), (1, 10));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn survey(&self) -> Result<TableSurvey> {
        self.survey_while(|| ControlFlow::Continue(()))
    }

    /// [`survey`](Self::survey) that calls `proceed` at every bucket; `proceed` may stop it.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get); [`ErrorKind::Stopped`].
    #[doc(hidden)] // the Python package's
    pub fn survey_while(&self, proceed: impl Fn() -> ControlFlow<()>) -> Result<TableSurvey> {
        self.buckets.survey(self.gate.totals(), &proceed)
    }

    /// Reads everything and reports every fault: checksums that do not match, pages that contradict themselves, pairs
    /// in the wrong bucket or present twice, space that is used twice or belongs to nothing, wrong totals.
    ///
    /// Writers wait. Memory: 8 bytes per frame, so 1/500 of a file with frames of 4 KiB, and 5 MiB.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// assert!(table.verify()?.is_empty());
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// Only what ends the walk: [`ErrorKind::Io`] if something cannot be read, and [`ErrorKind::Stale`] as for
    /// [`get`](Self::get). Data that was read and is wrong is a fault, in the result.
    pub fn verify(&self) -> Result<Vec<Fault>> {
        self.verify_while(|| ControlFlow::Continue(()))
    }

    /// [`verify`](Self::verify) that calls `proceed` at every page; `proceed` may stop it.
    ///
    /// # Errors
    /// The errors of [`verify`](Self::verify); [`ErrorKind::Stopped`].
    pub fn verify_while(&self, proceed: impl Fn() -> ControlFlow<()>) -> Result<Vec<Fault>> {
        self.pager.refuse_if_forked()?;
        // A poisoned handle's file differs from its memory, which is not damage.
        self.pager.refuse_if_poisoned()?;
        // While a checkpoint is being written, the file has only a part of it.
        let _no_checkpoint = self.acquire_checkpoint()?;
        let _alone = self.gate.close()?;
        self.buckets.verify(self.gate.totals(), &proceed)
    }

    /// Returns the number of the last checkpoint that this handle read or wrote; 0 for a table in memory.
    ///
    /// Together with [`replayed`](Self::replayed) it identifies the state of a read-only handle.
    #[doc(hidden)] // the program's and the C library's
    pub fn checkpoint_number(&self) -> u64 {
        self.pager.file().last_checkpoint()
    }

    /// Returns the table's activity since it was opened, and its current size.
    ///
    /// O(1): it reads no pages and never waits, so it may be called every second under full load.
    /// [`survey`](Self::survey) walks the whole table instead. If other threads write, the figures mix several moments.
    /// An open that replays a log counts the changes as puts and removals.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// table.put(b"alice", b"2")?;
    /// let counters = table.counters();
    /// assert_eq!((counters.pairs, counters.puts), (1, 2));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn counters(&self) -> TableCounters {
        TableCounters::now(self.buckets.activity(), self.gate.counted(), &self.pager)
    }

    /// Returns [`TableCounters::frames_read`] alone.
    #[doc(hidden)] // the server's
    pub fn frames_read(&self) -> u64 {
        self.pager.frames().counts.frames_read.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns whether an operation may have to read the file: some of the table's content has not been loaded since
    /// the open, or has left memory.
    #[doc(hidden)] // the server's
    pub fn may_read_file(&self) -> bool {
        self.pager.may_read()
    }
}
