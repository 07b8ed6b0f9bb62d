//! `freeze`: turns a table into a dictionary.

use super::dict::options::{INDEX_HELP, IndexArgs, ShapeArgs};
use super::dict::{Report, bar_of_pairs, ended, report_left_out, watched};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::open::{ReadArgs, databases, require_directory_of};
use crate::source::Read;
use splitpoint::DictionaryBuilder;
use splitpoint_server::keyspace::ServedFile;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  splitpoint freeze users.spt users.spd
  splitpoint freeze users.spt users.spd --index chunk --compress lz4";

fn after_help() -> String {
    format!(
        "{EXAMPLES}\n\nThere is no sort: both are in hash order. The hash function stays the table's.\n\n{INDEX_HELP}"
    )
}

/// Write a table as a dictionary
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Freeze {
    /// The table
    file: PathBuf,
    /// The dictionary; an existing one is replaced when the new one is complete
    dict: PathBuf,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Freeze {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let builder = DictionaryBuilder::new().index(self.index.index()?.unwrap_or_default());
        let builder = builder.filter(self.index.filter.unwrap_or(0));
        let builder = self.shape.shape(builder)?;
        let table = self.reading.open(&self.file)?;
        if ServedFile::of(&table)?.has_marks() {
            let (file, dict) = (self.file.display(), self.dict.display());
            return Err(Failure::no(format_args!(
                "{file}: a server keeps lifetimes in it, which a dictionary has not; \
                 `splitpoint dict build {file} {dict}` takes the keys that have not expired"
            )));
        }
        require_directory_of(&self.dict)?;
        let others = databases(&self.file)?.1;
        let bytes = self.file.metadata().map_or(0, |metadata| metadata.len());
        let bar = bar_of_pairs();
        let frozen = table.freeze(&self.dict, &watched(builder, &interrupt, &bar));
        let left = format!("nothing was written, {} is unchanged", self.dict.display());
        let rows = ended(frozen, &bar, &interrupt, &left)?;
        report_left_out(&self.file, &others, &self.dict);
        Report { path: &self.dict, read: Read { rows, bytes, ..Read::default() }, start, json: self.json }.report()
    }
}
