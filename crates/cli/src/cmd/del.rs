//! `del`: removes keys from a table.

use super::keys::{Absent, KeyArgs};
use crate::failure::Result;
use crate::open::CacheArgs;
use splitpoint_server::keyspace::ServedFile;
use std::path::PathBuf;

/// Delete keys and their values
///
/// Deletes every key that exists. Names each absent key on standard error, and then exits with 1.
#[derive(clap::Args)]
pub struct Del {
    /// The table
    file: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    /// Read \t \n \r \\ \xHH in the keys
    #[arg(long, short)]
    escaped: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Del {
    pub fn run(self) -> Result<()> {
        let keys = self.keys.parse(self.escaped)?;
        let table = self.cache.open_to_change(&self.file)?;
        let file = ServedFile::of(&table)?;
        let mut absent = Absent::default();
        let all = keys.each(|key| {
            if !file.remove(key)? {
                return absent.add(&self.file, key, |key| Ok(file.contains(key)?));
            }
            Ok(())
        });
        // Close also after a signal: what is deleted stays deleted.
        table.close()?;
        absent.result(all)
    }
}
