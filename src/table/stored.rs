//! Puts of large values, which are written to their locations in the file at once and not to the log.
//!
//! ```text
//! put   enter the gate -> write the value through to a new extent -> latch the bucket, refer to the extent
//!       -> append {key, place, length, checksum} to the log -> release
//! ```
//!
//! With [`Durability::Os`](super::Durability) such a value is copied to the operating system once; the log and a later
//! checkpoint would be two copies. Only room beyond the end of the last checkpoint is used this way. In other room, and
//! in batches, appends and all other writes, the log has the value.
//!
//! Source: docs/architecture.md, "Log". Not here: which bytes of the file may be written at once (`pager/values/`).

use super::handle::Table;
use super::wal_record::{Reference, WalRecord, encode_reference};
use crate::buckets::edit::Edit;
use crate::buckets::{Bucket, HashedKey, PairLocation};
use crate::error::Result;
use crate::pager::wal::Lsn;

impl Table {
    /// Puts a value by writing its bytes to the file at once. Returns `None`, with nothing changed, if that is not
    /// allowed.
    pub(super) fn put_stored(&self, key: HashedKey<'_>, value: &[u8]) -> Result<Option<Lsn>> {
        if !self.pager.values().writes_this_through(value.len()) || self.replaying {
            return Ok(None);
        }
        let address = self.buckets.prefetch_bucket(key.hash);
        let writer = self
            .enter_to_log(|| WalRecord::PutStored { key: key.bytes, reference: &Reference::default() }.log_bytes())?;
        let Some((extent, stored)) = self.buckets.write_through(key.bytes, value)? else { return Ok(None) };
        let reference = encode_reference(stored);
        let record = WalRecord::PutStored { key: key.bytes, reference: &reference };
        let mut referred = false;
        let mut set = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            let delta = bucket.set_extent(key, location, &extent)?;
            referred = true;
            Ok(Some(delta))
        };
        let put = self.write_inside(writer, key, address, record, Edit::With(&mut set));
        if !referred {
            self.buckets.free_extent(&extent);
        }
        Ok(Some(put?.lsn))
    }
}
