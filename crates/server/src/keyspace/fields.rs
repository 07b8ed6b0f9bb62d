//! Hashes and sets: fields with values, or members alone.
//!
//! ```text
//! small   flags, u8 | elements                                          up to SMALL_BYTES, in the key's value
//! large   flags, u8 | id | seed | count | bytes | segments, u64 each    elements in segments (segments.rs)
//! ```
//!
//! A large collection is a second level of linear hashing: a keyed hash of the field says which segment has it, and
//! the number of segments grows and shrinks by one. So a lookup is two lookups of the table, whatever the size, a new
//! field changes one segment and the key's value, and no command is O(fields) because of growth.
//!
//! A segment has all fields of one part of the hash order, as with the table's buckets. A scan goes through that
//! order: its cursor is a place in it, so a field that stays comes exactly once, however often segments split.
//!
//! All bytes here are on disk.

use super::elements;
use super::exclusive::Exclusive;
use super::segments::Pairs;
use super::shape::{Gap, LARGE, LargeFields as Large, SEGMENTS_PER_FIELD, damaged};
use super::{Attributes, Kind, Result};
use splitpoint::HashKind;
use std::ops::Range;

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;
/// A large collection becomes small again below this.
const SMALL_AGAIN_BYTES: u64 = 192;
/// Fields of a segment, or bytes, that are exceeded on average before there is another segment.
const SEGMENT_FIELDS: u64 = 16;
const SEGMENT_BYTES: u64 = 1024;
/// The most segments that split for one field.
const SPLITS_MAX: usize = 3;
/// The most that merge: more than [`SEGMENTS_PER_FIELD`], which then remains true as fields are removed.
const MERGES_MAX: u64 = 2 * SEGMENTS_PER_FIELD;
/// Fields that no segment has, as a keyed hash distributes them.
const SEGMENT_FIELDS_MAX: u64 = 1024;

/// Redis would not use its compact encoding, and never goes back to it.
const UNPACKED: u8 = 2; // on disk
/// Redis's limits for its compact encodings.
const PACKED_FIELDS: u64 = 512;
const PACKED_VALUE_BYTES: usize = 64;

/// A field and its value; that of a set's member is empty.
pub(crate) type Field = (Vec<u8>, Vec<u8>);

/// A hash or a set, as its key describes it.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    database: usize,
    kind: Kind,
    flags: u8,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Small(Vec<u8>),
    Large(Large),
}

impl Large {
    fn hash(&self, field: &[u8]) -> u64 {
        HashKind::Sip13.hash(field, self.seed)
    }

    /// The segment of a hash.
    fn segment(&self, hash: u64) -> u64 {
        segment_of(hash, self.segments)
    }

    /// The segments that it should have.
    fn wanted(&self) -> u64 {
        (self.count / SEGMENT_FIELDS).max((self.bytes / SEGMENT_BYTES).min(self.count)).max(1)
    }
}

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

/// The place of a hash in hash order: 63 bits, the lowest bit of the hash first.
fn place_of(hash: u64) -> u64 {
    hash.reverse_bits() >> 1
}

/// The places that a segment has.
fn places_of(segment: u64, segments: u64) -> Range<u64> {
    let bits = segments.ilog2();
    // Segments that have split, and those that came from them, have one bit more.
    let split = segments - (1 << bits);
    let bits = if segment < split || segment >= 1 << bits { bits + 1 } else { bits };
    if bits == 0 {
        return 0..1 << 63;
    }
    let first = segment.reverse_bits() >> 1;
    first..first + (1 << (63 - bits.min(63)))
}

/// A field and its value within a run, and where they are.
struct Found {
    value: Range<usize>,
    all: Range<usize>,
}

/// The position of an element within its run.
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

fn find(run: &[u8], width: usize, field: &[u8]) -> Result<Option<Found>> {
    let (mut elements, mut fields) = (elements::iter(run), 0);
    loop {
        let start = elements.at();
        let name = elements.next();
        let value = if width == 2 { elements.next() } else { Some(&[][..]) };
        let (Some(name), Some(value)) = (name, value) else {
            return check_end(run, start, fields).map(|()| None);
        };
        if name == field {
            let end = elements.at();
            let value = if width == 2 { end_of(run, value) - value.len()..end } else { end..end };
            return Ok(Some(Found { value, all: start..end }));
        }
        fields += 1;
    }
}

/// Calls `take` with the fields of a run and their values. Returns their number.
///
/// # Errors
/// [`splitpoint::ErrorKind::Corrupt`] if the run is no run of fields.
fn for_fields(run: &[u8], width: usize, mut take: impl FnMut(&[u8], &[u8])) -> Result<u64> {
    let (mut elements, mut fields) = (elements::iter(run), 0);
    loop {
        let start = elements.at();
        let field = elements.next();
        let value = if width == 2 { elements.next() } else { Some(&[][..]) };
        let (Some(field), Some(value)) = (field, value) else {
            return check_end(run, start, fields).map(|()| fields);
        };
        fields += 1;
        take(field, value);
    }
}

fn push(run: &mut Vec<u8>, width: usize, field: &[u8], value: &[u8]) {
    elements::push(run, field);
    if width == 2 {
        elements::push(run, value);
    }
}

impl Fields {
    /// The hash or set at `key`; `None` if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`](super::SpaceError::WrongType); those of [`splitpoint::Table::get`].
    pub(crate) fn open(pairs: &mut impl Pairs, database: usize, key: &[u8], kind: Kind) -> Result<Option<Fields>> {
        let mut value = Vec::new();
        let found = pairs.name(database, key, kind, &mut value)?;
        found.map(|_| Fields::decode(database, kind, value)).transpose()
    }

    fn decode(database: usize, kind: Kind, mut value: Vec<u8>) -> Result<Fields> {
        let flags = value.first().copied().unwrap_or(0);
        let form = match Large::decode(&value)? {
            Some(large) => Form::Large(large),
            None if value.len() > 1 + SMALL_BYTES => return Err(damaged(format_args!("{} bytes", value.len()))),
            None => {
                value.drain(..value.len().min(1));
                Form::Small(value)
            }
        };
        Ok(Fields { database, kind, flags, form })
    }

    fn encode(&self) -> Vec<u8> {
        match &self.form {
            Form::Small(run) => [&[self.flags & !LARGE], run.as_slice()].concat(),
            Form::Large(Large { id, seed, count, bytes, segments }) => {
                let mut value = vec![self.flags | LARGE];
                value.extend([id, seed, count, bytes, segments].into_iter().flat_map(|n| n.to_le_bytes()));
                value
            }
        }
    }

    fn width(&self) -> usize {
        if self.kind == Kind::Hash { 2 } else { 1 }
    }

    /// The number of fields. O(1).
    pub(crate) fn len(&self) -> u64 {
        match &self.form {
            Form::Small(run) => (elements::iter(run).count() / self.width()) as u64,
            Form::Large(large) => large.count,
        }
    }

    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.form {
            Form::Small(run) => run.len() as u64,
            Form::Large(large) => large.bytes,
        }
    }

    /// Redis's name for the encoding that it would use.
    pub(crate) fn encoding(&self) -> &'static str {
        match self.kind {
            _ if self.flags & UNPACKED != 0 => "hashtable",
            Kind::Set => "intset",
            _ => "listpack",
        }
    }

    /// Copies the value of `field` to `value`. Returns whether there is one. One lookup if the collection is large.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn get(&self, pairs: &mut impl Pairs, field: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let mut segment = Vec::new();
        let run = match &self.form {
            Form::Small(run) => run,
            Form::Large(large) => {
                pairs.segment(self.database, large.id, large.segment(large.hash(field)), &mut segment)?;
                &segment
            }
        };
        let found = find(run, self.width(), field)?;
        if let Some(found) = &found {
            value.extend_from_slice(&run[found.value.clone()]);
        }
        Ok(found.is_some())
    }

    /// Calls `take` with every field and its value, until it returns `false`.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn for_each(&self, pairs: &mut impl Pairs, mut take: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let large = match &self.form {
            Form::Small(run) => {
                let mut goes_on = true;
                for_fields(run, self.width(), |field, value| goes_on = goes_on && take(field, value))?;
                return Ok(());
            }
            Form::Large(large) => large,
        };
        let (mut segment, mut goes_on, mut seen, mut gap) = (Vec::new(), true, 0, Gap::default());
        for number in 0..large.segments {
            gap.check(pairs.segment(self.database, large.id, number, &mut segment)?)?;
            seen += for_fields(&segment, self.width(), |field, value| goes_on = goes_on && take(field, value))?;
            if !goes_on {
                return Ok(());
            }
        }
        if seen != large.count {
            return Err(damaged(format_args!("{seen} fields instead of {}", large.count)));
        }
        Ok(())
    }

    /// Calls `take` with about `count` fields from a place in hash order on; a small collection has one place. Returns
    /// the place to go on from, 0 at the end.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn scan(
        &self,
        pairs: &mut impl Pairs,
        cursor: u64,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let large = match &self.form {
            Form::Small(run) => {
                for_fields(run, self.width(), take)?;
                return Ok(0);
            }
            Form::Large(large) => large,
        };
        const END: u64 = 1 << 63;
        let (mut place, mut taken, mut looked_at) = (cursor, 0, 0);
        let (mut segment, mut gap) = (Vec::new(), Gap::default());
        // If nothing was found it goes on, until something is or a gap is too long.
        while place < END && taken < count && (looked_at < 10 * count || taken == 0) {
            let number = large.segment((place << 1).reverse_bits());
            gap.check(pairs.segment(self.database, large.id, number, &mut segment)?)?;
            for_fields(&segment, self.width(), |field, value| {
                if place_of(large.hash(field)) >= place {
                    take(field, value);
                    taken += 1;
                }
            })?;
            looked_at += 1;
            place = places_of(number, large.segments).end;
        }
        Ok(if place >= END { 0 } else { place })
    }

    /// A field at random, each equally likely, and its value.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn random(&self, pairs: &mut impl Pairs) -> Result<Option<Field>> {
        /// One in about 50 succeeds where segments are emptiest.
        const TRIES: usize = 5000;
        let mut segment = Vec::new();
        for _ in 0..TRIES {
            // A segment is rejected the more often the fewer fields it has.
            let (run, of) = match &self.form {
                Form::Small(run) => (run, 0),
                Form::Large(large) => {
                    let number = below(pairs.random(), large.segments);
                    pairs.segment(self.database, large.id, number, &mut segment)?;
                    (&segment, 4 * large.count.div_ceil(large.segments) + 8)
                }
            };
            let len = (elements::iter(run).count() / self.width()) as u64;
            let index = below(pairs.random(), of.max(len));
            let (mut at, mut found) = (0, None);
            for_fields(run, self.width(), |field, value| {
                if at == index {
                    found = Some((field.to_vec(), value.to_vec()));
                }
                at += 1;
            })?;
            if found.is_some() || matches!(self.form, Form::Small(_)) {
                return Ok(found);
            }
        }
        Err(damaged("it has far fewer fields than its key says"))
    }
}

/// Whether a member is a whole number in its shortest form.
fn is_integer(member: &[u8]) -> bool {
    let number = std::str::from_utf8(member).ok().and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| itoa::Buffer::new().format(number).as_bytes() == member)
}

/// A random number below `end`, or 0.
pub(crate) fn below(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> u64::BITS) as u64 // below `end`
}

/// A hash or set that is being changed, with exclusive entry. [`finish`](Self::finish) stores what its key has.
pub(crate) struct FieldsMut<'e, 'k> {
    pub(crate) alone: &'e mut Exclusive<'k>,
    key: &'e [u8],
    expires_at_ms: u64,
    fields: Fields,
    was_present: bool,
    /// Whether a field changed, and whether the key's value did.
    changed: bool,
}

impl<'e, 'k> FieldsMut<'e, 'k> {
    /// The hash or set at `key`, empty if the key is absent.
    ///
    /// # Errors
    /// [`SpaceError::WrongType`](super::SpaceError::WrongType); those of [`splitpoint::Table::get`].
    pub(crate) fn open(
        alone: &'e mut Exclusive<'k>,
        database: usize,
        key: &'e [u8],
        kind: Kind,
    ) -> Result<FieldsMut<'e, 'k>> {
        let mut value = Vec::new();
        let found = alone.name(database, key, kind, &mut value)?;
        let fields = Fields::decode(database, kind, value)?;
        if let Form::Small(run) = &fields.form {
            for_fields(run, fields.width(), |_, _| {})?;
        }
        Ok(FieldsMut {
            alone,
            key,
            expires_at_ms: found.unwrap_or(0),
            fields,
            was_present: found.is_some(),
            changed: false,
        })
    }

    /// As it is now.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// [`Fields::get`].
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn get(&mut self, field: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.fields.get(self.alone, field, value)
    }

    /// [`Fields::for_each`].
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn for_each(&mut self, take: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.fields.for_each(self.alone, take)
    }

    /// [`Fields::random`].
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::get`].
    pub(crate) fn random(&mut self) -> Result<Option<Field>> {
        self.fields.random(self.alone)
    }

    /// Removes all fields. O(1).
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn clear(&mut self) -> Result<()> {
        if let Form::Large(large) = &self.fields.form {
            self.alone.release(self.fields.database, large.id, 0..large.segments)?;
        }
        self.fields.form = Form::Small(Vec::new());
        self.changed = true;
        Ok(())
    }

    /// Sets a field. Returns whether it is new.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn put(&mut self, field: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(field, value, true)
    }

    /// Sets a field, unless it is present and `replace` is false. Returns whether it is new.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn put_if(&mut self, field: &[u8], value: &[u8], replace: bool) -> Result<bool> {
        let width = self.fields.width();
        let is_new = match &mut self.fields.form {
            Form::Small(run) => match find(run, width, field)? {
                Some(_) if !replace => return Ok(false),
                Some(found) => {
                    // The value stays in its place, so that the order of fields does.
                    let mut element = Vec::with_capacity(value.len() + 4);
                    push(&mut element, width, field, value);
                    elements::replace(run, found.all, &element);
                    false
                }
                None => {
                    push(run, width, field, value);
                    true
                }
            },
            Form::Large(large) => {
                let number = large.segment(large.hash(field));
                let mut run = Vec::new();
                let place = (large.id, number);
                let was_there = self.alone.segment(self.fields.database, large.id, number, &mut run)?;
                let before = run.len();
                let found = find(&run, width, field)?;
                let is_new = found.is_none();
                match found {
                    Some(_) if !replace => return Ok(false),
                    Some(found) => {
                        let mut element = Vec::with_capacity(value.len() + 4);
                        push(&mut element, width, field, value);
                        elements::replace(&mut run, found.all, &element);
                    }
                    None => push(&mut run, width, field, value),
                }
                self.alone.put_segment(self.fields.database, place, was_there, Some(&run))?;
                large.bytes = (large.bytes + run.len() as u64).saturating_sub(before as u64);
                large.count += u64::from(is_new);
                is_new
            }
        };
        self.changed = true;
        let is_packed = match self.fields.kind {
            Kind::Set => !is_new || is_integer(field),
            _ => field.len() <= PACKED_VALUE_BYTES && value.len() <= PACKED_VALUE_BYTES,
        };
        if !is_packed || self.fields.flags & UNPACKED == 0 && self.fields.len() > PACKED_FIELDS {
            self.fields.flags |= UNPACKED;
        }
        self.grow()?;
        Ok(is_new)
    }

    /// Removes a field. Returns whether it was there.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn remove(&mut self, field: &[u8]) -> Result<bool> {
        let width = self.fields.width();
        match &mut self.fields.form {
            Form::Small(run) => {
                let Some(found) = find(run, width, field)? else { return Ok(false) };
                run.drain(found.all);
            }
            Form::Large(large) => {
                let number = large.segment(large.hash(field));
                let mut run = Vec::new();
                self.alone.segment(self.fields.database, large.id, number, &mut run)?;
                let Some(found) = find(&run, width, field)? else { return Ok(false) };
                large.bytes = large.bytes.saturating_sub(found.all.len() as u64);
                large.count = large.count.saturating_sub(1);
                run.drain(found.all);
                let left = Some(run.as_slice()).filter(|run| !run.is_empty());
                self.alone.put_segment(self.fields.database, (large.id, number), true, left)?;
            }
        }
        self.changed = true;
        self.shrink()?;
        Ok(true)
    }

    /// Goes over to segments, or splits some.
    fn grow(&mut self) -> Result<()> {
        let (database, width) = (self.fields.database, self.fields.width());
        if let Form::Small(run) = &mut self.fields.form {
            if run.len() <= SMALL_BYTES {
                return Ok(());
            }
            let run = std::mem::take(run);
            let id = self.alone.new_collection(database)?;
            let seed = HashKind::Sip13.hash(&id.to_le_bytes(), self.alone.space().secret());
            let count = (elements::iter(&run).count() / width) as u64;
            let mut large = Large { id, seed, count, bytes: run.len() as u64, segments: 1 };
            large.segments = large.wanted();
            let mut runs = vec![Vec::new(); large.segments as usize]; // at most one for each field of a small one
            for_fields(&run, width, |field, value| {
                push(&mut runs[large.segment(large.hash(field)) as usize], width, field, value);
            })?;
            for (number, run) in (0..).zip(&runs).filter(|(_, run)| !run.is_empty()) {
                self.alone.put_segment(database, (id, number), false, Some(run))?;
            }
            self.fields.form = Form::Large(large);
            return Ok(());
        }
        for _ in 0..SPLITS_MAX {
            let Form::Large(large) = &mut self.fields.form else { return Ok(()) };
            if large.segments >= large.wanted() {
                break;
            }
            let (new, parent) = (large.segments, parent_of(large.segments));
            let (mut run, mut stays, mut moves) = (Vec::new(), Vec::new(), Vec::new());
            let was_there = self.alone.segment(database, large.id, parent, &mut run)?;
            large.segments += 1;
            for_fields(&run, width, |field, value| {
                let to = if large.segment(large.hash(field)) == new { &mut moves } else { &mut stays };
                push(to, width, field, value);
            })?;
            if !moves.is_empty() {
                let stays = Some(stays.as_slice()).filter(|run| !run.is_empty());
                self.alone.put_segment(database, (large.id, parent), was_there, stays)?;
                self.alone.put_segment(database, (large.id, new), false, Some(&moves))?;
            }
        }
        Ok(())
    }

    /// Merges some segments, or does without.
    fn shrink(&mut self) -> Result<()> {
        let database = self.fields.database;
        for _ in 0..MERGES_MAX {
            let Form::Large(large) = &mut self.fields.form else { return Ok(()) };
            let is_wanted = large.segments <= SEGMENTS_PER_FIELD * large.wanted();
            if large.segments == 1 || is_wanted && large.bytes > SMALL_AGAIN_BYTES {
                break;
            }
            let last = large.segments - 1;
            let (mut run, mut under) = (Vec::new(), Vec::new());
            if self.alone.segment(database, large.id, last, &mut run)? {
                let was_there = self.alone.segment(database, large.id, parent_of(last), &mut under)?;
                under.append(&mut run);
                self.alone.put_segment(database, (large.id, parent_of(last)), was_there, Some(&under))?;
                self.alone.put_segment(database, (large.id, last), true, None)?;
            }
            large.segments -= 1;
        }
        if let Form::Large(large) = &self.fields.form
            && large.segments == 1
            && large.bytes <= SMALL_AGAIN_BYTES
        {
            let mut run = Vec::new();
            let was_there = self.alone.segment(database, large.id, 0, &mut run)?;
            if run.len() as u64 != large.bytes {
                return Err(damaged(format_args!("{} bytes instead of {}", run.len(), large.bytes)));
            }
            self.alone.put_segment(database, (large.id, 0), was_there, None)?;
            self.fields.form = Form::Small(run);
        }
        Ok(())
    }

    /// Stores what the key has now; an empty collection has none. Returns whether it is left.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn finish(self) -> Result<bool> {
        let is_left = self.fields.len() > 0;
        if !self.changed {
            return Ok(is_left);
        }
        let (database, attributes) = (
            self.fields.database,
            Attributes { expires_at_ms: self.expires_at_ms, kind: self.fields.kind, ..Attributes::NONE },
        );
        if is_left {
            let value = self.fields.encode();
            self.alone.put_collection(database, self.key, Some((attributes, &value)))?;
        } else if self.was_present {
            self.alone.put_collection(database, self.key, None)?;
        }
        Ok(is_left)
    }
}

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
