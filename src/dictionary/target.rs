//! The destination of a build or an update: one file, or a directory of shards.

use super::build::intake::Intake;
use super::build::new_file::NewFile;
use super::build::plan::Plan;
use super::read::file::DictionaryFile;
use super::shards::new_shards::NewShards;
use crate::error::Result;
use crate::io::Granted;
use std::sync::Arc;

pub(super) enum Target {
    File(NewFile),
    Shards(Box<NewShards>),
}

impl Target {
    /// The access for the new files.
    pub fn granted(&self) -> Granted {
        match self {
            Target::File(file) => file.granted(),
            Target::Shards(shards) => shards.granted(),
        }
    }

    /// The shard of a key; 0 without shards.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        match self {
            Target::File(_) => 0,
            Target::Shards(shards) => shards.shard_of(key),
        }
    }

    /// Starts the intake of pairs for all files.
    pub fn intake(&self, plan: &Plan) -> Result<Intake> {
        match self {
            Target::File(file) => file.intake(plan),
            Target::Shards(shards) => shards.intake(plan),
        }
    }

    /// Writes and publishes what `intake` took, merged with `old`. Returns the number of pairs.
    pub fn finish(self, plan: &Plan, intake: Intake, old: &[Arc<DictionaryFile>]) -> Result<u64> {
        match self {
            Target::File(file) => file.finish(plan, intake, old.first()),
            Target::Shards(shards) => shards.finish(plan, intake, old),
        }
    }
}
