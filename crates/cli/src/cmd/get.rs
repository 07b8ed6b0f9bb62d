//! `get`: prints values, of a table or a dictionary.

use super::keys::{Absent, KeyArgs, Keys};
use super::store::Store;
use crate::escapes;
use crate::failure::Result;
use crate::format::{Pair, jsonl};
use crate::output::Output;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  splitpoint get users.spt alice
  splitpoint get users.spt alice bob --json
  cut -f1 changes.tsv | splitpoint get users.spt - --escaped --json";

/// Print the values of keys
///
/// Prints values in the order of the keys, each followed by a newline; --raw leaves the newline out, so that the bytes
/// come out exactly as they went in. An absent key prints nothing, is named on standard error, and makes the exit
/// status 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The table or dictionary
    file: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
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
        let keys = self.keys.parse(self.shown.escaped)?;
        print_values(&self.file, &Store::open(&self.file)?, &keys, &self.shown)
    }
}

/// Prints the values of `keys`; what was found before a failure is printed too.
pub fn print_values(file: &Path, store: &Store, keys: &Keys, shown: &ShownArgs) -> Result<()> {
    let mut out = Output::stdout();
    let (mut value, mut row) = (Vec::new(), Vec::new());
    let mut absent = Absent::default();
    let all = keys.each(|key| {
        if !store.get_into(key, &mut value)? {
            return absent.add(file, key, |key| store.contains(key));
        }
        row.clear();
        shown.write(Pair { key, value: &value }, &mut row);
        out.write(&row)
    });
    let flushed = out.flush();
    absent.result(all.and(flushed))
}

impl ShownArgs {
    /// Appends the printed form of `pair` to `row`.
    pub fn write(&self, pair: Pair<'_>, row: &mut Vec<u8>) {
        if self.json {
            return jsonl::write(pair, row);
        }
        if self.escaped {
            escapes::escape(pair.value, row);
        } else {
            row.extend_from_slice(pair.value);
        }
        if !self.raw {
            row.push(b'\n');
        }
    }
}
