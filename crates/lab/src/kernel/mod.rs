//! The hash tables of Linux 2.2.5, in user space, under a load of your own files: Lever's study done again.
//!
//! | module | what is there |
//! |---|---|
//! | [`functions`] | the hash functions: 2.2.5's, the paper's, today's |
//! | [`memory`] | addresses of objects that would be in the kernel |
//! | [`disk`] | where blocks and inodes lie on an ext2 disk |
//! | [`trace`] | what processes did: events, and their text |
//! | [`load`] | a made-up development load over a real tree, as a trace |
//! | [`strace`] | output of strace as a trace |
//! | [`caches`] | the four caches: a trace in, what each table is asked out |
//! | [`table`] | the tables, and a replay of what they are asked |
//! | [`trees`] | red-black trees of pages in place of a table |
//! | [`study`] | replays by the clock, and what they say of a kernel |
//! | [`figures`] | the paper's tables and histograms: its kernels and its figures |
//!
//! The walk: tree or file -> [`trace::Trace`] -> [`caches::resolve`] -> [`table::replay`] -> [`study::measure`].
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior: Analysis and Improvements" (CITI 2000). What differs, and why:
//! docs/architecture.md, "Lab".

pub mod caches;
pub mod disk;
pub mod figures;
pub mod functions;
pub mod load;
pub mod memory;
pub mod strace;
pub mod study;
pub mod table;
pub mod trace;
pub mod trees;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

/// Asked now and then by whatever takes long.
pub type Proceed<'a> = &'a dyn Fn() -> ControlFlow<()>;

/// The caller asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;
