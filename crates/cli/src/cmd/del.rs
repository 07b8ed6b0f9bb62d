//! `del`: removes keys from a table.

use super::{argument_bytes, key_absent, open_to_change};
use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::path::PathBuf;

/// Delete keys and their values
///
/// Deletes every key that is present. An absent key is named on standard error and makes the exit status 1.
#[derive(clap::Args)]
pub struct Del {
    /// The table
    file: PathBuf,
    /// The keys, taken as bytes; put -- before keys that begin with -
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<OsString>,
    /// Read \t \n \r \\ \xHH in the keys
    #[arg(long, short)]
    escaped: bool,
}

impl Del {
    pub fn run(self) -> Result<()> {
        let keys: Vec<_> = self.key.iter().map(|key| argument_bytes(key, self.escaped)).collect::<Result<_>>()?;
        let table = open_to_change(&self.file)?;
        let mut absent = false;
        for key in &keys {
            if !table.remove(key)? {
                eprintln!("splitpoint: {}", key_absent(&self.file, key));
                absent = true;
            }
        }
        table.close()?;
        if absent { Err(Failure::no_already_printed()) } else { Ok(()) }
    }
}
