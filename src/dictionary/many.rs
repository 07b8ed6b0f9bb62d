//! Many keys at once: what one lookup waits for, memory or the disk, is waited for by several together.
//!
//! From a mapping, lookups go in batches: the index is asked for all of them, a byte of each page is read before any page is
//! searched, so that their cache misses overlap. By `pread`, if the first few keys had to wait for the disk, the rest are divided
//! among threads, so that the disk has several reads at once.

use super::Dictionary;
use super::file::DictionaryFile;
use super::index::Place;
use super::search::{self, Near};
use crate::error::Result;
use std::time::{Duration, Instant};

/// Lookups that are taken together from a mapping.
const BATCH: usize = 32;
/// Reads that a disk is given at once.
const READERS_MAX: usize = 16;
/// A reader is not worth its thread for fewer.
const KEYS_PER_READER: usize = 4;
/// So many keys are looked up first, to see whether the disk is waited for.
const PROBES: usize = 8;
/// A lookup that takes longer, on average, waited for the disk: from the system's cache it takes one or two microseconds.
const WAIT_OF_A_DISK: Duration = Duration::from_micros(12);

impl Dictionary {
    /// The value of each of `keys`, in their order: as [`get`](Self::get), but faster where lookups wait.
    ///
    /// By `pread`, where the disk is waited for, up to 16 threads read at once. From a mapping ([`map_data`]) of one file a thread
    /// waits for memory for 32 keys at a time; what is not in memory yet the disk is asked for page by page. Of shards in a mapping
    /// each key is looked up by itself.
    ///
    /// [`map_data`]: crate::DictionaryOptions::map_data
    ///
    /// # Errors
    /// As [`get`](Self::get), of the first key that has one.
    pub fn get_many<K: AsRef<[u8]> + Sync>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let viewed = self.files().iter().all(|file| file.pages.is_viewed());
        let probes = if viewed { keys.len() } else { keys.len().min(PROBES) };
        let start = Instant::now();
        self.get_in_turn(&keys[..probes], &mut values[..probes])?;
        let waited = start.elapsed() >= WAIT_OF_A_DISK * probes as u32;
        // From the system's cache a lookup costs less than a thread gains.
        let readers = if waited { ((keys.len() - probes) / KEYS_PER_READER).min(READERS_MAX) } else { 1 };
        self.get_by_readers(&keys[probes..], &mut values[probes..], readers)?;
        Ok(values)
    }

    fn get_in_turn<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        if let [file] = self.files() {
            return file.get_batches(keys, values);
        }
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(key.as_ref())?;
        }
        Ok(())
    }

    /// Divides the keys among so many threads.
    pub(super) fn get_by_readers<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
        values: &mut [Option<Vec<u8>>],
        readers: usize,
    ) -> Result<()> {
        if readers <= 1 {
            return self.get_in_turn(keys, values);
        }
        let share = keys.len().div_ceil(readers).max(1);
        std::thread::scope(|scope| {
            let parts = keys.chunks(share).zip(values.chunks_mut(share));
            let running: Vec<_> = parts.map(|(keys, values)| scope.spawn(|| self.get_in_turn(keys, values))).collect();
            running.into_iter().try_for_each(|reader| match reader.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }
}

impl DictionaryFile {
    fn get_batches<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut [Option<Vec<u8>>]) -> Result<()> {
        let mut positions = Vec::with_capacity(BATCH);
        let mut places: Vec<Place> = Vec::with_capacity(BATCH);
        let mut nears = Vec::with_capacity(BATCH);
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            positions.clear();
            places.clear();
            nears.clear();
            positions.extend(keys.iter().map(|key| self.position(key.as_ref())));
            self.index.places(&positions, &mut places);
            nears.extend(places.iter().map(|place| self.near_of(place)));
            if self.pages.is_viewed() {
                let possible = |key: &K| !self.has_no_key_of(key.as_ref().len());
                for (((key, place), near), position) in keys.iter().zip(&places).zip(&nears).zip(&positions) {
                    if possible(key) {
                        self.touch(place, *near, *position);
                    }
                }
                for (key, place) in keys.iter().zip(&places) {
                    if let Place::Pages(pages) = place
                        && possible(key)
                    {
                        self.pages.touch_starts(pages.start);
                    }
                }
            }
            let found = keys.iter().zip(&positions).zip(places.drain(..).zip(&nears));
            for (((key, position), (place, near)), value) in found.zip(values) {
                let key = key.as_ref();
                if !self.has_no_key_of(key.len()) {
                    *value = self.find_at(key, *position, place, *near, <[u8]>::to_vec)?;
                }
            }
        }
        Ok(())
    }

    /// Begins to bring what a lookup of `place` will look at into the processor's cache.
    fn touch(&self, place: &Place, near: Option<Near>, position: u64) {
        let body = self.pages.body_bytes();
        match place {
            Place::Pages(pages) => {
                let guess = near.zip(self.record_bytes()).map(|(near, bytes)| near.guess(position) as u64 * bytes);
                let (offset, lines) = guess.map_or((0, 0), |guess| (guess.min(body - 1), search::LINES_AROUND));
                self.pages.touch(pages.start, offset as usize, lines);
            }
            Place::Ranks(ranks) => {
                if let Some(bytes) = self.record_bytes() {
                    let at = ranks.start * bytes;
                    self.pages.touch(at / body, (at % body) as usize, 0);
                }
            }
            Place::Unknown => {}
        }
    }
}
