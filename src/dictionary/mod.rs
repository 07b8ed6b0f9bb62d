//! Dictionaries: far more pairs than memory, found with about one read each, changed in batches.
#![allow(dead_code, reason = "being built")]

pub(crate) mod index;
pub(crate) mod sort;
