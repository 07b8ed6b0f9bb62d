//! Reads and writes of many pairs.
//!
//! ```text
//! write   hash the key of a later pair, and prefetch header and slots of its page
//!         -> for a nearer pair, prefetch only what these show to be needed: a processor has few line buffers
//!         -> change the bucket of the current pair
//!           put             the record with the tag, or the location of a new one, or the overflow page
//!           append, remove  the record with the tag and those that move with it, or the overflow page
//! run     enter the gate, reserve room in the log for 32 changes -> write each -> count, split -> leave
//! ```
//!
//! The writes are made in order, each under the latch of its bucket; all wait for the disk once, together. Work that
//! single writes would repeat is done once per run. Writes that depend on the value before:
//! `edits.rs`. Lookups of many keys: `buckets/many.rs`.

use super::handle::Table;
use super::options::Durability;
use super::wal_record::WalRecord;
use super::writer::Written;
use crate::buckets::address::BucketAddress;
use crate::buckets::{Buckets, Delta, HashedKey};
use crate::error::Result;
use crate::pager::wal::Lsn;

impl Table {
    /// Returns the values of `keys`, in the order of the keys; `None` for an absent key.
    ///
    /// Faster than a [`get`](Self::get) for each: the cache misses of many keys overlap. Each lookup is separate, so if
    /// other threads write, the values may be of different moments.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// assert_eq!(table.get_many(&["alice", "bob"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get), the first that occurs.
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
    /// The errors of [`get`](Self::get), the first that occurs; `take` was called for the keys before it.
    pub fn get_many_with(&self, keys: &[impl AsRef<[u8]>], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.buckets.get_many(keys, take)
    }

    /// Puts each pair, in order, as [`put`](Self::put) does. Faster than single puts: cache misses overlap, and with
    /// [`Durability::Sync`](crate::Durability) all pairs wait for the disk once.
    ///
    /// Not atomic: other threads see the pairs one by one, and an error or a crash leaves a prefix of the pairs. For
    /// all or nothing use [`batch`](Self::batch).
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put_many(&[("alice", "1"), ("bob", "2")])?;
    /// assert_eq!(table.len(), 2);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put), the first that occurs; the pairs before it are stored, as durably as without
    /// an error. If making them durable fails, that error is returned, and the handle refuses further writes.
    pub fn put_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.put_many_as(self.durability, pairs)
    }

    pub(super) fn put_many_as(&self, asked: Durability, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.write_many(asked, pairs.len(), put_of(pairs), |_| usize::MAX, |_, _| ())
    }

    /// [`put_many`](Self::put_many) that also returns how many pairs, from the first on, are stored. After an error
    /// these may be all, which then are not as durable as without it.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let (stored, outcome) = table.put_many_counted(&[("alice", "1"), ("bob", "2")]);
    /// assert_eq!((stored, outcome?), (2, ()));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    #[doc(hidden)] // the server's
    pub fn put_many_counted(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> (usize, Result<()>) {
        let mut done = 0;
        let stored = self.write_many(self.durability, pairs.len(), put_of(pairs), |_| usize::MAX, |_, _| done += 1);
        (done, stored)
    }

    /// Appends each pair, in order, as [`append`](Self::append) does. Returns the new length of each value. Faster than
    /// single appends, for the reasons given at [`put_many`](Self::put_many).
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.append_many(&[("alice", "12"), ("bob", "3"), ("alice", "45")])?, [2, 1, 4]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`append`](Self::append), the first that occurs; the pairs before it are appended.
    pub fn append_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<Vec<usize>> {
        self.append_many_as(self.durability, pairs)
    }

    pub(super) fn append_many_as(
        &self,
        asked: Durability,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    ) -> Result<Vec<usize>> {
        let mut lens = Vec::with_capacity(pairs.len());
        let append_at = |index: usize| append_of(&pairs[index]);
        let take = |_, len: Option<usize>| lens.push(len.unwrap_or(0));
        self.write_many(asked, pairs.len(), append_at, |_| usize::MAX, take)?;
        Ok(lens)
    }

    /// [`append_many`](Self::append_many) with a maximum length for each value. Calls `take` with the index of each
    /// pair, in order, and the new length of its value, or `None` if the length would exceed `len_max(index)` and
    /// nothing was appended. No latch is held during the calls.
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
    /// The errors of [`append`](Self::append), the first that occurs; `take` was called for the pairs before it, which
    /// are appended.
    #[doc(hidden)] // the server's
    pub fn append_many_within(
        &self,
        pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
        len_max: impl Fn(usize) -> usize,
        take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        self.write_many(self.durability, pairs.len(), |index| append_of(&pairs[index]), len_max, take)
    }

    /// Removes each key, in order, as [`remove`](Self::remove) does. Calls `take` with the index of each key and
    /// whether it was present. Faster than single removals, for the reasons given at [`put_many`](Self::put_many).
    ///
    /// # Errors
    /// The errors of [`remove`](Self::remove), the first that occurs; `take` was called for the keys before it, which
    /// are removed.
    #[doc(hidden)] // the server's
    pub fn remove_many_with(&self, keys: &[impl AsRef<[u8]>], mut take: impl FnMut(usize, bool)) -> Result<()> {
        let remove_at = |index: usize| WalRecord::Remove { key: keys[index].as_ref() };
        let take = |index, removed: Option<usize>| take(index, removed.is_some());
        self.write_many(self.durability, keys.len(), remove_at, |_| usize::MAX, take)
    }

    /// Makes the changes of one pair each that `change_at` returns for each index below `count`, up to the first error.
    /// An append makes no value longer than `len_max` returns. Calls `take` with the answer of each change, in order;
    /// `None` if it changed nothing. They are as durable as `asked` when it returns.
    fn write_many<'k>(
        &self,
        asked: Durability,
        count: usize,
        change_at: impl Fn(usize) -> WalRecord<'k>,
        len_max: impl Fn(usize) -> usize,
        take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        let mut last = 0;
        let written = self.write_many_unsynced(count, change_at, len_max, take, &mut last);
        // Also after an error: the pairs before it must be as durable as the caller may assume.
        self.wait_as(last, asked)?;
        written
    }

    /// [`write_many`](Self::write_many) without waiting for the disk. Sets `last` to the log position of the last
    /// change.
    pub(super) fn write_many_unsynced<'k>(
        &self,
        count: usize,
        change_at: impl Fn(usize) -> WalRecord<'k>,
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
        last: &mut Lsn,
    ) -> Result<()> {
        let Some(mut ahead) = Ahead::begin(&self.buckets, count, &change_at) else { return Ok(()) };
        let mut next = 0;
        while next < count {
            let first = next;
            let Run { end, log_bytes, alone } = self.run_from(first, count, &change_at)?;
            next = end;
            if alone {
                ahead.take(first, count, &change_at);
                let change = change_at(first);
                let key = self.buckets.key(change.key_and_value_bytes().0);
                let Written { changed, answer, lsn } = self.write_alone(key, change)?;
                *last = lsn;
                take(first, changed.then_some(answer));
                continue;
            }
            let mut writer = self.enter_to_log(|| log_bytes)?;
            let (mut delta, mut changes, mut removals) = (Delta::default(), 0, 0);
            let mut answers = [None; RUN_MAX];
            let mut done = first;
            let written: Result<()> = (first..end).try_for_each(|index| {
                let change = change_at(index);
                let (hash, place) = ahead.take(index, count, &change_at);
                let key = HashedKey::new(change.key_and_value_bytes().0, hash);
                let mut bucket = self.buckets.latch(key, place)?;
                if let Some((changed, answer)) = bucket.edit(key, change.edit(len_max(index)))? {
                    *last = writer.log(change)?;
                    delta = delta + changed;
                    changes += 1;
                    removals += usize::from(change.is_removal());
                    answers[index - first] = Some(answer);
                } else {
                    *last = self.position_seen().max(*last);
                }
                done = index + 1;
                Ok(())
            });
            writer.leave(delta, changes, removals);
            (first..done).for_each(|index| take(index, answers[index - first]));
            written?;
        }
        Ok(())
    }

    /// A put of a value that may be written through; its answer is not used.
    fn write_alone(&self, key: HashedKey<'_>, change: WalRecord<'_>) -> Result<Written> {
        if let WalRecord::Put { value, .. } = change
            && let Some(lsn) = self.put_stored(key, value)?
        {
            return Ok(Written { changed: true, answer: 0, lsn });
        }
        self.write_unsynced(key, change, change.edit(usize::MAX))
    }

    /// The changes from `first` on that are made together: at least one. Fails if that one is not allowed.
    #[inline]
    fn run_from<'k>(&self, first: usize, count: usize, change_at: impl Fn(usize) -> WalRecord<'k>) -> Result<Run> {
        let is_logged = self.log_in_use().is_some();
        let mut run = Run { end: first, log_bytes: 0, alone: false };
        while run.end < count.min(first + RUN_MAX) {
            let change = change_at(run.end);
            let (key, value_bytes) = change.key_and_value_bytes();
            let checked = self.buckets.check_lengths(key, value_bytes);
            let alone = value_bytes >= self.stored_bytes_min && matches!(change, WalRecord::Put { .. });
            let log_bytes = if is_logged { change.log_bytes() } else { 0 };
            if run.end > first && (checked.is_err() || alone || run.log_bytes + log_bytes > RUN_LOG_BYTES) {
                break;
            }
            checked?;
            run.end += 1;
            run.log_bytes += log_bytes;
            run.alone = alone;
            if alone {
                break;
            }
        }
        Ok(run)
    }
}

fn put_of<'p>(pairs: &'p [(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> impl Fn(usize) -> WalRecord<'p> {
    move |index| WalRecord::Put { key: pairs[index].0.as_ref(), value: pairs[index].1.as_ref() }
}

fn append_of((key, tail): &(impl AsRef<[u8]>, impl AsRef<[u8]>)) -> WalRecord<'_> {
    WalRecord::Append { key: key.as_ref(), tail: tail.as_ref() }
}

/// The maximum number of changes made in one visit of the gate.
pub(super) const RUN_MAX: usize = 32;
/// The maximum bytes in the log of a run of more than one change.
pub(super) const RUN_LOG_BYTES: u64 = 1 << 14;

/// Changes made in one visit of the gate, with one reservation in the log and one check of the load.
struct Run {
    end: usize,
    log_bytes: u64,
    /// Whether the run is a single put, of a value that may be written through.
    alone: bool,
}

/// The places of the next changes, whose cache lines are being fetched.
pub(super) struct Ahead<'t> {
    buckets: &'t Buckets,
    places: [(u64, BucketAddress<'t>); PAGES_AHEAD],
}

/// Far enough ahead for memory to respond, near enough that the line is still in the cache.
const PAGES_AHEAD: usize = 16;
const PLACES_AHEAD: usize = 8;

impl<'t> Ahead<'t> {
    /// Starts fetching for the first changes; `None` if there is no change.
    pub(super) fn begin<'k>(
        buckets: &'t Buckets,
        count: usize,
        change_at: impl Fn(usize) -> WalRecord<'k>,
    ) -> Option<Ahead<'t>> {
        let first = Self::fetch(buckets, (count > 0).then(|| change_at(0))?);
        let mut ahead = Ahead { buckets, places: [first; PAGES_AHEAD] };
        for index in 1..count.min(PAGES_AHEAD) {
            ahead.places[index] = Self::fetch(buckets, change_at(index));
        }
        for index in 0..count.min(PLACES_AHEAD) {
            ahead.fetch_place(index, change_at(index));
        }
        Some(ahead)
    }

    /// The hash and the place of change `index`. Starts fetching for later changes.
    #[inline]
    pub(super) fn take<'k>(
        &mut self,
        index: usize,
        count: usize,
        change_at: impl Fn(usize) -> WalRecord<'k>,
    ) -> (u64, BucketAddress<'t>) {
        let place = self.places[index % PAGES_AHEAD];
        if index + PAGES_AHEAD < count {
            self.places[index % PAGES_AHEAD] = Self::fetch(self.buckets, change_at(index + PAGES_AHEAD));
        }
        if index + PLACES_AHEAD < count {
            self.fetch_place(index + PLACES_AHEAD, change_at(index + PLACES_AHEAD));
        }
        place
    }

    #[inline]
    fn fetch(buckets: &'t Buckets, change: WalRecord<'_>) -> (u64, BucketAddress<'t>) {
        let hash = buckets.key(change.key_and_value_bytes().0).hash;
        (hash, buckets.prefetch_head(hash))
    }

    #[inline]
    fn fetch_place(&self, index: usize, change: WalRecord<'_>) {
        let (hash, address) = self.places[index % PAGES_AHEAD];
        if !matches!(change, WalRecord::Put { .. }) {
            return self.buckets.prefetch_moved(hash, address);
        }
        const HEAD_BYTES: usize = 2;
        let (key, value_bytes) = change.key_and_value_bytes();
        self.buckets.prefetch_put(hash, address, HEAD_BYTES + key.len() + value_bytes);
    }
}
