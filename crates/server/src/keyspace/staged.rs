//! Changes that are collected before they are made: a transaction, or a run of commands.
//!
//! ```text
//! transaction   EXEC, a script, one command over a file: all changes become one batch of the table
//! run           commands of one read over a file: a pair that several of them change is stored once
//!               savepoint -> command -> keep, or undo what it staged
//! ```
//!
//! Not here: reading through the changes and making them (`exclusive/`).

use super::DATABASE_COUNT;
use super::collections::counts::Counts;
use indexmap::{Equivalent, IndexMap};
use std::collections::HashSet;

/// Changes that are not made yet.
#[derive(Default)]
pub(super) struct Transaction {
    /// By database and key: the stored value; `None` where the key is removed.
    pub(super) values: Staged,
    /// Pairs that are not keys, in the same form: segments and removals.
    pub(super) pairs: Staged,
    /// The new counts of the databases' segments.
    pub(super) counts: Vec<(usize, Counts)>,
    /// Made when a command first needs it, since it costs one lookup per key.
    pub(super) presence: Option<Box<Presence>>,
    /// Bytes of `values` and `pairs`.
    pub(super) bytes: usize,
    /// Whether several commands make the changes.
    pub(super) is_of_many: bool,
    /// The counts and the bytes at the savepoint.
    counts_before: Vec<(usize, Counts)>,
    bytes_before: usize,
}

/// Which keys of a transaction are in the tables, and by how many keys the transaction changes each database.
#[derive(Default)]
pub(super) struct Presence {
    pub(super) before: HashSet<(usize, Vec<u8>)>,
    pub(super) more: [i64; DATABASE_COUNT],
}

impl Transaction {
    /// A transaction whose commands can be undone one by one.
    pub(super) fn of_run() -> Transaction {
        let mut transaction = Transaction { is_of_many: true, ..Transaction::default() };
        transaction.values.undo = Some(Vec::new());
        transaction.pairs.undo = Some(Vec::new());
        transaction
    }

    pub(super) fn counts(&self, database: usize) -> Option<Counts> {
        self.counts.iter().find(|(of, _)| *of == database).map(|(_, counts)| *counts)
    }

    pub(super) fn set_counts(&mut self, database: usize, counts: Counts) {
        match self.counts.iter_mut().find(|(of, _)| *of == database) {
            Some((_, staged)) => *staged = counts,
            None => self.counts.push((database, counts)),
        }
    }

    /// The databases with changes, in the order in which to store them. A key that moves to another database is stored
    /// there before it is removed here: if storing fails in between, the key is in both databases.
    pub(super) fn databases(&self) -> Vec<usize> {
        let [mut put, mut removed, mut changed] = [[false; DATABASE_COUNT]; 3];
        for (database, _, value) in self.values.iter() {
            put[database] |= value.is_some();
            removed[database] |= value.is_none();
            changed[database] = true;
        }
        for (database, ..) in self.pairs.iter() {
            changed[database] = true;
        }
        let mut databases: Vec<usize> = (0..DATABASE_COUNT).filter(|&number| changed[number]).collect();
        databases.sort_by_key(|&number| u8::from(removed[number]) + u8::from(!put[number]));
        databases
    }

    /// Marks where [`undo`](Self::undo) returns to. Only within a run.
    pub(super) fn set_savepoint(&mut self) {
        self.values.undo.iter_mut().for_each(Vec::clear);
        self.pairs.undo.iter_mut().for_each(Vec::clear);
        self.counts_before.clone_from(&self.counts);
        self.bytes_before = self.bytes;
    }

    /// Drops the changes since the savepoint.
    pub(super) fn undo(&mut self) {
        self.values.undo();
        self.pairs.undo();
        self.counts.clone_from(&self.counts_before);
        self.bytes = self.bytes_before;
    }
}

/// What a pair becomes: its value, or `None` if it is removed.
type Value = Option<Vec<u8>>;

/// What pairs of the tables become, by database and key, in the order of their first change.
#[derive(Default)]
pub(super) struct Staged {
    changes: IndexMap<(usize, Vec<u8>), Value>,
    /// Within a run: the index of each change since the savepoint, and what was staged before; `None` for a new entry.
    undo: Option<Vec<(usize, Option<Value>)>>,
}

/// A database and a key, to look up without a copy of the key. Hashes like the tuple of both.
#[derive(Hash)]
struct Place<'k>(usize, &'k [u8]);

impl Equivalent<(usize, Vec<u8>)> for Place<'_> {
    fn equivalent(&self, (database, key): &(usize, Vec<u8>)) -> bool {
        self.0 == *database && self.1 == key.as_slice()
    }
}

impl Staged {
    /// The change of a pair: its value, `None` within if it is removed.
    #[inline]
    pub(super) fn get(&self, database: usize, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.changes.is_empty() {
            return None;
        }
        self.changes.get(&Place(database, key)).map(Option::as_deref)
    }

    /// The staged value of a pair, to change in place. `None` within a run, whose undo needs the old value.
    pub(super) fn value_mut(&mut self, database: usize, key: &[u8]) -> Option<&mut Vec<u8>> {
        if self.undo.is_some() {
            return None;
        }
        self.changes.get_mut(&Place(database, key))?.as_mut()
    }

    /// Stages a change of a pair.
    pub(super) fn set(&mut self, database: usize, key: &[u8], value: Option<Vec<u8>>) {
        let (index, before) = match self.changes.get_full_mut(&Place(database, key)) {
            Some((index, _, staged)) => (index, Some(std::mem::replace(staged, value))),
            None => (self.changes.insert_full((database, key.to_vec()), value).0, None),
        };
        if let Some(undo) = &mut self.undo {
            undo.push((index, before));
        }
    }

    /// Drops the changes since the savepoint, the last first: new entries are at the end.
    fn undo(&mut self) {
        for (index, before) in self.undo.iter_mut().flat_map(|undo| undo.drain(..).rev()) {
            match before {
                Some(before) => self.changes[index] = before,
                None => drop(self.changes.pop()),
            }
        }
    }

    /// The changes, each with its database and key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[u8], Option<&[u8]>)> {
        self.changes.iter().map(|((database, key), value)| (*database, key.as_slice(), value.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_that_only_lose_keys_are_stored_last() {
        let mut transaction = Transaction::default();
        transaction.values.set(0, b"moved to 4", None);
        transaction.values.set(1, b"moved to 2", None);
        transaction.values.set(1, b"changed", Some(Vec::new()));
        transaction.values.set(2, b"moved to 2", Some(Vec::new()));
        transaction.values.set(4, b"moved to 4", Some(Vec::new()));
        transaction.values.set(4, b"removed", None);
        transaction.pairs.set(4, b"pair", None);
        assert_eq!(transaction.databases(), [2, 1, 4, 0]);
    }

    #[test]
    fn undo_returns_to_the_savepoint() {
        let mut run = Transaction::of_run();
        run.set_savepoint();
        run.values.set(0, b"kept", Some(b"1".to_vec()));
        run.values.set(0, b"changed", Some(b"1".to_vec()));
        run.set_counts(0, Counts { segments: 1, ..Counts::default() });
        run.set_savepoint();
        run.values.set(0, b"changed", Some(b"2".to_vec()));
        run.values.set(1, b"new", None);
        run.values.set(0, b"changed", None);
        run.values.set(1, b"new", Some(b"3".to_vec()));
        run.pairs.set(0, b"pair", Some(Vec::new()));
        run.set_counts(0, Counts { segments: 2, ..Counts::default() });
        run.set_counts(3, Counts { segments: 5, ..Counts::default() });
        run.undo();
        let left: Vec<_> = run.values.iter().collect();
        assert_eq!(left, [(0, &b"kept"[..], Some(&b"1"[..])), (0, b"changed", Some(b"1"))]);
        assert!(run.pairs.iter().next().is_none() && run.values.get(1, b"new").is_none());
        assert_eq!((run.counts(0).map(|counts| counts.segments), run.counts(3)), (Some(1), None));
        assert_eq!(run.values.get(0, b"changed"), Some(Some(&b"1"[..])));
    }
}
