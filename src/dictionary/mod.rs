//! Dictionaries: many more pairs than fit in memory, found with one read each, changed in batches.
//!
//! ```text
//! build(pairs)   source -> hash -> sort (build/sort) -> pages, index, footer -> rename (build/writer.rs)
//! get(key)       hash -> index (pages or rank) -> one read -> compare key -> value (read/lookup.rs)
//! update         old records + sorted batch -> merge in hash order (build/merge.rs) -> as a build
//! ```
//!
//! The files; each uses only those below it:
//!
//! ```text
//! update.rs, shard_job.rs, scan.rs, diff.rs, stat.rs, verify/     builder.rs, handle.rs     what users hold
//! target.rs  one file or several shards
//! shards/    several files as one dictionary
//! build/     one file from pairs      read/    one file, open
//! index/     locates the record of a hash
//! run.rs     records in memory        format/  the bytes of a file
//! ```
//!
//! A dictionary is one file (`.spd`), written once, or a directory of such files with a manifest. Pairs are in hash
//! order, the order of the reversed hashes, in which a [`Table`](crate::Table) is scanned too. Full keys are stored and
//! compared, so an absent key is never found.
//!
//! Source: Lim, Andersen & Kaminsky 2013, Practical Batch-Updatable External Hashing with Sorting. Differences and
//! their reasons: docs/architecture.md, "Dictionaries". The format: docs/dictionary-format.md.

mod build;
mod builder;
mod diff;
mod format;
mod handle;
mod index;
mod read;
mod run;
mod scan;
pub(crate) mod shard_job;
pub(crate) mod shards;
mod stat;
mod target;
#[cfg(test)]
mod tests;
mod update;
mod verify;

pub use build::duplicates::Duplicates;
pub use build::progress::Progress;
pub use builder::{Build, DictionaryBuilder};
pub use diff::{Change, Diff};
pub use format::layout::Compression;
pub use handle::{Dictionary, DictionaryOptions, Pairs};
pub use index::{Effort, Index};
pub use stat::DictionaryStat;
pub use update::Update;
pub use verify::VerifyProgress;
