//! Inputs of pairs for every command that reads them: files and pipes of rows, tables, dictionaries; several in
//! sequence.
//!
//! ```text
//! Inputs::look(paths)  -> each exists, what it is, how many bytes          before any work
//! Inputs::feed(take)   -> opens one after another, passes each pair and its place to `take`
//! ```
//!
//! Here: the options. `inputs.rs` all inputs of a command; `recognize.rs` the format of an input, `known.rs` files
//! without rows; `places.rs` names for places; `stored.rs` the pairs of tables and dictionaries; `redis.rs` those of a
//! server, `sqlite.rs` of a database, both in a thread (`threaded.rs`); `tree.rs` the files of a directory;
//! `first_values.rs` which of several values of a key counts. The formats are in `format/`, decompression in
//! `compressed.rs`.

mod first_values;
mod inputs;
mod known;
mod places;
mod recognize;
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stored;
mod threaded;
mod tree;

use crate::format::ReadFormat;
use crate::format::options::{Column, Reading, Separator, parse_column, parse_separator};
use crate::input::ROW_BYTES_MAX;
use crate::number::parse_size;
use crate::open::CacheArgs;
pub use inputs::{End, InputFile, Inputs, Item, Read, accepted, twice};
pub use recognize::{Kind, foreign};
use redis::ServerArgs;
pub use redis::{is_address, name as redis_name, refuse_address};
use std::ffi::OsStr;
use std::hash::Hash;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub use stored::PairStream;

/// The prefix of `sqlite:FILE#TABLE`.
const SQLITE: &[u8] = b"sqlite:";

/// Returns the file of an input: the database of `sqlite:FILE#TABLE`, else the input itself.
pub fn file_behind(input: &Path) -> &Path {
    let bytes = input.as_os_str().as_bytes();
    let Some(rest) = bytes.strip_prefix(SQLITE) else { return input };
    Path::new(OsStr::from_bytes(&rest[..memchr::memrchr(b'#', rest).unwrap_or(rest.len())]))
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnError {
    Stop,
    Skip,
}

/// Options for reading inputs.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// The format of the pairs; auto detects it from the content, then from the name of INPUT
    #[arg(
        long,
        short,
        value_enum,
        default_value = "auto",
        hide_possible_values = true,
        value_name = "auto|tsv|csv|jsonl|..."
    )]
    format: ReadFormat,
    /// The column or JSON field of the keys: a name, or a number from 1, as @2 if a column may be called 2; repeat for
    /// a key of several columns [default: the first column; jsonl: key]
    #[arg(long, value_name = "COLUMN", value_parser = parse_column)]
    key: Vec<Column>,
    /// Separator between the columns of a key; \t \n \r \\ \xHH are escapes [default: \t]
    #[arg(long, value_name = "TEXT", value_parser = parse_separator)]
    key_separator: Option<Separator>,
    /// The column or field of the values [default: the other of two, else all others as a JSON object; jsonl: value]
    #[arg(long, value_name = "COLUMN", value_parser = parse_column)]
    value: Option<Column>,
    /// With csv: the first line is a pair, and columns are named by number
    #[arg(long)]
    no_header: bool,
    /// With tsv: a backslash is an ordinary byte and starts no escape
    #[arg(long)]
    no_escapes: bool,
    /// With --format lines: store the line's number as the value
    #[arg(long)]
    number: bool,
    /// What to do with a row that is not a pair: stop, or report it, count it and continue
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
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Directories are trees of files, each of which is a pair.
    #[arg(skip)]
    pub tree: bool,
    /// Without an option, the source decides on duplicate keys: a cdb file has the first value of a key, and a second
    /// one is a bad row in a dump of a database with duplicates.
    #[arg(skip = true)]
    pub own_rule: bool,
}

/// The formats and columns, part of the help of every command that reads pairs.
pub const FORMATS_HELP: &str = "\
INPUT is a file, a pipe, a table or a dictionary; gzip and Zstandard are
decompressed. redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] and
redis+unix:///SOCKET[?db=N] are the keys of a running server, sqlite:FILE#TABLE two
columns of a table; --value chooses if it has more. The format is recognized by the content, then by the name (.tsv,
.csv, .jsonl, .raw, .parquet, .cdb, .rdb; also before .gz and .zst), else it is tsv;
--format decides by itself:
  tsv      key TAB value, one pair per line. \\t \\n \\r \\\\ \\xHH are escapes. Later
           tabs belong to the value; with --key or --value each tab ends a
           column, and if one is a name, the first line has the names.
  csv      comma-separated, quoted as in RFC 4180; the first line has the names;
           Excel's line `sep=;` before it chooses the separator.
  jsonl    {\"key\": \"...\", \"value\": \"...\"}, one pair per line; key_base64 and
           value_base64 for bytes that are not UTF-8; \"type\" and \"expires_at_ms\"
           for what a server keeps. With --key or --value the
           fields of any object; what is no string is stored as its JSON text.
  raw      u32 key length, u32 value length (little-endian), key, value.
  lines    the line is the key; the value is empty, or with --number the line's
           number.
  parquet  bytes and strings, taken verbatim, integers as decimal text; values
           also numbers, dates and times as text; a null is a bad row.
  gdbm     what gdbm_dump writes, in both its forms.
  db, mdb  what db_dump and mdb_dump write, print or hex.
  cdbmake  what cdbdump and `cdb -d` write; cdb, a cdb file itself.
  gdbm-file a GDBM file itself, in both its formats and both byte orders.
  rdb      a dump file of Redis 2.4 to 7.4 or Valkey 8; its database N becomes
           FILE-dbN, as `splitpoint serve` names it.
  tar, zip the paths and contents of an archive's files.";

impl SourceArgs {
    /// The default options.
    pub fn auto() -> Self {
        Self {
            cache: CacheArgs::default(),
            format: ReadFormat(None),
            key: Vec::new(),
            key_separator: None,
            value: None,
            no_header: false,
            no_escapes: false,
            number: false,
            on_error: OnError::Stop,
            max_row: ROW_BYTES_MAX,
            server: ServerArgs::NONE,
            tree: false,
            own_rule: true,
        }
    }

    /// Options for reading keys only; values are not used.
    #[cfg(feature = "lab")]
    pub fn of_keys(format: crate::format::Format, key: Option<Column>, no_header: bool) -> Self {
        Self {
            format: ReadFormat(Some(format)),
            value: key.clone(),
            key: key.into_iter().collect(),
            no_header,
            own_rule: false,
            ..Self::auto()
        }
    }

    /// Returns everything that determines which pairs an input yields. The handling of bad rows is not part of it, but
    /// the limit by which rows are skipped is.
    pub fn identity(&self) -> impl Hash {
        let skips_by = (self.on_error == OnError::Skip && self.max_row != ROW_BYTES_MAX).then_some(self.max_row);
        (self.format, self.reading(), skips_by)
    }

    /// Whether the user left the choice of the format to the program.
    pub fn is_auto(&self) -> bool {
        self.format.0.is_none()
    }

    fn reading(&self) -> Reading {
        Reading {
            key: self.key.clone(),
            key_separator: self.key_separator.as_ref().map(|separator| separator.0.clone()),
            value: self.value.clone(),
            no_header: self.no_header,
            no_escapes: self.no_escapes,
            number: self.number,
            own_rule: self.own_rule,
            ttl: self.server.ttl,
        }
    }
}
