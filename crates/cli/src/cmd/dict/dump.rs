//! `dict dump`: writes all pairs to standard output; the inverse of `dict build`.

use super::open;
use super::options::PartArgs;
use crate::cmd::dump::{FormatArgs, write_all};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict dump users.spd > users.tsv
  splitpoint dict dump users.spd --format jsonl | jq .key
  splitpoint dict dump users.spd --format parquet > users.parquet
  splitpoint dict dump users.spd --part 3/16 > part3.tsv

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
    #[command(flatten)]
    part: PartArgs,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let dictionary = open(&self.dict)?;
        let (pairs, pairs_total) = (|| dictionary.range(self.part.positions()), self.part.of(dictionary.len()));
        write_all(&self.dict, pairs, pairs_total, self.format.format.0, &interrupt)
    }
}
