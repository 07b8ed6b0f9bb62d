//! What a store has to offer to be measured: an [`Engine`] makes stores, a [`Store`] is one.
//!
//! The workloads know these two traits and nothing else, so that every store does the same under the same clock. A store is
//! used by one thread. A call through a trait costs 2 ns; the stores take 50 and more.
//!
//! Settings are words between commas, some with a number: `sized,page=1024,fill=8,cache=1048576`. Each engine says which
//! it takes; `default` is what its makers chose.
//!
//! Not here: the stores (`engines/`), what is done with them (`loads/`).

use crate::maker::Maker;
use std::error::Error;
use std::path::Path;

/// What a step of a measurement gives: nothing, or why it failed.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Where a store keeps its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// In a file, or a directory of files.
    File,
    /// In memory alone.
    Memory,
    /// In a file, or a directory of files, that is written once from all of them.
    Dictionary,
}

/// How a store is to be made or opened.
pub struct Opening<'a> {
    /// Its file, or the directory for its files; in memory where there is none.
    pub path: Option<&'a Path>,
    /// Words between commas.
    pub setting: &'a str,
    /// Pairs to come, for settings that are told the size.
    pub expected_len: u64,
    /// Bytes of all keys and values to come, for caches and maps at the best settings.
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "ours is never told"))]
    pub payload_bytes: u64,
    /// A new store, else the one that is there.
    pub create: bool,
}

impl Opening<'_> {
    /// The setting in pieces: each word and, where it has one, its number.
    pub fn words(&self) -> impl Iterator<Item = Outcome<(&str, Option<u64>)>> {
        self.setting.split(',').map(|word| match word.split_once('=') {
            None => Ok((word, None)),
            Some((name, number)) => match number.parse() {
                Ok(number) => Ok((name, Some(number))),
                Err(_) => Err(format!("setting {word}: {number:?} is no number").into()),
            },
        })
    }

    /// Why a word of the setting is refused.
    pub fn unknown(engine: &str, word: &str) -> Box<dyn Error> {
        format!("{engine} has no setting {word}; `splitpoint-bench list` tells those it has").into()
    }
}

/// A kind of store.
pub trait Engine: Sync {
    /// Its name in results: lower case, no spaces.
    fn name(&self) -> &str;

    /// The version that is measured.
    fn version(&self) -> String;

    /// The settings that it is to be measured with at this place; none: it cannot.
    fn settings(&self, place: Place) -> Vec<String>;

    /// Whether it knows this setting there, be it one of those or not.
    fn takes(&self, place: Place, setting: &str) -> bool {
        self.settings(place).iter().any(|own| own == setting)
    }

    /// Makes or opens a store; of what makes dictionaries alone, none.
    fn open(&self, _: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Err(format!("{} makes dictionaries alone", self.name()).into())
    }

    /// Keeps nothing: what it takes is the harness's own time.
    fn is_baseline(&self) -> bool {
        false
    }

    /// Whether its pairs can be walked over. Else what it holds is known by its gets alone.
    fn scans(&self) -> bool {
        true
    }

    /// How it makes dictionaries, where it does.
    fn maker(&self) -> Option<&dyn Maker> {
        None
    }

    /// Not among all engines: a workload names it, as it can do some alone or is no store.
    fn is_special(&self) -> bool {
        self.is_baseline()
    }
}

/// What is told of each pair of a scan: the key, and the value if it was asked for.
pub type Each<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store.
pub trait Store {
    /// Stores `value` under `key`, whatever was there.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome;

    /// Adds `tail` to the value of `key`; a key that is absent gets it as its value.
    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome;

    /// The value of `key`.
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>>;

    /// Takes `key` out; whether it was there.
    fn remove(&mut self, key: &[u8]) -> Outcome<bool>;

    /// Gives every pair to `each`, in whatever order.
    fn scan(&mut self, with_values: bool, each: Each<'_>) -> Outcome;

    /// Makes earlier puts, appends and removals visible, where they were held back.
    fn end_of_puts(&mut self) -> Outcome {
        Ok(())
    }

    /// Everything is on the disk when it returns. Each store says how: one that forgets would be measured as fast.
    fn sync(&mut self) -> Outcome;

    /// Ends the use of the store. What it is to keep is in the file, if not on the disk.
    fn close(self: Box<Self>) -> Outcome {
        Ok(())
    }

    /// Whether `get_many` and `append_many` are more than loops.
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

    /// Appends each tail to the value of its key, in order.
    fn append_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Outcome {
        pairs.iter().try_for_each(|(key, tail)| self.append(key, tail))
    }
}
