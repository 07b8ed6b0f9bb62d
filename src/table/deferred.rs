//! Changes of a batch that depend on the value of their key: inserts and updates.
//!
//! A commit reads the values they depend on, without a latch, and resolves the changes to plain puts and removals,
//! which are what the log records. The commit compares the values again under the latches of all its buckets, and
//! starts over if one has changed.
//!
//! Not here: latches, the log (`batch.rs`).

use super::changes::Changes;
use super::handle::Table;
use super::wal_record::WalRecord;
use crate::error::Result;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A change that is resolved at the commit.
pub(super) struct Deferred<'t> {
    /// The number of plain changes before it.
    pub after: usize,
    pub key: Vec<u8>,
    pub edit: Edit<'t>,
}

pub(super) enum Edit<'t> {
    Insert(Vec<u8>),
    Update(Box<UpdateFn<'t>>),
}

/// Maps the value of a key, or `None`, to its new value; `None` removes the key.
pub(super) type UpdateFn<'t> = dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 't;

/// The values that keys must have for the resolved changes to hold; `None` for an absent key.
pub(super) type Expected = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A batch whose deferred changes are resolved.
pub(super) struct Resolved {
    /// `None`: the batch has no deferred changes, so its plain changes are complete.
    pub changes: Option<Changes>,
    pub expected: Expected,
}

/// Resolves the deferred changes with the current values.
pub(super) fn resolve(table: &Table, plain: &Changes, deferred: &mut [Deferred<'_>]) -> Result<Resolved> {
    if deferred.is_empty() {
        return Ok(Resolved { changes: None, expected: Expected::new() });
    }
    let keys: HashSet<Vec<u8>> = deferred.iter().map(|deferred| deferred.key.clone()).collect();
    let mut values = Values { table, expected: Expected::new(), changed: HashMap::new() };
    let mut changes = Changes::default();
    let mut deferred = deferred.iter_mut().peekable();
    let mut plain_changes = plain.decode();
    for index in 0..=plain.len() {
        while let Some(Deferred { key, edit, .. }) = deferred.next_if(|deferred| deferred.after == index) {
            let old = values.get(key)?;
            let new = match edit {
                Edit::Insert(_) if old.is_some() => continue,
                Edit::Insert(value) => Some(value.clone()),
                Edit::Update(f) => f(old.as_deref()),
            };
            match &new {
                Some(value) => changes.add(table, WalRecord::Put { key, value })?,
                None if old.is_some() => changes.add(table, WalRecord::Remove { key })?,
                None => {}
            }
            values.changed.insert(key.clone(), new);
        }
        let Some(change) = plain_changes.next() else { break };
        changes.add(table, change)?;
        if let Some(key) = change.key().filter(|&key| keys.contains(key)) {
            let new = match change {
                WalRecord::Put { value, .. } => Some(value.to_vec()),
                WalRecord::Append { tail, .. } => {
                    let mut value = values.get(key)?.unwrap_or_default();
                    value.extend_from_slice(tail);
                    Some(value)
                }
                _ => None,
            };
            values.changed.insert(key.to_vec(), new);
        }
    }
    Ok(Resolved { changes: Some(changes), expected: values.expected })
}

/// The values that the changes so far leave.
struct Values<'t> {
    table: &'t Table,
    /// The values that were read from the table.
    expected: Expected,
    changed: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Values<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.changed.get(key).or_else(|| self.expected.get(key)) {
            return Ok(value.clone());
        }
        let value = self.table.get(key)?;
        self.expected.insert(key.to_vec(), value.clone());
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use crate::table::Table;

    #[test]
    fn an_update_in_a_batch_of_any_length_is_made_again_if_its_value_has_changed() {
        // The longer batch exceeds a mebibyte: the log takes it before the changes are made.
        for filler in [0, 3000] {
            let directory = tempfile::tempdir().unwrap();
            let table = Table::open(directory.path().join("t.spt")).unwrap();
            table.put(b"n", b"1").unwrap();
            let mut batch = table.batch();
            (0..filler).for_each(|n: u32| batch.put(&n.to_le_bytes(), &[7; 1000]).unwrap());
            let mut calls = 0;
            let update = |old: Option<&[u8]>| {
                calls += 1;
                // Another thread may do this before the batch has the latch.
                if calls == 1 {
                    table.put(b"n", b"5").unwrap();
                }
                Some([old.unwrap(), b"!"].concat())
            };
            batch.update(b"n", update).unwrap();
            batch.insert_new(b"absent", b"new").unwrap();
            batch.commit().unwrap();
            assert_eq!(table.get(b"n").unwrap().unwrap(), b"5!", "beside {filler} puts");
            assert_eq!((calls, table.len()), (2, u64::from(filler) + 2));
            assert_eq!(table.verify().unwrap(), []);
        }
    }
}
