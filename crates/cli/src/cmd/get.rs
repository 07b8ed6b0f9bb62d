//! `get`: one value to standard output.

use super::{argument_bytes, key_absent, open_to_read};
use crate::failure::Result;
use crate::format::{Pair, jsonl, tsv};
use crate::output::Output;
use std::ffi::OsString;
use std::path::PathBuf;

/// Print the value of a key
///
/// The value is written as it is, with a newline after it; --raw leaves the newline out, so that bytes come out exactly
/// as they went in. An absent key prints nothing, says so on standard error and exits with 1.
#[derive(clap::Args)]
pub struct Get {
    /// The table
    file: PathBuf,
    /// The key, taken as bytes
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// Write the value only, no newline after it
    #[arg(long, short, conflicts_with = "json")]
    raw: bool,
    /// Read \t \n \r \\ \xHH in KEY, and write them in the value
    #[arg(long, short, conflicts_with_all = ["raw", "json"])]
    escaped: bool,
    /// Write {"key": ..., "value": ...} as `dump --format jsonl` does
    #[arg(long)]
    json: bool,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let key = argument_bytes(&self.key, self.escaped)?;
        let table = open_to_read(&self.file)?;
        let value = table.get(&key)?.ok_or_else(|| key_absent(&self.file, &key))?;
        let mut out = Output::stdout();
        out.write(&self.shown(&key, value))?;
        out.flush()
    }

    fn shown(&self, key: &[u8], value: Vec<u8>) -> Vec<u8> {
        let mut row = Vec::new();
        if self.json {
            jsonl::write(Pair { key, value: &value }, &mut row);
            return row;
        }
        if self.escaped {
            tsv::escape(&value, &mut row);
        } else {
            row = value;
        }
        if !self.raw {
            row.push(b'\n');
        }
        row
    }
}
