//! Timed replays: lookups per second in each kernel's tables, and the sizes of their buckets.
//!
//! A run replays all operations of a kernel's caches, including insertions and removals, and divides the lookups by the
//! processor time of the thread, so other load matters little. Runs of all kernels are interleaved, so what other load
//! does to the processor's caches slows all of them. The fastest and the slowest run do not count, as in the paper.
//! Tables are created before the clock starts. Every lookup is checked.
//!
//! Cost: runs x kernels x operations. All figures except times are reproducible.
//! Source: Lever 2000, section 2.

use super::caches::{Pruning, Streams};
use super::functions::{
    BufferFunction, BufferKey, DentryFunction, DentryKey, Function, IdFunction, InodeFunction, InodeKey, PageFunction,
    PageKey,
};
use super::lists::Lists;
use super::table::{Action, Chains, Counts, Op, Stream, Table, replay};
use super::trees::Trees;
use super::{Proceed, Stopped};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

/// A run repeats its replay until it takes this long: shorter runs measure the clock and the scheduler.
const RUN_MIN: Duration = Duration::from_millis(20);
/// The most replays of a run, for caches with few operations.
const REPLAYS_MAX: u32 = 2000;
/// A kernel gets no more runs after this time: a slow one would take most of the study's time.
const KERNEL_MAX: Duration = Duration::from_millis(600);
/// With fewer runs, all count: of three, only one would remain, without a deviation.
const TRIMMED_MIN: usize = 5;
/// Operations between two calls of `proceed`.
const PROCEED_OPS: usize = 1 << 15;
/// Keys and rounds of a measurement of a hash function, and the least time of a round.
const HASH_KEYS: usize = 4096;
const HASH_ROUNDS: usize = 5;
const HASH_ROUND_MIN: Duration = Duration::from_micros(500);

/// How a kernel finds the memory areas of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Areas {
    /// An ordered list.
    List,
    /// An ordered list that first compares the area found last. 2.2.5's, up to 32 areas.
    CachedList,
    /// A red-black tree, as in 2.4. 2.2.5 has AVL trees above 32 areas, which compare about as many.
    Trees,
}

/// A table of one cache: its hash function and the bits of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The page cache.
    Page(PageFunction, u32),
    /// The page cache with one tree for each inode.
    PageTrees,
    /// The buffer cache.
    Buffer(BufferFunction, u32),
    /// The dentry cache.
    Dentry(DentryFunction, u32),
    /// The inode cache.
    Inode(InodeFunction, u32),
    /// The page cache as the swap cache.
    Swap(PageFunction, u32),
    /// Processes by number.
    Process(IdFunction, u32),
    /// Users by number.
    User(IdFunction, u32),
    /// Memory areas.
    Area(Areas),
}

impl Variant {
    /// Returns the number of buckets; `None` for trees and lists.
    pub fn buckets(self) -> Option<u64> {
        match self {
            Self::PageTrees | Self::Area(_) => None,
            Self::Process(IdFunction::Stock(mask), _) | Self::User(IdFunction::Stock(mask), _) => {
                Some(u64::from(mask) + 1)
            }
            Self::Page(_, bits)
            | Self::Buffer(_, bits)
            | Self::Dentry(_, bits)
            | Self::Inode(_, bits)
            | Self::Swap(_, bits)
            | Self::Process(_, bits)
            | Self::User(_, bits) => Some(1 << bits),
        }
    }

    /// Returns the name of the cache.
    pub fn cache(self) -> &'static str {
        match self {
            Self::Page(..) | Self::PageTrees => "page",
            Self::Buffer(..) => "buffer",
            Self::Dentry(..) => "dentry",
            Self::Inode(..) => "inode",
            Self::Swap(..) => "swap",
            Self::Process(..) => "process",
            Self::User(..) => "user",
            Self::Area(_) => "area",
        }
    }

    /// Passes the operations of the cache and an empty table to `visitor`.
    fn visit<V: Visitor>(self, streams: &Streams, visitor: V) -> V::Output {
        let no_page = PageKey { inode: 0, offset: 0, owner: 0 };
        let Streams { pages, buffers, dentries, inodes, others } = streams;
        match self {
            Self::Page(function, bits) => chains(pages, function, bits, no_page, visitor),
            Self::PageTrees => visitor.visit(pages, Trees::new(pages)),
            Self::Buffer(function, bits) => chains(buffers, function, bits, BufferKey { device: 0, block: 0 }, visitor),
            Self::Dentry(function, bits) => {
                chains(dentries, function, bits, DentryKey { parent: 0, name: 0, hash: 0, salted: 0 }, visitor)
            }
            Self::Inode(function, bits) => {
                chains(inodes, function, bits, InodeKey { superblock: 0, inode: 0 }, visitor)
            }
            Self::Swap(function, bits) => chains(&others.swap, function, bits, no_page, visitor),
            Self::Process(function, bits) => chains(&others.processes, function, bits, 0, visitor),
            Self::User(function, bits) => chains(&others.users, function, bits, 0, visitor),
            Self::Area(Areas::Trees) => visitor.visit(&others.areas, Trees::new(&others.areas)),
            Self::Area(list) => visitor.visit(&others.areas, Lists::new(&others.areas, list == Areas::CachedList)),
        }
    }
}

/// A computation on a cache's operations and an empty table for them.
trait Visitor {
    type Output;
    /// For tables without a hash function.
    fn visit<K: Copy + Eq, T: Table<K>>(self, stream: &Stream<K>, table: T) -> Self::Output;
    /// For hash tables.
    fn visit_chains<K: Copy + Eq, F: Function<K>>(self, stream: &Stream<K>, table: Chains<K, F>) -> Self::Output;
}

fn chains<K: Copy + Eq, F: Function<K>, V: Visitor>(
    stream: &Stream<K>,
    function: F,
    bits: u32,
    blank: K,
    visitor: V,
) -> V::Output {
    visitor.visit_chains(stream, Chains::new(function, bits, stream.slots, blank))
}

/// A kernel: the tables measured for it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name in the paper.
    pub name: String,
    /// The tables.
    pub variants: Vec<Variant>,
    /// The pruning of the dentry cache.
    pub pruning: Pruning,
    /// Tables of other caches, whose additional lookups are charged to the kernel if its pruning is not 2.2.5's.
    pub charged: Vec<Variant>,
    /// The paper's scripts per hour and their deviation, for each number of scripts; empty for kernels that are not in
    /// the paper.
    pub paper: &'static [(f64, f64)],
    /// The paper's other columns.
    pub paper_more: PaperMore,
}

/// Columns that only some of the paper's tables have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaperMore {
    /// Scripts per hour without the first run, and their deviation.
    pub without_first: Option<(f64, f64)>,
    /// The fastest run's scripts per hour.
    pub maximum: Option<f64>,
    /// The time of all runs.
    pub elapsed_seconds: Option<u32>,
}

/// The counts of a table, and the sizes of its buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name of the cache.
    pub cache: &'static str,
    /// The number of buckets; `None` for trees.
    pub buckets: Option<u64>,
    /// Lookups and objects compared.
    pub counts: Counts,
    /// The number of buckets (for trees: inodes) of each size.
    pub sizes: BTreeMap<usize, u64>,
}

impl Shape {
    /// Returns the number of objects in the table.
    pub fn objects(&self) -> u64 {
        self.sizes.iter().map(|(size, buckets)| *size as u64 * buckets).sum()
    }

    /// Returns the number of objects in the largest bucket.
    pub fn largest(&self) -> usize {
        self.sizes.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// Returns the number of objects in buckets larger than `size`.
    pub fn objects_above(&self, size: usize) -> u64 {
        self.sizes.range(size + 1..).map(|(size, buckets)| *size as u64 * buckets).sum()
    }
}

/// The moment of a [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the end of the load.
    Full,
    /// After cleaning up: files of the load are removed, and most buffers are reclaimed.
    After,
}

/// The figures of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Lookups per second: the mean of the runs without the fastest and the slowest.
    pub lookups_per_second: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The number of these runs.
    pub runs_kept: usize,
    /// Mean and standard deviation without the first run, which warms the processor's caches; `None` for one run.
    pub without_first: Option<(f64, f64)>,
    /// The fastest run.
    pub maximum: f64,
    /// The number of runs: fewer than wanted for a very slow kernel.
    pub runs: usize,
    /// The sum of the replay times of all runs, in processor time.
    pub elapsed: Duration,
    /// For each table: nanoseconds per hash, with keys in the processor's cache; `None` without a hash function.
    pub hash_ns: Vec<Option<f64>>,
    /// The costs of its pruning in other caches, which its times include; empty with 2.2.5's pruning.
    pub charges: Vec<Charge>,
    /// The shape of each table at the end of the load.
    pub shapes: Vec<Shape>,
}

/// Additional work of another cache, because of a kernel's pruning.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    /// The name of the cache.
    pub cache: &'static str,
    /// Additional lookups.
    pub lookups: i64,
    /// Additional unsuccessful lookups: each reads a disk, or the memory that caches one. Not part of the time.
    pub unsuccessful: i64,
    /// Nanoseconds for one lookup in that cache.
    pub ns_per_lookup: f64,
}

impl Charge {
    fn seconds(&self) -> f64 {
        self.lookups as f64 * self.ns_per_lookup * 1e-9
    }
}

/// Measures each kernel in `runs` runs; `streams` has the operations for each pruning.
///
/// # Errors
/// [`Stopped`] if `proceed` returned `Break`.
pub fn measure<'s>(
    kernels: &[Kernel],
    streams: &dyn Fn(Pruning) -> &'s Streams,
    runs: usize,
    proceed: Proceed<'_>,
) -> Result<Vec<Measured>, Stopped> {
    let mut times = vec![Vec::with_capacity(runs); kernels.len()];
    let mut shapes = vec![Vec::new(); kernels.len()];
    for index in 0..runs.max(1) {
        for ((kernel, times), shapes) in kernels.iter().zip(&mut times).zip(&mut shapes) {
            if times.iter().sum::<Duration>() > KERNEL_MAX {
                continue;
            }
            let mut time = Duration::ZERO;
            for variant in &kernel.variants {
                // The first run returns the shapes too: another replay would take as long.
                let (took, shape) = run(*variant, streams(kernel.pruning), index == 0, proceed)?;
                time += took;
                shapes.extend(shape);
            }
            times.push(time);
        }
    }
    let measured = kernels.iter().zip(times).zip(shapes).map(|((kernel, times), shapes)| {
        if proceed().is_break() {
            return Err(Stopped);
        }
        let own = streams(kernel.pruning);
        let stock = streams(Pruning::Stock);
        let charges = match kernel.pruning {
            Pruning::Stock => Vec::new(),
            _ => kernel.charged.iter().map(|other| charge(*other, own, stock, proceed)).collect::<Result<_, _>>()?,
        };
        let hash_ns = kernel.variants.iter().map(|variant| variant.visit(own, HashTime)).collect();
        let lookups: u64 = kernel.variants.iter().map(|variant| variant.visit(own, Lookups).0).sum();
        let charged: f64 = charges.iter().map(Charge::seconds).sum();
        Ok(summary(&times, lookups, charged.max(0.0), hash_ns, charges, shapes))
    });
    measured.collect()
}

/// Returns the figures of all runs; `charged` seconds are added to each.
fn summary(
    times: &[Duration],
    lookups: u64,
    charged: f64,
    hash_ns: Vec<Option<f64>>,
    charges: Vec<Charge>,
    shapes: Vec<Shape>,
) -> Measured {
    let rate = |time: &Duration| lookups as f64 / (time.as_secs_f64() + charged).max(1e-9);
    let rates: Vec<f64> = times.iter().map(rate).collect();
    let mut sorted = rates.clone();
    sorted.sort_by(f64::total_cmp);
    let kept = if sorted.len() < TRIMMED_MIN { &sorted[..] } else { &sorted[1..sorted.len() - 1] };
    let (lookups_per_second, deviation) = mean(kept);
    Measured {
        lookups_per_second,
        deviation,
        runs_kept: kept.len(),
        without_first: (rates.len() > 1).then(|| mean(&rates[1..])),
        maximum: sorted.last().copied().unwrap_or(0.0),
        runs: times.len(),
        elapsed: times.iter().sum(),
        hash_ns,
        charges,
        shapes,
    }
}

/// Returns mean and standard deviation.
fn mean(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt())
}

/// Returns how much more work `other` does for the operations `of` than 2.2.5's pruning does for `stock`.
fn charge(other: Variant, of: &Streams, stock: &Streams, proceed: Proceed<'_>) -> Result<Charge, Stopped> {
    let difference = |a: u64, b: u64| a as i64 - b as i64;
    let ((lookups, misses), (stock_lookups, stock_misses)) = (other.visit(of, Lookups), other.visit(stock, Lookups));
    let lookups_added = difference(lookups, stock_lookups);
    let time = if lookups_added == 0 { Duration::ZERO } else { run(other, of, false, proceed)?.0 };
    Ok(Charge {
        cache: other.cache(),
        lookups: lookups_added,
        unsuccessful: difference(misses, stock_misses),
        ns_per_lookup: time.as_secs_f64() * 1e9 / lookups.max(1) as f64,
    })
}

/// Returns the mean time of a replay, and the shape at the end of the load if `shaped`.
fn run(
    variant: Variant,
    streams: &Streams,
    shaped: bool,
    proceed: Proceed<'_>,
) -> Result<(Duration, Option<Shape>), Stopped> {
    let (mut time, mut replays, mut shape) = (Duration::ZERO, 0, None);
    while replays == 0 || (time < RUN_MIN && replays < REPLAYS_MAX) {
        let timed = variant.visit(streams, Timed { shaped: shaped && replays == 0, proceed })?;
        time += timed.time;
        replays += 1;
        shape = shape.or(timed.shape);
    }
    let shape =
        shape.map(|(counts, sizes)| Shape { cache: variant.cache(), buckets: variant.buckets(), counts, sizes });
    Ok((time / replays, shape))
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Counts all lookups, and the unsuccessful ones.
struct Lookups;

impl Visitor for Lookups {
    type Output = (u64, u64);

    fn visit<K: Copy + Eq, T: Table<K>>(self, stream: &Stream<K>, _: T) -> (u64, u64) {
        (stream.lookups(), stream.unsuccessful())
    }

    fn visit_chains<K: Copy + Eq, F: Function<K>>(self, stream: &Stream<K>, table: Chains<K, F>) -> (u64, u64) {
        self.visit(stream, table)
    }
}

/// A replay with its time.
struct Timed<'p> {
    shaped: bool,
    proceed: Proceed<'p>,
}

struct Replayed {
    time: Duration,
    /// At the end of the load.
    shape: Option<(Counts, BTreeMap<usize, u64>)>,
}

impl Visitor for Timed<'_> {
    type Output = Result<Replayed, Stopped>;

    fn visit<K: Copy + Eq, T: Table<K>>(self, stream: &Stream<K>, mut table: T) -> Self::Output {
        let (load, rest) = stream.ops.split_at(stream.mark);
        let (mut time, counts) = timed(load, &mut table, self.proceed)?;
        let shape = self.shaped.then(|| (counts, tally(&table)));
        time += timed(rest, &mut table, self.proceed)?.0;
        Ok(Replayed { time, shape })
    }

    fn visit_chains<K: Copy + Eq, F: Function<K>>(self, stream: &Stream<K>, table: Chains<K, F>) -> Self::Output {
        self.visit(stream, table)
    }
}

fn timed<K: Copy + Eq, T: Table<K>>(
    ops: &[Op<K>],
    table: &mut T,
    proceed: Proceed<'_>,
) -> Result<(Duration, Counts), Stopped> {
    let start = thread_time();
    let mut counts = Counts::default();
    for ops in ops.chunks(PROCEED_OPS) {
        if proceed().is_break() {
            return Err(Stopped);
        }
        counts += replay(ops, table);
    }
    Ok((thread_time() - start, counts))
}

/// Nanoseconds per hash of a table's hash function, for keys that are looked up: the median of several rounds.
struct HashTime;

impl Visitor for HashTime {
    type Output = Option<f64>;

    fn visit<K: Copy + Eq, T: Table<K>>(self, _: &Stream<K>, _: T) -> Self::Output {
        None
    }

    fn visit_chains<K: Copy + Eq, F: Function<K>>(self, stream: &Stream<K>, table: Chains<K, F>) -> Self::Output {
        let finds = stream.ops.iter().filter(|op| op.action == Action::Find);
        let keys: Vec<K> = finds.map(|op| op.key).take(HASH_KEYS).collect();
        let mut rounds: Vec<f64> = (0..HASH_ROUNDS).map(|_| hash_round(&keys, &table)).collect();
        rounds.sort_by(f64::total_cmp);
        (!keys.is_empty()).then_some(rounds[HASH_ROUNDS / 2])
    }
}

fn hash_round<K: Copy + Eq, F: Function<K>>(keys: &[K], table: &Chains<K, F>) -> f64 {
    let start = thread_time();
    let mut hashes = 0;
    loop {
        for key in keys {
            black_box(table.bucket_of(black_box(key)));
        }
        hashes += keys.len();
        let time = thread_time() - start;
        if time >= HASH_ROUND_MIN || keys.is_empty() {
            return time.as_nanos() as f64 / hashes.max(1) as f64;
        }
    }
}

/// Returns the shape of a table at a moment, with its counts until then.
pub fn shape(variant: Variant, streams: &Streams, moment: Moment) -> Shape {
    let (counts, sizes) = variant.visit(streams, Sizes { moment });
    Shape { cache: variant.cache(), buckets: variant.buckets(), counts, sizes }
}

struct Sizes {
    moment: Moment,
}

impl Visitor for Sizes {
    type Output = (Counts, BTreeMap<usize, u64>);

    fn visit<K: Copy + Eq, T: Table<K>>(self, stream: &Stream<K>, mut table: T) -> Self::Output {
        let counts = replay(until(stream, self.moment), &mut table);
        (counts, tally(&table))
    }

    fn visit_chains<K: Copy + Eq, F: Function<K>>(self, stream: &Stream<K>, table: Chains<K, F>) -> Self::Output {
        self.visit(stream, table)
    }
}

fn tally<K, T: Table<K>>(table: &T) -> BTreeMap<usize, u64> {
    let mut tally = BTreeMap::new();
    table.sizes().into_iter().for_each(|size| *tally.entry(size).or_default() += 1);
    tally
}

fn until<K>(stream: &Stream<K>, moment: Moment) -> &[Op<K>] {
    match moment {
        Moment::Full => &stream.ops[..stream.mark],
        Moment::After => &stream.ops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(times: &[u64], lookups: u64, charged: f64) -> Measured {
        let times: Vec<_> = times.iter().map(|seconds| Duration::from_secs(*seconds)).collect();
        summary(&times, lookups, charged, Vec::new(), Vec::new(), Vec::new())
    }

    #[test]
    fn the_fastest_and_the_slowest_run_do_not_count() {
        let measured = summary_of(&[1, 100, 4, 4, 4], 40, 0.0);
        assert_eq!((measured.lookups_per_second, measured.deviation, measured.runs_kept), (10.0, 0.0, 3));
        let two = summary_of(&[4, 5], 20, 0.0);
        assert_eq!((two.lookups_per_second, two.deviation), (4.5, 0.5f64.sqrt()));
        let one = summary_of(&[2], 4, 0.0);
        assert_eq!((one.lookups_per_second, one.deviation, one.without_first), (2.0, 0.0, None));
    }

    #[test]
    fn without_the_first_run_and_maximum_are_of_the_runs_in_order() {
        // Rates of 5, 2 and 4.
        let measured = summary_of(&[4, 10, 5], 20, 0.0);
        assert_eq!((measured.without_first, measured.maximum), (Some((3.0, 2f64.sqrt())), 5.0));
        assert_eq!((measured.runs_kept, measured.lookups_per_second), (3, 11.0 / 3.0));
        assert_eq!((measured.runs, measured.elapsed), (3, Duration::from_secs(19)));
        // Two seconds more in each run.
        assert_eq!(summary_of(&[8, 3], 50, 2.0).maximum, 10.0);
    }
}
