//! The division of a build's memory while it writes a file, and the builds that are rejected because they would not
//! fit.
//!
//! ```text
//! all pairs taken  ->  Forecast: how many records, how long  ->  Shares
//! memory of a file =  sort | lists of numbers | chunks held back, and their index | filter        while it is written
//!                     index, lists                                                                at the end
//! ```
//!
//! A few MiB that do not depend on the data come on top: buffers of pages and of runs read ahead, and one record that
//! is longer than those. docs/architecture.md, "Dictionaries", has the measured sum.
//!
//! Not here: how the sort divides its share (`sort/`).

use super::plan::{MEMORY_BYTES_MIN, Plan};
use crate::dictionary::index::Index;
use crate::dictionary::index::filter::{SEGMENT_BUILD_BYTES, SEGMENT_KEYS};
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::run::{FAR_BYTES, FAR_LEN_MIN};
use crate::error::{Error, ErrorKind, Result};

/// Chunks that are searched at once, by all threads together.
pub(crate) const CHUNKS_AT_ONCE: u64 = 128;

/// Bytes per segment in the directory of a filter.
const FILTER_DIRECTORY_BYTES: u64 = 16;

/// Facts about the records of a file that are known before they are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forecast {
    pub records_min: u64,
    pub records_max: u64,
    /// Average bytes of a record in memory: long values are not held.
    pub record_bytes: u64,
}

impl Forecast {
    /// The forecast for the records of `old` alone.
    pub fn of(old: &DictionaryFile) -> Forecast {
        let footer = &old.footer;
        // Whether some values are long is known, but not which.
        let has_far = footer.value_len.1 as usize >= FAR_LEN_MIN;
        let value_bytes = if has_far { footer.pairs * FAR_BYTES as u64 } else { footer.value_bytes };
        // No overflow: an open compares the sum with the bytes of the file.
        let record_bytes = footer.key_bytes.saturating_add(value_bytes) / footer.pairs.max(1);
        Forecast { records_min: footer.pairs, records_max: footer.pairs, record_bytes }
    }

    /// The forecast for the records of `old` together with a batch, which may repeat keys of `old` and delete some of
    /// them.
    pub fn with_old(self, old: Option<&DictionaryFile>, deletes: bool) -> Forecast {
        let Some(old) = old.map(Forecast::of) else { return self };
        let records = old.records_max + self.records_max;
        let bytes = u128::from(old.records_max) * u128::from(old.record_bytes)
            + u128::from(self.records_max) * u128::from(self.record_bytes);
        Forecast {
            records_min: old.records_min.saturating_sub(if deletes { self.records_max } else { 0 }),
            records_max: records,
            record_bytes: (bytes / u128::from(records.max(1))) as u64,
        }
    }
}

/// The division of memory among the parts of a file's build while the file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    pub sort: u64,
    /// For each list of numbers.
    pub list: u64,
    /// For the records of chunks held back; all but the last chunk are written once these fill half of it.
    pub chunks: u64,
    /// Threads that solve segments of a filter.
    pub filter_threads: usize,
}

impl Plan {
    /// Checks that the index for the records of `old`, one of `parts` files, can be built in the memory allowed, before
    /// any record is read.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn check_memory_for(&self, old: &DictionaryFile, parts: usize) -> Result<()> {
        self.for_writing(&old.path, parts).shares(&Forecast::of(old)).map(drop)
    }

    /// Divides the memory of a plan made by [`for_writing`](Plan::for_writing).
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the index, or one of its chunks, would not fit.
    pub fn shares(&self, forecast: &Forecast) -> Result<Shares> {
        let memory = self.memory_bytes;
        self.check_index(forecast.records_min, forecast.records_min.saturating_mul(forecast.record_bytes))?;
        let affordable = usize::try_from(memory / 8 / SEGMENT_BUILD_BYTES).unwrap_or(usize::MAX);
        let filter_threads = if self.filter().is_some() { self.thread_count().min(affordable).max(1) } else { 0 };
        let segments = if filter_threads > 0 { forecast.records_max / SEGMENT_KEYS as u64 } else { 0 };
        let filter = filter_threads as u64 * SEGMENT_BUILD_BYTES + segments * FILTER_DIRECTORY_BYTES;
        let list = self.list_bytes();
        let (chunks, index) = self.chunk_shares(forecast)?;
        let others = self.list_count() * list + filter + chunks + index;
        let sort = memory.saturating_sub(others).max(MEMORY_BYTES_MIN / 4);
        Ok(Shares { sort, list, chunks, filter_threads })
    }

    /// Bytes for the chunks held back, and for their index by the end; 0 without a chunk index.
    fn chunk_shares(&self, forecast: &Forecast) -> Result<(u64, u64)> {
        let Index::Chunk { .. } = self.index else { return Ok((0, 0)) };
        let chunk_keys = u64::from(self.index.chunk_options().chunk_keys);
        // The largest chunk is at least as large as the mean.
        let least = forecast.record_bytes.saturating_mul(chunk_keys.min(forecast.records_min));
        if least > self.chunk_bytes_max() {
            return Err(too_little_memory(chunk_keys, least, self.memory_bytes));
        }
        let chunk_bytes = forecast.record_bytes.saturating_mul(chunk_keys.min(forecast.records_max));
        let at_once = chunk_bytes.saturating_mul(2 * CHUNKS_AT_ONCE).clamp(MEMORY_BYTES_MIN / 4, self.memory_bytes / 4);
        let index = self.index_bytes(forecast.records_max, 0).min(self.memory_bytes / 4);
        Ok((at_once.max(2 * chunk_bytes).min(self.memory_bytes / 2), index))
    }

    /// The most bytes of one chunk.
    pub fn chunk_bytes_max(&self) -> u64 {
        self.memory_bytes / 2
    }

    /// Checks that the index fits in memory, given the number of records and their bytes.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub fn check_index(&self, records: u64, data_bytes: u64) -> Result<()> {
        let index = self.index_bytes(records, data_bytes);
        let need = match self.index {
            // The index gets a quarter of the memory while records are sorted; at the end it is in memory twice.
            Index::Chunk { .. } => index.saturating_mul(4),
            // In memory twice, too.
            Index::Page { .. } => index.saturating_mul(2),
            Index::Trie { .. } | Index::None => index,
        };
        let need = need.saturating_add(self.list_count() * self.list_bytes());
        if index == 0 || need <= self.memory_bytes {
            return Ok(());
        }
        let (name, have) = (self.index.name(), self.memory_bytes);
        let message =
            format!("memory_bytes {have}: to make the index `{name}` of {records} records takes about {need} bytes");
        let hint = match self.index {
            Index::Page { .. } => "Allow more memory.",
            _ => "Allow more memory, or choose the index `page`, which is much smaller.",
        };
        Err(Error::new(ErrorKind::OutOfMemory, message).with_hint(hint))
    }

    /// Estimates the bytes that the index takes, rather too few than too many.
    fn index_bytes(&self, records: u64, data_bytes: u64) -> u64 {
        let pages = data_bytes / u64::from(self.page_bytes);
        let bits = match self.index {
            Index::Page { bins_per_page } => u128::from(pages) * u128::from(2 + bins_per_page.max(1).ilog2()),
            // 2.5 bits and skip pointers; in blocks, about half of that for each factor of four in items. In pages it
            // is 2.5 bits if records have several sizes, which is not known here.
            Index::Trie { block_items, .. } => {
                u128::from(records) * u128::from(26u32 >> block_items.max(1).ilog2().div_ceil(2)) / 10
            }
            // 1.7 bits, and what a chunk keeps until the end.
            Index::Chunk { .. } => u128::from(records) * 18 / 10,
            Index::None => 0,
        };
        (bits / 8).try_into().unwrap_or(u64::MAX)
    }

    /// The maximum number of lists of numbers: positions, ranks, slots of the filter.
    fn list_count(&self) -> u64 {
        let index = match self.index {
            Index::None => 0,
            Index::Page { .. } | Index::Chunk { .. } => 1,
            Index::Trie { .. } => 2,
        };
        index + u64::from(self.filter().is_some())
    }

    fn list_bytes(&self) -> u64 {
        self.memory_bytes / 8 / self.list_count().max(1)
    }
}

/// The error for a chunk of `chunk_keys` records that needs more memory than allowed.
pub(crate) fn too_little_memory(chunk_keys: u64, need: u64, have: u64) -> Error {
    let message = format!(
        "memory_bytes {have}: the index `chunk` holds the {chunk_keys} records of a chunk in half of the memory, \
         here at least {need} bytes"
    );
    Error::new(ErrorKind::OutOfMemory, message)
        .with_hint("Allow more memory, or choose the index `page`, which holds none.")
}

#[cfg(test)]
#[path = "tests/memory.rs"]
mod tests;
