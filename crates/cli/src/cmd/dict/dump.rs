//! `dict dump`: writes all pairs to standard output; the inverse of `dict build`.

use super::open;
use crate::cmd::dump::write_all;
use crate::failure::Result;
use crate::format::Format;
use crate::interrupt::Interrupt;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict dump users.spd > users.tsv
  splitpoint dict dump users.spd --format jsonl | jq .key

Pairs come in hash order; sort the output to compare two dictionaries. Any bytes
make the round trip through `dict build` in tsv, jsonl and raw; lines gives the
keys only.";

/// Write all pairs to standard output
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// The dictionary
    dict: PathBuf,
    /// How a pair is written
    #[arg(
        long,
        short,
        value_enum,
        default_value = "tsv",
        hide_possible_values = true,
        value_name = "tsv|jsonl|raw|lines"
    )]
    format: Format,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let dictionary = open(&self.dict)?;
        write_all(&self.dict, dictionary.iter(), dictionary.len(), self.format, &interrupt)
    }
}
