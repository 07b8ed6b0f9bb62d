//! Tests of dictionaries as a whole; those of one part lie beside it.

mod crash;
mod diff;
mod limits;
mod mapped;
mod model;
mod ownership;
mod sample_pairs;
mod shard_jobs;
mod shards;
mod verify;
