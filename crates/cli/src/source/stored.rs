//! Pairs of a table or a dictionary, in their stored order.

use crate::failure::Result;
use crate::format::{Pair, Row, Source};
use splitpoint::dictionary::Pairs;
use splitpoint_server::keyspace::ServedScan;

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

pub struct Stored<P> {
    pairs: P,
    pairs_total: u64,
    file_bytes: u64,
    number: u64,
}

impl<P: PairStream> Stored<P> {
    pub fn new(pairs: P, pairs_total: u64, file_bytes: u64) -> Self {
        Self { pairs, pairs_total, file_bytes, number: 0 }
    }
}

impl<P: PairStream> Source for Stored<P> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let Some((key, value)) = self.pairs.next_ref()? else { return Ok(Row::End) };
        self.number += 1;
        Ok(Row::Pair(Pair { key, value }, self.number))
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// Estimated from the share of pairs, because their bytes are interleaved with others.
    fn taken_bytes(&self) -> u64 {
        let share = self.number as f64 / self.pairs_total.max(1) as f64;
        ((self.file_bytes as f64 * share) as u64).min(self.file_bytes)
    }
}
