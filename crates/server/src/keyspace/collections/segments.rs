//! Segments: pairs that hold the elements of a large collection, and are not keys.
//!
//! ```text
//! in memory   in a table of their own, beside the keys of the database
//! in a file   marked pairs of the same table (marks.rs), so that a batch has the name and its segments
//! ```
//!
//! A collection that is removed, replaced, expired or evicted leaves its segments: a *removal* with their numbers is
//! stored in the same batch, and housekeeping removes them later, some at a time. So DEL is O(1), and after a crash
//! the rest is still known. The counts of segments and removals are a pair that changes with them; DBSIZE subtracts
//! them.
//!
//! Cost: a segment takes its elements, 17 bytes of key and what the table needs for a pair, about 20 bytes.

use super::shape::Gap;
use crate::keyspace::collections::counts::numbers;
use crate::keyspace::exclusive::Exclusive;
use crate::keyspace::pairs::{Pairs, PairsMut};
use crate::keyspace::watched::Happened;
use crate::keyspace::{Attributes, Database, KeySpace, Kind, Patience, Result, Shared, SpaceError, marks};
use splitpoint::Table;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A removal: the collection's number, its first segment and the one after its last.
const REMOVAL_BYTES: usize = 3 * 8;
/// Segments that are removed together.
const REMOVED_AT_ONCE: u64 = 256;

impl KeySpace {
    /// The table of the segments of a database.
    fn segments_of(&self, database: &Database) -> Option<Arc<Table>> {
        if self.in_file() { database.table.load_full() } else { database.segments.load_full() }
    }
}

impl Pairs for &Shared<'_> {
    fn name(&mut self, database: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> Result<Option<u64>> {
        let mut found = Ok(None);
        value.clear();
        self.read_many(database, &[key], |_, record| {
            let Some(record) = record else { return };
            if record.attributes.kind != kind {
                found = Err(SpaceError::WrongType);
                return;
            }
            value.extend_from_slice(record.value);
            found = Ok(Some(record.attributes.expires_at_ms));
        })?;
        found
    }

    fn segment(&mut self, database: usize, id: u64, number: u64, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let space = self.space();
        let target = &space.databases[database];
        let guard = if space.in_file() { target.table.load() } else { target.segments.load() };
        match guard.as_ref() {
            Some(table) => Ok(table.get_into(&marks::segment(id, number), value)?),
            None => Ok(false),
        }
    }

    fn now_ms(&self) -> u64 {
        Shared::now_ms(self)
    }

    fn segment_count(&self, database: usize) -> u64 {
        self.space().databases[database].counts().segments
    }

    fn random(&self) -> u64 {
        self.space().random()
    }
}

impl Pairs for Exclusive<'_> {
    fn name(&mut self, database: usize, key: &[u8], kind: Kind, value: &mut Vec<u8>) -> Result<Option<u64>> {
        let Some(attributes) = self.get_any(database, key, value)? else { return Ok(None) };
        if attributes.kind == kind { Ok(Some(attributes.expires_at_ms)) } else { Err(SpaceError::WrongType) }
    }

    fn segment(&mut self, database: usize, id: u64, number: u64, value: &mut Vec<u8>) -> Result<bool> {
        self.read_segment(database, id, number, value)
    }

    fn now_ms(&self) -> u64 {
        Exclusive::now_ms(self)
    }

    fn segment_count(&self, database: usize) -> u64 {
        self.counts(database).segments
    }

    fn random(&self) -> u64 {
        self.space().random()
    }
}

impl PairsMut for Exclusive<'_> {
    fn put_collection(&mut self, database: usize, key: &[u8], value: Option<(Attributes, &[u8])>) -> Result<()> {
        self.changed(database, key);
        if value.is_none_or(|(attributes, _)| !matches!(attributes.kind, Kind::Hash | Kind::Set)) {
            self.note_wanted(database, key);
        }
        match value {
            Some((attributes, value)) => self.stage_record(database, key, attributes, value),
            None => self.stage(database, key, None),
        }
    }

    fn put_unseen(&mut self, database: usize, key: &[u8], attributes: Attributes, value: &[u8]) -> Result<()> {
        self.space().events.changes.fetch_add(1, Relaxed);
        self.stage_record(database, key, attributes, value)
    }

    fn put_expired(&mut self, database: usize, key: &[u8], value: Option<(Attributes, &[u8])>) -> Result<()> {
        self.space().events.changes.fetch_add(1, Relaxed);
        self.space().watched.touch_fields_expired(database, key, value.is_none());
        match value {
            Some((attributes, value)) => self.stage_record(database, key, attributes, value),
            None => self.stage(database, key, None),
        }
    }

    fn note_fields_expired(&mut self, database: usize, key: &[u8]) {
        self.space().watched.record(database, key, Happened::FieldsExpired { is_last: false });
    }

    fn note_event(&mut self, database: usize, key: &[u8], event: &'static str) {
        self.space().watched.record(database, key, Happened::Event(event));
    }

    fn new_collection(&mut self, database: usize) -> Result<u64> {
        let mut counts = self.counts(database);
        counts.next_id += 1;
        self.set_counts(database, counts)?;
        Ok(counts.next_id)
    }

    fn put_segment(
        &mut self,
        database: usize,
        (id, number): (u64, u64),
        before: bool,
        elements: Option<&[u8]>,
    ) -> Result<()> {
        if !before && elements.is_none() {
            return Ok(());
        }
        self.stage_pair(database, &marks::segment(id, number), elements)?;
        if before != elements.is_some() {
            let mut counts = self.counts(database);
            counts.segments = counts.segments.saturating_add_signed(if before { -1 } else { 1 });
            self.set_counts(database, counts)?;
        }
        Ok(())
    }

    fn release(&mut self, database: usize, id: u64, segments: [Range<u64>; 2]) -> Result<()> {
        let mut counts = self.counts(database);
        for Range { start, end } in segments.into_iter().filter(|segments| !segments.is_empty()) {
            let removal: Vec<u8> = [id, start, end].iter().flat_map(|n| n.to_le_bytes()).collect();
            self.stage_pair(database, &marks::removal(counts.end_removal), Some(&removal))?;
            counts.end_removal += 1;
        }
        self.set_counts(database, counts)
    }

    fn changed(&self, database: usize, key: &[u8]) {
        self.space().events.changes.fetch_add(1, Relaxed);
        self.space().watched.touch(database, key, || self.holds(database, key).unwrap_or(true));
    }

    fn secret(&self) -> u64 {
        self.space().secret()
    }
}

impl Exclusive<'_> {
    /// [`Pairs::segment`].
    pub(in crate::keyspace) fn read_segment(
        &self,
        database: usize,
        id: u64,
        number: u64,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let key = marks::segment(id, number);
        if let Some(staged) = self.staged_pair(database, &key) {
            value.extend_from_slice(staged.unwrap_or_default());
            return Ok(staged.is_some());
        }
        let (space, target) = (self.space(), &self.space().databases[database]);
        let guard = if space.in_file() { target.table.load() } else { target.segments.load() };
        match guard.as_ref() {
            Some(table) => Ok(table.get_into(&key, value)?),
            None => Ok(false),
        }
    }

    /// Removes some segments that belong to no key. Returns whether there may be more. Must not be called between
    /// `begin` and `commit`.
    pub(in crate::keyspace) fn remove_released(&mut self, database: usize) -> Result<bool> {
        debug_assert!(!self.has_begun(), "the commit would store a part of the transaction");
        let mut counts = self.counts(database);
        if !counts.has_removals() {
            return Ok(false);
        }
        let key = marks::removal(counts.first_removal);
        let mut bytes = Vec::with_capacity(REMOVAL_BYTES);
        if let Some(table) = self.space().segments_of(&self.space().databases[database]) {
            table.get_into(&key, &mut bytes)?;
        }
        let [id, first, end] = numbers(&bytes).unwrap_or_default();
        self.begin();
        let (mut cut, mut removed, mut unread, mut gap) = (end, 0, Vec::new(), Gap::default());
        while cut > first && removed < REMOVED_AT_ONCE {
            let is_there = self.read_segment(database, id, cut - 1, &mut unread)?;
            // A damaged file could name any number of segments.
            if gap.is_too_long(is_there) {
                cut = first;
                break;
            }
            self.put_segment(database, (id, cut - 1), is_there, None)?;
            cut -= 1;
            removed += u64::from(is_there);
        }
        if cut <= first {
            self.stage_pair(database, &key, None)?;
            counts = self.counts(database);
            counts.first_removal += 1;
            self.set_counts(database, counts)?;
        } else {
            let rest: Vec<u8> = [id, first, cut].iter().flat_map(|n| n.to_le_bytes()).collect();
            self.stage_pair(database, &key, Some(&rest))?;
        }
        self.commit()?;
        Ok(true)
    }
}

impl KeySpace {
    /// Whether there are segments that belong to no key.
    pub(in crate::keyspace) fn has_removals(&self, database: usize) -> bool {
        let database = &self.databases[database];
        database.has_segments.load(Relaxed) && database.counts().has_removals()
    }

    /// Removes segments that belong to no key, as long as there are any and `may_go_on`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Batch::commit`].
    pub(crate) fn sweep_segments(&self, mut may_go_on: impl FnMut() -> bool) -> Result<()> {
        for number in 0..self.databases.len() {
            while self.has_removals(number) && may_go_on() {
                let Some(mut alone) = self.close(Patience::MayWait) else { break };
                if !alone.remove_released(number)? {
                    break;
                }
            }
        }
        Ok(())
    }
}
