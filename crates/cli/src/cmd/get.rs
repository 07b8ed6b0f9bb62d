//! `get`: prints values of a table or a dictionary.

use super::keys::{Absent, KeyArgs, Keys};
use super::store::Store;
use super::{own_files, refuse_own};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::{Pair, jsonl};
use crate::interrupt;
use crate::open::ReadArgs;
use crate::output::Output;
use splitpoint::OutputFile;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  splitpoint get users.spt alice
  splitpoint get users.spt alice bob --json
  splitpoint get pages.spt 7.txt --output 7.txt
  cut -f1 changes.tsv | splitpoint get users.spt - --escaped --json";

/// Print the values of keys
///
/// Prints the values in the order of the keys, each followed by a newline. With --raw there is no newline, so the
/// output is exactly the bytes of the values. Names each absent key on standard error, and then exits with 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Get {
    /// The table or dictionary
    file: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    shown: ShownArgs,
    /// Write the value, as --raw prints it, to FILE, replacing it when complete; for one KEY
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["raw", "json"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadArgs,
}

/// The format of printed values, for tables and dictionaries.
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
        if let Some(output) = &self.output {
            return self.write_value(&keys, output);
        }
        print_values(&self.file, &Store::open_for(&self.file, self.reading, &keys)?, &keys, &self.shown)
    }
}

impl Get {
    /// Writes the value of the only key to the file at `output`.
    fn write_value(&self, keys: &Keys, output: &Path) -> Result<()> {
        let Keys::Given(given) = keys else { return Err(one_key()) };
        let [key] = &given[..] else { return Err(one_key()) };
        refuse_own(&own_files(&self.file), output)?;
        interrupt::exit_on_signal("nothing was written")?;
        let store = Store::open_for(&self.file, self.reading, keys)?;
        let mut value = Vec::new();
        if store.get_into(key, &mut value)? {
            return OutputFile::write(output, &value).map_err(|error| Failure::io(output.display(), &error));
        }
        let mut absent = Absent::default();
        let named = absent.add(&self.file, key, |key| store.contains(key));
        absent.result(named)
    }
}

fn one_key() -> Failure {
    Failure::usage("--output takes the value of one KEY")
}

/// Prints the values of `keys`, including what was found before a failure.
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
