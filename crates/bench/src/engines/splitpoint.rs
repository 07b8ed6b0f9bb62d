//! Splitpoint, through the public interface.

use super::dictionary;
use crate::engine::{Each, Engine, Maker, Opening, Outcome, Place, Store};
use ::splitpoint::{Durability, Table, TableOptions};

/// The library of this repository.
pub struct Splitpoint;

impl Engine for Splitpoint {
    fn name(&self) -> &str {
        "splitpoint"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        match place {
            Place::File => vec!["os".into(), "none".into()],
            Place::Memory => vec!["default".into()],
            Place::Dictionary => dictionary::SETTINGS.iter().map(|&setting| setting.into()).collect(),
        }
    }

    fn takes(&self, place: Place, setting: &str) -> bool {
        if place == Place::Dictionary {
            return dictionary::builder(setting).is_ok();
        }
        options(&Opening { path: None, setting, expected_len: 0, payload_bytes: 0, create: true }).is_ok()
    }

    fn open(&self, opening: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        let options = options(opening)?;
        let table = match opening.path {
            Some(path) => options.create(opening.create).open(path)?,
            None => options.in_memory()?,
        };
        Ok(Box::new(Open { table, value: Vec::new() }))
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(&dictionary::Dictionaries)
    }
}

fn options(opening: &Opening<'_>) -> Outcome<TableOptions> {
    let mut options = TableOptions::new();
    for word in opening.words() {
        options = match word? {
            ("default" | "os", None) => options.durability(Durability::Os),
            ("none", None) => options.durability(Durability::None),
            ("sync", None) => options.durability(Durability::Sync),
            ("sized", None) => options.expected_len(opening.expected_len),
            ("page", Some(bytes)) => options.page_bytes(bytes.try_into()?),
            ("fill", Some(pairs)) => options.fill_factor(pairs.try_into()?),
            ("percent", Some(percent)) => options.fill_percent(percent.try_into()?),
            ("cache", Some(bytes)) => options.cache_bytes(bytes),
            ("part", Some(parts)) => options.cache_bytes(opening.payload_bytes / parts.max(1)),
            ("log", Some(bytes)) => options.log_bytes(bytes),
            (word, _) => return Err(Opening::unknown("splitpoint", word)),
        };
    }
    Ok(options)
}

/// A table and a buffer for the value of the last get.
struct Open {
    table: Table,
    value: Vec<u8>,
}

impl Store for Open {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.table.put(key, value)?)
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        Ok(self.table.append(key, tail).map(drop)?)
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        Ok(self.table.get_into(key, &mut self.value)?.then_some(&self.value[..]))
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.table.remove(key)?)
    }

    fn scan(&mut self, _: bool, each: Each<'_>) -> Outcome {
        let mut scan = self.table.scan();
        while let Some((key, value)) = scan.next_ref()? {
            each(key, value);
        }
        Ok(())
    }

    fn sync(&mut self) -> Outcome {
        Ok(self.table.sync()?)
    }

    fn close(self: Box<Self>) -> Outcome {
        Ok(self.table.close()?)
    }

    fn has_batches(&self) -> bool {
        true
    }

    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        Ok(self.table.get_many_with(keys, take)?)
    }

    fn append_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Outcome {
        Ok(self.table.append_many(pairs).map(drop)?)
    }
}
