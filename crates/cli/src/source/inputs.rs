//! All inputs of one command: inspected before any work, then read one after another.

use super::columns::TsvColumns;
use super::places::{Origin, Places, Unit};
use super::stored::Stored;
use super::{OnError, Source, SourceArgs, SourceFormat, csv};
use crate::cmd::dict::is_dictionary;
use crate::cmd::{is_table, open_to_read};
use crate::failure::{Failure, Result};
use crate::format::{BadRow, Format, Pair, Row, RowReader};
use crate::input::Input;
use crate::interrupt::{Interrupt, Signal};
use crate::known;
use crate::number::{count_of, grouped, rate};
use indicatif::{ProgressBar, ProgressStyle};
use splitpoint::{Dictionary, ErrorKind};
use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bad rows named on standard error; more are only counted.
const BAD_ROWS_NAMED_MAX: u64 = 20;
/// Rows between two updates of the progress bar.
const ROWS_PER_TICK: u64 = 1024;

/// Takes a pair and its place; [`ErrorKind::TooLong`] makes it a bad row.
type Take<'t> = dyn FnMut(Pair<'_>, u64) -> splitpoint::Result<()> + 't;

/// All inputs of one command.
pub struct Inputs<'i> {
    pub files: Vec<InputFile>,
    args: &'i SourceArgs,
    interrupt: &'i Interrupt,
    pub places: Places,
    pub read: Read,
    /// Places of the finished inputs.
    places_before: u64,
    bar: ProgressBar,
    start: Instant,
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
            // A directory of shards. Its bytes are in many files, so the bar counts none.
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
        let found = Self { kind, ..rows(Some(metadata.len())) };
        found.refuse_binary()?;
        Ok(found)
    }

    /// Before any work: a later input may be reached hours after the first.
    fn refuse_binary(&self) -> Result<()> {
        let Kind::Rows(format) = self.kind else { return Ok(()) };
        let Some(layout) = format.layout() else { return Ok(()) };
        let file = File::open(&self.path).map_err(|error| Failure::io(self.path.display(), &error))?;
        let mut head = Input::new(Box::new(file), self.path.display().to_string());
        head.file_bytes = self.bytes;
        known::refuse_binary(&mut head, layout)
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

impl SourceArgs {
    /// # Errors
    /// An option that has no meaning for this input: refused rather than ignored.
    fn check(&self, file: &InputFile) -> Result<()> {
        let refuse = |what: &str| Err(Failure::usage(format_args!("{}: {what}", file.origin().name)));
        let columns = matches!(file.kind, Kind::Rows(SourceFormat::Tsv | SourceFormat::Csv | SourceFormat::Parquet));
        if self.columns_chosen() && !columns {
            return refuse("--key and --value choose columns of csv, tsv or parquet");
        }
        if self.no_header && file.kind != Kind::Rows(SourceFormat::Csv) {
            return refuse("--no-header is only for csv");
        }
        let columns = self.columns(SourceFormat::Csv);
        if self.no_header && (columns.key.is_name() || columns.value.is_name()) {
            return refuse("without a header, columns have only numbers");
        }
        if self.number && file.kind != Kind::Rows(SourceFormat::Lines) {
            return refuse("--number needs --format lines");
        }
        if file.kind == Kind::Rows(SourceFormat::Parquet) && file.bytes.is_none() {
            return refuse("Parquet is read from its end, so it must be a file, not a pipe");
        }
        Ok(())
    }
}

impl<'i> Inputs<'i> {
    /// # Errors
    /// A missing file, a directory, standard input twice, options that do not fit a format.
    pub fn look(paths: &[PathBuf], args: &'i SourceArgs, interrupt: &'i Interrupt) -> Result<Self> {
        let files: Vec<_> = paths.iter().map(|path| InputFile::look(path, args.format)).collect::<Result<_>>()?;
        for file in &files {
            args.check(file)?;
        }
        let stdins = paths.iter().filter(|path| path.as_os_str() == "-").count();
        if stdins > 1 {
            return Err(Failure::usage("standard input can be read only once; give - once"));
        }
        if stdins == 1 && std::io::stdin().is_terminal() {
            eprintln!("splitpoint: reading pairs from the terminal; end with Ctrl-D");
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

    /// Passes every pair and its place to `take`.
    ///
    /// # Errors
    /// Errors of reading or of `take`. Bad rows and signals are not errors but an [`End`].
    pub fn feed(&mut self, take: &mut Take<'_>) -> Result<End> {
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

    /// Names places without reading, if there is one input: only reading finds out where a second one begins.
    pub fn name_unread(&mut self) -> bool {
        if let [only] = &self.files[..] {
            self.places.begin(0, only.origin());
        }
        self.files.len() == 1
    }

    fn feed_file(&mut self, index: usize, take: &mut Take<'_>) -> Result<End> {
        let InputFile { path, kind, bytes } = &self.files[index];
        let (path, bytes) = (path.clone(), bytes.unwrap_or(0));
        match *kind {
            Kind::Dictionary => {
                let dictionary = Dictionary::open(&path)?;
                let pairs = dictionary.len();
                self.feed_rows(&mut Stored::new(dictionary.iter(), pairs, bytes), take)
            }
            Kind::Table => {
                let table = open_to_read(&path)?;
                let pairs = table.len();
                self.feed_rows(&mut Stored::new(table.scan(), pairs, bytes), take)
            }
            Kind::Rows(SourceFormat::Parquet) => self.feed_parquet(&path, take),
            Kind::Rows(format) => {
                let mut input = Input::open(&path, self.interrupt)?;
                input.limit_rows(self.args.max_row);
                if let (None, Some(layout)) = (input.file_bytes, format.layout()) {
                    known::refuse_binary(&mut input, layout)?;
                }
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
    fn feed_parquet(&mut self, path: &Path, take: &mut Take<'_>) -> Result<End> {
        let mut rows = super::parquet::Parquet::open(path, &self.args.columns(SourceFormat::Parquet))?;
        self.feed_rows(&mut rows, take)
    }

    #[cfg(not(feature = "parquet"))]
    fn feed_parquet(&mut self, path: &Path, _: &mut Take<'_>) -> Result<End> {
        Err(Failure::usage(format_args!(
            "{}: this program was built without Parquet; rebuild it with `--features parquet`, or convert the file \
             to csv or jsonl",
            path.display()
        )))
    }

    fn feed_rows(&mut self, rows: &mut dyn Source, take: &mut Take<'_>) -> Result<End> {
        let bytes_before = self.read.bytes;
        let end = loop {
            if let Some(signal) = self.interrupt.caught() {
                break End::Signal(signal);
            }
            let taken = match rows.next_row()? {
                Row::Pair(pair, number) => self.take(pair, self.places_before + number, take)?,
                Row::Bad(bad) => Err(bad),
                // The flag is about to show the signal.
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

    /// `Err` with the bad row if the pair may not be stored.
    fn take(&self, pair: Pair<'_>, place: u64, take: &mut Take<'_>) -> Result<std::result::Result<(), BadRow>> {
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
                eprintln!("splitpoint: further bad rows are only counted");
            }
        });
    }

    fn tick(&self, bytes: u64) {
        self.bar.set_position(bytes);
        let rows_per_s = grouped(rate(self.read.rows, self.start.elapsed()));
        self.bar.set_message(format!("{}, {rows_per_s} rows/s", count_of(self.read.rows, "row")));
    }
}

/// A bar for files, a spinner for pipes of unknown length. Hidden where standard error is not a terminal.
fn bar_of_bytes(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "reading {bar:30} {bytes} of {total_bytes}, {eta} to go, {msg}"),
        None => (ProgressBar::new_spinner(), "reading {spinner} {bytes}, {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the templates are fixed and a test uses them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_templates_are_some() {
        bar_of_bytes(None);
        bar_of_bytes(Some(1));
    }
}
