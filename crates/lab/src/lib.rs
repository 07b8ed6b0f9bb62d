//! The lab: how hash functions and tables behave on keys that are given, not on keys that are random.
//!
//! | module | what is there |
//! |---|---|
//! | [`kernel`] | the hash tables of Linux 2.2.5, replayed |
//! | [`keys`] | keys in memory |
//! | [`machine`] | keys that every machine has: paths, inode numbers, block numbers, process numbers |
//! | [`schemes`] | dbm, gdbm, hsearch and others as small models, measured over the number of keys |
//! | [`random`] | numbers that repeat for a seed |
//! | [`study`] | hash functions on keys: buckets, probes, avalanche, speed |
//! | [`tune`] | page size, fill factor, cache and hash function for given pairs |
//!
//! A crate of its own, above the library's public API: who stores pairs need not build it.
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior: Analysis and Improvements" (CITI 2000).

pub mod kernel;
pub mod keys;
pub mod machine;
pub mod random;
pub mod schemes;
pub mod study;
pub mod tune;
