//! The changes of a batch, encoded as in the log.
//!
//! They are kept in chunks. A batch of several chunks is logged before its changes are made. Each chunk that the log
//! has is freed, and read back when needed, so memory need not hold both the batch and the pages with its pairs.

use super::handle::Table;
use super::wal_record::{BatchChanges, WalRecord, decode_batch, encode_in_batch};
use crate::error::Result;
use crate::pager::wal::{LoggedPart, pieces_bytes};
use std::borrow::Cow;

/// Bytes of a chunk, which its last change may exceed.
const CHUNK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Changes encoded as in the log.
#[derive(Default)]
pub(super) struct Changes {
    chunks: Vec<Chunk>,
    count: usize,
    /// An upper bound of the bytes that their pairs take in pages.
    page_bytes: u64,
}

/// Whole changes.
enum Chunk {
    Held(Vec<u8>),
    Logged(LoggedPart),
}

impl Changes {
    pub(super) fn add(&mut self, table: &Table, change: WalRecord<'_>) -> Result<()> {
        let (key, value_bytes) = change.key_and_value_bytes();
        table.buckets.check_lengths(key, value_bytes)?;
        match self.chunks.last_mut() {
            Some(Chunk::Held(bytes)) if bytes.len() < CHUNK_BYTES => encode_in_batch(change, bytes),
            _ => {
                // Few batches have a second chunk, and those that do are likely to fill it.
                let mut bytes = Vec::with_capacity(if self.chunks.is_empty() { 0 } else { CHUNK_BYTES });
                encode_in_batch(change, &mut bytes);
                self.chunks.push(Chunk::Held(bytes));
            }
        }
        self.count += 1;
        if !change.is_removal() {
            self.page_bytes += table.buckets.bytes_in_page(key.len(), value_bytes) as u64;
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// An upper bound of the bytes that their pairs take in pages.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The only chunk; `None` if there are several, which are logged one by one.
    pub(super) fn only_chunk(&self) -> Option<&[u8]> {
        if let [Chunk::Held(bytes)] = &self.chunks[..] { Some(bytes) } else { None }
    }

    /// Bytes that they take in the log.
    pub(super) fn log_bytes(&self) -> u64 {
        match self.only_chunk() {
            Some(bytes) => WalRecord::Batch(bytes).log_bytes(),
            None => pieces_bytes(self.held().map(<[u8]>::len)),
        }
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The bytes of a chunk, read from the log if it was logged.
    ///
    /// # Errors
    /// The errors of [`LoggedPart::read`].
    pub(super) fn chunk(&self, index: usize) -> Result<Cow<'_, [u8]>> {
        match &self.chunks[index] {
            Chunk::Held(bytes) => Ok(Cow::Borrowed(bytes)),
            Chunk::Logged(part) => part.read().map(Cow::Owned),
        }
    }

    /// Frees a chunk, which the log has.
    pub(super) fn set_logged(&mut self, index: usize, part: LoggedPart) {
        self.chunks[index] = Chunk::Logged(part);
    }

    /// All changes, in order, before any were logged.
    pub(super) fn decode(&self) -> impl Iterator<Item = WalRecord<'_>> {
        self.held().flat_map(decode_chunk)
    }

    fn held(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|chunk| match chunk {
            Chunk::Held(bytes) => &bytes[..],
            Chunk::Logged(_) => unreachable!("chunks are logged after everything else was read"),
        })
    }
}

/// The changes of a chunk.
pub(super) fn decode_chunk(bytes: &[u8]) -> BatchChanges<'_> {
    decode_batch(bytes).expect("it was encoded here")
}
