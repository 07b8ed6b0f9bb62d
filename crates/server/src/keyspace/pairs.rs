//! What commands need from the key space to read and change collections.
//!
//! ```text
//! Pairs      Shared, Exclusive (collections/segments.rs), InPlace (in_place.rs)
//! PairsMut   Exclusive: any collection; InPlace: a small one, under the latch of its key's bucket
//! ```
//!
//! So each command on a collection is one function, whatever entry to the key space it has.

use super::{Attributes, Kind, Result};
use std::ops::Range;

/// Reads collections: a key's value, whatever its type, and segments.
pub(crate) trait Pairs {
    /// Copies the value of `key` to `value` and returns its lifetime: 0 for none. `None` if the key is absent.
    ///
    /// # Errors
    /// [`WrongType`](super::SpaceError::WrongType) if it is not of this kind.
    fn name(&mut self, database: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> Result<Option<u64>>;

    /// Copies a segment to `value`; returns whether it exists.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    fn segment(&mut self, database: usize, id: u64, number: u64, value: &mut Vec<u8>) -> Result<bool>;

    /// How many segments the database has.
    fn segment_count(&self, database: usize) -> u64;

    /// A random number.
    fn random(&self) -> u64;

    /// The time that decides what has expired, in Unix milliseconds.
    fn now_ms(&self) -> u64;
}

/// Changes collections: with exclusive entry, or a small one under the latch of its key's bucket (`in_place.rs`).
pub(crate) trait PairsMut: Pairs {
    /// Stores the value of a collection's key; `None` removes the key. The caller handles the segments.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn put_collection(&mut self, database: usize, key: &[u8], value: Option<(Attributes, &[u8])>) -> Result<()>;

    /// Stores the value of a collection's key, which WATCH and CLIENT TRACKING do not count as a change.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn put_unseen(&mut self, database: usize, key: &[u8], attributes: Attributes, value: &[u8]) -> Result<()>;

    /// [`put_collection`](Self::put_collection) where fields of a hash have expired and nothing else changes.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn put_expired(&mut self, database: usize, key: &[u8], value: Option<(Attributes, &[u8])>) -> Result<()>;

    /// Records that fields of a hash that is being changed have expired.
    fn note_fields_expired(&mut self, database: usize, key: &[u8]);

    /// Stores a segment, or removes it. `before`: whether it is present.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn put_segment(&mut self, database: usize, place: (u64, u64), before: bool, elements: Option<&[u8]>) -> Result<()>;

    /// A number for a new large collection.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn new_collection(&mut self, database: usize) -> Result<u64>;

    /// Notes that these segments no longer belong to a key.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    fn release(&mut self, database: usize, id: u64, segments: [Range<u64>; 2]) -> Result<()>;

    /// Reports a change of `key` that stores nothing under it.
    fn changed(&self, database: usize, key: &[u8]);

    /// Records a keyspace event that the command names itself.
    fn note_event(&mut self, database: usize, key: &[u8], event: &'static str);

    /// A number that no client can guess.
    fn secret(&self) -> u64;
}
