//! `dict`: the commands for dictionaries, one file each; and what they share: the progress bar, the report.

mod build;
mod diff;
pub mod options;
mod reindex;
mod update;

pub use build::{Build, Duplicates};

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, rate, seconds, size};
use crate::output::{Output, say};
use crate::progress::Progress;
use crate::source::Read;
use serde_json::json;
use splitpoint::dictionary::DictionaryStat;
use splitpoint::{Dictionary, DictionaryBuilder, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  splitpoint dict build users.tsv users.spd
  splitpoint dict get users.spd alice bob
  splitpoint dict update users.spd changes.tsv users.spd --delete gone.txt
  splitpoint dict stat users.spd

A dictionary (.spd) holds far more pairs than memory, finds each with one read,
and changes in batches, each of which writes a new file. A table (.spt) changes
pair by pair. freeze and thaw turn one into the other.";

/// Dictionaries: pairs that are written once and found with one read
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Dict {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Build(Build),
    Get(super::get::Get),
    Update(update::Update),
    Reindex(reindex::Reindex),
    Stat(super::stat::Stat),
    Check(super::check::Check),
    Diff(diff::Diff),
    Dump(super::dump::Dump),
}

impl Dict {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Build(build) => build.run(),
            Command::Get(get) => get.run(),
            Command::Update(update) => update.run(),
            Command::Reindex(reindex) => reindex.run(),
            Command::Stat(stat) => stat.run(),
            Command::Check(check) => check.run(),
            Command::Diff(diff) => diff.run(),
            Command::Dump(dump) => dump.run(),
        }
    }
}

/// Makes the builder show progress and stop when a signal comes.
pub fn watched(builder: DictionaryBuilder, interrupt: &Interrupt, bar: &Progress) -> DictionaryBuilder {
    let (stop, bar) = (interrupt.breaker(), bar.clone());
    builder.progress(move |progress| {
        if progress.pairs == 0 {
            // The bar was created before the input was read; that time is not part of writing.
            bar.restart();
        }
        bar.set_total(progress.pairs_total);
        bar.at(progress.pairs);
        stop()
    })
}

/// Names the databases `others` of a server that a dictionary of the table in `file` does not have.
pub fn report_left_out(file: &Path, others: &[(u64, PathBuf)], dict: &Path) {
    for (number, path) in others {
        let (file, path, dict) = (file.display(), path.display(), dict.display());
        say(format_args!("splitpoint: {file}: database {number}, in {path}, is not in {dict}"));
    }
}

/// Returns the bar for writing; reading has its own.
pub fn bar_of_pairs() -> Progress {
    Progress::of_items("writing", "pair", Some(0))
}

/// Returns the library's result, with a signal reported as the cause if there was one.
pub fn ended<T>(result: splitpoint::Result<T>, bar: &Progress, interrupt: &Interrupt, left: &str) -> Result<T> {
    bar.clear();
    result.map_err(|error| match (error.kind(), interrupt.caught()) {
        (ErrorKind::Stopped, Some(signal)) => Failure::stopped(signal, left),
        _ => error.into(),
    })
}

/// Reports the dictionary that was made, as text or JSON.
pub struct Report<'r> {
    pub path: &'r Path,
    pub read: Read,
    pub start: Instant,
    pub json: bool,
}

impl Report<'_> {
    pub fn report(&self) -> Result<()> {
        let time = self.start.elapsed();
        let stat = Dictionary::open(self.path)?.stat()?;
        let mut out = Output::stdout();
        if self.json {
            return out.json(&self.as_json(&stat, time));
        }
        out.line(&format!("{}: {}", self.path.display(), self.sentence(&stat, time)))
    }

    fn sentence(&self, stat: &DictionaryStat, time: Duration) -> String {
        let mut text = format!(
            "{} in {}, {} pairs/s; data {}, index {} {} ({:.2} bits/key)",
            count_of(stat.pairs, "pair"),
            seconds(time.as_secs_f64()),
            grouped(rate(stat.pairs, time)),
            size(stat.data_bytes),
            stat.index,
            size(stat.index_bytes + stat.ranks_bytes),
            stat.index_bits_per_key
        );
        if self.read.skipped > 0 {
            text.push_str(&format!("; {} skipped", count_of(self.read.skipped, "bad row")));
        }
        if self.read.repeated > 0 {
            text.push_str(&format!("; {} with the key of an earlier one", count_of(self.read.repeated, "row")));
        }
        text
    }

    fn as_json(&self, stat: &DictionaryStat, time: Duration) -> serde_json::Value {
        json!({
            "file": self.path.to_string_lossy(),
            "pairs": stat.pairs,
            "seconds": time.as_secs_f64(),
            "pairs_per_s": rate(stat.pairs, time),
            "input_bytes": self.read.bytes,
            "rows": self.read.rows,
            "rows_skipped": self.read.skipped,
            "rows_repeated": self.read.repeated,
            "file_bytes": stat.file_bytes,
            "data_bytes": stat.data_bytes,
            "index": stat.index,
            "index_bytes": stat.index_bytes,
            "ranks_bytes": stat.ranks_bytes,
            "index_bits_per_key": stat.index_bits_per_key,
        })
    }
}
