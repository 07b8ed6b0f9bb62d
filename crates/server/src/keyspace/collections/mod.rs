//! Collections: hashes, sets, lists, sorted sets and streams.
//!
//! A small collection is in its key's value. A large one has a descriptor there and its elements in segments.
//!
//! ```text
//! elements.rs   elements as bytes
//! counts.rs     how many segments a database has, and which wait for their removal
//! shape.rs      the descriptor of a large collection
//! segments.rs   the pairs that hold the elements of a large collection, and their removal
//! hashed.rs     fields in segments, found by name
//! tree/         elements in segments, in order: a counted B+ tree
//! list.rs       lists
//! fields/       hashes and sets: hashed.rs, and tree/ for lifetimes
//! sorted/       sorted sets: hashed.rs and tree/
//! stream/       streams: tree/
//! ```
//!
//! Each file builds only on files above it, except that `shape.rs` calls `stream/` for the segments of a stream.
//!
//! All but `segments.rs` read and change pairs through `pairs.rs`. Not here: what commands mean (`command`).

pub(super) mod counts;
pub(crate) mod elements;
pub(crate) mod fields;
pub(super) mod hashed;
pub(crate) mod list;
mod segments;
pub(super) mod shape;
pub(crate) mod sorted;
pub(crate) mod stream;
mod tree;
