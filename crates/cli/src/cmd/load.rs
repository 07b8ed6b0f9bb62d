//! `load`: pairs from a file or pipe into a table.
//!
//! The walk: [`Load::run`] opens both ends, [`Loading::all_rows`] takes row after row to [`Loading::store`], and however it
//! ends (input done, bad row, signal) the table is synced and closed before anything is said.
//! Reading: `input.rs` and `format/`. Rows a second: the table's business; the reader alone does several million.

use crate::failure::{Failure, Result};
use crate::format::{BadRow, Format, Pair, Row, RowReader, tsv};
use crate::input::{Input, ROW_BYTES_MAX};
use crate::interrupt::{Interrupt, Signal};
use crate::number::{count_of, grouped, parse_size, parse_size_u32, rate, seconds, size};
use crate::output::Output;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use splitpoint::{Durability, HashKind, Table, TableOptions};
use std::cell::OnceCell;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bad rows named on standard error before they are only counted.
const BAD_ROWS_NAMED_MAX: u64 = 20;
/// Rows between two looks at the clock of the progress bar.
const ROWS_PER_TICK: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  splitpoint load users.spt users.tsv
  zcat a.jsonl.gz | splitpoint load a.spt - --format jsonl --on-error skip
  splitpoint load words.spt words.txt --format lines --number
  splitpoint load big.spt big.raw --cache 2GiB --expected-len 100000000

Formats (guessed from the name: .jsonl, .ndjson, .json; .raw, .bin; else tsv):
  tsv    key TAB value, a pair a line. \\t \\n \\r \\\\ \\xHH stand for bytes. Later
         tabs belong to the value; blank lines are passed over.
  jsonl  {\"key\": \"...\", \"value\": \"...\"}, a pair a line; key_base64 and
         value_base64 for what is not UTF-8.
  raw    u32 key length, u32 value length (little-endian), key, value.
  lines  the line is the key; the value is empty, or with --number the line's
         number.

The table is made if there is none, and synced at the end. A signal (Ctrl-C)
ends the load after the current row: what was loaded stays, and the place of
the next row is printed.";

/// Load pairs into a table from a file or a pipe
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Load {
    /// The table; made if there is none
    file: PathBuf,
    /// The pairs; - is standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// How pairs are written [default: by the name of INPUT, else tsv]
    #[arg(long, short, value_enum, hide_possible_values = true, value_name = "tsv|jsonl|raw|lines")]
    format: Option<Format>,
    /// With --format lines: the line's number as the value
    #[arg(long)]
    number: bool,
    /// For a key that is there already
    #[arg(long, value_enum, default_value_t = Duplicates::Last, hide_possible_values = true, value_name = "last|first|append|error")]
    duplicates: Duplicates,
    /// At a row that is no pair: stop, or name and count it and go on
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    on_error: OnError,
    /// The longest row; a longer one is a bad row [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value_t = ROW_BYTES_MAX, hide_default_value = true)]
    max_row: u64,
    /// When a row is safe: none, at the end of the load; os, at once if only the program dies; sync, at once
    #[arg(long, value_enum, default_value_t = DurabilityName::None, hide_possible_values = true, value_name = "none|os|sync")]
    durability: DurabilityName,
    /// Bytes of a bucket's page, 512 to 64K (for a new table)
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    page_size: Option<u32>,
    /// Keys a bucket holds before the table grows (for a new table)
    #[arg(long, value_name = "N")]
    fill_factor: Option<u32>,
    /// Make room for so many pairs at once (for a new table)
    #[arg(long, value_name = "N")]
    expected_len: Option<u64>,
    /// Memory for pages, as 64M or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// Hash function (for a new table)
    #[arg(long, value_name = "NAME", value_parser = parse_hash)]
    hash: Option<HashKind>,
    /// Let `splitpoint stat --watch` see what the load does
    #[arg(long)]
    stats: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    /// The value that comes last stays
    Last,
    /// The value that was there stays
    First,
    /// The values are joined
    Append,
    /// The row is a bad row
    Error,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    Stop,
    Skip,
}

#[derive(Clone, Copy, ValueEnum)]
enum DurabilityName {
    None,
    Os,
    Sync,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::None => Self::None,
            DurabilityName::Os => Self::Os,
            DurabilityName::Sync => Self::Sync,
        }
    }
}

pub fn parse_hash(name: &str) -> std::result::Result<HashKind, String> {
    HashKind::from_name(name).ok_or_else(|| {
        let known: Vec<_> = HashKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("the hash functions are {}", known.join(", "))
    })
}

impl Load {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        // The input first: a misspelt name must not leave an empty table behind.
        let mut input = Input::open(&self.input, &interrupt)?;
        input.limit_rows(self.max_row);
        if self.input.as_os_str() == "-" && std::io::stdin().is_terminal() {
            eprintln!("splitpoint: reading pairs from the terminal; Ctrl-D ends them");
        }
        let format = self.format.unwrap_or_else(|| Format::of_path(&self.input));
        if self.number && format != Format::Lines {
            return Err(Failure::usage("--number goes with --format lines"));
        }
        let mut reader = RowReader::new(input, format, self.number);
        // A table that is there is opened before any input is waited for; a new one is made for the first row, so that an
        // input without rows to load leaves none behind. With --stats it is made at once: someone wants to watch it.
        let table = OnceCell::new();
        if self.stats || self.file.exists() {
            self.table(&table)?;
        }
        reader.refuse_binary()?;
        let mut loading = Loading {
            load: &self,
            table,
            duplicates: self.duplicates,
            on_error: self.on_error,
            progress: progress(reader.input().file_bytes),
            interrupt: &interrupt,
            rows: 0,
            skipped: 0,
            start: Instant::now(),
        };
        let end = loading.all_rows(&mut reader)?;
        loading.progress.finish_and_clear();
        if matches!(end, End::Input) {
            self.table(&loading.table)?;
        }
        let table = loading.table.into_inner();
        if let Some(table) = &table {
            table.checkpoint()?;
        }
        let report = Report {
            rows: loading.rows,
            skipped: loading.skipped,
            input_bytes: reader.input().taken_bytes(),
            time: loading.start.elapsed(),
            table_pairs: table.as_ref().map_or(0, Table::len),
        };
        if let Some(table) = table {
            table.close()?;
        }
        self.tell(&report, end, &reader)
    }

    /// The table, opened or made at the first call.
    fn table<'t>(&self, table: &'t OnceCell<Table>) -> Result<&'t Table> {
        if let Some(table) = table.get() {
            return Ok(table);
        }
        super::require_directory_of(&self.file)?;
        let opened = super::opened(&self.file, self.options().open(&self.file))?;
        Ok(table.get_or_init(|| opened))
    }

    fn options(&self) -> TableOptions {
        let mut options = TableOptions::new().create(true).durability(self.durability.into()).publish_stats(self.stats);
        if let Some(bytes) = self.page_size {
            options = options.page_bytes(bytes);
        }
        if let Some(keys) = self.fill_factor {
            options = options.fill_factor(keys);
        }
        if let Some(pairs) = self.expected_len {
            options = options.expected_len(pairs);
        }
        if let Some(bytes) = self.cache {
            options = options.cache_bytes(bytes);
        }
        if let Some(kind) = self.hash {
            options = options.hash(kind);
        }
        options
    }

    fn tell(&self, report: &Report, end: End, reader: &RowReader<'_>) -> Result<()> {
        let file = self.file.display();
        let mut out = Output::stdout();
        if self.json {
            out.json(&self.report_json(report, &end))?;
        } else if matches!(end, End::Input) {
            out.line(&format!("{file}: {}", report.sentence()))?;
        }
        let rows = count_of(report.rows, "row");
        match end {
            End::Input => Ok(()),
            End::Bad(bad) => {
                let advice = if bad.goes_on { "; --on-error skip goes on" } else { "" };
                Err(Failure::no(format_args!("{bad}. Stopped with {rows} before it in {file}{advice}")))
            }
            End::Signal(signal) => {
                Err(Failure::stopped(signal, format_args!("{rows} in {file}; the next is {}", reader.next_place())))
            }
        }
    }

    fn report_json(&self, report: &Report, end: &End) -> serde_json::Value {
        json!({
            "file": self.file.to_string_lossy(),
            "rows": report.rows,
            "rows_skipped": report.skipped,
            "input_bytes": report.input_bytes,
            "seconds": report.time.as_secs_f64(),
            "rows_per_s": rate(report.rows, report.time),
            "table_pairs": report.table_pairs,
            "stopped_by": match end {
                End::Input => None,
                End::Bad(bad) => Some(bad.to_string()),
                End::Signal(signal) => Some(signal.to_string()),
            },
        })
    }
}

/// Why the rows came to an end.
enum End {
    Input,
    Bad(BadRow),
    Signal(Signal),
}

struct Report {
    rows: u64,
    skipped: u64,
    input_bytes: u64,
    time: Duration,
    table_pairs: u64,
}

impl Report {
    fn sentence(&self) -> String {
        let time = self.time.as_secs_f64();
        let mut text = format!("{} ({}) in {}", count_of(self.rows, "row"), size(self.input_bytes), seconds(time));
        text.push_str(&format!(", {} rows/s", grouped(rate(self.rows, self.time))));
        if self.skipped > 0 {
            text.push_str(&format!("; {} skipped", count_of(self.skipped, "bad row")));
        }
        if self.table_pairs != self.rows {
            text.push_str(&format!("; the table holds {}", count_of(self.table_pairs, "pair")));
        }
        text
    }
}

struct Loading<'l> {
    load: &'l Load,
    table: OnceCell<Table>,
    duplicates: Duplicates,
    on_error: OnError,
    progress: ProgressBar,
    interrupt: &'l Interrupt,
    rows: u64,
    skipped: u64,
    start: Instant,
}

impl Loading<'_> {
    fn all_rows(&mut self, reader: &mut RowReader<'_>) -> Result<End> {
        loop {
            if let Some(signal) = self.interrupt.caught() {
                return Ok(End::Signal(signal));
            }
            let refused = match reader.next_row()? {
                Row::Pair(pair, _) => {
                    self.store(pair)?.map(|what| BadRow { place: reader.place(), what, goes_on: true })
                }
                Row::Bad(bad) => Some(bad),
                // The signal is on its way to the flag.
                Row::Interrupted => continue,
                Row::End => return Ok(End::Input),
            };
            match refused {
                None => self.rows += 1,
                Some(bad) if self.on_error == OnError::Stop || !bad.goes_on => return Ok(End::Bad(bad)),
                Some(bad) => self.skip(&bad),
            }
            if (self.rows + self.skipped).is_multiple_of(ROWS_PER_TICK) {
                self.tick(reader);
            }
        }
    }

    /// `Some` reason for a pair that may not go in.
    fn store(&self, pair: Pair<'_>) -> Result<Option<String>> {
        let table = self.load.table(&self.table)?;
        match self.duplicates {
            Duplicates::Last => table.put(pair.key, pair.value)?,
            Duplicates::Append => table.append(pair.key, pair.value)?,
            Duplicates::First => {
                table.insert(pair.key, pair.value)?;
            }
            Duplicates::Error => {
                if !table.insert(pair.key, pair.value)? {
                    let key = tsv::quoted(pair.key);
                    return Ok(Some(format!("duplicate key {key}; --duplicates last, first or append takes it")));
                }
            }
        }
        Ok(None)
    }

    fn skip(&mut self, bad: &BadRow) {
        self.skipped += 1;
        self.progress.suspend(|| {
            if self.skipped <= BAD_ROWS_NAMED_MAX {
                eprintln!("splitpoint: {bad}");
            } else if self.skipped == BAD_ROWS_NAMED_MAX + 1 {
                eprintln!("splitpoint: further bad rows are counted only");
            }
        });
    }

    fn tick(&self, reader: &RowReader<'_>) {
        self.progress.set_position(reader.input().taken_bytes());
        self.progress.set_message(format!(
            "{}, {} rows/s",
            count_of(self.rows, "row"),
            grouped(rate(self.rows, self.start.elapsed()))
        ));
    }
}

/// A bar for a file, whose end is known; a spinner for a pipe. Hidden by itself where standard error is no terminal.
fn progress(input_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match input_bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {eta} to go, {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are fixed and tried by the tests"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_templates_are_some() {
        super::progress(None);
        super::progress(Some(1));
    }
}
