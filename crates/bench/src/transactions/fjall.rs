//! fjall with its own settings and a cache of 2.2 times the payload.

use super::{Numbers, Transactions, key, value};
use crate::engine::Outcome;
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

struct Open {
    database: Database,
    pairs: Keyspace,
}

pub(super) fn open(directory: &Path, payload: u64) -> Outcome<Box<dyn Transactions>> {
    let database = Database::builder(directory).cache_size(payload * 22 / 10).open()?;
    let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Open { database, pairs }))
}

impl Transactions for Open {
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome {
        let mut batch = self.database.batch().durability(durable.then_some(PersistMode::SyncAll));
        for number in numbers {
            batch.insert(&self.pairs, key(number), value(number));
        }
        Ok(batch.commit()?)
    }

    fn remove(&self, numbers: Numbers<'_>) -> Outcome {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for number in numbers {
            batch.remove(&self.pairs, key(number));
        }
        Ok(batch.commit()?)
    }

    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome {
        for number in numbers {
            let found = self.pairs.get(key(number))?;
            each(number, found.as_deref());
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        self.pairs.rotate_memtable_and_wait()?;
        Ok(self.pairs.major_compact()?)
    }
}
