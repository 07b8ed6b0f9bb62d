//! `append`: adds bytes to the end of a value.

use super::put::PairArguments;
use crate::failure::Result;
use crate::types;
use splitpoint_server::keyspace::ServedFile;

/// Add bytes to the end of a key's value
///
/// If KEY is absent, the bytes become its value. A missing table is created.
#[derive(clap::Args)]
pub struct Append {
    #[command(flatten)]
    pair: PairArguments,
}

impl Append {
    pub fn run(self) -> Result<()> {
        let (key, value) = self.pair.key_and_value()?;
        let table = self.pair.cache.open_or_create(&self.pair.file)?;
        types::check_tail(&table, &key, &value)?;
        ServedFile::of(&table)?.append(&key, &value)?;
        Ok(table.close()?)
    }
}
