//! A table file that a server has used, for programs that read or change it while no server has it open.
//!
//! A server stores lifetimes and flags of keys in the file, as marked pairs (`marks.rs`). A program that changes a
//! value through `Table` alone leaves the old lifetime in place, so the new value expires with it. A program that
//! counts pairs counts the marked ones too.
//!
//! ```text
//! get, contains, remove, scan     expired keys are absent, marked pairs are not keys
//! put                             the key loses its lifetime, as after SET
//! append                          the key keeps its lifetime, as after APPEND
//! ```
//!
//! A table that was never served has no marked pairs; then each function is one call of the table.

use super::attributes::Attributes;
use super::{marks, now_ms};
use splitpoint::{Result, Scan, Table};

/// The keys of a table, as a server would show them.
#[derive(Clone, Copy)]
pub struct ServedFile<'t> {
    table: &'t Table,
    /// Whether the file has, or had, marked pairs.
    has_marks: bool,
    now_ms: u64,
}

impl<'t> ServedFile<'t> {
    /// The keys of `table`. O(1).
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub fn of(table: &'t Table) -> Result<ServedFile<'t>> {
        Ok(Self::with_marks(table, table.contains(&marks::header())?))
    }

    /// The keys of `table`, for callers that already know whether the file has marked pairs.
    pub fn with_marks(table: &'t Table, has_marks: bool) -> ServedFile<'t> {
        ServedFile { table, has_marks, now_ms: now_ms() }
    }

    /// Whether a server has kept lifetimes or flags in the file.
    pub fn has_marks(&self) -> bool {
        self.has_marks
    }

    fn is_expired(&self, key: &[u8]) -> Result<bool> {
        if !self.has_marks {
            return Ok(false);
        }
        let attributes = self.table.get(&marks::of_attributes(key))?;
        Ok(attributes.as_deref().and_then(Attributes::decode).is_some_and(|attributes| attributes.expired(self.now_ms)))
    }

    /// The stored key of the value of `key`.
    fn stored<'a>(&self, key: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.has_marks { marks::of_value(key) } else { key.into() }
    }

    /// Copies the value of `key` to `value`. `false` if the key is absent or has expired.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if self.is_expired(key)? { Ok(false) } else { self.table.get_into(&self.stored(key), value) }
    }

    /// Whether `key` is present and has not expired.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(!self.is_expired(key)? && self.table.contains(&self.stored(key))?)
    }

    /// Stores `value` under `key` and removes the key's lifetime.
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if !self.has_marks {
            return self.table.put(key, value);
        }
        let mut batch = self.table.batch();
        batch.put(&marks::of_value(key), value)?;
        batch.remove(&marks::of_attributes(key))?;
        batch.commit()
    }

    /// Appends `tail` to the value of `key`, which keeps its lifetime; `tail` becomes the value of an absent key.
    /// Returns the new length.
    ///
    /// # Errors
    /// Those of [`Table::append`].
    pub fn append(&self, key: &[u8], tail: &[u8]) -> Result<usize> {
        if self.is_expired(key)? {
            return self.put(key, tail).map(|()| tail.len());
        }
        self.table.append(&self.stored(key), tail)
    }

    /// Removes `key` and its lifetime. Returns whether it was present and had not expired.
    ///
    /// # Errors
    /// Those of [`Table::remove`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        if !self.has_marks {
            return self.table.remove(key);
        }
        let was_present = self.contains(key)?;
        let mut batch = self.table.batch();
        batch.remove(&marks::of_value(key))?;
        batch.remove(&marks::of_attributes(key))?;
        batch.commit()?;
        Ok(was_present)
    }

    /// Stores `value` under `key` if it is absent, or has expired. Returns whether it did.
    ///
    /// # Errors
    /// Those of [`Table::insert_new`].
    pub fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        if !self.has_marks {
            return self.table.insert_new(key, value);
        }
        let is_absent = !self.contains(key)?;
        if is_absent {
            self.put(key, value)?;
        }
        Ok(is_absent)
    }

    /// Moves `value` and the lifetime from `old`, which must be present, to `new`.
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub fn rename(&self, old: &[u8], new: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = self.table.batch();
        batch.put(&self.stored(new), value)?;
        batch.remove(&self.stored(old))?;
        if self.has_marks {
            match self.table.get(&marks::of_attributes(old))? {
                Some(attributes) => batch.put(&marks::of_attributes(new), &attributes)?,
                None => batch.remove(&marks::of_attributes(new))?,
            }
            batch.remove(&marks::of_attributes(old))?;
        }
        batch.commit()
    }

    /// The number of keys. O(1), or O(pairs) if the file has marked pairs.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub fn count_keys(&self) -> Result<u64> {
        if !self.has_marks {
            return Ok(self.table.len());
        }
        let (mut count, mut scan) = (0, self.table.scan().only_keys());
        while let Some((stored, _)) = scan.next_ref()? {
            if let marks::Stored::Key(key) = marks::parse(stored) {
                count += u64::from(!self.is_expired(key)?);
            }
        }
        Ok(count)
    }

    /// Filters a scan of the table: leaves out marked pairs and expired keys.
    pub fn keys_of(self, scan: Scan<'t>) -> ServedScan<'t> {
        ServedScan { file: self, scan, key: Vec::new(), value: Vec::new() }
    }
}

/// A scan that leaves out marked pairs and expired keys; made by [`ServedFile::keys_of`].
pub struct ServedScan<'t> {
    file: ServedFile<'t>,
    scan: Scan<'t>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl ServedScan<'_> {
    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// Those of [`Scan::next_ref`].
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.file.has_marks {
            return self.scan.next_ref();
        }
        while let Some((stored, value)) = self.scan.next_ref()? {
            match marks::parse(stored) {
                marks::Stored::Attributes(_) | marks::Stored::Other => {}
                marks::Stored::Key(key) if self.file.is_expired(key)? => {}
                marks::Stored::Key(key) => {
                    self.key.clear();
                    self.key.extend_from_slice(key);
                    self.value.clear();
                    self.value.extend_from_slice(value);
                    return Ok(Some((&self.key, &self.value)));
                }
            }
        }
        Ok(None)
    }

    /// The cursor of the scan.
    pub fn cursor(&self) -> Option<u64> {
        self.scan.cursor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, Lifetime, Patience, SpaceOptions};

    #[test]
    fn a_served_file_has_its_keys_without_their_lifetimes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let options = SpaceOptions { file: Some(path.clone()), ..SpaceOptions::default() };
        let marked = [marks::MARK, b"m".as_slice(), b"k"].concat();
        let later = now_ms() + 1_000_000;
        {
            let space = KeySpace::open(options.clone()).unwrap();
            let mut alone = space.close(Patience::MayWait).unwrap();
            let expiring = |at| Lifetime::Are(Attributes::expiring(at));
            alone.put(0, b"plain", b"1", Lifetime::Clear).unwrap();
            alone.put(0, b"long", b"2", expiring(later)).unwrap();
            alone.put(0, b"kept", b"3", expiring(later)).unwrap();
            alone.put(0, b"over", b"4", expiring(1)).unwrap();
            alone.put(0, &marked, b"5", expiring(later)).unwrap();
        }
        let table = Table::open(&path).unwrap();
        let file = ServedFile::of(&table).unwrap();
        assert!(table.len() > 5);
        assert_eq!(file.count_keys().unwrap(), 4);
        let (mut scan, mut keys) = (file.keys_of(table.scan()), Vec::new());
        while let Some((key, _)) = scan.next_ref().unwrap() {
            keys.push(key.to_vec());
        }
        keys.sort();
        assert_eq!(keys, [marked.clone(), b"kept".to_vec(), b"long".to_vec(), b"plain".to_vec()]);
        assert!(!file.contains(b"over").unwrap() && file.contains(&marked).unwrap());
        file.put(b"long", b"new").unwrap();
        assert_eq!(file.append(b"kept", b"!").unwrap(), 2);
        assert_eq!(file.append(b"over", b"!").unwrap(), 1);
        assert!(file.remove(&marked).unwrap() && !file.remove(b"over2").unwrap());
        file.rename(b"kept", b"renamed", b"3!").unwrap();
        table.close().unwrap();
        let space = KeySpace::open(options).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        for (key, expires) in [(b"long".as_slice(), 0), (b"renamed", later), (b"over", 0)] {
            assert!(alone.contains(0, key).unwrap());
            assert_eq!(alone.attributes(0, key).unwrap().expires_at_ms, expires, "{}", key.escape_ascii());
        }
        assert_eq!(space.len(0), 4);
        assert!(!alone.contains(0, &marked).unwrap());
    }
}
