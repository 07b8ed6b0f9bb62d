//! Minimal perfect hashing: a function for each partition of keys, which gives each its place.
//!
//! The records, in hash order, are cut into *partitions* of so many consecutive ones; inside a partition they are put
//! in the order that its function wants. Of the function, level 0 hashes a key to a bucket of about six, and within a
//! slice of places; the bucket's *seed*, of 10 bits, moves its keys along their slices to places that are free. Where
//! no seed does, the seed is 0 and the keys are *bumped*: level 1, a function over them alone, says which of the places
//! that stayed free (its *holes*, by Elias-Fano) each gets; and so on. The last few are listed.
//!
//! ```text
//! positions  |---- partition 0 ----|---- partition 1 ----|--     thresholds: first position of each
//! level 0    seeds 17 3 0 801 9 ...  -> place, or bumped
//! level 1    seeds 88 0 41 ...       -> number of a hole of level 0
//! list       5 positions             -> number of a hole of level 1
//! ```
//!
//! Records of one position are *extras*: no function parts them. They stand at the end of their partition and are
//! listed in the section: none, where hashes are.
//!
//! Cost: see `measure`, below. A lookup is one read of a seed; of 1 in 50, some more. Memory: the section, mapped or
//! loaded; and as much as the headers of partitions take.
//! Any words that [`Mphf::open`] takes are searched within bounds: all that a lookup computes is clamped.
//! Source: Beling & Sanders 2026, PHast (PHast+ with wrapping). Differs: keys that are bumped go to the holes in a
//! chain of levels, each in one sequence, not by a table for all. No crate: `ph` 0.11 chose seeds for the same bits a
//! key, and brought 12 others along; its own form can neither be mapped nor read safely from bytes that are not
//! trusted.
//! Not here: the seeds (`phast.rs`); moving the records; reading them; cutting them, but for where
//! ([`MphfOptions::ends`]).

use std::ops::Range;

use super::elias_fano::EliasFano;
use super::phast::{self, Chosen};
use crate::error::{Error, ErrorKind, Result};

/// Keys of a partition where the caller does not say.
pub(crate) const PARTITION_KEYS: u32 = 1 << 22;

/// Bits of a seed, and hundredths of a key in a bucket: 1.93 bits a key. With 8 and 430, and steps of 3, it was 2.05.
/// A section says its own bits, buckets and step (how far one more of a seed moves keys): all may change.
const SEED_BITS: u8 = 10;
const BUCKET_KEYS_100: usize = 580;

/// So few keys are listed instead of hashed.
const LIST_KEYS: usize = 32;

/// Most levels of a function, of which each has about a fortieth of the keys of the one before; the list is the last.
const LEVELS_MAX: usize = 24;

/// Words of the section before its directory: counts of records, partitions, extras.
const HEADER_WORDS: usize = 3;

/// Words of a level before its seeds.
const LEVEL_WORDS: usize = 2;

/// Lookups that are taken together, so that they wait for memory together.
const BATCH: usize = 16;

/// How the index is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MphfOptions {
    /// A partition has so many keys, and those behind with the position of its last. Its records are in memory at once.
    pub(crate) partition_keys: u32,
}

impl MphfOptions {
    /// Does a partition end after `len` records, the last at position `last`, if the next record is at `next`?
    ///
    /// The caller collects records until it does, or until there are no more, and gives them to [`solve`].
    pub(crate) fn ends(&self, len: usize, last: u64, next: u64) -> bool {
        len as u64 >= self.partition_keys.max(1).into() && next != last
    }
}

/// The function of one partition, made by [`solve`].
#[derive(Debug)]
pub(crate) struct Solved {
    first: u64,
    records: u32,
    extras: Vec<Extra>,
    function: Vec<u64>,
}

/// Records of one position: where the first of them stands, in the partition or among all, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extra {
    position: u64,
    place: u64,
    count: u64,
}

/// Finds the function of a partition. Record `order[i]` of those at `positions` belongs at place `i` of it.
///
/// # Errors
/// If `positions` descend; or are more than twice a partition, because so many are equal; or more than 2^31.
pub(crate) fn solve(options: MphfOptions, positions: &[u64], order: &mut Vec<u32>) -> Result<Solved> {
    let most = u64::from(options.partition_keys.max(1)).saturating_mul(2).min(1 << 31);
    if positions.len() as u64 > most {
        let text = format!(
            "{} records to a partition of {most}: too many of one hash; take the index `page`",
            positions.len()
        );
        return Err(Error::new(ErrorKind::InvalidArgument, text));
    }
    let Some(&first) = positions.first() else {
        return Err(Error::new(ErrorKind::InvalidArgument, "a partition of no records"));
    };
    if !positions.is_sorted() {
        return Err(Error::corrupt("the records of a partition are not in hash order"));
    }
    let mut keys = Vec::with_capacity(positions.len());
    let mut extras = Vec::new();
    for same in positions.chunk_by(|a, b| a == b) {
        if let &[position] = same {
            keys.push(position);
        } else {
            extras.push(Extra { position: same[0], place: 0, count: same.len() as u64 });
        }
    }
    let function = function_of(keys);
    set_order(positions, &function, order, &mut extras)?;
    Ok(Solved { first, records: positions.len() as u32, extras, function })
}

/// Which record belongs where; and where each extra does.
fn set_order(positions: &[u64], function: &[u64], order: &mut Vec<u32>, extras: &mut [Extra]) -> Result<()> {
    const NONE: u32 = u32::MAX;
    let opened = Function::open(function, 0..function.len()).map_err(Error::corrupt)?;
    order.clear();
    order.resize(positions.len(), NONE);
    let (mut next_extra, mut extra_place, mut at) = (0, opened.keys() as usize, 0);
    for same in positions.chunk_by(|a, b| a == b) {
        let place = if same.len() > 1 {
            extras[next_extra].place = extra_place as u64;
            (next_extra, extra_place) = (next_extra + 1, extra_place + same.len());
            Some(extra_place - same.len())
        } else {
            opened.place(function, same[0]).map(|place| place as usize).filter(|&place| order[place] == NONE)
        };
        let Some(place) = place else {
            // Not by any keys: the chooser of seeds has broken its promise, and nobody shall find out by a lookup.
            return Err(Error::corrupt(format!("no place of its own for position {:#x}; report this", same[0])));
        };
        for (i, order) in order[place..place + same.len()].iter_mut().enumerate() {
            *order = (at + i) as u32;
        }
        at += same.len();
    }
    Ok(())
}

/// Puts the functions of partitions together, in hash order.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    records: u64,
    thresholds: Vec<u64>,
    ranks: Vec<u64>,
    /// Where each function begins in `functions`.
    starts: Vec<u64>,
    extras: Vec<Extra>,
    functions: Vec<u64>,
}

impl Builder {
    /// Adds the partition behind those added before.
    pub(crate) fn add(&mut self, solved: Solved) {
        self.thresholds.push(solved.first);
        self.ranks.push(self.records);
        self.starts.push(self.functions.len() as u64);
        self.extras.extend(solved.extras.iter().map(|e| Extra { place: self.records + e.place, ..*e }));
        self.functions.extend(solved.function);
        self.records += u64::from(solved.records);
    }

    /// The words of the index.
    pub(crate) fn finish(self) -> Vec<u64> {
        let (partitions, extras) = (self.thresholds.len(), self.extras.len());
        let functions = HEADER_WORDS + 3 * (partitions + extras);
        let mut words = Vec::with_capacity(functions + self.functions.len());
        words.extend([self.records, partitions as u64, extras as u64]);
        words.extend(self.thresholds);
        words.extend(self.ranks);
        words.extend(self.starts.iter().map(|start| functions as u64 + start));
        words.extend(self.extras.iter().flat_map(|e| [e.position, e.place, e.count]));
        words.extend(self.functions);
        words
    }
}

/// Where the record of a position stands. Keeps no words: those given to each call are those given to [`Mphf::open`].
#[derive(Debug)]
pub(crate) struct Mphf {
    records: u64,
    extras: usize,
    /// Never empty if there are records; each has at least one record.
    partitions: Vec<Partition>,
}

#[derive(Debug)]
struct Partition {
    ranks: Range<u64>,
    function: Function,
}

impl Mphf {
    /// Reads the headers of all partitions, and checks that what lookups rely on lies within the words.
    pub(crate) fn open(words: &[u64]) -> Result<Mphf, String> {
        let &[records, partitions, extras, ..] = words else {
            return Err(format!("a perfect hash of {} words, without its header", words.len()));
        };
        let rest = (words.len() - HEADER_WORDS) as u64;
        if partitions.saturating_add(extras).saturating_mul(3) > rest || (partitions == 0) != (records == 0) {
            return Err(format!("a perfect hash of {records} records, {partitions} partitions and {extras} extras"));
        }
        let mut found = Mphf { records, extras: extras as usize, partitions: Vec::new() };
        found.open_partitions(words, partitions as usize)?;
        found.check_extras(words)?;
        Ok(found)
    }

    fn open_partitions(&mut self, words: &[u64], count: usize) -> Result<(), String> {
        let [thresholds, ranks, starts] = [0, 1, 2].map(|i| &words[HEADER_WORDS + i * count..][..count]);
        for i in 0..count {
            let end = |of: &[u64], all: u64| of.get(i + 1).copied().unwrap_or(all);
            let ranks = ranks[i]..end(ranks, self.records);
            let starts = starts[i]..end(starts, words.len() as u64);
            let ascends = i == 0 || thresholds[i - 1] < thresholds[i];
            let wrong = |why: &str| format!("partition {i} of a perfect hash {why}");
            let first = HEADER_WORDS as u64 + 3 * (count as u64 + self.extras as u64);
            if !ascends || ranks.is_empty() || (i == 0 && (ranks.start, starts.start) != (0, first)) {
                return Err(wrong(&format!("is at {:#x}, with ranks {ranks:?}", thresholds[i])));
            }
            if starts.start < first || starts.end < starts.start || starts.end > words.len() as u64 {
                return Err(wrong(&format!("has its function at words {starts:?}")));
            }
            let function =
                Function::open(words, starts.start as usize..starts.end as usize).map_err(|why| wrong(&why))?;
            if function.keys() > ranks.end - ranks.start {
                return Err(wrong(&format!("has {} keys for ranks {ranks:?}", function.keys())));
            }
            self.partitions.push(Partition { ranks, function });
        }
        Ok(())
    }

    fn check_extras(&self, words: &[u64]) -> Result<(), String> {
        let mut last = None;
        let mut told: u64 = self.partitions.iter().map(|partition| partition.function.keys()).sum();
        for i in 0..self.extras {
            let Extra { position, place, count } = self.extra(words, i);
            if last >= Some(position) || count < 2 || place.checked_add(count).is_none_or(|end| end > self.records) {
                return Err(format!("extra {i} of a perfect hash: {count} records from {place} at {position:#x}"));
            }
            (last, told) = (Some(position), told.saturating_add(count));
        }
        if told == self.records { Ok(()) } else { Err(format!("{told} of {} records in a perfect hash", self.records)) }
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The partition that has the record of `rank`.
    pub(crate) fn partition_of_rank(&self, rank: u64) -> Option<usize> {
        let partition = self.partitions.partition_point(|partition| partition.ranks.end <= rank);
        (partition < self.partitions.len()).then_some(partition)
    }

    /// The ranks of a partition, in which its records stand in the order of its function, and extras behind them.
    pub(crate) fn ranks(&self, partition: usize) -> Range<u64> {
        self.partitions[partition].ranks.clone()
    }

    /// The ranks of which one, if any, has the record of `position`: one rank; more, if several records have it; none.
    ///
    /// An absent position gives some rank too: only the record tells.
    pub(crate) fn locate(&self, words: &[u64], position: u64) -> Range<u64> {
        if let Some(extra) = self.extra_at(words, position) {
            return extra;
        }
        let Some(partition) = self.partition_of(words, position) else { return 0..0 };
        self.partitions[partition].locate(words, position)
    }

    /// [`Mphf::locate`] for many positions, in their order, appended to `found`: faster than one by one.
    pub(crate) fn locate_many(&self, words: &[u64], positions: &[u64], found: &mut Vec<Range<u64>>) {
        if self.extras > 0 || self.partitions.is_empty() {
            found.extend(positions.iter().map(|&position| self.locate(words, position)));
            return;
        }
        let (batches, rest) = positions.as_chunks::<BATCH>();
        for batch in batches {
            // Each step of all, before the next step of any: what they wait for, they wait for together.
            let partitions = batch.map(|position| self.partition_of(words, position).map(|i| &self.partitions[i]));
            let seeds: [Option<u16>; BATCH] =
                std::array::from_fn(|i| partitions[i].and_then(|p| p.function.first_seed(words, batch[i])));
            found.extend((0..BATCH).map(|i| match (partitions[i], seeds[i]) {
                (Some(partition), Some(seed @ 1..)) => partition.locate_seed(batch[i], seed),
                (Some(partition), _) => partition.locate(words, batch[i]),
                (None, _) => 0..0,
            }));
        }
        found.extend(rest.iter().map(|&position| self.locate(words, position)));
    }

    fn extra(&self, words: &[u64], i: usize) -> Extra {
        let at = HEADER_WORDS + 3 * (self.partitions.len() + i);
        Extra { position: words[at], place: words[at + 1], count: words[at + 2] }
    }

    #[inline]
    fn extra_at(&self, words: &[u64], position: u64) -> Option<Range<u64>> {
        let (mut first, mut end) = (0, self.extras);
        while first < end {
            let middle = first + (end - first) / 2;
            let extra = self.extra(words, middle);
            if extra.position == position {
                return Some(extra.place..extra.place.saturating_add(extra.count).min(self.records));
            }
            if extra.position < position { first = middle + 1 } else { end = middle }
        }
        None
    }

    /// The last partition that does not begin behind `position`.
    #[inline]
    fn partition_of(&self, words: &[u64], position: u64) -> Option<usize> {
        let thresholds = &words[HEADER_WORDS..][..self.partitions.len()];
        // Hashes are even, so it is this one or a neighbour; if they are not, steps double.
        let guess = ((u128::from(position) * thresholds.len() as u128) >> 64) as usize;
        let (mut first, mut end, mut step) = (guess, guess, 1);
        while first > 0 && thresholds[first.min(thresholds.len() - 1)] > position {
            (first, end, step) = (first.saturating_sub(step), first, step * 2);
        }
        while end < thresholds.len() && thresholds[end] <= position {
            (first, end, step) = (end, end.saturating_add(step), step * 2);
        }
        let end = end.min(thresholds.len());
        (first + thresholds.get(first..end)?.partition_point(|&t| t <= position)).checked_sub(1)
    }
}

impl Partition {
    #[inline]
    fn locate(&self, words: &[u64], position: u64) -> Range<u64> {
        match self.function.place(words, position) {
            Some(place) => self.ranks.start + place..self.ranks.start + place + 1,
            None => 0..0,
        }
    }

    /// [`Partition::locate`] of a position whose seed of level 0 is `seed`, not 0.
    #[inline]
    fn locate_seed(&self, position: u64, seed: u16) -> Range<u64> {
        let Some(Level { keys, code: Code::Seeds(seeds), .. }) = self.function.levels.first() else { return 0..0 };
        let rank = self.ranks.start + seeds.place(mix(position, 0), seed).min(keys - 1);
        rank..rank + 1
    }
}

/// A function of a partition: its levels; none if it has no keys.
#[derive(Debug)]
struct Function {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    keys: u64,
    code: Code,
    /// Where the keys go that this level bumps.
    holes: Option<Holes>,
}

#[derive(Debug)]
enum Code {
    Seeds(Seeds),
    /// Positions in order, from this word on.
    List(usize),
}

#[derive(Debug)]
struct Seeds {
    at: usize,
    buckets: u64,
    /// Slices begin at places below it.
    slices: u64,
    /// The length of a slice, less one.
    mask: u16,
    step: u8,
    bits: u8,
}

#[derive(Debug)]
struct Holes {
    words: Range<usize>,
    places: EliasFano,
}

/// What a level says of a key.
enum Told {
    Place(u64),
    Bumped,
    Absent,
}

impl Function {
    /// Reads the levels, which fill the `range` of the words.
    fn open(words: &[u64], range: Range<usize>) -> Result<Function, String> {
        let (mut at, mut levels) = (range.start, Vec::new());
        while at < range.end {
            let level = Level::open(&words[..range.end], at)?;
            let expected = levels.last().map_or(Some(level.keys), Level::bumped);
            if expected != Some(level.keys) || levels.len() == LEVELS_MAX {
                return Err(format!("has {} keys on level {}, not {expected:?}", level.keys, levels.len()));
            }
            at = level.end();
            levels.push(level);
        }
        match levels.last().and_then(Level::bumped) {
            Some(bumped) => Err(format!("bumps {bumped} keys from its last level")),
            None => Ok(Function { levels }),
        }
    }

    fn keys(&self) -> u64 {
        self.levels.first().map_or(0, |level| level.keys)
    }

    /// The place of a key among the [`Function::keys`] places; of others, some place or none.
    #[inline]
    fn place(&self, words: &[u64], position: u64) -> Option<u64> {
        for (depth, level) in self.levels.iter().enumerate() {
            match level.ask(words, position, depth) {
                Told::Place(place) => {
                    return Some(self.levels[..depth].iter().rev().fold(place, |p, l| l.hole(words, p)));
                }
                Told::Bumped => {}
                Told::Absent => break,
            }
        }
        None
    }

    /// The seed of the bucket of `position` on level 0.
    #[inline]
    fn first_seed(&self, words: &[u64], position: u64) -> Option<u16> {
        match self.levels.first() {
            Some(Level { code: Code::Seeds(seeds), .. }) => Some(seeds.seed(words, mix(position, 0))),
            _ => None,
        }
    }
}

impl Level {
    fn open(words: &[u64], at: usize) -> Result<Level, String> {
        let Some(&[counts, shape]) = words[at..].first_chunk::<LEVEL_WORDS>() else {
            return Err("ends within the header of a level".into());
        };
        let (keys, bumped) = (counts & u64::from(u32::MAX), counts >> 32);
        let code_at = at + LEVEL_WORDS;
        let (code, code_words, sound) = if shape == 0 {
            (Code::List(code_at), keys, bumped == 0)
        } else {
            let seeds = Seeds::open(code_at, shape, keys);
            let (words, sound) = (seeds.word_count(), seeds.is_sound() && bumped <= keys);
            (Code::Seeds(seeds), words, sound)
        };
        let end = code_at as u64 + code_words;
        if keys == 0 || !sound || end > words.len() as u64 {
            return Err(format!("has a level of {keys} keys, {bumped} bumped, of shape {shape:#x}"));
        }
        let holes = if bumped == 0 { None } else { Some(Holes::open(words, end as usize, bumped, keys)?) };
        Ok(Level { keys, code, holes })
    }

    /// How many keys it leaves to the next level; none if there is no next.
    fn bumped(&self) -> Option<u64> {
        self.holes.as_ref().map(|holes| holes.places.len())
    }

    /// The word behind it.
    fn end(&self) -> usize {
        match (&self.holes, &self.code) {
            (Some(holes), _) => holes.words.end,
            (None, Code::List(at)) => at + self.keys as usize,
            (None, Code::Seeds(seeds)) => seeds.at + seeds.word_count() as usize,
        }
    }

    #[inline]
    fn ask(&self, words: &[u64], position: u64, depth: usize) -> Told {
        match &self.code {
            Code::Seeds(seeds) => {
                let hash = mix(position, depth);
                match seeds.seed(words, hash) {
                    0 if self.holes.is_none() => Told::Absent,
                    0 => Told::Bumped,
                    seed => Told::Place(seeds.place(hash, seed).min(self.keys - 1)),
                }
            }
            Code::List(at) => match words[*at..*at + self.keys as usize].binary_search(&position) {
                Ok(place) => Told::Place(place as u64),
                Err(_) => Told::Absent,
            },
        }
    }

    /// Hole number `hole`.
    fn hole(&self, words: &[u64], hole: u64) -> u64 {
        self.holes.as_ref().map_or(0, |holes| holes.places.get(&words[holes.words.clone()], hole))
    }
}

impl Holes {
    /// At word `at`: `count` holes among `keys` places.
    fn open(words: &[u64], at: usize, count: u64, keys: u64) -> Result<Holes, String> {
        let places = EliasFano::open_front(&words[at..])?;
        if (places.len(), places.greatest()) != (count, keys - 1) {
            let (len, greatest) = (places.len(), places.greatest());
            return Err(format!("has {len} holes up to {greatest} for {count} of {keys} keys"));
        }
        Ok(Holes { words: at..at + places.word_count(), places })
    }
}

impl Seeds {
    /// For `keys` keys; `shape` as [`Seeds::shape`] makes it.
    fn open(at: usize, shape: u64, keys: u64) -> Seeds {
        let [a, b, c, d, mask_low, mask_high, step, bits] = shape.to_le_bytes();
        let mask = u16::from_le_bytes([mask_low, mask_high]);
        let buckets = u32::from_le_bytes([a, b, c, d]).into();
        Seeds { at, buckets, slices: keys.saturating_sub(mask.into()), mask, step, bits }
    }

    fn shape(&self) -> u64 {
        self.buckets | u64::from(self.mask) << 32 | u64::from(self.step) << 48 | u64::from(self.bits) << 56
    }

    fn is_sound(&self) -> bool {
        self.buckets > 0 && self.slices > 0 && (1..=16).contains(&self.bits)
    }

    fn word_count(&self) -> u64 {
        (self.buckets * u64::from(self.bits)).div_ceil(64)
    }

    #[inline]
    fn seed(&self, words: &[u64], hash: u64) -> u16 {
        let at = high_product(hash, self.buckets) * u64::from(self.bits);
        let (word, shift) = (self.at + (at / 64) as usize, (at % 64) as u32);
        let mut seed = words[word] >> shift;
        if shift + u32::from(self.bits) > 64 {
            seed |= words[word + 1] << (64 - shift);
        }
        seed as u16 & (u16::MAX >> (16 - self.bits))
    }

    /// Where `seed` puts a key. Beyond the keys of the level only if the words are nonsense.
    #[inline]
    fn place(&self, hash: u64, seed: u16) -> u64 {
        let within = (hash as u16).wrapping_add(seed.wrapping_mul(self.step.into())) & self.mask;
        high_product(hash, self.slices) + u64::from(within)
    }
}

/// `hash` scaled to `0..below`.
#[inline]
fn high_product(hash: u64, below: u64) -> u64 {
    ((u128::from(hash) * u128::from(below)) >> 64) as u64
}

/// The hash of a key for a level: another for each, and different for different positions.
///
/// Positions of a partition share their high bits, and need not be even: the user may choose the hash function.
#[inline]
fn mix(position: u64, level: usize) -> u64 {
    let z = position.wrapping_add((level as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)); // on disk
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The words of a function over `keys`, all different, in order.
fn function_of(mut keys: Vec<u64>) -> Vec<u64> {
    let mut words = Vec::new();
    for level in 0..LEVELS_MAX {
        if keys.is_empty() {
            break;
        }
        if keys.len() <= LIST_KEYS || level == LEVELS_MAX - 1 {
            words.extend([keys.len() as u64, 0]);
            words.append(&mut keys);
            break;
        }
        keys = add_level(&mut words, keys, level);
    }
    words
}

/// Adds a level for `keys` to the words; returns those it bumps.
fn add_level(words: &mut Vec<u64>, keys: Vec<u64>, level: usize) -> Vec<u64> {
    let hashes: Vec<u64> = keys.iter().map(|&key| mix(key, level)).collect();
    let (seeds, chosen) = choose_seeds(&hashes);
    let counts = words.len();
    words.extend([keys.len() as u64, seeds.shape()]);
    words.extend(chosen);
    let seeds = Seeds { at: counts + LEVEL_WORDS, ..seeds };
    let mut taken = vec![0_u64; keys.len().div_ceil(64)];
    let mut bumped = Vec::new();
    for (&key, &hash) in keys.iter().zip(&hashes) {
        match seeds.seed(words, hash) {
            0 => bumped.push(key),
            seed => {
                let place = seeds.place(hash, seed);
                taken[(place / 64) as usize] |= 1 << (place % 64);
            }
        }
    }
    words[counts] |= (bumped.len() as u64) << 32;
    if !bumped.is_empty() {
        let holes = (0..keys.len()).filter(|place| taken[place / 64] >> (place % 64) & 1 == 0);
        let built = EliasFano::build(holes.map(|hole| Ok(hole as u64)), bumped.len() as u64, keys.len() as u64 - 1);
        words.extend(built.expect("as many places stay free as keys are bumped, if no two keys got one place"));
    }
    bumped
}

/// The seeds for keys of these hashes, without gaps, the first in the lowest bits.
fn choose_seeds(hashes: &[u64]) -> (Seeds, Vec<u64>) {
    let buckets = (hashes.len() * 100).div_ceil(BUCKET_KEYS_100);
    let Chosen { seeds: chosen, mask } = phast::choose_seeds(hashes, buckets, 1 << SEED_BITS);
    let slices = hashes.len() as u64 - u64::from(mask);
    let seeds = Seeds { at: 0, buckets: buckets as u64, slices, mask, step: 1, bits: SEED_BITS };
    let mut words = vec![0; seeds.word_count() as usize];
    for (bucket, &seed) in chosen.iter().enumerate() {
        let at = bucket * usize::from(SEED_BITS);
        words[at / 64] |= u64::from(seed) << (at % 64);
        if at % 64 + usize::from(SEED_BITS) > 64 {
            words[at / 64 + 1] |= u64::from(seed) >> (64 - at % 64);
        }
    }
    (seeds, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::test_random::{Random, ns_each};
    use std::time::{Duration, Instant};

    /// Cuts, solves and joins; checks that the order of each partition is one. Returns the words, and the positions by
    /// rank.
    fn built(options: MphfOptions, positions: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (mut builder, mut by_rank, mut order) = (Builder::default(), Vec::new(), Vec::new());
        let mut first = 0;
        for next in 1..=positions.len() {
            if next < positions.len() && !options.ends(next - first, positions[next - 1], positions[next]) {
                continue;
            }
            let cut = &positions[first..next];
            builder.add(solve(options, cut, &mut order).expect("few equal ones"));
            by_rank.extend(order.iter().map(|&i| cut[i as usize]));
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(i, &o)| i as u32 == o), "the order leaves one out");
            first = next;
        }
        (builder.finish(), by_rank)
    }

    fn every_position_is_found(options: MphfOptions, positions: &[u64]) -> Mphf {
        let (words, by_rank) = built(options, positions);
        let index = Mphf::open(&words).expect("just built");
        assert_eq!(index.records(), positions.len() as u64);
        let mut many = Vec::new();
        index.locate_many(&words, positions, &mut many);
        for (i, same) in positions.chunk_by(|a, b| a == b).enumerate() {
            let found = index.locate(&words, same[0]);
            let stored = &by_rank[found.start as usize..found.end as usize];
            assert_eq!(stored, same, "position {i}, {:#x} of {}", same[0], positions.len());
        }
        for (&position, found) in positions.iter().zip(many) {
            assert_eq!(found, index.locate(&words, position));
        }
        let mut ranks = 0;
        for partition in 0..index.partitions() {
            assert_eq!(index.ranks(partition).start, ranks);
            ranks = index.ranks(partition).end;
        }
        assert_eq!(ranks, index.records());
        let mut random = Random::new(7);
        for _ in 0..100 {
            let found = index.locate(&words, random.next());
            assert!(found.start <= found.end && found.end <= index.records());
        }
        index
    }

    fn even(count: usize, seed: u64) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut positions: Vec<u64> = (0..count).map(|_| random.next()).collect();
        positions.sort_unstable();
        positions
    }

    #[test]
    fn every_key_has_a_place_of_its_own() {
        const P: usize = 256;
        let options = MphfOptions { partition_keys: P as u32 };
        for count in (0..=70).chain([P - 1, P, P + 1, 2 * P, 1000, 10_007]) {
            let index = every_position_is_found(options, &even(count, count as u64));
            assert_eq!(index.partitions(), count.div_ceil(P));
        }
        every_position_is_found(MphfOptions { partition_keys: 1 << 20 }, &even(300_000, 1));
        every_position_is_found(MphfOptions { partition_keys: 1 }, &even(300, 1));
    }

    #[test]
    fn uneven_positions_have_places_of_their_own() {
        let options = MphfOptions { partition_keys: 3000 };
        every_position_is_found(options, &(0..20_000).collect::<Vec<u64>>());
        every_position_is_found(options, &(0..20_000).map(|i| u64::MAX - 20_000 + i).collect::<Vec<u64>>());
        every_position_is_found(options, &(0..20_000).map(|i| i << 49).collect::<Vec<u64>>());
        let ends = (0..8000).map(|i| if i < 4000 { i } else { u64::MAX - 8000 + i });
        every_position_is_found(options, &ends.collect::<Vec<u64>>());
    }

    #[test]
    fn equal_positions_stand_together_at_the_end() {
        let options = MphfOptions { partition_keys: 100 };
        for (heaps, seed) in [(500, 1), (50, 2), (900, 3)] {
            let mut random = Random::new(seed);
            let mut positions: Vec<u64> = (0..1000).map(|_| mix(random.up_to(heaps), 0)).collect();
            positions.extend(even(1000, seed));
            positions.sort_unstable();
            every_position_is_found(options, &positions);
        }
        // All: one partition of extras, as long as it is no more than twice what a partition has.
        let index = every_position_is_found(options, &[77; 200]);
        assert_eq!((index.partitions(), index.records()), (1, 200));
        assert!(solve(options, &[77; 201], &mut Vec::new()).is_err());
        assert!(solve(options, &[], &mut Vec::new()).is_err());
        assert!(solve(options, &[2, 1], &mut Vec::new()).is_err());
    }

    #[test]
    fn a_partition_does_not_end_between_equal_positions() {
        let options = MphfOptions { partition_keys: 2 };
        assert!(!options.ends(1, 5, 6));
        assert!(options.ends(2, 5, 6));
        assert!(!options.ends(2, 5, 5));
        let index = every_position_is_found(options, &[1, 5, 5, 5, 6, 7]);
        assert_eq!((0..index.partitions()).map(|p| index.ranks(p)).collect::<Vec<_>>(), [0..4, 4..6]);
    }

    #[test]
    fn any_words_are_refused_or_answered_within_the_records() {
        let mut random = Random::new(9);
        let options = MphfOptions { partition_keys: 700 };
        let mut positions = even(2000, 5);
        positions.extend_from_within(..20);
        positions.sort_unstable();
        let (words, _) = built(options, &positions);
        let mut opened = 0;
        for round in 0..20_000 {
            let mut words = words.clone();
            // Headers are few among the seeds: half of the changes go to the first words, and to those of a function.
            let start = words[HEADER_WORDS + 2 * words[1] as usize + random.up_to(words[1] - 1) as usize];
            let (from, count) = [(0, words.len()), (0, 20), (start as usize, 2), (start as usize + 21, 10)][round % 4];
            for _ in 0..=random.up_to(2) {
                let at = from + random.up_to(count as u64 - 1) as usize;
                words[at] = match random.up_to(3) {
                    0 => random.next(),
                    1 => random.up_to(3000),
                    _ => words[at] ^ 1 << random.up_to(63),
                };
            }
            let Ok(index) = Mphf::open(&words) else { continue };
            opened += 1;
            let asked: Vec<u64> = (0..48).map(|i| if i % 3 == 0 { random.next() } else { positions[i * 40] }).collect();
            let mut found = Vec::new();
            index.locate_many(&words, &asked, &mut found);
            found.extend(asked.iter().map(|&position| index.locate(&words, position)));
            for ranks in found {
                assert!(ranks.start <= ranks.end && ranks.end <= index.records(), "{ranks:?} of {}", index.records());
            }
        }
        assert!((2000..18_000).contains(&opened), "{opened} opened");
    }

    #[test]
    fn short_words_are_refused() {
        let (words, _) = built(MphfOptions { partition_keys: 500 }, &even(1000, 6));
        for len in 0..words.len() {
            assert!(Mphf::open(&words[..len]).is_err(), "{len} of {} words", words.len());
        }
    }

    #[test]
    #[ignore = "slow: 10^8 keys, measured"]
    fn measure() {
        for bits in [16, 18, 20, 22] {
            measure_one(1 << 24, 1 << bits);
        }
        measure_one(100_000_000, 1 << 22);
    }

    fn measure_one(count: usize, partition_keys: u32) {
        let options = MphfOptions { partition_keys };
        let positions = even(count, 8);
        let (mut builder, mut order, mut time) = (Builder::default(), Vec::new(), Duration::ZERO);
        // Nothing is equal here: each cut is exact.
        for cut in positions.chunks(partition_keys as usize) {
            let start = Instant::now();
            let solved = solve(options, cut, &mut order).expect("a function");
            time += start.elapsed();
            builder.add(solved);
        }
        let words = builder.finish();
        let start = Instant::now();
        let index = Mphf::open(&words).expect("just built");
        let open = start.elapsed();
        let mut random = Random::new(10);
        let asked: Vec<u64> = (0..1_000_000).map(|_| positions[random.up_to(count as u64 - 1) as usize]).collect();
        let one_by_one = ns_each(asked.len(), || {
            asked.iter().fold(0, |sum: u64, &p| sum.wrapping_add(index.locate(&words, p).start))
        });
        let one_after_another =
            ns_each(asked.len(), || asked.iter().fold(0, |after, &p| index.locate(&words, p ^ (after >> 63)).start));
        let mut found = Vec::with_capacity(asked.len());
        let batched = ns_each(asked.len(), || {
            found.clear();
            index.locate_many(&words, &asked, &mut found);
        });
        let bumped = index.partitions.iter().filter_map(|p| p.function.levels[0].bumped()).sum::<u64>();
        println!(
            "{count} keys, {partition_keys} a partition: {:.4} bits/key, {:.2} % bumped, {:.2} M keys/s built, \
             opened in {open:?}; {one_by_one} ns a lookup, \
             {one_after_another} if each awaits the last, {batched} batched",
            words.len() as f64 * 64.0 / count as f64,
            bumped as f64 * 100.0 / count as f64,
            count as f64 / time.as_secs_f64() / 1e6,
        );
    }
}
