//! Batches: several changes that count together or not at all.
//!
//! ```text
//! commit   grow for what is to come -> latch all buckets, or none and try again -> change after change
//!          -> one record in the log -> release all; wait for the disk if asked to
//! ```
//!
//! Nobody sees a part of a batch: its buckets stay latched until all of it is in. After an error the changes made so far
//! are undone; should that fail too, the handle is poisoned, and an open finds the table without the batch, since the
//! log has no record of it.
//!
//! Source: the write batch is LevelDB's. Not here: the record's bytes (`commit.rs`).

use super::Table;
use super::chain::{Bucket, Key, Place};
use super::commit::{Change, decode_batch, encode_in_batch};
use super::gate::Delta;
use crate::error::{Error, ErrorKind, Result};
use crate::linear;
use crate::pager::pool::{FrameNo, WriteGuard};
use crate::planted::{Bug, planted};
use std::collections::BTreeMap;

/// Changes to be made together; see [`Table::batch`]. Dropped without a [`commit`](Batch::commit), it does nothing.
pub struct Batch<'t> {
    table: &'t Table,
    /// In the form in which the log has them.
    bytes: Vec<u8>,
    count: usize,
    /// Bytes that its pairs take in pages, at most.
    page_bytes: u64,
}

impl Table {
    /// Begins a batch: changes that are made together or not at all, for readers, after errors, and after a crash.
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
    /// As [`Table::put`], once the batch is committed.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] above [`KEY_LEN_MAX`](crate::KEY_LEN_MAX) or [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(Change::Put { key, value }, key, value.len())
    }

    /// As [`Table::append`], once the batch is committed.
    ///
    /// # Errors
    /// As [`put`](Self::put); that the whole value would be too long shows at the commit.
    pub fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<()> {
        self.add(Change::Append { key, tail }, key, tail.len())
    }

    /// As [`Table::remove`], once the batch is committed. That the key is not there is no error.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`], as such a key cannot be there.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.add(Change::Remove { key }, key, 0)
    }

    fn add(&mut self, change: Change<'_>, key: &[u8], value_bytes: usize) -> Result<()> {
        self.table.check_lengths(key, value_bytes)?;
        encode_in_batch(change, &mut self.bytes);
        self.count += 1;
        if !matches!(change, Change::Remove { .. }) {
            self.page_bytes += self.table.bytes_in_page(key.len(), value_bytes) as u64;
        }
        Ok(())
    }

    /// How many changes it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Has it none?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes the changes, in their order, as one.
    ///
    /// O(changes), and a copy of each value that is replaced or removed. Whoever needs one of its buckets waits meanwhile.
    ///
    /// # Errors
    /// As [`Table::put`]; nothing has changed then, or the handle is poisoned and an open finds the table without the
    /// batch.
    pub fn commit(self) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let changes = decode_batch(&self.bytes).expect("it was encoded here");
        let table = self.table;
        let lsn = {
            let mut writer = table.enter_to(Change::Batch(&self.bytes))?;
            table.grow_for(self.page_bytes, self.count as u64);
            let mut latched = Latched::new(table, &changes)?;
            let delta = latched.make(&changes)?;
            let lsn = table.log(&mut writer, Change::Batch(&self.bytes))?;
            drop(latched);
            writer.inside.count(delta);
            let removals = changes.iter().filter(|change| matches!(change, Change::Remove { .. })).count();
            writer.inside.count_changes(changes.len(), removals);
            // As after a single write; what is still to be done is for later ones.
            let _ = table.adjust(delta);
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
    max_bucket: linear::Bucket,
}

/// How a change is undone.
enum Undo<'a> {
    Remove(Key<'a>),
    Put(Key<'a>, Vec<u8>),
    /// Of a value in an extent that was appended to: its length before.
    Cut(Key<'a>, usize),
}

impl<'t> Latched<'t> {
    fn new(table: &'t Table, changes: &[Change<'_>]) -> Result<Self> {
        let hashes: Vec<u64> = changes.iter().filter_map(|c| c.key()).map(|key| table.key(key).hash).collect();
        'again: loop {
            let view = table.view();
            let place = |&hash: &u64| table.location(linear::bucket(hash, view.max_bucket)).0;
            let mut frames: BTreeMap<FrameNo, Option<WriteGuard<'t>>> =
                hashes.iter().map(|hash| (place(hash), None)).collect();
            // In order, so that two batches seldom meet; and none is waited for while others are held: where a group of
            // buckets went meanwhile, a frame may be one of overflow pages by now, which others wait for under theirs.
            for frame in frames.keys().copied().collect::<Vec<_>>() {
                let guard = table.pager.try_write(frame)?;
                if guard.is_none() {
                    drop(frames);
                    drop(table.pager.write(frame)?);
                    continue 'again;
                }
                frames.insert(frame, guard);
            }
            // Whoever splits or merges a bucket, or moves it, holds its latch or has all writers out.
            let now = table.view();
            let same = |&hash: &u64| linear::bucket(hash, now.max_bucket) == linear::bucket(hash, view.max_bucket);
            let unchanged = now == view || now.version == view.version && hashes.iter().all(same);
            if unchanged || planted(Bug::BatchTrustsView) {
                return Ok(Latched { table, frames, max_bucket: now.max_bucket });
            }
        }
    }

    /// Makes all changes, or none.
    fn make(&mut self, changes: &[Change<'_>]) -> Result<Delta> {
        let mut undo = Vec::with_capacity(changes.len());
        let mut sum = Delta::default();
        for &change in changes {
            let made = self.make_one(change, &mut undo);
            #[cfg(test)]
            let made = match FAIL_AT.get() {
                Some(n) if n == undo.len() => Err(Error::new(ErrorKind::InvalidArgument, "a test lets it fail")),
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

    fn make_one<'a>(&mut self, change: Change<'a>, undo: &mut Vec<Undo<'a>>) -> Result<Delta> {
        let key = self.table.key(change.key().expect("a batch has changes of keys"));
        self.with_bucket(key, |bucket, place| {
            let before = place.map(|place| bucket.before(key, place, matches!(change, Change::Append { .. })));
            let before = before.transpose()?.unwrap_or(Undo::Remove(key));
            let delta = match (change, place) {
                (Change::Put { value, .. }, place) => bucket.set(key, place, value)?,
                (Change::Append { tail, .. }, Some(place)) => bucket.append(key, place, tail)?,
                (Change::Append { tail, .. }, None) => bucket.set(key, None, tail)?,
                (_, Some(place)) => bucket.remove(key, place)?,
                (_, None) => return Ok(Delta::default()),
            };
            undo.push(before);
            Ok(delta)
        })
    }

    /// Undoes changes, the last one first. Nothing was counted yet.
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
            let why = format!("a batch failed, and to undo it failed too: {e}");
            self.table.pager.turns().poison(&why);
            Error::new(
                ErrorKind::Poisoned,
                format!("{}: {why}; open the table again", self.table.pager.path().display()),
            )
        })
    }

    /// Calls `work` with the bucket of `key`, and where in it the key is.
    fn with_bucket<R>(
        &mut self,
        key: Key<'_>,
        work: impl FnOnce(&mut Bucket<'t>, Option<Place>) -> Result<R>,
    ) -> Result<R> {
        let number = linear::bucket(key.hash, self.max_bucket);
        let (frame, start) = self.table.location(number);
        let slot = self.frames.get_mut(&frame).expect("all buckets of the batch are latched");
        let mut bucket = Bucket { table: self.table, frame: slot.take().expect("given back each time"), start };
        bucket.init_if_empty(|| linear::level(number, self.max_bucket));
        let done = self.table.locate(bucket.page(), key).and_then(|place| work(&mut bucket, place));
        *slot = Some(bucket.frame);
        done
    }
}

impl Bucket<'_> {
    /// What undoes a change of the pair at `place`.
    fn before<'k>(&self, key: Key<'k>, place: Place, append: bool) -> Result<Undo<'k>> {
        let (extent, value_bytes) = self.value_at(place)?;
        if append && extent.is_some() {
            return Ok(Undo::Cut(key, value_bytes));
        }
        let mut value = Vec::with_capacity(value_bytes);
        self.table.with_record(self.page(), place, |r| self.table.read_value(r, &mut value))?;
        Ok(Undo::Put(key, value))
    }
}

#[cfg(test)]
thread_local! {
    /// Where a test wants a batch to fail.
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
        let stat = table.stat().unwrap();
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
                    // Later looks see the same batch or a later one, whatever the key.
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
