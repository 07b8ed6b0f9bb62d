//! Many keys at once: what one lookup waits for, memory or the disk, is waited for by several together.
//!
//! From a mapping, lookups go in batches: the index is asked for all of them, a byte of each page is read before any page is
//! searched, so that their cache misses overlap. By `pread`, the keys are divided among threads, so that the disk has several
//! reads at once.

use super::Dictionary;
use super::file::DictionaryFile;
use super::index::Place;
use crate::error::Result;

/// Lookups that are taken together from a mapping.
const BATCH: usize = 32;
/// Reads that a disk is given at once.
const READERS_MAX: usize = 16;
/// A thread costs more than so many lookups from the system's cache.
const KEYS_PER_READER: usize = 64;

impl Dictionary {
    /// The value of each of `keys`, in their order: as [`get`](Self::get), but faster, as several reads are under way at once.
    ///
    /// # Errors
    /// As [`get`](Self::get), of the first key that has one.
    pub fn get_many<K: AsRef<[u8]> + Sync>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let files = self.files();
        let one = |keys: &[K], values: &mut [Option<Vec<u8>>]| match files {
            [file] => file.get_batches(keys, values),
            _ => {
                for (key, value) in keys.iter().zip(values) {
                    *value = self.get(key.as_ref())?;
                }
                Ok(())
            }
        };
        let readers = (keys.len() / KEYS_PER_READER).clamp(1, READERS_MAX);
        if readers == 1 || files.iter().all(|file| file.pages.is_viewed()) {
            one(keys, &mut values)?;
            return Ok(values);
        }
        let share = keys.len().div_ceil(readers);
        std::thread::scope(|scope| {
            let parts = keys.chunks(share).zip(values.chunks_mut(share));
            let running: Vec<_> = parts.map(|(keys, values)| scope.spawn(|| one(keys, values))).collect();
            running.into_iter().try_for_each(|reader| match reader.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(values)
    }
}

impl DictionaryFile {
    fn get_batches<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        let mut positions = Vec::with_capacity(BATCH);
        let mut places: Vec<Place> = Vec::with_capacity(BATCH);
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            positions.clear();
            places.clear();
            positions.extend(keys.iter().map(|key| self.position(key.as_ref())));
            self.index.places(&positions, &mut places);
            if self.pages.is_viewed() {
                places.iter().zip(&positions).for_each(|(place, position)| self.touch(place, *position));
            }
            let found = keys.iter().zip(&positions).zip(places.drain(..));
            for (((key, position), place), value) in found.zip(values) {
                *value = self.find_at(key.as_ref(), *position, place, <[u8]>::to_vec)?;
            }
        }
        Ok(())
    }

    /// Begins to bring what a lookup of `place` will look at into the processor's cache.
    fn touch(&self, place: &Place, position: u64) {
        match place {
            Place::Pages(pages) => {
                let near = self.near_of(pages.start.min(self.pages.count().saturating_sub(1)));
                let offset = near.zip(self.record_bytes()).map_or(0, |(near, bytes)| near.guess(position) * bytes as usize);
                self.pages.touch(pages.start, offset.min(self.pages.body_bytes() as usize - 1));
            }
            Place::Ranks(ranks) => {
                if let Some(bytes) = self.record_bytes() {
                    let at = ranks.start * bytes;
                    self.pages.touch(at / self.pages.body_bytes(), (at % self.pages.body_bytes()) as usize);
                }
            }
            Place::Unknown => {}
        }
    }
}
