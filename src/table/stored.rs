//! Puts of large values, which are written to their blocks of the file at once.
//!
//! ```text
//! put   enter the gate -> write the value to a new extent in the file -> latch the bucket, refer to the extent
//!       -> append {key, place, length, checksum} to the log -> release
//! ```
//!
//! Such a value is copied to the operating system once; memory, a log and a later checkpoint would be three copies. A
//! log that waits for the disk has it whole, so that a put waits for one sync. In batches, appends and all other
//! writes, and without a log, values are stored as others are.
//!
//! Source: docs/architecture.md, "Log". Not here: where in the file (`pager/values.rs`).

use super::handle::Table;
use super::options::Durability;
use super::wal_record::{Reference, WalRecord, encode_reference};
use super::writer::Writer;
use crate::buckets::address::BucketAddress;
use crate::buckets::edit::Edit;
use crate::buckets::extent::Extent;
use crate::buckets::{Bucket, HashedKey, PairLocation};
use crate::error::Result;
use crate::pager::wal::Lsn;

impl Table {
    /// Puts a value by writing its bytes to the file at once. Returns `None`, with nothing changed, if it should be
    /// stored as others are.
    pub(super) fn put_stored(&self, key: HashedKey<'_>, value: &[u8]) -> Result<Option<Lsn>> {
        if !self.pager.has_file() || self.replaying {
            return Ok(None);
        }
        let reference = &mut Reference::default();
        let put = WalRecord::Put { key: key.bytes, value };
        let is_whole = self.durability == Durability::Sync;
        let log_bytes =
            || if is_whole { put } else { WalRecord::PutStored { key: key.bytes, reference: &*reference } }.log_bytes();
        let address = self.buckets.prefetch_bucket(key.hash);
        let writer = self.enter_to_log(log_bytes)?;
        let Some((extent, stored)) = self.buckets.write_at_once(key.bytes, value)? else { return Ok(None) };
        self.pager.count_value(value.len() as u64);
        *reference = encode_reference(stored);
        let record = if is_whole { put } else { WalRecord::PutStored { key: key.bytes, reference } };
        self.put_extent(writer, key, address, record, &extent).map(Some)
    }

    /// Lets the record of `key` refer to an extent, which is freed if that fails. Returns the position to wait for.
    pub(super) fn put_extent(
        &self,
        mut writer: Writer<'_>,
        key: HashedKey<'_>,
        address: BucketAddress<'_>,
        record: WalRecord<'_>,
        extent: &Extent,
    ) -> Result<Lsn> {
        let mut referred = false;
        let mut set = |bucket: &mut Bucket<'_>, location: Option<PairLocation>| {
            let delta = bucket.set_extent(key, location, extent)?;
            referred = true;
            Ok(Some(delta))
        };
        match self.edit_and_log(&mut writer, key, address, record, Edit::With(&mut set)) {
            Ok(Some((delta, _, lsn))) => {
                writer.leave(delta, 1, 0);
                Ok(lsn)
            }
            Ok(None) => Ok(self.position_seen()),
            Err(e) => {
                // Before the writer leaves the gate, as each change of a frame.
                if !referred {
                    self.buckets.free_extent(extent);
                }
                Err(e)
            }
        }
    }
}
