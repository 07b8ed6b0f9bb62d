//! What is done with a store under the clock: pairs in and out (`pairs.rs`), streams of appends (`appends.rs`), or dictionaries,
//! which are made of all pairs at once (`dictionaries/`).

mod appends;
mod dictionaries;
mod pairs;
#[cfg(test)]
mod tests;

use crate::engine::{Opening, Outcome, Place, Store};
use crate::row::Lines;
use crate::workload::{Case, Expected, Form, Input, Part};
use std::path::{Path, PathBuf};

/// A case in one form, to be done once in this process.
pub struct Job<'a> {
    /// What, by whom, how large.
    pub case: Case<'a>,
    /// A directory for the store's files alone.
    pub directory: &'a Path,
    /// The parts to do: those of the variant, or some for a profiler.
    pub parts: &'a [Part],
    /// How large a call of many keys is.
    pub batch: usize,
}

impl Job<'_> {
    /// Does it, and tells what it took.
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

    /// Makes the store, or opens the one that is there.
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

/// What the input of a form is, and what a store then holds, without any store.
pub fn answers(input: &Input, form: &Form) -> Outcome<Expected> {
    match *input {
        Input::Appends { keys, seed } => appends::answers(keys, seed, form),
        _ => pairs::answers(input, form),
    }
}

/// Fails unless this is what the workload file says.
fn compare(what: &str, found: &Expected, form: &Form) -> Outcome {
    let expected = &form.expected;
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: found {found:?}, the workload file expects {expected:?}").into())
}
