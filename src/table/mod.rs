//! The table: keys and values by linear hashing, in memory or in one file.
//!
//! ```text
//! put(k, v)      hash -> linear::bucket -> latch its frame -> Bucket::set -> page, overflow page or extent
//!                  \-- load over the fill factor --> split (split.rs)
//! get(k)         hash -> linear::bucket -> latch its frame -> locate -> value
//! ```
//!
//! A lookup looks at one frame, without a latch first (`peek.rs`) and under its shared latch where that does not do. `view`, one atomic number, says how many buckets there
//! are; whoever latched a bucket looks at it again, and starts over if the bucket split or went meanwhile.
//!
//! Source: Seltzer & Yigit 1991. Not here: arithmetic (`linear.rs`), bytes of a page (`page.rs`), buckets (`chain.rs`),
//! frames and files (`pager`).

#[cfg(test)]
mod answers;
mod backup;
mod batch;
mod bounds;
mod chain;
mod checkpoint;
mod commit;
mod compact;
#[cfg(test)]
mod crash;
mod cursor;
mod extent;
mod gate;
#[cfg(test)]
mod interleavings;
mod live;
mod many;
#[cfg(test)]
mod openings;
mod options;
mod page;
mod peek;
mod publish;
mod salvage;
mod split;
mod stats;
mod tags;
#[cfg(test)]
mod tests;
mod verify;

use crate::error::{Error, ErrorKind, Result, quote};
use crate::hash::{HashFunction, HashKind};
use crate::linear;
use crate::pager::interleave::step;
use crate::pager::log::Lsn;
use crate::pager::pool::{FrameNo, ReadGuard, ValueHeld, lock_without_values};
use crate::pager::{Create, FRAME_BYTES_MIN, FRAME_UNITS, Opening, Pager, ROOT_BYTES};
use crate::planted::{Bug, planted};
pub use backup::Backup;
pub use batch::Batch;
use chain::{Bucket, Key, Place};
use commit::Change;
pub use cursor::Scan;
use gate::{Delta, Gate, Inside, Totals};
use live::Counters;
pub use live::TableStats;
pub use options::{Durability, TableOptions};
use peek::Peeked;
pub use publish::PublishedStats;
use publish::Publisher;
pub use salvage::{SalvageReport, Salvaged, salvage};
pub use stats::TableStat;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// Longest key in bytes.
pub const KEY_LEN_MAX: usize = u32::MAX as usize;
/// Longest value in bytes.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

/// A table of keys and values.
///
/// Any number of threads may use one at a time; all methods take `&self`. Dropping it closes it, without a word about
/// errors; [`close`](Table::close) tells of them.
///
/// ```
/// use splitpoint::Table;
/// let table = Table::in_memory()?;
/// table.put(b"alice", b"1")?;
/// table.append(b"alice", b"23")?;
/// assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"123"[..]));
/// assert_eq!(table.get(b"bob")?, None);
/// # Ok::<(), splitpoint::Error>(())
/// ```
pub struct Table {
    pager: Arc<Pager>,
    hash: HashFunction,
    page_bytes: usize,
    durability: Durability,
    fill_factor: Option<u32>,
    fill_percent: u32,
    /// `View`, packed.
    view: AtomicU64,
    /// Where each group of buckets starts, in bytes of the file.
    groups: [AtomicU64; linear::GROUP_COUNT],
    /// A table does not shrink below the size it was made for.
    min_max_bucket: AtomicU32,
    live: Arc<Counters>,
    publisher: Mutex<Option<Publisher>>,
    /// Held by whoever splits or merges: one at a time.
    structure: Mutex<()>,
    gate: Gate,
    closed: AtomicBool,
    /// The log is being replayed: nothing is logged.
    replaying: bool,
    /// Changes that were.
    replayed: u64,
    /// Checkpoints are written by the thread that finds them due: for tests, in which the order of I/O matters.
    inline_checkpoints: bool,
}

/// How many buckets there are. The version changes when one goes, so that a bucket that comes back is another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct View {
    max_bucket: linear::Bucket,
    version: u32,
}

/// A bucket, and where it was at some moment.
#[derive(Clone, Copy)]
struct Seen {
    view: View,
    bucket: linear::Bucket,
    frame: FrameNo,
    start: usize,
}

impl Table {
    /// Opens the table in the file at `path`, or makes it, with the default options.
    ///
    /// # Errors
    /// As [`TableOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Table> {
        TableOptions::new().open(path)
    }

    /// Makes a table in memory, with the default options.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where the address space for it cannot be had.
    pub fn in_memory() -> Result<Table> {
        TableOptions::new().in_memory()
    }

    fn in_memory_with(options: TableOptions) -> Result<Table> {
        let frame_bytes = FRAME_BYTES_MIN.max(options.page_bytes as usize);
        let pager = match options.cache_bytes {
            None => Pager::in_memory(frame_bytes, options.storage.clone())?,
            Some(bytes) => Pager::create_scratch(options.storage.clone(), frame_bytes, bytes)?,
        };
        Table::make(pager, &options)
    }

    fn open_with(options: TableOptions, path: &Path) -> Result<Table> {
        let frame_bytes = FRAME_BYTES_MIN.max(options.page_bytes as usize);
        let cache_bytes = options.cache_bytes.unwrap_or_else(default_cache_bytes);
        let create = if options.create_new {
            Create::Always
        } else if options.create && !options.read_only {
            Create::IfAbsent
        } else {
            Create::Never
        };
        let opening = Opening {
            create,
            frame_bytes_if_new: frame_bytes,
            table_id_if_new: options.table_id,
            cache_bytes,
            read_only: options.read_only,
            safety: options.durability.safety(),
            segment_bytes: options.log_bytes / 2,
        };
        let (pager, root) = Pager::open(options.storage.clone(), path, opening)?;
        let table = match root {
            Some(root) => {
                let mut table = Table::from_root(pager, &options, &root)?;
                table.replay()?;
                table
            }
            None => {
                let table = Table::make(pager, &options)?;
                table.checkpoint()?;
                table
            }
        };
        if options.publish_stats {
            table.publish()?;
        }
        Ok(table)
    }

    /// A new, empty table.
    fn make(pager: Pager, options: &TableOptions) -> Result<Table> {
        let page_bytes = options.page_bytes as usize;
        let max_bucket = linear::presize(expected_buckets(options));
        let table = Table {
            hash: options.hash_function(),
            page_bytes,
            durability: options.durability,
            fill_factor: options.fill_factor,
            fill_percent: options.fill_percent,
            view: AtomicU64::new(0),
            live: Arc::new(Counters::new(max_bucket)),
            publisher: Mutex::default(),
            groups: [const { AtomicU64::new(0) }; linear::GROUP_COUNT],
            min_max_bucket: AtomicU32::new(max_bucket),
            structure: Mutex::new(()),
            gate: Gate::new(Totals::default(), load_step(page_bytes, options.fill_factor)),
            closed: AtomicBool::new(false),
            replaying: false,
            replayed: 0,
            inline_checkpoints: options.inline_checkpoints,
            pager: Arc::new(pager),
        };
        // Small groups share the first frame; a bucket's page never shares one with anything but buckets' pages.
        let first = table.pager.allocate(FRAME_UNITS)? * table.pager.unit_bytes() as u64;
        for group in 0..=table.groups_in_first_frame() {
            let before: u64 = (0..group).map(|g| u64::from(linear::group_len(g))).sum();
            table.groups[group].store(first + before * page_bytes as u64, Relaxed);
        }
        table.pager.fix((first / table.pager.frame_bytes() as u64) as FrameNo, 1);
        for group in 0..=linear::group(max_bucket).0 {
            table.allocate_group_number(group)?;
        }
        table.set_view(View { max_bucket, version: 0 });
        Ok(table)
    }

    /// The last of the groups that lie in the first frame together.
    fn groups_in_first_frame(&self) -> usize {
        groups_in_first_frame(self.pager.frame_bytes(), self.page_bytes)
    }

    /// Makes the pages of `bucket` and its neighbours if it is the first of its group; says that those of the next group
    /// will be made soon if the last quarter of it begins.
    fn allocate_group(&self, bucket: linear::Bucket) -> Result<()> {
        let (group, index) = linear::group(bucket);
        if index == 0 {
            self.pager.expect(0);
            return self.allocate_group_number(group);
        }
        if index == linear::group_len(group) / 4 * 3 && group + 1 < linear::GROUP_COUNT {
            let bytes = u64::from(linear::group_len(group + 1)) * self.page_bytes as u64;
            self.pager.expect(u32::try_from(bytes / self.pager.frame_bytes() as u64).unwrap_or(0));
        }
        Ok(())
    }

    fn allocate_group_number(&self, group: usize) -> Result<()> {
        if self.groups[group].load(Relaxed) != 0 {
            return Ok(());
        }
        let units = u64::from(linear::group_len(group)) * self.page_bytes as u64 / self.pager.unit_bytes() as u64;
        let units = u32::try_from(units).map_err(|_| {
            Error::new(ErrorKind::DiskFull, format!("{}: no room for more buckets", self.pager.path().display()))
        })?;
        let unit = self.pager.allocate(units)?;
        step();
        self.groups[group].store(unit * self.pager.unit_bytes() as u64, Release);
        self.pager.fix((unit / u64::from(FRAME_UNITS)) as FrameNo, units / FRAME_UNITS);
        Ok(())
    }

    /// Gives the pages of `bucket`, the last one, back if it was the first of its group.
    fn free_group(&self, bucket: linear::Bucket) -> Result<()> {
        let (group, index) = linear::group(bucket);
        if index != 0 || group <= self.groups_in_first_frame() {
            return Ok(());
        }
        let unit_bytes = self.pager.unit_bytes() as u64;
        let units = u64::from(linear::group_len(group)) * self.page_bytes as u64 / unit_bytes;
        step();
        let start = self.groups[group].swap(0, Release);
        self.pager.unfix((start / self.pager.frame_bytes() as u64) as FrameNo);
        self.pager.free(start / unit_bytes, units as u32)
    }

    #[inline]
    fn view(&self) -> View {
        step();
        let packed = self.view.load(Acquire);
        View { max_bucket: packed as u32, version: (packed >> 32) as u32 }
    }

    #[inline]
    fn set_view(&self, view: View) {
        step();
        self.view.store(u64::from(view.version) << 32 | u64::from(view.max_bucket), Release);
    }

    /// Where a bucket's primary page is: its frame, and where in it.
    #[inline]
    fn location(&self, bucket: linear::Bucket) -> (FrameNo, usize) {
        let (group, index) = linear::group(bucket);
        step();
        // Who sees a group gone or moved sees what led to it: the pages that were copied, or the view without it.
        let address = self.groups[group].load(Acquire) + u64::from(index) * self.page_bytes as u64;
        self.pager.pool().split(address)
    }

    #[inline]
    fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let hash = self.hash.hash(bytes);
        Key { bytes, hash, tag: page::tag(hash) }
    }

    /// Latches the bucket of `hash` for reading.
    #[inline]
    fn read_bucket(&self, hash: u64) -> Result<(ReadGuard<'_>, Range<usize>)> {
        self.refuse_if_forked()?;
        loop {
            let Seen { view, bucket, frame, start } = self.seen(hash);
            let frame = self.pager.read(frame)?;
            if self.still_holds(view, hash, bucket) {
                return Ok((frame, start..start + self.page_bytes));
            }
        }
    }

    /// Under the latch of the frame where `view` says that `bucket` is: is that so, and is it still the one for `hash`?
    #[inline]
    fn still_holds(&self, view: View, hash: u64, bucket: linear::Bucket) -> bool {
        // Whoever splits a bucket or takes it away holds its latch until the new view is out.
        let now = self.view();
        now == view
            || planted(Bug::ViewNotComparedAgain)
            || now.version == view.version && linear::bucket(hash, now.max_bucket) == bucket
    }

    /// Where the bucket of `hash` is as things are now.
    #[inline]
    fn seen(&self, hash: u64) -> Seen {
        let view = self.view();
        let bucket = linear::bucket(hash, view.max_bucket);
        let (frame, start) = self.location(bucket);
        Seen { view, bucket, frame, start }
    }

    /// Latches the bucket of `hash` for changing, which was seen before.
    #[inline]
    fn write_bucket(&self, hash: u64, mut seen: Seen) -> Result<Bucket<'_>> {
        loop {
            let frame = self.pager.write(seen.frame)?;
            if self.still_holds(seen.view, hash, seen.bucket) {
                let mut bucket = Bucket { table: self, frame, start: seen.start };
                bucket.init_if_empty(|| linear::level(seen.bucket, seen.view.max_bucket));
                return Ok(bucket);
            }
            drop(frame);
            seen = self.seen(hash);
        }
    }

    /// The value of `key`.
    ///
    /// O(1): one page, and for the pairs in overflow pages and extents one more. Never waits for a sync: it may see a write of
    /// another thread that is not durable yet.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Corrupt`] where the page has to come from the file.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, where there is none.
    ///
    /// Allocates only where `value` is too small.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let key = self.key(key);
        match self.peek(key, Some(value)) {
            Peeked::Found => return Ok(true),
            Peeked::Absent => return Ok(false),
            Peeked::Unknown => {}
        }
        self.get_latched(key, value)
    }

    /// The same under the latch; `value` is empty.
    #[inline(never)]
    fn get_latched(&self, key: Key<'_>, value: &mut Vec<u8>) -> Result<bool> {
        let (frame, range) = self.read_bucket(key.hash)?;
        let primary = &frame[range];
        let place = self.locate(primary, key)?;
        if live::was_due() {
            self.sample(primary, key);
        }
        match place {
            None => Ok(false),
            Some(place) => self.with_record(primary, place, |r| self.read_value(r, value)).map(|()| true),
        }
    }

    /// The value of `key` where it lies, without a copy if it is in a page.
    ///
    /// As long as the [`ValueRef`] lives, writers of its bucket wait, and a write of this same thread that would have
    /// to wait gives [`ErrorKind::WouldDeadlock`] instead.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_ref(&self, key: &[u8]) -> Result<Option<ValueRef<'_>>> {
        let key = self.key(key);
        let (frame, range) = self.read_bucket(key.hash)?;
        let place = self.locate(&frame[range.clone()], key)?;
        if live::is_due() && live::was_due() {
            self.sample(&frame[range.clone()], key);
        }
        let Some(place) = place else { return Ok(None) };
        let primary = &frame[range];
        let in_page = place.block.is_none();
        let inline = self.with_record(primary, place, |r| {
            let offset = (r.value.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
            Ok((in_page && r.form == page::INLINE).then(|| offset..offset + r.value.len()))
        })?;
        if let Some(range) = inline {
            return Ok(Some(ValueRef(Borrow::Page { frame, range, _held: ValueHeld::new() })));
        }
        let mut value = Vec::new();
        self.with_record(primary, place, |r| self.read_value(r, &mut value))?;
        Ok(Some(ValueRef(Borrow::Copy(value))))
    }

    /// Is `key` there?
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key);
        match self.peek(key, None) {
            Peeked::Found => return Ok(true),
            Peeked::Absent => return Ok(false),
            Peeked::Unknown => {}
        }
        let (frame, range) = self.read_bucket(key.hash)?;
        let found = self.locate(&frame[range.clone()], key)?.is_some();
        if live::was_due() {
            self.sample(&frame[range], key);
        }
        Ok(found)
    }

    /// Stores `value` under `key`, replacing any earlier value.
    ///
    /// O(1): one page, and for large pairs an extent; may split one bucket.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] above [`KEY_LEN_MAX`] or [`VALUE_LEN_MAX`]; [`ErrorKind::ReadOnly`];
    /// [`ErrorKind::DiskFull`], and nothing changed; [`ErrorKind::Io`] and [`ErrorKind::Corrupt`] where a page has to
    /// come from the file; [`ErrorKind::Poisoned`] after a failed checkpoint.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_lengths(key, value.len())?;
        let key = self.key(key);
        let change = Change::Put { key: key.bytes, value };
        self.change(key, change, |bucket, place| bucket.set(key, place, value).map(Some))?;
        Ok(())
    }

    /// Stores `value` under `key` if the key is absent; says whether it did.
    ///
    /// With [`Durability::Sync`] it waits for the disk in both cases: that the key is there may be known from a write of another
    /// thread whose sync is in flight.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_lengths(key, value.len())?;
        let key = self.key(key);
        self.change(key, Change::Put { key: key.bytes, value }, |bucket, place| match place {
            Some(_) => Ok(None),
            None => bucket.set(key, None, value).map(Some),
        })
    }

    /// Adds `tail` to the value of `key`; an absent key gets it as its value.
    ///
    /// O(length of `tail`), amortized: a value in an extent is moved when it outgrows its room, which then grows by a
    /// quarter more than needed.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`ErrorKind::TooLong`] also where the whole would be longer than [`VALUE_LEN_MAX`].
    pub fn append(&self, key: &[u8], tail: &[u8]) -> Result<()> {
        self.check_lengths(key, tail.len())?;
        let key = self.key(key);
        self.change(key, Change::Append { key: key.bytes, tail }, |bucket, place| match place {
            None => bucket.set(key, None, tail).map(Some),
            Some(place) => bucket.append(key, place, tail).map(Some),
        })?;
        Ok(())
    }

    /// Takes `key` and its value out; says whether it was there. With [`Durability::Sync`] either is durable when it returns, as
    /// with [`insert`](Self::insert).
    ///
    /// O(1); may merge two buckets, so that a table that lost most of its pairs becomes small again.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let key = self.key(key);
        self.change(key, Change::Remove { key: key.bytes }, |bucket, place| match place {
            None => Ok(None),
            Some(place) => bucket.remove(key, place).map(Some),
        })
    }

    /// Gives the value of `key`, or `None`, to `f` and stores what it gives back; `None` takes the key out. Says
    /// whether the key is there afterwards.
    ///
    /// No latch is held while `f` runs, so it may use the table and may panic; it is called again if another thread
    /// changed the value meanwhile.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn update(&self, key: &[u8], mut f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<bool> {
        let found = self.key(key);
        loop {
            let old = self.get(key)?;
            let new = f(old.as_deref());
            if let Some(new) = &new {
                self.check_lengths(key, new.len())?;
            }
            let change = match &new {
                Some(value) => Change::Put { key, value },
                None => Change::Remove { key },
            };
            let mut unchanged = false;
            // Where another thread came between, there is no answer yet, and nothing to wait for.
            let (_, lsn) = self.change_unsynced(found, change, |bucket, place| {
                unchanged = bucket.value_equals(place, old.as_deref())?;
                match (&new, place) {
                    (Some(new), _) if unchanged => bucket.set(found, place, new).map(Some),
                    (None, Some(place)) if unchanged => bucket.remove(found, place).map(Some),
                    _ => Ok(None),
                }
            })?;
            if unchanged {
                return self.wait_durable(lsn).map(|()| new.is_some());
            }
        }
    }

    /// One write, as safe as was asked for when it returns. `apply` gives `None` where it changed nothing; then this gives
    /// `false`, and what it was learned from is as safe.
    #[inline]
    fn change(
        &self,
        key: Key<'_>,
        change: Change<'_>,
        apply: impl FnOnce(&mut Bucket<'_>, Option<Place>) -> Result<Option<Delta>>,
    ) -> Result<bool> {
        let (changed, lsn) = self.change_unsynced(key, change, apply)?;
        self.wait_durable(lsn).map(|()| changed)
    }

    /// The walk of every write: room in the log, latch the bucket, look for the key, let `apply` change it, log `change`,
    /// count, grow or shrink. Says whether it changed anything, and the position in the log that a durable answer waits for.
    #[inline]
    fn change_unsynced(
        &self,
        key: Key<'_>,
        change: Change<'_>,
        apply: impl FnOnce(&mut Bucket<'_>, Option<Place>) -> Result<Option<Delta>>,
    ) -> Result<(bool, Lsn)> {
        // Its page is on its way while the previous write's stores are still on theirs.
        let seen = self.prefetch_bucket(key.hash);
        let mut writer = self.enter_to(change)?;
        let mut bucket = self.write_bucket(key.hash, seen)?;
        bucket.prefetch_overflow();
        let place = self.locate(bucket.page(), key)?;
        let Some(delta) = apply(&mut bucket, place)? else { return Ok((false, self.position_seen())) };
        let lsn = self.log(&mut writer, change)?;
        drop(bucket);
        let load_changed = writer.inside.count(delta);
        writer.inside.count_changes(1, usize::from(matches!(change, Change::Remove { .. })));
        // The pair is stored; that the table could not grow or shrink for it is for the next write to try again.
        if load_changed || delta.long_chain || delta.pairs < 0 {
            let _ = self.adjust(delta);
        }
        drop(writer);
        self.checkpoint_if_due();
        Ok((true, lsn))
    }

    /// Asks for the page of the bucket of `hash`.
    #[inline]
    fn prefetch_bucket(&self, hash: u64) -> Seen {
        let seen = self.seen(hash);
        self.prefetch_page(seen.frame, seen.start..seen.start + self.page_bytes);
        seen
    }

    /// Lets a writer in.
    #[inline]
    fn enter(&self) -> Result<Inside<'_>> {
        if self.pager.is_read_only() && !self.replaying {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                format!("{}: opened read-only; open it for writing to change it", self.pager.path().display()),
            ));
        }
        self.refuse_if_forked()?;
        let inside = self.gate.enter()?;
        if self.pager.turns().is_poisoned() {
            self.refuse_if_poisoned()?;
        }
        Ok(inside)
    }

    fn check_lengths(&self, key: &[u8], value_bytes: usize) -> Result<()> {
        if key.len() > KEY_LEN_MAX {
            return Err(Error::new(
                ErrorKind::TooLong,
                format!("key {} has {} bytes, at most {KEY_LEN_MAX} fit", quote(key), key.len()),
            ));
        }
        if value_bytes > VALUE_LEN_MAX {
            return Err(Error::new(
                ErrorKind::TooLong,
                format!("the value of key {} has {value_bytes} bytes, at most {VALUE_LEN_MAX} fit", quote(key)),
            ));
        }
        Ok(())
    }

    /// How many pairs there are. Free.
    pub fn len(&self) -> u64 {
        self.gate.totals().pairs
    }

    /// Is there no pair?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes all pairs out and gives their room back.
    ///
    /// O(buckets). Other writers wait; a reader may find one pair gone and another still there.
    ///
    /// # Errors
    /// As [`remove`](Self::remove). After one some pairs may be gone, and the handle takes no more writes; an open finds the
    /// table as it was.
    pub fn clear(&self) -> Result<()> {
        let lsn = {
            let (_alone, mut writer) = self.enter_alone_to(Change::Clear)?;
            for number in (0..=self.view().max_bucket).rev() {
                // What is gone is gone, and the log does not know of it.
                self.clear_bucket(number, &writer.inside).inspect_err(|e| self.pager.turns().poison(&e.to_string()))?;
            }
            self.log(&mut writer, Change::Clear)?
        };
        {
            let _inside = self.enter()?;
            self.min_max_bucket.store(0, Relaxed);
            while self.wants_merge() && self.merge()? {}
        }
        self.wait_durable(lsn)
    }

    /// Takes the pairs of one bucket out.
    fn clear_bucket(&self, number: linear::Bucket, inside: &Inside<'_>) -> Result<()> {
        let _structure = lock_without_values(&self.structure)?;
        if number > self.view().max_bucket {
            return Ok(());
        }
        let (frame, start) = self.location(number);
        let mut bucket = Bucket { table: self, frame: self.pager.write(frame)?, start };
        let delta = bucket.clear()?;
        inside.count(delta);
        Ok(())
    }

    /// The hash function's name and seed.
    pub fn hash_function(&self) -> (&str, u64) {
        (self.hash.name(), self.hash.seed())
    }

    /// The hash function itself.
    pub(crate) fn hash(&self) -> &HashFunction {
        &self.hash
    }

    // -----------------------------------------------------------------------------------------
    // The root: what the header says about the table. Offsets in docs/format.md, "Root".

    fn root(&self) -> Vec<u8> {
        let view = self.view();
        let mut root = vec![0; ROOT_GROUPS + 4 * linear::GROUP_COUNT];
        let mut put = |at: usize, bytes: &[u8]| root[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.page_bytes as u32).to_le_bytes());
        put(4, &self.hash.kind().id().to_le_bytes());
        put(8, &self.hash.seed().to_le_bytes());
        put(16, &self.hash.check_value().to_le_bytes());
        let max_bucket = view.max_bucket.saturating_sub(planted(Bug::WrongMaxBucket).into());
        put(24, &max_bucket.to_le_bytes());
        put(28, &self.min_max_bucket.load(Relaxed).to_le_bytes());
        put(32, &self.fill_percent.to_le_bytes());
        put(36, &self.fill_factor.unwrap_or(0).to_le_bytes());
        let totals = self.gate.totals();
        for (i, total) in [totals.pairs, totals.payload_bytes, totals.bucket_bytes].iter().enumerate() {
            put(40 + 8 * i, &total.to_le_bytes());
        }
        for (i, group) in self.groups.iter().enumerate() {
            // Groups lie at the start of a frame, but for those that share the first one.
            let frame = group.load(Relaxed) / self.pager.frame_bytes() as u64;
            put(ROOT_GROUPS + 4 * i, &(frame as u32).to_le_bytes());
        }
        root
    }

    fn from_root(pager: Pager, options: &TableOptions, root: &[u8]) -> Result<Table> {
        let u32_at = |at: usize| u32::from_le_bytes(root[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(root[at..at + 8].try_into().expect("8 bytes"));
        let page_bytes = u32_at(0);
        if !options::PAGE_BYTES.contains(&page_bytes)
            || !page_bytes.is_power_of_two()
            || FRAME_BYTES_MIN.max(page_bytes as usize) != pager.frame_bytes()
        {
            return Err(
                pager.corrupt(format!("header: pages of {page_bytes} bytes in frames of {}", pager.frame_bytes()))
            );
        }
        if [6..8, 64..ROOT_GROUPS, ROOT_GROUPS + 4 * linear::GROUP_COUNT..root.len()]
            .into_iter()
            .any(|range| root[range].iter().any(|&b| b != 0))
        {
            return Err(pager.corrupt("header: reserved bytes are not zero"));
        }
        let hash = choose_hash(&pager, options, root[4..6].try_into().expect("2 bytes"), u64_at(8), u64_at(16))?;
        let max_bucket = u32_at(24);
        let fill_percent = u32_at(32);
        if !options::FILL_PERCENT.contains(&fill_percent) {
            return Err(pager.corrupt(format!("header: filled to {fill_percent} percent")));
        }
        let groups = groups_from_root(&pager, root, page_bytes as usize, max_bucket)?;
        let totals = Totals { pairs: u64_at(40), payload_bytes: u64_at(48), bucket_bytes: u64_at(56) };
        bounds::check_totals(&pager, totals)?;
        let fill_factor = Some(u32_at(36)).filter(|&n| n != 0);
        Ok(Table {
            hash,
            page_bytes: page_bytes as usize,
            durability: options.durability,
            fill_factor,
            fill_percent,
            view: AtomicU64::new(u64::from(max_bucket)),
            live: Arc::new(Counters::new(max_bucket)),
            publisher: Mutex::default(),
            groups,
            min_max_bucket: AtomicU32::new(u32_at(28)),
            structure: Mutex::new(()),
            gate: Gate::new(totals, load_step(page_bytes as usize, fill_factor)),
            closed: AtomicBool::new(false),
            replaying: false,
            replayed: 0,
            inline_checkpoints: options.inline_checkpoints,
            pager: Arc::new(pager),
        })
    }
}

/// How many groups lie in the first frame together, beside group 0: groups 0 to g have 2^g buckets.
fn groups_in_first_frame(frame_bytes: usize, page_bytes: usize) -> usize {
    (frame_bytes / page_bytes).trailing_zeros() as usize
}

/// Where the bucket groups start, checked.
fn groups_from_root(
    pager: &Pager,
    root: &[u8],
    page_bytes: usize,
    max_bucket: linear::Bucket,
) -> Result<[AtomicU64; linear::GROUP_COUNT]> {
    let frame_bytes = pager.frame_bytes() as u64;
    let together = groups_in_first_frame(pager.frame_bytes(), page_bytes);
    let mut starts = [0; linear::GROUP_COUNT];
    for (group, start) in starts.iter_mut().enumerate() {
        let at = ROOT_GROUPS + 4 * group;
        let frame = u32::from_le_bytes(root[at..at + 4].try_into().expect("4 bytes"));
        let before: u64 = if group <= together { (0..group).map(|g| u64::from(linear::group_len(g))).sum() } else { 0 };
        *start = u64::from(frame) * frame_bytes + before * page_bytes as u64;
    }
    bounds::fix_groups(pager, page_bytes, max_bucket, &starts)?;
    Ok(starts.map(AtomicU64::new))
}

/// Where the groups' starts stand in the root. On disk.
const ROOT_GROUPS: usize = 128;
const _: () = assert!(ROOT_GROUPS + 4 * linear::GROUP_COUNT <= ROOT_BYTES);

impl Drop for Table {
    fn drop(&mut self) {
        // A poisoned handle refuses to sync, which is as it should be.
        let _ = self.finish();
    }
}

/// The function the file was made with, after a comparison with the one asked for.
fn choose_hash(
    pager: &Pager,
    options: &TableOptions,
    id: [u8; 2],
    seed: u64,
    check_value: u64,
) -> Result<HashFunction> {
    let path = pager.path().display();
    let id = u16::from_le_bytes(id);
    let kind = HashKind::from_id(id).ok_or_else(|| {
        Error::new(
            ErrorKind::Version,
            format!("{path}: hash function {id} is unknown to this version; upgrade splitpoint"),
        )
    })?;
    let wrong = |what: String| Err(Error::new(ErrorKind::WrongHash, format!("{path}: {what}")));
    if let Some(asked) = options.hash.filter(|&asked| asked != kind) {
        return wrong(format!(
            "made with hash function {}, opened with {}; leave the function out to use the file's",
            kind.name(),
            asked.name()
        ));
    }
    if let Some(asked) = options.seed.filter(|&asked| asked != seed && kind.seeded()) {
        return wrong(format!("made with seed {seed}, opened with {asked}; leave the seed out to use the file's"));
    }
    let hash = match (&options.user_hash, kind) {
        (Some(hash), HashKind::User) => hash.clone(),
        (None, HashKind::User) => {
            return wrong("made with a hash function of the user's own; give it with TableOptions::user_hash".into());
        }
        _ => HashFunction::new(kind, seed),
    };
    if hash.check_value() != check_value {
        return wrong(format!("made with another hash function than {}: its check value differs", hash.name()));
    }
    Ok(hash)
}

/// How many bytes a thread may have added before the load is told: a quarter of a page, or none where pairs count.
fn load_step(page_bytes: usize, fill_factor: Option<u32>) -> i64 {
    if fill_factor.is_some() { 0 } else { page_bytes as i64 / 4 }
}

/// Buckets for the pairs that are expected.
fn expected_buckets(options: &TableOptions) -> u64 {
    // What a pair takes if nothing is known about it: a key and a value of 16 bytes, slot and lengths.
    const PAIR_BYTES: u64 = 40;
    match options.fill_factor {
        Some(pairs) => options.expected_len.div_ceil(u64::from(pairs)),
        None => {
            let page = page::capacity(options.page_bytes as usize) as u64 * u64::from(options.fill_percent) / 100;
            (options.expected_len * PAIR_BYTES).div_ceil(page)
        }
    }
}

/// Half of the machine's memory.
fn default_cache_bytes() -> u64 {
    crate::pager::machine_memory_bytes() / 2
}

/// A value borrowed from a table; see [`Table::get_ref`]. Stays on the thread it was made on.
pub struct ValueRef<'t>(Borrow<'t>);

enum Borrow<'t> {
    Page { frame: ReadGuard<'t>, range: Range<usize>, _held: ValueHeld },
    Copy(Vec<u8>),
}

impl Deref for ValueRef<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Borrow::Page { frame, range, .. } => &frame[range.clone()],
            Borrow::Copy(value) => value,
        }
    }
}

impl std::fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueRef({})", quote(self))
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}, {} pairs)", self.pager.path().display(), self.len())
    }
}
