//! `rename`: moves a value to another key.

use super::{argument_bytes, key_absent};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::open::CacheArgs;
use crate::types;
use splitpoint_server::keyspace::ServedFile;
use std::ffi::OsString;
use std::path::PathBuf;

/// Move a value to another key
///
/// Both changes happen together or not at all. If OLD is absent or NEW exists, nothing changes and the exit status is
/// 1; --force replaces the value of NEW.
#[derive(clap::Args)]
pub struct Rename {
    /// The table
    file: PathBuf,
    /// The key, taken as bytes
    #[arg(allow_hyphen_values = true)]
    old: OsString,
    /// Its new name
    #[arg(allow_hyphen_values = true)]
    new: OsString,
    /// Read \t \n \r \\ \xHH in the keys
    #[arg(long, short)]
    escaped: bool,
    /// Replace the value of NEW if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    cache: CacheArgs,
}

impl Rename {
    pub fn run(self) -> Result<()> {
        let (old, new) = (argument_bytes(&self.old, self.escaped)?, argument_bytes(&self.new, self.escaped)?);
        let table = self.cache.open_to_change(&self.file)?;
        let (file, mut value) = (ServedFile::of(&table)?, Vec::new());
        if !file.get_into(&old, &mut value)? {
            return Err(Failure::no(key_absent(&self.file, &old, |key| Ok(file.contains(key)?))?));
        }
        types::check_key(&table, &new)?;
        if old == new {
            return Ok(table.close()?);
        }
        if !self.force && file.contains(&new)? {
            let (file, key) = (self.file.display(), escapes::quoted(&new));
            return Err(Failure::no(format_args!("{file}: the key {key} exists; --force replaces its value")));
        }
        file.rename(&old, &new, &value)?;
        Ok(table.close()?)
    }
}
