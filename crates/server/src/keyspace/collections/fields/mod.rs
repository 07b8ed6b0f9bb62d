//! Hashes and sets: fields with values, or members alone.
//!
//! ```text
//! small   flags, u8 | elements                                          up to SMALL_BYTES, in the key's value
//! large   flags, u8 | id | seed | count | bytes | segments, u64 each    elements in segments (segments.rs)
//! ```
//!
//! A lookup is two lookups of the table, whatever the size: the key, and one segment (`hashed.rs`).
//!
//! Fields of a hash may have lifetimes, each in front of its field (`elements.rs`). Then a flag is set, the
//! first of the times follows the flags for the sweep, and a large hash has a tree of the fields ordered by
//! time (`shape.rs`, `tree/`). Readers ignore fields that have expired; the sweep removes them, as does a
//! change of the field, or of a small hash.
//!
//! All bytes here are on disk.
//!
//! Here: reading. Not here: changes (`change.rs`).

mod change;

use super::elements;
pub(crate) use super::hashed::has_expired;
use super::hashed::{Layout, NewField, find, for_fields, push};
use super::shape::{FIRST_EXPIRY_BYTES, Gap, LARGE, LIFETIMES, LargeFields as Large, Lifetimes, damaged, first_expiry};
use super::tree::Place;
use crate::keyspace::pairs::Pairs;
use crate::keyspace::{Kind, Result};
pub(crate) use change::FieldsMut;

/// Elements beyond this many bytes go into segments.
const SMALL_BYTES: usize = 512;

/// Set once Redis would have left its compact encoding, to which it never returns.
const UNPACKED: u8 = 2; // on disk
/// Redis's limits for its compact encodings.
const PACKED_FIELDS: u64 = 512;
const PACKED_VALUE_BYTES: usize = 64;

/// A field and its value, which is empty for a set's member.
pub(crate) type Field = (Vec<u8>, Vec<u8>);

/// A hash or a set, as its key describes it.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    database: usize,
    kind: Kind,
    flags: u8,
    form: Form,
    /// In a hash with lifetimes, fields that have expired by this time are absent; else 0.
    now_ms: u64,
    /// The time of the first field that expires; 0 if none does.
    first_ms: u64,
    /// The lifetimes of a large hash.
    lifetimes: Lifetimes,
    /// Fields of a large hash that have expired and are not removed yet. A small hash keeps none in memory.
    expired: u64,
}

/// What happens to the lifetime of a field that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    Keep,
    /// Unix time in milliseconds, at most [`EXPIRY_MAX`]; 0: never.
    At(u64),
}

/// Redis's limit for the time at which a field expires.
pub(crate) const EXPIRY_MAX: u64 = (1 << 46) - 1;

#[derive(Clone, Debug)]
enum Form {
    Small(Vec<u8>),
    Large(Large),
}

impl Fields {
    /// The hash or set at `key`; `None` if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType), or the errors of
    /// [`splitpoint::Table::get`].
    pub(crate) fn open(
        pairs: &mut (impl Pairs + ?Sized),
        database: usize,
        key: &[u8],
        kind: Kind,
    ) -> Result<Option<Fields>> {
        let mut value = Vec::new();
        let found = pairs.name(database, key, kind, &mut value)?;
        let Some(mut fields) = found.map(|_| Fields::decode(database, kind, value)).transpose()? else {
            return Ok(None);
        };
        if fields.may_expire() {
            fields.ignore_expired(pairs)?;
        }
        Ok(Some(fields))
    }

    fn decode(database: usize, kind: Kind, mut value: Vec<u8>) -> Result<Fields> {
        let flags = value.first().copied().unwrap_or(0);
        let head_bytes = if flags & LIFETIMES == 0 { 1 } else { FIRST_EXPIRY_BYTES };
        let (form, lifetimes) = match Large::decode(kind, &value)? {
            Some((large, lifetimes)) => (Form::Large(large), lifetimes),
            None if head_bytes > 1 && (kind != Kind::Hash || value.len() < head_bytes) => {
                return Err(damaged("it has lifetimes where none can be"));
            }
            None if value.len() > head_bytes + SMALL_BYTES => {
                return Err(damaged(format_args!("{} bytes", value.len())));
            }
            None => (Form::Small(Vec::new()), Lifetimes::default()),
        };
        let first_ms = first_expiry(kind, &value);
        let form = match form {
            Form::Small(_) => {
                value.drain(..value.len().min(head_bytes));
                Form::Small(value)
            }
            form => form,
        };
        Ok(Fields { database, kind, flags, form, now_ms: 0, first_ms, lifetimes, expired: 0 })
    }

    fn encode(&self) -> Vec<u8> {
        let is_large = matches!(self.form, Form::Large(_));
        let mut value = vec![self.flags & !LARGE | if is_large { LARGE } else { 0 }];
        if self.may_expire() {
            value.extend(self.first_ms.to_le_bytes());
        }
        match &self.form {
            Form::Small(run) => value.extend_from_slice(run),
            Form::Large(Large { id, seed, count, bytes, segments }) => {
                value.extend([id, seed, count, bytes, segments].into_iter().flat_map(|n| n.to_le_bytes()));
                if self.may_expire() {
                    self.lifetimes.encode(&mut value);
                }
            }
        }
        value
    }

    /// Whether fields may have lifetimes.
    fn may_expire(&self) -> bool {
        self.flags & LIFETIMES != 0
    }

    fn layout(&self) -> Layout {
        match self.kind {
            Kind::Hash if self.may_expire() => Layout::Expiring { now_ms: self.now_ms },
            Kind::Hash => Layout::Pairs,
            _ => Layout::Names,
        }
    }

    /// Reads the time, and ignores expired fields from now on; a small hash drops them. Returns whether there are any.
    fn ignore_expired(&mut self, pairs: &mut (impl Pairs + ?Sized)) -> Result<bool> {
        self.now_ms = pairs.now_ms();
        if !has_expired(self.first_ms, self.now_ms) {
            return Ok(false);
        }
        match &mut self.form {
            Form::Small(run) => {
                let (layout, mut left) = (Layout::Expiring { now_ms: self.now_ms }, Vec::with_capacity(run.len()));
                for_fields(run, layout, |name, value, expires_at_ms| {
                    push(&mut left, layout, NewField { name, value, expires_at_ms });
                })?;
                let had_some = left.len() < run.len();
                *run = left;
                Ok(had_some)
            }
            Form::Large(large) => {
                let (place, now_ms) = (Place { database: self.database, id: large.id }, self.now_ms);
                let before = self.lifetimes.tree.count_before(pairs, place, |(at_ms, _)| at_ms <= now_ms as f64)?;
                self.expired = before.min(self.lifetimes.count);
                Ok(self.expired > 0)
            }
        }
    }

    /// The number of fields. O(1).
    pub(crate) fn len(&self) -> u64 {
        match &self.form {
            Form::Small(run) if self.may_expire() => for_fields(run, self.layout(), |_, _, _| {}).unwrap_or(0),
            Form::Small(run) => (elements::iter(run).count() / self.layout().width()) as u64,
            Form::Large(large) => large.count - self.expired,
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
            _ if self.may_expire() => "listpackex",
            Kind::Set => "intset",
            _ => "listpack",
        }
    }

    /// Copies the value of `field` to `value`. Returns whether the field exists. One lookup if the collection is large.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn get(&self, pairs: &mut (impl Pairs + ?Sized), field: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.get_with_expiry(pairs, field, value)?.is_some())
    }

    /// [`get`](Self::get), but returns when the field expires, 0 for never; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn get_with_expiry(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        field: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<u64>> {
        let run = match &self.form {
            Form::Small(run) => run,
            Form::Large(large) => return large.get(pairs, (self.database, self.layout()), field, value),
        };
        value.clear();
        let Some(found) = find(run, self.layout(), field)? else { return Ok(None) };
        value.extend_from_slice(&run[found.value]);
        Ok(Some(found.expires_at_ms))
    }

    /// Calls `take` with every field and its value, until it returns `false`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn for_each(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        mut take: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.for_each_with_expiry(pairs, |field, value, _| take(field, value))
    }

    /// [`for_each`](Self::for_each), with the time at which each field expires, 0 for never.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn for_each_with_expiry(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        mut take: impl FnMut(&[u8], &[u8], u64) -> bool,
    ) -> Result<()> {
        let large = match &self.form {
            Form::Small(run) => {
                let mut goes_on = true;
                let take = |field: &[u8], value: &[u8], at_ms| goes_on = goes_on && take(field, value, at_ms);
                return for_fields(run, self.layout(), take).map(drop);
            }
            Form::Large(large) => large,
        };
        let (mut segment, mut goes_on, mut gap) = (Vec::new(), true, Gap::default());
        let (mut seen, mut present) = (0, 0);
        for number in 0..large.segments {
            gap.check(pairs.segment(self.database, large.id, number, &mut segment)?)?;
            seen += for_fields(&segment, self.layout(), |field, value, at_ms| {
                present += 1;
                goes_on = goes_on && take(field, value, at_ms);
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        if (seen, present) != (large.count, self.len()) {
            return Err(damaged(format_args!("{seen} fields instead of {}, {present} not expired", large.count)));
        }
        Ok(())
    }

    /// Calls `take` with about `count` fields from a position in hash order on; a small collection has one
    /// position. Returns the next position, 0 at the end.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn scan(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        cursor: u64,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        match &self.form {
            Form::Small(run) => {
                for_fields(run, self.layout(), |field, value, _| take(field, value))?;
                Ok(0)
            }
            Form::Large(large) => large.scan(pairs, (self.database, self.layout()), cursor, count, take),
        }
    }

    /// A field at random, each equally likely, and its value.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn random(&self, pairs: &mut (impl Pairs + ?Sized)) -> Result<Option<Field>> {
        /// About one try in 50 succeeds where segments are emptiest.
        const TRIES: usize = 5000;
        let (mut segment, layout) = (Vec::new(), self.layout());
        if self.len() == 0 {
            return Ok(None);
        }
        for _ in 0..TRIES {
            // The fewer fields a segment has, the more often it is rejected.
            let (run, of) = match &self.form {
                Form::Small(run) => (run, 0),
                Form::Large(large) => {
                    let number = below(pairs.random(), large.segments);
                    pairs.segment(self.database, large.id, number, &mut segment)?;
                    (&segment, 4 * large.count.div_ceil(large.segments) + 8)
                }
            };
            let mut len = (elements::iter(run).count() / layout.width()) as u64;
            if self.may_expire() {
                len = 0;
                for_fields(run, layout, |_, _, _| len += 1)?;
            }
            let index = below(pairs.random(), of.max(len));
            let (mut at, mut found) = (0, None);
            for_fields(run, layout, |field, value, _| {
                if at == index {
                    found = Some((field.to_vec(), value.to_vec()));
                }
                at += 1;
            })?;
            if found.is_some() || matches!(self.form, Form::Small(_)) {
                return Ok(found);
            }
        }
        if self.expired > 0 {
            return self.random_of_few(pairs);
        }
        Err(damaged("it has far fewer fields than its key says"))
    }

    /// [`random`](Self::random) where most fields have expired. O(fields).
    fn random_of_few(&self, pairs: &mut (impl Pairs + ?Sized)) -> Result<Option<Field>> {
        let (mut left, mut found) = (below(pairs.random(), self.len()), None);
        self.for_each(pairs, |field, value| {
            if left == 0 {
                found = Some((field.to_vec(), value.to_vec()));
            }
            left = left.saturating_sub(1);
            found.is_none()
        })?;
        Ok(found)
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
