//! How many segments a database has, and which wait for their removal: see `collections/segments.rs`.

use crate::keyspace::{Database, marks};
use splitpoint::{Error, ErrorKind, Table};
use std::sync::atomic::Ordering::*;

/// What a database knows about its segments. A file stores it as the pair [`marks::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::keyspace) struct Counts {
    /// The number of the next large collection.
    pub(in crate::keyspace) next_id: u64,
    /// Segments stored.
    pub(in crate::keyspace) segments: u64,
    /// The first pending removal, and the number after the last.
    pub(in crate::keyspace) first_removal: u64,
    pub(in crate::keyspace) end_removal: u64,
}

const COUNTS_BYTES: usize = 4 * 8;
/// Numbers of collections and removals count up from 0.
const NUMBER_MAX: u64 = 1 << 62;

/// Parses numbers of 8 bytes each; `None` if the length differs.
pub(in crate::keyspace) fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    (bytes.len() == 8 * N).then_some(numbers)
}

impl Counts {
    pub(in crate::keyspace) fn has_removals(self) -> bool {
        self.first_removal < self.end_removal
    }

    /// Pairs that are not keys in the table of keys: segments, removals, and the counts.
    fn hidden(self) -> u64 {
        self.segments + (self.end_removal - self.first_removal) + 1
    }

    pub(in crate::keyspace) fn encode(self) -> Vec<u8> {
        let numbers = [self.next_id, self.segments, self.first_removal, self.end_removal];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        debug_assert_eq!(bytes.len(), COUNTS_BYTES);
        bytes
    }

    /// The counts of a file; `None` if it never had a large collection.
    pub(in crate::keyspace) fn of_file(table: &Table) -> splitpoint::Result<Option<Counts>> {
        let Some(bytes) = table.get(&marks::counts())? else { return Ok(None) };
        let Some([next_id, segments, first, end]) = numbers(&bytes) else {
            let what = format!("the counts of collections are {} bytes that mean nothing", bytes.len());
            return Err(Error::new(ErrorKind::Corrupt, what));
        };
        // A salvaged file has fewer pairs, and a forged one may say anything.
        let pairs = table.len();
        let is_possible = first <= end && end <= NUMBER_MAX;
        let (first_removal, end_removal) = if is_possible { (first, end.min(first + pairs)) } else { (0, 0) };
        let (next_id, segments) = (next_id.min(NUMBER_MAX), segments.min(pairs));
        Ok(Some(Counts { next_id, segments, first_removal, end_removal }))
    }
}

impl Database {
    /// Sets the counts. The caller has closed the gate, or has the database to itself.
    pub(in crate::keyspace) fn set_counts(&self, counts: Counts, in_file: bool) {
        *self.counts.lock().unwrap_or_else(|e| e.into_inner()) = counts;
        self.has_segments.store(counts.segments > 0 || counts.has_removals(), Relaxed);
        self.hidden.store(if in_file { counts.hidden() } else { 0 }, Relaxed);
    }

    pub(in crate::keyspace) fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(|e| e.into_inner())
    }
}
