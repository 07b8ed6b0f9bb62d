//! What keeps the key space within its limits: expired keys, memory.
//!
//! ```text
//! sweep.rs      finds and removes expired keys and fields
//! eviction.rs   the memory limit, and which keys are evicted
//! ```
//!
//! `housekeeping.rs` calls the sweep, and evicts the keys that no write had the time to evict. Not here: the removal of
//! segments (`collections/segments.rs`).

pub(super) mod eviction;
pub(super) mod sweep;
