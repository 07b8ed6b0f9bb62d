//! Minimal perfect hash functions in Rust: PtrHash and PHast, over the 64-bit hashes of keys.
//!
//! A function is not a dictionary: it keeps no keys and no values and returns a rank for any key. It is measured in
//! memory, in the process that built it, including the XXH3 hash of a 12-byte key (2 ns).

use crate::engine::{Engine, Made, Maker, Making, Outcome, Pairs, Place, Reader};
use ph::phast::{Function, Function2};
use ptr_hash::{CompactPtrHash, DefaultPtrHash, PtrHashParams};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Settings: "default", 3.0 bits per key; "compact", 2.2.
pub struct PtrHash;
/// Settings: "default", 1.9 bits per key; "plus", PHast+, which is built faster.
pub struct Phast;

/// The function that this process built last.
static BUILT: Mutex<Option<Arc<Built>>> = Mutex::new(None);

/// A function, kept by [`keep`].
pub struct Built {
    rank: Box<dyn Fn(&[u8]) -> usize + Send + Sync>,
    keys: usize,
    bits_per_key: f64,
}

impl Built {
    /// Wraps a function over the hashes of keys.
    fn new(keys: usize, bytes: usize, rank: impl Fn(u64) -> usize + Send + Sync + 'static) -> Built {
        Built::of_keys(keys, bytes, move |key| rank(xxh3_64(key)))
    }

    /// Wraps a function over the keys themselves.
    pub fn of_keys(keys: usize, bytes: usize, rank: impl Fn(&[u8]) -> usize + Send + Sync + 'static) -> Built {
        Built { rank: Box::new(rank), keys, bits_per_key: bytes as f64 * 8.0 / keys.max(1) as f64 }
    }
}

/// Keeps the function for [`built`].
pub fn keep(function: Built) {
    *BUILT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(function));
}

/// Hashes the keys, builds a function over them and keeps it.
fn build(pairs: &mut dyn Pairs, function: impl FnOnce(Vec<u64>) -> Built) -> Outcome {
    let mut hashes = Vec::new();
    pairs.each(&mut |key, _| {
        hashes.push(xxh3_64(key));
        Ok(())
    })?;
    keep(function(hashes));
    Ok(())
}

/// Opens the function that was kept last.
pub fn built() -> Outcome<Box<dyn Made>> {
    let built = BUILT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Box::new(Open(built.ok_or("no function was built")?)))
}

impl Engine for PtrHash {
    fn name(&self) -> &str {
        "ptr-hash"
    }

    fn version(&self) -> String {
        "2.1".into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::Dictionary { vec!["default".into(), "compact".into()] } else { Vec::new() }
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }
}

impl Maker for PtrHash {
    fn is_function(&self, _: &str) -> bool {
        true
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        build(pairs, |hashes| {
            let keys = hashes.len();
            let bytes = |(pilots, remap): (f64, f64)| ((pilots + remap) * keys as f64 / 8.0) as usize;
            if making.setting == "compact" {
                let function = <CompactPtrHash>::new(&hashes, PtrHashParams::default_compact());
                Built::new(keys, bytes(function.bits_per_element()), move |hash| function.index(&hash))
            } else {
                let function = <DefaultPtrHash>::new(&hashes, PtrHashParams::default());
                Built::new(keys, bytes(function.bits_per_element()), move |hash| function.index(&hash))
            }
        })
    }

    fn open(&self, _: &Path, _: &str, _: bool) -> Outcome<Box<dyn Made>> {
        built()
    }
}

impl Engine for Phast {
    fn name(&self) -> &str {
        "phast"
    }

    fn version(&self) -> String {
        "ph 0.11".into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::Dictionary { vec!["default".into(), "plus".into()] } else { Vec::new() }
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }
}

impl Maker for Phast {
    fn is_function(&self, _: &str) -> bool {
        true
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        build(pairs, |hashes| {
            let keys = hashes.len();
            if making.setting == "plus" {
                let function = Function2::from_vec_mt(hashes);
                Built::new(keys, function.write_bytes(), move |hash| function.get(&hash))
            } else {
                let function = Function::from_vec_mt(hashes);
                Built::new(keys, function.write_bytes(), move |hash| function.get(&hash))
            }
        })
    }

    fn open(&self, _: &Path, _: &str, _: bool) -> Outcome<Box<dyn Made>> {
        built()
    }
}

struct Open(Arc<Built>);

impl Made for Open {
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(Looking { built: &self.0, rank: [0; 8] }))
    }

    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        Ok(vec![("pairs".into(), self.0.keys as f64), ("bits_per_key".into(), self.0.bits_per_key)])
    }
}

struct Looking<'b> {
    built: &'b Built,
    rank: [u8; 8],
}

impl Reader for Looking<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        self.rank = ((self.built.rank)(key) as u64).to_le_bytes();
        Ok(Some(&self.rank))
    }
}
