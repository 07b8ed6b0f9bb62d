//! What a dictionary is made of, in numbers.

use super::Dictionary;
use super::format::{Compression, Layout, Order};
use crate::error::Result;

/// Sizes of a dictionary; `splitpoint dict stat` prints them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DictionaryStat {
    /// Pairs.
    pub pairs: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of the data pages.
    pub data_bytes: u64,
    /// Bytes of all keys and of all values.
    pub key_bytes: u64,
    /// See `key_bytes`.
    pub value_bytes: u64,
    /// Data pages.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The index, by the name that the command line uses.
    pub index: &'static str,
    /// What it is made of: its own figures, a name and a number each.
    pub index_details: Vec<(&'static str, f64)>,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the second index that leads from ranks to pages; 0 where records have one size, or the index gives pages.
    pub ranks_bytes: u64,
    /// Bits of both indexes a key.
    pub index_bits_per_key: f64,
    /// Lengths of all keys and of all values, if each have one: records without lengths.
    pub fixed_lengths: Option<(u32, u32)>,
    /// Shortest and longest key.
    pub key_len: (u32, u32),
    /// Shortest and longest value.
    pub value_len: (u32, u32),
    /// How records are compressed.
    pub compression: Compression,
    /// `hash order`, or in which groups the index orders them.
    pub order: &'static str,
    /// The hash function's name.
    pub hash: String,
    /// Its seed.
    pub hash_seed: u64,
}

impl Dictionary {
    /// Its sizes; reads nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where the file's length cannot be read.
    pub fn stat(&self) -> Result<DictionaryStat> {
        let (file, footer, header) = (&self.file, &self.file.footer, &self.file.header);
        let (index_bytes, ranks_bytes) = (file.index.bytes(), file.ranks_bytes());
        Ok(DictionaryStat {
            pairs: footer.pairs,
            file_bytes: file.file_bytes()?,
            data_bytes: footer.pages * u64::from(header.page_bytes),
            key_bytes: footer.key_bytes,
            value_bytes: footer.value_bytes,
            pages: footer.pages,
            page_bytes: header.page_bytes,
            index: file.index.name(),
            index_details: file.index.details(),
            index_bytes,
            ranks_bytes,
            index_bits_per_key: (index_bytes + ranks_bytes) as f64 * 8.0 / (footer.pairs.max(1)) as f64,
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
                Order::Partitions => "partitions",
            },
            hash: file.hash.name().to_owned(),
            hash_seed: header.hash_seed,
        })
    }
}
