//! No store: measures the harness itself. The *xfer* of the "Big Memory" plots: records are read and dropped.

use crate::engine::{Each, Engine, Made, Maker, Making, Opening, Outcome, Pairs, Place, Store};
use std::hint::black_box;
use std::path::Path;

/// Keeps nothing.
pub struct Nothing;

impl Engine for Nothing {
    fn name(&self) -> &str {
        "xfer"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::File { Vec::new() } else { vec!["default".into()] }
    }

    fn open(&self, _: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(Nothing))
    }

    fn is_baseline(&self) -> bool {
        true
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }
}

impl Maker for Nothing {
    fn build(&self, _: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        pairs.each(&mut |key, value| {
            black_box((key, value));
            Ok(())
        })
    }

    fn open(&self, _: &Path, _: &str, _: bool) -> Outcome<Box<dyn Made>> {
        Err("has nothing to look up".into())
    }
}

impl Store for Nothing {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        black_box((key, value));
        Ok(())
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        black_box((key, tail));
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        black_box(key);
        Ok(None)
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        black_box(key);
        Ok(false)
    }

    fn scan(&mut self, _: bool, _: Each<'_>) -> Outcome {
        Ok(())
    }

    fn sync(&mut self) -> Outcome {
        Ok(())
    }

    fn has_batches(&self) -> bool {
        true
    }
}
