//! The interfaces of a measured engine. An [`Engine`] opens a [`Store`]. Its [`Maker`], if it has one, builds and opens
//! dictionaries: a [`Made`] is an open one, which any number of threads read through a [`Reader`] each.
//!
//! The workloads know only these traits, so that every engine does the same work under the same clock. One thread uses
//! a store. A call through a trait costs 2 ns; the stores take 50 and more.
//!
//! Dictionaries are separate from stores because an existing one accepts no puts: it is given all pairs together, and
//! the build time includes arranging them. A minimal perfect hash function is a dictionary without keys and values: its
//! setting contains `function`, and a get returns the rank.
//!
//! Settings are comma-separated words, some with a number: `sized,page=1024,fill=8,cache=1048576`. Each engine lists
//! those it takes; `default` is the engine's own choice.
//!
//! Not here: the measured engines (`engines/`), the workloads (`loads/`).

use std::error::Error;
use std::path::Path;

/// Result of a step of a measurement.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The location of a store's pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In a file, or a directory of files.
    File,
    /// Only in memory.
    Memory,
    /// In a file, or a directory of files, that is written once from all of them.
    Dictionary,
}

/// Options to create or open a store.
pub struct Opening<'a> {
    /// Its file, or the directory for its files; `None` in memory.
    pub path: Option<&'a Path>,
    /// Comma-separated words.
    pub setting: &'a str,
    /// Pairs to come, for settings that take the pair count in advance.
    pub expected_len: u64,
    /// Bytes of all keys and values to come, for caches and maps at the best settings.
    pub payload_bytes: u64,
    /// Create a new store, or open the existing one.
    pub create: bool,
}

impl Opening<'_> {
    /// Returns the words of the setting, each with its number if it has one.
    pub fn words(&self) -> impl Iterator<Item = Outcome<(&str, Option<u64>)>> {
        self.setting.split(',').map(|word| match word.split_once('=') {
            None => Ok((word, None)),
            Some((name, number)) => match number.parse() {
                Ok(number) => Ok((name, Some(number))),
                Err(_) => Err(format!("setting {word}: {number:?} is not a number").into()),
            },
        })
    }

    /// The error for an unknown word of the setting.
    pub fn unknown(engine: &str, word: &str) -> Box<dyn Error> {
        format!("{engine} has no setting {word}; `splitpoint-bench list` shows those it has").into()
    }
}

/// A kind of store.
pub trait Engine: Sync {
    /// Returns its name in results: lower case, no spaces.
    fn name(&self) -> &str;

    /// Returns the measured version.
    fn version(&self) -> String;

    /// Returns the settings to measure at this location; empty if it cannot be there.
    fn settings(&self, place: Place) -> Vec<String>;

    /// Whether it accepts this setting at this location, listed or not.
    fn takes(&self, place: Place, setting: &str) -> bool {
        self.settings(place).iter().any(|own| own == setting)
    }

    /// Creates or opens a store; an error for engines that only make dictionaries.
    fn open(&self, _: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Err(format!("{} only makes dictionaries", self.name()).into())
    }

    /// Whether it stores nothing, so that it measures the harness itself.
    fn is_baseline(&self) -> bool {
        false
    }

    /// Whether its pairs can be scanned. Otherwise only gets check what it holds.
    fn scans(&self) -> bool {
        true
    }

    /// Returns its dictionary builder, if it has one.
    fn maker(&self) -> Option<&dyn Maker> {
        None
    }

    /// Whether workloads must name it: it supports only some of them, or is not a store.
    fn is_special(&self) -> bool {
        self.is_baseline()
    }
}

/// Receives each pair of a scan: the key, and the value if it was requested.
pub type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store.
pub trait Store {
    /// Stores `value` under `key`, replacing an earlier value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome;

    /// Appends `tail` to the value of `key`; an absent key gets it as its value.
    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome;

    /// Returns the value of `key`.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>>;

    /// Removes `key`; returns whether it was present.
    fn remove(&mut self, key: &[u8]) -> Outcome<bool>;

    /// Passes every pair to `each`, in any order.
    fn scan(&mut self, with_values: bool, each: Each<'_>) -> Outcome;

    /// Makes earlier puts, appends and removals visible if they were buffered.
    fn end_of_puts(&mut self) -> Outcome {
        Ok(())
    }

    /// Syncs everything to the disk. No default: a store that forgot it would look fast.
    fn sync(&mut self) -> Outcome;

    /// Closes the store. Its data is in the file, though not necessarily on the disk.
    fn close(self: Box<Self>) -> Outcome {
        Ok(())
    }

    /// Whether `get_many` and `append_many` are more than loops.
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

    /// Appends each tail to the value of its key, in order.
    fn append_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Outcome {
        pairs.iter().try_for_each(|(key, tail)| self.append(key, tail))
    }
}

/// Options to build a dictionary.
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

    /// Builds one from the dictionary at `old` and from `pairs`, and syncs it.
    fn update(&self, _old: &Path, _making: &Making<'_>, _pairs: &mut dyn Pairs) -> Outcome {
        Err("has no updates".into())
    }

    /// Opens the one at `path`.
    fn open(&self, path: &Path, setting: &str, map: bool) -> Outcome<Box<dyn Made>>;
}

/// An open dictionary.
pub trait Made: Sync {
    /// Returns a reader for the calling thread.
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>>;

    /// Returns its properties: numbers, with names that end in their unit. `bits_per_key` describes its index in
    /// memory, if it has one.
    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        Ok(Vec::new())
    }
}

/// Looks up keys.
pub trait Reader {
    /// Returns the value of `key`; of a function, its rank in 8 little-endian bytes.
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
