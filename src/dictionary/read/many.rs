//! Many lookups at once in one file: they wait for memory together.

use super::file::DictionaryFile;
use super::search::{self, Query};
use crate::dictionary::index::Candidates;
use crate::error::Result;

/// Lookups that are taken together.
const BATCH: usize = 32;

impl DictionaryFile {
    /// Sets each of `values` to the value of its key.
    ///
    /// From a mapping the index is asked for many keys at once, and a byte of each page is read before any page is
    /// searched, so that their cache misses overlap.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        let mut positions = Vec::with_capacity(BATCH);
        let mut all_candidates: Vec<Candidates> = Vec::with_capacity(BATCH);
        let mut first_positions = Vec::with_capacity(BATCH);
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            positions.clear();
            all_candidates.clear();
            first_positions.clear();
            positions.extend(keys.iter().map(|key| self.position(key.as_ref())));
            self.index.candidates_of(&positions, &mut all_candidates);
            first_positions.extend(all_candidates.iter().map(|candidates| self.first_position_of(candidates)));
            if self.pages.is_viewed() {
                let possible = |key: &K| !self.has_no_key_of(key.as_ref().len());
                let asked = keys.iter().zip(&positions).zip(all_candidates.iter().zip(&first_positions));
                for ((key, position), (candidates, first_position)) in asked {
                    if possible(key) {
                        self.touch(candidates, *first_position, *position);
                    }
                }
                for (key, candidates) in keys.iter().zip(&all_candidates) {
                    if let Candidates::Pages(pages) = candidates
                        && possible(key)
                    {
                        self.pages.touch_starts(pages.start);
                    }
                }
            }
            let asked = keys.iter().zip(&positions).zip(all_candidates.drain(..).zip(&first_positions));
            for (((key, &position), (candidates, &first_position)), value) in asked.zip(values) {
                let key = key.as_ref();
                if !self.has_no_key_of(key.len()) {
                    let query = Query { key, position, hash: &self.hash, first_position };
                    *value = self.find_among(candidates, query, <[u8]>::to_vec)?;
                }
            }
        }
        Ok(())
    }

    /// Begins to bring what a lookup among `candidates` will look at into the processor's cache.
    fn touch(&self, candidates: &Candidates, first_position: Option<u64>, position: u64) {
        let body = self.pages.body_bytes();
        match candidates {
            Candidates::Pages(pages) => {
                let number = first_position.map(|first| self.format.expected_number(first, position));
                let guess = number.zip(self.record_bytes()).map(|(number, bytes)| number.saturating_mul(bytes));
                let (offset, lines) = guess.map_or((0, 0), |guess| (guess.min(body - 1), search::LINES_AROUND));
                self.pages.touch(pages.start, offset as usize, lines);
            }
            Candidates::Ranks(ranks) => {
                if let Some(bytes) = self.record_bytes() {
                    let at = ranks.start * bytes;
                    self.pages.touch(at / body, (at % body) as usize, 0);
                }
            }
            Candidates::Anywhere => {}
        }
    }
}
