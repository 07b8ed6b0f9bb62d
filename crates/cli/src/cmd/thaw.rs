//! `thaw`: a dictionary becomes a table.
//!
//! A new table has the dictionary's hash function, so that pairs come bucket after bucket. It is made in a folder of its own, where
//! nobody else's files are, and gets its name when it is complete; a table that is there takes the pairs one batch after another, as `load` does.

use super::{dict, open_to_change, require_directory_of};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size_u32, rate, seconds};
use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use splitpoint::{Dictionary, HashKind, Table, TableOptions};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, io};
use tempfile::TempDir;

/// Pairs put into the table together.
const BATCH: usize = 256;

const EXAMPLES: &str = "\
Examples:
  splitpoint thaw users.spd users.spt

A table that is there keeps its other pairs. A signal (Ctrl-C) ends it: a new
table is then not there, and one that was there keeps what it was given. Until
it is complete a new table is in a folder FILE-thaw-* of its own; one that a
killed thaw left may be removed.";

/// Put all pairs of a dictionary into a table
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Thaw {
    /// The dictionary
    dict: PathBuf,
    /// The table; made if there is none
    file: PathBuf,
    /// Bytes of a bucket's page, 512 to 64K (for a new table)
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    page_size: Option<u32>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Thaw {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let dictionary = dict::open(&self.dict)?;
        require_directory_of(&self.file)?;
        let table_pairs = match self.file.symlink_metadata() {
            Ok(_) => {
                let table = open_to_change(&self.file)?;
                let file = self.file.display();
                fill(&dictionary, &table, &interrupt, |pairs| format!("{pairs} in {file}"))?;
                closed(table)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make(&dictionary, &interrupt)?,
            Err(error) => return Err(Failure::io(self.file.display(), &error)),
        };
        self.tell(dictionary.len(), table_pairs, start)
    }

    /// A whole table or none.
    fn make(&self, dictionary: &Dictionary, interrupt: &Interrupt) -> Result<u64> {
        let file = self.file.display();
        let failed = |error: io::Error| Failure::io(&file, &error);
        let unfinished = folder_beside(&self.file).map_err(failed)?;
        let path = unfinished.path().join(self.file.file_name().unwrap_or_default());
        let table = self.options(dictionary)?.open(&path)?;
        fill(dictionary, &table, interrupt, |_| format!("{file} was not made"))?;
        let pairs = closed(table)?;
        // A link is made only where there is nothing, unlike a rename; not every file system has links.
        let named = fs::hard_link(&path, &self.file).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::rename(&path, &self.file),
        });
        named.and_then(|()| fs::File::open(directory_of(&self.file))?.sync_all()).map_err(failed)?;
        Ok(pairs)
    }

    fn options(&self, dictionary: &Dictionary) -> Result<TableOptions> {
        let hash = dictionary.hash();
        if hash.kind() == HashKind::User {
            let name = self.dict.display();
            return Err(Failure::usage(format_args!("{name}: has a hash function that this program does not know")));
        }
        let options = TableOptions::new().create(true).hash(hash.kind()).seed(hash.seed());
        Ok(match self.page_size {
            Some(bytes) => options.page_bytes(bytes),
            None => options,
        })
    }

    fn tell(&self, pairs: u64, table_pairs: u64, start: Instant) -> Result<()> {
        let time = start.elapsed();
        let mut out = Output::stdout();
        if self.json {
            return out.json(&json!({
                "file": self.file.to_string_lossy(),
                "pairs": pairs,
                "seconds": time.as_secs_f64(),
                "pairs_per_s": rate(pairs, time),
                "table_pairs": table_pairs,
            }));
        }
        let mut text = format!(
            "{}: {} in {}, {} pairs/s",
            self.file.display(),
            count_of(pairs, "pair"),
            seconds(time.as_secs_f64()),
            grouped(rate(pairs, time))
        );
        if table_pairs != pairs {
            text.push_str(&format!("; the table holds {}", count_of(table_pairs, "pair")));
        }
        out.line(&text)
    }
}

/// Syncs; gives how many pairs there are.
fn closed(table: Table) -> Result<u64> {
    table.checkpoint()?;
    let pairs = table.len();
    table.close()?;
    Ok(pairs)
}

/// Puts all pairs; `left` says after a signal what came of so many.
fn fill(dictionary: &Dictionary, table: &Table, interrupt: &Interrupt, left: impl Fn(&str) -> String) -> Result<()> {
    let bar = bar(dictionary.len());
    let mut pairs = dictionary.iter();
    let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(BATCH);
    let mut count: u64 = 0;
    loop {
        batch.clear();
        while batch.len() < BATCH
            && let Some((key, value)) = pairs.next_ref()?
        {
            batch.push((key.to_vec(), value.to_vec()));
        }
        if batch.is_empty() {
            bar.finish_and_clear();
            return Ok(());
        }
        table.put_many(&batch)?;
        count += batch.len() as u64;
        bar.set_position(count);
        if let Some(signal) = interrupt.caught() {
            bar.finish_and_clear();
            table.checkpoint()?;
            return Err(Failure::stopped(signal, left(&count_of(count, "pair"))));
        }
    }
}

/// An empty folder on the file system of `path`, which is gone with all that is in it at the end.
fn folder_beside(path: &Path) -> io::Result<TempDir> {
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push("-thaw-");
    tempfile::Builder::new().prefix(&prefix).tempdir_in(directory_of(path))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn bar(pairs: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} pairs, {per_sec}, {eta} to go");
    ProgressBar::new(pairs).with_style(style.expect("the template is fixed and tried by the tests"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn bar_template_is_one() {
        super::bar(1);
    }
}
