//! Batches: several changes made atomically.
//!
//! ```text
//! commit   grow for the new pairs -> latch all buckets, or none and retry -> make one change after another
//!          -> one record in the log -> release all; wait for the disk if the options ask for it
//! long     the record goes to the log first, except for its end, without which it does not count
//! ```
//!
//! No thread sees a part of a batch: its buckets stay latched until all changes are made. After an error its buckets
//! are made what they were, from copies in memory: that needs no room on the disk. Only if a frame cannot be read for
//! it, the handle is poisoned; the next open finds the table without the batch, since the log has no record of it.
//!
//! Source: the write batch is LevelDB's. Not here: the record's bytes (`wal_record.rs`), the copies
//! (`buckets/before.rs`).

use super::changes::{Changes, decode_chunk};
use super::deferred::{self, Deferred, Edit, Expected};
use super::handle::Table;
use super::options::Durability;
use super::wal_record::WalRecord;
use crate::buckets::{BatchUnits, Before, Bucket, Delta, HashedKey, LatchedBucket, PairLocation};
use crate::error::{Error, ErrorKind, Result};
use crate::linear;
use crate::pager::pool::{FrameNo, WriteGuard};
use crate::pager::wal::Lsn;
use std::collections::BTreeMap;

/// Changes to make atomically; see [`Table::batch`]. Dropping it without [`commit`](Batch::commit) discards them.
pub struct Batch<'t> {
    table: &'t Table,
    changes: Changes,
    deferred: Vec<Deferred<'t>>,
    durability: Durability,
}

impl Table {
    /// Begins a batch: changes that are atomic for readers, after errors, and after a crash.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let mut batch = table.batch();
    /// batch.put(b"alice", b"90")?;
    /// batch.put(b"bob", b"110")?;
    /// batch.remove(b"pending")?;
    /// batch.commit()?;
    /// assert_eq!(table.get(b"bob")?.as_deref(), Some(&b"110"[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        self.batch_as(self.durability)
    }

    pub(super) fn batch_as(&self, durability: Durability) -> Batch<'_> {
        Batch { table: self, changes: Changes::default(), deferred: Vec::new(), durability }
    }
}

impl<'t> Batch<'t> {
    /// Adds a [`Table::put`].
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let mut batch = table.batch();
    /// batch.put(b"alice", b"90")?;
    /// assert!(table.is_empty());
    /// batch.commit()?;
    /// assert!(table.contains(b"alice")?);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] above [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) or [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.changes.add(self.table, WalRecord::Put { key, value })
    }

    /// Adds a [`Table::append`].
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let mut batch = table.batch();
    /// batch.put(b"log", b"in;")?;
    /// batch.append(b"log", b"out;")?;
    /// batch.commit()?;
    /// assert_eq!(table.value_len(b"log")?, Some(7));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put). A value that would become too long is an error of [`commit`](Self::commit).
    pub fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<()> {
        self.changes.add(self.table, WalRecord::Append { key, tail })
    }

    /// Adds a [`Table::remove`]. An absent key is no error.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"old name", b"admin")?;
    /// let mut rename = table.batch();
    /// rename.remove(b"old name")?;
    /// rename.put(b"new name", b"admin")?;
    /// rename.commit()?;
    /// assert_eq!(table.len(), 1);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] for a key above the limit.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.changes.add(self.table, WalRecord::Remove { key })
    }

    /// Adds a [`Table::insert_new`]: if the key is present at the commit, its value is kept.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"first")?;
    /// let mut batch = table.batch();
    /// batch.insert_new(b"alice", b"second")?;
    /// batch.insert_new(b"bob", b"first")?;
    /// batch.commit()?;
    /// assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"first"[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.table.buckets.check_lengths(key, value.len())?;
        self.defer(key, Edit::Insert(value.to_vec()));
        Ok(())
    }

    /// Adds a [`Table::update`]. `f` is called with the value that the earlier changes in this batch leave. It runs at
    /// the commit, and again if another thread changed the value in the meantime.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let add = |n: i64| move |old: Option<&[u8]>| {
    ///     let old = old.and_then(|v| v.try_into().ok()).map_or(0, i64::from_le_bytes);
    ///     Some((old + n).to_le_bytes().to_vec())
    /// };
    /// let mut transfer = table.batch();
    /// transfer.update(b"alice", add(-10))?;
    /// transfer.update(b"bob", add(10))?;
    /// transfer.commit()?;
    /// assert_eq!(table.get(b"bob")?.as_deref(), Some(&10i64.to_le_bytes()[..]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] for a key above the limit. If `f` returns a value that is too long, the commit returns
    /// the error.
    pub fn update(&mut self, key: &[u8], f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 't) -> Result<()> {
        self.table.buckets.check_lengths(key, 0)?;
        self.defer(key, Edit::Update(Box::new(f)));
        Ok(())
    }

    fn defer(&mut self, key: &[u8], edit: Edit<'t>) {
        self.deferred.push(Deferred { after: self.changes.len(), key: key.to_vec(), edit });
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len() + self.deferred.len()
    }

    /// Returns whether the batch has no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes the changes, in order, as one atomic write.
    ///
    /// O(changes), and a copy in memory of each bucket's pages. The space of replaced and removed values is free once
    /// all changes are made. Threads that need one of the batch's buckets wait. A batch of more than a mebibyte is
    /// written to the log first, which frees its memory.
    ///
    /// # Errors
    /// The errors of [`Table::put`]. Either nothing has changed, or the handle is poisoned and the next open finds the
    /// table without the batch.
    pub fn commit(mut self) -> Result<()> {
        let table = self.table;
        let lsn = loop {
            let mut resolved = deferred::resolve(table, &self.changes, &mut self.deferred)?;
            let changes = resolved.changes.as_mut().unwrap_or(&mut self.changes);
            if changes.len() == 0 {
                if !self.deferred.is_empty() {
                    // A handle that may not write refuses the batch whether or not its inserts found their keys.
                    drop(table.enter()?);
                }
                break table.position_seen();
            }
            if let Some(lsn) = table.commit_changes(changes, &resolved.expected)? {
                break lsn;
            }
        };
        table.wait_as(lsn, self.durability)
    }
}

impl Table {
    /// Makes the changes atomically if the keys of `expected` have these values. Otherwise returns `None`, with nothing
    /// changed.
    fn commit_changes(&self, changes: &mut Changes, expected: &Expected) -> Result<Option<Lsn>> {
        let mut writer = self.enter_to_log(|| changes.log_bytes())?;
        let keys = changes.decode().filter_map(WalRecord::key).chain(expected.keys().map(Vec::as_slice));
        // All of them before anything changes, as the user's function may panic.
        let hashes: Vec<u64> = keys.map(|key| self.buckets.key(key).hash).collect();
        let logged = writer.log_chunks(changes)?;
        self.buckets.grow_for(changes.page_bytes(), changes.len() as u64);
        let mut latched = Latched::new(self, &hashes)?;
        let (hashes, expected_hashes) = hashes.split_at(changes.len());
        for ((key, value), &hash) in expected.iter().zip(expected_hashes) {
            let key = HashedKey::new(key, hash);
            if !latched.with_bucket(key, |bucket, location| bucket.value_equals(location, value.as_deref()))? {
                return Ok(None);
            }
        }
        let (made, units) = latched.make(changes, hashes)?;
        let lsn = match changes.only_chunk() {
            Some(bytes) => writer.log(WalRecord::Batch(bytes))?,
            None => writer.log_end(logged)?,
        };
        drop(latched);
        units.free_replaced(&self.buckets);
        writer.leave(made.delta, made.changes, made.removals);
        Ok(Some(lsn))
    }
}

/// The changes of a batch that had an effect: a removal of an absent key has none.
#[derive(Default)]
struct Made {
    delta: Delta,
    changes: usize,
    removals: usize,
}

/// The frames of all buckets of a batch, latched for changing.
struct Latched<'t> {
    table: &'t Table,
    frames: BTreeMap<FrameNo, Option<WriteGuard<'t>>>,
    buckets: linear::State,
}

impl<'t> Latched<'t> {
    /// Latches the buckets of keys with these hashes.
    fn new(table: &'t Table, hashes: &[u64]) -> Result<Self> {
        'again: loop {
            let view = table.buckets.view();
            let place = |&hash: &u64| table.buckets.location(view.linear().bucket_of(hash)).0;
            let mut frames: BTreeMap<FrameNo, Option<WriteGuard<'t>>> =
                hashes.iter().map(|hash| (place(hash), None)).collect();
            // In order, so that two batches seldom wait for each other. Never waits for a latch while it holds others:
            // after a group of buckets has moved, a frame may contain overflow pages, for which other threads wait
            // while they hold their latches.
            for frame in frames.keys().copied().collect::<Vec<_>>() {
                let guard = table.pager.try_write(frame)?;
                if guard.is_none() {
                    drop(frames);
                    drop(table.pager.write(frame)?);
                    continue 'again;
                }
                frames.insert(frame, guard);
            }
            // A thread that splits, merges or moves a bucket holds its latch or has closed the gate.
            let now = table.buckets.view();
            let same = |&hash: &u64| now.linear().bucket_of(hash) == view.linear().bucket_of(hash);
            if now == view || now.version() == view.version() && hashes.iter().all(same) {
                return Ok(Latched { table, frames, buckets: now.linear() });
            }
        }
    }

    /// Makes all changes, whose keys have these hashes, or none. Also returns what the table no longer refers to.
    fn make(&mut self, changes: &Changes, hashes: &[u64]) -> Result<(Made, BatchUnits)> {
        let mut before = Before::default();
        match self.make_all(changes, hashes, &mut before) {
            Ok(sum) => Ok((sum, before.units)),
            Err(e) => {
                self.undo(before)?;
                Err(e)
            }
        }
    }

    fn make_all(&mut self, changes: &Changes, hashes: &[u64], before: &mut Before) -> Result<Made> {
        let mut sum = Made::default();
        let mut hashes = hashes.iter();
        #[cfg(test)]
        let mut count = 0;
        for index in 0..changes.chunk_count() {
            for change in decode_chunk(&changes.chunk(index)?) {
                let hash = *hashes.next().expect("each change has a hash");
                let made = self.make_one(change, hash, before);
                #[cfg(test)]
                let made = {
                    count += 1;
                    match FAIL_AT.get() {
                        Some(n) if n == count => Err(Error::new(ErrorKind::InvalidArgument, "failed by a test")),
                        _ => made,
                    }
                };
                if let Some(delta) = made? {
                    sum.delta = sum.delta + delta;
                    sum.changes += 1;
                    sum.removals += usize::from(change.is_removal());
                }
            }
        }
        Ok(sum)
    }

    /// Makes a change whose key has this hash; `None` if it changes nothing.
    fn make_one(&mut self, change: WalRecord<'_>, hash: u64, before: &mut Before) -> Result<Option<Delta>> {
        let key = HashedKey::new(change.key().expect("a batch has changes of keys"), hash);
        self.with_bucket(key, |bucket, place| {
            before.keep(bucket)?;
            let edited = bucket.in_batch(&mut before.units).apply(key, place, change.edit(usize::MAX))?;
            Ok(edited.map(|(delta, _)| delta))
        })
    }

    /// Undoes the changes made. None of them has been counted yet.
    fn undo(&mut self, before: Before) -> Result<()> {
        let mut outcome = Ok(());
        for number in before.buckets() {
            outcome = outcome.and(self.with_bucket_number(number, |bucket| before.put_back(bucket)));
        }
        let outcome = outcome.map(|()| before.units.free_allocated(&self.table.buckets));
        outcome.map_err(|e| {
            let why = format!("a batch failed, and undoing it failed too: {}", e.message());
            self.table.pager.poison(&why);
            Error::new(ErrorKind::Poisoned, format!("{}: {why}", self.table.pager.path().display()))
                .with_hint("Open the table again.")
        })
    }

    /// Calls `work` with the bucket of `key`, and the location of the key in it.
    fn with_bucket<R>(
        &mut self,
        key: HashedKey<'_>,
        work: impl FnOnce(&mut Bucket<'_>, Option<PairLocation>) -> Result<R>,
    ) -> Result<R> {
        let buckets = &self.table.buckets;
        self.with_bucket_number(self.buckets.bucket_of(key.hash), |bucket| {
            let place = buckets.locate(bucket.page(), key)?;
            work(bucket, place)
        })
    }

    fn with_bucket_number<R>(
        &mut self,
        number: linear::Bucket,
        work: impl FnOnce(&mut Bucket<'_>) -> Result<R>,
    ) -> Result<R> {
        let (frame, start) = self.table.buckets.location(number);
        let slot = self.frames.get_mut(&frame).expect("all buckets of the batch are latched");
        let frame = slot.take().expect("given back each time");
        let mut latched = LatchedBucket::new(&self.table.buckets, number, frame, start);
        let mut bucket = latched.bucket();
        bucket.init_if_empty(|| self.buckets.level(number));
        let done = work(&mut bucket);
        *slot = Some(latched.primary.into_frame());
        done
    }
}

#[cfg(test)]
thread_local! {
    /// The index of the change that a test makes fail.
    static FAIL_AT: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::FAIL_AT;
    use crate::error::ErrorKind;
    use crate::io::simulated::{Crash, Event, Simulated, State, Tally};
    use crate::random::Random;
    use crate::table::{Durability, Table, TableOptions};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

    fn open(disk: &Simulated, durability: Durability) -> Table {
        let mut options = TableOptions::new().seed(1).page_bytes(512).durability(durability);
        options.storage = Arc::new(disk.clone());
        options.inline_checkpoints = true;
        options.open("/disk/t.spt").unwrap()
    }

    /// Returns the table that the next process finds if this one is killed now.
    fn after_a_kill(disk: &Simulated, durability: Durability) -> Table {
        let left = disk.state().survivors(Crash::Kill, &mut Random::new(&[1]), &mut Tally::default());
        open(&Simulated::new(left), durability)
    }

    fn key(i: u32) -> [u8; 4] {
        i.to_le_bytes()
    }

    #[test]
    fn a_batch_makes_its_changes_in_order() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        table.put(b"there", b"old").unwrap();
        let mut batch = table.batch();
        batch.put(b"a", b"1").unwrap();
        batch.append(b"a", b"2").unwrap();
        batch.remove(b"there").unwrap();
        batch.remove(b"never").unwrap();
        batch.append(b"new", &[7; 5000]).unwrap();
        batch.put(b"there", b"again").unwrap();
        assert_eq!((batch.len(), table.len()), (6, 1));
        batch.commit().unwrap();
        assert_eq!(table.get(b"a").unwrap().unwrap(), b"12");
        assert_eq!(table.get(b"there").unwrap().unwrap(), b"again");
        assert_eq!(table.get(b"new").unwrap().unwrap(), [7; 5000]);
        assert_eq!(table.len(), 3);
        assert_eq!(table.verify().unwrap(), []);
        drop(table.batch());
        table.batch().commit().unwrap();
    }

    #[test]
    fn a_batch_hashes_each_key_once_before_it_changes_anything() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let hash = move |key: &[u8]| {
            counted.fetch_add(1, Relaxed);
            key.len() as u64
        };
        let table = TableOptions::new().page_bytes(512).user_hash("counted", hash).in_memory().unwrap();
        let mut batch = table.batch();
        batch.put(b"a", b"1").unwrap();
        batch.append(b"bc", b"2").unwrap();
        batch.remove(b"never").unwrap();
        calls.store(0, Relaxed);
        batch.commit().unwrap();
        assert_eq!(calls.load(Relaxed), 3);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn a_large_batch_into_a_small_table_grows_it_first() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        let mut batch = table.batch();
        for i in 0..100_000u32 {
            batch.put(&i.to_le_bytes(), &[1; 20]).unwrap();
        }
        batch.commit().unwrap();
        assert_eq!(table.len(), 100_000);
        let stat = table.survey().unwrap();
        assert!(stat.buckets > 4000, "{} buckets", stat.buckets);
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn a_batch_that_fails_changes_nothing() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        table.put(b"inline", b"1").unwrap();
        table.put(b"large", &[1; 4000]).unwrap();
        table.put(b"gone", &[2; 3000]).unwrap();
        let mut batch = table.batch();
        for i in 0..200u32 {
            batch.put(&i.to_le_bytes(), &[3; 300]).unwrap();
        }
        batch.put(b"inline", &[4; 2000]).unwrap();
        batch.append(b"large", &[5; 9000]).unwrap();
        batch.append(b"large", &[6; 9]).unwrap();
        batch.remove(b"gone").unwrap();
        batch.append(b"fresh", b"x").unwrap();
        FAIL_AT.set(Some(batch.len()));
        assert_eq!(batch.commit().unwrap_err().kind(), ErrorKind::InvalidArgument);
        FAIL_AT.set(None);
        assert_eq!(table.len(), 3);
        assert_eq!(table.get(b"inline").unwrap().unwrap(), b"1");
        assert_eq!(table.get(b"large").unwrap().unwrap(), [1; 4000]);
        assert_eq!(table.get(b"gone").unwrap().unwrap(), [2; 3000]);
        assert_eq!(table.verify().unwrap(), []);
        table.put(b"still", b"fit").unwrap();
    }

    #[test]
    fn a_long_batch_that_fails_changes_nothing_though_the_log_has_parts_of_it() {
        const COUNT: u32 = 300;
        for durability in [Durability::None, Durability::Os, Durability::Sync] {
            let disk = Simulated::new(State::default());
            let table = open(&disk, durability);
            (0..COUNT).step_by(2).for_each(|i| table.put(&key(i), &[1; 30]).unwrap());
            for fail_at in [1, COUNT as usize, 3 * COUNT as usize] {
                let mut batch = table.batch();
                for i in 0..COUNT {
                    batch.put(&key(i), &[2; 40]).unwrap();
                    batch.append(&key(i), &[3; 20]).unwrap();
                    batch.remove(&key(i + 1)).unwrap();
                }
                FAIL_AT.set(Some(fail_at));
                let failed = batch.commit();
                FAIL_AT.set(None);
                assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
            table.put(b"later", b"1").unwrap();
            let check = |table: &Table, context: &str| {
                for i in 0..COUNT {
                    let expected = (i % 2 == 0).then(|| vec![1; 30]);
                    assert_eq!(table.get(&key(i)).unwrap(), expected, "{durability:?}, {context}, {i}");
                }
                assert_eq!(table.get(b"later").unwrap().unwrap(), b"1");
                assert_eq!(table.len(), u64::from(COUNT / 2 + 1));
                assert_eq!(table.verify().unwrap(), []);
            };
            check(&table, "the same handle");
            if durability != Durability::None {
                check(&after_a_kill(&disk, durability), "after a kill");
            }
        }
    }

    #[test]
    fn a_long_batch_is_complete_after_a_kill_and_takes_no_pages_of_the_logs_mapping() {
        const COUNT: u32 = 3000;
        for durability in [Durability::Os, Durability::Sync] {
            let disk = Simulated::new(State::default());
            disk.let_map(true);
            let table = open(&disk, durability);
            let mut batch = table.batch();
            (0..COUNT).for_each(|i| batch.put(&key(i), &[i as u8; 150]).unwrap());
            let before = disk.trace().len();
            batch.commit().unwrap();
            let stored = |event: &Event| if let Event::Store { bytes, .. } = event { bytes.len() } else { 0 };
            let stored: usize = disk.trace()[before..].iter().map(stored).sum();
            assert!(stored < 100, "{durability:?}: {stored} bytes were stored in the mapping");
            table.put(b"later", b"1").unwrap();
            let found = after_a_kill(&disk, durability);
            assert_eq!(found.len(), u64::from(COUNT) + 1);
            (0..COUNT).for_each(|i| assert_eq!(found.get(&key(i)).unwrap().unwrap(), [i as u8; 150]));
        }
    }

    #[test]
    fn inserts_and_updates_of_a_batch_see_the_changes_before_them() {
        let table = Table::in_memory().unwrap();
        table.put(b"here", b"1").unwrap();
        let mut batch = table.batch();
        batch.insert_new(b"here", b"2").unwrap();
        batch.insert_new(b"absent", b"3").unwrap();
        batch.insert_new(b"absent", b"4").unwrap();
        batch.append(b"absent", b"5").unwrap();
        batch.update(b"absent", |old| Some([old.unwrap(), b"6"].concat())).unwrap();
        batch.remove(b"here").unwrap();
        batch.insert_new(b"here", b"7").unwrap();
        batch.update(b"never", |old| old.map(<[u8]>::to_vec)).unwrap();
        assert_eq!(batch.len(), 8);
        batch.commit().unwrap();
        assert_eq!(table.get(b"absent").unwrap().unwrap(), b"356");
        assert_eq!(table.get(b"here").unwrap().unwrap(), b"7");
        assert_eq!(table.len(), 2);
        // With nothing to change, nothing is logged.
        let mut batch = table.batch();
        batch.insert_new(b"here", b"8").unwrap();
        batch.commit().unwrap();
        assert_eq!(table.get(b"here").unwrap().unwrap(), b"7");
    }

    #[test]
    fn concurrent_updates_of_two_keys_lose_none() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        let number = |value: Option<&[u8]>| value.map_or(0, |v| i64::from_le_bytes(v.try_into().unwrap()));
        const ROUNDS: i64 = 500;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mut batch = table.batch();
                        let (from, to) = ((thread + round) % 3, (thread + round + 1) % 3);
                        batch.update(&[from as u8], move |v| Some((number(v) - 1).to_le_bytes().into())).unwrap();
                        batch.update(&[to as u8], move |v| Some((number(v) + 1).to_le_bytes().into())).unwrap();
                        batch.update(b"count", move |v| Some((number(v) + 1).to_le_bytes().into())).unwrap();
                        batch.commit().unwrap();
                    }
                });
            }
        });
        let value = |key: &[u8]| number(table.get(key).unwrap().as_deref());
        assert_eq!((value(&[0]) + value(&[1]) + value(&[2]), value(b"count")), (0, 4 * ROUNDS));
    }

    #[test]
    fn nobody_sees_half_of_a_batch() {
        let table = Table::in_memory().unwrap();
        let set = |n: u64| {
            let mut batch = table.batch();
            for i in 0..20u8 {
                batch.put(&[i], &n.to_le_bytes()).unwrap();
            }
            batch.commit().unwrap();
        };
        set(0);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..2000).for_each(&set);
                done.store(true, Relaxed);
            });
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    // Later reads must see the same batch or a later one, whatever the key.
                    let mut last = 0;
                    for i in 0..20u8 {
                        let n = u64::from_le_bytes(table.get(&[i]).unwrap().unwrap().try_into().unwrap());
                        assert!(n >= last, "{n} after {last}");
                        last = n;
                    }
                }
            });
        });
    }
}
