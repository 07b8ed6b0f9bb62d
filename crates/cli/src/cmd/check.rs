//! `check`: reads the whole file and names every fault.

use super::store::Store;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::number::{count_of, size};
use crate::open::ReadArgs;
use crate::output::Output;
use crate::progress::Progress;
use serde_json::json;
use splitpoint::{Dictionary, Fault, Table};
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Read a whole table or dictionary and name every fault
///
/// Prints one line per fault and exits with 1, or prints `ok` and exits with 0. Changes nothing. A damaged page is one
/// fault, whose line names all its buckets.
#[derive(clap::Args)]
pub struct Check {
    /// The table or dictionary
    file: PathBuf,
    /// Threads that read a dictionary [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write {"ok": ..., "faults": [{"place": ..., "what": ..., "hits": [...]}, ...], "pairs": ...}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadArgs,
}

impl Check {
    pub fn run(self) -> Result<()> {
        // One long call that only reads: a signal may end the process at any point.
        interrupt::exit_on_signal("the check did not finish and says nothing about the file")?;
        match Store::open(&self.file, self.reading)? {
            Store::Table(table) => self.table(&table)?,
            Store::Dictionary(dictionary) => self.dictionary(&dictionary)?,
        }
        .report()
    }

    fn table(&self, table: &Table) -> Result<Checked<'_>> {
        if self.threads.is_some() {
            let file = self.file.display();
            return Err(Failure::usage(format_args!(
                "{file}: is a table, which one thread reads; --threads is for dictionaries"
            )));
        }
        let faults = reading_every_page(|| table.verify())?;
        let advice = format!(
            "Restore the file from a backup; `splitpoint dump {} --salvage` writes what can still be read.",
            self.file.display()
        );
        // The same size as in `stat`: after a crash the log is part of the table, but not yet of its file.
        let file_bytes = table.counters().file_bytes;
        Ok(Checked { file: &self.file, file_bytes, pairs: table.len(), faults, advice, json: self.json })
    }

    fn dictionary(&self, dictionary: &Dictionary) -> Result<Checked<'_>> {
        let bar = Progress::of_bytes("checking", Some(0));
        let faults = dictionary.verify_with(self.threads.unwrap_or(0), |progress| {
            bar.set_total(progress.bytes_total);
            bar.at(progress.bytes);
            ControlFlow::Continue(())
        });
        bar.clear();
        let faults = faults?;
        let advice = "Build it again from its original input.".to_owned();
        let file_bytes = dictionary.stat()?.file_bytes;
        Ok(Checked { file: &self.file, file_bytes, pairs: dictionary.len(), faults, advice, json: self.json })
    }
}

/// Runs `verify` while showing a spinner.
pub fn reading_every_page(verify: impl FnOnce() -> splitpoint::Result<Vec<Fault>>) -> Result<Vec<Fault>> {
    let progress = Progress::of_one_step("reading every page");
    let faults = verify();
    progress.clear();
    Ok(faults?)
}

/// The result of a check, of a table or a dictionary.
pub struct Checked<'c> {
    pub file: &'c Path,
    pub file_bytes: u64,
    pub pairs: u64,
    pub faults: Vec<Fault>,
    /// Advice about faults.
    pub advice: String,
    pub json: bool,
}

impl Checked<'_> {
    /// Prints the result; faults make the exit status 1.
    pub fn report(&self) -> Result<()> {
        let printed = if self.json { self.report_json() } else { self.report_text() };
        Failure::answer(self.faults.is_empty(), printed)
    }

    fn report_text(&self) -> Result<()> {
        let mut out = Output::stdout();
        let file = self.file.display();
        let faults = distinct(&self.faults, self.file);
        for fault in &faults {
            out.line(&format!("{file}: {fault}"))?;
        }
        if self.faults.is_empty() {
            let pairs = count_of(self.pairs, "pair");
            return out.line(&format!("{file}: ok, {pairs} in {}", size(self.file_bytes)));
        }
        let faults = count_of(faults.len() as u64, "fault");
        out.line(&format!("{file}: {faults}. {}", self.advice))
    }

    fn report_json(&self) -> Result<()> {
        let faults = distinct(&self.faults, self.file);
        let named: Vec<_> =
            faults.iter().map(|fault| json!({"place": fault.place, "what": fault.what, "hits": fault.hits})).collect();
        Output::stdout().json(&json!({
            "file": self.file.to_string_lossy(),
            "ok": self.faults.is_empty(),
            "faults": named,
            "pairs": self.pairs,
        }))
    }
}

/// A fault, and the places that cannot be read because of it.
struct Distinct {
    place: String,
    what: String,
    hits: Vec<String>,
}

impl fmt::Display for Distinct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match &self.hits[..] {
            [] => Ok(()),
            hits if hits.len() <= HITS_NAMED_MAX => write!(f, "; hits {}", hits.join(", ")),
            hits => write!(f, "; hits {} and {} more", hits[..HITS_NAMED_MAX].join(", "), hits.len() - HITS_NAMED_MAX),
        }
    }
}

/// Places named per damaged page; more are only counted.
const HITS_NAMED_MAX: usize = 8;

/// Returns the faults without repetition: if a page cannot be read, every bucket in it reports the page's fault again.
fn distinct(faults: &[Fault], file: &Path) -> Vec<Distinct> {
    // The library's errors begin with the absolute path.
    let absolute = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let prefixes = [file, &absolute].map(|name| format!("{}: ", name.display()));
    let mut found: Vec<Distinct> = Vec::new();
    let mut by_sentence: HashMap<String, usize> = HashMap::new();
    for fault in faults {
        let what = prefixes.iter().find_map(|prefix| fault.what.strip_prefix(prefix)).unwrap_or(&fault.what);
        let what = what.strip_prefix(&format!("{}: ", fault.place)).unwrap_or(what);
        if let Some(same) = by_sentence.get(what) {
            found[*same].hits.push(fault.place.clone());
            continue;
        }
        by_sentence.insert(format!("{}: {what}", fault.place), found.len());
        found.push(Distinct { place: fault.place.clone(), what: what.to_owned(), hits: Vec::new() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shared_by_several_buckets_is_one_fault() {
        let fault = |place: &str, what: &str| Fault { place: place.into(), what: what.into() };
        let of_frame = "t.spt: frame 20: checksum mismatch";
        let faults = [
            fault("frame 20", of_frame),
            fault("bucket 60", of_frame),
            fault("bucket 61", of_frame),
            fault("bucket 7", "its page is of kind 3"),
            fault("bucket 8", "its page is of kind 3"),
        ];
        let lines: Vec<String> = distinct(&faults, Path::new("t.spt")).iter().map(Distinct::to_string).collect();
        let expected = [
            "frame 20: checksum mismatch; hits bucket 60, bucket 61",
            "bucket 7: its page is of kind 3",
            "bucket 8: its page is of kind 3",
        ];
        assert_eq!(lines, expected);
    }
}
