//! `dict check`: reads the whole file and names every fault.

use super::open;
use crate::cmd::check::Checked;
use crate::failure::Result;
use crate::interrupt;
use crate::progress::Progress;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Read a whole dictionary and name every fault
///
/// Prints one line per fault and exits with 1, or prints one line with `ok`. Changes nothing.
#[derive(clap::Args)]
pub struct Check {
    /// The dictionary
    dict: PathBuf,
    /// Threads [default: one per processor]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Write {"ok": ..., "faults": [{"place": ..., "what": ..., "hits": [...]}, ...], "pairs": ...}
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Result<()> {
        // One long call that only reads: a signal may end the process at any point.
        interrupt::exit_on_signal("the check did not finish and says nothing about the dictionary")?;
        let dictionary = open(&self.dict)?;
        let bar = Progress::of_bytes("checking", Some(0));
        let faults = dictionary.verify_with(self.threads, |progress| {
            bar.set_total(progress.bytes_total);
            bar.at(progress.bytes);
            ControlFlow::Continue(())
        });
        bar.clear();
        let faults = faults?;
        let advice = "Build it again from its original input.".to_owned();
        let file_bytes = dictionary.stat()?.file_bytes;
        Checked { file: &self.dict, file_bytes, pairs: dictionary.len(), faults, advice, json: self.json }.report()
    }
}
