//! Sources of a dictionary's pairs: a generator, a file, or either of them sorted by key.
//!
//! Generating pairs is part of a build's time, because the build pulls them. The baseline `xfer` shows its cost: 10 to
//! 20 ns for a small pair, 100 to 200 for a large one.

use super::disk::PairsFile;
use crate::engine::{Outcome, Pairs, Take};
use crate::input::Source;
use std::ops::Range;
use std::path::Path;

/// Pairs of these numbers.
pub struct Made<'s> {
    pub source: &'s Source,
    pub numbers: Range<u64>,
}

impl Pairs for Made<'_> {
    fn each(&mut self, take: Take<'_>) -> Outcome {
        let mut pair = Vec::new();
        for i in self.numbers.clone() {
            pair.clear();
            let middle = self.source.write(i, &mut pair);
            take(&pair[..middle], &pair[middle..])?;
        }
        Ok(())
    }
}

/// The first `count` pairs of a file.
pub struct Filed<'p> {
    pub path: &'p Path,
    pub count: u64,
}

impl Pairs for Filed<'_> {
    fn each(&mut self, take: Take<'_>) -> Outcome {
        let mut file = PairsFile::open(self.path, self.count)?;
        while let Some((key, value)) = file.next()? {
            take(key, value)?;
        }
        Ok(())
    }
}

/// Pairs in memory, in the order of their keys.
#[derive(Default)]
pub struct Sorted {
    bytes: Vec<u8>,
    /// For each pair: the first 8 bytes of its key as a number, its offset, and its two lengths.
    order: Vec<(u64, u64, u32, u32)>,
}

impl Sorted {
    /// Reads and sorts all of `pairs`, which have `payload_bytes`.
    pub fn of(pairs: &mut dyn Pairs, count: u64, payload_bytes: u64) -> Outcome<Sorted> {
        let mut sorted = Sorted {
            bytes: Vec::with_capacity(payload_bytes.try_into()?),
            order: Vec::with_capacity(count.try_into()?),
        };
        pairs.each(&mut |key, value| {
            let mut first = [0; 8];
            let len = key.len().min(8);
            first[..len].copy_from_slice(&key[..len]);
            let place = (u64::from_be_bytes(first), sorted.bytes.len() as u64, key.len() as u32, value.len() as u32);
            sorted.order.push(place);
            sorted.bytes.extend_from_slice(key);
            sorted.bytes.extend_from_slice(value);
            Ok(())
        })?;
        let Sorted { bytes, order } = &mut sorted;
        let key = |at: &(u64, u64, u32, u32)| &bytes[at.1 as usize..at.1 as usize + at.2 as usize];
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a).cmp(key(b))));
        Ok(sorted)
    }
}

impl Pairs for Sorted {
    fn each(&mut self, take: Take<'_>) -> Outcome {
        for &(_, start, key_len, value_len) in &self.order {
            let (key, rest) = self.bytes[start as usize..].split_at(key_len as usize);
            take(key, &rest[..value_len as usize])?;
        }
        Ok(())
    }
}
