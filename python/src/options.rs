//! Options by name, as Python passes them.

use crate::error::{invalid, wrong_type};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use splitpoint::HashKind;
use splitpoint::dictionary::{Compression, Duplicates, Effort, Index};
use splitpoint::{DictionaryBuilder, Durability, TableOptions};

/// One of `known`, or a `ValueError` that lists them.
fn one_of<T: Copy>(option: &str, name: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        invalid(format!("{option} is {name:?}, expected {}", names.join(", ")))
    })
}

pub fn hash_kind(name: &str) -> PyResult<HashKind> {
    let known: Vec<_> = HashKind::ALL.iter().map(|kind| (kind.name(), *kind)).collect();
    one_of("hash", name, &known)
}

/// The option `name` from the dictionary that Python passes; `None` means that it was left out.
fn option<'py, T: FromPyObjectOwned<'py>>(
    given: &Bound<'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<Option<T>> {
    let value = given.get_item(name)?;
    if value.is_none() {
        return Ok(None);
    }
    value.extract::<T>().map(Some).map_err(|error| {
        let error: PyErr = error.into();
        let message = format!("{name} is {}, expected {expected}", shown(&value));
        match error.is_instance_of::<PyTypeError>(given.py()) {
            true => wrong_type(message),
            false => invalid(message), // a number out of range, a text that is no text
        }
    })
}

/// The value as Python shows it, shortened.
fn shown(value: &Bound<'_, PyAny>) -> String {
    const CHARACTERS: usize = 64;
    let text = value.repr().map_or_else(|_| "of this type".to_owned(), |text| text.to_string());
    text.chars().take(CHARACTERS).collect()
}

/// Describes the valid values of an option of this type.
trait Expected {
    const EXPECTED: &'static str;
}

macro_rules! expected {
    ($($kind:ty: $text:literal),* $(,)?) => {
        $(impl Expected for $kind {
            const EXPECTED: &'static str = $text;
        })*
    };
}

expected!(
    u32: "a number from 0 to 2**32 - 1",
    u64: "a number from 0 to 2**64 - 1",
    usize: "a number from 0 to 2**64 - 1",
    bool: "True or False",
    String: "a text",
    std::path::PathBuf: "a path",
);

/// Defines a struct of options that are read one by one, so that an error names the option.
macro_rules! options {
    ($(#[$about:meta])* pub struct $name:ident { $($option:ident: Option<$kind:ty>,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($option: Option<$kind>,)*
        }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                Ok($name { $($option: option(&given, stringify!($option), <$kind as Expected>::EXPECTED)?,)* })
            }
        }
    };
}

options! {
/// The options of a table; those that Python leaves out keep their defaults.
pub struct Options {
    page_bytes: Option<u32>,
    fill_factor: Option<u32>,
    fill_percent: Option<u32>,
    expected_len: Option<u64>,
    cache_bytes: Option<u64>,
    hash: Option<String>,
    seed: Option<u64>,
    durability: Option<String>,
    log_bytes: Option<u64>,
    publish_counters: Option<bool>,
    checkpoint_only: Option<bool>,
}
}

/// Calls `set` with the value, if there is one.
fn with<B, V>(builder: B, value: Option<V>, set: impl FnOnce(B, V) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

pub fn durability_named(name: &str) -> PyResult<Durability> {
    one_of("durability", name, &[("none", Durability::None), ("os", Durability::Os), ("sync", Durability::Sync)])
}

impl Options {
    pub fn table_options(&self) -> PyResult<TableOptions> {
        let hash = self.hash.as_deref().map(hash_kind).transpose()?;
        let durability = self.durability.as_deref().map(durability_named);
        let options = with(TableOptions::new(), self.page_bytes, TableOptions::page_bytes);
        let options = with(options, self.fill_factor, TableOptions::fill_factor);
        let options = with(options, self.fill_percent, TableOptions::fill_percent);
        let options = with(options, self.expected_len, TableOptions::expected_len);
        let options = with(options, self.cache_bytes, TableOptions::cache_bytes);
        let options = with(options, hash, TableOptions::hash);
        let options = with(options, self.seed, TableOptions::seed);
        let options = with(options, durability.transpose()?, TableOptions::durability);
        let options = with(options, self.log_bytes, TableOptions::log_bytes);
        let options = with(options, self.publish_counters, TableOptions::publish_counters);
        Ok(with(options, self.checkpoint_only, TableOptions::checkpoint_only))
    }
}

options! {
/// The options of a build; those that Python leaves out keep their defaults.
pub struct BuildOptions {
    index: Option<String>,
    bucket_keys: Option<u32>,
    huffman_max: Option<u32>,
    skip_min: Option<u32>,
    block_items: Option<u32>,
    bins_per_page: Option<u32>,
    effort: Option<String>,
    page_bytes: Option<u32>,
    compression: Option<String>,
    block_bytes: Option<u32>,
    hash: Option<String>,
    seed: Option<u64>,
    memory_bytes: Option<u64>,
    threads: Option<usize>,
    duplicates: Option<String>,
    temporary_directory: Option<std::path::PathBuf>,
    shards: Option<u32>,
    filter: Option<u32>,
}
}

impl BuildOptions {
    pub fn builder(&self) -> PyResult<DictionaryBuilder> {
        let compression = self
            .compression
            .as_deref()
            .map(|name| one_of("compression", name, &[("none", Compression::None), ("lz4", Compression::Lz4)]));
        let duplicates = self.duplicates.as_deref().map(|name| {
            let known = [("error", Duplicates::Error), ("first", Duplicates::First), ("last", Duplicates::Last)];
            one_of("duplicates", name, &known)
        });
        let hash = self.hash.as_deref().map(hash_kind).transpose()?.unwrap_or(HashKind::DEFAULT);
        let builder = DictionaryBuilder::new().hash(hash).seed(self.seed.unwrap_or(0)).index(self.index()?);
        let builder = with(builder, self.page_bytes, DictionaryBuilder::page_bytes);
        let builder = with(builder, compression.transpose()?, DictionaryBuilder::compression);
        let builder = with(builder, self.block_bytes, DictionaryBuilder::block_bytes);
        let builder = with(builder, self.memory_bytes, DictionaryBuilder::memory_bytes);
        let builder = with(builder, self.threads, DictionaryBuilder::threads);
        let builder = with(builder, duplicates.transpose()?, DictionaryBuilder::duplicates);
        let builder = with(builder, self.temporary_directory.clone(), DictionaryBuilder::temporary_directory);
        let builder = with(builder, self.filter, DictionaryBuilder::filter);
        Ok(with(builder, self.shards, DictionaryBuilder::shards))
    }

    /// Memory for sorting.
    pub fn memory_bytes(&self) -> u64 {
        const DEFAULT: u64 = 1 << 30;
        self.memory_bytes.unwrap_or(DEFAULT)
    }

    /// Whether the filter option was given, even as no filter.
    pub fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Whether an index was chosen.
    pub fn has_index(&self) -> bool {
        self.index.is_some() || !self.index_options().is_empty()
    }

    fn index(&self) -> PyResult<Index> {
        const SPARSE_BLOCK_ITEMS: u32 = 16;
        let name = self.index.as_deref().unwrap_or("page");
        let known = [
            ("page", Index::page()),
            ("trie", Index::trie()),
            ("trie-sparse", Index::trie_sparse(SPARSE_BLOCK_ITEMS)),
            ("chunk", Index::chunk()),
            ("none", Index::None),
        ];
        let mut index = one_of("index", name, &known)?;
        let mut given = Given { name, rest: self.index_options() };
        match &mut index {
            Index::Page { bins_per_page } => given.set("bins_per_page", self.bins_per_page, bins_per_page),
            Index::Trie { bucket_keys, huffman_max, skip_min, block_items } => {
                given.set("bucket_keys", self.bucket_keys, bucket_keys);
                given.set("huffman_max", self.huffman_max, huffman_max);
                given.set("skip_min", self.skip_min, skip_min);
                given.set("block_items", self.block_items, block_items);
            }
            Index::Chunk { effort } => {
                let known = [("fast", Effort::Fast), ("balanced", Effort::Balanced), ("small", Effort::Small)];
                let chosen = self.effort.as_deref().map(|name| one_of("effort", name, &known)).transpose()?;
                given.set("effort", chosen, effort);
            }
            _ => {}
        }
        given.none_left().map(|()| index)
    }

    /// The options of an index that were given.
    fn index_options(&self) -> Vec<&'static str> {
        let numbers = [
            ("bucket_keys", self.bucket_keys),
            ("huffman_max", self.huffman_max),
            ("skip_min", self.skip_min),
            ("block_items", self.block_items),
            ("bins_per_page", self.bins_per_page),
        ];
        let numbers = numbers.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name);
        numbers.chain(self.effort.as_ref().map(|_| "effort")).collect()
    }
}

/// Index options that were given and are not used yet by the chosen index.
struct Given<'a> {
    name: &'a str,
    rest: Vec<&'static str>,
}

impl Given<'_> {
    fn set<T>(&mut self, name: &str, value: Option<T>, option: &mut T) {
        if let Some(value) = value {
            *option = value;
        }
        self.rest.retain(|rest| *rest != name);
    }

    fn none_left(&self) -> PyResult<()> {
        let refuse = |rest| Err(invalid(format!("{rest} is not an option of the index {:?}", self.name)));
        self.rest.first().map_or(Ok(()), refuse)
    }
}
