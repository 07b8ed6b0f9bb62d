//! `dump`: writes all pairs to standard output; the inverse of `load`.

use super::salvage;
use crate::failure::{Failure, Result};
use crate::format::{About, Format, Pair, WriteFormat, Writer};
use crate::interrupt::{Interrupt, Signal};
use crate::number::count_of;
use crate::open::open_to_read;
use crate::output::{Output, say};
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::source::PairStream;
use splitpoint_server::keyspace::ServedFile;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Bytes of rows that are written together: the capacity of a pipe, so that they are not copied once more.
const WRITE_BYTES: usize = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  splitpoint dump users.spt > users.tsv
  splitpoint dump users.spt --format jsonl | jq .key
  splitpoint dump old.spt --format raw | splitpoint load new.spt - --format raw
  splitpoint dump bad.spt --salvage | splitpoint load new.spt -

Pairs come in no particular order; sort the output to compare two tables. Any bytes make
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
            refuse_terminal(self.format.format.0)?;
            return salvage::run(&self.file, self.format.format.0, self.only_verified);
        }
        let interrupt = Interrupt::watch()?;
        let table = open_to_read(&self.file)?;
        let file = ServedFile::of(&table)?;
        write_all(&self.file, || file.keys_of(table.scan()), table.len(), self.format.format.0, &interrupt)?;
        if file.has_marks() {
            let file = self.file.display();
            say(format_args!("splitpoint: {file}: lifetimes and flags that a server keeps in it are not in the dump"));
        }
        Ok(())
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
    let text = if format == Format::Parquet { are_text(pairs(), interrupt)? } else { (false, false) };
    let file_bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let mut dumping = Dumping {
        file,
        out: Output::stdout(),
        row: Vec::new(),
        rows: 0,
        progress: Progress::of_output("writing", "pair", Some(pairs_total)),
        interrupt,
        stopped_by: None,
    };
    let about = About { file, file_bytes, text };
    let mut writer = Writer::begin(format, &about, &mut dumping.row).map_err(|what| dumping.failed(what))?;
    let all = dumping.all(&mut pairs(), &mut writer);
    // Also after a failure: every pair before it.
    dumping.write()?;
    dumping.progress.clear();
    dumping.out.flush()?;
    let note = all?;
    if let Some(signal) = dumping.stopped_by {
        return Err(Failure::stopped(signal, stopped(dumping.rows, format)));
    }
    if let Some(note) = note {
        say(format_args!("splitpoint: {}: {note}", file.display()));
    }
    Ok(())
}

struct Dumping<'d> {
    file: &'d Path,
    out: Output,
    /// Whole pairs that are not written yet.
    row: Vec<u8>,
    rows: u64,
    progress: Progress,
    interrupt: &'d Interrupt,
    stopped_by: Option<Signal>,
}

impl Dumping<'_> {
    /// Writes pairs up to the end or a signal; returns a note about the file for the user.
    fn all(&mut self, pairs: &mut impl PairStream, writer: &mut Writer) -> Result<Option<String>> {
        while let Some((key, value)) = pairs.next_ref()? {
            let whole = self.row.len();
            if let Err(what) = writer.pair(Pair { key, value }, &mut self.row) {
                self.row.truncate(whole);
                return Err(self.failed(what));
            }
            if self.row.len() >= WRITE_BYTES {
                self.write()?;
            }
            self.rows += 1;
            if self.rows.is_multiple_of(STEPS_PER_TICK) {
                self.progress.at(self.rows);
            }
            self.stopped_by = self.interrupt.caught();
            if self.stopped_by.is_some() {
                return Ok(None);
            }
        }
        writer.end(&mut self.row).map_err(|what| self.failed(what))
    }

    fn write(&mut self) -> Result<()> {
        self.out.write(&self.row)?;
        self.row.clear();
        Ok(())
    }

    fn failed(&self, what: String) -> Failure {
        Failure::no(format_args!("{}: {what}", self.file.display()))
    }
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

/// Refuses to write a binary format to a terminal.
fn refuse_terminal(format: Format) -> Result<()> {
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
