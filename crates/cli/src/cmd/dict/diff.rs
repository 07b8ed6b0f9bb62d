//! `dict diff`: writes what changed between two dictionaries, in the form that `dict update --changes` reads.

use super::ended;
use crate::cmd::dictionary::{PartArgs, open};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::{Pair, tsv};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::output::{Output, say};
use crate::progress::Progress;
use splitpoint::dictionary::Change;
use std::path::PathBuf;

/// Lines written together.
const WRITE_BYTES: usize = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  splitpoint dict diff monday.spd tuesday.spd > changes
  splitpoint dict update replica.spd --changes changes replica.spd
  splitpoint dict diff monday.spd tuesday.spd --part 3/16 > changes

A line is +KEY TAB VALUE for a key that NEW has with this value, and OLD without it
or with another value; -KEY for a key that only OLD has. The last line is = and the
number of lines before it, so that `dict update` refuses changes that were cut off.
Keys and values are escaped as in TSV. Both files are read once, in sequence, in hash order; shards
that OLD and NEW share are not read. They need the same hash function and seed,
and the same shards. For other files see `splitpoint diff`.";

/// Write what changed between two dictionaries
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Diff {
    /// The older dictionary
    old: PathBuf,
    /// The newer one
    new: PathBuf,
    #[command(flatten)]
    part: PartArgs,
}

#[derive(Default)]
struct Found {
    added: u64,
    replaced: u64,
    removed: u64,
    failed: Option<Failure>,
}

impl Diff {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let (old, new) = (open(&self.old)?, open(&self.new)?);
        let bar = Progress::of_output("comparing", "pair", Some(self.part.of(old.len() + new.len())));
        let (stop, shown) = (interrupt.breaker(), bar.clone());
        let diff = old.diff_range(&new, self.part.positions())?.progress(move |pairs| {
            shown.at(pairs);
            stop()
        });
        let mut found = Found::default();
        let mut out = Output::stdout();
        let written = found.write(diff, &mut out);
        // Also after a failure, print the whole lines so far.
        out.flush()?;
        let lines = count_of(found.count(), "line");
        ended(written, &bar, &interrupt, &format!("{lines} written, not all changes"))?;
        let Found { added, replaced, removed, failed } = found;
        failed.map_or(Ok(()), Err)?;
        say(format_args!("{} added, {} replaced, {} removed", grouped(added), grouped(replaced), grouped(removed)));
        Ok(())
    }
}

impl Found {
    /// Writes all changes; keeps the first write error.
    fn write(&mut self, mut diff: splitpoint::dictionary::Diff, out: &mut Output) -> splitpoint::Result<()> {
        let mut rows = Vec::new();
        let ended = loop {
            match diff.next_ref() {
                Ok(Some(change)) => self.note(&change, &mut rows),
                Ok(None) => {
                    rows.extend_from_slice(format!("={}\n", self.count()).as_bytes());
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
            if rows.len() >= WRITE_BYTES {
                self.failed = out.write(&rows).err();
                rows.clear();
            }
            if self.failed.is_some() {
                return Ok(());
            }
        };
        // Write the counted lines also after a signal.
        self.failed = out.write(&rows).err();
        ended
    }

    fn count(&self) -> u64 {
        self.added + self.replaced + self.removed
    }

    fn note(&mut self, change: &Change<'_>, rows: &mut Vec<u8>) {
        *match change {
            Change::Added { .. } => &mut self.added,
            Change::Removed { .. } => &mut self.removed,
            Change::Replaced { .. } => &mut self.replaced,
        } += 1;
        match change.value() {
            Some(value) => {
                rows.push(b'+');
                tsv::write(Pair { key: change.key(), value }, rows);
            }
            None => {
                rows.push(b'-');
                escapes::escape(change.key(), rows);
                rows.push(b'\n');
            }
        }
    }
}
