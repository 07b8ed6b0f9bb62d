//! `dict dump`: writes all pairs to standard output; the inverse of `dict build`.

use super::open;
use crate::cmd::dump::{FormatArgs, write_all};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict dump users.spd > users.tsv
  splitpoint dict dump users.spd --format jsonl | jq .key
  splitpoint dict dump users.spd --format parquet > users.parquet

Pairs come in hash order; sort the output to compare two dictionaries. The
formats are those of `splitpoint dump`.";

/// Write all pairs to standard output
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// The dictionary
    dict: PathBuf,
    #[command(flatten)]
    format: FormatArgs,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let dictionary = open(&self.dict)?;
        write_all(&self.dict, || dictionary.iter(), dictionary.len(), self.format.format.0, &interrupt)
    }
}
