//! A list of numbers: a short one in memory, a long one in a file without a name.
//!
//! An index is built after all pairs are written, because its shape depends on their number. What it needs of each page
//! or pair is kept here.

use crate::error::{Error, Result};
use crate::io::atomic::make_unnamed;
use crate::io::{File, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Numbers read back from the file at a time.
const READ_NUMBERS: usize = 1 << 15;

pub(crate) struct NumberList {
    storage: Arc<dyn Storage>,
    /// The start of the temporary file's name.
    temporary: PathBuf,
    file: Option<Arc<dyn File>>,
    /// The numbers after those in the file.
    memory: Vec<u64>,
    memory_max: usize,
    spilled: u64,
}

impl NumberList {
    /// Keeps up to `memory_bytes` in memory, and the rest in a file in the directory of `temporary`.
    pub fn new(storage: &Arc<dyn Storage>, temporary: &Path, memory_bytes: u64) -> Self {
        let memory_max = usize::try_from(memory_bytes / 8).unwrap_or(usize::MAX).max(1);
        let (storage, temporary) = (Arc::clone(storage), temporary.to_owned());
        NumberList { storage, temporary, file: None, memory: Vec::new(), memory_max, spilled: 0 }
    }

    #[inline]
    pub fn push(&mut self, number: u64) -> Result<()> {
        if self.memory.len() >= self.memory_max {
            self.spill()?;
        }
        self.memory.push(number);
        Ok(())
    }

    #[cold]
    fn spill(&mut self) -> Result<()> {
        self.memory.iter_mut().for_each(|number| *number = number.to_le());
        let file = match &mut self.file {
            Some(file) => file,
            empty => empty.insert(make_unnamed(self.storage.as_ref(), &self.temporary)?),
        };
        let failed = |e| Error::io(&self.temporary, "write the temporary file", e);
        file.write_at(bytemuck::cast_slice(&self.memory), self.spilled * 8).map_err(failed)?;
        self.spilled += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// All numbers, first to last.
    pub fn numbers(&self) -> impl Iterator<Item = Result<u64>> + '_ {
        let mut bytes = Vec::new();
        let blocks = (0..self.spilled).step_by(READ_NUMBERS).map(move |from| {
            let count = (self.spilled - from).min(READ_NUMBERS as u64) as usize;
            bytes.resize(count * 8, 0);
            let file = self.file.as_ref().expect("numbers were spilled to a file");
            let failed = |e| Error::io(&self.temporary, "read the temporary file", e);
            file.read_at(&mut bytes, from * 8).map_err(failed)?;
            let numbers = bytes.chunks_exact(8).map(|number| u64::from_le_bytes(number.try_into().expect("8 bytes")));
            Ok(numbers.collect::<Vec<_>>())
        });
        let spilled = blocks.flat_map(|block: Result<Vec<u64>>| match block {
            Ok(numbers) => Numbers::Some(numbers.into_iter()),
            Err(error) => Numbers::Failed(Some(error)),
        });
        spilled.chain(self.memory.iter().copied().map(Ok))
    }
}

/// The numbers of a block of the file, or the error that kept them from being read.
enum Numbers {
    Some(std::vec::IntoIter<u64>),
    Failed(Option<Error>),
}

impl Iterator for Numbers {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Result<u64>> {
        match self {
            Numbers::Some(numbers) => numbers.next().map(Ok),
            Numbers::Failed(error) => error.take().map(Err),
        }
    }
}

#[cfg(test)]
#[path = "tests/numbers.rs"]
mod tests;
