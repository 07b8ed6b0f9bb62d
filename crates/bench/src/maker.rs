//! The interface of a measured dictionary: a [`Maker`] builds and opens dictionaries, a [`Made`] is an open one, read
//! by any number of threads through a [`Reader`] each.
//!
//! Separate from stores (`engine.rs`) because nothing is put into an existing dictionary: all pairs are given at once,
//! and the build time includes arranging them. A minimal perfect hash function is a dictionary without keys and
//! values: its setting contains `function`, and a get returns the rank.
//!
//! Not here: the measured engines (`engines/`), the workloads (`loads/dictionaries/`).

use crate::engine::Outcome;
use std::path::Path;

/// How to build a dictionary.
pub struct Making<'a> {
    /// Its file, or the directory for its files.
    pub path: &'a Path,
    /// Comma-separated words.
    pub setting: &'a str,
    /// Pairs to come.
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "only peers take it"))]
    pub expected_len: u64,
    /// Bytes of all keys and values to come.
    pub payload_bytes: u64,
    /// Seed of the hash function, if there is a choice.
    pub seed: u64,
}

/// Receives a pair.
pub type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Outcome;

/// All pairs of a dictionary, each passed once.
pub trait Pairs {
    /// Passes every pair to `take`, in order.
    fn each(&mut self, take: Take<'_>) -> Outcome;
}

/// Builds and opens dictionaries.
pub trait Maker: Sync {
    /// Whether it needs its pairs in key order. They are then sorted first, under the clock.
    fn wants_order(&self) -> bool {
        false
    }

    /// Whether this setting makes a function, which returns a rank for any key.
    fn is_function(&self, _setting: &str) -> bool {
        false
    }

    /// Whether dictionaries of this setting detect absent keys.
    fn knows_absent(&self, setting: &str) -> bool {
        !self.is_function(setting)
    }

    /// Whether [`update`](Self::update) is implemented.
    fn updates(&self) -> bool {
        false
    }

    /// Whether it can be opened both mapped and unmapped.
    fn maps(&self) -> bool {
        false
    }

    /// Builds one from `pairs` and syncs it.
    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome;

    /// Builds one from that at `old` and from `pairs`, and syncs it.
    fn update(&self, _old: &Path, _making: &Making<'_>, _pairs: &mut dyn Pairs) -> Outcome {
        Err("has no updates".into())
    }

    /// Opens the one at `path`.
    fn open(&self, path: &Path, setting: &str, map: bool) -> Outcome<Box<dyn Made>>;
}

/// An open dictionary.
pub trait Made: Sync {
    /// A reader for the calling thread.
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>>;

    /// Its properties: names that end in their unit, and numbers. `bits_per_key` is that of its index in memory, if it
    /// has one.
    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        Ok(Vec::new())
    }
}

/// Looks up keys.
pub trait Reader {
    /// The value of `key`; of a function, its rank in 8 little-endian bytes.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>>;

    /// Whether `get_many` is more than a loop.
    fn has_batches(&self) -> bool {
        false
    }

    /// Passes the index of each key, in order, and its value to `take`.
    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        for (i, key) in keys.iter().enumerate() {
            take(i, self.get(key)?);
        }
        Ok(())
    }
}
