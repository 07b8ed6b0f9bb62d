//! Many lookups at once, in one file or in several: they wait for memory together, and for the disk together.
//!
//! ```text
//! keys -> sorted by file -> some at a time: filters -> indexes -> records; each step for all of them before the next
//!                           where lookups wait for the disk, the next ones' pages are announced to it before
//! ```
//!
//! Whether they wait, nothing says in advance. A lookup that takes long begins it. Announced pages come without a wait,
//! so from then on the system is asked of one page of each batch whether it is in its cache, before it is announced.

use super::file::{DictionaryFile, Sought, Wanted};
use super::in_place::InPlace;
use super::search::{self, Query};
use crate::dictionary::index::Candidates;
use crate::error::Result;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Lookups that are taken together.
const BATCH: usize = 32;
/// Where they wait for the disk, and how many such batches are under way at once: 48 to 64 reads.
const BATCH_OF_DISK: usize = 16;
const BATCHES_OF_DISK: usize = 4;
/// Keys that are sorted by their files at once, so that lookups taken together share files where there are several.
const SORTED: usize = 4096;

/// A lookup that takes longer waited for the disk.
const DISK_WAIT_MIN: Duration = Duration::from_micros(30);
/// And so did some of a batch that takes longer, of which each alone takes one or two microseconds.
const BATCH_WAIT_MIN: Duration = Duration::from_micros(150);
/// Pages in a row that were in the system's cache, after which pages are not announced any more.
pub(crate) const QUICK_PROBES_MAX: u32 = 8;

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
    let mut waits = Waits { quick_probes: files[0].pages.quick_probes.load(Relaxed) };
    let (mut under_way, mut spare) = (VecDeque::new(), Vec::<Batch<'_>>::new());
    for from in (0..keys.len()).step_by(SORTED) {
        let numbers = from..keys.len().min(from + SORTED);
        order.clear();
        for number in numbers {
            order.push((file_of(keys[number].as_ref())?, number));
        }
        if files.len() > 1 {
            order.sort_unstable();
        }
        let mut rest = &order[..];
        loop {
            while !rest.is_empty() && under_way.len() < waits.batches() {
                let mut batch = spare.pop().unwrap_or_default();
                batch.prepare(files, waits.take(&mut rest), keys, &mut waits)?;
                under_way.push_back(batch);
            }
            let Some(mut batch) = under_way.pop_front() else { break };
            batch.finish(values, &mut waits)?;
            spare.push(batch);
        }
    }
    files[0].pages.quick_probes.store(waits.quick_probes, Relaxed);
    Ok(())
}

/// Whether lookups wait for the disk, as far as is known.
#[derive(Clone, Copy)]
struct Waits {
    /// Pages in a row that were asked for and in the system's cache.
    quick_probes: u32,
}

impl Waits {
    fn for_disk(self) -> bool {
        self.quick_probes < QUICK_PROBES_MAX
    }

    fn note_wait(&mut self) {
        self.quick_probes = 0;
    }

    fn note_probe(&mut self, is_cached: bool) {
        self.quick_probes = if is_cached { self.quick_probes + 1 } else { 0 };
    }

    /// Batches under way at once.
    fn batches(self) -> usize {
        if self.for_disk() { BATCHES_OF_DISK } else { 1 }
    }

    /// Takes those that the next batch has.
    fn take<'o>(self, rest: &mut &'o [(usize, usize)]) -> &'o [(usize, usize)] {
        let count = if self.for_disk() { BATCH_OF_DISK } else { BATCH };
        let (some, others) = rest.split_at(rest.len().min(count));
        *rest = others;
        some
    }
}

/// A lookup of which the index has been asked.
struct Lookup<'b> {
    number: usize,
    file: &'b DictionaryFile,
    sought: Sought<'b>,
}

/// Some lookups, and memory that is used again.
#[derive(Default)]
struct Batch<'b> {
    asked: Vec<Asked>,
    positions: Vec<u64>,
    candidates: Vec<Candidates>,
    lookups: Vec<Lookup<'b>>,
    found: Vec<InPlace>,
    announced: bool,
}

impl<'b> Batch<'b> {
    /// Asks filters and indexes, and announces the pages if lookups wait for the disk.
    fn prepare<K: AsRef<[u8]>>(
        &mut self,
        files: &'b [Arc<DictionaryFile>],
        numbers: &[(usize, usize)],
        keys: &'b [K],
        waits: &mut Waits,
    ) -> Result<()> {
        self.ask_filters(files, numbers, keys);
        self.ask_indexes(files);
        for (asked, candidates) in self.asked.iter().zip(self.candidates.drain(..)) {
            let &Asked { number, file, position } = asked;
            let file = &files[file];
            file.touch(&candidates, position);
            let query = Query { key: keys[number].as_ref(), position, hash: &file.hash, first_position: None };
            let sought = file.sought(candidates, query)?;
            if file.pages.has_starts() {
                file.pages.touch(sought.pages.start, 0, 0);
            }
            self.lookups.push(Lookup { number, file, sought });
        }
        self.announced = waits.for_disk();
        if self.announced
            && let Some(probe) = self.lookups.first()
        {
            waits.note_probe(probe.file.pages.is_cached(probe.sought.pages.start));
            self.lookups.iter().for_each(Lookup::announce);
        }
        Ok(())
    }

    /// Sets the values of all.
    fn finish(&mut self, values: &mut [Option<Vec<u8>>], waits: &mut Waits) -> Result<()> {
        if self.announced {
            let mut lookups = self.lookups.drain(..);
            return lookups.try_for_each(|lookup| lookup.give(lookup.file.find_in_place(&lookup.sought), values));
        }
        let start = Instant::now();
        self.lookups.iter().for_each(|lookup| lookup.file.pages.touch_starts(lookup.sought.pages.start));
        for lookup in &self.lookups {
            let found = lookup.file.find_in_place(&lookup.sought);
            lookup.file.touch_value(&lookup.sought, &found);
            self.found.push(found);
        }
        // Pages of a mapping that were evicted.
        if start.elapsed() >= BATCH_WAIT_MIN {
            waits.note_wait();
        }
        let mut lookups = self.lookups.drain(..);
        for found in self.found.drain(..) {
            let Some(lookup) = lookups.next() else { break };
            let start = matches!(found, InPlace::Elsewhere).then(Instant::now);
            lookup.give(found, values)?;
            if start.is_some_and(|start| start.elapsed() >= DISK_WAIT_MIN) && !waits.for_disk() {
                waits.note_wait();
                lookups.as_slice().iter().for_each(Lookup::announce);
            }
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
        for of_file in self.asked.chunk_by(|one, other| one.file == other.file) {
            self.positions.clear();
            self.positions.extend(of_file.iter().map(|asked| asked.position));
            files[of_file[0].file].index.candidates_of(&self.positions, &mut self.candidates);
        }
    }
}

impl Lookup<'_> {
    fn announce(&self) {
        self.file.pages.announce(&self.sought.pages);
    }

    /// Sets its value: the one that was `found` in place, or what is elsewhere.
    fn give(&self, found: InPlace, values: &mut [Option<Vec<u8>>]) -> Result<()> {
        let mut value = Vec::new();
        let is_there = self.file.give(&self.sought, found, &mut Wanted::Value(&mut value))?;
        values[self.number] = is_there.then_some(value);
        Ok(())
    }
}

impl DictionaryFile {
    /// Begins to bring the value that was found into the processor's cache.
    fn touch_value(&self, sought: &Sought<'_>, found: &InPlace) {
        if let InPlace::Value(place, bytes) = found
            && let Some(mapped) = self.pages.mapped(&sought.pages)
        {
            mapped.touch(*place, *bytes);
        }
    }

    /// Begins to bring the records of one size that a lookup among `candidates` will look at into the processor's
    /// cache. Does nothing where pages are not mapped.
    fn touch(&self, candidates: &Candidates, position: u64) {
        let Some(bytes) = self.record_bytes() else { return };
        let body = self.pages.body_bytes();
        match candidates {
            Candidates::Pages(located) => {
                let number = self.format.expected_number(located.first_position, position);
                let offset = number.saturating_mul(bytes).min(body - 1);
                self.pages.touch(located.pages.start, offset as usize, search::LINES_AROUND);
            }
            Candidates::Ranks(ranks) => {
                let at = ranks.start.saturating_mul(bytes);
                self.pages.touch(at / body, (at % body) as usize, 0);
            }
            Candidates::Anywhere => {}
        }
    }
}
