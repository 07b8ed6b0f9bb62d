//! The lab: how hash functions and tables behave on keys that are given, not on keys that are random.
//!
//! | module | what is there |
//! |---|---|
//! | [`keys`] | keys in memory |
//! | [`machine`] | keys that every machine has: paths, inode numbers, block numbers, process numbers |
//! | [`tune`] | page size, fill factor, cache and hash function for given pairs |
//!
//! A crate of its own, above the library's public API: who stores pairs need not build it.
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior: Analysis and Improvements" (CITI 2000).

pub mod keys;
pub mod machine;
pub mod tune;
