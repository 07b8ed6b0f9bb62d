//! The changes of a batch, encoded as in the log.

use super::handle::Table;
use super::wal_record::{BatchChanges, WalRecord, decode_batch, encode_in_batch};
use crate::error::Result;

/// Changes encoded as in the log.
#[derive(Default)]
pub(super) struct Changes {
    bytes: Vec<u8>,
    count: usize,
    /// An upper bound of the bytes that their pairs take in pages.
    page_bytes: u64,
}

impl Changes {
    pub(super) fn add(&mut self, table: &Table, change: WalRecord<'_>) -> Result<()> {
        let (key, value_bytes) = change.key_and_value_bytes();
        table.buckets.check_lengths(key, value_bytes)?;
        encode_in_batch(change, &mut self.bytes);
        self.count += 1;
        if !matches!(change, WalRecord::Remove { .. }) {
            self.page_bytes += table.buckets.bytes_in_page(key.len(), value_bytes) as u64;
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// An upper bound of the bytes that their pairs take in pages.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    pub(super) fn decode(&self) -> BatchChanges<'_> {
        decode_batch(&self.bytes).expect("it was encoded here")
    }
}
