//! A table with a log, whose batches are the transactions.

use super::{Numbers, Transactions, key, value};
use crate::engine::Outcome;
use splitpoint::{Durability, Table, TableOptions};
use std::path::Path;

struct Open(Table);

pub(super) fn open(directory: &Path, _: u64) -> Outcome<Box<dyn Transactions>> {
    Ok(Box::new(Open(TableOptions::new().durability(Durability::Os).open(directory.join("t.spt"))?)))
}

impl Transactions for Open {
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome {
        let mut batch = self.0.with(if durable { Durability::Sync } else { Durability::Os }).batch();
        for number in numbers {
            batch.put(&key(number), &value(number))?;
        }
        Ok(batch.commit()?)
    }

    fn remove(&self, numbers: Numbers<'_>) -> Outcome {
        let mut batch = self.0.with(Durability::Sync).batch();
        for number in numbers {
            batch.remove(&key(number))?;
        }
        Ok(batch.commit()?)
    }

    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome {
        let mut found = Vec::new();
        for number in numbers {
            let is_there = self.0.get_into(&key(number), &mut found)?;
            each(number, is_there.then_some(&found[..]));
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome {
        self.0.compact()?;
        Ok(self.0.checkpoint()?)
    }
}
