//! Tests of the key space, and what they share.

mod eviction;
mod fields;
mod files;
mod lifetimes;
mod segments;

use super::*;
use std::cell::Cell;
use std::path::Path;

thread_local! {
    /// The time that a test has set for this thread.
    pub(crate) static STOPPED_CLOCK: Cell<Option<u64>> = const { Cell::new(None) };
}

const START_MS: u64 = 1_800_000_000_000;

fn in_memory() -> KeySpace {
    KeySpace::open(SpaceOptions::default()).unwrap()
}

fn in_file(path: &Path) -> Result<KeySpace> {
    KeySpace::open(SpaceOptions { file: Some(path.to_owned()), logged: true, ..SpaceOptions::default() })
}

fn put(space: &KeySpace, key: &[u8], value: &[u8], attributes: Attributes) {
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.put(0, key, value, Lifetime::Are(attributes)).unwrap();
}

fn get(space: &KeySpace, key: &[u8]) -> Option<(Vec<u8>, Attributes)> {
    let mut found = None;
    let shared = space.share(Patience::MayWait).unwrap();
    shared
        .get_records(0, &[key], |_, record| found = record.map(|record| (record.value.to_vec(), record.attributes)))
        .unwrap();
    found
}

/// xorshift64, so that a failure can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A key space in memory, and one over a file.
pub(crate) fn collection_spaces() -> Vec<(KeySpace, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t")), ..SpaceOptions::default() };
    vec![(KeySpace::open(SpaceOptions::default()).unwrap(), None), (KeySpace::open(options).unwrap(), Some(folder))]
}

/// Pairs of a database that belong to no key.
pub(crate) fn hidden_pairs(space: &KeySpace) -> u64 {
    let segments = space.databases[0].segments.load_full().map_or(0, |table| table.len());
    segments + space.databases[0].hidden.load(Relaxed).saturating_sub(1)
}
