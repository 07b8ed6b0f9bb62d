//! The sizes of a dictionary.

use super::format::layout::{Compression, Layout, Order};
use super::handle::Dictionary;
use super::read::file::DictionaryFile;
use crate::error::Result;

/// Sizes of a dictionary; `splitpoint dict stat` prints them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DictionaryStat {
    /// Number of files: 1, or one per shard. The other figures are totals over all files.
    pub shards: usize,
    /// Number of pairs.
    pub pairs: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the data pages.
    pub data_bytes: u64,
    /// Bytes of all keys and of all values.
    pub key_bytes: u64,
    /// See `key_bytes`.
    pub value_bytes: u64,
    /// Number of data pages.
    pub pages: u64,
    /// Bytes per page.
    pub page_bytes: u32,
    /// The name of the index, as used on the command line.
    pub index: &'static str,
    /// Figures of this kind of index, as names and numbers.
    pub index_details: Vec<(&'static str, f64)>,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the second index, from ranks to pages; 0 if records have one size or the index returns pages.
    pub ranks_bytes: u64,
    /// Bits per fingerprint of the filter; 0 without a filter.
    pub filter_bits: u32,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// Bits per key of both indexes, without the filter.
    pub index_bits_per_key: f64,
    /// The key length and the value length, if all records have the same: they are then stored without lengths.
    pub fixed_lengths: Option<(u32, u32)>,
    /// Shortest and longest key.
    pub key_len: (u32, u32),
    /// Shortest and longest value.
    pub value_len: (u32, u32),
    /// The compression of records.
    pub compression: Compression,
    /// The order of records: `hash order`, or `chunks` of the index.
    pub order: &'static str,
    /// The hash function's name.
    pub hash: String,
    /// Its seed.
    pub hash_seed: u64,
}

impl Dictionary {
    /// The sizes of the dictionary. Reads no data.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) if the file's length cannot be read.
    pub fn stat(&self) -> Result<DictionaryStat> {
        let mut stat = file_stat(&self.files[0])?;
        for file in &self.files[1..] {
            stat.add(file_stat(file)?);
        }
        stat.index_bits_per_key = (stat.index_bytes + stat.ranks_bytes) as f64 * 8.0 / stat.pairs.max(1) as f64;
        Ok(stat)
    }
}

fn file_stat(file: &DictionaryFile) -> Result<DictionaryStat> {
    let (footer, header) = (&file.footer, &file.header);
    Ok(DictionaryStat {
        shards: 1,
        pairs: footer.pairs,
        file_bytes: file.file_bytes()?,
        data_bytes: footer.pages * u64::from(header.page_bytes),
        key_bytes: footer.key_bytes,
        value_bytes: footer.value_bytes,
        pages: footer.pages,
        page_bytes: header.page_bytes,
        index: file.index.name(),
        index_details: file.index.details(),
        index_bytes: file.index.bytes(),
        ranks_bytes: file.ranks_bytes(),
        filter_bits: file.filter().map_or(0, |(bits, ..)| bits.count()),
        filter_bytes: file.filter().map_or(0, |(_, bytes, _)| bytes),
        index_bits_per_key: 0.0,
        fixed_lengths: match header.layout {
            Layout::Varied => None,
            Layout::Fixed { key_len, value_len } => Some((key_len, value_len)),
        },
        key_len: footer.key_len,
        value_len: footer.value_len,
        compression: header.compression,
        order: match header.order {
            Order::Hash => "hash order",
            Order::Chunks => "chunks",
        },
        hash: file.hash.name().to_owned(),
        hash_seed: header.hash_seed,
    })
}

impl DictionaryStat {
    /// Adds another shard of the same dictionary.
    fn add(&mut self, other: DictionaryStat) {
        let lengths = |own: (u32, u32), others: (u32, u32)| (own.0.min(others.0), own.1.max(others.1));
        match (self.pairs, other.pairs) {
            (_, 0) => {}
            (0, _) => (self.key_len, self.value_len) = (other.key_len, other.value_len),
            _ => {
                self.key_len = lengths(self.key_len, other.key_len);
                self.value_len = lengths(self.value_len, other.value_len);
            }
        }
        if other.pairs > 0 {
            self.fixed_lengths = if self.pairs == 0 {
                other.fixed_lengths
            } else {
                self.fixed_lengths.filter(|own| Some(*own) == other.fixed_lengths)
            };
        }
        self.shards += 1;
        self.pairs += other.pairs;
        self.file_bytes += other.file_bytes;
        self.data_bytes += other.data_bytes;
        // Opening compares them only with the file's size, so they may overflow.
        self.key_bytes = self.key_bytes.saturating_add(other.key_bytes);
        self.value_bytes = self.value_bytes.saturating_add(other.value_bytes);
        self.pages += other.pages;
        self.index_bytes += other.index_bytes;
        self.ranks_bytes += other.ranks_bytes;
        // After an update some shards may have no filter.
        self.filter_bits = self.filter_bits.max(other.filter_bits);
        self.filter_bytes += other.filter_bytes;
        // Options are equal in all shards; the other figures are counts.
        const OPTIONS: [&str; 6] =
            ["bucket_keys", "huffman_max", "skip_min", "block_items", "bits_per_page", "superblock_buckets"];
        for ((name, own), (_, others)) in self.index_details.iter_mut().zip(&other.index_details) {
            if !OPTIONS.contains(name) {
                *own += others;
            }
        }
    }
}
