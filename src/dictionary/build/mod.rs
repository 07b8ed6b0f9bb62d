//! Builds one dictionary file from pairs in any order.
//!
//! ```text
//! plan.rs     what every step is given: options, limits, and this file's share of memory and threads
//! duplicates.rs  which of several values of a key counts
//! memory.rs   how a file's memory is divided among the steps
//! new_file.rs one file, from its intake to its name
//! intake.rs   pairs in any order -> sorters.rs, by a thread of its own if there are several -> sort/, one a file
//! sort/       pairs in any order -> runs in hash order
//! merge.rs    those and the records of an older file -> runs
//! writer.rs   runs -> (reorder.rs) -> data.rs -> page_writer.rs, and filter_writer.rs; then index, footer, name
//! ```
//!
//! Each uses those below it in this list; all of them are given the [`Plan`](plan::Plan).
//! Not here: several files as one dictionary (`shards/`).

pub(crate) mod data;
pub(crate) mod duplicates;
pub(crate) mod far;
pub(crate) mod filter_writer;
pub(crate) mod intake;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod new_file;
pub(crate) mod numbers;
pub(crate) mod page_writer;
pub(crate) mod parallel;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod reorder;
pub(crate) mod sort;
pub(crate) mod sorters;
pub(crate) mod writer;
