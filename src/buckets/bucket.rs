//! One bucket: its primary page and its overflow pages.
//!
//! ```text
//! primary page --next--> overflow page --next--> ... 0        usually none or one
//! ```
//!
//! An overflow page has the layout of a primary page, but only the size it needs, a few units of a frame. When it is
//! full it is replaced by a larger one, up to a whole frame; only then is another page added before it. The primary
//! page has a filter over the tags in overflow pages, so a lookup of an absent key rarely reads one.
//!
//! A bucket is changed under the exclusive latch of the frame of its primary page, which also guards its overflow
//! pages and extents, since nothing else refers to them. New pages are written before anything refers to them and old
//! ones freed afterwards, so an error in between leaves the bucket unchanged.
//!
//! Source: Seltzer & Yigit 1991, "Overflow Pages". Differs: one page of fitting size, not a chain of whole ones
//! (docs/architecture.md, "Overflow"). Not here: bytes in a page (`page.rs`), which bucket (`linear.rs`), splitting
//! (`split.rs`).

use super::batch_units::BatchUnits;
use super::extent::{EXTENT_BYTES, Extent, grown_bytes};
use super::gathered::Gathered;
use super::linear_hash::Buckets;
use super::overflow::{NEW_OVERFLOW_GAP_MAX, OverflowPage};
use super::page::{self, Damage, Found, INLINE, PAIR_IN_EXTENT, Record};
use crate::error::Result;
use crate::linear;
use crate::pager::pool::WriteGuard;
use crate::pager::pool::part::PartGuard;
use crate::pager::words::FrameBytes;

/// The change of a table's totals by a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub pairs: i64,
    /// Keys and values.
    pub payload: i64,
    /// Slots and records in pages.
    pub bucket: i64,
    /// How often a second overflow page was needed: then the table should grow whatever its load. An integer like the
    /// others: with a `bool`, the struct would be passed through memory.
    pub long_chains: i64,
}

/// The change of the totals, and the new length of a value that was appended to; `None` if nothing changed.
pub(crate) type Edited = Result<Option<(Delta, usize)>>;

impl Delta {
    /// The change by an append of `tail` that added `bucket` bytes to records.
    #[inline]
    pub(super) fn of_tail(tail: &[u8], bucket: i64) -> Delta {
        Delta { bucket, payload: tail.len() as i64, ..Delta::default() }
    }
}

impl std::ops::Add for Delta {
    type Output = Delta;
    fn add(self, other: Delta) -> Delta {
        Delta {
            pairs: self.pairs + other.pairs,
            payload: self.payload + other.payload,
            bucket: self.bucket + other.bucket,
            long_chains: self.long_chains + other.long_chains,
        }
    }
}

/// The location of a pair in its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairLocation {
    /// The overflow page; the primary page if `None`.
    pub overflow: Option<OverflowPage>,
    pub found: Found,
}

/// A key with its hash and tag.
#[derive(Clone, Copy)]
pub(crate) struct HashedKey<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
    pub tag: u16,
}

impl<'a> HashedKey<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], hash: u64) -> HashedKey<'a> {
        HashedKey { bytes, hash, tag: page::tag(hash) }
    }
}

/// The latch of a bucket, held for changing it.
pub(crate) struct LatchedBucket<'t> {
    buckets: &'t Buckets,
    number: linear::Bucket,
    pub primary: PartGuard<'t>,
}

impl<'t> LatchedBucket<'t> {
    /// Bucket `number`, whose primary page is at `start` of `frame`.
    #[inline]
    pub(crate) fn new(
        buckets: &'t Buckets,
        number: linear::Bucket,
        frame: WriteGuard<'t>,
        start: usize,
    ) -> LatchedBucket<'t> {
        LatchedBucket { buckets, number, primary: PartGuard::new(frame, start, buckets.page_bytes) }
    }

    /// The bucket. Code that changes it takes this instead of the latch, which then stays in registers.
    #[inline]
    pub(crate) fn bucket(&mut self) -> Bucket<'_> {
        Bucket { buckets: self.buckets, number: self.number, page: self.primary.bytes_mut(), units: None }
    }

    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        &self.primary
    }
}

/// A bucket whose latch is held for changing it.
pub(crate) struct Bucket<'b> {
    pub buckets: &'b Buckets,
    number: linear::Bucket,
    page: FrameBytes<'b>,
    /// In a batch: what it has allocated and no longer refers to.
    units: Option<&'b mut BatchUnits>,
}

impl Buckets {
    /// The location of this key in the bucket whose primary page is `primary`.
    #[inline]
    pub(crate) fn locate(&self, primary: &[u8], key: HashedKey<'_>) -> Result<Option<PairLocation>> {
        if let Some(found) = self.find_in(primary, key)? {
            return Ok(Some(PairLocation { overflow: None, found }));
        }
        if self.may_be_behind(primary, key.tag) { self.locate_behind(primary, key.bytes, key.hash) } else { Ok(None) }
    }

    /// Whether the overflow pages of a bucket may have a key of this tag. The primary page has none.
    #[inline(always)]
    pub(super) fn may_be_behind(&self, primary: &[u8], tag: u16) -> bool {
        let bits = page::filter_bits(tag);
        page::next(primary) != 0 && page::filter(primary) & bits == bits
    }

    /// The location of a key in the overflow pages of the bucket whose primary page is `primary`.
    #[inline(never)]
    pub(super) fn locate_behind(&self, primary: &[u8], key: &[u8], hash: u64) -> Result<Option<PairLocation>> {
        let key = HashedKey::new(key, hash);
        self.walk_chain(page::next(primary), |overflow, bytes| {
            Ok(self.find_in(bytes, key)?.map(|found| PairLocation { overflow: Some(overflow), found }))
        })
    }

    #[inline]
    fn find_in(&self, bytes: &[u8], key: HashedKey<'_>) -> Result<Option<Found>> {
        if key.bytes.len() <= self.limits.key_inline_max {
            return page::find(bytes, key.tag, key.bytes).map_err(|d| self.damaged(d));
        }
        self.find_large(bytes, key.bytes, key.hash)
    }

    /// [`find_in`](Self::find_in) for a key in an extent.
    #[cold]
    fn find_large(&self, bytes: &[u8], key: &[u8], hash: u64) -> Result<Option<Found>> {
        let mut failed = None;
        let found = page::find_by(bytes, page::tag(hash), |r| {
            if r.form != PAIR_IN_EXTENT || r.key != hash.to_le_bytes() {
                return false;
            }
            let equal = self.parse_extent(r).and_then(|e| self.extent_has_key(&e, key));
            equal.unwrap_or_else(|e| {
                failed = Some(e);
                true
            })
        });
        match failed {
            Some(e) => Err(e),
            None => found.map_err(|d| self.damaged(d)),
        }
    }

    /// Appends the value of a record to `out`.
    #[inline]
    pub(super) fn read_value(&self, record: Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        if record.form == INLINE {
            out.extend_from_slice(record.value);
            return Ok(());
        }
        self.read_extent_value(&self.parse_extent(record)?, out)
    }

    /// Calls `use_record` with the record at `location`.
    #[inline]
    pub(super) fn with_record<R>(
        &self,
        primary: &[u8],
        location: PairLocation,
        use_record: impl FnOnce(Record<'_>) -> Result<R>,
    ) -> Result<R> {
        match location.overflow {
            None => use_record(location.found.record(primary)),
            Some(overflow) => {
                let (frame, range) = self.read_overflow(overflow)?;
                use_record(location.found.record(&frame[range]))
            }
        }
    }

    /// The extent of the pair at `location`. The pair must have one.
    fn extent_at(&self, primary: &[u8], location: PairLocation) -> Result<Extent> {
        self.with_record(primary, location, |record| self.parse_extent(record))
    }

    /// An upper bound of the bytes of slot and record for a pair of these lengths.
    pub(crate) fn bytes_in_page(&self, key_bytes: usize, value_bytes: usize) -> usize {
        const LENGTHS_BYTES: usize = 8;
        let key = if key_bytes > self.limits.key_inline_max { size_of::<u64>() } else { key_bytes };
        let value = if key + value_bytes > self.limits.record_inline_max { EXTENT_BYTES } else { value_bytes };
        page::SLOT_BYTES + LENGTHS_BYTES + key + value
    }

    /// Whether a record has this key itself, even if the value is in an extent.
    pub(crate) fn keeps_key(&self, key: &[u8]) -> bool {
        key.len() <= self.limits.key_inline_max
    }

    /// Whether key and value fit in a record.
    pub(super) fn fits_inline(&self, key: &[u8], value_bytes: usize) -> bool {
        key.len() <= self.limits.key_inline_max && key.len() + value_bytes <= self.limits.pair_inline_max
    }
}

#[cold]
fn init(mut page: FrameBytes<'_>, level: u32) {
    page::init(&mut page, page::KIND_BUCKET, level);
}

impl Bucket<'_> {
    #[inline]
    pub(crate) fn page(&self) -> &[u8] {
        &self.page
    }

    pub(super) fn number(&self) -> linear::Bucket {
        self.number
    }

    #[inline]
    pub(super) fn page_mut(&mut self) -> FrameBytes<'_> {
        self.page.whole()
    }

    /// Reborrows the bucket for an out-of-line call. Passing `self`'s own address would force it into memory on the
    /// inlined path, too.
    #[inline]
    fn for_call(&mut self) -> Bucket<'_> {
        let (page, units) = (self.page.whole(), self.units.as_deref_mut());
        Bucket { buckets: self.buckets, number: self.number, page, units }
    }

    /// The bucket, to be changed by a batch that can be undone.
    pub(crate) fn in_batch<'s>(&'s mut self, units: &'s mut BatchUnits) -> Bucket<'s> {
        Bucket { buckets: self.buckets, number: self.number, page: self.page.whole(), units: Some(units) }
    }

    /// Initializes the primary page of a bucket that was always empty.
    #[inline]
    pub(crate) fn init_if_empty(&mut self, level: impl FnOnce() -> u32) {
        if page::kind(self.page()) == page::KIND_EMPTY {
            init(self.page_mut(), level());
        }
    }

    /// Stores `value` under `key`, at `location` if the key is present.
    #[inline(always)]
    pub(crate) fn set(&mut self, key: HashedKey<'_>, location: Option<PairLocation>, value: &[u8]) -> Result<Delta> {
        match location {
            None => {
                let delta = if self.buckets.fits_inline(key.bytes, value.len()) {
                    self.add(key.tag, Record { form: INLINE, key: key.bytes, value })?
                } else {
                    self.for_call().insert_large(key.bytes, key.hash, value)?
                };
                Ok(Delta { pairs: 1, payload: (key.bytes.len() + value.len()) as i64, ..delta })
            }
            Some(PairLocation { overflow: None, found })
                if found.form == INLINE && found.value_bytes == value.len() =>
            {
                // The common overwrite: nothing moves.
                let buckets = self.buckets;
                let stored = page::replace_value(&mut self.page_mut(), found, INLINE, value);
                stored.map_err(|d| buckets.damaged(d))?;
                Ok(Delta::default())
            }
            Some(location) => self.for_call().overwrite(key.bytes, key.hash, location, value),
        }
    }

    /// Replaces the value at `location`.
    #[inline(never)]
    fn overwrite(&mut self, key: &[u8], hash: u64, location: PairLocation, value: &[u8]) -> Result<Delta> {
        let key = HashedKey::new(key, hash);
        let (old_extent, old_value_bytes) = self.value_at(location)?;
        let payload = value.len() as i64 - old_value_bytes as i64;
        let delta = if self.buckets.fits_inline(key.bytes, value.len()) {
            self.replace(key, location, INLINE, value)?
        } else if let Some(old) = old_extent
            && self.units.is_none()
            && let Some(new) = self.buckets.overwrite_extent(&old, value)?
        {
            let delta = self.refer_to(key, location, &new)?;
            return Ok(Delta { payload, ..delta });
        } else {
            let new = self.new_extent(key, [value, b""], 0)?;
            self.replace_or_free(key, location, new)?
        };
        if let Some(extent) = old_extent {
            self.free_extent(&extent);
        }
        Ok(Delta { payload, ..delta })
    }

    /// Makes `extent`, a new one that has the value, the value of `key`.
    pub(crate) fn set_extent(
        &mut self,
        key: HashedKey<'_>,
        location: Option<PairLocation>,
        extent: &Extent,
    ) -> Result<Delta> {
        let value_bytes = i64::from(extent.value_bytes);
        let Some(location) = location else {
            let added = self.add_extent(key, extent)?;
            return Ok(Delta { pairs: 1, payload: key.bytes.len() as i64 + value_bytes, ..added });
        };
        let (old, old_value_bytes) = self.value_at(location)?;
        let replaced = self.refer_to(key, location, extent)?;
        if let Some(old) = old {
            self.free_extent(&old);
        }
        Ok(Delta { payload: value_bytes - old_value_bytes as i64, ..replaced })
    }

    /// Appends `tail` to the value at `location`, unless it would be longer than `len_max`.
    pub(super) fn append(&mut self, key: HashedKey<'_>, location: PairLocation, tail: &[u8], len_max: usize) -> Edited {
        let (old_extent, old_len) = self.value_at(location)?;
        let len = old_len + tail.len();
        if len > len_max {
            return Ok(None);
        }
        let pair_bytes_max = self.buckets.limits.pair_inline_max;
        if let Some(bucket) =
            self.change(location, |bytes| page::append_value(bytes, location.found, tail, pair_bytes_max))?
        {
            return Ok(Some((Delta::of_tail(tail, bucket), len)));
        }
        self.buckets.check_lengths(key.bytes, len)?;
        let delta = match old_extent {
            Some(old) => {
                let new = self.buckets.append_extent(&old, tail)?;
                if new.unit == old.unit {
                    self.refer_to(key, location, &new)?
                } else {
                    self.note_new(new.unit, new.capacity);
                    let delta = self.replace_or_free(key, location, new)?;
                    self.free_extent(&old);
                    delta
                }
            }
            None if self.buckets.fits_inline(key.bytes, len) => {
                // On the stack if it is short, since a full page makes this common.
                const SHORT_BYTES: usize = 256;
                let (mut short, mut long) = ([0; SHORT_BYTES], Vec::new());
                if len > SHORT_BYTES {
                    long.resize(len, 0);
                }
                let value = short.get_mut(..len).unwrap_or(&mut long);
                value[old_len..].copy_from_slice(tail);
                self.buckets.with_record(self.page(), location, |record| {
                    value[..old_len].copy_from_slice(record.value);
                    Ok(())
                })?;
                let record = |value| Record { form: INLINE, key: key.bytes, value };
                self.relocate(key.tag, location, record(&value[..old_len]), record(value))?
            }
            None => {
                let old = self.value(location)?;
                let new = self.new_extent(key, [&old, tail], grown_bytes(len as u64))?;
                self.replace_or_free(key, location, new)?
            }
        };
        Ok(Some((Delta { payload: tail.len() as i64, ..delta }, len)))
    }

    /// [`append`](Self::append) in the usual case of a key that is not in the primary page: it is in the first overflow
    /// page, which has room. Otherwise returns `None` and changes nothing.
    pub(super) fn append_behind(&mut self, key: HashedKey<'_>, tail: &[u8], len_max: usize) -> Edited {
        let buckets = self.buckets;
        let Some(overflow) = buckets.parse_overflow(page::next(self.page()))? else { return Ok(None) };
        let mut page = buckets.write_overflow_here(overflow)?;
        if page::kind(&page) != page::KIND_OVERFLOW || key.bytes.len() > buckets.limits.key_inline_max {
            return Ok(None);
        }
        let found = page::find(&page, key.tag, key.bytes).map_err(|d| buckets.damaged(d))?;
        let Some(found) = found else { return Ok(None) };
        let len = found.value_bytes + tail.len();
        let done =
            len <= len_max && page::append_quickly(&mut page.bytes_mut(), found, tail, buckets.limits.pair_inline_max);
        Ok(done.then(|| (Delta::of_tail(tail, tail.len() as i64), len)))
    }

    /// A copy of the value at `location`.
    pub(crate) fn value(&self, location: PairLocation) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.buckets.with_record(self.page(), location, |r| self.buckets.read_value(r, &mut value))?;
        Ok(value)
    }

    /// Removes the pair at `location`.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: HashedKey<'_>, location: PairLocation) -> Result<Delta> {
        let (extent, value_bytes) = self.value_at(location)?;
        let bucket = -(self.take_out(location)? as i64);
        if let Some(extent) = extent {
            self.free_extent(&extent);
        }
        let next = page::next(self.page());
        if next != 0 && (location.overflow.is_some() || self.may_absorb(next)) {
            // The pair is removed. If its overflow page could not be removed too, the next removal or split tries
            // again.
            let _ = self.for_call().absorb_overflow();
        }
        Ok(Delta { pairs: -1, payload: -((key.bytes.len() + value_bytes) as i64), bucket, long_chains: 0 })
    }

    /// Removes the record at `location` of a pair whose extent another record refers to now.
    pub(crate) fn remove_record(&mut self, key: HashedKey<'_>, location: PairLocation) -> Result<Delta> {
        let (_, value_bytes) = self.value_at(location)?;
        let bucket = -(self.take_out(location)? as i64);
        Ok(Delta { pairs: -1, payload: -((key.bytes.len() + value_bytes) as i64), bucket, long_chains: 0 })
    }

    /// Removes all pairs.
    pub(crate) fn clear(&mut self) -> Result<Delta> {
        let buckets = self.buckets;
        let mut delta = Delta::default();
        let mut extents = Vec::new();
        let mut gathered = Gathered::default();
        buckets.gather(self.page(), &mut gathered)?;
        buckets.each_record(&gathered, |record, _, _| {
            delta.pairs -= 1;
            delta.bucket -= (record.bytes() + page::SLOT_BYTES) as i64;
            let extent = (record.form != INLINE).then(|| buckets.parse_extent(record)).transpose()?;
            let key_bytes = if record.form == PAIR_IN_EXTENT { 0 } else { record.key.len() as u64 };
            delta.payload -= (key_bytes + extent.map_or(record.value.len() as u64, |e| e.content_bytes())) as i64;
            extents.extend(extent);
            Ok(())
        })?;
        let level = page::level(self.page());
        page::init(&mut self.page_mut(), page::KIND_BUCKET, level);
        for extent in extents {
            self.free_extent(&extent);
        }
        gathered.overflow_pages().iter().for_each(|&overflow| self.free_overflow(overflow));
        Ok(delta)
    }

    /// Whether the value at `location` equals `value`; `None` means no value.
    pub(crate) fn value_equals(&self, location: Option<PairLocation>, value: Option<&[u8]>) -> Result<bool> {
        let (Some(location), Some(value)) = (location, value) else { return Ok(location.is_none() == value.is_none()) };
        Ok(self.value(location)? == value)
    }

    /// The extent, if any, and the length of the value at `location`.
    #[inline(always)]
    pub(crate) fn value_at(&self, location: PairLocation) -> Result<(Option<Extent>, usize)> {
        if location.found.form == INLINE {
            return Ok((None, location.found.value_bytes));
        }
        let extent = self.buckets.extent_at(self.page(), location)?;
        Ok((Some(extent), extent.value_bytes as usize))
    }

    fn new_extent(&mut self, key: HashedKey<'_>, value: [&[u8]; 2], room_bytes: u64) -> Result<Extent> {
        let big_key = key.bytes.len() > self.buckets.limits.key_inline_max;
        let extent = self.buckets.new_extent(
            if big_key { key.bytes } else { b"" },
            value,
            room_bytes + if big_key { key.bytes.len() as u64 } else { 0 },
        )?;
        self.note_new(extent.unit, extent.capacity);
        Ok(extent)
    }

    fn new_overflow(&mut self, old: Option<&[u8]>, next: u64, tag: u16, record: Record<'_>) -> Result<OverflowPage> {
        let overflow = self.buckets.new_overflow(old, next, tag, record)?;
        self.note_new(overflow.unit, overflow.len);
        Ok(overflow)
    }

    fn note_new(&mut self, unit: u64, len: u32) {
        if let Some(units) = &mut self.units {
            units.note_new(unit, len);
        }
    }

    /// Frees an extent that nothing refers to any more; in a batch, once that cannot be undone.
    fn free_extent(&mut self, extent: &Extent) {
        match &mut self.units {
            Some(units) => units.replace(self.buckets, extent.unit, extent.capacity),
            None => self.buckets.free_extent(extent),
        }
    }

    /// [`free_extent`](Self::free_extent) for an overflow page.
    fn free_overflow(&mut self, overflow: OverflowPage) {
        match &mut self.units {
            Some(units) => units.replace(self.buckets, overflow.unit, overflow.len),
            None => self.buckets.free_overflow(&[overflow]),
        }
    }

    fn insert_large(&mut self, key: &[u8], hash: u64, value: &[u8]) -> Result<Delta> {
        let key = HashedKey::new(key, hash);
        let extent = self.new_extent(key, [value, b""], 0)?;
        self.add_extent(key, &extent).inspect_err(|_| self.free_extent(&extent))
    }

    /// Adds a pair whose key is absent and whose value is in `extent`.
    fn add_extent(&mut self, key: HashedKey<'_>, extent: &Extent) -> Result<Delta> {
        let reference = extent.to_bytes();
        let hash = key.hash.to_le_bytes();
        let form = extent.form();
        let key_stored = if form == PAIR_IN_EXTENT { &hash } else { key.bytes };
        self.add(key.tag, Record { form, key: key_stored, value: &reference })
    }

    /// Makes the record at `location` refer to a new extent; frees the extent after an error.
    fn replace_or_free(&mut self, key: HashedKey<'_>, location: PairLocation, extent: Extent) -> Result<Delta> {
        self.refer_to(key, location, &extent).inspect_err(|_| self.free_extent(&extent))
    }

    /// Makes the record at `location` refer to `extent`.
    fn refer_to(&mut self, key: HashedKey<'_>, location: PairLocation, extent: &Extent) -> Result<Delta> {
        self.replace(key, location, extent.form(), &extent.to_bytes())
    }

    /// Changes the form and value of the record at `location`, in place or elsewhere in the bucket.
    fn replace(&mut self, key: HashedKey<'_>, location: PairLocation, form: u8, value: &[u8]) -> Result<Delta> {
        let buckets = self.buckets;
        let changed = self.change(location, |bytes| page::replace_value(bytes, location.found, form, value))?;
        if let Some(bucket) = changed {
            return Ok(Delta { bucket, ..Delta::default() });
        }
        // It does not fit in place: remove it, and add it where it fits.
        let (old_form, old_key, old_value) =
            buckets.with_record(self.page(), location, |r| Ok((r.form, r.key.to_vec(), r.value.to_vec())))?;
        let old = Record { form: old_form, key: &old_key, value: &old_value };
        self.relocate(key.tag, location, old, Record { form, key: &old_key, value })
    }

    /// Removes the record `old` at `location` and adds `new` where it fits.
    fn relocate(&mut self, tag: u16, location: PairLocation, old: Record<'_>, new: Record<'_>) -> Result<Delta> {
        self.change(location, |bytes| page::remove(bytes, location.found))?;
        match self.add(tag, new) {
            Ok(delta) => Ok(Delta { bucket: delta.bucket - (old.bytes() + page::SLOT_BYTES) as i64, ..delta }),
            Err(e) => {
                // Nothing else changed in the page, so the removed record still fits, unless the file was damaged
                // before. An overflow page may have been evicted, or be latched by another thread while this one holds
                // a value.
                self.change(location, |bytes| page::insert(bytes, tag, old))
                    .inspect_err(|lost| self.buckets.pager.poison(lost.message()))?;
                Err(e)
            }
        }
    }

    /// Applies `edit` to the page at `location`.
    #[inline]
    fn change<R>(
        &mut self,
        location: PairLocation,
        edit: impl FnOnce(&mut FrameBytes<'_>) -> std::result::Result<R, Damage>,
    ) -> Result<R> {
        let buckets = self.buckets;
        let edited = match location.overflow {
            None => edit(&mut self.page_mut()),
            Some(overflow) => edit(&mut buckets.write_overflow(overflow)?.bytes_mut()),
        };
        edited.map_err(|d| buckets.damaged(d))
    }

    /// Removes the record at `location`, and its overflow page if it was the last one there. Returns the bytes it
    /// took.
    #[inline(always)]
    fn take_out(&mut self, location: PairLocation) -> Result<usize> {
        let buckets = self.buckets;
        match location.overflow {
            None => page::remove(&mut self.page_mut(), location.found).map_err(|d| buckets.damaged(d)),
            Some(overflow) => self.for_call().take_out_of(overflow, location.found),
        }
    }

    fn take_out_of(&mut self, overflow: OverflowPage, found: Found) -> Result<usize> {
        let buckets = self.buckets;
        let mut page = buckets.write_overflow(overflow)?;
        let bytes = page::remove(&mut page.bytes_mut(), found).map_err(|d| buckets.damaged(d))?;
        let (empty, next) = (page::slot_count(&page) == 0, page::next(&page));
        drop(page);
        if empty {
            // The record is removed. An empty page that stays in its chain only takes space, until a split.
            let _ = self.unlink(overflow, next);
        }
        Ok(bytes)
    }

    /// Unlinks an overflow page and frees it.
    fn unlink(&mut self, overflow: OverflowPage, next: u64) -> Result<()> {
        let buckets = self.buckets;
        if page::next(self.page()) == overflow.to_bits() {
            page::set_next(&mut self.page_mut(), next);
            if next == 0 {
                page::set_filter(&mut self.page_mut(), 0);
            }
        } else {
            let before = buckets.walk_chain(page::next(self.page()), |b, bytes| {
                Ok((page::next(bytes) == overflow.to_bits()).then_some(b))
            })?;
            let before = before.ok_or_else(|| buckets.pager.corrupt("an overflow page is not in its chain"))?;
            page::set_next(&mut buckets.write_overflow(before)?.bytes_mut(), next);
        }
        self.free_overflow(overflow);
        Ok(())
    }

    /// Whether the primary page may have room for the records of the overflow page that `next` refers to. Judges by the
    /// overflow page's length alone: one that has lost records may fit sooner, and is absorbed later.
    #[inline]
    fn may_absorb(&self, next: u64) -> bool {
        let unit_bytes = self.buckets.pager.unit_bytes();
        let bytes = (next & 0xFFFF) as usize * unit_bytes;
        page::gap_bytes(self.page()).is_ok_and(|gap| gap + NEW_OVERFLOW_GAP_MAX + unit_bytes >= bytes)
    }

    /// Moves the records of a lone overflow page into the primary page once they fit.
    fn absorb_overflow(&mut self) -> Result<()> {
        let buckets = self.buckets;
        let Some(overflow) = buckets.parse_overflow(page::next(self.page()))? else { return Ok(()) };
        let gap = page::gap_bytes(self.page()).map_err(|d| buckets.damaged(d))?;
        let (frame, range) = buckets.read_overflow(overflow)?;
        let bytes = &frame[range];
        if page::next(bytes) != 0 || page::used_bytes(bytes) > gap {
            return Ok(());
        }
        for record in page::records(bytes) {
            let (tag, record) = record.map_err(|d| buckets.damaged(d))?;
            let inserted = page::insert(&mut self.page_mut(), tag, record).map_err(|d| buckets.damaged(d))?;
            assert!(inserted, "the gap was compared with all of them");
        }
        drop(frame);
        self.unlink(overflow, 0)
    }

    /// Adds a record: to the primary page, else to the first overflow page, else to a larger or further one.
    #[inline(always)]
    fn add(&mut self, tag: u16, record: Record<'_>) -> Result<Delta> {
        let buckets = self.buckets;
        let bytes = (record.bytes() + page::SLOT_BYTES) as i64;
        let inserted = page::insert(&mut self.page_mut(), tag, record).map_err(|d| buckets.damaged(d))?;
        let Record { form, key, value } = record;
        let long_chains = if inserted { 0 } else { self.for_call().add_behind(tag, form, key, value)? };
        Ok(Delta { bucket: bytes, long_chains, ..Delta::default() })
    }

    /// Adds a record to an overflow page, since the primary page is full. Returns 1 if that took a second overflow
    /// page, else 0.
    #[inline(never)]
    fn add_behind(&mut self, tag: u16, form: u8, key: &[u8], value: &[u8]) -> Result<i64> {
        let buckets = self.buckets;
        let long_chains = match buckets.parse_overflow(page::next(self.page()))? {
            None => self.add_to_new(tag, form, key, value)?,
            Some(overflow) => {
                let mut page = buckets.write_overflow_here(overflow)?;
                let record = Record { form, key, value };
                if page::insert(&mut page.bytes_mut(), tag, record).map_err(|d| buckets.damaged(d))? {
                    0
                } else {
                    self.replace_head(overflow, page, tag, form, key, value)?
                }
            }
        };
        let filter = page::filter(self.page()) | page::filter_bits(tag);
        page::set_filter(&mut self.page_mut(), filter);
        buckets.note_expected(self.number, self.page());
        Ok(long_chains)
    }

    /// Adds a record to a new overflow page, the only one.
    #[inline(never)]
    fn add_to_new(&mut self, tag: u16, form: u8, key: &[u8], value: &[u8]) -> Result<i64> {
        let new = self.new_overflow(None, 0, tag, Record { form, key, value })?;
        page::set_next(&mut self.page_mut(), new.to_bits());
        Ok(0)
    }

    /// Replaces the first overflow page, which is full, by a larger one with one more record, and returns 0. If that
    /// would not fit a frame, adds a new page before it and returns 1.
    #[inline(never)]
    fn replace_head(
        &mut self,
        overflow: OverflowPage,
        full: PartGuard<'_>,
        tag: u16,
        form: u8,
        key: &[u8],
        value: &[u8],
    ) -> Result<i64> {
        let (buckets, record) = (self.buckets, Record { form, key, value });
        let old = full.to_vec();
        drop(full);
        let needed = page::HEADER_BYTES + page::used_bytes(&old) + record.bytes() + page::SLOT_BYTES;
        let grows = needed <= buckets.pager.frame_bytes();
        let new = if grows {
            self.new_overflow(Some(&old), page::next(&old), tag, record)?
        } else {
            self.new_overflow(None, overflow.to_bits(), tag, record)?
        };
        page::set_next(&mut self.page_mut(), new.to_bits());
        if grows {
            self.free_overflow(overflow);
        }
        Ok(i64::from(!grows))
    }
}
