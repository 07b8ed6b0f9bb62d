//! Opens tables, and says what a file is. If the file is a dictionary, the error says which commands are for it.
//!
//! Not here: opening dictionaries (`cmd/dict/mod.rs`).

use crate::failure::{Failure, Result};
use splitpoint::{Dictionary, ErrorKind, Table, TableOptions};
use std::path::Path;

pub fn open_to_read(path: &Path) -> Result<Table> {
    opened(path, TableOptions::new().create(false).read_only(true).open(path))
}

/// Opens a table that must exist: a misspelt name creates no file.
pub fn open_to_change(path: &Path) -> Result<Table> {
    opened(path, TableOptions::new().create(false).open(path))
}

pub fn open_or_create(path: &Path) -> Result<Table> {
    require_directory_of(path)?;
    opened(path, TableOptions::new().create(true).open(path))
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

/// Whether the file is a table, judged by its content; a damaged one counts.
pub fn is_table(path: &Path) -> bool {
    let table = TableOptions::new().create(false).read_only(true).open(path);
    table.map_or_else(|error| !matches!(error.kind(), ErrorKind::NotATable | ErrorKind::Io), |_| true)
}

/// If the file is a dictionary, the error says which commands are for it.
pub fn opened(path: &Path, table: splitpoint::Result<Table>) -> Result<Table> {
    table.map_err(|error| {
        if error.kind() == ErrorKind::NotATable && is_dictionary(path) {
            let name = path.display();
            return Failure::of_kind(
                ErrorKind::NotATable,
                format_args!(
                    "{name}: is a dictionary, not a table; the `splitpoint dict` commands are for it, and \
                     `splitpoint thaw {name} FILE` turns it into a table"
                ),
            );
        }
        error.into()
    })
}

/// Whether the file is a dictionary, judged by its content; a damaged one counts.
pub fn is_dictionary(path: &Path) -> bool {
    Dictionary::open(path)
        .map_or_else(|error| !matches!(error.kind(), ErrorKind::NotADictionary | ErrorKind::Io), |_| true)
}
