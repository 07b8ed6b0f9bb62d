//! Dictionaries: far more pairs than memory, found with about one read each, changed in batches.
#![allow(dead_code, reason = "being built")]

mod block;
mod format;
pub(crate) mod index;
mod pages;
mod record;
pub(crate) mod sort;
mod spool;
mod write;
