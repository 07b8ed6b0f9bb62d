//! One bucket: its primary page and the overflow pages behind it.
//!
//! ```text
//! primary page --next--> overflow page --next--> ... 0        usually none or one
//! ```
//!
//! An overflow page has the layout of a primary one but just the size it needs, a few units of a frame; it is made
//! anew, larger, when it is full, up to a whole frame, and only then another goes before it. The primary page keeps a
//! filter over the tags of what lies in overflow pages, so a lookup of an absent key seldom goes there.
//!
//! A bucket is changed under the exclusive latch of the frame of its primary page, which guards its overflow pages and
//! extents too, as nothing else leads to them. New pages are written before anything refers to them and old ones freed
//! after, so an error on the way leaves the bucket as it was.
//!
//! Source: Seltzer & Yigit 1991, "Overflow Pages". Differs: one page of fitting size, not a chain of whole ones
//! (docs/architecture.md, "Overflow"). Not here: bytes in a page (`page.rs`), which bucket (`linear.rs`), splitting (`split.rs`).

use super::Table;
use super::extent::{EXTENT_BYTES, Extent, grown_bytes};
use super::gate::Delta;
use super::page::{self, Damage, INLINE, PAIR_IN_EXTENT, Record, VALUE_IN_EXTENT};
use crate::error::Result;
use crate::pager::FRAME_UNITS;
use crate::pager::pool::{FrameNo, ReadGuard, WriteGuard};
use crate::pager::words::FrameBytes;
use crate::planted::{Bug, planted};

/// Where an overflow page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub unit: u64,
    pub len: u32,
}

impl Block {
    /// As it stands in a page's `next`: 48 bits of unit, 16 of length; 0 for none.
    pub(super) fn to_bits(self) -> u64 {
        self.unit << 16 | u64::from(self.len)
    }
}

/// Where a pair lies in its bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The overflow page, or the primary page if none.
    pub block: Option<Block>,
    pub slot: usize,
}

/// A key and what is computed from it once.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
    pub tag: u16,
}

/// A bucket latched for changing.
pub(super) struct Bucket<'t> {
    pub table: &'t Table,
    pub frame: WriteGuard<'t>,
    /// Where the primary page starts in the frame.
    pub start: usize,
}

impl Table {
    /// The block a page's `next` names, checked against the size of the file.
    pub(super) fn parse_block(&self, bits: u64) -> Result<Option<Block>> {
        if bits == 0 {
            return Ok(None);
        }
        let block = Block { unit: bits >> 16, len: (bits & 0xFFFF) as u32 };
        let units = u64::from(FRAME_UNITS);
        let within = block.len >= 1
            && block.unit % units + u64::from(block.len) <= units
            && block.unit / units < u64::from(self.pager.frame_count());
        if !within {
            return Err(self.pager.corrupt(format!("an overflow page of {} units at unit {}", block.len, block.unit)));
        }
        Ok(Some(block))
    }

    pub(super) fn block_range(&self, block: Block) -> (FrameNo, std::ops::Range<usize>) {
        let unit_bytes = self.pager.unit_bytes();
        let start = (block.unit % u64::from(FRAME_UNITS)) as usize * unit_bytes;
        ((block.unit / u64::from(FRAME_UNITS)) as FrameNo, start..start + block.len as usize * unit_bytes)
    }

    /// Latches an overflow page's frame for reading; the range is the page.
    pub(super) fn read_block(&self, block: Block) -> Result<(ReadGuard<'_>, std::ops::Range<usize>)> {
        let (frame, range) = self.block_range(block);
        self.check_apart(frame)?;
        let frame = self.pager.read(frame)?;
        if page::kind(&frame[range.clone()]) != page::KIND_OVERFLOW {
            return Err(self.pager.corrupt(format!("unit {}: expected an overflow page", block.unit)));
        }
        Ok((frame, range))
    }

    pub(super) fn write_block(&self, block: Block) -> Result<(WriteGuard<'_>, std::ops::Range<usize>)> {
        let (frame, range) = self.block_range(block);
        self.check_apart(frame)?;
        Ok((self.pager.write(frame)?, range))
    }

    /// Calls `visit` for each overflow page behind `first` with its place and bytes until it gives something.
    pub(super) fn walk_chain<R>(
        &self,
        first: u64,
        mut visit: impl FnMut(Block, &[u8]) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        // The pages of a chain lie apart, so together they are no longer than the file: nor is what is made of them.
        let mut left = u64::from(self.pager.frame_count()) * u64::from(FRAME_UNITS);
        let mut next = self.parse_block(first)?;
        while let Some(block) = next {
            left = left
                .checked_sub(block.len.into())
                .ok_or_else(|| self.pager.corrupt("a chain of overflow pages runs in a circle"))?;
            let (frame, range) = self.read_block(block)?;
            let bytes = &frame[range];
            if let Some(found) = visit(block, bytes)? {
                return Ok(Some(found));
            }
            next = self.parse_block(page::next(bytes))?;
        }
        Ok(None)
    }

    /// The pair with this key in the bucket whose primary page is `primary`.
    #[inline]
    pub(super) fn locate(&self, primary: &[u8], key: Key<'_>) -> Result<Option<Place>> {
        if let Some(slot) = self.find_in(primary, key)? {
            return Ok(Some(Place { block: None, slot }));
        }
        let bits = page::filter_bits(key.tag);
        if page::next(primary) == 0 || page::filter(primary) & bits != bits {
            return Ok(None);
        }
        self.walk_chain(page::next(primary), |block, bytes| {
            Ok(self.find_in(bytes, key)?.map(|slot| Place { block: Some(block), slot }))
        })
    }

    #[inline]
    fn find_in(&self, bytes: &[u8], key: Key<'_>) -> Result<Option<usize>> {
        if key.bytes.len() <= self.key_bytes_inline_max() {
            return page::find(bytes, key.tag, key.bytes).map_err(|d| self.damaged(d));
        }
        let mut failed = None;
        let hash = key.hash.to_le_bytes();
        let found = page::find_by(bytes, key.tag, |r| {
            if r.form != PAIR_IN_EXTENT || r.key != hash {
                return false;
            }
            let equal = self.parse_extent(r).and_then(|e| self.extent_has_key(&e, key.bytes));
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

    /// Adds the value of a record to `out`.
    #[inline]
    pub(super) fn read_value(&self, record: Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        if record.form == INLINE {
            out.extend_from_slice(record.value);
            return Ok(());
        }
        self.read_extent_value(&self.parse_extent(record)?, out)
    }

    /// Calls `use_record` with the record at `place`.
    #[inline]
    pub(super) fn with_record<R>(
        &self,
        primary: &[u8],
        place: Place,
        use_record: impl FnOnce(Record<'_>) -> Result<R>,
    ) -> Result<R> {
        match place.block {
            None => use_record(page::record(primary, place.slot).map_err(|d| self.damaged(d))?),
            Some(block) => {
                let (frame, range) = self.read_block(block)?;
                use_record(page::record(&frame[range], place.slot).map_err(|d| self.damaged(d))?)
            }
        }
    }

    /// An error about a page that contradicts itself.
    #[cold]
    pub(super) fn damaged(&self, damage: Damage) -> crate::Error {
        self.pager.corrupt(damage.0)
    }

    /// Longest key that stays in its record.
    #[inline]
    pub(super) fn key_bytes_inline_max(&self) -> usize {
        self.page_bytes / 8
    }

    /// Bytes of slot and record that a pair of these lengths takes, at most.
    pub(super) fn bytes_in_page(&self, key_bytes: usize, value_bytes: usize) -> usize {
        const LENGTHS_BYTES: usize = 8;
        let key = if key_bytes > self.key_bytes_inline_max() { size_of::<u64>() } else { key_bytes };
        let value = if key + value_bytes > self.record_bytes_inline_max() { EXTENT_BYTES } else { value_bytes };
        page::SLOT_BYTES + LENGTHS_BYTES + key + value
    }

    /// Longest record that keeps its value.
    #[inline]
    fn record_bytes_inline_max(&self) -> usize {
        self.page_bytes / 4
    }
}

impl Bucket<'_> {
    #[inline]
    pub(super) fn page(&self) -> &[u8] {
        &self.frame[self.start..self.start + self.table.page_bytes]
    }

    #[inline]
    pub(super) fn page_mut(&mut self) -> FrameBytes<'_> {
        self.frame.part(self.start..self.start + self.table.page_bytes)
    }

    /// Asks for the first overflow page, if there is one.
    #[inline]
    pub(super) fn prefetch_overflow(&self) {
        if let Ok(Some(block)) = self.table.parse_block(page::next(self.page())) {
            let (frame, range) = self.table.block_range(block);
            self.table.prefetch_page(frame, range);
        }
    }

    /// Makes a page that nothing was ever put into a page of this bucket.
    #[inline]
    pub(super) fn init_if_empty(&mut self, level: impl FnOnce() -> u32) {
        if page::kind(self.page()) == page::KIND_EMPTY {
            page::init(&mut self.page_mut(), page::KIND_BUCKET, level());
        }
    }

    /// Does the pair fit into a record of its own, key, value and all?
    fn fits_inline(&self, key: &[u8], value_bytes: usize) -> bool {
        key.len() <= self.table.key_bytes_inline_max() && key.len() + value_bytes <= self.pair_bytes_inline_max()
    }

    /// Longest pair whose record has it all.
    #[inline]
    fn pair_bytes_inline_max(&self) -> usize {
        const LENGTHS_BYTES: usize = 4;
        self.table.record_bytes_inline_max() - LENGTHS_BYTES
    }

    /// Stores `value` under `key`, at `place` if the key is there already.
    pub(super) fn set(&mut self, key: Key<'_>, place: Option<Place>, value: &[u8]) -> Result<Delta> {
        let Some(place) = place else {
            let mut delta = self.insert_new(key, value)?;
            delta.pairs = 1;
            delta.payload = (key.bytes.len() + value.len()) as i64;
            return Ok(delta);
        };
        let (mut old_extent, old_value_bytes) = self.value_at(place)?;
        let payload = value.len() as i64 - old_value_bytes as i64;
        let big_key = key.bytes.len() > self.table.key_bytes_inline_max();
        if self.fits_inline(key.bytes, value.len()) {
            let mut delta = self.replace(key, place, INLINE, value)?;
            if let Some(extent) = old_extent {
                self.table.free_extent(&extent);
            }
            delta.payload = payload;
            return Ok(delta);
        }
        if let Some(old) = old_extent
            && let Some(new) = self.table.overwrite_extent(&old, value)?
        {
            let form = if big_key { PAIR_IN_EXTENT } else { VALUE_IN_EXTENT };
            let mut delta = self.replace(key, place, form, &new.to_bytes())?;
            delta.payload = payload;
            return Ok(delta);
        }
        if planted(Bug::FreedTooEarly) {
            old_extent.take().inspect(|old| self.table.free_extent(old));
        }
        let new = self.new_extent(key, [value, b""], 0)?;
        let mut delta = self.replace_or_free(key, place, new)?;
        if let Some(extent) = old_extent {
            self.table.free_extent(&extent);
        }
        delta.payload = payload;
        Ok(delta)
    }

    /// Adds `tail` to the value at `place`.
    pub(super) fn append(&mut self, key: Key<'_>, place: Place, tail: &[u8]) -> Result<Delta> {
        let payload = tail.len() as i64;
        let table = self.table;
        let pair_bytes_max = self.pair_bytes_inline_max();
        let grown = |bytes: &mut FrameBytes<'_>| page::append_value(bytes, place.slot, tail, pair_bytes_max);
        if let Some(bucket) = self.change(place, grown, table)? {
            return Ok(Delta { bucket, payload, ..Delta::default() });
        }
        let (old_extent, old_value_bytes) = self.value_at(place)?;
        self.table.check_lengths(key.bytes, old_value_bytes + tail.len())?;
        let mut delta = match old_extent {
            Some(old) => {
                let new = self.table.append_extent(&old, tail)?;
                let form = if old.key_bytes > 0 { PAIR_IN_EXTENT } else { VALUE_IN_EXTENT };
                if new.unit == old.unit {
                    self.replace(key, place, form, &new.to_bytes())?
                } else {
                    let delta = self.replace_or_free(key, place, new)?;
                    self.table.free_extent(&old);
                    delta
                }
            }
            None => self.append_elsewhere(key, place, old_value_bytes, tail)?,
        };
        delta.payload = payload;
        Ok(delta)
    }

    /// Adds `tail` to a value whose record has no room for it where it is.
    fn append_elsewhere(&mut self, key: Key<'_>, place: Place, old_value_bytes: usize, tail: &[u8]) -> Result<Delta> {
        let fits = self.fits_inline(key.bytes, old_value_bytes + tail.len());
        let key_bytes = key.bytes.len();
        let mut pair = Vec::with_capacity(key_bytes + old_value_bytes + tail.len());
        pair.extend_from_slice(key.bytes);
        self.table.with_record(self.page(), place, |r| self.table.read_value(r, &mut pair))?;
        let old_end = pair.len();
        if fits {
            pair.extend_from_slice(tail);
            let old = Record { form: INLINE, key: key.bytes, value: &pair[key_bytes..old_end] };
            let new = Record { form: INLINE, key: key.bytes, value: &pair[key_bytes..] };
            return self.relocate(key.tag, place, old, new);
        }
        let old = &pair[key_bytes..];
        let room = grown_bytes((old.len() + tail.len()) as u64);
        let new = self.new_extent(key, [old, tail], room)?;
        self.replace_or_free(key, place, new)
    }

    /// Cuts the value at `place`, which lies in an extent, to `len` bytes.
    pub(super) fn cut(&mut self, key: Key<'_>, place: Place, len: usize) -> Result<()> {
        let (extent, _) = self.value_at(place)?;
        let Some(extent) = extent else { return Ok(()) };
        let form = if extent.key_bytes > 0 { PAIR_IN_EXTENT } else { VALUE_IN_EXTENT };
        let cut = Extent { value_bytes: len as u32, ..extent }; // shorter than it was
        self.replace(key, place, form, &cut.to_bytes()).map(drop)
    }

    /// Takes the pair at `place` out.
    pub(super) fn remove(&mut self, key: Key<'_>, place: Place) -> Result<Delta> {
        let (extent, value_bytes) = self.value_at(place)?;
        let bucket = -(self.take_out(place)? as i64);
        if let Some(extent) = extent {
            self.table.free_extent(&extent);
        }
        // The pair is out; that its overflow page could not go too is for the next removal or split to try again.
        let _ = self.absorb_overflow();
        Ok(Delta { pairs: -1, payload: -((key.bytes.len() + value_bytes) as i64), bucket, long_chain: false })
    }

    /// Takes all pairs out.
    pub(super) fn clear(&mut self) -> Result<Delta> {
        let table = self.table;
        let mut delta = Delta::default();
        let mut extents = Vec::new();
        let gathered = table.gather(self.page())?;
        for record in gathered.records() {
            let record = record.map_err(|d| table.damaged(d))?;
            delta.pairs -= 1;
            delta.bucket -= (record.bytes() + page::SLOT_BYTES) as i64;
            let extent = (record.form != INLINE).then(|| table.parse_extent(record)).transpose()?;
            let key_bytes = if record.form == PAIR_IN_EXTENT { 0 } else { record.key.len() as u64 };
            delta.payload -= (key_bytes + extent.map_or(record.value.len() as u64, |e| e.content_bytes())) as i64;
            extents.extend(extent);
        }
        let level = page::level(self.page());
        page::init(&mut self.page_mut(), page::KIND_BUCKET, level);
        for extent in extents {
            table.free_extent(&extent);
        }
        table.free_blocks(gathered.blocks());
        Ok(delta)
    }

    /// Is `value` the value at `place`? `None` stands for no value.
    pub(super) fn value_equals(&self, place: Option<Place>, value: Option<&[u8]>) -> Result<bool> {
        let (Some(place), Some(value)) = (place, value) else { return Ok(place.is_none() == value.is_none()) };
        let mut now = Vec::new();
        self.table.with_record(self.page(), place, |r| self.table.read_value(r, &mut now))?;
        Ok(now == value)
    }

    /// The extent, if it has one, and the length of the value at `place`.
    pub(super) fn value_at(&self, place: Place) -> Result<(Option<Extent>, usize)> {
        self.table.with_record(self.page(), place, |r| {
            if r.form == INLINE {
                return Ok((None, r.value.len()));
            }
            let extent = self.table.parse_extent(r)?;
            Ok((Some(extent), extent.value_bytes as usize))
        })
    }

    fn new_extent(&self, key: Key<'_>, value: [&[u8]; 2], room_bytes: u64) -> Result<Extent> {
        let big_key = key.bytes.len() > self.table.key_bytes_inline_max();
        self.table.new_extent(
            if big_key { key.bytes } else { b"" },
            value,
            room_bytes + if big_key { key.bytes.len() as u64 } else { 0 },
        )
    }

    /// Adds a pair whose key is not there.
    fn insert_new(&mut self, key: Key<'_>, value: &[u8]) -> Result<Delta> {
        if self.fits_inline(key.bytes, value.len()) {
            return self.add(key.tag, Record { form: INLINE, key: key.bytes, value });
        }
        let extent = self.new_extent(key, [value, b""], 0)?;
        let reference = extent.to_bytes();
        let hash = key.hash.to_le_bytes();
        let record = match extent.key_bytes {
            0 => Record { form: VALUE_IN_EXTENT, key: key.bytes, value: &reference },
            _ => Record { form: PAIR_IN_EXTENT, key: &hash, value: &reference },
        };
        let added = self.add(key.tag, record);
        if added.is_err() {
            self.table.free_extent(&extent);
        }
        added
    }

    /// Lets the record at `place` refer to a new extent, or frees that on an error.
    fn replace_or_free(&mut self, key: Key<'_>, place: Place, extent: Extent) -> Result<Delta> {
        let form = if extent.key_bytes > 0 { PAIR_IN_EXTENT } else { VALUE_IN_EXTENT };
        let replaced = self.replace(key, place, form, &extent.to_bytes());
        if replaced.is_err() {
            self.table.free_extent(&extent);
        }
        replaced
    }

    /// Gives the record at `place` another form and value, where it is or elsewhere in the bucket.
    fn replace(&mut self, key: Key<'_>, place: Place, form: u8, value: &[u8]) -> Result<Delta> {
        let table = self.table;
        let changed = self.change(place, |bytes| page::replace_value(bytes, place.slot, form, value), table)?;
        if let Some(bucket) = changed {
            return Ok(Delta { bucket, ..Delta::default() });
        }
        // No room there: out, and in again where there is.
        let (old_form, old_key, old_value) =
            table.with_record(self.page(), place, |r| Ok((r.form, r.key.to_vec(), r.value.to_vec())))?;
        let old = Record { form: old_form, key: &old_key, value: &old_value };
        self.relocate(key.tag, place, old, Record { form, key: &old_key, value })
    }

    /// Takes the record `old` at `place` out and adds `new` in its stead where there is room.
    fn relocate(&mut self, tag: u16, place: Place, old: Record<'_>, new: Record<'_>) -> Result<Delta> {
        let table = self.table;
        self.change(place, |bytes| page::remove(bytes, place.slot).map(|()| true), table)?;
        match self.add(tag, new) {
            Ok(delta) => Ok(Delta { bucket: delta.bucket - (old.bytes() + page::SLOT_BYTES) as i64, ..delta }),
            Err(e) => {
                // Nothing else changed there, so what was taken out has room to go back; if not, the file was damaged
                // before and `e` says so.
                self.change(place, |bytes| page::insert(bytes, tag, old), table)?;
                Err(e)
            }
        }
    }

    /// Applies `edit` to the page at `place`; gives the change of its used bytes, or `None` if `edit` said that it has
    /// no room.
    #[inline]
    fn change(
        &mut self,
        place: Place,
        edit: impl FnOnce(&mut FrameBytes<'_>) -> std::result::Result<bool, Damage>,
        table: &Table,
    ) -> Result<Option<i64>> {
        let apply = |bytes: &mut FrameBytes<'_>| {
            let before = page::used_bytes(bytes) as i64;
            let done = edit(bytes).map_err(|d| table.damaged(d))?;
            Ok(done.then(|| page::used_bytes(bytes) as i64 - before))
        };
        match place.block {
            None => apply(&mut self.page_mut()),
            Some(block) => {
                let (mut frame, range) = table.write_block(block)?;
                apply(&mut frame.part(range))
            }
        }
    }

    /// Takes the record at `place` out, and its overflow page if that was the last in it. Gives the bytes it took.
    fn take_out(&mut self, place: Place) -> Result<usize> {
        let table = self.table;
        let change = self.change(place, |bytes| page::remove(bytes, place.slot).map(|()| true), table)?;
        if let Some(block) = place.block {
            let (frame, range) = table.read_block(block)?;
            let (empty, next) = (page::slot_count(&frame[range.clone()]) == 0, page::next(&frame[range]));
            drop(frame);
            if empty {
                self.unlink(block, next)?;
            }
        }
        Ok(-change.expect("a removal needs no room") as usize)
    }

    /// Takes an overflow page out of the chain and frees it.
    fn unlink(&mut self, block: Block, next: u64) -> Result<()> {
        let table = self.table;
        if page::next(self.page()) == block.to_bits() {
            page::set_next(&mut self.page_mut(), next);
            if next == 0 {
                page::set_filter(&mut self.page_mut(), 0);
            }
        } else {
            let before = table.walk_chain(page::next(self.page()), |b, bytes| {
                Ok((page::next(bytes) == block.to_bits()).then_some(b))
            })?;
            let before = before.ok_or_else(|| table.pager.corrupt("an overflow page is not in its chain"))?;
            let (mut frame, range) = table.write_block(before)?;
            page::set_next(&mut frame.part(range), next);
        }
        table.free_blocks(&[block]);
        Ok(())
    }

    /// Moves the records of a lone overflow page into the primary page once they have room there.
    fn absorb_overflow(&mut self) -> Result<()> {
        let table = self.table;
        let Some(block) = table.parse_block(page::next(self.page()))? else { return Ok(()) };
        let gap = page::gap_bytes(self.page()).map_err(|d| table.damaged(d))?;
        let (frame, range) = table.read_block(block)?;
        let bytes = &frame[range];
        if page::next(bytes) != 0 || page::used_bytes(bytes) > gap {
            return Ok(());
        }
        for record in page::records(bytes) {
            let (tag, record) = record.map_err(|d| table.damaged(d))?;
            let inserted = page::insert(&mut self.page_mut(), tag, record).map_err(|d| table.damaged(d))?;
            assert!(inserted, "the gap was compared with all of them");
        }
        drop(frame);
        self.unlink(block, 0)
    }

    /// Adds a record: to the primary page, else to the first overflow page, else to a larger or further one.
    fn add(&mut self, tag: u16, record: Record<'_>) -> Result<Delta> {
        let table = self.table;
        let bytes = (record.bytes() + page::SLOT_BYTES) as i64;
        let mut delta = Delta { bucket: bytes, ..Delta::default() };
        if page::insert(&mut self.page_mut(), tag, record).map_err(|d| table.damaged(d))? {
            return Ok(delta);
        }
        let head = table.parse_block(page::next(self.page()))?;
        match head {
            None => {
                let new = table.new_block(None, 0, tag, record)?;
                page::set_next(&mut self.page_mut(), new.to_bits());
            }
            Some(block) => {
                let (mut frame, range) = table.write_block(block)?;
                if !page::insert(&mut frame.part(range.clone()), tag, record).map_err(|d| table.damaged(d))? {
                    let old = frame[range].to_vec();
                    drop(frame);
                    delta.long_chain = !self.replace_head(block, &old, tag, record)?;
                }
            }
        }
        let filter = page::filter(self.page()) | page::filter_bits(tag);
        page::set_filter(&mut self.page_mut(), filter);
        Ok(delta)
    }

    /// Makes a larger overflow page of the first one, or, where that would not fit a frame, puts a new one before it.
    /// `false` for the latter.
    fn replace_head(&mut self, block: Block, old: &[u8], tag: u16, record: Record<'_>) -> Result<bool> {
        let table = self.table;
        let needed = page::HEADER_BYTES + page::used_bytes(old) + record.bytes() + page::SLOT_BYTES;
        let grows = needed <= table.pager.frame_bytes();
        let new = if grows {
            table.new_block(Some(old), page::next(old), tag, record)?
        } else {
            table.new_block(None, block.to_bits(), tag, record)?
        };
        page::set_next(&mut self.page_mut(), new.to_bits());
        if grows {
            table.free_blocks(&[block]);
        }
        Ok(grows)
    }
}

impl Table {
    /// A new overflow page with the records of `old`, if given, and one more.
    fn new_block(&self, old: Option<&[u8]>, next: u64, tag: u16, record: Record<'_>) -> Result<Block> {
        let used = old.map_or(0, page::used_bytes) + record.bytes() + page::SLOT_BYTES;
        // Room for a pair or two more, so that not each makes the page anew; the next split takes the slack back.
        const SLACK_BYTES: usize = 112;
        let block = self.allocate_block(used + SLACK_BYTES)?;
        let written = self.write_block(block).and_then(|(mut frame, range)| {
            let bytes = &mut frame.part(range);
            page::init(bytes, page::KIND_OVERFLOW, 0);
            if let Some(old) = old {
                page::copy_records(old, bytes).map_err(|d| self.damaged(d))?;
            }
            page::set_next(bytes, next);
            let inserted = page::insert(bytes, tag, record).map_err(|d| self.damaged(d))?;
            assert!(inserted, "the page was made large enough");
            Ok(())
        });
        if let Err(e) = written {
            self.free_blocks(&[block]);
            return Err(e);
        }
        Ok(block)
    }

    /// Room for an overflow page with `used_bytes` of slots and records, at most a frame.
    pub(super) fn allocate_block(&self, used_bytes: usize) -> Result<Block> {
        let bytes = (page::HEADER_BYTES + used_bytes).min(self.pager.frame_bytes());
        // The page's own lengths are 16 bits: a page of 65536 bytes is legal, its heap is smaller.
        let len = bytes.div_ceil(self.pager.unit_bytes()) as u32;
        Ok(Block { unit: self.pager.allocate(len)?, len })
    }
}
