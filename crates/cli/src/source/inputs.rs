//! All inputs of one command: inspected before any work, then read one after another.

use super::first_values::FirstValues;
use super::places::{Origin, Places, Unit};
use super::recognize::{Kind, recognize};
use super::stored::{Stored, StoredEntries};
use super::tree::Tree;
use super::{OnError, SQLITE, SourceArgs, redis};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::gdbm_file::GdbmFile;
use crate::format::options::Column;
use crate::format::zip::Zip;
use crate::format::{BadRow, Format, Pair, Row, Source, reader};
use crate::input::Input;
use crate::interrupt::{Interrupt, Signal};
use crate::number::count_of;
use crate::open::{StoreKind, databases, stored};
use crate::output::say;
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::types::{self, Types};
use splitpoint::{Dictionary, ErrorKind};
use splitpoint_server::keyspace::ServedFile;
use splitpoint_server::rdb::{Entry, Object, StoredScan};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bad rows named on standard error; more are only counted.
const BAD_ROWS_NAMED_MAX: u64 = 20;

/// Takes a pair and its place; `Some` says why it may not be stored, which makes it a bad row.
type Take<'t> = dyn FnMut(Pair<'_>, u64) -> Result<Option<String>> + 't;

/// Takes a pair, or a key with a type or a lifetime.
type TakeItem<'t> = dyn FnMut(Item<'_>, u64) -> Result<Option<String>> + 't;

/// The kinds of an input's content.
#[derive(Clone, Copy)]
pub enum Item<'r> {
    Pair(Pair<'r>),
    Entry(&'r Entry),
}

/// Converts the library's answer to the result of a [`Take`]: a pair that is too long is a bad row.
pub fn accepted(taken: splitpoint::Result<()>) -> Result<Option<String>> {
    match taken {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::TooLong => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The error for an option whose result depends on how often `server` lists a key.
pub fn twice(server: &InputFile) -> Failure {
    let server = server.name();
    Failure::usage(format_args!("{server}: a server may list a key twice, so --duplicates can only be last or first"))
}

/// All inputs of one command.
pub struct Inputs<'i> {
    pub files: Vec<InputFile>,
    args: &'i SourceArgs,
    interrupt: &'i Interrupt,
    pub places: Places,
    pub read: Read,
    /// Places of the finished inputs.
    places_before: u64,
    /// The place after the last row.
    places_next: u64,
    /// The rows read, and the columns of the last input.
    taken: Vec<Kind>,
    columns: Option<String>,
    /// For the current input, if only the first value of each key counts.
    first_values: Option<FirstValues>,
    /// The required types of the pairs, and where the types of the current input come from.
    pub must_be: Option<Types>,
    pairs_from: types::Origin,
    /// Whether keys are taken with their types, lifetimes and databases; else only pairs.
    takes_entries: bool,
    progress: Progress,
}

/// Why there are no more rows.
pub enum End {
    Inputs,
    Bad(BadRow),
    Signal(Signal),
}

/// The rows read.
#[derive(Clone, Copy, Default)]
pub struct Read {
    pub rows: u64,
    pub skipped: u64,
    /// Rows whose key an earlier row has.
    pub repeated: u64,
    pub bytes: u64,
}

impl Read {
    /// Fails if every row was skipped: nothing was done.
    pub fn refuse_if_all_bad(&self) -> Result<()> {
        if self.rows == 0 && self.skipped > 0 { Err(Failure::no("every row was a bad row")) } else { Ok(()) }
    }
}

pub struct InputFile {
    pub path: PathBuf,
    /// What it is; `None` for a pipe, which is unknown before it is read.
    pub kind: Option<Kind>,
    /// The length of a regular file; `None` for pipes.
    pub bytes: Option<u64>,
}

impl InputFile {
    fn look(path: &Path, args: &SourceArgs, interrupt: &Interrupt) -> Result<Self> {
        let pipe = || Self { path: path.to_owned(), kind: None, bytes: None };
        if path.as_os_str() == "-" {
            return Ok(pipe());
        }
        if let Some(kind) = elsewhere(path) {
            let file = Self { kind: Some(kind), ..pipe() };
            args.check(&file, kind)?;
            return Ok(file);
        }
        let metadata = path.metadata().map_err(|error| Failure::io(path.display(), &error))?;
        if args.tree && metadata.is_dir() {
            let file = Self { kind: Some(Kind::Tree), ..pipe() };
            args.check(&file, Kind::Tree)?;
            return Ok(file);
        }
        let stored = stored(path).map_err(|error| Failure::io(path.display(), &error))?;
        if metadata.is_dir() && stored.is_some() {
            // A directory of shards. Its bytes are in many files, so the bar counts none.
            return Ok(Self { kind: Some(Kind::Dictionary), ..pipe() });
        }
        if metadata.is_dir() {
            return Err(is_directory(path));
        }
        if !metadata.is_file() {
            return Ok(pipe());
        }
        let kind = match stored {
            Some(StoreKind::Table) => Kind::Table,
            Some(StoreKind::Dictionary) => Kind::Dictionary,
            // Now, not when it is read: a later input may be reached hours after the first.
            None => Kind::Rows(recognize(&mut args.open(path, interrupt)?, path, args.format.0)?),
        };
        let file = Self { kind: Some(kind), bytes: Some(metadata.len()), ..pipe() };
        args.check(&file, kind)?;
        Ok(file)
    }

    pub fn name(&self) -> String {
        match self.kind {
            _ if self.path.as_os_str() == "-" => "stdin".to_owned(),
            Some(Kind::Redis) => redis::name(&self.path),
            _ => self.path.display().to_string(),
        }
    }

    /// Returns the names of the types that it records.
    fn types(&self, args: &SourceArgs) -> Result<String> {
        Ok(match self.kind {
            Some(Kind::Table) => args.cache.open_to_read(&self.path)?.types(),
            Some(Kind::Dictionary) => Dictionary::open(&self.path)?.types().to_owned(),
            _ => String::new(),
        })
    }

    fn origin(&self, kind: Kind) -> Origin {
        let unit = match kind {
            Kind::Table | Kind::Dictionary | Kind::Tree => Unit::None,
            Kind::Redis | Kind::Sqlite => Unit::Pair,
            Kind::Rows(
                Format::Raw
                | Format::GdbmFlat
                | Format::Cdb
                | Format::GdbmFile
                | Format::Tar
                | Format::Zip
                | Format::Rdb,
            ) => Unit::Pair,
            Kind::Rows(Format::Parquet) => Unit::Row,
            Kind::Rows(_) => Unit::Line,
        };
        Origin { name: self.name(), unit }
    }
}

/// Why a command that stores only pairs refuses a key.
fn refused(entry: &Entry) -> String {
    let key = escapes::quoted(&entry.key);
    match &entry.object {
        Object::Value(value) if value.type_name() != "string" => {
            format!("the key {key} has a {}; `splitpoint load` stores it in a table", value.type_name())
        }
        _ if entry.database != 0 => format!("the key {key} is of database {}", entry.database),
        _ => format!("the key {key} has a lifetime; `splitpoint load` stores it in a table"),
    }
}

/// Returns the kind of an input that is not a file.
fn elsewhere(path: &Path) -> Option<Kind> {
    match path.as_os_str().as_bytes() {
        _ if redis::is_address(path) => Some(Kind::Redis),
        bytes if bytes.starts_with(SQLITE) => Some(Kind::Sqlite),
        _ => None,
    }
}

/// The error for a directory, with the right command if it is a database.
fn is_directory(path: &Path) -> Failure {
    let name = path.display();
    if path.join("data.mdb").exists() {
        return Failure::of_kind(
            ErrorKind::NotATable,
            format_args!("{name}: is an LMDB database; `mdb_dump {name} | splitpoint load TABLE -` copies its pairs"),
        );
    }
    Failure::usage(format_args!("{name}: is a directory; give a file of pairs, or - for standard input"))
}

impl SourceArgs {
    fn open<'i>(&self, path: &Path, interrupt: &'i Interrupt) -> Result<Input<'i>> {
        Input::open(path, !self.is_auto(), interrupt)
    }

    /// # Errors
    /// An option that has no meaning for this input: refused rather than ignored.
    fn check(&self, file: &InputFile, kind: Kind) -> Result<()> {
        let refuse = |what: &str| Err(Failure::usage(format_args!("{}: {what}", file.name())));
        let reading = self.reading();
        let has_columns = match kind {
            Kind::Rows(format) => matches!(format, Format::Tsv | Format::Csv | Format::Jsonl | Format::Parquet),
            kind => kind == Kind::Sqlite,
        };
        if reading.columns_chosen() && !has_columns {
            return refuse("--key and --value choose columns of csv, tsv, parquet, SQLite or fields of jsonl");
        }
        let is_dump = kind == Kind::Rows(Format::Rdb) && !self.server.has_connection_options();
        if self.server.is_given() && kind != Kind::Redis && !is_dump {
            return refuse(
                "--ttl is for a server, as in redis://127.0.0.1:6379/0, and a dump of Redis; --skip-other-types and \
                 --timeout are for a server",
            );
        }
        if !self.is_auto() && matches!(kind, Kind::Redis | Kind::Sqlite | Kind::Tree) {
            return refuse("--format is for files and pipes of rows");
        }
        if reading.no_header && kind != Kind::Rows(Format::Csv) {
            return refuse("--no-header is only for csv");
        }
        if reading.no_header && reading.key.iter().chain(&reading.value).any(|column| column.is_name()) {
            return refuse("without a header, columns have only numbers");
        }
        let numbered = |column: &Column| column.name().is_none();
        if kind == Kind::Rows(Format::Jsonl) && reading.key.iter().chain(&reading.value).any(numbered) {
            return refuse("fields of jsonl have names, not numbers");
        }
        if reading.key_separator.is_some() && reading.key.len() < 2 {
            return refuse("--key-separator is for a key of several columns, as in --key COUNTRY --key ID");
        }
        if reading.no_escapes && kind != Kind::Rows(Format::Tsv) {
            return refuse("--no-escapes is only for tsv");
        }
        if reading.number && kind != Kind::Rows(Format::Lines) {
            return refuse("--number needs --format lines");
        }
        if let Kind::Rows(format) = kind
            && file.bytes.is_none()
        {
            let name = match format {
                Format::Parquet => "Parquet is read from its end",
                Format::Zip => "a ZIP archive is read from its end",
                Format::GdbmFile => "a GDBM file is read in place",
                _ => return Ok(()),
            };
            return refuse(&format!("{name}, so it must be a file, not a pipe"));
        }
        Ok(())
    }
}

impl<'i> Inputs<'i> {
    /// Whether all are tables and dictionaries.
    pub fn are_stored(&self) -> bool {
        self.files.iter().all(|file| matches!(file.kind, Some(Kind::Table | Kind::Dictionary)))
    }

    /// The names of the types of the pairs; empty unless all inputs are tables and dictionaries of the same ones.
    ///
    /// # Errors
    /// Two inputs of different types; errors of opening them.
    pub fn types(&self) -> Result<String> {
        let mut first: Option<(&InputFile, String)> = None;
        let mut all = true;
        for file in &self.files {
            let types = file.types(self.args)?;
            match &first {
                _ if types.is_empty() => all = false,
                None => first = Some((file, types)),
                Some((_, known)) if *known == types => {}
                Some((other, known)) => {
                    let what = format!("{}: has the types {types}, {} has {known}", file.name(), other.name());
                    return Err(Failure::of_kind(ErrorKind::WrongTypes, what));
                }
            }
        }
        Ok(first.filter(|_| all).map_or_else(String::new, |(_, types)| types))
    }

    /// # Errors
    /// A missing file, a directory, standard input twice, options that do not fit a format.
    pub fn look(paths: &[PathBuf], args: &'i SourceArgs, interrupt: &'i Interrupt) -> Result<Self> {
        let files: Vec<_> = paths.iter().map(|path| InputFile::look(path, args, interrupt)).collect::<Result<_>>()?;
        let stdins = paths.iter().filter(|path| path.as_os_str() == "-").count();
        if stdins > 1 {
            return Err(Failure::usage("standard input can be read only once; give - once"));
        }
        if stdins == 1 && std::io::stdin().is_terminal() {
            say("splitpoint: reading pairs from the terminal; end with Ctrl-D");
        }
        let progress = Progress::of_bytes("reading", files.iter().map(|file| file.bytes).sum());
        Ok(Self {
            files,
            args,
            interrupt,
            places: Places::default(),
            read: Read::default(),
            places_before: 0,
            places_next: 1,
            taken: Vec::new(),
            columns: None,
            first_values: None,
            must_be: None,
            pairs_from: types::Origin::Text,
            takes_entries: false,
            progress,
        })
    }

    /// Passes every pair and its place to `take`. Of a table that a server has used, these are the strings of one
    /// database, without lifetimes.
    ///
    /// # Errors
    /// Errors of reading or of `take`. Bad rows and signals are not errors but an [`End`].
    pub fn feed(&mut self, take: &mut Take<'_>) -> Result<End> {
        self.takes_entries = false;
        self.feed_all(&mut |item, place| match item {
            Item::Pair(pair) => take(pair, place),
            Item::Entry(entry) => match entry.as_pair() {
                Some((key, value)) => take(Pair { key, value }, place),
                None => Ok(Some(refused(entry))),
            },
        })
    }

    /// Passes every pair, and every key with a type or a lifetime, to `take`.
    ///
    /// # Errors
    /// Returns the errors of [`feed`](Self::feed).
    pub fn feed_items(&mut self, take: &mut TakeItem<'_>) -> Result<End> {
        self.takes_entries = true;
        self.feed_all(take)
    }

    fn feed_all(&mut self, take: &mut TakeItem<'_>) -> Result<End> {
        for index in 0..self.files.len() {
            let end = self.feed_file(index, take)?;
            if !matches!(end, End::Inputs) {
                self.progress.clear();
                return Ok(end);
            }
        }
        self.progress.clear();
        Ok(End::Inputs)
    }

    /// Names places without reading, if there is only one input: where a second one begins is known only after reading.
    pub fn name_unread(&mut self) -> bool {
        match &self.files[..] {
            [only @ InputFile { kind: Some(kind), .. }] => {
                self.places.begin(0, only.origin(*kind));
                true
            }
            _ => false,
        }
    }

    fn feed_file(&mut self, index: usize, take: &mut TakeItem<'_>) -> Result<End> {
        let InputFile { path, kind, bytes } = &self.files[index];
        let (path, bytes, kind) = (path.clone(), bytes.unwrap_or(0), *kind);
        match kind {
            Some(Kind::Dictionary) => {
                self.begin(index, Kind::Dictionary);
                let dictionary = Dictionary::open(&path)?;
                self.begin_stored(dictionary.types());
                let pairs = dictionary.len();
                self.feed_rows(index, &mut Stored::new(dictionary.iter(), pairs, bytes, Vec::new()), take)
            }
            Some(Kind::Table) => {
                self.begin(index, Kind::Table);
                if self.takes_entries {
                    self.feed_databases(index, path, take)
                } else {
                    self.feed_pairs(index, &path, take)
                }
            }
            Some(Kind::Redis) => {
                self.begin(index, Kind::Redis);
                let mut rows = redis::open(&path, self.args.server, self.args.max_row)?;
                self.progress = Progress::of_items("reading", "key", Some(0));
                self.feed_rows(index, &mut rows, take)
            }
            Some(Kind::Sqlite) => {
                self.begin(index, Kind::Sqlite);
                self.feed_sqlite(index, &path, take)
            }
            Some(Kind::Tree) => {
                self.begin(index, Kind::Tree);
                self.feed_rows(index, &mut Tree::open(&path, self.args.max_row), take)
            }
            Some(Kind::Rows(Format::Parquet)) => {
                self.begin(index, Kind::Rows(Format::Parquet));
                self.feed_parquet(index, &path, take)
            }
            Some(Kind::Rows(Format::Zip)) => {
                self.begin(index, Kind::Rows(Format::Zip));
                self.feed_rows(index, &mut Zip::open(&path, self.args.max_row)?, take)
            }
            Some(Kind::Rows(Format::GdbmFile)) => {
                self.begin(index, Kind::Rows(Format::GdbmFile));
                self.feed_rows(index, &mut GdbmFile::open(&path, self.args.max_row)?, take)
            }
            _ => {
                let mut input = self.args.open(&path, self.interrupt)?;
                input.limit_rows(self.args.max_row);
                let format = match kind {
                    Some(Kind::Rows(format)) => format,
                    _ => recognize(&mut input, &path, self.args.format.0)?,
                };
                self.args.check(&self.files[index], Kind::Rows(format))?;
                self.begin(index, Kind::Rows(format));
                self.first_values = if self.args.own_rule { FirstValues::of(format)? } else { None };
                let mut rows = reader(format, input, &self.args.reading())?;
                let end = self.feed_rows(index, &mut *rows, take);
                self.first_values = None;
                end
            }
        }
    }

    fn begin(&mut self, index: usize, kind: Kind) {
        self.places.begin(self.places_before, self.files[index].origin(kind));
        if !self.taken.contains(&kind) {
            self.taken.push(kind);
        }
        self.pairs_from = match kind {
            Kind::Rows(format) if format.has_stored_bytes() => types::Origin::Bytes,
            _ => types::Origin::Text,
        };
    }

    /// Accepts the pairs of a table or dictionary that has the required types.
    fn begin_stored(&mut self, types: &str) {
        if self.must_be.as_ref().is_some_and(|must_be| must_be.is_called(types)) {
            self.pairs_from = types::Origin::Typed;
        }
    }

    /// Feeds the keys of a table, then the keys of the server's other databases, each of which has its own file.
    fn feed_databases(&mut self, index: usize, path: PathBuf, take: &mut TakeItem<'_>) -> Result<End> {
        let (number, others) = databases(&path)?;
        let is_alone = number == 0 && others.is_empty();
        for (number, path) in [(number, path)].into_iter().chain(others) {
            let table = self.args.cache.open_to_read(&path)?;
            self.begin_stored(&table.types());
            let (pairs, bytes) = (table.len(), path.metadata().map_or(0, |metadata| metadata.len()));
            let file = ServedFile::of(&table)?;
            let end = if is_alone && !file.has_marks() {
                let keys = file.keys_of(table.scan());
                self.feed_rows(index, &mut Stored::new(keys, pairs, bytes, Vec::new()), take)?
            } else {
                let entries = StoredScan::of(file, table.scan());
                self.feed_rows(index, &mut StoredEntries::new(entries, number, pairs, bytes), take)?
            };
            if !matches!(end, End::Inputs) {
                return Ok(end);
            }
        }
        Ok(End::Inputs)
    }

    /// Feeds the pairs of a table, and reports what they lack of what a server keeps.
    fn feed_pairs(&mut self, index: usize, path: &Path, take: &mut TakeItem<'_>) -> Result<End> {
        let table = self.args.cache.open_to_read(path)?;
        self.begin_stored(&table.types());
        let (pairs, bytes) = (table.len(), path.metadata().map_or(0, |metadata| metadata.len()));
        let file = ServedFile::of(&table)?;
        let marks = file.has_marks().then(|| "lifetimes and flags that a server keeps in it".to_owned());
        let others = databases(path)?.1.into_iter();
        let others = others.map(|(number, path)| format!("database {number}, in {}", path.display()));
        let left_out = marks.into_iter().chain(others).collect();
        self.feed_rows(index, &mut Stored::new(file.keys_of(table.scan()), pairs, bytes, left_out), take)
    }

    #[cfg(feature = "sqlite")]
    fn feed_sqlite(&mut self, index: usize, path: &Path, take: &mut TakeItem<'_>) -> Result<End> {
        let mut rows = super::sqlite::open(path, self.args.reading(), self.args.max_row)?;
        self.feed_rows(index, &mut rows, take)
    }

    #[cfg(not(feature = "sqlite"))]
    fn feed_sqlite(&mut self, _: usize, path: &Path, _: &mut TakeItem<'_>) -> Result<End> {
        Err(Failure::usage(format_args!(
            "{}: this program was built without SQLite; rebuild it with `--features sqlite`, or load what \
             `sqlite3 -csv` prints",
            path.display()
        )))
    }

    #[cfg(feature = "parquet")]
    fn feed_parquet(&mut self, index: usize, path: &Path, take: &mut TakeItem<'_>) -> Result<End> {
        let mut rows = crate::format::parquet::Parquet::open(path, &self.args.reading())?;
        self.feed_rows(index, &mut rows, take)
    }

    #[cfg(not(feature = "parquet"))]
    fn feed_parquet(&mut self, _: usize, path: &Path, _: &mut TakeItem<'_>) -> Result<End> {
        Err(Failure::usage(format_args!(
            "{}: this program was built without Parquet; rebuild it with `--features parquet`, or convert the file to \
             csv or jsonl",
            path.display()
        )))
    }

    /// Returns advice on a bad row that ended the reading: to choose another format, or to leave out that row.
    pub fn advice(&self, bad: &BadRow) -> String {
        // A wrong guess of the format shows in the first row.
        let is_guess = |kind: &Kind| matches!(kind, Kind::Rows(Format::Tsv | Format::Csv | Format::Jsonl));
        match () {
            () if !bad.goes_on => String::new(),
            () if self.read.rows == 0
                && self.must_be.is_none()
                && self.args.is_auto()
                && self.taken.last().is_some_and(is_guess) =>
            {
                let taken = self.describe();
                format!("; it was taken for {taken}, --format lines, csv, jsonl or raw reads other rows")
            }
            () => "; --on-error skip continues".into(),
        }
    }

    /// `csv (key id, value name)`: what was read, for reports.
    pub fn describe(&self) -> String {
        let names: Vec<_> = self.taken.iter().map(|kind| kind.name()).collect();
        match &self.columns {
            Some(columns) if names.len() == 1 => format!("{} ({columns})", names[0]),
            _ => names.join(" and "),
        }
    }

    /// Returns the names of the formats that were read.
    pub fn formats(&self) -> Vec<&'static str> {
        self.taken.iter().map(|kind| kind.name()).collect()
    }

    /// Returns the place of the row that comes next.
    pub fn next_place(&self) -> String {
        self.places.name(self.places_next)
    }

    fn feed_rows(&mut self, index: usize, rows: &mut dyn Source, take: &mut TakeItem<'_>) -> Result<End> {
        let bytes_before = self.read.bytes;
        let end = loop {
            if let Some(signal) = self.interrupt.caught() {
                break End::Signal(signal);
            }
            let taken = match rows.next_row()? {
                Row::Pair(pair, number) => self.take(Item::Pair(pair), self.places_before + number, take)?,
                Row::Entry(entry, number) => self.take(Item::Entry(entry), self.places_before + number, take)?,
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
            if (self.read.rows + self.read.skipped).is_multiple_of(STEPS_PER_TICK) {
                self.tick(bytes_before + rows.taken_bytes(), rows.done());
            }
        };
        self.read.bytes = bytes_before + rows.taken_bytes();
        self.places_next = self.places_before + rows.next_number();
        self.places_before += rows.number();
        self.columns = rows.columns();
        if let Some(note) = rows.note() {
            let name = self.files[index].name();
            self.progress.suspend(|| say(format_args!("splitpoint: {name}: {note}")));
        }
        Ok(end)
    }

    /// `Err` with the bad row if the pair may not be stored.
    fn take(&mut self, item: Item<'_>, place: u64, take: &mut TakeItem<'_>) -> Result<std::result::Result<(), BadRow>> {
        if let Some(first_values) = &self.first_values
            && let Item::Pair(pair) = item
            && !first_values.is_first(pair.key)?
        {
            self.read.repeated += 1;
            return Ok(Ok(()));
        }
        let refused = self.must_be.as_ref().and_then(|types| match item {
            Item::Pair(pair) => types.refuse(pair.key, pair.value, self.pairs_from),
            // The server has stored it under the same types.
            Item::Entry(_) if self.pairs_from == types::Origin::Typed => None,
            Item::Entry(entry) => Some(types.refuse_entry(&entry.key)),
        });
        let refused = match refused {
            None => take(item, place)?,
            refused => refused,
        };
        Ok(match refused {
            None => Ok(()),
            Some(what) => Err(BadRow { place: self.places.name(place), what, goes_on: true }),
        })
    }

    fn skip(&mut self, bad: &BadRow) {
        self.read.skipped += 1;
        let skipped = self.read.skipped;
        self.progress.suspend(|| {
            if skipped <= BAD_ROWS_NAMED_MAX {
                say(format_args!("splitpoint: {bad}"));
            } else if skipped == BAD_ROWS_NAMED_MAX + 1 {
                say("splitpoint: further bad rows are only counted");
            }
        });
    }

    fn tick(&self, bytes: u64, done: Option<(u64, u64)>) {
        let done = done.map_or(bytes, |(done, total)| {
            self.progress.set_total(total);
            done
        });
        self.progress.at_with(done, &count_of(self.read.rows, "row"));
    }
}
