//! A directory of dictionaries that is one dictionary: each file, a *shard*, has the keys of some slots.
//!
//! ```text
//! users.spd/manifest          which shard has which slots, in which file; replaced by a rename
//! users.spd/0-1.spd           shard 0 as of generation 1
//! users.spd/1-3.spd           shard 1, last changed in generation 3
//! ```
//!
//! `slots.rs` (which slot a key has) < `manifest.rs` < `directory.rs` (replaces a manifest) < `new_shards.rs` (a
//! build or update of several shards). `info.rs`: the public description of a shard.

pub(crate) mod directory;
pub(crate) mod info;
pub(crate) mod manifest;
pub(crate) mod new_shards;
pub(crate) mod slots;
