//! Batches: several changes that are atomic.
//!
//! ```text
//! commit   grow for the new pairs -> latch all buckets, or none and try again -> change after change
//!          -> one record in the log -> release all; wait for the disk if the options ask
//! ```
//!
//! No thread sees a part of a batch: its buckets stay latched until all changes are made. After an error the changes
//! so far are undone; if that fails too, the handle is poisoned, and an open finds the table without the batch, since
//! the log has no record of it.
//!
//! Source: the write batch is LevelDB's. Not here: the record's bytes (`wal_record.rs`).

use super::Table;
use super::wal_record::{WalRecord, decode_batch, encode_in_batch};
use crate::buckets::{Bucket, Delta, HashedKey, PairLocation};
use crate::error::{Error, ErrorKind, Result};
use crate::linear;
use crate::pager::pool::{FrameNo, WriteGuard};
use crate::planted::{Bug, planted};
use std::collections::BTreeMap;

/// Changes to make as one; see [`Table::batch`]. Dropping it without [`commit`](Batch::commit) discards them.
pub struct Batch<'t> {
    table: &'t Table,
    /// The changes, as [`encode_in_batch`] encodes them.
    bytes: Vec<u8>,
    count: usize,
    /// Most bytes that its pairs take in pages.
    page_bytes: u64,
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
        Batch { table: self, bytes: Vec::new(), count: 0, page_bytes: 0 }
    }
}

impl Batch<'_> {
    /// A [`Table::put`] when the batch is committed.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] above [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) or [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(WalRecord::Put { key, value }, key, value.len())
    }

    /// A [`Table::append`] when the batch is committed.
    ///
    /// # Errors
    /// Those of [`put`](Self::put). A value that would become too long is an error of [`commit`](Self::commit).
    pub fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<()> {
        self.add(WalRecord::Append { key, tail }, key, tail.len())
    }

    /// A [`Table::remove`] when the batch is committed. An absent key is no error.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] for a key that no table can have.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.add(WalRecord::Remove { key }, key, 0)
    }

    fn add(&mut self, change: WalRecord<'_>, key: &[u8], value_bytes: usize) -> Result<()> {
        self.table.buckets.check_lengths(key, value_bytes)?;
        encode_in_batch(change, &mut self.bytes);
        self.count += 1;
        if !matches!(change, WalRecord::Remove { .. }) {
            self.page_bytes += self.table.buckets.bytes_in_page(key.len(), value_bytes) as u64;
        }
        Ok(())
    }

    /// The number of changes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the batch has no changes.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes the changes, in order, as one.
    ///
    /// O(changes), and a copy of each value that is replaced or removed. Other threads wait for its buckets.
    ///
    /// # Errors
    /// Those of [`Table::put`]. Then nothing has changed, or the handle is poisoned and an open finds the table
    /// without the batch.
    pub fn commit(self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let changes = decode_batch(&self.bytes).expect("it was encoded here");
        let table = self.table;
        let lsn = {
            let mut writer = table.enter_to(WalRecord::Batch(&self.bytes))?;
            table.buckets.grow_for(self.page_bytes, self.count as u64);
            let mut latched = Latched::new(table, &changes)?;
            let delta = latched.make(&changes)?;
            let lsn = table.log(&mut writer, WalRecord::Batch(&self.bytes))?;
            drop(latched);
            writer.inside.count(delta, table.buckets.load());
            let removals = changes.iter().filter(|change| matches!(change, WalRecord::Remove { .. })).count();
            writer.inside.count_changes(changes.len(), removals);
            // As after a single write: later writes do what remains to be done.
            let _ = table.buckets.adjust(delta);
            lsn
        };
        table.checkpoint_if_due();
        table.wait_durable(lsn)
    }
}

/// The frames of all buckets of a batch, latched for changing.
struct Latched<'t> {
    table: &'t Table,
    frames: BTreeMap<FrameNo, Option<WriteGuard<'t>>>,
    buckets: linear::State,
}

/// How a change is undone.
enum Undo<'a> {
    Remove(HashedKey<'a>),
    Put(HashedKey<'a>, Vec<u8>),
    /// Undoes an append to a value in an extent: the length before.
    Cut(HashedKey<'a>, usize),
}

impl<'t> Latched<'t> {
    fn new(table: &'t Table, changes: &[WalRecord<'_>]) -> Result<Self> {
        let hashes: Vec<u64> = changes.iter().filter_map(|c| c.key()).map(|key| table.buckets.key(key).hash).collect();
        'again: loop {
            let view = table.buckets.view();
            let place = |&hash: &u64| table.buckets.location(view.linear().bucket_of(hash)).0;
            let mut frames: BTreeMap<FrameNo, Option<WriteGuard<'t>>> =
                hashes.iter().map(|hash| (place(hash), None)).collect();
            // In order, so that two batches seldom wait for each other; and never waiting for a latch while holding
            // others: if a group of buckets has moved, a frame may now have overflow pages, for which other threads
            // wait under their latches.
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
            if now == view || now.version == view.version && hashes.iter().all(same) {
                return Ok(Latched { table, frames, buckets: now.linear() });
            }
        }
    }

    /// Makes all changes, or none.
    fn make(&mut self, changes: &[WalRecord<'_>]) -> Result<Delta> {
        let mut undo = Vec::with_capacity(changes.len());
        let mut sum = Delta::default();
        for &change in changes {
            let made = self.make_one(change, &mut undo);
            #[cfg(test)]
            let made = match FAIL_AT.get() {
                Some(n) if n == undo.len() => Err(Error::new(ErrorKind::InvalidArgument, "failed by a test")),
                _ => made,
            };
            match made {
                Ok(delta) => sum = sum + delta,
                Err(e) => {
                    if !planted(Bug::BatchNotUndone) {
                        self.undo(undo)?;
                    }
                    return Err(e);
                }
            }
        }
        Ok(sum)
    }

    fn make_one<'a>(&mut self, change: WalRecord<'a>, undo: &mut Vec<Undo<'a>>) -> Result<Delta> {
        let key = self.table.buckets.key(change.key().expect("a batch has changes of keys"));
        self.with_bucket(key, |bucket, place| {
            let before = place.map(|place| undo_of(bucket, key, place, matches!(change, WalRecord::Append { .. })));
            let before = before.transpose()?.unwrap_or(Undo::Remove(key));
            let delta = match (change, place) {
                (WalRecord::Put { value, .. }, place) => bucket.set(key, place, value)?,
                (WalRecord::Append { tail, .. }, Some(place)) => bucket.append(key, place, tail)?.0,
                (WalRecord::Append { tail, .. }, None) => bucket.set(key, None, tail)?,
                (_, Some(place)) => bucket.remove(key, place)?,
                (_, None) => return Ok(Delta::default()),
            };
            undo.push(before);
            Ok(delta)
        })
    }

    /// Undoes changes in reverse order. Nothing was counted yet.
    fn undo(&mut self, undo: Vec<Undo<'_>>) -> Result<()> {
        let outcome = undo.into_iter().rev().try_for_each(|change| match change {
            Undo::Remove(key) => self.with_bucket(key, |bucket, place| match place {
                Some(place) => bucket.remove(key, place).map(drop),
                None => Ok(()),
            }),
            Undo::Put(key, value) => self.with_bucket(key, |bucket, place| bucket.set(key, place, &value).map(drop)),
            Undo::Cut(key, len) => self.with_bucket(key, |bucket, place| match place {
                Some(place) => bucket.cut(key, place, len),
                None => Ok(()),
            }),
        });
        outcome.map_err(|e| {
            let why = format!("a batch failed, and undoing it failed too: {e}");
            self.table.pager.poison(&why);
            Error::new(ErrorKind::Poisoned, format!("{}: {why}", self.table.pager.path().display()))
                .with_hint("Open the table again.")
        })
    }

    /// Calls `work` with the bucket of `key`, and the location of the key in it.
    fn with_bucket<R>(
        &mut self,
        key: HashedKey<'_>,
        work: impl FnOnce(&mut Bucket<'t>, Option<PairLocation>) -> Result<R>,
    ) -> Result<R> {
        let number = self.buckets.bucket_of(key.hash);
        let (frame, start) = self.table.buckets.location(number);
        let slot = self.frames.get_mut(&frame).expect("all buckets of the batch are latched");
        let mut bucket =
            Bucket { buckets: &self.table.buckets, frame: slot.take().expect("given back each time"), start };
        bucket.init_if_empty(|| self.buckets.level(number));
        let done = self.table.buckets.locate(bucket.page(), key).and_then(|place| work(&mut bucket, place));
        *slot = Some(bucket.frame);
        done
    }
}

/// The undo of a change of the pair at `location`.
fn undo_of<'k>(bucket: &Bucket<'_>, key: HashedKey<'k>, location: PairLocation, append: bool) -> Result<Undo<'k>> {
    let (extent, value_bytes) = bucket.value_at(location)?;
    if append && extent.is_some() {
        return Ok(Undo::Cut(key, value_bytes));
    }
    Ok(Undo::Put(key, bucket.value(location)?))
}

#[cfg(test)]
thread_local! {
    /// The change of a batch that a test makes fail.
    static FAIL_AT: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use super::FAIL_AT;
    use crate::error::ErrorKind;
    use crate::table::{Table, TableOptions};
    use std::sync::atomic::{AtomicBool, Ordering::*};

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
                    // Later reads see the same batch or a later one, whatever the key.
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
