//! Splitpoint: key/value tables by linear hashing, in memory and in one file, and dictionaries far larger than memory.
//!
//! ```
//! use splitpoint::Table;
//!
//! let directory = tempfile::tempdir()?;
//! let table = Table::open(directory.path().join("users.spt"))?;
//! table.put(b"alice", b"admin")?;
//! table.append(b"log", b"first line\n")?;
//! assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
//! for pair in table.scan() {
//!     let (key, value) = pair?;
//!     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
//! }
//! table.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`hash`] | hash functions by name, and the user's own |
//! | [`linear`] | which bucket holds a hash, which bucket splits next: the paper's arithmetic |
//! | `table` | [`Table`]: get, put, append, remove, scan; [`Backup`], [`salvage()`] |
//! | [`dictionary`] | [`Dictionary`]: built once by [`DictionaryBuilder`], changed in batches |
//! | [`shards`] | dictionaries of several files, built by several processes |
//! | `freeze` | [`Table::freeze`], [`Dictionary::thaw`] |
//! | `buckets` | linear hashing over the pager: pages, overflow, splits, merges, scans |
//! | `pager` | frames, latches, space, write-ahead log, checkpoints; one file |
//! | `io` | the operating system |
//!
//! Items that are marked `doc(hidden)` are for the other packages of this repository, and may change at any time.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

#[cfg(doctest)]
#[doc = include_str!("../docs/guide.md")]
struct GuideExamples;

mod buckets;
mod checksum;
pub mod dictionary;
mod error;
mod events;
mod fault;
mod freeze;
pub mod hash;
mod heap;
mod io;
#[doc(hidden)] // the lab's and the C library's
pub mod linear;
mod little_endian;
mod own_line;
mod pager;
mod racing;
#[cfg(test)]
mod random;
mod salvage;
mod table;
mod varint;

/// Dictionaries in several files, one per shard: for several disks or machines, or processes that build at once.
///
/// [`DictionaryBuilder::shards`] builds one in one process, [`shards::ShardJob`] in several. A key has a
/// [`shards::slot`], as in a Redis cluster, and each shard has a range of slots.
pub mod shards {
    pub use crate::dictionary::shard_job::{ShardBase, ShardFile, ShardJob, ShardWriter};
    pub use crate::dictionary::shards::info::ShardInfo;
    pub use crate::dictionary::shards::slots::{SLOT_COUNT, slot};
}

pub use buckets::{KEY_LEN_MAX, Scan, TableSurvey, VALUE_LEN_MAX, ValueRef};
pub use dictionary::{Dictionary, DictionaryBuilder, DictionaryOptions};
pub use error::{Error, ErrorKind, Result};
pub use fault::Fault;
pub use hash::HashKind;
#[doc(hidden)] // the program's
pub use io::output::OutputFile;
pub use salvage::{SalvageReport, Salvaged, salvage};
#[cfg(feature = "serde")]
pub use table::Json;
pub use table::{
    Backup, Batch, Codec, Durability, Entry, Follower, Keys, PublishedCounters, Table, TableCounters, TableOptions,
    TypedPairs, TypedTable, Values, WriteView,
};
#[doc(hidden)] // the server's
pub use table::{KeyEdit, OldValue, TableUsage};
