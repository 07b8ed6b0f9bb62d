//! Fields in segments: how large hashes, sets and the scores of sorted sets are found by name.
//!
//! A second level of linear hashing: a keyed hash of the field selects its segment, and the number of
//! segments grows and shrinks by one. So a lookup reads one segment, whatever the size, a new field changes
//! one segment, and no command is O(fields) because of growth.
//!
//! A segment has all fields of one part of the hash order, as with the table's buckets. A scan goes through that
//! order: its cursor is a position in it, so a field that stays is returned exactly once, however often segments split.
//!
//! Not here: small collections (`fields/`, `sorted/`), the descriptor in the key (`shape.rs`).

use super::elements;
use super::shape::{Gap, LargeFields, SEGMENTS_PER_FIELD, damaged};
use crate::keyspace::Result;
use crate::keyspace::pairs::{Pairs, PairsMut};
use splitpoint::HashKind;
use std::ops::Range;

/// Average fields, or bytes, of a segment above which another segment is added.
const SEGMENT_FIELDS: u64 = 16;
const SEGMENT_BYTES: u64 = 1024;
/// The most segments that split for one field.
const SPLITS_MAX: usize = 3;
/// The most that merge: more than [`SEGMENTS_PER_FIELD`], which then remains true as fields are removed.
const MERGES_MAX: u64 = 2 * SEGMENTS_PER_FIELD;
/// A keyed hash puts no more fields than this into one segment.
const SEGMENT_FIELDS_MAX: u64 = 1024;

/// Linear hashing: the lowest bits of the hash, one more where the segment has split.
fn segment_of(hash: u64, segments: u64) -> u64 {
    let bits = segments.ilog2();
    let finer = hash & (u64::MAX >> (63 - bits));
    if finer < segments { finer } else { hash & ((1 << bits) - 1) }
}

/// The segment from which this one splits.
fn parent_of(segment: u64) -> u64 {
    segment - (1 << segment.ilog2())
}

/// The position of a hash in hash order: 63 bits, the lowest bit of the hash first.
fn place_of(hash: u64) -> u64 {
    hash.reverse_bits() >> 1
}

/// The range of positions that a segment covers.
fn places_of(segment: u64, segments: u64) -> Range<u64> {
    let bits = segments.ilog2();
    // Segments that have split, and the segments split off from them, have one bit more.
    let split = segments - (1 << bits);
    let bits = if segment < split || segment >= 1 << bits { bits + 1 } else { bits };
    if bits == 0 {
        return 0..1 << 63;
    }
    let first = segment.reverse_bits() >> 1;
    first..first + (1 << (63 - bits.min(63)))
}

/// What a run stores for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A member of a set.
    Names,
    /// A field and its value.
    Pairs,
    /// A field that may have a lifetime, and its value. Fields that have expired by `now_ms` are absent; with 0, none.
    Expiring { now_ms: u64 },
}

impl Layout {
    const NAMES: u8 = 1;
    const PAIRS: u8 = 2;
    const EXPIRING: u8 = 3;

    /// The number of elements of a field without a lifetime.
    pub(super) fn width(self) -> usize {
        if self == Layout::Names { 1 } else { 2 }
    }

    /// The layout in which no field counts as expired.
    pub(super) fn raw(self) -> Layout {
        if let Layout::Expiring { .. } = self { Layout::Expiring { now_ms: 0 } } else { self }
    }
}

/// Whether a field that expires then is absent; 0: it never expires.
pub(crate) fn has_expired(expires_at_ms: u64, now_ms: u64) -> bool {
    expires_at_ms != 0 && expires_at_ms <= now_ms
}

/// A field and its value within a run, and their positions.
pub(super) struct Found {
    pub(super) value: Range<usize>,
    pub(super) all: Range<usize>,
    /// When it expires, in Unix milliseconds; 0: never.
    pub(super) expires_at_ms: u64,
}

/// The end of an element within its run.
fn end_of(run: &[u8], element: &[u8]) -> usize {
    element.as_ptr() as usize - run.as_ptr() as usize + element.len()
}

/// Checks that the end of a run was reached after this many fields.
fn check_end(run: &[u8], at: usize, fields: u64) -> Result<()> {
    if at == run.len() && fields <= SEGMENT_FIELDS_MAX {
        return Ok(());
    }
    Err(damaged(format_args!("a run of {} bytes is cut after {fields} fields", run.len())))
}

/// The fields of a run. `KIND` is a constant of [`Layout`], so that runs without lifetimes are not searched for any.
struct Fields<'r, const KIND: u8> {
    run: &'r [u8],
    elements: elements::Elements<'r>,
    seen: u64,
}

/// A field of a run: its name, its value, and when it expires.
struct Item<'r> {
    start: usize,
    name: &'r [u8],
    value: &'r [u8],
    expires_at_ms: u64,
}

impl<'r, const KIND: u8> Fields<'r, KIND> {
    fn of(run: &'r [u8]) -> Self {
        Fields { run, elements: elements::iter(run), seen: 0 }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Item<'r>>> {
        let start = self.elements.at();
        let expires_at_ms = if KIND == Layout::EXPIRING { self.elements.lifetime() } else { Some(0) };
        let name = expires_at_ms.and_then(|_| self.elements.next());
        let value = if KIND == Layout::NAMES { Some(&[][..]) } else { self.elements.next() };
        let (Some(expires_at_ms), Some(name), Some(value)) = (expires_at_ms, name, value) else {
            return check_end(self.run, start, self.seen).map(|()| None);
        };
        self.seen += 1;
        Ok(Some(Item { start, name, value, expires_at_ms }))
    }
}

/// Finds a field of a run.
///
/// # Errors
/// [`splitpoint::ErrorKind::Corrupt`] if the bytes are not a run of fields.
pub(super) fn find(run: &[u8], layout: Layout, field: &[u8]) -> Result<Option<Found>> {
    match layout {
        Layout::Names => find_in::<{ Layout::NAMES }>(run, field),
        Layout::Pairs => find_in::<{ Layout::PAIRS }>(run, field),
        Layout::Expiring { now_ms } => {
            let found = find_in::<{ Layout::EXPIRING }>(run, field)?;
            Ok(found.filter(|found| !has_expired(found.expires_at_ms, now_ms)))
        }
    }
}

fn find_in<const KIND: u8>(run: &[u8], field: &[u8]) -> Result<Option<Found>> {
    let mut fields = Fields::<KIND>::of(run);
    while let Some(Item { start, name, value, expires_at_ms }) = fields.next()? {
        if name == field {
            let end = fields.elements.at();
            let value = if KIND == Layout::NAMES { end..end } else { end_of(run, value) - value.len()..end };
            return Ok(Some(Found { value, all: start..end, expires_at_ms }));
        }
    }
    Ok(None)
}

/// Calls `take` with the fields of a run, their values, and when they expire. Returns their number, including
/// expired ones.
///
/// # Errors
/// [`splitpoint::ErrorKind::Corrupt`] if the bytes are not a run of fields.
pub(super) fn for_fields(run: &[u8], layout: Layout, mut take: impl FnMut(&[u8], &[u8], u64)) -> Result<u64> {
    match layout {
        Layout::Names => for_fields_in::<{ Layout::NAMES }>(run, take),
        Layout::Pairs => for_fields_in::<{ Layout::PAIRS }>(run, take),
        Layout::Expiring { now_ms } => for_fields_in::<{ Layout::EXPIRING }>(run, |name, value, expires_at_ms| {
            if !has_expired(expires_at_ms, now_ms) {
                take(name, value, expires_at_ms);
            }
        }),
    }
}

fn for_fields_in<const KIND: u8>(run: &[u8], mut take: impl FnMut(&[u8], &[u8], u64)) -> Result<u64> {
    let mut fields = Fields::<KIND>::of(run);
    while let Some(Item { name, value, expires_at_ms, .. }) = fields.next()? {
        take(name, value, expires_at_ms);
    }
    Ok(fields.seen)
}

/// A field to be stored.
#[derive(Clone, Copy)]
pub(super) struct NewField<'f> {
    pub(super) name: &'f [u8],
    pub(super) value: &'f [u8],
    /// In Unix milliseconds; 0: never. Always 0 in layouts other than [`Layout::Expiring`].
    pub(super) expires_at_ms: u64,
}

/// Appends a field and its value.
pub(super) fn push(run: &mut Vec<u8>, layout: Layout, field: NewField<'_>) {
    if field.expires_at_ms != 0 {
        elements::push_lifetime(run, field.expires_at_ms);
    }
    elements::push(run, field.name);
    if layout != Layout::Names {
        elements::push(run, field.value);
    }
}

/// Sets a field of a run, unless it is present and `replace` is false. Returns whether it is new; `None` if nothing
/// changed. A value that is replaced keeps its position, so that the order of fields does not change.
///
/// # Errors
/// Returns the errors of [`find`].
pub(super) fn put_in(run: &mut Vec<u8>, layout: Layout, field: NewField<'_>, replace: bool) -> Result<Option<bool>> {
    Ok(match find(run, layout, field.name)? {
        Some(_) if !replace => None,
        Some(found) => {
            let mut element = Vec::with_capacity(field.name.len() + field.value.len() + 18);
            push(&mut element, layout, field);
            elements::replace(run, found.all, &element);
            Some(false)
        }
        None => {
            push(run, layout, field);
            Some(true)
        }
    })
}

/// A segment as it is stored.
pub(super) struct ReadSegment {
    number: u64,
    pub(super) run: Vec<u8>,
    is_there: bool,
}

impl LargeFields {
    fn hash(&self, field: &[u8]) -> u64 {
        HashKind::Sip13.hash(field, self.seed)
    }

    /// The segment of a hash.
    fn segment(&self, hash: u64) -> u64 {
        segment_of(hash, self.segments)
    }

    /// The number of segments that it should have.
    fn wanted(&self) -> u64 {
        (self.count / SEGMENT_FIELDS).max((self.bytes / SEGMENT_BYTES).min(self.count)).max(1)
    }

    /// Divides the few fields of a run into segments.
    pub(super) fn divide(alone: &mut dyn PairsMut, database: usize, layout: Layout, run: &[u8]) -> Result<LargeFields> {
        LargeFields::build(alone, (database, layout), |add| {
            for_fields(run, layout, |name, value, expires_at_ms| add(NewField { name, value, expires_at_ms })).map(drop)
        })
    }

    /// Stores the fields that `each` passes on, the same ones each time it is called, all with different names. Writes
    /// each segment once.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(super) fn build(
        alone: &mut dyn PairsMut,
        (database, layout): (usize, Layout),
        each: impl Fn(&mut dyn FnMut(NewField<'_>)) -> Result<()>,
    ) -> Result<LargeFields> {
        let id = alone.new_collection(database)?;
        let seed = HashKind::Sip13.hash(&id.to_le_bytes(), alone.secret());
        let mut large = LargeFields { id, seed, count: 0, bytes: 0, segments: 1 };
        let mut one = Vec::new();
        each(&mut |field| {
            one.clear();
            push(&mut one, layout, field);
            large.count += 1;
            large.bytes += one.len() as u64;
        })?;
        large.segments = large.wanted();
        let mut runs = vec![Vec::new(); large.segments as usize]; // at most one for each field
        each(&mut |field| push(&mut runs[large.segment(large.hash(field.name)) as usize], layout, field))?;
        for (number, run) in (0..).zip(&runs).filter(|(_, run)| !run.is_empty()) {
            alone.put_segment(database, (id, number), false, Some(run))?;
        }
        Ok(large)
    }

    /// Copies the value of `field` to `value`. Returns when it expires, 0: never; `None` if it is absent. One lookup.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(super) fn get(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (database, layout): (usize, Layout),
        field: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        value.clear();
        let mut run = Vec::new();
        pairs.segment(database, self.id, self.segment(self.hash(field)), &mut run)?;
        let Some(found) = find(&run, layout, field)? else { return Ok(None) };
        value.extend_from_slice(&run[found.value]);
        Ok(Some(found.expires_at_ms))
    }

    /// Calls `take` with about `count` fields from a position in hash order on. Returns the next position, 0
    /// at the end.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(super) fn scan(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (database, layout): (usize, Layout),
        cursor: u64,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        const END: u64 = 1 << 63;
        let (mut place, mut taken, mut looked_at) = (cursor, 0, 0);
        let (mut segment, mut gap) = (Vec::new(), Gap::default());
        // Continues until a field is found or too many segments in a row are missing.
        while place < END && taken < count && (looked_at < 10 * count || taken == 0) {
            let number = self.segment((place << 1).reverse_bits());
            gap.check(pairs.segment(database, self.id, number, &mut segment)?)?;
            let mut present = 0;
            let seen = for_fields(&segment, layout, |field, value, _| {
                present += 1;
                if place_of(self.hash(field)) >= place {
                    take(field, value);
                    taken += 1;
                }
            })?;
            // Expired fields count, so that a call does not skip an unlimited number of them.
            taken += (seen - present) as usize; // fields of a segment
            looked_at += 1;
            place = places_of(number, self.segments).end;
        }
        Ok(if place >= END { 0 } else { place })
    }

    /// Reads the segment of a field.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(super) fn read(&self, pairs: &mut dyn PairsMut, database: usize, field: &[u8]) -> Result<ReadSegment> {
        let (number, mut run) = (self.segment(self.hash(field)), Vec::new());
        let is_there = pairs.segment(database, self.id, number, &mut run)?;
        Ok(ReadSegment { number, run, is_there })
    }

    /// Sets a field, unless it is present and `replace` is false. Returns whether it is new; `None` if nothing changed.
    /// In a layout with lifetimes, no field counts as expired. `read`: the segment of a field, if it was just read.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(super) fn put(
        &mut self,
        alone: &mut dyn PairsMut,
        (database, layout): (usize, Layout),
        field: NewField<'_>,
        replace: bool,
        read: Option<ReadSegment>,
    ) -> Result<Option<bool>> {
        let number = self.segment(self.hash(field.name));
        let ReadSegment { mut run, is_there, .. } = match read.filter(|read| read.number == number) {
            Some(read) => read,
            None => self.read(alone, database, field.name)?,
        };
        let before = run.len() as u64;
        let Some(is_new) = put_in(&mut run, layout, field, replace)? else { return Ok(None) };
        alone.put_segment(database, (self.id, number), is_there, Some(&run))?;
        self.bytes = (self.bytes + run.len() as u64).saturating_sub(before);
        self.count += u64::from(is_new);
        self.grow(alone, database, layout)?;
        Ok(Some(is_new))
    }

    /// Removes a field. Returns whether it was there.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(super) fn remove(
        &mut self,
        alone: &mut dyn PairsMut,
        (database, layout): (usize, Layout),
        field: &[u8],
    ) -> Result<bool> {
        let number = self.segment(self.hash(field));
        let mut run = Vec::new();
        alone.segment(database, self.id, number, &mut run)?;
        let Some(found) = find(&run, layout, field)? else { return Ok(false) };
        self.bytes = self.bytes.saturating_sub(found.all.len() as u64);
        self.count = self.count.saturating_sub(1);
        run.drain(found.all);
        let left = Some(run.as_slice()).filter(|run| !run.is_empty());
        alone.put_segment(database, (self.id, number), true, left)?;
        self.shrink(alone, database)?;
        Ok(true)
    }

    /// Removes fields, all different, in a layout without lifetimes. Returns how many were there. Reads and writes each
    /// segment once.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(super) fn remove_many(
        &mut self,
        alone: &mut dyn PairsMut,
        (database, layout): (usize, Layout),
        names: &[Vec<u8>],
    ) -> Result<u64> {
        let mut places: Vec<_> = names.iter().map(|name| (self.segment(self.hash(name)), name.as_slice())).collect();
        places.sort_unstable();
        let (mut run, mut kept, mut removed) = (Vec::new(), Vec::new(), 0);
        for group in places.chunk_by(|one, other| one.0 == other.0) {
            let number = group[0].0;
            alone.segment(database, self.id, number, &mut run)?;
            kept.clear();
            for_fields(&run, layout, |name, value, expires_at_ms| {
                if group.binary_search_by(|(_, other)| (*other).cmp(name)).is_ok() {
                    removed += 1;
                } else {
                    push(&mut kept, layout, NewField { name, value, expires_at_ms });
                }
            })?;
            if kept.len() < run.len() {
                let left = Some(kept.as_slice()).filter(|run| !run.is_empty());
                alone.put_segment(database, (self.id, number), true, left)?;
                self.bytes = self.bytes.saturating_sub((run.len() - kept.len()) as u64);
            }
        }
        self.count = self.count.saturating_sub(removed);
        let mut segments = 0;
        while segments != self.segments {
            segments = self.segments;
            self.shrink(alone, database)?;
        }
        Ok(removed)
    }

    /// Splits some segments if there should be more.
    fn grow(&mut self, alone: &mut dyn PairsMut, database: usize, layout: Layout) -> Result<()> {
        for _ in 0..SPLITS_MAX {
            if self.segments >= self.wanted() {
                break;
            }
            let (new, parent) = (self.segments, parent_of(self.segments));
            let (mut run, mut stays, mut moves) = (Vec::new(), Vec::new(), Vec::new());
            let was_there = alone.segment(database, self.id, parent, &mut run)?;
            self.segments += 1;
            for_fields(&run, layout, |name, value, expires_at_ms| {
                let to = if self.segment(self.hash(name)) == new { &mut moves } else { &mut stays };
                push(to, layout, NewField { name, value, expires_at_ms });
            })?;
            if !moves.is_empty() {
                let stays = Some(stays.as_slice()).filter(|run| !run.is_empty());
                alone.put_segment(database, (self.id, parent), was_there, stays)?;
                alone.put_segment(database, (self.id, new), false, Some(&moves))?;
            }
        }
        Ok(())
    }

    /// Merges some segments if there are too many.
    fn shrink(&mut self, alone: &mut dyn PairsMut, database: usize) -> Result<()> {
        for _ in 0..MERGES_MAX {
            let is_wanted = self.segments <= SEGMENTS_PER_FIELD * self.wanted();
            if self.segments == 1 || is_wanted && self.bytes > SMALL_AGAIN_BYTES {
                break;
            }
            let last = self.segments - 1;
            let (mut run, mut under) = (Vec::new(), Vec::new());
            if alone.segment(database, self.id, last, &mut run)? {
                let was_there = alone.segment(database, self.id, parent_of(last), &mut under)?;
                under.append(&mut run);
                alone.put_segment(database, (self.id, parent_of(last)), was_there, Some(&under))?;
                alone.put_segment(database, (self.id, last), true, None)?;
            }
            self.segments -= 1;
        }
        Ok(())
    }
}

/// A large collection becomes small again below this.
pub(super) const SMALL_AGAIN_BYTES: u64 = 192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_divide_hash_order() {
        for segments in 1..70 {
            let mut all: Vec<_> = (0..segments).map(|segment| places_of(segment, segments)).collect();
            all.sort_by_key(|places| places.start);
            assert_eq!((all[0].start, all[all.len() - 1].end), (0, 1 << 63));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
            for number in 0..1000u64 {
                let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert!(places_of(segment_of(hash, segments), segments).contains(&place_of(hash)));
                let place = place_of(hash);
                assert_eq!(segment_of((place << 1).reverse_bits(), segments), segment_of(hash, segments));
            }
        }
        for segment in 1..200 {
            assert!((0..1000).all(
                |hash| segment_of(hash, segment + 1) != segment || segment_of(hash, segment) == parent_of(segment)
            ));
        }
    }
}
