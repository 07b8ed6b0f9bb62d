//! `dump`: writes all pairs to standard output; the inverse of `load`.

use super::{open_to_read, salvage};
use crate::failure::{Failure, Result};
use crate::format::{Format, Pair, write_row};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::output::Output;
use crate::source::PairStream;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Rows between two updates of the progress bar.
const ROWS_PER_TICK: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  splitpoint dump users.spt > users.tsv
  splitpoint dump users.spt --format jsonl | jq .key
  splitpoint dump old.spt --format raw | splitpoint load new.spt - --format raw
  splitpoint dump bad.spt --salvage | splitpoint load new.spt -

Pairs come in hash order; sort the output to compare two tables. Any bytes make
the round trip through `load` in tsv, jsonl and raw; lines gives the keys only.

--salvage reads a file that is damaged, truncated or without a header. It writes
pairs with intact checksums, and pairs whose checksums alone are damaged, and
names on standard error what is lost and why. The exit status is 1 if anything
is, or may be, lost. It reads the file as of its last checkpoint.";

/// Write all pairs to standard output
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Dump {
    /// The table
    file: PathBuf,
    /// How a pair is written
    #[arg(
        long,
        short,
        value_enum,
        default_value = "tsv",
        hide_possible_values = true,
        value_name = "tsv|jsonl|raw|lines"
    )]
    format: Format,
    /// Write what can still be read of a damaged file
    #[arg(long)]
    salvage: bool,
    /// With --salvage: leave out pairs whose checksums are damaged
    #[arg(long, requires = "salvage")]
    only_verified: bool,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        if self.salvage {
            return salvage::run(&self.file, self.format, self.only_verified);
        }
        let interrupt = Interrupt::watch()?;
        let table = open_to_read(&self.file)?;
        write_all(&self.file, table.scan(), table.len(), self.format, &interrupt)
    }
}

/// Writes `pairs`, of the table or dictionary `file`, to standard output.
pub fn write_all(
    file: &Path,
    mut pairs: impl PairStream,
    pairs_total: u64,
    format: Format,
    interrupt: &Interrupt,
) -> Result<()> {
    let progress = progress(pairs_total);
    let mut out = Output::stdout();
    let mut row = Vec::new();
    let mut rows: u64 = 0;
    while let Some((key, value)) = pairs.next_ref()? {
        row.clear();
        write_row(format, Pair { key, value }, &mut row)
            .map_err(|what| Failure::no(format_args!("{}: {what}", file.display())))?;
        out.write(&row)?;
        rows += 1;
        if rows.is_multiple_of(ROWS_PER_TICK) {
            progress.set_position(rows);
        }
        if let Some(signal) = interrupt.caught() {
            out.flush()?;
            return Err(Failure::stopped(signal, format_args!("{} written, all complete", count_of(rows, "row"))));
        }
    }
    progress.finish_and_clear();
    out.flush()
}

/// A progress bar if standard error is a terminal and the rows go elsewhere.
fn progress(pairs: u64) -> ProgressBar {
    if std::io::stdout().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} rows, {per_sec}, {eta} to go");
    ProgressBar::new(pairs).with_style(style.expect("the template is fixed and a test uses it"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_template_is_one() {
        super::progress(1);
    }
}
