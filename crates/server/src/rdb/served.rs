//! Values of every type in a table file that no server has open: how `splitpoint load` stores them and `dump` reads
//! them.

use super::file::Entry;
use super::{Form, Object, Value, stored};
use crate::keyspace::{
    Attributes, DATABASE_COUNT, Exclusive, KeySpace, Kind, Lifetime, Patience, Record, ServedFile, ServedScan,
    SpaceError, SpaceOptions, databases_of, now_ms,
};
use splitpoint::{Error, ErrorKind, Result, Scan, Table};
use std::path::{Path, PathBuf};

/// A table file that receives values of every type.
pub struct TypedFile(KeySpace);

/// The result of storing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is stored.
    Done,
    /// The key was present, and keeps its value.
    Present,
    /// It has expired.
    Expired,
}

fn plain(error: SpaceError) -> Error {
    match error {
        SpaceError::Table(error) => error,
        other => Error::new(ErrorKind::InvalidArgument, other.to_string()),
    }
}

impl TypedFile {
    /// The number of databases that a file and its sidecar files can hold.
    pub const DATABASES: u64 = DATABASE_COUNT as u64;

    /// The number of the database in the table file at `path`, 0 unless SWAPDB has exchanged it; and the others with
    /// their sidecar files, which may be absent.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a damaged order of the databases.
    pub fn databases(path: &Path) -> Result<(u64, Vec<(u64, PathBuf)>)> {
        databases_of(path)
    }

    /// Takes over the table. Databases other than 0 are in sidecar files of `path`, which are created when
    /// needed, with these options.
    ///
    /// # Errors
    /// [`ErrorKind::Version`] if another version has served the file.
    pub fn of(table: Table, path: PathBuf, options: SpaceOptions) -> Result<TypedFile> {
        KeySpace::over_table(table, path, options).map(TypedFile).map_err(plain)
    }

    /// Stores a value as one change; `replace`: may replace an earlier one. Fields that have expired are left out.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`], or [`ErrorKind::InvalidArgument`] for a database above
    /// [`DATABASES`](Self::DATABASES) or a module's value.
    pub fn put(&self, entry: &Entry, replace: bool) -> Result<Stored> {
        let database = usize::try_from(entry.database).ok().filter(|number| *number < DATABASE_COUNT);
        let Some(database) = database else {
            let what = format!("database {}: there are {DATABASE_COUNT}, from 0", entry.database);
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        let Object::Value(value) = &entry.object else {
            return Err(Error::new(ErrorKind::InvalidArgument, "a module's value cannot be stored"));
        };
        if entry.expires_at_ms != 0 && entry.expires_at_ms <= now_ms() {
            return Ok(Stored::Expired);
        }
        let Some(mut alone) = self.0.close(Patience::MayWait) else {
            return Err(Error::new(ErrorKind::Io, "the file is in use"));
        };
        Self::put_within(&mut alone, database, entry, value, replace).map_err(plain)
    }

    /// Writes the log to the disk.
    ///
    /// # Errors
    /// Returns the errors of [`Table::sync`].
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn put_within(
        alone: &mut Exclusive<'_>,
        database: usize,
        entry: &Entry,
        value: &Value,
        replace: bool,
    ) -> crate::keyspace::Result<Stored> {
        let &Entry { ref key, expires_at_ms, flags, .. } = entry;
        if !replace && alone.contains(database, key)? {
            return Ok(Stored::Present);
        }
        alone.begin();
        if ServedFile::is_reserved(key) {
            // Without heads, the program would look for the key unchanged.
            alone.begin_heads(database)?;
        }
        let stored = match value {
            Value::String(value) => {
                let attributes = Attributes { flags, ..Attributes::expiring(expires_at_ms) };
                alone.put(database, key, value, Lifetime::Are(attributes)).map(|()| true)
            }
            value => stored::store(alone, database, key, value, expires_at_ms),
        };
        match stored {
            Ok(is_present) => alone.commit().map(|()| if is_present { Stored::Done } else { Stored::Expired }),
            Err(error) => {
                alone.roll_back();
                Err(error)
            }
        }
    }

    /// The number of keys of all databases.
    pub fn count_keys(&self) -> u64 {
        (0..DATABASE_COUNT).map(|database| self.0.len(database)).sum()
    }

    /// Writes and closes the sidecar files. Returns the table, which the caller must write and close.
    ///
    /// # Errors
    /// Returns the errors of [`Table::checkpoint`] and [`Table::close`].
    pub fn into_table(self) -> Result<Table> {
        // Segments of replaced collections are of no use.
        self.0.sweep_segments(|| true).map_err(plain)?;
        let (mut first, mut written) = (None, Ok(()));
        for (number, table) in self.0.into_tables() {
            match number {
                0 => first = Some(table),
                _ => written = written.and(table.checkpoint().and_then(|()| table.close())),
            }
        }
        written?;
        first.ok_or_else(|| Error::new(ErrorKind::Io, "the table is in use"))
    }
}

/// All keys of a table with values of every type and their lifetimes.
pub struct StoredScan<'t>(ServedScan<'t>);

impl<'t> StoredScan<'t> {
    /// The keys that `scan`, a scan of the file's table, finds.
    pub fn of(file: ServedFile<'t>, scan: Scan<'t>) -> StoredScan<'t> {
        StoredScan(file.keys_of(scan))
    }

    /// The next key of database 0, and the encoding that Redis would use for its value.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn next_entry(&mut self) -> Result<Option<(Entry, Form)>> {
        let mut file = self.0.file();
        loop {
            let Some((key, Record { attributes, value })) = self.0.next_record()? else { return Ok(None) };
            let found = match attributes.kind {
                Kind::String => Some((Value::String(value.to_vec()), Form::Packed)),
                kind => stored::collection(&mut file, 0, key, kind).map_err(plain)?,
            };
            let (value, form) = match found {
                Some(found) => found,
                // All its fields have expired.
                None if attributes.kind == Kind::Hash => continue,
                None => return Err(Error::new(ErrorKind::Corrupt, "a key that is listed is absent")),
            };
            let (key, expires_at_ms) = (key.to_vec(), attributes.expires_at_ms);
            let flags = attributes.flags;
            return Ok(Some((Entry { database: 0, key, expires_at_ms, flags, object: Object::Value(value) }, form)));
        }
    }
}
