//! `dict check`: reads the whole file and names every fault.

use super::open;
use crate::cmd::check::{Checked, reading_every_page};
use crate::failure::Result;
use crate::interrupt;
use std::path::PathBuf;

/// Read a whole dictionary and name every fault
///
/// Prints one line per fault and exits with 1, or prints one line with `ok`. Changes nothing.
#[derive(clap::Args)]
pub struct Check {
    /// The dictionary
    dict: PathBuf,
    /// Write {"ok": ..., "faults": [{"place": ..., "what": ..., "hits": [...]}, ...], "pairs": ...}
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Result<()> {
        // One long call that only reads: a signal may end the process at any point.
        interrupt::exit_on_signal("the check did not finish and says nothing about the dictionary")?;
        let dictionary = open(&self.dict)?;
        let faults = reading_every_page(|| dictionary.verify())?;
        let advice = "Build it again from its original input.".to_owned();
        let file_bytes = dictionary.stat()?.file_bytes;
        Checked { file: &self.dict, file_bytes, pairs: dictionary.len(), faults, advice, json: self.json }.report()
    }
}
