//! Small collections changed under the latch of their key's bucket, without exclusive entry.
//!
//! ```text
//! Shared::change_many -> latch the bucket -> InPlace: one value, as read and as changed -> store and log the change
//!                        anything else (segments, another key, a long value) -> SpaceError::Alone: exclusive entry
//! ```
//!
//! A command does the same here as with exclusive entry, through [`PairsMut`]; it must report errors, change no more
//! than its key, and use nothing else of the key space. Elements added at the end are logged alone.

use super::collections::shape::has_lifetimes;
use super::edit::{Edit, New, Old};
use super::pairs::{Pairs, PairsMut};
use super::{Attributes, Clock, KeySpace, Kind, Result, SpaceError};
use std::ops::Range;

/// One key's value, latched.
pub(crate) struct InPlace<'i, 'n> {
    pub(super) space: &'i KeySpace,
    pub(super) database: usize,
    pub(super) key: &'i [u8],
    pub(super) clock: &'i Clock,
    pub(super) old: Option<Old<'i>>,
    pub(super) new: &'i mut New<'n>,
    /// What the command did.
    pub(super) edit: Edit,
}

impl InPlace<'_, '_> {
    /// Refuses all but the first change of this key.
    fn check(&self, database: usize, key: &[u8]) -> Result<()> {
        let is_first = self.edit == Edit::Keep && self.database == database && self.key == key;
        if is_first { Ok(()) } else { Err(SpaceError::Alone) }
    }
}

impl Pairs for InPlace<'_, '_> {
    fn name(&mut self, database: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> Result<Option<u64>> {
        self.check(database, key)?;
        value.clear();
        let Some(old) = &self.old else { return Ok(None) };
        if old.attributes.kind != kind {
            return Err(SpaceError::WrongType);
        }
        // Fields that have expired are removed with exclusive entry, which reports them.
        if !old.is_whole() || has_lifetimes(kind, old.value) {
            return Err(SpaceError::Alone);
        }
        value.extend_from_slice(old.value);
        Ok(Some(old.attributes.expires_at_ms))
    }

    fn segment(&mut self, _: usize, _: u64, _: u64, _: &mut Vec<u8>) -> Result<bool> {
        Err(SpaceError::Alone)
    }

    fn segment_count(&self, _: usize) -> u64 {
        0
    }

    fn random(&self) -> u64 {
        self.space.random()
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

impl PairsMut for InPlace<'_, '_> {
    fn put_collection(&mut self, database: usize, key: &[u8], value: Option<(Attributes, &[u8])>) -> Result<()> {
        self.check(database, key)?;
        self.edit = match (value, &self.old) {
            (None, _) => Edit::Remove,
            (Some((attributes, value)), Some(old)) if attributes == old.attributes && old.is_whole() => {
                match value.strip_prefix(old.value) {
                    Some(tail) if !tail.is_empty() => self.new.append(Some(old), tail),
                    _ => self.new.put(attributes, value),
                }
            }
            (Some((attributes, value)), _) => self.new.put(attributes, value),
        };
        if self.edit == Edit::Alone { Err(SpaceError::Alone) } else { Ok(()) }
    }

    fn put_unseen(&mut self, _: usize, _: &[u8], _: Attributes, _: &[u8]) -> Result<()> {
        Err(SpaceError::Alone)
    }

    fn put_expired(&mut self, _: usize, _: &[u8], _: Option<(Attributes, &[u8])>) -> Result<()> {
        Err(SpaceError::Alone)
    }

    /// Never called: hashes whose fields expire need exclusive entry.
    fn note_fields_expired(&mut self, _: usize, _: &[u8]) {}

    fn put_segment(&mut self, _: usize, _: (u64, u64), _: bool, _: Option<&[u8]>) -> Result<()> {
        Err(SpaceError::Alone)
    }

    fn new_collection(&mut self, _: usize) -> Result<u64> {
        Err(SpaceError::Alone)
    }

    fn release(&mut self, _: usize, _: u64, _: [Range<u64>; 2]) -> Result<()> {
        Err(SpaceError::Alone)
    }

    /// No client observes changes while a database is plain; the edit counts this one.
    fn changed(&self, _: usize, _: &[u8]) {}

    /// No client observes changes while a database is plain.
    fn note_event(&mut self, _: usize, _: &[u8], _: &'static str) {}

    fn secret(&self) -> u64 {
        self.space.secret()
    }
}
