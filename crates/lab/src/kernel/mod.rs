//! The hash tables of Linux 2.2.5 in user space, under a load made from your own files: Lever's study repeated.
//!
//! | module | contents |
//! |---|---|
//! | [`functions`] | the hash functions: 2.2.5's, the paper's, today's |
//! | [`words`] | hash functions of one word, with constants of the user's choice |
//! | [`memory`] | simulated addresses of kernel objects |
//! | [`disk`] | block and inode numbers of a simulated ext2 disk |
//! | [`trace`] | file system events, and their text format |
//! | [`load`] | a synthetic development load over a real directory tree, as a trace |
//! | [`processes`] | a synthetic load of processes, users, memory areas and swap |
//! | [`strace`] | converts strace output to a trace |
//! | [`caches`] | the four caches: turns a trace into the operations on each hash table |
//! | [`table`] | the hash tables, and the replay of operations |
//! | [`trees`] | red-black trees of pages instead of a hash table |
//! | [`lists`] | one ordered list for each owner, as 2.2.5 has for memory areas |
//! | [`study`] | timed replays, and the figures of each kernel |
//! | [`figures`] | the paper's tables and histograms: its kernels and their figures; tables beyond the paper |
//! | [`verdict`] | whether a table has the paper's order |
//!
//! Data flow: tree or file -> [`trace::Trace`] -> [`caches::resolve`] -> [`table::replay`] -> [`study::measure`].
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior: Analysis and Improvements" (CITI 2000). Differences and reasons:
//! docs/architecture.md, "Lab".

pub mod caches;
pub mod disk;
pub mod figures;
pub mod functions;
pub mod lists;
pub mod load;
pub mod memory;
pub mod processes;
pub mod strace;
pub mod study;
pub mod table;
pub mod trace;
pub mod trees;
pub mod verdict;
pub mod words;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

/// Called regularly by long operations; `Break` cancels them.
pub type Proceed<'a> = &'a dyn Fn() -> ControlFlow<()>;

/// Cancelled by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;
