//! Two columns of a table or view of an SQLite database: `sqlite:users.db#users`.
//!
//! The name of the table and of its columns are quoted, and the columns are compared with those that the table has: no
//! part of the input is taken for SQL. The file is opened for reading only, and is not trusted: its views may call no
//! function with side effects.

use super::threaded::{Ended, Feed, Threaded};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::options::{Column, Reading, join};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use splitpoint::ErrorKind;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Starts reading the columns of `reading`. If it names none, a table of two columns has keys and values.
///
/// # Errors
/// An input without a table, a file that cannot be opened or is no database, a missing table or column.
pub fn open(input: &Path, reading: Reading, row_bytes_max: u64) -> Result<Threaded> {
    let (file, table) = parts(input)?;
    let failed = |error| Failure::io(file.display(), &error);
    // Opening a pipe would wait for its writer.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Failure::usage(format_args!("{}: is not a file, as SQLite's databases are", file.display())));
    }
    // SQLite's own message does not say why.
    std::fs::File::open(&file).map_err(failed)?;
    let name = format!("{}#{table}", file.display());
    let place = name.clone();
    Threaded::start(name, move |feed| {
        let database = Database { place, table, row_bytes_max };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags).map_err(|error| database.failure(&error))?;
        database.read(&connection, &reading, feed)?;
        Ok(None)
    })
}

/// Returns the file and the table of `sqlite:FILE#TABLE`.
fn parts(input: &Path) -> Result<(PathBuf, String)> {
    let bytes = input.as_os_str().as_bytes();
    let rest = bytes.strip_prefix(super::SQLITE).unwrap_or(bytes);
    let at = memchr::memrchr(b'#', rest).filter(|at| *at > 0 && at + 1 < rest.len());
    let table = at.and_then(|at| String::from_utf8(rest[at + 1..].to_vec()).ok());
    let Some(table) = table else {
        let input = input.display();
        return Err(Failure::usage(format_args!("{input}: name the table, as in sqlite:users.db#users")));
    };
    Ok((super::file_behind(input).to_owned(), table))
}

/// Quotes an SQL identifier, whatever its characters.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

struct Database {
    /// The name of the input in messages.
    place: String,
    table: String,
    row_bytes_max: u64,
}

impl Database {
    fn failure(&self, error: &Error) -> Failure {
        let place = &self.place;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::of_kind(
                ErrorKind::Locked,
                format_args!("{place}: another process has locked the database; try again when it is done"),
            ),
            // Opened for reading only, SQLite cannot undo a write.
            Some(ErrorCode::ReadOnly) => Failure::of_kind(
                ErrorKind::Locked,
                format_args!(
                    "{place}: a write to the database was interrupted, and its journal is not undone yet; \
                     `sqlite3 FILE .tables` undoes it"
                ),
            ),
            Some(ErrorCode::NotADatabase) => {
                Failure::of_kind(ErrorKind::NotATable, format_args!("{place}: is not an SQLite database ({error})"))
            }
            Some(ErrorCode::DatabaseCorrupt) => Failure::of_kind(
                ErrorKind::Corrupt,
                format_args!("{place}: the database is damaged ({error}); `sqlite3 FILE .recover` writes what is left"),
            ),
            Some(ErrorCode::Unknown) | None => Failure::usage(format_args!("{place}: {error}")),
            _ => Failure::of_kind(ErrorKind::Io, format_args!("{place}: {error}")),
        }
    }

    fn read(&self, connection: &Connection, reading: &Reading, feed: &mut Feed) -> std::result::Result<(), Ended> {
        let failed = |error: Error| Ended::Failed(self.failure(&error));
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
        connection.execute_batch("PRAGMA cell_size_check = ON").map_err(failed)?;
        connection.busy_timeout(std::time::Duration::ZERO).map_err(failed)?;
        let table = quoted(&self.table);
        let names: Vec<String> = {
            let all = connection.prepare(&format!("SELECT * FROM {table}")).map_err(failed)?;
            all.column_names().map(str::to_owned).collect()
        };
        let (keys, value) = self.columns(&names, reading)?;
        let list: Vec<_> = keys.iter().chain([&value]).map(|index| quoted(&names[*index])).collect();
        let query = format!("SELECT {} FROM {table}", list.join(", "));
        let mut statement = connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let separator = reading.key_separator();
        let mut fields = vec![Vec::new(); list.len()];
        while let Some(row) = rows.next().map_err(failed)? {
            let mut bytes = 0;
            let mut null = None;
            for (index, field) in fields.iter_mut().enumerate() {
                field.clear();
                match row.get_ref(index).map_err(failed)? {
                    ValueRef::Null => null = Some(index),
                    ValueRef::Integer(number) => _ = write!(field, "{number}"),
                    ValueRef::Real(number) => _ = write!(field, "{number:?}"),
                    ValueRef::Text(text) | ValueRef::Blob(text) => field.extend_from_slice(text),
                }
                bytes += field.len() as u64;
            }
            if let Some(index) = null {
                feed.bad(format!("{} is null", list[index]))?;
                continue;
            }
            if bytes > self.row_bytes_max {
                let most = self.row_bytes_max;
                feed.bad(format!("a row of {bytes} bytes is longer than {most} bytes; --max-row raises the limit"))?;
                continue;
            }
            let mut key = Vec::new();
            match join(fields[..keys.len()].iter().map(|part| &part[..]), &separator, &mut key) {
                Ok(()) => feed.pair(key, fields[keys.len()].clone())?,
                Err(what) => feed.bad(what)?,
            }
        }
        Ok(())
    }

    /// Returns the indexes of the columns of the key, and of the value.
    fn columns(&self, names: &[String], reading: &Reading) -> Result<(Vec<usize>, usize)> {
        let find = |option: &str, column: &Column| {
            let place = &self.place;
            column.among(names).map_err(|what| Failure::usage(format_args!("{place}: {option}: {what}")))
        };
        let keys = match &reading.key[..] {
            [] => vec![0],
            keys => keys.iter().map(|column| find("--key", column)).collect::<Result<_>>()?,
        };
        let value = match &reading.value {
            Some(column) => Some(find("--value", column)?),
            None => {
                let mut others = (0..names.len()).filter(|index| !keys.contains(index));
                let other = others.next();
                if others.next().is_some() {
                    let names: Vec<_> = names.iter().map(|name| escapes::quoted(name.as_bytes())).collect();
                    let (place, there) = (&self.place, names.join(", "));
                    return Err(Failure::usage(format_args!(
                        "{place}: has the columns {there}; --value COLUMN chooses that of the values"
                    )));
                }
                other
            }
        };
        let value = value.ok_or_else(|| {
            let place = &self.place;
            Failure::usage(format_args!("{place}: has no other column for the value; --value chooses one"))
        })?;
        Ok((keys, value))
    }
}
