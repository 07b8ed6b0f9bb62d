//! redb with its own settings and a cache of 2.2 times the payload, at least its default of 1 GiB.

use super::{Numbers, Transactions, key, value};
use crate::engine::Outcome;
use ::redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

struct Open(Database);

pub(super) fn open(directory: &Path, payload: u64) -> Outcome<Box<dyn Transactions>> {
    let mut builder = Builder::new();
    builder.set_cache_size((payload * 22 / 10).max(1 << 30).try_into()?);
    Ok(Box::new(Open(builder.create(directory.join("t.redb"))?)))
}

impl Transactions for Open {
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(if durable { Durability::Immediate } else { Durability::None })?;
        let mut table = transaction.open_table(TABLE)?;
        for number in numbers {
            table.insert(&key(number)[..], &value(number)[..])?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn remove(&self, numbers: Numbers<'_>) -> Outcome {
        let transaction = self.0.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for number in numbers {
            table.remove(&key(number)[..])?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        for number in numbers {
            let found = table.get(&key(number)[..])?;
            each(number, found.as_ref().map(|found| found.value()));
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        while self.0.compact()? {}
        Ok(())
    }
}
