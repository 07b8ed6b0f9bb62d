//! `get`: prints one value.

use super::{argument_bytes, key_absent, open_to_read};
use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl, tsv};
use crate::output::Output;
use std::ffi::OsString;
use std::path::PathBuf;

/// Print the value of a key
///
/// Prints the value followed by a newline; --raw leaves the newline out, so that the bytes come out exactly as they
/// went in. An absent key prints nothing, is named on standard error, and makes the exit status 1.
#[derive(clap::Args)]
pub struct Get {
    /// The table
    file: PathBuf,
    /// The key, taken as bytes
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    #[command(flatten)]
    shown: ShownArgs,
}

/// How a value is printed, for tables and dictionaries.
#[derive(clap::Args)]
pub struct ShownArgs {
    /// Print only the value, without a newline
    #[arg(long, short, conflicts_with = "json")]
    raw: bool,
    /// Read \t \n \r \\ \xHH in KEY, and write them in the value
    #[arg(long, short, conflicts_with = "raw")]
    pub escaped: bool,
    /// Write {"key": ..., "value": ...} like `dump --format jsonl`; --escaped then applies only to KEY
    #[arg(long)]
    json: bool,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let key = argument_bytes(&self.key, self.shown.escaped)?;
        let table = open_to_read(&self.file)?;
        let value = table.get(&key)?.ok_or_else(|| Failure::no(key_absent(&self.file, &key)))?;
        let mut out = Output::stdout();
        let mut row = Vec::new();
        self.shown.write(Pair { key: &key, value: &value }, &mut row);
        out.write(&row)?;
        out.flush()
    }
}

impl ShownArgs {
    /// Appends the printed form of `pair` to `row`.
    pub fn write(&self, pair: Pair<'_>, row: &mut Vec<u8>) {
        if self.json {
            return jsonl::write(pair, row);
        }
        if self.escaped {
            tsv::escape(pair.value, row);
        } else {
            row.extend_from_slice(pair.value);
        }
        if !self.raw {
            row.push(b'\n');
        }
    }
}
