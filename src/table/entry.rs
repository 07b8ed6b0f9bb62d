//! Entries: a value that is inserted, changed or removed depending on whether its key is present.
//!
//! ```text
//! or_insert, remove           find the key, under the latch of its bucket -> insert or remove
//! and_modify, or_insert_with  find and read -> call the functions, without a latch -> store where the pair was found,
//!                             if its frame is unchanged; else search, and start over if the value is another one
//! ```
//!
//! Functions run without a latch so that they may use the table and may panic. Room in the log is also reserved before
//! the latch, and its length depends on what they return.
//!
//! Not here: `update`, on which the second is built (`mod.rs`).

use super::handle::Table;
use super::options::Durability;
use super::view::WriteView;
use crate::error::Result;

/// The pair of a key, present or absent; made by [`Table::entry`]. Nothing is read or written before one of the methods
/// that return a [`Result`].
#[must_use = "an entry does nothing before or_insert, or_insert_with, apply or remove"]
pub struct Entry<'t, 'k> {
    table: &'t Table,
    durability: Durability,
    key: &'k [u8],
    changes: Vec<Box<Change<'k>>>,
}

/// Changes a value in place.
type Change<'k> = dyn FnMut(&mut Vec<u8>) + 'k;

impl Table {
    /// Returns the entry of `key`, to insert, change or remove its pair in one atomic step.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     table.entry(word.as_bytes()).and_modify(|count| count[0] += 1).or_insert(&[1])?;
    /// }
    /// assert_eq!(table.get(b"to")?.as_deref(), Some(&[2][..]));
    /// assert_eq!(table.entry(b"be").remove()?, Some(vec![2]));
    /// assert_eq!(table.entry(b"or").or_insert(b"new")?, [1]);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn entry<'k>(&self, key: &'k [u8]) -> Entry<'_, 'k> {
        Entry { table: self, durability: self.durability, key, changes: Vec::new() }
    }
}

impl<'t> WriteView<'t> {
    /// Returns [`Table::entry`] with the view's durability.
    pub fn entry<'k>(&self, key: &'k [u8]) -> Entry<'t, 'k> {
        Entry { durability: self.durability(), ..self.table().entry(key) }
    }
}

impl<'k> Entry<'_, 'k> {
    /// The key.
    pub fn key(&self) -> &'k [u8] {
        self.key
    }

    /// Changes the value by `change`, if the key is present when the entry is applied. Several changes are made in
    /// order.
    ///
    /// No latch is held while `change` runs, so it may use the table and may panic. It is called again, with the new
    /// value, if another thread changed the value in the meantime.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let hits = |table: &splitpoint::Table| table.entry(b"hits").and_modify(|hits| hits[0] += 1).or_insert(&[1]);
    /// assert_eq!((hits(&table)?, hits(&table)?), (vec![1], vec![2]));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn and_modify(mut self, change: impl FnMut(&mut Vec<u8>) + 'k) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Makes the changes if the key is present, and stores `value` otherwise. Returns the value of the key afterwards.
    ///
    /// # Errors
    /// The errors of [`Table::put`].
    pub fn or_insert(self, value: &[u8]) -> Result<Vec<u8>> {
        if self.changes.is_empty() {
            return self.table.get_or_insert_as(self.durability, self.key, value);
        }
        self.or_insert_with(|| value.to_vec())
    }

    /// [`or_insert`](Self::or_insert) with the value that `value` returns. It is called only if the key is absent; more
    /// than once if other threads insert and remove the key.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// let value = table.entry(b"alice").or_insert_with(|| "made only now".into())?;
    /// assert_eq!(value, b"made only now");
    /// table.entry(b"alice").or_insert_with(|| unreachable!("the key is present"))?;
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Table::put`].
    pub fn or_insert_with(self, mut value: impl FnMut() -> Vec<u8>) -> Result<Vec<u8>> {
        self.change(|| Some(value())).map(|value| value.expect("it was stored"))
    }

    /// Makes the changes if the key is present. Returns the value of the key afterwards; `None` if it is absent.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.entry(b"alice").and_modify(|value| value.push(b'!')).apply()?, None);
    /// table.put(b"alice", b"hi")?;
    /// assert_eq!(table.entry(b"alice").and_modify(|value| value.push(b'!')).apply()?, Some(b"hi!".to_vec()));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Table::put`].
    pub fn apply(self) -> Result<Option<Vec<u8>>> {
        self.change(|| None)
    }

    /// Removes the pair, without the changes. Returns its value; `None` if the key is absent.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"job", b"to do")?;
    /// assert_eq!(table.entry(b"job").remove()?, Some(b"to do".to_vec()));
    /// assert_eq!(table.entry(b"job").remove()?, None);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Table::remove`].
    pub fn remove(self) -> Result<Option<Vec<u8>>> {
        self.table.take_as(self.durability, self.key)
    }

    fn change(mut self, mut absent: impl FnMut() -> Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let mut value = None;
        let (_, lsn) = self.table.update_unsynced(self.key, |old| {
            value = match old {
                None => absent(),
                Some(old) => {
                    let mut new = old.to_vec();
                    self.changes.iter_mut().for_each(|change| change(&mut new));
                    Some(new)
                }
            };
            value.clone()
        })?;
        self.table.wait_as(lsn, self.durability).map(|()| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn number(value: &[u8]) -> u64 {
        value.try_into().map_or(0, u64::from_le_bytes)
    }

    #[test]
    fn threads_that_change_one_entry_lose_no_change() {
        let table = Table::in_memory().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let add = |value: &mut Vec<u8>| *value = (number(value) + 1).to_le_bytes().to_vec();
                        table.entry(b"n").and_modify(add).or_insert(&1u64.to_le_bytes()).unwrap();
                    }
                });
            }
        });
        assert_eq!(table.get(b"n").unwrap().map(|value| number(&value)), Some(2000));
    }

    #[test]
    fn an_entry_of_a_present_key_inserts_nothing_and_of_an_absent_one_changes_nothing() {
        let table = Table::in_memory().unwrap();
        assert_eq!(table.entry(b"k").and_modify(|value| value.push(b'!')).apply().unwrap(), None);
        assert_eq!(table.entry(b"k").remove().unwrap(), None);
        assert!(table.is_empty());
        assert_eq!(table.entry(b"k").or_insert_with(|| b"1".to_vec()).unwrap(), b"1");
        let twice = table.entry(b"k").and_modify(|value| value.push(b'2')).and_modify(|value| value.push(b'3'));
        assert_eq!(
            (twice.key(), twice.or_insert_with(|| panic!("the key is present")).unwrap()),
            (&b"k"[..], b"123".to_vec())
        );
        assert_eq!(table.entry(b"k").or_insert(b"other").unwrap(), b"123");
        assert_eq!(table.entry(b"k").and_modify(Vec::clear).apply().unwrap(), Some(Vec::new()));
        assert_eq!(table.entry(b"k").remove().unwrap(), Some(Vec::new()));
        assert_eq!((table.len(), table.verify().unwrap()), (0, Vec::new()));
    }

    #[test]
    fn an_entry_is_searched_once_unless_its_bucket_changes() {
        use std::sync::atomic::{AtomicU64, Ordering::*};
        static HASHED: AtomicU64 = AtomicU64::new(0);
        let hash = |key: &[u8]| {
            HASHED.fetch_add(1, Relaxed);
            crate::hash::HashKind::Xxh3.hash(key, 0)
        };
        let table = crate::table::TableOptions::new().page_bytes(512).user_hash("counted", hash).in_memory().unwrap();
        let hashed_by = |work: &dyn Fn()| {
            let before = HASHED.load(Relaxed);
            work();
            HASHED.load(Relaxed) - before
        };
        // In a page, in an overflow page, in an extent; changed, inserted, removed.
        for (n, len) in [0usize, 20, 150, 5_000, 100_000].into_iter().enumerate() {
            let key = format!("key {n}");
            let add = |value: &mut Vec<u8>| value.push(1);
            let hashed =
                hashed_by(&|| drop(table.entry(key.as_bytes()).and_modify(add).or_insert(&vec![7; len]).unwrap()));
            assert_eq!(hashed, 1, "inserted, {len}");
            let hashed = hashed_by(&|| drop(table.entry(key.as_bytes()).and_modify(add).apply().unwrap()));
            assert_eq!((hashed, table.value_len(key.as_bytes()).unwrap()), (1, Some(len + 1)), "changed, {len}");
            assert_eq!(hashed_by(&|| assert!(!table.update(key.as_bytes(), |_| None).unwrap())), 1, "removed, {len}");
        }
        // The function changes other pairs of the bucket and splits it: the pair is searched again, not changed again.
        table.put(b"k", b"1").unwrap();
        let mut calls = 0;
        let changed = table.entry(b"k").and_modify(|value| {
            calls += 1;
            (0..500u32).for_each(|n| table.put(&n.to_le_bytes(), &[7; 40]).unwrap());
            value.push(b'2');
        });
        assert_eq!(changed.apply().unwrap().unwrap(), b"12");
        assert_eq!((calls, table.get(b"k").unwrap().unwrap()), (1, b"12".to_vec()));
        // The function changes the pair itself, to a value of the same length: it is called again.
        let mut calls = 0;
        let changed = table.entry(b"k").and_modify(|value| {
            calls += 1;
            if calls == 1 {
                table.put(b"k", b"34").unwrap();
            }
            value.push(b'!');
        });
        assert_eq!(changed.apply().unwrap().unwrap(), b"34!");
        assert_eq!((calls, table.get(b"k").unwrap().unwrap()), (2, b"34!".to_vec()));
        assert_eq!(table.verify().unwrap(), []);
    }

    #[test]
    fn the_functions_of_an_entry_may_use_the_table() {
        let table = Table::in_memory().unwrap();
        table.put(b"k", b"1").unwrap();
        let entry = table.entry(b"k").and_modify(|value| value.extend(table.get(b"k").unwrap().unwrap()));
        assert_eq!(entry.or_insert(b"").unwrap(), b"11");
    }

    #[test]
    fn entries_of_a_table_opened_for_reading_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let table = Table::open(&path).unwrap();
        table.put(b"k", b"1").unwrap();
        table.close().unwrap();
        let table = crate::table::TableOptions::new().read_only(true).open(&path).unwrap();
        assert_eq!(table.entry(b"k").or_insert(b"2").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(table.entry(b"k").remove().unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(table.entry(b"k").and_modify(Vec::clear).apply().unwrap_err().kind(), ErrorKind::ReadOnly);
    }
}
