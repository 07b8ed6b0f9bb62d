//! Large values, which go to the file at once.
//!
//! Not here: which values, and the record of the log that refers to one (`table/stored.rs`).

pub(super) mod through;
