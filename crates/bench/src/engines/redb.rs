//! redb: a copy-on-write B-tree in a file.
//!
//! Unsynced transactions of 10,000 operations, as for LMDB, and reads in one transaction. Puts are buffered and
//! inserted together, because a table handle lives no longer than its transaction. A removal must return an answer, so
//! it reopens the table. The cache is 2.2 times the payload, at least redb's own default of 1 GiB.

use crate::engine::{Each, Engine, Opening, Outcome, Place, Store};
use ::redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");
/// Operations per transaction.
const BATCH: usize = 10_000;
const CACHE_BYTES_MIN: u64 = 1 << 30;

/// redb with its defaults.
pub struct Redb;

impl Engine for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn version(&self) -> String {
        "4.5".into() // the manifest's version, which cargo does not expose
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::File { vec!["default".into()] } else { Vec::new() }
    }

    fn open(&self, opening: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        let path = opening.path.ok_or("redb needs a file")?;
        let mut builder = Builder::new();
        builder.set_cache_size((opening.payload_bytes * 22 / 10).max(CACHE_BYTES_MIN).try_into()?);
        let db = if opening.create { builder.create(path)? } else { builder.open(path)? };
        let mut open = Open { db, held: Vec::new(), writing: None, written: 0, reading: None, value: Vec::new() };
        open.transaction()?.open_table(TABLE)?;
        open.commit(Durability::Immediate)?;
        Ok(Box::new(open))
    }
}

struct Open {
    db: Database,
    /// Buffered puts.
    held: Vec<(Vec<u8>, Vec<u8>)>,
    writing: Option<WriteTransaction>,
    /// Operations in the current transaction.
    written: usize,
    reading: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    /// The value of the last get.
    value: Vec<u8>,
}

impl Open {
    fn transaction(&mut self) -> Outcome<&mut WriteTransaction> {
        self.reading = None;
        if self.writing.is_none() {
            self.writing = Some(self.db.begin_write()?);
        }
        Ok(self.writing.as_mut().expect("made above"))
    }

    fn put_held(&mut self) -> Outcome {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        let mut table = self.transaction()?.open_table(TABLE)?;
        for (key, value) in &held {
            table.insert(&key[..], &value[..])?;
        }
        drop(table);
        self.written += held.len();
        Ok(())
    }

    fn commit(&mut self, durability: Durability) -> Outcome {
        self.put_held()?;
        if matches!(durability, Durability::Immediate) {
            self.transaction()?;
        }
        if let Some(mut transaction) = self.writing.take() {
            transaction.set_durability(durability)?;
            transaction.commit()?;
        }
        self.written = 0;
        Ok(())
    }

    fn commit_if_full(&mut self) -> Outcome {
        if self.held.len() + self.written < BATCH { Ok(()) } else { self.commit(Durability::None) }
    }

    fn table(&mut self) -> Outcome<&ReadOnlyTable<&'static [u8], &'static [u8]>> {
        self.commit(Durability::None)?;
        if self.reading.is_none() {
            self.reading = Some(self.db.begin_read()?.open_table(TABLE)?);
        }
        Ok(self.reading.as_ref().expect("made above"))
    }
}

impl Store for Open {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        self.held.push((key.to_vec(), value.to_vec()));
        self.commit_if_full()
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        self.put_held()?;
        let mut table = self.transaction()?.open_table(TABLE)?;
        let mut value = table.get(key)?.map_or_else(Vec::new, |value| value.value().to_vec());
        value.extend_from_slice(tail);
        table.insert(key, &value[..])?;
        drop(table);
        self.written += 1;
        self.commit_if_full()
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        let found = self.table()?.get(key)?;
        let Some(found) = found else { return Ok(None) };
        self.value.clear();
        self.value.extend_from_slice(found.value());
        Ok(Some(&self.value))
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        self.put_held()?;
        let there = self.transaction()?.open_table(TABLE)?.remove(key)?.is_some();
        self.written += 1;
        self.commit_if_full()?;
        Ok(there)
    }

    fn scan(&mut self, with_values: bool, each: Each<'_>) -> Outcome {
        for pair in self.table()?.iter()? {
            let (key, value) = pair?;
            each(key.value(), if with_values { value.value() } else { &[] });
        }
        Ok(())
    }

    fn end_of_puts(&mut self) -> Outcome {
        self.commit(Durability::None)
    }

    fn sync(&mut self) -> Outcome {
        self.commit(Durability::Immediate)
    }

    fn close(mut self: Box<Self>) -> Outcome {
        self.commit(Durability::None)
    }
}
