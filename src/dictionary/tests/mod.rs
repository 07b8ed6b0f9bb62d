//! Tests of whole dictionaries; tests of one part are next to that part.

mod crash;
mod diff;
mod limits;
mod long;
mod mapped;
mod model;
mod ownership;
mod sample_pairs;
mod shard_jobs;
mod shards;
mod verify;
