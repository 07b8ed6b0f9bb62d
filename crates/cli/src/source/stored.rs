//! Pairs of a table or a dictionary, in their stored order. Of a table that a server has used, also its keys with types
//! and lifetimes.

use crate::failure::Result;
use crate::format::rdb::row_of;
use crate::format::{Pair, Row, Source};
use splitpoint::dictionary::Pairs;
use splitpoint_server::keyspace::ServedScan;
use splitpoint_server::rdb::{Entry, StoredScan};

/// The common part of a table's scan and a dictionary's iterator.
pub trait PairStream {
    /// Returns the next pair, borrowed until the next call.
    fn next_ref(&mut self) -> splitpoint::Result<Option<(&[u8], &[u8])>>;
}

impl PairStream for ServedScan<'_> {
    fn next_ref(&mut self) -> splitpoint::Result<Option<(&[u8], &[u8])>> {
        ServedScan::next_ref(self)
    }
}

impl PairStream for Pairs<'_> {
    fn next_ref(&mut self) -> splitpoint::Result<Option<(&[u8], &[u8])>> {
        Pairs::next_ref(self)
    }
}

/// The part of a file that was read.
struct Part {
    /// Rows so far.
    number: u64,
    pairs_total: u64,
    file_bytes: u64,
}

impl Part {
    /// Estimated from the share of pairs, because their bytes are interleaved with others.
    fn taken_bytes(&self) -> u64 {
        let share = self.number as f64 / self.pairs_total.max(1) as f64;
        ((self.file_bytes as f64 * share) as u64).min(self.file_bytes)
    }
}

/// Pairs without types and lifetimes.
pub struct Stored<P> {
    pairs: P,
    part: Part,
    left_out: Vec<String>,
}

impl<P: PairStream> Stored<P> {
    /// `left_out`: what the file has besides its pairs.
    pub fn new(pairs: P, pairs_total: u64, file_bytes: u64, left_out: Vec<String>) -> Self {
        Self { pairs, part: Part { number: 0, pairs_total, file_bytes }, left_out }
    }
}

impl<P: PairStream> Source for Stored<P> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let Some((key, value)) = self.pairs.next_ref()? else { return Ok(Row::End) };
        self.part.number += 1;
        Ok(Row::Pair(Pair { key, value }, self.part.number))
    }

    fn number(&self) -> u64 {
        self.part.number
    }

    fn taken_bytes(&self) -> u64 {
        self.part.taken_bytes()
    }

    fn note(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| format!("left out: {}", self.left_out.join("; ")))
    }
}

/// The keys of one of a server's databases, with types and lifetimes.
pub struct StoredEntries<'t> {
    entries: StoredScan<'t>,
    database: u64,
    entry: Option<Entry>,
    part: Part,
}

impl<'t> StoredEntries<'t> {
    pub fn new(entries: StoredScan<'t>, database: u64, pairs_total: u64, file_bytes: u64) -> Self {
        Self { entries, database, entry: None, part: Part { number: 0, pairs_total, file_bytes } }
    }
}

impl Source for StoredEntries<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let Some((entry, _)) = self.entries.next_entry()? else { return Ok(Row::End) };
        self.part.number += 1;
        Ok(row_of(self.entry.insert(Entry { database: self.database, ..entry }), self.part.number))
    }

    fn number(&self) -> u64 {
        self.part.number
    }

    fn taken_bytes(&self) -> u64 {
        self.part.taken_bytes()
    }
}
