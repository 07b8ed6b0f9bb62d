//! What makes dictionaries has to offer to be measured: a [`Maker`] builds and opens them, a [`Made`] is one, read by any
//! number of threads through a [`Reader`] each.
//!
//! Beside stores (`engine.rs`) because nothing is put into a dictionary once it is there: all pairs are given at once, and
//! whoever takes longest to arrange them is told so. A minimal perfect hash function is one without keys and values: its
//! setting says `function`, and a get gives the rank.
//!
//! Not here: those that are measured (`engines/`), what is done with them (`loads/dictionaries/`).

use crate::engine::Outcome;
use std::path::Path;

/// How a dictionary is to be made.
pub struct Making<'a> {
    /// Its file, or the directory for its files.
    pub path: &'a Path,
    /// Words between commas.
    pub setting: &'a str,
    /// Pairs to come.
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "ours is never told"))]
    pub expected_len: u64,
    /// Bytes of all keys and values to come.
    pub payload_bytes: u64,
    /// Another seed, another hash function, where there is a choice.
    pub seed: u64,
}

/// Takes a pair.
pub type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Outcome;

/// All pairs of a dictionary, each given once.
pub trait Pairs {
    /// Gives every pair to `take`, in order.
    fn each(&mut self, take: Take<'_>) -> Outcome;
}

/// Builds and opens dictionaries.
pub trait Maker: Sync {
    /// Whether it wants its pairs in the order of their keys. They are sorted for it then, under the clock.
    fn wants_order(&self) -> bool {
        false
    }

    /// Whether what this setting makes is a function: it gives ranks, and any key one.
    fn is_function(&self, _setting: &str) -> bool {
        false
    }

    /// Whether what this setting makes can tell that a key is absent.
    fn knows_absent(&self, setting: &str) -> bool {
        !self.is_function(setting)
    }

    /// Whether [`update`](Self::update) is there.
    fn updates(&self) -> bool {
        false
    }

    /// Whether it can be opened both mapped and not.
    fn maps(&self) -> bool {
        false
    }

    /// Makes one of `pairs`; all of it is on the disk when this returns.
    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome;

    /// Makes one of that at `old` and of `pairs`; all of it is on the disk when this returns.
    fn update(&self, _old: &Path, _making: &Making<'_>, _pairs: &mut dyn Pairs) -> Outcome {
        Err("has no updates".into())
    }

    /// Opens the one at `path`.
    fn open(&self, path: &Path, setting: &str, map: bool) -> Outcome<Box<dyn Made>>;
}

/// An open dictionary.
pub trait Made: Sync {
    /// For the thread that asks.
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>>;

    /// What it is made of: names that end in their unit, and numbers. `bits_per_key` is that of its index in memory, where
    /// it has one.
    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        Ok(Vec::new())
    }
}

/// Looks up keys.
pub trait Reader {
    /// The value of `key`; of a function, its rank in 8 bytes, the lowest first.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>>;

    /// Whether `get_many` is more than a loop.
    fn has_batches(&self) -> bool {
        false
    }

    /// Gives the number of each key, in order, and its value to `take`.
    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        for (i, key) in keys.iter().enumerate() {
            take(i, self.get(key)?);
        }
        Ok(())
    }
}
