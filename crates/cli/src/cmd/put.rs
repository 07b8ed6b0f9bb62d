//! `put`: stores one pair, replacing an earlier value. Also the arguments that `append` shares.

use super::argument_bytes;
use crate::failure::{Failure, Result};
use crate::open::CacheArgs;
use crate::types;
use splitpoint_server::keyspace::ServedFile;
use std::ffi::OsString;
use std::fs::File;
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
    #[arg(
        allow_hyphen_values = true,
        required_unless_present_any = ["stdin", "value_file"],
        conflicts_with_all = ["stdin", "value_file"]
    )]
    value: Option<OsString>,
    /// Read the value from standard input
    #[arg(long, short = 'x', conflicts_with = "value_file")]
    stdin: bool,
    /// Read the value from FILE, unchanged; - is standard input
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
    /// Read \t \n \r \\ \xHH in KEY and VALUE
    #[arg(long, short)]
    escaped: bool,
    #[command(flatten)]
    pub cache: CacheArgs,
}

impl PairArguments {
    pub fn key_and_value(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let key = argument_bytes(&self.key, self.escaped)?;
        let value = match (&self.value, &self.value_file) {
            (Some(value), _) => argument_bytes(value, self.escaped)?,
            (None, Some(path)) if path.as_os_str() != "-" => {
                let failed = |error| Failure::io(path.display(), &error);
                read_value(File::open(path).map_err(failed)?).map_err(failed)?
            }
            (None, _) => read_value(std::io::stdin().lock()).map_err(|error| Failure::io("stdin", &error))?,
        };
        Ok((key, value))
    }
}

fn read_value(input: impl Read) -> std::io::Result<Vec<u8>> {
    // Read one byte more than a value may have, so that an endless input becomes "too long" before it fills memory.
    let mut value = Vec::new();
    input.take(splitpoint::VALUE_LEN_MAX as u64 + 1).read_to_end(&mut value)?;
    Ok(value)
}

impl Put {
    pub fn run(self) -> Result<()> {
        let (key, value) = self.pair.key_and_value()?;
        let table = self.pair.cache.open_or_create(&self.pair.file)?;
        types::check_pair(&table, &key, &value)?;
        ServedFile::of(&table)?.put(&key, &value)?;
        Ok(table.close()?)
    }
}
