//! The operations of a workload. Seed, thread and number determine each one, so the process that checks a table after a
//! crash can recompute it.
//!
//! Each thread has its own keys. All threads also append to [`SHARED_KEY`], eight bytes at a time: thread and number.

use fastrand::Rng;
use std::collections::BTreeMap;

/// The pairs of a table.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The key to which every thread appends.
pub const SHARED_KEY: &[u8] = b"shared";
pub const SHARED_BYTES: usize = 8;
const KEYS_A_THREAD: u32 = 10;

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

impl Change {
    pub fn apply(&self, pairs: &mut Pairs) {
        match self {
            Change::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
            Change::Append(key, tail) => pairs.entry(key.clone()).or_default().extend_from_slice(tail),
            Change::Remove(key) => drop(pairs.remove(key)),
        }
    }
}

/// Returns the changes of operation `number` of `thread`; several changes form one batch.
pub fn operation(seed: u64, thread: usize, number: usize) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9) ^ ((thread as u64) << 40) ^ number as u64);
    let count = if rng.u32(..5) == 0 { rng.usize(2..6) } else { 1 };
    let mut changes: Vec<Change> = (0..count).map(|_| change(&mut rng, thread, number)).collect();
    if rng.u32(..4) == 0 {
        changes.push(Change::Append(SHARED_KEY.to_vec(), shared_entry(thread, number).to_vec()));
    }
    changes
}

fn change(rng: &mut Rng, thread: usize, number: usize) -> Change {
    let key = format!("{thread}-{}", rng.u32(..KEYS_A_THREAD)).into_bytes();
    // Lengths at which the layout of a value changes: a page, the size that a call writes through, a frame, a piece of
    // the log, an extent that grows.
    const LIMITS: [usize; 7] = [256, 512, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 128 << 10];
    let len = match rng.u32(..64) {
        0 => rng.usize(256 << 10..1 << 20),
        1..17 => LIMITS[rng.usize(..LIMITS.len())] - 64 + rng.usize(..128),
        17..21 => rng.usize(4000..30_000),
        21..32 => rng.usize(300..2000),
        _ => rng.usize(..200),
    };
    match rng.u32(..10) {
        0..6 => Change::Put(key, value(rng, thread, number, len)),
        6..9 => Change::Append(key, value(rng, thread, number, len / 2)),
        _ => Change::Remove(key),
    }
}

/// Returns a value that no other operation writes.
fn value(rng: &mut Rng, thread: usize, number: usize, len: usize) -> Vec<u8> {
    let mut bytes = shared_entry(thread, number).to_vec();
    bytes.resize(bytes.len() + len, 0);
    rng.fill(&mut bytes[SHARED_BYTES..]);
    bytes
}

fn shared_entry(thread: usize, number: usize) -> [u8; SHARED_BYTES] {
    ((thread as u64) << 32 | number as u64).to_le_bytes()
}

/// Returns the numbers of each thread's operations that appended to [`SHARED_KEY`], in the order found; an error for
/// bytes that no thread appended.
pub fn shared_numbers(value: &[u8], threads: usize) -> Result<Vec<Vec<usize>>, String> {
    let mut numbers = vec![Vec::new(); threads];
    let (entries, rest) = value.as_chunks::<SHARED_BYTES>();
    for entry in entries {
        let entry = u64::from_le_bytes(*entry);
        let of_thread = numbers.get_mut((entry >> 32) as usize);
        of_thread.ok_or_else(|| format!("the shared value has the entry {entry:#x}"))?.push(entry as u32 as usize);
    }
    if rest.is_empty() { Ok(numbers) } else { Err(format!("the shared value has {} bytes", value.len())) }
}

/// Returns the changes from the previous version of a dictionary to `version`; before version 0 it is empty.
pub fn dictionary_changes(seed: u64, version: usize) -> Vec<Change> {
    let mut rng = Rng::with_seed(seed ^ 0xd1c7 ^ ((version as u64) << 32));
    let count = if version == 0 { 300 } else { 40 };
    let mut changes = Vec::new();
    for _ in 0..count {
        let key = format!("word-{}", rng.u32(..600)).into_bytes();
        if version > 0 && rng.u32(..4) == 0 {
            changes.push(Change::Remove(key));
        } else {
            let len = rng.usize(..150);
            changes.push(Change::Put(key, value(&mut rng, 99, version, len)));
        }
    }
    changes
}

pub fn dictionary_pairs(seed: u64, version: usize) -> Pairs {
    let mut pairs = Pairs::new();
    (0..=version).flat_map(|v| dictionary_changes(seed, v)).for_each(|change| change.apply(&mut pairs));
    pairs
}
