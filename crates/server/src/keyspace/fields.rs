//! Hashes and sets: fields with values, or members alone.
//!
//! ```text
//! small   flags, u8 | elements                                          up to SMALL_BYTES, in the key's value
//! large   flags, u8 | id | seed | count | bytes | segments, u64 each    elements in segments (segments.rs)
//! ```
//!
//! A lookup is two lookups of the table, whatever the size: the key, and one segment (`hashed.rs`).
//!
//! All bytes here are on disk.

use super::elements;
use super::exclusive::Exclusive;
use super::hashed::{SMALL_AGAIN_BYTES, find, for_fields, put_in};
use super::segments::Pairs;
use super::shape::{Gap, LARGE, LargeFields as Large, damaged};
use super::{Attributes, Kind, Result};

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;

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
        let run = match &self.form {
            Form::Small(run) => run,
            Form::Large(large) => return large.get(pairs, (self.database, self.width()), field, value),
        };
        value.clear();
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
        take: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        match &self.form {
            Form::Small(run) => {
                for_fields(run, self.width(), take)?;
                Ok(0)
            }
            Form::Large(large) => large.scan(pairs, (self.database, self.width()), cursor, count, take),
        }
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
    /// What the key of a large one has.
    before: Option<Vec<u8>>,
    /// Whether a field changed.
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
        let before = matches!(fields.form, Form::Large(_)).then(|| fields.encode());
        let (expires_at_ms, was_present) = (found.unwrap_or(0), found.is_some());
        Ok(FieldsMut { alone, key, expires_at_ms, fields, was_present, before, changed: false })
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
            self.alone.release(self.fields.database, large.id, [0..large.segments, 0..0])?;
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
        let place = (self.fields.database, self.fields.width());
        let put = match &mut self.fields.form {
            Form::Small(run) => put_in(run, place.1, field, value, replace)?,
            Form::Large(large) => large.put(self.alone, place, field, value, replace)?,
        };
        let Some(is_new) = put else { return Ok(false) };
        self.changed = true;
        let is_packed = match self.fields.kind {
            Kind::Set => !is_new || is_integer(field),
            _ => field.len() <= PACKED_VALUE_BYTES && value.len() <= PACKED_VALUE_BYTES,
        };
        if !is_packed || self.fields.flags & UNPACKED == 0 && self.fields.len() > PACKED_FIELDS {
            self.fields.flags |= UNPACKED;
        }
        self.enlarge()?;
        Ok(is_new)
    }

    /// Removes a field. Returns whether it was there.
    ///
    /// # Errors
    /// Those of [`splitpoint::Table::put`].
    pub(crate) fn remove(&mut self, field: &[u8]) -> Result<bool> {
        let place = (self.fields.database, self.fields.width());
        match &mut self.fields.form {
            Form::Small(run) => {
                let Some(found) = find(run, place.1, field)? else { return Ok(false) };
                run.drain(found.all);
            }
            Form::Large(large) => {
                if !large.remove(self.alone, place, field)? {
                    return Ok(false);
                }
            }
        }
        self.changed = true;
        self.reduce()?;
        Ok(true)
    }

    /// Goes over to segments.
    fn enlarge(&mut self) -> Result<()> {
        let (database, width) = (self.fields.database, self.fields.width());
        if let Form::Small(run) = &self.fields.form
            && run.len() > SMALL_BYTES
        {
            self.fields.form = Form::Large(Large::divide(self.alone, database, width, run)?);
        }
        Ok(())
    }

    /// Goes back to a run that the key has.
    fn reduce(&mut self) -> Result<()> {
        let database = self.fields.database;
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
            if self.before.as_ref() == Some(&value) {
                // A value of the same length was replaced, within a segment.
                self.alone.changed(database, self.key);
            } else {
                self.alone.put_collection(database, self.key, Some((attributes, &value)))?;
            }
        } else if self.was_present {
            self.alone.put_collection(database, self.key, None)?;
        }
        Ok(is_left)
    }
}
