//! `dict update`: merges a batch of pairs and deletions with a dictionary into a new one.

use super::options::{INDEX_HELP, IndexArgs, WorkArgs};
use super::{Report, bar_of_pairs, ended, open, watched};
use crate::cmd::require_directory_of;
use crate::failure::{Failure, Result};
use crate::format::tsv;
use crate::input::{Input, Taken};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::source::{End, FORMATS_HELP, Inputs, SourceArgs, accepted};
use splitpoint::{Dictionary, DictionaryBuilder};
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict update users.spd changes.tsv users.spd
  splitpoint dict update users.spd new.csv changed.csv users2.spd --delete gone.txt
  splitpoint dict update users.spd users.spd --delete gone.txt

OLD is read once and NEW written once, whatever the size of the batch. A pair
replaces an existing pair of its key; the last of several wins. Deletions come
first: a key that is also in a BATCH is present at the end. Pages, compression and
hash function are OLD's, and so are the index without --index and the filter
without --filter. A reader that has OLD open keeps it until it reopens.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{FORMATS_HELP}\n\n{INDEX_HELP}")
}

/// Put and delete many pairs at once, in a new dictionary
#[derive(clap::Args)]
#[command(after_help = after_help(), override_usage = "splitpoint dict update [OPTIONS] OLD [BATCH]... NEW")]
pub struct Update {
    /// The dictionary
    old: PathBuf,
    /// The pairs to put, in the formats of `dict build`; the last argument is the new dictionary, which may be OLD
    #[arg(required = true, value_name = "BATCH]... [NEW")]
    batches_and_new: Vec<PathBuf>,
    /// A file of keys to delete, one per line; \t \n \r \\ \xHH for bytes; empty lines are skipped; - is standard input
    #[arg(long, value_name = "KEYS")]
    delete: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    index: IndexArgs,
    #[command(flatten)]
    work: WorkArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

impl Update {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let start = Instant::now();
        let Some((new, batches)) = self.batches_and_new.split_last() else {
            return Err(Failure::usage("NEW is missing"));
        };
        self.check(batches)?;
        require_directory_of(new)?;
        let mut inputs = Inputs::look(batches, &self.source, &interrupt)?;
        let builder = self.builder()?;
        let bar = bar_of_pairs();
        let mut update = Dictionary::update(&self.old, new, &watched(builder, &interrupt, &bar))?;
        let unchanged = format!("nothing was written, {} is unchanged", new.display());
        if let Some(keys) = &self.delete {
            delete_keys(keys, &mut update, &interrupt, &unchanged)?;
        }
        let end = inputs.feed(&mut |pair, _| accepted(update.put(pair.key, pair.value)))?;
        let rows = count_of(inputs.read.rows, "row");
        match end {
            End::Inputs => {}
            End::Bad(bad) => {
                let advice = if bad.goes_on { "; --on-error skip continues" } else { "" };
                return Err(Failure::no(format_args!("{bad}. Stopped after {rows}, {unchanged}{advice}")));
            }
            End::Signal(signal) => {
                return Err(Failure::stopped(signal, format_args!("{rows} read, {unchanged}")));
            }
        }
        ended(update.finish(), &bar, &interrupt, &unchanged)?;
        Report { path: new, read: inputs.read, start, json: self.json }.report()?;
        inputs.read.refuse_if_all_bad()
    }

    fn check(&self, batches: &[PathBuf]) -> Result<()> {
        if batches.is_empty() && self.delete.is_none() {
            return Err(Failure::usage("nothing to do: give a BATCH before NEW, or --delete KEYS"));
        }
        let stdin = |path: &PathBuf| path.as_os_str() == "-";
        if self.delete.as_ref().is_some_and(stdin) && batches.iter().any(stdin) {
            return Err(Failure::usage("standard input can be read only once; give - once"));
        }
        Ok(())
    }

    fn builder(&self) -> Result<DictionaryBuilder> {
        let old = open(&self.old)?;
        let index = self.index.index()?.unwrap_or_else(|| old.index());
        let filter = self.index.filter.unwrap_or_else(|| old.filter());
        Ok(self.work.bound(DictionaryBuilder::new().index(index).filter(filter)))
    }
}

fn delete_keys(path: &Path, update: &mut splitpoint::Update, interrupt: &Interrupt, unchanged: &str) -> Result<()> {
    let mut input = Input::open(path, interrupt)?;
    let mut key = Vec::new();
    let mut number: u64 = 0;
    loop {
        if let Some(signal) = interrupt.caught() {
            return Err(Failure::stopped(signal, unchanged));
        }
        let line = match input.line()? {
            Taken::Bytes(range) => input.bytes(range),
            Taken::Interrupted => continue,
            Taken::TooLong => {
                let name = &input.name;
                return Err(Failure::no(format_args!("{name}:{}: too long for a key; {unchanged}", number + 1)));
            }
            Taken::Short(_) | Taken::End => return Ok(()),
        };
        number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            // An empty line is more likely a mistake than a wish to delete the empty key.
            continue;
        }
        tsv::unescape(line, &mut key)
            .map_err(|what| Failure::no(format_args!("{}:{number}: {what}; {unchanged}", input.name)))?;
        update.remove(&key)?;
    }
}
