//! Where pairs come from: files of rows, columns of CSV or Parquet, tables, other dictionaries; several after one another.
//!
//! ```text
//! Inputs::look(paths)  -> each is there, what it is, how many bytes      before any work
//! Inputs::feed(take)   -> opens one after the other, gives each pair and its place to `take`
//! ```
//!
//! A *place* is a number that ascends over all inputs: where the input begins plus the row's number in it. [`Places`] names it
//! again, `pairs.tsv:17`, when a pair is found to be wrong long after it was read.
//! What a table or a dictionary is tells its content, what the rest is tells `--format`, else the name.

pub mod columns;
mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod stored;

use crate::cmd::dict::is_dictionary;
use crate::cmd::{is_table, open_to_read};
use crate::failure::{Failure, Result};
use crate::format::{BadRow, Format, Pair, Row, RowReader};
use crate::input::Input;
use crate::interrupt::{Interrupt, Signal};
use crate::number::{count_of, grouped, rate};
use columns::{Columns, TsvColumns};
use indicatif::{ProgressBar, ProgressStyle};
use splitpoint::{Dictionary, ErrorKind};
use std::hash::Hash;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
pub use stored::PairStream;

/// Bad rows named on standard error before they are only counted.
const BAD_ROWS_NAMED_MAX: u64 = 20;
/// Rows between two looks at the clock of the progress bar.
const ROWS_PER_TICK: u64 = 1024;

/// The rows of one input, one at a time.
pub trait Source {
    fn next_row(&mut self) -> Result<Row<'_>>;
    /// Of the row given last, from 1.
    fn number(&self) -> u64;
    /// Bytes of the input behind us, as far as can be told.
    fn taken_bytes(&self) -> u64;
}

impl Source for RowReader<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        RowReader::next_row(self)
    }

    fn number(&self) -> u64 {
        RowReader::number(self)
    }

    fn taken_bytes(&self) -> u64 {
        self.input().taken_bytes()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum SourceFormat {
    Tsv,
    Csv,
    Jsonl,
    Raw,
    Lines,
    Parquet,
}

impl SourceFormat {
    fn of_path(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Self::Csv,
            Some("parquet" | "pq") => Self::Parquet,
            _ => match Format::of_path(path) {
                Format::Tsv => Self::Tsv,
                Format::Jsonl => Self::Jsonl,
                Format::Raw => Self::Raw,
                Format::Lines => Self::Lines,
            },
        }
    }

    /// The format of rows without columns to choose from.
    fn of_rows(self) -> Option<Format> {
        match self {
            Self::Tsv => Some(Format::Tsv),
            Self::Jsonl => Some(Format::Jsonl),
            Self::Raw => Some(Format::Raw),
            Self::Lines => Some(Format::Lines),
            Self::Csv | Self::Parquet => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnError {
    Stop,
    Skip,
}

/// How inputs are read; the same for `dict build` and `dict update`.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// How pairs are written [default: by the name of INPUT, else tsv]
    #[arg(long, short, value_enum, hide_possible_values = true, value_name = "tsv|csv|jsonl|raw|lines|parquet")]
    format: Option<SourceFormat>,
    /// The keys' column, by name or number from 1 (csv, tsv, parquet) [default: the first]
    #[arg(long, value_name = "COLUMN", value_parser = columns::parse_column)]
    key: Option<columns::Column>,
    /// The values' column [default: the second]
    #[arg(long, value_name = "COLUMN", value_parser = columns::parse_column)]
    value: Option<columns::Column>,
    /// With csv: the first line is a pair too, and columns have numbers only
    #[arg(long)]
    no_header: bool,
    /// With --format lines: the line's number as the value
    #[arg(long)]
    number: bool,
    /// At a row that is no pair: stop, or name and count it and go on
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    on_error: OnError,
}

/// The formats and columns, told in the help of every command that reads pairs.
pub const FORMATS_HELP: &str = "\
An INPUT that is a table or a dictionary is known by its content. Others, by
--format or their names (.csv; .jsonl, .ndjson, .json; .raw, .bin; .parquet,
.pq; else tsv):
  tsv      key TAB value, a pair a line. \\t \\n \\r \\\\ \\xHH stand for bytes. Later
           tabs belong to the value; with --key or --value each tab ends a
           column, and if one is a name the first line has the names.
  csv      comma-separated, quotes as in RFC 4180; the first line has the names.
  jsonl    {\"key\": \"...\", \"value\": \"...\"}, a pair a line; key_base64 and
           value_base64 for what is not UTF-8.
  raw      u32 key length, u32 value length (little-endian), key, value.
  lines    the line is the key; the value is empty, or with --number the line's
           number.
  parquet  columns of bytes or strings as they are, of integers as decimal
           text; a null is a bad row.";

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Dictionary,
    Rows(SourceFormat),
}

pub struct InputFile {
    pub path: PathBuf,
    pub kind: Kind,
    /// Of a regular file; `None` for pipes.
    pub bytes: Option<u64>,
}

impl InputFile {
    fn look(path: &Path, format: Option<SourceFormat>) -> Result<Self> {
        let format = format.unwrap_or_else(|| SourceFormat::of_path(path));
        let rows = |bytes| Self { path: path.to_owned(), kind: Kind::Rows(format), bytes };
        if path.as_os_str() == "-" {
            return Ok(rows(None));
        }
        let metadata = path.metadata().map_err(|error| Failure::io(path.display(), &error))?;
        if metadata.is_dir() && is_dictionary(path) {
            // In shards. Its bytes are in many files, so the bar has none to count.
            return Ok(Self { kind: Kind::Dictionary, ..rows(None) });
        }
        if metadata.is_dir() {
            return Err(Failure::usage(format_args!(
                "{}: is a directory; give a file of pairs, or - for standard input",
                path.display()
            )));
        }
        if !metadata.is_file() {
            return Ok(rows(None));
        }
        let kind = match () {
            () if metadata.len() == 0 => Kind::Rows(format),
            () if is_dictionary(path) => Kind::Dictionary,
            () if is_table(path) => Kind::Table,
            () => Kind::Rows(format),
        };
        Ok(Self { kind, ..rows(Some(metadata.len())) })
    }

    fn origin(&self) -> Origin {
        let name = if self.path.as_os_str() == "-" { "stdin".to_owned() } else { self.path.display().to_string() };
        let unit = match self.kind {
            Kind::Table | Kind::Dictionary => Unit::None,
            Kind::Rows(SourceFormat::Raw) => Unit::Pair,
            Kind::Rows(SourceFormat::Parquet) => Unit::Row,
            Kind::Rows(_) => Unit::Line,
        };
        Origin { name, unit }
    }
}

/// An input as messages call it, and what its rows are counted in.
#[derive(Clone, Debug)]
pub struct Origin {
    name: String,
    unit: Unit,
}

#[derive(Clone, Copy, Debug)]
enum Unit {
    Line,
    Pair,
    Row,
    None,
}

impl Origin {
    fn place(&self, number: u64) -> String {
        let name = &self.name;
        match self.unit {
            Unit::Line => format!("{name}:{number}"),
            Unit::Pair => format!("{name}: pair {number}"),
            Unit::Row => format!("{name}: row {number}"),
            Unit::None => name.clone(),
        }
    }
}

/// Names places: which input begins where.
#[derive(Clone, Default)]
pub struct Places(Arc<Mutex<Vec<(u64, Origin)>>>);

impl Places {
    fn begin(&self, before: u64, origin: Origin) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((before, origin));
    }

    /// `pairs.tsv:17`.
    pub fn name(&self, place: u64) -> String {
        let inputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = inputs.partition_point(|(before, _)| *before < place);
        match begun.checked_sub(1).and_then(|at| inputs.get(at)) {
            Some((before, origin)) => origin.place(place - before),
            None => format!("row {place}"),
        }
    }
}

/// Why there are no more rows.
pub enum End {
    Inputs,
    Bad(BadRow),
    Signal(Signal),
}

/// What has been read.
#[derive(Clone, Copy, Default)]
pub struct Read {
    pub rows: u64,
    pub skipped: u64,
    pub bytes: u64,
}

/// All inputs of one command.
pub struct Inputs<'i> {
    pub files: Vec<InputFile>,
    args: &'i SourceArgs,
    interrupt: &'i Interrupt,
    pub places: Places,
    pub read: Read,
    /// Places given to inputs that are done.
    places_before: u64,
    bar: ProgressBar,
    start: Instant,
}

impl<'i> Inputs<'i> {
    /// # Errors
    /// A name that is not there, a directory, standard input twice, options that do not go with a format.
    pub fn look(paths: &[PathBuf], args: &'i SourceArgs, interrupt: &'i Interrupt) -> Result<Self> {
        let files: Vec<_> = paths.iter().map(|path| InputFile::look(path, args.format)).collect::<Result<_>>()?;
        for file in &files {
            args.check(file)?;
        }
        let stdins = paths.iter().filter(|path| path.as_os_str() == "-").count();
        if stdins > 1 {
            return Err(Failure::usage("standard input can be read once; give - once"));
        }
        if stdins == 1 && std::io::stdin().is_terminal() {
            eprintln!("splitpoint: reading pairs from the terminal; Ctrl-D ends them");
        }
        let bar = bar_of_bytes(files.iter().map(|file| file.bytes).sum());
        Ok(Self {
            files,
            args,
            interrupt,
            places: Places::default(),
            read: Read::default(),
            places_before: 0,
            bar,
            start: Instant::now(),
        })
    }

    /// Gives every pair, and its place, to `take`, which may refuse it with [`ErrorKind::TooLong`]: a bad row.
    ///
    /// # Errors
    /// What reading or `take` comes to. Bad rows and signals are no errors but an [`End`].
    pub fn feed(&mut self, take: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>) -> Result<End> {
        for index in 0..self.files.len() {
            self.places.begin(self.places_before, self.files[index].origin());
            let end = self.feed_file(index, take)?;
            if !matches!(end, End::Inputs) {
                self.bar.finish_and_clear();
                return Ok(end);
            }
        }
        self.bar.finish_and_clear();
        Ok(End::Inputs)
    }

    fn feed_file(
        &mut self,
        index: usize,
        take: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>,
    ) -> Result<End> {
        let InputFile { path, kind, bytes } = &self.files[index];
        let (path, bytes) = (path.clone(), bytes.unwrap_or(0));
        match *kind {
            Kind::Dictionary => {
                let dictionary = Dictionary::open(&path)?;
                let pairs = dictionary.len();
                self.feed_rows(&mut stored::Stored::new(dictionary.iter(), pairs, bytes), take)
            }
            Kind::Table => {
                let table = open_to_read(&path)?;
                let pairs = table.len();
                self.feed_rows(&mut stored::Stored::new(table.scan(), pairs, bytes), take)
            }
            Kind::Rows(SourceFormat::Parquet) => self.feed_parquet(&path, take),
            Kind::Rows(format) => {
                let input = Input::open(&path, self.interrupt)?;
                match format.of_rows() {
                    Some(Format::Tsv) if self.args.columns_chosen() => {
                        self.feed_rows(&mut TsvColumns::new(input, self.args.columns(format)), take)
                    }
                    Some(format) => self.feed_rows(&mut RowReader::new(input, format, self.args.number), take),
                    None => self.feed_rows(&mut csv::Csv::new(input, self.args.columns(format)), take),
                }
            }
        }
    }

    #[cfg(feature = "parquet")]
    fn feed_parquet(
        &mut self,
        path: &Path,
        take: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>,
    ) -> Result<End> {
        let mut rows = parquet::Parquet::open(path, &self.args.columns(SourceFormat::Parquet))?;
        self.feed_rows(&mut rows, take)
    }

    #[cfg(not(feature = "parquet"))]
    fn feed_parquet(&mut self, path: &Path, _: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>) -> Result<End> {
        Err(Failure::usage(format_args!(
            "{}: this program was built without Parquet; build it again with `--features parquet`, or turn the file into csv or jsonl",
            path.display()
        )))
    }

    fn feed_rows(
        &mut self,
        rows: &mut dyn Source,
        take: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>,
    ) -> Result<End> {
        let bytes_before = self.read.bytes;
        let end = loop {
            if let Some(signal) = self.interrupt.caught() {
                break End::Signal(signal);
            }
            let taken = match rows.next_row()? {
                Row::Pair(pair, number) => self.take(pair, self.places_before + number, take)?,
                Row::Bad(bad) => Err(bad),
                // The signal is on its way to the flag.
                Row::Interrupted => continue,
                Row::End => break End::Inputs,
            };
            match taken {
                Ok(()) => self.read.rows += 1,
                Err(bad) if self.args.on_error == OnError::Stop || !bad.goes_on => break End::Bad(bad),
                Err(bad) => self.skip(&bad),
            }
            if (self.read.rows + self.read.skipped).is_multiple_of(ROWS_PER_TICK) {
                self.tick(bytes_before + rows.taken_bytes());
            }
        };
        self.read.bytes = bytes_before + rows.taken_bytes();
        self.places_before += rows.number();
        Ok(end)
    }
}

impl Inputs<'_> {
    /// `Err` with the bad row where the pair may not go in.
    fn take(
        &self,
        pair: Pair<'_>,
        place: u64,
        take: &mut dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()>,
    ) -> Result<std::result::Result<(), BadRow>> {
        match take(pair, place) {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.kind() == ErrorKind::TooLong => {
                Ok(Err(BadRow { place: self.places.name(place), what: error.to_string(), goes_on: true }))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn skip(&mut self, bad: &BadRow) {
        self.read.skipped += 1;
        let skipped = self.read.skipped;
        self.bar.suspend(|| {
            if skipped <= BAD_ROWS_NAMED_MAX {
                eprintln!("splitpoint: {bad}");
            } else if skipped == BAD_ROWS_NAMED_MAX + 1 {
                eprintln!("splitpoint: further bad rows are counted only");
            }
        });
    }

    fn tick(&self, bytes: u64) {
        self.bar.set_position(bytes);
        let rows_per_s = grouped(rate(self.read.rows, self.start.elapsed()));
        self.bar.set_message(format!("{}, {rows_per_s} rows/s", count_of(self.read.rows, "row")));
    }
}

impl SourceArgs {
    /// All that decides which pairs an input gives. Not among it: what becomes of bad rows, which are none.
    pub fn identity(&self) -> impl Hash {
        (self.format, &self.key, &self.value, self.no_header, self.number)
    }

    fn columns_chosen(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }

    fn columns(&self, format: SourceFormat) -> Columns {
        let default =
            |column: &Option<columns::Column>, number| column.clone().unwrap_or(columns::Column::Number(number));
        let (key, value) = (default(&self.key, 1), default(&self.value, 2));
        let named = key.is_name() || value.is_name();
        let header = match format {
            SourceFormat::Csv => !self.no_header,
            _ => named,
        };
        Columns { key, value, header }
    }

    /// # Errors
    /// An option that says nothing of this input: better told than passed over.
    fn check(&self, file: &InputFile) -> Result<()> {
        let refuse = |what: &str| Err(Failure::usage(format_args!("{}: {what}", file.origin().name)));
        let columns = matches!(file.kind, Kind::Rows(SourceFormat::Tsv | SourceFormat::Csv | SourceFormat::Parquet));
        if self.columns_chosen() && !columns {
            return refuse("--key and --value choose columns of csv, tsv or parquet");
        }
        if self.no_header && file.kind != Kind::Rows(SourceFormat::Csv) {
            return refuse("--no-header goes with csv");
        }
        let columns = self.columns(SourceFormat::Csv);
        if self.no_header && (columns.key.is_name() || columns.value.is_name()) {
            return refuse("without a header columns have numbers only");
        }
        if self.number && file.kind != Kind::Rows(SourceFormat::Lines) {
            return refuse("--number goes with --format lines");
        }
        if file.kind == Kind::Rows(SourceFormat::Parquet) && file.bytes.is_none() {
            return refuse("Parquet is read from its end, so it must be a file and no pipe");
        }
        Ok(())
    }
}

/// A bar for files, whose end is known; a spinner for pipes. Hidden by itself where standard error is no terminal.
fn bar_of_bytes(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "reading {bar:30} {bytes} of {total_bytes}, {eta} to go, {msg}"),
        None => (ProgressBar::new_spinner(), "reading {spinner} {bytes}, {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are fixed and tried by the tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_templates_are_some() {
        bar_of_bytes(None);
        bar_of_bytes(Some(1));
    }

    #[test]
    fn places_are_named_by_input_and_row() {
        let places = Places::default();
        let origin = |name: &str, unit| Origin { name: name.into(), unit };
        places.begin(0, origin("a.tsv", Unit::Line));
        places.begin(3, origin("empty.tsv", Unit::Line));
        places.begin(3, origin("b.raw", Unit::Pair));
        places.begin(5, origin("c.spd", Unit::None));
        let names: Vec<_> = [1, 3, 4, 5, 6].map(|place| places.name(place)).into();
        assert_eq!(names, ["a.tsv:1", "a.tsv:3", "b.raw: pair 1", "b.raw: pair 2", "c.spd"]);
    }
}
