//! Timed workloads: pairs in and out (`pairs.rs`), streams of appends (`appends.rs`), and dictionaries, which are built
//! from all pairs together (`dictionaries/`).

mod appends;
mod dictionaries;
mod pairs;
#[cfg(test)]
mod tests;

use crate::engine::{Opening, Outcome, Place, Store};
use crate::row::Lines;
use crate::workload::{Case, Expected, Form, Input, Part};
use std::path::{Path, PathBuf};

/// A case in one form, to run once in this process.
pub struct Job<'a> {
    /// Workload, engine and sizes.
    pub case: Case<'a>,
    /// A directory only for the store's files.
    pub directory: &'a Path,
    /// The parts to run: all parts of the variant, or some of them for a profiler.
    pub parts: &'a [Part],
    /// Keys per call in the parts with many keys.
    pub batch: usize,
}

impl Job<'_> {
    /// Runs it and returns its figures.
    pub fn run(&self) -> Outcome<Lines> {
        match self.case.workload.input {
            Input::Appends { keys, seed } => appends::run(self, keys, seed),
            _ if self.case.variant.place == Place::Dictionary => dictionaries::run(self),
            _ => pairs::run(self),
        }
    }

    fn path(&self) -> Option<PathBuf> {
        (self.case.variant.place == Place::File).then(|| self.directory.join("store"))
    }

    /// Creates the store, or opens the existing one.
    fn open(&self, create: bool) -> Outcome<Box<dyn Store>> {
        let path = self.path();
        self.case.engine.open(&Opening {
            path: path.as_deref(),
            setting: &self.case.setting,
            expected_len: self.case.form.expected.pairs,
            payload_bytes: self.case.form.expected.payload_bytes,
            create,
        })
    }
}

/// Returns the digests of a form's input, and of a store that took it, without any store.
pub fn answers(input: &Input, form: &Form) -> Outcome<Expected> {
    match *input {
        Input::Appends { keys, seed } => appends::answers(keys, seed, form),
        _ => pairs::answers(input, form),
    }
}

/// Fails unless the digests match the workload file.
fn compare(what: &str, found: &Expected, form: &Form) -> Outcome {
    let expected = &form.expected;
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, the workload file expects {expected:?}").into())
}
