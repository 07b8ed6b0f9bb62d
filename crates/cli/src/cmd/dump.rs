//! `dump`: writes all pairs to standard output; the inverse of `load`.

use super::{open_to_read, salvage};
use crate::failure::{Failure, Result};
use crate::format::{About, Format, Pair, WriteFormat, Writer};
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::output::Output;
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::source::PairStream;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

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
    #[command(flatten)]
    format: FormatArgs,
    /// Write what can still be read of a damaged file
    #[arg(long)]
    salvage: bool,
    /// With --salvage: leave out pairs whose checksums are damaged
    #[arg(long, requires = "salvage")]
    only_verified: bool,
}

/// How pairs are written, for tables and dictionaries.
#[derive(clap::Args)]
pub struct FormatArgs {
    /// How a pair is written: tsv, csv, jsonl, raw, lines, parquet, sql, gdbm, gdbm-flat, db, db-hex, mdb or cdbmake
    #[arg(long, short, value_enum, default_value = "tsv", hide_possible_values = true, value_name = "FORMAT")]
    pub format: WriteFormat,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        if self.salvage {
            return salvage::run(&self.file, self.format.format.0, self.only_verified);
        }
        let interrupt = Interrupt::watch()?;
        let table = open_to_read(&self.file)?;
        write_all(&self.file, || table.scan(), table.len(), self.format.format.0, &interrupt)
    }
}

/// Writes the pairs of the table or dictionary `file` to standard output.
pub fn write_all<P: PairStream>(
    file: &Path,
    pairs: impl Fn() -> P,
    pairs_total: u64,
    format: Format,
    interrupt: &Interrupt,
) -> Result<()> {
    refuse_terminal(format)?;
    let failed = |what: String| Failure::no(format_args!("{}: {what}", file.display()));
    let text = if format == Format::Parquet { are_text(pairs(), interrupt)? } else { (false, false) };
    let file_bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let progress = Progress::of_output("writing", "pair", Some(pairs_total));
    let mut out = Output::stdout();
    let mut row = Vec::new();
    let mut rows: u64 = 0;
    let mut writer = Writer::begin(format, &About { file, file_bytes, text }, &mut row).map_err(failed)?;
    let mut pairs = pairs();
    while let Some((key, value)) = pairs.next_ref()? {
        writer.pair(Pair { key, value }, &mut row).map_err(failed)?;
        out.write(&row)?;
        row.clear();
        rows += 1;
        if rows.is_multiple_of(STEPS_PER_TICK) {
            progress.at(rows);
        }
        if let Some(signal) = interrupt.caught() {
            out.flush()?;
            return Err(Failure::stopped(signal, stopped(rows, format)));
        }
    }
    let note = writer.end(&mut row).map_err(failed)?;
    out.write(&row)?;
    progress.clear();
    out.flush()?;
    if let Some(note) = note {
        eprintln!("splitpoint: {}: {note}", file.display());
    }
    Ok(())
}

fn stopped(rows: u64, format: Format) -> String {
    let rows = count_of(rows, "row");
    match format {
        Format::Tsv | Format::Csv | Format::Jsonl | Format::Raw | Format::Lines => {
            format!("{rows} written, all complete")
        }
        _ => format!("{rows} written, without the end that {} has", format.name()),
    }
}

/// Bytes that a terminal does not show.
pub fn refuse_terminal(format: Format) -> Result<()> {
    if matches!(format, Format::Parquet) && std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "Parquet is no text for a terminal; write it to a file, as in `... > FILE.parquet`",
        ));
    }
    Ok(())
}

/// Whether all keys and all values are UTF-8.
fn are_text(mut pairs: impl PairStream, interrupt: &Interrupt) -> Result<(bool, bool)> {
    let (mut keys, mut values) = (true, true);
    while keys || values {
        interrupt.stop_if_caught("nothing was written")?;
        let Some((key, value)) = pairs.next_ref()? else { break };
        keys = keys && std::str::from_utf8(key).is_ok();
        values = values && std::str::from_utf8(value).is_ok();
    }
    Ok((keys, values))
}
