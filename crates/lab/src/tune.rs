//! Measures which page size, fill factor, cache and hash function suit given pairs.
//!
//! ```text
//! Sample      reads all pairs, keeps a sample that fits in memory
//! sweep       page size x fill factor: load, get, bytes, overflow        several rounds, to measure noise
//! functions   time of a hash, evenness of buckets, and a table with each function
//! caches      lookups in a file, with caches of several sizes
//! advise      the defaults, unless a setting is better by more than the noise
//! ```
//!
//! Each round measures every setting once, and compares it with the default in the same round, so other load on the
//! machine slows both. The median of the rounds counts. The noise is the spread of the rounds.
//!
//! The sweep uses tables in memory, which have the same pages and code as files. Syncing a file would dominate the
//! time; it varies from minute to minute, and depends on the bytes, which are counted.
//!
//! Source: Seltzer & Yigit 1991, equation (1), Figures 5 to 7. Differs: today's table sizes, the user's pairs, and a
//! fill factor in bytes as well as in pairs.
//! Not here: the report (`splitpoint lab tune`).

use splitpoint::{Durability, HashKind, Result, Table, TableOptions, TableSurvey};
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the smallest fill factor for pages of `page_bytes`, in pairs, by the paper's equation (1):
/// `(average pair + 4) * fill_factor >= page_bytes`.
pub fn equation_one(average_pair_bytes: f64, page_bytes: u32) -> u32 {
    const SLOT_BYTES: f64 = 4.0;
    (f64::from(page_bytes) / (average_pair_bytes + SLOT_BYTES)).ceil().max(1.0) as u32 // at most page_bytes / 4
}

/// A random sample of the pairs, and the number of pairs it was taken from.
#[derive(Debug, Default)]
pub struct Sample {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The number of pairs read.
    pub seen: u64,
    /// The bytes of their keys and values.
    pub seen_bytes: u64,
    bytes: usize,
    bytes_max: usize,
    /// A pair is kept if the hash of its key is at most `u64::MAX >> halved`.
    halved: u32,
}

/// Memory for each pair in addition to its bytes.
const PAIR_OVERHEAD_BYTES: usize = 80;

impl Sample {
    /// Creates an empty sample that keeps up to `bytes_max` bytes of pairs.
    pub fn new(bytes_max: usize) -> Sample {
        Sample { bytes_max, ..Sample::default() }
    }

    /// Adds a pair. Above the limit, drops half of the sample, chosen by a hash of the keys.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.seen += 1;
        self.seen_bytes += (key.len() + value.len()) as u64;
        if !is_kept(key, self.halved) {
            return;
        }
        self.bytes += key.len() + value.len() + PAIR_OVERHEAD_BYTES;
        self.pairs.push((key.to_vec(), value.to_vec()));
        while self.bytes > self.bytes_max && self.pairs.len() > 1 {
            self.halved += 1;
            let halved = self.halved;
            self.pairs.retain(|(key, _)| is_kept(key, halved));
            self.bytes = self.pairs.iter().map(|(key, value)| key.len() + value.len() + PAIR_OVERHEAD_BYTES).sum();
        }
    }

    /// Returns the mean bytes of a key and its value, over all pairs read.
    pub fn average_pair_bytes(&self) -> f64 {
        self.seen_bytes as f64 / self.seen.max(1) as f64
    }

    /// Returns the number of pairs kept.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether no pairs were kept.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Returns whether `key` is kept. No table uses this function with this seed, so the choice favours no table.
fn is_kept(key: &[u8], halved: u32) -> bool {
    const SEED: u64 = 0x7A3D_11C5;
    halved < 64 && HashKind::Sip13.hash(key, SEED) <= u64::MAX >> halved
}

/// The settings of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The fill factor in pairs; `None` for a limit in bytes.
    pub fill_factor: Option<u32>,
    /// The hash function.
    pub hash: HashKind,
    /// Whether the table is presized with `expected_len`.
    pub presized: bool,
}

impl Settings {
    /// The defaults of a table.
    pub const DEFAULT: Settings =
        Settings { page_bytes: 1024, fill_factor: None, hash: HashKind::DEFAULT, presized: false };

    /// Returns the options of a table of `pairs` pairs.
    pub fn options(&self, pairs: u64) -> TableOptions {
        let mut options = TableOptions::new().page_bytes(self.page_bytes).hash(self.hash);
        if let Some(pairs) = self.fill_factor {
            options = options.fill_factor(pairs);
        }
        if self.presized { options.expected_len(pairs) } else { options }
    }
}

/// The figures of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Nanoseconds for storing a pair.
    pub load_ns: f64,
    /// Nanoseconds for a lookup.
    pub get_ns: f64,
    /// Bytes of the file for each pair.
    pub file_bytes: f64,
    /// The share of pairs in overflow pages, 0 to 1.
    pub overflow_share: f64,
}

impl Measured {
    /// Returns the weighted ratio to `base`: below 1 is better. Lookups count twice, load and size once each.
    pub fn score(&self, base: &Measured) -> f64 {
        let (get, load) = (self.get_ns / base.get_ns, self.load_ns / base.load_ns);
        let bytes = self.file_bytes / base.file_bytes;
        get.powf(0.5) * load.powf(0.25) * bytes.powf(0.25)
    }
}

/// Settings, and their figures in each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The settings.
    pub settings: Settings,
    /// One entry for each round; empty if the table would be far too large or its buckets far too uneven.
    pub rounds: Vec<Measured>,
    /// [`Measured::score`] against the default in the same round.
    pub scores: Vec<f64>,
}

impl Tried {
    /// Returns the median of one figure.
    pub fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// Returns the median of the scores.
    pub fn score(&self) -> f64 {
        median(self.scores.clone())
    }
}

/// Returns the median; NaN for no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A hash function on the keys of the sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// The function.
    pub kind: HashKind,
    /// Nanoseconds for a hash, the median of the rounds.
    pub hash_ns: f64,
    /// Variance of the bucket sizes divided by their mean: about 1 if random, larger if uneven.
    pub dispersion: f64,
    /// Whether the dispersion is more than chance explains.
    pub uneven: bool,
    /// Keys in the largest bucket.
    pub largest_bucket: u32,
    /// Tables with this function.
    pub table: Tried,
}

/// Lookups with a cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cached {
    /// The cache as a share of the file.
    pub share: f64,
    /// The cache in bytes.
    pub cache_bytes: u64,
    /// Nanoseconds for a lookup, the median of the rounds.
    pub get_ns: f64,
    /// Frames read for each lookup.
    pub reads_per_get: f64,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Pairs in each table.
    pub pairs: usize,
    /// The number of rounds.
    pub rounds: usize,
    /// Page size x fill factor, ordered by page size.
    pub sweep: Vec<Tried>,
    /// The default with `expected_len`.
    pub presized: Tried,
    /// Every hash function.
    pub functions: Vec<Function>,
    /// Ascending by share.
    pub caches: Vec<Cached>,
    /// Scores within this distance of 1 do not differ from the default.
    pub noise: f64,
    /// The settings to use.
    pub advice: Settings,
}

/// Page sizes tried.
pub const PAGE_BYTES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16384];
/// Fill factors tried; `None` is the limit in bytes.
pub const FILL_FACTORS: [Option<u32>; 9] =
    [None, Some(1), Some(2), Some(4), Some(8), Some(16), Some(32), Some(64), Some(128)];
/// Caches tried, as shares of the file.
const CACHE_SHARES: [f64; 6] = [0.0625, 0.125, 0.25, 0.5, 1.0, 2.0];
/// The smallest cache that a table uses.
const CACHE_BYTES_MIN: f64 = 256.0 * 1024.0;
/// The number of rounds, if time permits.
const ROUNDS: usize = 3;
/// Less even functions get no table measured: their buckets have thousands of pairs, which are searched one by one.
const DISPERSION_MAX: f64 = 20.0;
/// Trial tables of a size, before the first round.
const TRIALS: usize = 3;
/// Pairs of the first trial table.
const PAIRS_FIRST: usize = 32;
/// The smallest table measured, in pairs, if a round of such tables fits in the time or in a second.
const PAIRS_MIN: usize = 500;
/// The smallest table measured if pairs are very long.
const PAIRS_LEAST: usize = 16;

/// Measures for about `time`. Writes one file in `directory`, for the caches.
///
/// Before each table, passes its description to `proceed`; returns `None` once that returns false.
///
/// # Errors
/// Returns the errors of [`Table::put`] and [`Table::get`], such as a full disk.
pub fn tune(
    sample: &Sample,
    time: Duration,
    directory: &Path,
    proceed: &mut dyn FnMut(&str) -> bool,
) -> Result<Option<Report>> {
    let start = Instant::now();
    let mut bench = Bench {
        sample,
        pairs: sample.len().min(PAIRS_FIRST),
        directory,
        order: Vec::new(),
        too_uneven: Vec::new(),
        proceed,
    };
    bench.shuffle();
    let Some(pairs) = bench.pairs_for(time)? else { return Ok(None) };
    bench.take(pairs);
    let (mut tried, mut round) = (Vec::new(), Duration::ZERO);
    // The first round always runs. If it shows that many more pairs fit, it is repeated with them.
    let mut more = Some(bench.pairs);
    while let Some(pairs) = more {
        bench.take(pairs);
        tried = bench.all_settings();
        let began = Instant::now();
        if !bench.round(&mut tried)? {
            return Ok(None);
        }
        round = began.elapsed();
        more = more_pairs(bench.pairs, sample.len(), round, time.saturating_sub(start.elapsed()));
    }
    let mut rounds = 1;
    while rounds < ROUNDS && start.elapsed() + round < time {
        if !bench.round(&mut tried)? {
            return Ok(None);
        }
        rounds += 1;
    }
    let noise = noise(&tried);
    let rest = tried.split_off(PAGE_BYTES.len() * FILL_FACTORS.len());
    let sweep = tried;
    let (presized, tables) = rest.split_first().expect("all_settings makes them");
    let functions: Vec<Function> = tables.iter().map(|table| bench.function(table, rounds)).collect();
    let advice = advise(&sweep, presized, &functions, noise);
    let Some(caches) = bench.caches(advice, rounds)? else { return Ok(None) };
    Ok(Some(Report { pairs, rounds, sweep, presized: presized.clone(), functions, caches, noise, advice }))
}

/// Returns the number of pairs to measure with instead of `pairs` of `all`, after a round took `round` and `left`
/// remains; `None` unless it is twice as many, or all. On a busy machine, the time of a trial table is a poor guess;
/// that of a round is not.
fn more_pairs(pairs: usize, all: usize, round: Duration, left: Duration) -> Option<usize> {
    // Larger tables are slower for each pair, so grow in steps and leave a reserve.
    const STEP_MAX: f64 = 8.0;
    const RESERVE: f64 = 0.7;
    // All rounds, and the caches.
    let share = left.as_secs_f64() / (ROUNDS + 1) as f64;
    let factor = (RESERVE * share / round.as_secs_f64().max(1e-6)).min(STEP_MAX);
    let more = ((pairs as f64 * factor) as usize).min(all);
    (more >= 2 * pairs || (more == all && factor >= 1.0 && all > pairs)).then_some(more)
}

/// Returns half of the range of a setting's scores, for the median setting.
fn noise(tried: &[Tried]) -> f64 {
    let spread = |scores: &[f64]| {
        let (low, high) = scores.iter().fold((f64::MAX, f64::MIN), |(low, high), &s| (low.min(s), high.max(s)));
        (high - low) / 2.0
    };
    let spreads = tried.iter().filter(|t| t.scores.len() > 1 && t.settings != Settings::DEFAULT);
    let noise = median(spreads.map(|t| spread(&t.scores)).collect());
    // One round does not show noise.
    const UNKNOWN: f64 = 0.2;
    const LEAST: f64 = 0.03;
    if noise.is_nan() { UNKNOWN } else { noise.max(LEAST) }
}

/// Returns whether it is better than the default in every round, and by more than the noise in the median.
fn is_better(tried: &Tried, noise: f64) -> bool {
    !tried.scores.is_empty() && tried.score() < 1.0 - noise && tried.scores.iter().all(|&score| score < 1.0)
}

fn advise(sweep: &[Tried], presized: &Tried, functions: &[Function], noise: f64) -> Settings {
    let mut advice = Settings::DEFAULT;
    let best = |a: &&Tried, b: &&Tried| a.score().total_cmp(&b.score());
    if let Some(best) = sweep.iter().filter(|tried| is_better(tried, noise)).min_by(best) {
        (advice.page_bytes, advice.fill_factor) = (best.settings.page_bytes, best.settings.fill_factor);
    }
    let even = functions.iter().filter(|f| !f.uneven).map(|f| &f.table);
    if let Some(best) = even.filter(|tried| is_better(tried, noise)).min_by(best) {
        advice.hash = best.settings.hash;
    }
    advice.presized = is_better(presized, noise);
    advice
}

struct Bench<'b> {
    sample: &'b Sample,
    /// The number of pairs used, from the start of the sample.
    pairs: usize,
    directory: &'b Path,
    /// The order of lookups.
    order: Vec<usize>,
    /// Functions that are too uneven to measure tables with.
    too_uneven: Vec<HashKind>,
    proceed: &'b mut dyn FnMut(&str) -> bool,
}

impl Bench<'_> {
    /// Makes later measurements use the first `pairs` pairs.
    fn take(&mut self, pairs: usize) {
        self.pairs = pairs;
        self.shuffle();
        let kinds = HashKind::ALL.iter().copied();
        self.too_uneven = kinds.filter(|&kind| self.spread(kind).0 > DISPERSION_MAX).collect();
    }

    fn shuffle(&mut self) {
        self.order = (0..self.pairs).collect();
        let mut state = 1u64;
        for i in (1..self.pairs).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.order.swap(i, (state >> 33) as usize % (i + 1));
        }
    }

    /// Returns the number of pairs with which all tables are expected to take `time`; `None` if cancelled.
    fn pairs_for(&mut self, time: Duration) -> Result<Option<usize>> {
        if !(self.proceed)("a trial table") {
            return Ok(None);
        }
        self.measure(Settings::DEFAULT)?;
        // Grow the table until its time can be measured: the median of several, because other load disturbs some.
        const ENOUGH: Duration = Duration::from_millis(20);
        let took = loop {
            let mut trials = [Duration::ZERO; TRIALS];
            for trial in &mut trials {
                let start = Instant::now();
                self.measure(Settings::DEFAULT)?;
                *trial = start.elapsed();
            }
            trials.sort_unstable();
            let took = trials[TRIALS / 2];
            if took > ENOUGH || self.pairs == self.sample.len() {
                break took;
            }
            self.pairs = (self.pairs * 4).min(self.sample.len());
            self.shuffle();
        };
        // Tables with few pairs per page are slower than the default.
        const TIMES_SLOWER: usize = 3;
        let tables =
            TIMES_SLOWER * ROUNDS * (PAGE_BYTES.len() * FILL_FACTORS.len() + HashKind::ALL.len() + CACHE_SHARES.len());
        let pairs_in = |time: Duration| {
            let per_table = time.as_secs_f64() / tables as f64;
            (self.pairs as f64 * per_table / took.as_secs_f64().max(1e-6)) as usize
        };
        let in_one_round = ROUNDS * pairs_in(time.max(Duration::from_secs(1)));
        let least = PAIRS_MIN.min(in_one_round).max(PAIRS_LEAST);
        Ok(Some(pairs_in(time).max(least).min(self.sample.len())))
    }

    fn all_settings(&self) -> Vec<Tried> {
        let sweep = PAGE_BYTES.into_iter().flat_map(|page_bytes| {
            FILL_FACTORS.map(|fill_factor| Settings { page_bytes, fill_factor, ..Settings::DEFAULT })
        });
        let presized = Settings { presized: true, ..Settings::DEFAULT };
        let functions = HashKind::ALL.iter().map(|&hash| Settings { hash, ..Settings::DEFAULT });
        let all = sweep.chain([presized]).chain(functions);
        all.map(|settings| Tried { settings, rounds: Vec::new(), scores: Vec::new() }).collect()
    }

    /// Measures all settings once; `false` if cancelled.
    fn round(&mut self, all: &mut [Tried]) -> Result<bool> {
        let base = self.measure(Settings::DEFAULT)?;
        for tried in all {
            let Settings { page_bytes, fill_factor, hash, .. } = tried.settings;
            if self.is_too_large(tried.settings) || self.too_uneven.contains(&hash) {
                continue;
            }
            let fill = fill_factor.map_or("bytes".to_owned(), |pairs| pairs.to_string());
            if !(self.proceed)(&format!("pages of {page_bytes}, filled by {fill}, {}", hash.name())) {
                return Ok(false);
            }
            let measured = self.measure(tried.settings)?;
            tried.rounds.push(measured);
            tried.scores.push(measured.score(&base));
        }
        Ok(true)
    }

    /// Returns whether the file of all pairs would be many times larger than the pairs, and too large to try. More time
    /// for measuring does not change what is tried.
    fn is_too_large(&self, settings: Settings) -> bool {
        const BYTES_MAX: u64 = 32 << 20;
        const TIMES_MAX: f64 = 8.0;
        let Some(fill_factor) = settings.fill_factor else { return false };
        let bytes = self.sample.seen / u64::from(fill_factor) * u64::from(settings.page_bytes);
        bytes > BYTES_MAX && bytes as f64 > TIMES_MAX * self.sample.seen_bytes as f64
    }

    fn measure(&self, settings: Settings) -> Result<Measured> {
        let pairs = &self.sample.pairs[..self.pairs];
        let options = settings.options(pairs.len() as u64).seed(1);
        let start = Instant::now();
        let table = options.in_memory()?;
        for (key, value) in pairs {
            table.put(key, value)?;
        }
        let per_pair = |time: Duration| time.as_secs_f64() * 1e9 / pairs.len() as f64;
        let load_ns = per_pair(start.elapsed());
        let get_ns = per_pair(self.time_gets(&table)?);
        let TableSurvey { pairs: stored, file_bytes, overflow_pairs, .. } = table.survey()?;
        let share = |part: u64| part as f64 / stored as f64;
        Ok(Measured { load_ns, get_ns, file_bytes: share(file_bytes), overflow_share: share(overflow_pairs) })
    }

    fn time_gets(&self, table: &Table) -> Result<Duration> {
        let mut value = Vec::new();
        let start = Instant::now();
        for &index in &self.order {
            let found = table.get_into(&self.sample.pairs[index].0, &mut value)?;
            assert!(found, "a stored key is found");
        }
        Ok(start.elapsed())
    }

    fn function(&self, table: &Tried, rounds: usize) -> Function {
        let kind = table.settings.hash;
        let keys = || self.sample.pairs[..self.pairs].iter().map(|(key, _)| key);
        let time = || {
            let start = Instant::now();
            let sum = keys().fold(0, |sum: u64, key| sum.wrapping_add(kind.hash(key, 1)));
            std::hint::black_box(sum);
            start.elapsed().as_secs_f64() * 1e9 / self.pairs as f64
        };
        let hash_ns = median((0..rounds).map(|_| time()).collect());
        let (dispersion, uneven, largest_bucket) = self.spread(kind);
        Function { kind, hash_ns, dispersion, uneven, largest_bucket, table: table.clone() }
    }

    /// Returns the dispersion of the keys over buckets, whether it is more than chance explains, and the size of the
    /// largest bucket.
    fn spread(&self, kind: HashKind) -> (f64, bool, u32) {
        // A table uses the low bits too. A small page has about this many keys.
        const KEYS_A_BUCKET: usize = 8;
        let buckets = (self.pairs / KEYS_A_BUCKET).max(2).next_power_of_two();
        let mut counts = vec![0u32; buckets];
        for (key, _) in &self.sample.pairs[..self.pairs] {
            counts[kind.hash(key, 1) as usize & (buckets - 1)] += 1;
        }
        let (dispersion, uneven) = dispersion(&counts);
        (dispersion, uneven, counts.iter().copied().max().unwrap_or(0))
    }

    /// Measures lookups in the file of a table with `settings`; returns `None` if cancelled.
    fn caches(&mut self, settings: Settings, rounds: usize) -> Result<Option<Vec<Cached>>> {
        let path = self.directory.join("caches.spt");
        let pairs = &self.sample.pairs[..self.pairs];
        let table = settings.options(pairs.len() as u64).seed(1).durability(Durability::None).open(&path)?;
        for (key, value) in pairs {
            table.put(key, value)?;
        }
        let file_bytes = table.survey()?.file_bytes;
        table.close()?;
        let mut caches = Vec::new();
        // A table uses at least CACHE_BYTES_MIN, so smaller caches would all be the same.
        let is_distinct = |share: f64| share >= 1.0 || file_bytes as f64 * share >= CACHE_BYTES_MIN;
        for share in CACHE_SHARES.into_iter().filter(|&share| is_distinct(share)) {
            if !(self.proceed)(&format!("a cache of {share} of the file")) {
                return Ok(None);
            }
            let cache_bytes = (file_bytes as f64 * share) as u64;
            let table = TableOptions::new().read_only(true).cache_bytes(cache_bytes).open(&path)?;
            self.time_gets(&table)?; // fills the cache
            let before = table.counters();
            let times = (0..rounds).map(|_| self.time_gets(&table)).collect::<Result<Vec<_>>>()?;
            let gets = (rounds * self.pairs) as f64;
            let get_ns = median(times.iter().map(|time| time.as_secs_f64() * 1e9 / self.pairs as f64).collect());
            let reads_per_get = table.counters().since(&before).frames_read as f64 / gets;
            caches.push(Cached { share, cache_bytes, get_ns, reads_per_get });
        }
        Ok(Some(caches))
    }
}

/// Returns variance divided by mean, and whether it exceeds 1 by more than four standard deviations.
fn dispersion(counts: &[u32]) -> (f64, bool) {
    let n = counts.len() as f64;
    let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / n;
    let variance = counts.iter().map(|&c| (f64::from(c) - mean).powi(2)).sum::<f64>() / n;
    let dispersion = if mean == 0.0 { 1.0 } else { variance / mean };
    (dispersion, dispersion > 1.0 + 4.0 * (2.0 / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pairs: u32) -> Sample {
        let mut sample = Sample::new(usize::MAX);
        (0..pairs).for_each(|i| sample.push(format!("key {i}").as_bytes(), b"a value"));
        sample
    }

    #[test]
    fn equation_one_is_the_papers() {
        // By hand: the paper's own choice, pages of 256 bytes with 8 pairs of 28: (28 + 4) * 8 = 256.
        assert_eq!(equation_one(28.0, 256), 8);
        assert_eq!(equation_one(28.1, 256), 8);
        assert_eq!(equation_one(27.0, 256), 9); // 31 * 8 = 248, too few
        assert_eq!(equation_one(12.0, 1024), 64);
        assert_eq!(equation_one(5000.0, 1024), 1);
        assert_eq!(equation_one(0.0, 512), 128);
    }

    #[test]
    fn a_sample_keeps_its_limit_and_counts_all_pairs() {
        let mut sample = Sample::new(20_000);
        (0..10_000u32).for_each(|i| sample.push(&i.to_le_bytes(), b"123456"));
        assert_eq!((sample.seen, sample.seen_bytes, sample.average_pair_bytes()), (10_000, 100_000, 10.0));
        assert!((50..=222).contains(&sample.len()), "{}", sample.len());
        // A single pair is kept even if it exceeds the limit.
        let mut large = Sample::new(10);
        large.push(&[1; 100], b"");
        assert_eq!(large.len(), 1);
    }

    #[test]
    fn tuning_measures_every_setting_and_its_advice_opens() {
        let directory = tempfile::tempdir().unwrap();
        let sample = sample(2000);
        let mut calls = 0;
        let mut proceed = |_: &str| {
            calls += 1;
            true
        };
        let report = tune(&sample, Duration::from_millis(500), directory.path(), &mut proceed).unwrap().unwrap();
        assert_eq!(report.sweep.len(), PAGE_BYTES.len() * FILL_FACTORS.len());
        assert!(report.sweep.iter().all(|tried| tried.rounds.len() == report.rounds), "{report:?}");
        assert_eq!((report.functions.len(), report.caches.len()), (HashKind::ALL.len(), 2));
        assert!(calls > report.sweep.len(), "{calls}");
        let overflow = |page_bytes, fill_factor| {
            let wanted = Settings { page_bytes, fill_factor, ..Settings::DEFAULT };
            report.sweep.iter().find(|tried| tried.settings == wanted).unwrap().median(|m| m.overflow_share)
        };
        // 128 pairs of about 15 bytes do not fit in a page of 512 bytes; one fits in a page of 4096.
        assert!(overflow(512, Some(128)) > 0.5);
        assert_eq!(overflow(4096, Some(1)), 0.0);
        let table = report.advice.options(2000).in_memory().unwrap();
        table.put(b"key", b"value").unwrap();
        assert!(std::fs::read_dir(directory.path()).unwrap().all(|e| e.unwrap().file_name() == "caches.spt"));
    }

    #[test]
    fn more_time_measures_more_pairs_and_never_fewer() {
        let second = Duration::from_secs(1);
        // 40 s in four parts, less the reserve: 7 s for a round that takes 1 s.
        assert_eq!(more_pairs(1000, 100_000, second, 40 * second), Some(7000));
        assert_eq!(more_pairs(1000, 100_000, second, 4000 * second), Some(8000));
        assert_eq!(more_pairs(1000, 1500, second, 40 * second), Some(1500));
        assert_eq!(more_pairs(1000, 1000, second, 4000 * second), None);
        assert_eq!(more_pairs(1000, 100_000, second, 8 * second), None);
        let pairs = (1..100).map(|left| more_pairs(1000, 100_000, second, left * second).unwrap_or(1000));
        assert!(pairs.is_sorted());
    }

    #[test]
    fn long_pairs_take_fewer_of_them_instead_of_more_time() {
        let mut sample = Sample::new(usize::MAX);
        (0..120u32).for_each(|i| sample.push(&i.to_le_bytes(), &vec![b'v'; 1 << 20]));
        let directory = tempfile::tempdir().unwrap();
        let report = tune(&sample, Duration::ZERO, directory.path(), &mut |_| true).unwrap().unwrap();
        assert!((PAIRS_LEAST..120).contains(&report.pairs), "{}", report.pairs);
        assert_eq!(report.rounds, 1);
    }

    #[test]
    fn tuning_stops_when_cancelled() {
        let directory = tempfile::tempdir().unwrap();
        let mut left = 3;
        let mut proceed = |_: &str| {
            left -= 1;
            left > 0
        };
        assert_eq!(tune(&sample(600), Duration::from_millis(100), directory.path(), &mut proceed).unwrap(), None);
    }

    #[test]
    fn advice_is_the_default_unless_another_is_better_by_more_than_the_noise() {
        let tried = |settings, scores: &[f64]| Tried { settings, rounds: Vec::new(), scores: scores.to_vec() };
        let small = Settings { page_bytes: 512, ..Settings::DEFAULT };
        let sip = Settings { hash: HashKind::Sip13, ..Settings::DEFAULT };
        let function = |uneven, scores: &[f64]| Function {
            kind: HashKind::Sip13,
            hash_ns: 1.0,
            dispersion: 1.0,
            uneven,
            largest_bucket: 1,
            table: tried(sip, scores),
        };
        let presized = tried(Settings { presized: true, ..Settings::DEFAULT }, &[1.0]);
        let advice = |scores: &[f64], function| advise(&[tried(small, scores)], &presized, &[function], 0.1);
        assert_eq!(advice(&[0.95, 0.95, 0.95], function(false, &[0.95])), Settings::DEFAULT);
        assert_eq!(advice(&[0.8, 0.8, 1.1], function(true, &[0.5])), Settings::DEFAULT);
        assert_eq!(advice(&[0.8, 0.85, 0.99], function(false, &[0.5])), Settings { page_bytes: 512, ..sip });
    }

    #[test]
    fn random_buckets_are_even_and_one_bucket_for_all_is_not() {
        let mut counts = vec![0; 1024];
        (0..8192u64).for_each(|i| counts[HashKind::Xxh3.hash(&i.to_le_bytes(), 1) as usize % 1024] += 1);
        let (chance, uneven) = dispersion(&counts);
        assert!((0.8..1.2).contains(&chance) && !uneven, "{chance}");
        let mut one = vec![0; 1024];
        one[5] = 8192;
        assert!(dispersion(&one).1);
    }
}
