//! Many lookups at once, in one file or in several: they wait for memory together.
//!
//! ```text
//! keys -> sorted by file -> some at a time: filters -> indexes -> records; each step for all of them before the next
//! ```

use super::file::DictionaryFile;
use super::search::{self, Query};
use crate::dictionary::index::Candidates;
use crate::error::Result;
use std::sync::Arc;

/// Lookups that are taken together.
const BATCH: usize = 32;
/// Keys that are sorted by their files at once, so that lookups taken together share files where there are several.
const SORTED: usize = 4096;

/// A key on its way.
struct Asked {
    /// Of the key, among all.
    number: usize,
    file: usize,
    position: u64,
}

/// Sets each of `values` to the value of its key, which is in the file that `file_of` says, if it is there.
///
/// The filters and indexes are asked for many keys at once, and the records of files that are mapped are prefetched
/// before any page is searched, so that cache misses overlap, also those in different files.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    files: &[Arc<DictionaryFile>],
    file_of: impl Fn(&[u8]) -> Result<usize>,
    keys: &[K],
    values: &mut [Option<Vec<u8>>],
) -> Result<()> {
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(keys.len().min(SORTED));
    let mut batch = Batch::default();
    for from in (0..keys.len()).step_by(SORTED) {
        let numbers = from..keys.len().min(from + SORTED);
        order.clear();
        for number in numbers {
            order.push((file_of(keys[number].as_ref())?, number));
        }
        if files.len() > 1 {
            order.sort_unstable();
        }
        for numbers in order.chunks(BATCH) {
            batch.find(files, numbers, keys, values)?;
        }
    }
    Ok(())
}

/// Memory that batches use again.
#[derive(Default)]
struct Batch {
    asked: Vec<Asked>,
    positions: Vec<u64>,
    candidates: Vec<Candidates>,
}

impl Batch {
    fn find<K: AsRef<[u8]>>(
        &mut self,
        files: &[Arc<DictionaryFile>],
        numbers: &[(usize, usize)],
        keys: &[K],
        values: &mut [Option<Vec<u8>>],
    ) -> Result<()> {
        self.ask_filters(files, numbers, keys);
        self.ask_indexes(files);
        for (asked, candidates) in self.asked.iter().zip(&self.candidates) {
            files[asked.file].touch(candidates, asked.position);
        }
        for (asked, candidates) in self.asked.iter().zip(&self.candidates) {
            if let Candidates::Pages(located) = candidates {
                files[asked.file].pages.touch_starts(located.pages.start);
            }
        }
        for (asked, candidates) in self.asked.iter().zip(self.candidates.drain(..)) {
            let &Asked { number, file, position } = asked;
            let file = &files[file];
            let key = keys[number].as_ref();
            if file.has_long_values()
                && let Some(long) = file.long_value(key)?
            {
                long.read_into(values[number].insert(Vec::new()))?;
                continue;
            }
            let query = Query { key, position, hash: &file.hash, first_position: None };
            values[number] = file.find_among(candidates, query, <[u8]>::to_vec)?;
        }
        Ok(())
    }

    /// Collects the keys that may be there.
    fn ask_filters<K: AsRef<[u8]>>(&mut self, files: &[Arc<DictionaryFile>], numbers: &[(usize, usize)], keys: &[K]) {
        self.asked.clear();
        for &(file, number) in numbers {
            let key = keys[number].as_ref();
            if files[file].has_no_key_of(key.len()) {
                continue;
            }
            let position = files[file].position(key);
            files[file].touch_filter(position);
            self.asked.push(Asked { number, file, position });
        }
        self.asked.retain(|asked| files[asked.file].may_have(asked.position));
    }

    /// Asks each file's index for its keys at once.
    fn ask_indexes(&mut self, files: &[Arc<DictionaryFile>]) {
        self.candidates.clear();
        for of_file in self.asked.chunk_by(|one, other| one.file == other.file) {
            self.positions.clear();
            self.positions.extend(of_file.iter().map(|asked| asked.position));
            files[of_file[0].file].index.candidates_of(&self.positions, &mut self.candidates);
        }
    }
}

impl DictionaryFile {
    /// Begins to bring what a lookup among `candidates` will look at into the processor's cache. Does nothing where
    /// pages are not mapped.
    fn touch(&self, candidates: &Candidates, position: u64) {
        let body = self.pages.body_bytes();
        match candidates {
            Candidates::Pages(located) => {
                let (offset, lines) = self.record_bytes().map_or((0, 0), |bytes| {
                    let number = self.format.expected_number(located.first_position, position);
                    (number.saturating_mul(bytes).min(body - 1), search::LINES_AROUND)
                });
                self.pages.touch(located.pages.start, offset as usize, lines);
            }
            Candidates::Ranks(ranks) => {
                if let Some(bytes) = self.record_bytes() {
                    let at = ranks.start.saturating_mul(bytes);
                    self.pages.touch(at / body, (at % body) as usize, 0);
                }
            }
            Candidates::Anywhere => {}
        }
    }
}
