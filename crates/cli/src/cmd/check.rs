//! `check`: reads the whole file and names every fault.

use super::open_to_read;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::number::{count_of, size};
use crate::output::Output;
use indicatif::ProgressBar;
use serde_json::json;
use splitpoint::Fault;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Read a whole table and name every fault
///
/// One line a fault, then exit status 1; or a line that says `ok`. Nothing is changed.
#[derive(clap::Args)]
pub struct Check {
    /// The table
    file: PathBuf,
    /// Write {"ok": ..., "faults": [{"place": ..., "what": ...}, ...], "pairs": ...}
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Result<()> {
        // One long call that only reads: a signal may end the process in the middle of it.
        interrupt::exit_on_signal("the check is not complete, nothing is known of the table")?;
        let table = open_to_read(&self.file)?;
        let faults = reading_every_page(|| table.verify())?;
        let advice = format!(
            "Restore the file from a backup; `splitpoint dump {} --salvage` writes what can still be read.",
            self.file.display()
        );
        let file_bytes = self.file.metadata().map_err(|error| Failure::io(self.file.display(), &error))?.len();
        Checked { file: &self.file, file_bytes, pairs: table.len(), faults, advice, json: self.json }.tell()
    }
}

/// Lets `verify` run beside a spinner.
pub fn reading_every_page(verify: impl FnOnce() -> splitpoint::Result<Vec<Fault>>) -> Result<Vec<Fault>> {
    let progress = ProgressBar::new_spinner().with_message("reading every page");
    progress.enable_steady_tick(Duration::from_millis(100));
    let faults = verify();
    progress.finish_and_clear();
    Ok(faults?)
}

/// What a check found, of a table or a dictionary.
pub struct Checked<'c> {
    pub file: &'c Path,
    pub file_bytes: u64,
    pub pairs: u64,
    pub faults: Vec<Fault>,
    /// What to do where there are some.
    pub advice: String,
    pub json: bool,
}

impl Checked<'_> {
    /// Says it; faults make the exit status 1.
    pub fn tell(&self) -> Result<()> {
        if self.json { self.report_json() } else { self.report() }?;
        if self.faults.is_empty() { Ok(()) } else { Err(Failure::no_said_already()) }
    }

    fn report(&self) -> Result<()> {
        let mut out = Output::stdout();
        let file = self.file.display();
        for fault in &self.faults {
            out.line(&format!("{file}: {fault}"))?;
        }
        if self.faults.is_empty() {
            let pairs = count_of(self.pairs, "pair");
            return out.line(&format!("{file}: ok, {pairs} in {}", size(self.file_bytes)));
        }
        let faults = count_of(self.faults.len() as u64, "fault");
        out.line(&format!("{file}: {faults}. {}", self.advice))
    }

    fn report_json(&self) -> Result<()> {
        let named: Vec<_> = self.faults.iter().map(|fault| json!({"place": fault.place, "what": fault.what})).collect();
        Output::stdout().json(&json!({
            "file": self.file.to_string_lossy(),
            "ok": self.faults.is_empty(),
            "faults": named,
            "pairs": self.pairs,
        }))
    }
}
