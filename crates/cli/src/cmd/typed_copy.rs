//! Keys of every type as pairs of a temporary table, so that `diff` compares servers, dumps of Redis and tables that a
//! server has used.
//!
//! ```text
//! key      number of the database, 8 bytes, big-endian | the key
//! value    its JSON line (`format/typed.rs`), in which the members of sets, fields and groups are in order
//! ```
//!
//! The copy is needed because each server lists keys in an order of its own.

use super::dictionary::PartArgs;
use super::store::Store;
use crate::failure::{Failure, Result};
use crate::format::{Format, typed};
use crate::interrupt::Interrupt;
use crate::open::{ReadArgs, StoreKind, stored};
use crate::progress::{Progress, STEPS_PER_TICK};
use crate::source::{End, Inputs, Item, Kind, SourceArgs, accepted, is_address};
use splitpoint::{Durability, Table};
use splitpoint_server::rdb::{Entry, Group, Object, StoredScan, TypedFile, Value};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Whether `path` may have keys of other types than string, or with lifetimes.
///
/// # Errors
/// `path` cannot be opened.
pub fn has_types(path: &Path, reading: ReadArgs, interrupt: &Interrupt) -> Result<bool> {
    if is_address(path) {
        return Ok(true);
    }
    match stored(path).map_err(|error| Failure::io(format_args!("cannot open {}", path.display()), &error))? {
        Some(StoreKind::Dictionary) => Ok(false),
        Some(StoreKind::Table) => {
            let has_marks = Store::open(path, reading)?.has_marks()?;
            let (number, sidecars) = TypedFile::databases(path)?;
            Ok(has_marks || number != 0 || sidecars.iter().any(|(_, path)| path.exists()))
        }
        None => {
            let (paths, args) = ([path.to_owned()], SourceArgs::auto());
            let inputs = Inputs::look(&paths, &args, interrupt)?;
            Ok(inputs.files.iter().any(|file| file.kind == Some(Kind::Rows(Format::Rdb))))
        }
    }
}

/// A copy, in a directory that is removed with it.
pub struct TypedCopy {
    table: Table,
    /// Keys of other databases, which are not in it.
    pub left_out: u64,
    place: TempDir,
}

impl TypedCopy {
    /// Copies the keys in `path`: of all databases, or only of the first.
    ///
    /// # Errors
    /// A bad row, a signal, and the errors of reading and writing.
    pub fn of(path: &Path, only_first: bool, reading: ReadArgs, interrupt: &Interrupt) -> Result<TypedCopy> {
        let place = tempfile::tempdir().map_err(|error| Failure::io("a temporary directory", &error))?;
        let options = reading.cache.options().create(true).durability(Durability::None);
        let table = options.open(place.path().join("copy.spt"))?;
        let mut copy = TypedCopy { table, left_out: 0, place };
        let is_table = !is_address(path) && matches!(stored(path), Ok(Some(StoreKind::Table)));
        if is_table {
            let (number, sidecars) = TypedFile::databases(path)?;
            let sidecars = sidecars.into_iter().filter(|(_, path)| path.exists());
            let all: Vec<(u64, PathBuf)> = [(number, path.to_owned())].into_iter().chain(sidecars).collect();
            for (number, path) in all {
                let store = Store::open(&path, reading)?;
                if let Some(entries) = store.entries(&PartArgs::WHOLE)? {
                    let progress = Progress::of_items("copying", "pair", Some(store.len()));
                    copy.add_all(entries, number, only_first, (interrupt, &progress))?;
                }
            }
            return Ok(copy);
        }
        let (paths, args) = ([path.to_owned()], SourceArgs::auto());
        let end = Inputs::look(&paths, &args, interrupt)?.feed_items(&mut |item, _| match item {
            Item::Entry(entry) => copy.add(entry.clone(), only_first),
            Item::Pair(pair) => copy.add(Entry::of_pair(pair.key, pair.value), only_first),
        })?;
        match end {
            End::Inputs => Ok(copy),
            End::Bad(bad) => Err(Failure::no(bad)),
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was compared")),
        }
    }

    /// Returns the copy as a store, and what keeps it.
    pub fn into_store(self) -> (TempDir, Store) {
        (self.place, Store::Table(Box::new(self.table)))
    }

    fn add_all(
        &mut self,
        mut entries: StoredScan<'_>,
        database: u64,
        only_first: bool,
        (interrupt, progress): (&Interrupt, &Progress),
    ) -> Result<()> {
        let mut done = 0;
        while let Some((entry, _)) = entries.next_entry()? {
            done += 1;
            if done % STEPS_PER_TICK == 0 {
                progress.at(done);
            }
            interrupt.stop_if_caught("nothing was compared")?;
            if let Some(what) = self.add(Entry { database, ..entry }, only_first)? {
                return Err(Failure::no(what));
            }
        }
        Ok(())
    }

    /// Adds a key, or counts it if its database is not compared; `Some` says why it cannot be compared.
    fn add(&mut self, mut entry: Entry, only_first: bool) -> Result<Option<String>> {
        if only_first && entry.database != 0 {
            self.left_out += 1;
            return Ok(None);
        }
        if !entry.expire() {
            return Ok(None);
        }
        // Flags are memcached's; a Redis server neither has nor returns them.
        entry.flags = 0;
        let Object::Value(value) = &mut entry.object else { return Ok(None) };
        sort(value);
        let key = [&entry.database.to_be_bytes(), &entry.key[..]].concat();
        let mut line = Vec::new();
        typed::write(&entry, &mut line);
        accepted(self.table.put(&key, &line))
    }
}

/// Sorts what has no order of its own.
fn sort(value: &mut Value) {
    match value {
        Value::String(_) | Value::List(_) => {}
        Value::Set(members) => members.sort(),
        Value::Hash(fields) => fields.sort_by(|one, other| one.name.cmp(&other.name)),
        Value::SortedSet(members) => {
            members.sort_by(|(one, one_score), (other, other_score)| {
                one_score.total_cmp(other_score).then_with(|| one.cmp(other))
            });
        }
        Value::Stream(stream) => {
            stream.groups.sort_by(|one, other| one.name.cmp(&other.name));
            stream.groups.iter_mut().for_each(sort_consumers);
        }
    }
}

fn sort_consumers(group: &mut Group) {
    let mut order: Vec<usize> = (0..group.consumers.len()).collect();
    order.sort_by(|&one, &other| group.consumers[one].0.cmp(&group.consumers[other].0));
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &consumer)| places[consumer] = place);
    group.consumers = order.iter().map(|&consumer| std::mem::take(&mut group.consumers[consumer])).collect();
    group.pending.iter_mut().for_each(|entry| entry.consumer = places[entry.consumer]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint_server::rdb::{EntryId, Pending};

    #[test]
    fn pending_entries_keep_their_consumers_when_these_are_sorted() {
        let entry = |consumer| Pending { id: EntryId::MIN, consumer, delivered_ms: 1, count: 1 };
        let consumers = [(b"c".to_vec(), 3), (b"a".to_vec(), 1), (b"b".to_vec(), 2)];
        let mut group = Group {
            name: b"g".to_vec(),
            last: EntryId::MIN,
            read: None,
            consumers: consumers.to_vec(),
            pending: vec![entry(0), entry(1), entry(2)],
        };
        sort_consumers(&mut group);
        assert_eq!(group.consumers, [(b"a".to_vec(), 1), (b"b".to_vec(), 2), (b"c".to_vec(), 3)]);
        assert_eq!(group.pending, [entry(2), entry(0), entry(1)]);
    }
}
