//! Finds the first value of each key, for sources whose own tools see no other: cdb files and their text form.
//!
//! The keys are in a table without values, in memory up to [`CACHE_BYTES`] and then in a temporary file.

use crate::failure::Result;
use crate::format::Format;
use splitpoint::{Table, TableOptions};

/// Memory for the keys.
const CACHE_BYTES: u64 = 64 << 20;

pub struct FirstValues(Table);

impl FirstValues {
    /// `None` for a format without such a rule.
    pub fn of(format: Format) -> Result<Option<Self>> {
        if !matches!(format, Format::Cdb | Format::Cdbmake) {
            return Ok(None);
        }
        Ok(Some(Self(TableOptions::new().cache_bytes(CACHE_BYTES).in_memory()?)))
    }

    /// Whether this is the first value of `key`. A key that is too long counts as first, and fails when it is stored.
    pub fn is_first(&self, key: &[u8]) -> Result<bool> {
        if key.len() > splitpoint::KEY_LEN_MAX {
            return Ok(true);
        }
        Ok(self.0.insert_new(key, b"")?)
    }
}
