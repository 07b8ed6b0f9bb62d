//! SWAPDB: exchanges two databases in O(1).
//!
//! ```text
//! memory   the two tables are exchanged
//! file     write FILE-order -> exchange the two tables; when the server starts, FILE-order says which file is which
//! ```
//!
//! `FILE-order` has the number of the file of each database, as text: `1 0 2 3 ...`. Without it database `n` is in
//! `FILE-dbn`. It is replaced as a whole, and is on the disk before the exchange is acknowledged.

use super::{DATABASE_COUNT, Database, Exclusive, KeySpace, Place, Result};
use splitpoint::{Error, ErrorKind};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The number of the file of each database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order([u8; DATABASE_COUNT]);

impl Default for Order {
    fn default() -> Self {
        Order(std::array::from_fn(|number| number as u8)) // below 16
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

impl Order {
    /// The number of the file of a database.
    pub(super) fn file_of(self, database: usize) -> usize {
        self.0[database].into()
    }

    /// Reads the order that is stored next to the file of database 0. Without such a file, the order is the usual one.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not an order of all databases.
    pub(super) fn read(path: &Path) -> splitpoint::Result<Order> {
        const BYTES_MAX: u64 = 1 << 10;
        let path = with_suffix(path, "-order");
        let failed = |error: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {error}", path.display()));
        let mut text = String::new();
        match File::open(&path) {
            Ok(file) => std::io::Read::read_to_string(&mut std::io::Read::take(file, BYTES_MAX), &mut text)
                .map_err(failed)
                .map(drop)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Order::default()),
            Err(error) => return Err(failed(error)),
        }
        Order::parse(&text).ok_or_else(|| {
            let what = format!("{}: not an order of {DATABASE_COUNT} databases", path.display());
            Error::new(ErrorKind::Corrupt, what)
                .with_hint("Restore it from a backup, or remove it if SWAPDB was never used.")
        })
    }

    fn parse(text: &str) -> Option<Order> {
        let numbers: Option<Vec<u8>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        let order = Order(numbers?.try_into().ok()?);
        let is_complete = (0..DATABASE_COUNT).all(|number| order.0.iter().any(|&file| usize::from(file) == number));
        is_complete.then_some(order)
    }

    /// Replaces the order stored next to the file of database 0.
    fn write(self, path: &Path) -> std::io::Result<()> {
        let (path, temporary) = (with_suffix(path, "-order"), with_suffix(path, "-order.new"));
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let mut file = File::create(&temporary)?;
        file.write_all(format!("{}\n", words.join(" ")).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

impl KeySpace {
    /// The number of the file of a database.
    pub(super) fn file_number(&self, database: usize) -> usize {
        self.order.lock().unwrap_or_else(|e| e.into_inner()).file_of(database)
    }
}

impl Exclusive<'_> {
    /// Exchanges two databases. Over a file it must not be called between `begin` and `commit`.
    ///
    /// # Errors
    /// [`SpaceError::ReadOnly`](super::SpaceError) where a dictionary is served; [`ErrorKind::Io`] if the order of the
    /// files cannot be written: then nothing is exchanged.
    pub(crate) fn swap(&mut self, one: usize, other: usize) -> Result<()> {
        let space = self.space();
        space.refuse_dictionary()?;
        if one == other {
            return Ok(());
        }
        if let Place::File(_, path) = &space.place {
            let mut order = space.order.lock().unwrap_or_else(|e| e.into_inner());
            let mut swapped = *order;
            swapped.0.swap(one, other);
            swapped.write(path).map_err(|error| {
                let _ = order.write(path); // it may have been replaced already
                Error::new(ErrorKind::Io, format!("the order of the databases could not be written: {error}"))
            })?;
            *order = swapped;
        }
        for database in [one, other] {
            let holds = |number, key: &[u8]| self.presence_of(number, key).map_or(true, |(is_present, _)| is_present);
            space.watched.touch_all(database, |key| holds(one, key) || holds(other, key));
        }
        space.events.changes.fetch_add(1, Relaxed);
        let order = space.order.lock().unwrap_or_else(|e| e.into_inner());
        space.databases[one].exchange(&space.databases[other]);
        drop(order);
        self.note_all_wanted();
        Ok(())
    }
}

impl Database {
    /// Exchanges the contents of two databases. The caller has closed the gate and locked the order.
    fn exchange(&self, other: &Database) {
        let table = self.table.swap(other.table.load_full());
        other.table.store(table);
        let segments = self.segments.swap(other.segments.load_full());
        other.segments.store(segments);
        let counts = self.counts();
        *self.counts.lock().unwrap_or_else(|e| e.into_inner()) = other.counts();
        *other.counts.lock().unwrap_or_else(|e| e.into_inner()) = counts;
        let exchange =
            |one: &AtomicBool, other: &AtomicBool| other.store(one.swap(other.load(Relaxed), Relaxed), Relaxed);
        exchange(&self.may_expire, &other.may_expire);
        exchange(&self.fields_may_expire, &other.fields_may_expire);
        exchange(&self.cleared, &other.cleared);
        exchange(&self.has_segments, &other.has_segments);
        let exchange =
            |one: &AtomicU64, other: &AtomicU64| other.store(one.swap(other.load(Relaxed), Relaxed), Relaxed);
        exchange(&self.heads, &other.heads);
        exchange(&self.hidden, &other.hidden);
        for database in [self, other] {
            // A pass of the sweep that began before saw another table.
            database.is_expiry_new.store(database.may_expire.load(Relaxed), Relaxed);
            database.is_field_expiry_new.store(database.fields_may_expire.load(Relaxed), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{Attributes, Lifetime, Patience, SpaceOptions};
    use std::sync::Arc;

    #[test]
    fn only_a_complete_order_is_one() {
        let usual = "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
        assert_eq!(Order::parse(usual), Some(Order::default()));
        for wrong in ["", "0", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 14", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "x"]
        {
            assert_eq!(Order::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn swapped_databases_stay_swapped_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let options = SpaceOptions { file: Some(folder.path().join("t.spt")), logged: true, ..Default::default() };
        let get = |space: &KeySpace, database: usize, key: &[u8]| {
            let mut value = Vec::new();
            let found = space.close(Patience::MayWait).unwrap().get(database, key, &mut value).unwrap();
            found.then_some(value)
        };
        let space = KeySpace::open(options.clone()).unwrap();
        {
            let mut alone = space.close(Patience::MayWait).unwrap();
            let forever = Lifetime::Are(Attributes::expiring(u64::MAX >> 2));
            alone.put(0, b"a", b"zero", Lifetime::Clear).unwrap();
            alone.put(3, b"a", b"three", forever).unwrap();
            alone.swap(0, 3).unwrap();
            alone.swap(3, 5).unwrap();
            alone.put(7, b"new", b"seven", Lifetime::Clear).unwrap();
            alone.put(3, b"new", b"in the file of 5", Lifetime::Clear).unwrap();
        }
        let check = |space: &KeySpace| {
            assert_eq!(get(space, 0, b"a").as_deref(), Some(b"three".as_slice()));
            assert_eq!(get(space, 5, b"a").as_deref(), Some(b"zero".as_slice()));
            assert_eq!(get(space, 3, b"new").as_deref(), Some(b"in the file of 5".as_slice()));
            assert_eq!((space.len(0), space.len(3), space.len(5), space.len(7)), (1, 1, 1, 1));
            assert_eq!(space.lifetimes(0).unwrap().0, 1);
        };
        check(&space);
        drop(space);
        check(&KeySpace::open(options.clone()).unwrap());
        std::fs::write(folder.path().join("t.spt-order"), "0 0").unwrap();
        let error = KeySpace::open(options).err().unwrap().to_string();
        assert!(error.contains("t.spt-order"), "{error}");
    }

    #[test]
    fn tables_that_are_swapped_while_they_are_listed_are_listed_once() {
        let space = KeySpace::open(SpaceOptions::default()).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        for database in [0, 3] {
            alone.put(database, b"key", b"value", Lifetime::Clear).unwrap();
        }
        let mut tables = space.tables();
        let first = tables.next().unwrap();
        alone.swap(0, 3).unwrap();
        let second = tables.next().unwrap();
        assert!(!Arc::ptr_eq(&first, &second) && tables.next().is_none());
    }
}
