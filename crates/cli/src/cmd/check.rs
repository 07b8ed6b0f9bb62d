//! `check`: reads the whole file and names every fault.

use super::open_to_read;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::number::{count_of, size};
use crate::output::Output;
use indicatif::ProgressBar;
use serde_json::json;
use splitpoint::{Fault, Table};
use std::path::PathBuf;
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
        let faults = verify(&table)?;
        if self.json {
            self.report_json(&table, &faults)?
        } else {
            self.report(&table, &faults)?
        }
        if faults.is_empty() { Ok(()) } else { Err(Failure::no_said_already()) }
    }

    fn report(&self, table: &Table, faults: &[Fault]) -> Result<()> {
        let mut out = Output::stdout();
        let file = self.file.display();
        for fault in faults {
            out.line(&format!("{file}: {fault}"))?;
        }
        if faults.is_empty() {
            let file_bytes = self.file.metadata().map_err(|error| Failure::io(file, &error))?.len();
            return out.line(&format!(
                "{}: ok, {} in {}",
                self.file.display(),
                count_of(table.len(), "pair"),
                size(file_bytes)
            ));
        }
        let faults = count_of(faults.len() as u64, "fault");
        out.line(&format!(
            "{file}: {faults}. Restore the file from a backup; `splitpoint dump {file} --salvage` writes what can still be read."
        ))
    }

    fn report_json(&self, table: &Table, faults: &[Fault]) -> Result<()> {
        let named: Vec<_> = faults.iter().map(|fault| json!({"place": fault.place, "what": fault.what})).collect();
        Output::stdout().json(&json!({
            "file": self.file.to_string_lossy(),
            "ok": faults.is_empty(),
            "faults": named,
            "pairs": table.len(),
        }))
    }
}

fn verify(table: &Table) -> Result<Vec<Fault>> {
    let progress = ProgressBar::new_spinner().with_message("reading every page");
    progress.enable_steady_tick(Duration::from_millis(100));
    let faults = table.verify();
    progress.finish_and_clear();
    Ok(faults?)
}
