//! Many lookups at once, in one file or in several: they wait for memory together, and for the disk together.
//!
//! ```text
//! keys -> sorted by file -> some at a time: filters -> indexes -> records; each step for all of them before the next
//!                           where lookups wait for the disk, the next ones' pages are announced to it before
//! ```
//!
//! Whether they wait, nothing says in advance. A lookup that waited begins it. Announced pages come without a wait,
//! so from then on the system is asked of one page of each batch whether it is in its cache, before it is announced.

use super::file::{DictionaryFile, Sought, Wanted};
use super::in_place::InPlace;
use super::search::Query;
use crate::error::Result;
use crate::io::has_waited;
use std::collections::VecDeque;
use std::ops::Range;
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
/// Fewer are where their values may be longer together than this.
const SORTED_BYTES: usize = 64 << 20;
/// Longer values are brought into the processor's cache before they are copied; others are in the line of the key.
const NEAR_VALUE_BYTES: u32 = 64;

/// A lookup that waits and takes longer waited for the disk.
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

/// Where values go.
pub(crate) trait Values {
    /// Keys from this number on come next.
    fn begin(&mut self, _from: usize) {}

    /// Key `number` may be present. `find` replaces what is in a vector by its value and says whether it is.
    fn give(&mut self, number: usize, find: impl FnOnce(&mut Vec<u8>) -> Result<bool>) -> Result<()>;

    /// Keys up to this number have been given, but for absent ones.
    fn end(&mut self, _to: usize) {}
}

/// A vector for each value.
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

/// Values that are passed on at once; they come in the order of their keys.
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

/// Values that are passed on in the order of their keys, whatever the order they come in.
pub(crate) struct Ordered<F> {
    take: F,
    from: usize,
    bytes: Vec<u8>,
    /// Where among the bytes the values of keys from `from` on are.
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

/// Gives `values` the value of each key, which is in the file that `file_of` says, if it is there.
///
/// The filters and indexes are asked for many keys at once, and the records of files that are mapped are prefetched
/// before any page is searched, so that cache misses overlap, also those in different files.
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
    let (mut under_way, mut spare) = (VecDeque::new(), Vec::<Batch<'_>>::new());
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
        self.lookups.clear();
        self.ask_filters(files, numbers, keys);
        self.ask_indexes(files, keys)?;
        // A loop of its own, so short that the processor translates the addresses of several at once.
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

    /// Gives the values of all.
    fn finish(&mut self, values: &mut impl Values, waits: &mut Waits) -> Result<()> {
        if self.announced {
            let mut lookups = self.lookups.iter();
            return lookups.try_for_each(|lookup| lookup.give(lookup.file.find_in_place(&lookup.sought), values));
        }
        let start = Instant::now();
        // The records that the prefetches before this are for are mostly there by now.
        self.lookups.iter_mut().for_each(|lookup| lookup.file.approach(&mut lookup.sought));
        self.lookups.iter().for_each(|lookup| lookup.file.touch_records(&lookup.sought));
        for lookup in &self.lookups {
            let found = lookup.file.find_in_place(&lookup.sought);
            lookup.file.touch_value(&lookup.sought, &found);
            self.found.push(found);
        }
        // Pages of a mapping that were evicted.
        if has_waited(start, BATCH_WAIT_MIN) {
            waits.note_wait();
        }
        for (number, found) in self.found.drain(..).enumerate() {
            let lookup = &self.lookups[number];
            let start = matches!(found, InPlace::Elsewhere).then(Instant::now);
            lookup.give(found, values)?;
            if !waits.for_disk() && start.is_some_and(|start| has_waited(start, DISK_WAIT_MIN)) {
                waits.note_wait();
                self.lookups[number + 1..].iter().for_each(Lookup::announce);
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
        if files.iter().any(|file| file.filter().is_some()) {
            self.asked.retain(|asked| files[asked.file].may_have(asked.position));
        }
    }

    /// Asks each file's index for its keys at once.
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

    /// Gives its value: the one that was `found` in place, or what is elsewhere.
    fn give(&self, found: InPlace, values: &mut impl Values) -> Result<()> {
        values.give(self.number, |value| {
            if self.file.has_long_values()
                && let Some(long) = self.file.long_value(self.sought.key())?
            {
                return long.read_into(value).map(|()| true);
            }
            self.file.give(&self.sought, found, &mut Wanted::Value(value))
        })
    }
}

impl DictionaryFile {
    /// Begins to bring the value that was found into the processor's cache, if it may be far from its key.
    #[inline]
    fn touch_value(&self, sought: &Sought<'_>, found: &InPlace) {
        if let InPlace::Value(place, bytes) = found
            && self.footer.value_len.1 > NEAR_VALUE_BYTES
            && let Some(mapped) = self.pages.mapped(&sought.pages)
        {
            mapped.touch(*place, *bytes);
        }
    }
}
