//! `load`: stores the pairs of files, pipes, tables and dictionaries in a table.
//!
//! [`Load::run`] looks at all inputs, then [`Loading::store`] takes each pair. However it ends (input done, bad row,
//! signal), the table is synced and closed before anything is printed. Reading: `source/` and `format/`. The table
//! limits the speed; the readers alone do several million rows/s.

use crate::access;
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::format::options::{Separator, parse_separator};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size_u32, rate, seconds, size};
use crate::open::{databases, opened, require_directory_of};
use crate::output::Output;
use crate::source::{End, FORMATS_HELP, InputFile, Inputs, Item, Kind, SourceArgs, accepted, twice};
use crate::types::{self, Types};
use clap::ValueEnum;
use serde_json::json;
use splitpoint::{Durability, ErrorKind, HashKind, OutputFile, Table, TableOptions};
use splitpoint_server::keyspace::{Marks, ServedFile, SpaceOptions};
use splitpoint_server::rdb::{Entry, Object, Stored, TypedFile, Value};
use std::cell::{Cell, OnceCell};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  splitpoint load users.spt users.tsv
  splitpoint load users.spt 2024.csv.gz 2025.csv.gz --key id
  splitpoint load log.spt log.jsonl --key id --value message --on-error skip
  splitpoint load users.spt users.gdbm
  splitpoint load users.spt redis://127.0.0.1:6379/0
  splitpoint load users.spt dump.rdb
  splitpoint load users.spt sqlite:users.db#users --key email
  splitpoint load words.spt words.txt --format lines --number
  splitpoint load pages.spt --tree tree
  splitpoint load big.spt big.raw --cache 2GiB --expected-len 100000000

A missing table is created, for those who may use all inputs; the table is synced at the end. A signal (Ctrl-C)
ends the load after the current row: loaded rows stay, and the place of the next
row is printed. Keys of a table that a server has used keep their types,
lifetimes and databases. Other databases and archives are refused before any row
is stored, with the command that writes their pairs.";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{FORMATS_HELP}")
}

/// Load pairs into a table from files, pipes, tables and dictionaries
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Load {
    /// The table; created if missing
    file: PathBuf,
    /// The pairs; - is standard input
    #[arg(default_value = "-")]
    input: Vec<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Take INPUT, a directory, as a tree of files: each is a pair of its relative path and its contents
    #[arg(long)]
    tree: bool,
    /// What to do with a key that exists [default: last; for duplicates within a cdb file, first]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "last|first|append|error")]
    duplicates: Option<Duplicates>,
    /// With --duplicates append: written between the old value and the new; \t \n \r \\ \xHH are escapes
    #[arg(long, value_name = "TEXT", value_parser = parse_separator)]
    separator: Option<Separator>,
    /// When a row is durable: none, at the end of the load; os, immediately unless the system crashes; sync,
    /// immediately
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
    /// Allocate buckets for this many pairs in advance (for a new table)
    #[arg(long, value_name = "N")]
    expected_len: Option<u64>,
    /// Hash function (for a new table)
    #[arg(long, value_name = "NAME", value_parser = parse_hash)]
    hash: Option<HashKind>,
    /// Record the types of keys and values, as `u64 -> str` (for a new table); tables and dictionaries keep theirs
    #[arg(long, value_name = "TYPES", value_parser = types::parse)]
    types: Option<String>,
    /// Let `splitpoint stat --watch` show the load's counters
    #[arg(long)]
    stats: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Whether the table is removed unless it holds all of the input.
    #[arg(skip)]
    whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Duplicates {
    /// The last value wins
    Last,
    /// The first value is kept
    First,
    /// The values are concatenated
    Append,
    /// The row is a bad row
    Error,
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
    /// The command with default options, for a new table that is either complete or removed.
    pub fn whole(
        file: PathBuf,
        input: Vec<PathBuf>,
        source: SourceArgs,
        duplicates: Option<Duplicates>,
        json: bool,
    ) -> Self {
        Self {
            file,
            input,
            source,
            tree: false,
            duplicates,
            separator: None,
            durability: DurabilityName::None,
            page_size: None,
            fill_factor: None,
            expected_len: None,
            hash: None,
            types: None,
            stats: false,
            json,
            whole: true,
        }
    }

    pub fn run(mut self) -> Result<()> {
        if self.separator.is_some() && self.duplicates != Some(Duplicates::Append) {
            return Err(Failure::usage("--separator needs --duplicates append"));
        }
        self.source.own_rule = self.duplicates.is_none();
        self.source.tree = self.tree;
        let interrupt = Interrupt::watch()?;
        // Look at the inputs first: a misspelt name must not leave an empty table behind.
        let mut inputs = Inputs::look(&self.input, &self.source, &interrupt)?;
        self.refuse_own(&inputs.files)?;
        let types = inputs.types()?;
        if !types.is_empty() && self.types.as_ref().is_some_and(|asked| *asked != types) {
            return Err(Failure::of_kind(ErrorKind::WrongTypes, format_args!("the inputs have the types {types}")));
        }
        self.types.get_or_insert(types);
        inputs.must_be = self.types.as_deref().and_then(Types::of);
        let existed = self.file.exists();
        let mut loading = Loading {
            load: &self,
            table: OnceCell::new(),
            marks: Cell::new(None),
            typed: None,
            expired: 0,
            keys: None,
            created: OnceCell::new(),
            stored: 0,
            table_failed: false,
            reserved: Cell::new(false),
            start: Instant::now(),
        };
        let loaded = loading.all(&mut inputs, existed);
        let ended = loading.end_typed();
        let loaded = loaded.and_then(|end| ended.map(|()| end));
        // A first load that fails leaves no empty table behind.
        let nothing_kept = match &loaded {
            Ok(End::Inputs) => !existed && inputs.read.refuse_if_all_bad().is_err(),
            Ok(_) => self.whole,
            Err(_) => self.whole || loading.stored == 0,
        };
        if nothing_kept {
            drop(loading.table.take());
            loading.created().iter().for_each(|path| remove_table(path));
        }
        let end = match loaded {
            Ok(end) => end,
            Err(failure) if nothing_kept => return Err(failure),
            Err(failure) => return Err(self.stopped_by(failure, loading)),
        };
        if nothing_kept {
            return Err(self.not_created(end));
        }
        if matches!(end, End::Inputs) {
            loading.table()?;
        }
        let (stored, start) = (loading.stored, loading.start);
        let (keys, expired) = (loading.keys, loading.expired);
        let created = loading.created().to_vec();
        let table = loading.table.into_inner();
        if let Some(table) = &table {
            let written = table.checkpoint();
            if self.whole && written.is_err() {
                created.iter().for_each(|path| remove_table(path));
            }
            written?;
        }
        let table_pairs = keys.unwrap_or_else(|| table.as_ref().map_or(0, Table::len));
        let kept = match self.duplicates {
            _ if inputs.read.repeated > 0 => "left out as by cdb's programs",
            None | Some(Duplicates::Last) => "of which the last is kept",
            Some(Duplicates::Append) => "whose values are joined",
            Some(Duplicates::First | Duplicates::Error) => "of which the first is kept",
        };
        if !created.is_empty() && inputs.read.repeated == 0 {
            inputs.read.repeated = stored.saturating_sub(table_pairs);
        }
        let report = Report { time: start.elapsed(), table_pairs, kept, expired, inputs: &inputs };
        if let Some(table) = table {
            table.close()?;
            if inputs.are_stored() {
                let made = created.iter().filter(|path| path.exists());
                made.for_each(|path| access::share(path, self.input.iter().map(PathBuf::as_path)));
            }
        }
        self.report(&report, end)
    }

    /// Refuses inputs that are the table itself, which cannot be read while it is written.
    fn refuse_own(&self, inputs: &[InputFile]) -> Result<()> {
        let identity = |path: &Path| path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
        let is_own = |path: &Path| identity(path).is_some_and(|it| identity(&self.file) == Some(it));
        if let Some(server) = inputs.iter().find(|input| input.kind == Some(Kind::Redis))
            && let Some(Duplicates::Append | Duplicates::Error) = self.duplicates
        {
            return Err(twice(server));
        }
        if self.tree {
            self.refuse_tree(inputs)?;
        }
        for InputFile { path, .. } in inputs.iter().filter(|input| input.kind == Some(Kind::Table)) {
            let name = path.display();
            if is_own(path) {
                return Err(Failure::usage(format_args!("{name}: is the table to load into")));
            }
            if let Some((number, _)) = databases(path)?.1.iter().find(|(_, path)| is_own(path)) {
                let what = format!("{name}: its database {number} is the table to load into");
                return Err(Failure::usage(what));
            }
        }
        Ok(())
    }

    /// Refuses inputs without a directory, and a tree that holds the table: its files would change during the load.
    fn refuse_tree(&self, inputs: &[InputFile]) -> Result<()> {
        let directory = self.file.parent().filter(|directory| !directory.as_os_str().is_empty());
        let place = directory.unwrap_or(Path::new(".")).canonicalize().ok();
        let mut trees = inputs.iter().filter(|input| input.kind == Some(Kind::Tree)).peekable();
        if trees.peek().is_none() {
            return Err(Failure::usage("--tree needs an INPUT that is a directory"));
        }
        let holds = |tree: &&InputFile| {
            let tree = tree.path.canonicalize();
            tree.is_ok_and(|tree| place.as_ref().is_some_and(|place| place.starts_with(tree)))
        };
        match trees.find(holds) {
            Some(tree) => {
                let (tree, file) = (tree.path.display(), self.file.display());
                Err(Failure::usage(format_args!("{tree}: the table {file} is in this tree; give it another place")))
            }
            None => Ok(()),
        }
    }

    /// Opens or creates the table.
    fn open(&self) -> Result<Table> {
        require_directory_of(&self.file)?;
        let table = opened(&self.file, self.options().open(&self.file))?;
        table.adopt_types(self.types.as_deref().unwrap_or_default())?;
        Ok(table)
    }

    fn options(&self) -> TableOptions {
        // A tree may hold files of any permissions.
        let of_tree = if self.tree { access::OWNER } else { 0o777 };
        let permissions = access::common(self.input.iter().map(PathBuf::as_path)) & of_tree;
        let mut options = self.source.cache.options().create(true).permissions(permissions);
        options = options.durability(self.durability.into()).publish_counters(self.stats);
        if let Some(bytes) = self.page_size {
            options = options.page_bytes(bytes);
        }
        if let Some(keys) = self.fill_factor {
            options = options.fill_factor(keys);
        }
        if let Some(pairs) = self.expected_len {
            options = options.expected_len(pairs);
        }
        if let Some(kind) = self.hash {
            options = options.hash(kind);
        }
        options
    }

    /// Returns the options for the files of other databases.
    fn space_options(&self) -> SpaceOptions {
        SpaceOptions {
            logged: !matches!(self.durability, DurabilityName::None),
            cache_bytes: self.source.cache.bytes(),
            ..SpaceOptions::default()
        }
    }

    fn not_created(&self, end: End) -> Failure {
        let file = self.file.display();
        match end {
            End::Signal(signal) => Failure::stopped(signal, format_args!("{file} was not created")),
            End::Bad(bad) => Failure::no(format_args!("{bad}. {file} was not created")),
            End::Inputs => Failure::no(format_args!("every row was a bad row. {file} was not created")),
        }
    }

    /// Reports what the table holds after a failure: all rows that were stored, unless the table itself failed.
    fn stopped_by(&self, failure: Failure, loading: Loading<'_>) -> Failure {
        let (file, rows) = (self.file.display(), count_of(loading.stored, "row"));
        let written = match loading.table.into_inner() {
            Some(table) if !loading.table_failed => table.checkpoint().and_then(|()| table.close()).is_ok(),
            _ => false,
        };
        let durable = !matches!(self.durability, DurabilityName::None);
        if written || durable {
            return failure.and(format_args!("Stopped after {rows}, all of them in {file}"));
        }
        failure.and(format_args!(
            "Stopped after {rows}; those since the last checkpoint may not be in {file}, so load them again"
        ))
    }

    fn report(&self, report: &Report<'_>, end: End) -> Result<()> {
        let file = self.file.display();
        let read = report.inputs.read;
        let mut out = Output::stdout();
        let printed = if self.json {
            out.json(&self.report_json(report, &end))
        } else if matches!(end, End::Inputs) {
            out.line(&format!("{file}: {}", report.sentence()))
        } else {
            Ok(())
        };
        let rows = count_of(read.rows, "row");
        match end {
            End::Inputs => read.refuse_if_all_bad().and(printed),
            End::Bad(bad) => {
                let advice = report.inputs.advice(&bad);
                Err(Failure::no(format_args!("{bad}. Stopped after {rows} in {file}{advice}")))
            }
            End::Signal(signal) => {
                let next = report.inputs.next_place();
                Err(Failure::stopped(signal, format_args!("{rows} in {file}; the next is {next}")))
            }
        }
    }

    fn report_json(&self, report: &Report<'_>, end: &End) -> serde_json::Value {
        let read = report.inputs.read;
        json!({
            "file": self.file.to_string_lossy(),
            "formats": report.inputs.formats(),
            "rows": read.rows,
            "rows_skipped": read.skipped,
            "rows_repeated": read.repeated,
            "rows_expired": report.expired,
            "input_bytes": read.bytes,
            "seconds": report.time.as_secs_f64(),
            "rows_per_s": rate(read.rows, report.time),
            "table_pairs": report.table_pairs,
            "stopped_by": match end {
                End::Inputs => None,
                End::Bad(bad) => Some(bad.to_string()),
                End::Signal(signal) => Some(signal.to_string()),
            },
        })
    }
}

struct Report<'r> {
    inputs: &'r Inputs<'r>,
    time: Duration,
    table_pairs: u64,
    /// Which values of repeated keys the table has.
    kept: &'static str,
    /// Keys that had expired and were not stored.
    expired: u64,
}

impl Report<'_> {
    fn sentence(&self) -> String {
        let (read, time) = (self.inputs.read, self.time.as_secs_f64());
        let mut text = format!(
            "{} from {} ({}) in {}, {} rows/s",
            count_of(read.rows, "row"),
            self.inputs.describe(),
            size(read.bytes),
            seconds(time),
            grouped(rate(read.rows, self.time))
        );
        if read.skipped > 0 {
            text.push_str(&format!("; {} skipped", count_of(read.skipped, "bad row")));
        }
        if read.repeated > 0 {
            let (rows, kept) = (count_of(read.repeated, "row"), self.kept);
            text.push_str(&format!("; {rows} with the key of an earlier one, {kept}"));
        }
        if self.expired > 0 {
            text.push_str(&format!("; {} left out", count_of(self.expired, "expired key")));
        }
        if self.table_pairs != read.rows {
            text.push_str(&format!("; the table holds {}", count_of(self.table_pairs, "pair")));
        }
        text
    }
}

struct Loading<'l> {
    load: &'l Load,
    table: OnceCell<Table>,
    /// Whether a server stored lifetimes in the table.
    marks: Cell<Option<Marks>>,
    /// Holds the table from the first key with a type or a lifetime on.
    typed: Option<TypedFile>,
    /// Keys that had expired.
    expired: u64,
    /// The number of keys, once the typed file was closed.
    keys: Option<u64>,
    /// What [`created`](Self::created) returns, once the table is open.
    created: OnceCell<Vec<PathBuf>>,
    /// Rows in the table.
    stored: u64,
    /// The library failed, not an input.
    table_failed: bool,
    /// A key was stored unchanged that a server would store under another key.
    reserved: Cell<bool>,
    start: Instant,
}

impl Loading<'_> {
    fn all(&mut self, inputs: &mut Inputs<'_>, existed: bool) -> Result<End> {
        // Open an existing table before waiting for any input. Create a new one for its first row, so that an input
        // without rows leaves no table behind; with --stats immediately, so that it can be watched.
        if self.load.stats || existed {
            let table = self.table()?;
            inputs.must_be = Types::of_table(table);
        }
        if self.load.duplicates == Some(Duplicates::Append)
            && let Some(what) = inputs.must_be.as_ref().and_then(Types::refuse_tail)
        {
            return Err(Failure::of_kind(ErrorKind::WrongTypes, what));
        }
        inputs.feed_items(&mut |item, _| {
            let expired = self.expired;
            let stored = match item {
                Item::Pair(pair) if self.typed.is_none() => self.store(pair),
                Item::Pair(Pair { key, value }) => {
                    let object = Object::Value(Value::String(value.to_vec()));
                    self.store_entry(&Entry { database: 0, key: key.to_vec(), expires_at_ms: 0, flags: 0, object })
                }
                Item::Entry(entry) => self.store_entry(entry),
            };
            let refused = stored.inspect_err(|_| self.table_failed = true)?;
            self.stored += u64::from(refused.is_none() && self.expired == expired);
            Ok(refused)
        })
    }

    /// Returns the table, opened or created on the first call.
    fn table(&self) -> Result<&Table> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let file = &self.load.file;
        // Known only now: another process may have made a table while we waited for input.
        let existed = file.exists();
        let (_, others) = TypedFile::databases(file).unwrap_or_default();
        let mut created: Vec<PathBuf> =
            others.into_iter().map(|(_, path)| path).filter(|path| !path.exists()).collect();
        let table = self.load.open()?;
        if self.load.whole && !table.is_empty() {
            let file = file.display();
            return Err(Failure::usage(format_args!(
                "{file}: another process has stored pairs in it; `splitpoint load` adds to a table"
            )));
        }
        created.push(file.clone());
        let is_new = table.is_empty() && (self.load.whole || !existed);
        self.created.get_or_init(|| if is_new { created } else { Vec::new() });
        Ok(self.table.get_or_init(|| table))
    }

    /// Returns the files that this load makes, and removes if it fails: the table and the files of other databases.
    /// None before the table is open, and none if another process made it.
    fn created(&self) -> &[PathBuf] {
        self.created.get().map_or(&[], Vec::as_slice)
    }

    /// Stores a key as a server would; returns the reason if it may not be stored.
    fn store_entry(&mut self, entry: &Entry) -> Result<Option<String>> {
        let duplicates = self.load.duplicates.unwrap_or(Duplicates::Last);
        if duplicates == Duplicates::Append {
            return Ok(Some("--duplicates append is for pairs alone, without types and lifetimes".into()));
        }
        if entry.database >= TypedFile::DATABASES {
            return Ok(Some(format!("database {}: a file has {}", entry.database, TypedFile::DATABASES)));
        }
        let typed = match self.typed.take() {
            Some(typed) => typed,
            None => {
                if self.reserved.get() {
                    let what = "a key that begins as a server's own keys do was stored before, as it is; load the \
                                inputs with types and lifetimes first";
                    return Ok(Some(what.into()));
                }
                self.table()?;
                let Some(table) = self.table.take() else { return Ok(None) };
                TypedFile::of(table, self.load.file.clone(), self.load.space_options())?
            }
        };
        let typed = self.typed.insert(typed);
        let mut stored = typed.put(entry, duplicates == Duplicates::Last);
        if let DurabilityName::Sync = self.load.durability {
            stored = stored.and_then(|stored| typed.sync().map(|()| stored));
        }
        Ok(match stored {
            Ok(Stored::Done) => None,
            Ok(Stored::Expired) => {
                self.expired += 1;
                None
            }
            Ok(Stored::Present) if duplicates == Duplicates::First => None,
            Ok(Stored::Present) => {
                Some(format!("duplicate key {}; --duplicates last or first accepts it", escapes::quoted(&entry.key)))
            }
            stored => accepted(stored.map(drop))?,
        })
    }

    /// Returns the table to the load.
    fn end_typed(&mut self) -> Result<()> {
        if let Some(typed) = self.typed.take() {
            self.keys = Some(typed.count_keys());
            let table = typed.into_table().inspect_err(|_| self.table_failed = true)?;
            let _ = self.table.set(table);
        }
        Ok(())
    }

    /// Stores a pair; returns the reason if it may not be stored.
    fn store(&self, pair: Pair<'_>) -> Result<Option<String>> {
        let table = self.table()?;
        // A new value must not have the lifetime of an old one.
        let table = match self.marks.get() {
            Some(marks) => ServedFile::with_marks(table, marks),
            None => ServedFile::of(table)?,
        };
        self.marks.set(Some(table.marks()));
        if !table.has_marks() && ServedFile::is_reserved(pair.key) {
            self.reserved.set(true);
        }
        match self.load.duplicates.unwrap_or(Duplicates::Last) {
            Duplicates::Last => accepted(table.put(pair.key, pair.value)),
            Duplicates::Append => match &self.load.separator {
                Some(Separator(between)) if table.contains(pair.key)? => {
                    accepted(table.append(pair.key, &[between, pair.value].concat()).map(drop))
                }
                _ => accepted(table.append(pair.key, pair.value).map(drop)),
            },
            Duplicates::First => accepted(table.insert_new(pair.key, pair.value).map(drop)),
            Duplicates::Error => {
                let mut absent = true;
                let refused = accepted(table.insert_new(pair.key, pair.value).map(|inserted| absent = inserted))?;
                Ok(refused.or_else(|| {
                    let key = escapes::quoted(pair.key);
                    let others = if self.load.whole { "last or first" } else { "last, first or append" };
                    let what = format!("duplicate key {key}; --duplicates {others} accepts it");
                    (!absent).then_some(what)
                }))
            }
        }
    }
}

/// Removes a table that this command made, with its logs.
fn remove_table(path: &Path) {
    let Ok(path) = OutputFile::target(path) else { return };
    for suffix in super::TABLE_SUFFIXES.into_iter().chain(["-stats"]) {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // An absent file, or one that cannot be removed, is not an error here.
        let _ = std::fs::remove_file(name);
    }
}
