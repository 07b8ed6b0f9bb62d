//! The sweep: finds and removes expired keys that no command accesses.
//!
//! It walks the tables by their scan cursors, in steps, and reads only the beginning of each value. A step is followed
//! by another if more than one in [`GO_ON_SHARE`] of its keys had expired, since then the keys ahead of the cursor
//! probably have too. So about one key in `GO_ON_SHARE` may stay although it has expired, as may those that
//! expired since the last tick of `housekeeping.rs`, as long as the time for a tick suffices.
//!
//! Each key is removed under the latch of its bucket, if it is still expired. A hash begins with the time
//! when its first field expires (`collections/fields/`), so it is found like an expired key; its fields are removed
//! with exclusive entry, in steps. A database without lifetimes is not walked: `Database::may_expire`.

use crate::keyspace::collections::fields::FieldsMut;
use crate::keyspace::collections::hashed::has_expired;
use crate::keyspace::collections::shape::{FIRST_EXPIRY_BYTES, first_expiry};
use crate::keyspace::record::{HEAD_BYTES_MAX, MARK_BYTES};
use crate::keyspace::{Database, Edit, Exclusive, KeySpace, Kind, New, Old, Patience, Result, now_ms};
use std::sync::atomic::Ordering::*;

/// The position of the sweep in each database.
#[derive(Default)]
pub(crate) struct SweepCursor([Position; crate::keyspace::DATABASE_COUNT]);

#[derive(Clone, Copy, Default)]
struct Position {
    next: u64,
    /// Whether this pass has found a key with a lifetime.
    found: bool,
    /// Whether it has found a hash whose fields have lifetimes.
    found_fields: bool,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Keys that were checked.
    pub(crate) looked_at: usize,
    /// Keys that had expired and were removed.
    pub(crate) removed: usize,
}

/// A step is followed by another if more than one key in this many had expired.
const GO_ON_SHARE: usize = 100;
/// Keys removed together.
const REMOVED_AT_ONCE: usize = 32;
/// Fields removed together.
const FIELDS_AT_ONCE: u64 = 256;

// The head of a collection with a lifetime, and what follows, are within what the sweep reads.
const _: () = assert!(MARK_BYTES + 2 + 8 + FIRST_EXPIRY_BYTES <= HEAD_BYTES_MAX);

impl KeySpace {
    /// Checks about `count` keys of each database in which keys may expire, from where the last call ended, and removes
    /// expired ones; then more, as long as many had expired and `may_go_on` returns true.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::remove`].
    pub(crate) fn sweep(
        &self,
        cursor: &mut SweepCursor,
        count: usize,
        mut may_go_on: impl FnMut() -> bool,
    ) -> Result<Swept> {
        let mut all = Swept::default();
        for (number, position) in cursor.0.iter_mut().enumerate() {
            let database = &self.databases[number];
            while database.may_expire.load(Relaxed) || database.fields_may_expire.load(Relaxed) {
                let swept = self.sweep_step(number, position, count, &mut may_go_on)?;
                all.looked_at += swept.looked_at;
                all.removed += swept.removed;
                if swept.removed * GO_ON_SHARE <= swept.looked_at || !may_go_on() {
                    break;
                }
            }
        }
        Ok(all)
    }

    fn sweep_step(
        &self,
        number: usize,
        position: &mut Position,
        count: usize,
        may_go_on: &mut impl FnMut() -> bool,
    ) -> Result<Swept> {
        let database = &self.databases[number];
        let mut swept = Swept::default();
        let Some(table) = database.table.load_full() else { return Ok(swept) };
        if position.next == 0 {
            self.begin_pass(database);
            (position.found, position.found_fields) = (false, false);
        }
        let (now_ms, coding) = (now_ms(), self.coding(database));
        let (mut expired, mut hashes) = (Vec::<Vec<u8>>::new(), Vec::<Vec<u8>>::new());
        let mut scan = table.scan_from(position.next).only_heads(HEAD_BYTES_MAX);
        while let Some((stored, head)) = scan.next_ref()? {
            swept.looked_at += 1;
            let record = coding.decode(head);
            let (attributes, first_ms) = (record.attributes, first_expiry(record.attributes.kind, record.value));
            position.found |= attributes.expires_at_ms != 0;
            position.found_fields |= first_ms != 0;
            if attributes.expired(now_ms) {
                expired.push(stored.to_vec());
            } else if has_expired(first_ms, now_ms) {
                hashes.push(stored.to_vec());
            }
            if swept.looked_at >= count && scan.at_boundary() {
                break;
            }
        }
        position.next = scan.cursor().unwrap_or(0);
        if position.next == 0 && !(position.found && position.found_fields) {
            self.end_pass(database, position);
        }
        for keys in expired.chunks(REMOVED_AT_ONCE) {
            swept.removed += self.remove_expired(number, keys)?;
        }
        for key in hashes.iter().filter_map(|stored| self.key_of(stored)) {
            loop {
                let Some(mut alone) = self.close(Patience::MayWait) else { return Ok(swept) };
                if !alone.expire_fields(number, key)? {
                    break;
                }
                drop(alone);
                if !may_go_on() {
                    return Ok(swept);
                }
            }
        }
        Ok(swept)
    }

    /// Removes each of the stored keys that has expired.
    pub(in crate::keyspace) fn remove_expired(&self, number: usize, mut keys: &[Vec<u8>]) -> Result<usize> {
        let mut removed = 0;
        let Some(shared) = self.share(Patience::MayWait) else { return Ok(0) };
        if self.watched.is_empty() {
            let Some(table) = self.databases[number].table.load_full() else { return Ok(0) };
            let remove = |_: usize, now: Option<Old<'_>>, _: &mut New<'_>| match now {
                Some(_) => Edit::Keep,
                None => {
                    removed += 1;
                    Edit::Remove
                }
            };
            let (done, outcome) = self.edit_many(&table, number, keys, 0, &shared.clock, remove);
            outcome?;
            // A collection is next: its segments are released with exclusive entry.
            keys = &keys[done..];
        }
        drop(shared);
        if keys.is_empty() {
            return Ok(removed);
        }
        let Some(mut alone) = self.close(Patience::MayWait) else { return Ok(0) };
        for key in keys.iter().filter_map(|stored| self.key_of(stored)) {
            removed += usize::from(alone.expire(number, key)?);
        }
        Ok(removed)
    }

    /// This pass finds the lifetimes set before; later ones set the flag again: while the gate is closed, no
    /// writer has set the flag without having written the table.
    fn begin_pass(&self, database: &Database) {
        if let Some(_alone) = self.close(Patience::MayWait) {
            database.is_expiry_new.store(false, Relaxed);
            database.is_field_expiry_new.store(false, Relaxed);
        }
    }

    /// Called if no key of the pass, or no field, had a lifetime. If none was set during the pass, none has one now.
    fn end_pass(&self, database: &Database, position: &Position) {
        let Some(_alone) = self.close(Patience::MayWait) else { return };
        if !position.found && !database.is_expiry_new.load(Relaxed) {
            database.may_expire.store(false, Relaxed);
        }
        if !position.found_fields && !database.is_field_expiry_new.load(Relaxed) {
            database.fields_may_expire.store(false, Relaxed);
        }
    }

    /// How many keys of a database have lifetimes, and the average time left, in milliseconds. Counted in a
    /// small database; estimated from a sample of a large one. O(1).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn lifetimes(&self, number: usize) -> Result<(u64, u64)> {
        const COUNTED_MAX: u64 = 10_000;
        const PARTS: u64 = 50;
        let database = &self.databases[number];
        let Some(table) = database.table.load_full().filter(|_| database.may_expire.load(Relaxed)) else {
            return Ok((0, 0));
        };
        let (len, now_ms, coding) = (self.len(number), now_ms(), self.coding(database));
        let (parts, in_part) = if len <= COUNTED_MAX { (1, u64::MAX) } else { (PARTS, COUNTED_MAX / PARTS) };
        let (mut looked_at, mut expiring, mut left_ms) = (0u64, 0u64, 0u64);
        for part in 0..parts {
            let mut scan = table.scan_from(u64::MAX / parts * part).only_heads(HEAD_BYTES_MAX);
            let end = looked_at.saturating_add(in_part);
            while let (true, Some((stored, head))) = (looked_at < end, scan.next_ref()?) {
                if self.key_of(stored).is_none() {
                    continue;
                }
                looked_at += 1;
                let at_ms = coding.decode(head).attributes.expires_at_ms;
                expiring += u64::from(at_ms != 0);
                left_ms = left_ms.saturating_add(at_ms.saturating_sub(now_ms));
            }
        }
        let of_all = u128::from(expiring) * u128::from(len.max(looked_at)) / u128::from(looked_at.max(1));
        Ok((u64::try_from(of_all).unwrap_or(u64::MAX), left_ms / expiring.max(1)))
    }
}

impl Exclusive<'_> {
    /// Removes some of the fields of a hash that have expired, and the key with the last one. Returns whether there may
    /// be more.
    fn expire_fields(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        if self.attributes(database, key)?.kind != Kind::Hash {
            return Ok(false);
        }
        self.begin();
        let mut hash = FieldsMut::open(self, database, key, Kind::Hash)?;
        let has_more = hash.remove_expired(FIELDS_AT_ONCE)?;
        hash.finish()?;
        self.commit()?;
        Ok(has_more)
    }
}
