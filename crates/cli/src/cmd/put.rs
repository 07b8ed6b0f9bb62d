//! `put`: stores one pair, replacing an earlier value. Also the arguments that `append` shares.

use super::argument_bytes;
use crate::failure::{Failure, Result};
use crate::open::open_or_create;
use splitpoint_server::keyspace::ServedFile;
use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;

/// Store a value under a key, replacing any earlier value
///
/// Creates the table if missing. The pair is in the file when the command returns. If a server stored a lifetime for
/// the key in the file, it is removed, as by SET.
#[derive(clap::Args)]
pub struct Put {
    #[command(flatten)]
    pair: PairArguments,
}

#[derive(clap::Args)]
pub struct PairArguments {
    /// The table; created if missing
    pub file: PathBuf,
    /// The key, taken as bytes
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// The value, taken as bytes
    #[arg(allow_hyphen_values = true, required_unless_present = "stdin", conflicts_with = "stdin")]
    value: Option<OsString>,
    /// Read the value from standard input
    #[arg(long, short = 'x')]
    stdin: bool,
    /// Read \t \n \r \\ \xHH in KEY and VALUE
    #[arg(long, short)]
    escaped: bool,
}

impl PairArguments {
    pub fn key_and_value(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let key = argument_bytes(&self.key, self.escaped)?;
        let Some(value) = &self.value else {
            return Ok((key, read_stdin()?));
        };
        Ok((key, argument_bytes(value, self.escaped)?))
    }
}

fn read_stdin() -> Result<Vec<u8>> {
    // Read one byte more than a value may have, so that an endless input becomes "too long" before it fills memory.
    let mut value = Vec::new();
    let mut stdin = std::io::stdin().lock().take(splitpoint::VALUE_LEN_MAX as u64 + 1);
    stdin.read_to_end(&mut value).map_err(|error| Failure::io("stdin", &error))?;
    Ok(value)
}

impl Put {
    pub fn run(self) -> Result<()> {
        let (key, value) = self.pair.key_and_value()?;
        let table = open_or_create(&self.pair.file)?;
        ServedFile::of(&table)?.put(&key, &value)?;
        Ok(table.close()?)
    }
}
