//! Attributes of keys: lifetimes, CAS numbers, and the heads of values that have them (`record.rs`).
//!
//! A database of a file has no heads until a value needs one; then the file gets the header pair (`marks.rs`).

use super::Exclusive;
use crate::keyspace::heads::{HAS_MARK, heads_by};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::reads::Known;
use crate::keyspace::{Attributes, Result, marks};
use std::sync::atomic::Ordering::*;

impl Exclusive<'_> {
    /// Sets the attributes of `key` if it is present. Returns whether it is.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn set_attributes(&mut self, database: usize, key: &[u8], attributes: Attributes) -> Result<bool> {
        let Some(known) = self.known_now(database, key)? else { return Ok(false) };
        if known.attributes != attributes {
            self.changed(database, key);
            self.replace_head(database, key, known, attributes)?;
        }
        Ok(true)
    }

    /// The CAS number of `key`, assigned now if it has none; `None` if the key is absent. Not a change for WATCH.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn cas_of(&mut self, database: usize, key: &[u8]) -> Result<Option<u64>> {
        let Some(known) = self.known_now(database, key)? else { return Ok(None) };
        known.refuse_collection()?;
        let mut attributes = known.attributes;
        if attributes.cas == 0 {
            attributes.cas = self.space.new_cas();
            self.replace_head(database, key, known, attributes)?;
        }
        Ok(Some(attributes.cas))
    }

    /// Replaces the attributes of a key that is present. In memory this writes only the head if its length
    /// stays the same, as for a long value; else the whole value.
    pub(super) fn replace_head(
        &mut self,
        database: usize,
        key: &[u8],
        known: Known,
        attributes: Attributes,
    ) -> Result<()> {
        self.space.refuse_dictionary()?;
        self.allow_heads(database, attributes, b"")?;
        let target = self.database(database);
        target.note_lifetime(attributes);
        for is_roomy in [false, true] {
            let mut head = Vec::new();
            self.space.coding(target).encode_head(attributes, is_roomy, &mut head);
            if !self.space.in_file() && head.len() == known.head_bytes {
                self.table(database)?.write_part(key, 0, &head)?;
                return Ok(());
            }
        }
        let mut value = Vec::new();
        self.read(database, key, &mut value)?;
        self.stage_record(database, key, attributes, &value[known.head_bytes..])
    }

    /// Allows heads if this value, with these attributes, needs one.
    pub(super) fn allow_heads(&mut self, database: usize, attributes: Attributes, value: &[u8]) -> Result<()> {
        if !self.space.coding(self.database(database)).needs_head(attributes, value) {
            return Ok(());
        }
        self.begin_heads(database)
    }

    /// Allows the values of this database to have heads from now on.
    pub(crate) fn begin_heads(&mut self, database: usize) -> Result<()> {
        let target = self.database(database);
        if target.has_heads() {
            return Ok(());
        }
        if !self.space.in_file() {
            target.heads.store(HAS_MARK, Relaxed);
            return Ok(());
        }
        // Chosen now, at random: no value that was stored before begins with it.
        let mark = self.space.random_mark()?;
        marks::put_header(&*self.table(database)?, mark)?;
        target.heads.store(heads_by(mark), Relaxed);
        Ok(())
    }

    /// Removes `key` if it has expired and keys are watched or observed.
    pub(super) fn expire_watched(&mut self, database: usize, key: &[u8]) -> Result<()> {
        if self.space.watched.is_empty() { Ok(()) } else { self.expire(database, key).map(drop) }
    }

    /// Removes `key` if it has expired. Returns whether it had.
    pub(in crate::keyspace) fn expire(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        let was_over = self.is_over(database, key)?;
        if was_over {
            self.space.events.expired.fetch_add(1, Relaxed);
            self.space.watched.touch_expired(database, key);
            self.replacing(database, key, |this| this.stage(database, key, None))?;
        }
        Ok(was_over)
    }

    /// Whether `key` has expired and is not removed yet.
    pub(super) fn is_over(&self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known(database, key)?.is_some_and(|known| known.attributes.expired(self.now_ms())))
    }
}
