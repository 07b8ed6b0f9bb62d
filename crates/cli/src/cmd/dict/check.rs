//! `dict check`: reads the whole file and names every fault.

use super::open;
use crate::cmd::check::{Checked, reading_every_page};
use crate::failure::Result;
use crate::interrupt;
use std::path::PathBuf;

/// Read a whole dictionary and name every fault
///
/// One line a fault, then exit status 1; or a line that says `ok`. Nothing is changed.
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
        // One long call that only reads: a signal may end the process in the middle of it.
        interrupt::exit_on_signal("the check is not complete, nothing is known of the dictionary")?;
        let dictionary = open(&self.dict)?;
        let faults = reading_every_page(|| dictionary.verify())?;
        let advice = "Build it again from what it was built from.".to_owned();
        let file_bytes = dictionary.stat()?.file_bytes;
        Checked { file: &self.dict, file_bytes, pairs: dictionary.len(), faults, advice, json: self.json }.tell()
    }
}
