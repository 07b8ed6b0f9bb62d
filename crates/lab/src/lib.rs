//! The lab: how hash functions and tables behave on the user's own keys.
//!
//! | module | contents |
//! |---|---|
//! | [`kernel`] | the hash tables of Linux 2.2.5, replayed |
//! | [`keys`] | keys in memory |
//! | [`machine`] | keys from the local machine: paths, inode numbers, block numbers, process numbers |
//! | [`schemes`] | dbm, gdbm, hsearch and others as small models, measured as keys are inserted |
//! | [`random`] | a seeded random number generator |
//! | [`study`] | hash functions compared on keys: buckets, probes, avalanche, speed |
//! | [`tune`] | page size, fill factor, cache and hash function for given pairs |
//!
//! This is a separate crate on top of the library's public API, so programs that only store pairs need not build it.
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior: Analysis and Improvements" (CITI 2000).

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails

pub mod kernel;
pub mod keys;
pub mod machine;
pub mod random;
pub mod schemes;
pub mod study;
pub mod tune;
