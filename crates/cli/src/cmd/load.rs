//! `load`: stores pairs from a file or pipe in a table.
//!
//! [`Load::run`] opens both ends; [`Loading::all_rows`] passes each row to [`Loading::store`]. However it ends (input
//! done, bad row, signal), the table is synced and closed before anything is printed. Reading: `input.rs` and
//! `format/`. The table limits the speed; the reader alone does several million rows/s.

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

/// Bad rows named on standard error; more are only counted.
const BAD_ROWS_NAMED_MAX: u64 = 20;
/// Rows between two updates of the progress bar.
const ROWS_PER_TICK: u64 = 1024;

const EXAMPLES: &str = "\
Examples:
  splitpoint load users.spt users.tsv
  zcat a.jsonl.gz | splitpoint load a.spt - --format jsonl --on-error skip
  splitpoint load words.spt words.txt --format lines --number
  splitpoint load big.spt big.raw --cache 2GiB --expected-len 100000000

Formats (guessed from the name: .jsonl, .ndjson, .json; .raw, .bin; else tsv):
  tsv    key TAB value, one pair per line. \\t \\n \\r \\\\ \\xHH are escapes. Later
         tabs belong to the value; blank lines are skipped.
  jsonl  {\"key\": \"...\", \"value\": \"...\"}, one pair per line; key_base64 and
         value_base64 for bytes that are not UTF-8.
  raw    u32 key length, u32 value length (little-endian), key, value.
  lines  the line is the key; the value is empty, or with --number the line's
         number.

A missing table is created; the table is synced at the end. A signal (Ctrl-C)
ends the load after the current row: loaded rows stay, and the place of the next
row is printed. Compressed files and databases are refused before any row is
stored.";

/// Load pairs into a table from a file or a pipe
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Load {
    /// The table; created if missing
    file: PathBuf,
    /// The pairs; - is standard input
    #[arg(default_value = "-")]
    input: PathBuf,
    /// The format of the pairs [default: by the name of INPUT, else tsv]
    #[arg(long, short, value_enum, hide_possible_values = true, value_name = "tsv|jsonl|raw|lines")]
    format: Option<Format>,
    /// With --format lines: store the line's number as the value
    #[arg(long)]
    number: bool,
    /// What to do with a key that exists
    #[arg(
        long,
        value_enum,
        default_value_t = Duplicates::Last,
        hide_possible_values = true,
        value_name = "last|first|append|error"
    )]
    duplicates: Duplicates,
    /// At a row that is not a pair: stop, or name it, count it and continue
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    on_error: OnError,
    /// The longest row; a longer one is a bad row [default: 1GiB]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_size,
        default_value_t = ROW_BYTES_MAX,
        hide_default_value = true
    )]
    max_row: u64,
    /// When a row is durable: none, at the end of the load; os, at once unless the system fails; sync, at once
    #[arg(
        long,
        value_enum,
        default_value_t = DurabilityName::None,
        hide_possible_values = true,
        value_name = "none|os|sync"
    )]
    durability: DurabilityName,
    /// Bytes of a primary page, 512 to 64K (for a new table)
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    page_size: Option<u32>,
    /// Keys per bucket above which the table grows (for a new table)
    #[arg(long, value_name = "N")]
    fill_factor: Option<u32>,
    /// Allocate buckets for this many pairs at once (for a new table)
    #[arg(long, value_name = "N")]
    expected_len: Option<u64>,
    /// Memory for the buffer pool, as 64M or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
    /// Hash function (for a new table)
    #[arg(long, value_name = "NAME", value_parser = parse_hash)]
    hash: Option<HashKind>,
    /// Let `splitpoint stat --watch` show the load's counters
    #[arg(long)]
    stats: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Duplicates {
    /// The last value wins
    Last,
    /// The first value stays
    First,
    /// The values are concatenated
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
        // Open the input first: a misspelt name must not leave an empty table behind.
        let mut input = Input::open(&self.input, &interrupt)?;
        input.limit_rows(self.max_row);
        if self.input.as_os_str() == "-" && std::io::stdin().is_terminal() {
            eprintln!("splitpoint: reading pairs from the terminal; end with Ctrl-D");
        }
        let format = self.format.unwrap_or_else(|| Format::of_path(&self.input));
        if self.number && format != Format::Lines {
            return Err(Failure::usage("--number needs --format lines"));
        }
        let mut reader = RowReader::new(input, format, self.number);
        // Open an existing table before waiting for any input. Create a new one for its first row, so that an input
        // without rows leaves no table behind; with --stats at once, so that it can be watched.
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
        let end = loading.all_rows(&mut reader).map_err(|failure| match loading.rows {
            0 => failure,
            rows => failure.and(self.left_by_failure(rows)),
        })?;
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
        self.report(&report, end, &reader)
    }

    /// The table, opened or created on the first call.
    fn table<'t>(&self, table: &'t OnceCell<Table>) -> Result<&'t Table> {
        if let Some(table) = table.get() {
            return Ok(table);
        }
        super::require_directory_of(&self.file)?;
        let opened = super::opened(&self.file, self.options().open(&self.file))?;
        Ok(table.get_or_init(|| opened))
    }

    fn options(&self) -> TableOptions {
        let mut options =
            TableOptions::new().create(true).durability(self.durability.into()).publish_counters(self.stats);
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

    /// What is in the table after the library failed.
    fn left_by_failure(&self, rows: u64) -> String {
        let (file, rows) = (self.file.display(), count_of(rows, "row"));
        match self.durability {
            DurabilityName::None => {
                format!(
                    "Stopped after {rows}; those since the last checkpoint may not be in {file}, so load them again"
                )
            }
            DurabilityName::Os | DurabilityName::Sync => format!("Stopped after {rows}, all of them in {file}"),
        }
    }

    fn report(&self, report: &Report, end: End, reader: &RowReader<'_>) -> Result<()> {
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
                let advice = match (bad.goes_on, report.rows, self.format) {
                    (false, ..) => "",
                    // A wrong guess of the format shows in the first row.
                    (true, 0, None) => {
                        "; --format lines, jsonl or raw reads other rows, `splitpoint dict build` also csv and parquet"
                    }
                    (true, ..) => "; --on-error skip continues",
                };
                Err(Failure::no(format_args!("{bad}. Stopped after {rows} in {file}{advice}")))
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

/// Why there are no more rows.
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
                // The flag is about to show the signal.
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

    /// `Some` reason if the pair may not be stored.
    fn store(&self, pair: Pair<'_>) -> Result<Option<String>> {
        let table = self.load.table(&self.table)?;
        match self.duplicates {
            Duplicates::Last => table.put(pair.key, pair.value)?,
            Duplicates::Append => table.append(pair.key, pair.value).map(drop)?,
            Duplicates::First => {
                table.insert(pair.key, pair.value)?;
            }
            Duplicates::Error => {
                if !table.insert(pair.key, pair.value)? {
                    let key = tsv::quoted(pair.key);
                    return Ok(Some(format!("duplicate key {key}; --duplicates last, first or append accepts it")));
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
                eprintln!("splitpoint: further bad rows are only counted");
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

/// A bar for a file, a spinner for a pipe of unknown length. Hidden where standard error is not a terminal.
fn progress(input_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match input_bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {eta} to go, {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are fixed and a test uses them"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_templates_are_some() {
        super::progress(None);
        super::progress(Some(1));
    }
}
