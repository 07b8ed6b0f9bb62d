//! Many lookups at once, in one file or several, so that their waits for memory and for the disk overlap.
//!
//! ```text
//! keys -> sorted by file -> batches: filters -> indexes -> records; each step for the whole batch before the next step
//!                           if lookups wait for the disk, the pages of the next batches are announced to it first
//! ```
//!
//! It cannot be known in advance whether lookups wait for the disk. A lookup that waited starts the announcements.
//! Announced pages arrive without a wait, so from then on one page of each batch is probed before it is announced:
//! whether it is in the system's cache.

use super::file::DictionaryFile;
use super::search::{Outcome, Query, Sought};
use super::wanted::Wanted;
use crate::dictionary::index::filter::Probe;
use crate::error::Result;
use crate::io::has_waited;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Lookups processed together.
const BATCH: usize = 32;
/// The same while lookups wait for the disk, and how many such batches are in flight: 48 to 64 reads.
const BATCH_OF_DISK: usize = 16;
const BATCHES_OF_DISK: usize = 4;
/// Keys sorted by file at a time, so that with several files the lookups of a batch share files.
const SORTED: usize = 4096;
/// Fewer keys are sorted at a time if their values may exceed this in total.
const SORTED_BYTES: usize = 64 << 20;

/// A lookup that waited and took longer than this waited for the disk.
const DISK_WAIT_MIN: Duration = Duration::from_micros(30);
/// Some lookups of a batch that waited and took longer than this waited for the disk, too. Each alone takes one or two
/// microseconds.
const BATCH_WAIT_MIN: Duration = Duration::from_micros(150);
/// After this many consecutive pages in the system's cache, pages are no longer announced.
pub(crate) const QUICK_PROBES_MAX: u32 = 8;

/// A key that is being looked up.
struct Asked {
    /// The number of the key among all keys.
    number: usize,
    file: usize,
    position: u64,
    probe: Probe,
}

/// A receiver of values.
pub(crate) trait Values {
    /// Keys from this number on follow.
    fn begin(&mut self, _from: usize) {}

    /// Key `number` may be present. `find` replaces the content of a vector with its value and returns whether it is
    /// present.
    fn give(&mut self, number: usize, find: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<()>;

    /// All keys up to this number have been given, except absent ones.
    fn end(&mut self, _to: usize) {}
}

/// Stores each value in its own vector.
pub(crate) struct Owned<'v>(pub &'v mut [Option<Vec<u8>>]);

impl Values for Owned<'_> {
    fn give(&mut self, number: usize, find: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut value = Vec::new();
        if find(&mut value)? {
            self.0[number] = Some(value);
        }
        Ok(())
    }
}

/// Passes values on immediately; they arrive in the order of their keys.
pub(crate) struct Passed<F> {
    take: F,
    next: usize,
    value: Vec<u8>,
}

impl<F: FnMut(usize, Option<&[u8]>)> Passed<F> {
    pub fn new(take: F) -> Self {
        Passed { take, next: 0, value: Vec::new() }
    }
}

impl<F: FnMut(usize, Option<&[u8]>)> Values for Passed<F> {
    fn give(&mut self, number: usize, find: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<()> {
        self.end(number);
        let found = find(&mut self.value)?;
        (self.take)(number, found.then_some(&self.value));
        self.next = number + 1;
        Ok(())
    }

    fn end(&mut self, to: usize) {
        (self.next..to).for_each(|absent| (self.take)(absent, None));
        self.next = to;
    }
}

/// Passes values on in the order of their keys, in whatever order they arrive.
pub(crate) struct Ordered<F> {
    take: F,
    from: usize,
    bytes: Vec<u8>,
    /// The range in `bytes` of each value of the keys from `from` on.
    places: Vec<Option<Range<usize>>>,
    value: Vec<u8>,
}

impl<F: FnMut(usize, Option<&[u8]>)> Ordered<F> {
    pub fn new(take: F) -> Self {
        Ordered { take, from: 0, bytes: Vec::new(), places: Vec::new(), value: Vec::new() }
    }
}

impl<F: FnMut(usize, Option<&[u8]>)> Values for Ordered<F> {
    fn begin(&mut self, from: usize) {
        self.from = from;
        self.bytes.clear();
        self.places.clear();
    }

    fn give(&mut self, number: usize, find: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<()> {
        if find(&mut self.value)? {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&self.value);
            let number = number - self.from;
            self.places.resize(self.places.len().max(number + 1), None);
            self.places[number] = Some(start..self.bytes.len());
        }
        Ok(())
    }

    fn end(&mut self, to: usize) {
        self.places.resize(to - self.from, None);
        for (number, place) in (self.from..).zip(self.places.drain(..)) {
            (self.take)(number, place.map(|place| &self.bytes[place]));
        }
    }
}

/// Passes the value of each key that is present to `values`. `file_of` returns the file of a key.
///
/// Filters and indexes are queried for many keys at once, and the records of mapped files are prefetched before any
/// page is searched, so that cache misses overlap, across files too.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    files: &[Arc<DictionaryFile>],
    file_of: impl Fn(&[u8]) -> Result<usize>,
    keys: &[K],
    mut values: impl Values,
) -> Result<()> {
    let longest = files.iter().map(|file| file.footer.value_len.1 as usize).max().unwrap_or(0);
    let sorted = (SORTED_BYTES / longest.max(1)).clamp(BATCH, SORTED);
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(keys.len().min(sorted));
    let mut waits = Waits { quick_probes: files[0].pages.quick_probes.load(Relaxed) };
    let (mut under_way, mut spare) = (VecDeque::new(), Vec::<LookupBatch<'_>>::new());
    for from in (0..keys.len()).step_by(sorted) {
        let numbers = from..keys.len().min(from + sorted);
        values.begin(from);
        order.clear();
        for number in numbers.clone() {
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
            batch.finish(&mut values, &mut waits)?;
            spare.push(batch);
        }
        values.end(numbers.end);
    }
    files[0].pages.quick_probes.store(waits.quick_probes, Relaxed);
    Ok(())
}

/// Evidence of whether lookups wait for the disk.
#[derive(Clone, Copy)]
struct Waits {
    /// Consecutive probed pages that were in the system's cache.
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

    /// The number of batches in flight.
    fn batches(self) -> usize {
        if self.for_disk() { BATCHES_OF_DISK } else { 1 }
    }

    /// Takes the keys of the next batch.
    fn take<'o>(self, rest: &mut &'o [(usize, usize)]) -> &'o [(usize, usize)] {
        let count = if self.for_disk() { BATCH_OF_DISK } else { BATCH };
        let (some, others) = rest.split_at(rest.len().min(count));
        *rest = others;
        some
    }
}

/// A lookup for which the index has been queried.
struct Lookup<'b> {
    number: usize,
    file: &'b DictionaryFile,
    sought: Sought<'b>,
}

/// The lookups of a batch, and memory that is reused.
#[derive(Default)]
struct LookupBatch<'b> {
    asked: Vec<Asked>,
    positions: Vec<u64>,
    lookups: Vec<Lookup<'b>>,
    found: Vec<Outcome>,
    announced: bool,
}

impl<'b> LookupBatch<'b> {
    /// Queries filters and indexes, and announces the pages if lookups wait for the disk.
    fn prepare<K: AsRef<[u8]>>(
        &mut self,
        files: &'b [Arc<DictionaryFile>],
        numbers: &[(usize, usize)],
        keys: &'b [K],
        waits: &mut Waits,
    ) -> Result<()> {
        self.lookups.clear();
        self.ask_filters(files, numbers, keys);
        self.ask_indexes(files, keys)?;
        // A separate loop, so short that the processor translates several addresses at once.
        self.lookups.iter().for_each(|lookup| lookup.file.touch(&lookup.sought));
        self.announced = waits.for_disk();
        if self.announced
            && let Some(probe) = self.lookups.first()
        {
            let is_cached = probe.file.pages.is_cached(probe.sought.pages.start);
            waits.note_probe(is_cached);
            if !is_cached {
                self.lookups.iter().for_each(|lookup| lookup.file.pages.note_waits(1));
            }
            self.lookups.iter().for_each(Lookup::announce);
        }
        Ok(())
    }

    /// Passes on the values of the whole batch.
    fn finish(&mut self, values: &mut impl Values, waits: &mut Waits) -> Result<()> {
        if self.announced {
            let mut lookups = self.lookups.iter();
            return lookups.try_for_each(|lookup| lookup.give(lookup.file.find_in_place(&lookup.sought), values));
        }
        let start = Instant::now();
        // Most of the records prefetched earlier have arrived by now.
        self.lookups.iter_mut().for_each(|lookup| lookup.file.approach(&mut lookup.sought));
        self.lookups.iter().for_each(|lookup| lookup.file.touch_records(&lookup.sought));
        for lookup in &self.lookups {
            let found = lookup.file.find_in_place(&lookup.sought);
            lookup.file.touch_value(&lookup.sought, &found);
            self.found.push(found);
        }
        // Pages of a mapping that had been evicted.
        if has_waited(start, BATCH_WAIT_MIN) {
            waits.note_wait();
        }
        for (number, found) in self.found.drain(..).enumerate() {
            let lookup = &self.lookups[number];
            let start = matches!(found, Outcome::Unavailable).then(Instant::now);
            lookup.give(found, values)?;
            if !waits.for_disk() && start.is_some_and(|start| has_waited(start, DISK_WAIT_MIN)) {
                waits.note_wait();
                self.lookups[number + 1..].iter().for_each(Lookup::announce);
            }
        }
        Ok(())
    }

    /// Collects the keys that may be present.
    fn ask_filters<K: AsRef<[u8]>>(&mut self, files: &[Arc<DictionaryFile>], numbers: &[(usize, usize)], keys: &[K]) {
        self.asked.clear();
        for &(file, number) in numbers {
            let key = keys[number].as_ref();
            if files[file].has_no_key_of(key.len()) {
                continue;
            }
            let position = files[file].position(key);
            let probe = files[file].ask_filter(position);
            self.asked.push(Asked { number, file, position, probe });
        }
        if files.iter().any(|file| file.filter().is_some()) {
            self.asked.retain(|asked| files[asked.file].may_have(asked.probe));
        }
    }

    /// Queries each file's index for its keys at once.
    fn ask_indexes<K: AsRef<[u8]>>(&mut self, files: &'b [Arc<DictionaryFile>], keys: &'b [K]) -> Result<()> {
        for of_file in self.asked.chunk_by(|one, other| one.file == other.file) {
            let file = &*files[of_file[0].file];
            self.positions.clear();
            self.positions.extend(of_file.iter().map(|asked| asked.position));
            let mut asked = of_file.iter();
            file.index.candidates_of(&self.positions, |candidates| {
                let Some(&Asked { number, position, .. }) = asked.next() else { return Ok(()) };
                let query = Query { key: keys[number].as_ref(), position, hash: &file.hash, expected: None };
                let sought = file.sought(candidates, query)?;
                self.lookups.push(Lookup { number, file, sought });
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Lookup<'_> {
    fn announce(&self) {
        self.file.pages.announce(&self.sought.pages);
    }

    /// Passes on its value: the one that was `found` in place, or one from elsewhere.
    fn give(&self, found: Outcome, values: &mut impl Values) -> Result<()> {
        values.give(self.number, |value| self.file.give(&self.sought, found, &mut Wanted::Value(value)))
    }
}
