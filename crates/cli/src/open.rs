//! Opens tables, and identifies files. If the file is a dictionary, the error names the commands for dictionaries.
//!
//! Not here: opening dictionaries (`cmd/dict/mod.rs`).

use crate::failure::{Failure, Result};
use crate::number::parse_size;
use splitpoint::{Dictionary, ErrorKind, Table, TableOptions};
use splitpoint_server::rdb::TypedFile;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The number of first bytes that identify a table or a dictionary.
const SIGNATURE_BYTES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Table,
    Dictionary,
}

/// Whether the file at `path` is a table or a dictionary, by its first bytes; a damaged one counts. A directory is a
/// dictionary if it has the manifest of one.
///
/// # Errors
/// A failure to read it.
pub fn stored(path: &Path) -> std::io::Result<Option<StoreKind>> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        return Ok(is_dictionary(path).then_some(StoreKind::Dictionary));
    }
    // The first bytes of a pipe would be lost.
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut head = Vec::new();
    File::open(path)?.take(SIGNATURE_BYTES).read_to_end(&mut head)?;
    Ok(kind_of(&head))
}

/// Identifies a file by its first bytes, `head`. The signature ends with a zero byte, which text lacks.
fn kind_of(head: &[u8]) -> Option<StoreKind> {
    let is = |signature: &[u8]| head.strip_prefix(signature).is_some_and(|rest| rest.contains(&0));
    match () {
        () if is(b"SPLITPNT") => Some(StoreKind::Table),
        () if is(b"SPLITDCT") => Some(StoreKind::Dictionary),
        () => None,
    }
}

/// The failure to open a file that is neither a table nor a dictionary.
pub fn neither(path: &Path) -> Failure {
    let path = path.display();
    let what = "is neither a table nor a dictionary; `splitpoint load` reads files of pairs, and";
    Failure::of_kind(
        ErrorKind::NotATable,
        format_args!("{path}: {what} `splitpoint dump {path} --salvage` a table without a header"),
    )
}

/// Memory for tables, an option of every command that opens one.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct CacheArgs {
    /// Memory for a table's buffer pool, as 64M or 2GiB [default: half of the memory, a quarter of a container's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    cache: Option<u64>,
}

impl CacheArgs {
    pub fn bytes(self) -> Option<u64> {
        self.cache
    }

    pub fn options(self) -> TableOptions {
        let options = TableOptions::new();
        match self.cache {
            Some(bytes) => options.cache_bytes(bytes),
            None => options,
        }
    }

    pub fn open_to_read(self, path: &Path) -> Result<Table> {
        ReadArgs::from(self).open(path)
    }

    /// Opens a table that must exist: a misspelt name creates no file.
    pub fn open_to_change(self, path: &Path) -> Result<Table> {
        opened(path, self.options().create(false).open(path))
    }

    pub fn open_or_create(self, path: &Path) -> Result<Table> {
        require_directory_of(path)?;
        opened(path, self.options().create(true).open(path))
    }
}

/// Options of commands that only read a table.
#[derive(clap::Args, Clone, Copy, Default)]
pub struct ReadArgs {
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Read only the last checkpoint, without the writes since then
    #[arg(long)]
    checkpoint: bool,
}

impl From<CacheArgs> for ReadArgs {
    fn from(cache: CacheArgs) -> Self {
        Self { cache, checkpoint: false }
    }
}

impl ReadArgs {
    pub fn options(self) -> TableOptions {
        self.cache.options().create(false).read_only(true).checkpoint_only(self.checkpoint)
    }

    pub fn open(self, path: &Path) -> Result<Table> {
        opened(path, self.options().open(path))
    }
}

/// Returns the number of the database that a server keeps in the file at `path`, 0 unless SWAPDB has exchanged it; and
/// the other databases that have files, with these.
///
/// # Errors
/// [`ErrorKind::Corrupt`] for a damaged order of the databases.
pub fn databases(path: &Path) -> Result<(u64, Vec<(u64, PathBuf)>)> {
    let (number, mut others) = TypedFile::databases(path)?;
    others.retain(|(_, path)| path.exists());
    Ok((number, others))
}

/// Refuses a new file in a directory that does not exist, naming the directory.
pub fn require_directory_of(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.exists() => {
            let (path, directory) = (path.display(), directory.display());
            let message = format!("{path}: there is no directory {directory}; create it with `mkdir -p {directory}`");
            Err(Failure::of_kind(ErrorKind::Io, message))
        }
        _ => Ok(()),
    }
}

/// Whether the directory is a dictionary; a damaged one counts.
fn is_dictionary(path: &Path) -> bool {
    Dictionary::open(path)
        .map_or_else(|error| !matches!(error.kind(), ErrorKind::NotADictionary | ErrorKind::Io), |_| true)
}

/// If the file is a dictionary, the error names the commands for dictionaries.
pub fn opened(path: &Path, table: splitpoint::Result<Table>) -> Result<Table> {
    table.map_err(|error| {
        let is_dictionary = || stored(path).is_ok_and(|kind| kind == Some(StoreKind::Dictionary));
        if error.kind() == ErrorKind::NotATable && is_dictionary() {
            let name = path.display();
            return Failure::of_kind(
                ErrorKind::NotATable,
                format_args!(
                    "{name}: is a dictionary, not a table; `splitpoint dict update` changes it, and `splitpoint thaw \
                     {name} FILE` turns it into a table"
                ),
            );
        }
        error.into()
    })
}
