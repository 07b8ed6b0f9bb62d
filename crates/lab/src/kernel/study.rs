//! Timed replays: lookups a second of each kernel's tables, and the sizes of their buckets.
//!
//! A run replays all operations of a kernel's caches, including insertions and removals, and divides the lookups by the
//! time. Runs of all kernels are interleaved, so other load on the machine slows all of them. The fastest and the
//! slowest run do not count, as in the paper. Tables are created before the clock starts. Every lookup is checked.
//!
//! Cost: runs x kernels x operations. All figures except times are reproducible.
//! Source: Lever 2000, section 2.

use super::caches::{Pruning, Streams};
use super::functions::{
    BufferFunction, BufferKey, DentryFunction, DentryKey, Function, InodeFunction, InodeKey, PageFunction, PageKey,
};
use super::table::{Chains, Counts, Op, Stream, Table, replay};
use super::trees::Trees;
use super::{Proceed, Stopped};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A run repeats its replay until it takes this long: shorter runs measure the clock and the scheduler.
const RUN_MIN: Duration = Duration::from_millis(20);
/// The most replays of a run, for caches with few operations.
const REPLAYS_MAX: u32 = 16;
/// Operations between two calls of `proceed`.
const PROCEED_OPS: usize = 1 << 15;

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
}

impl Variant {
    /// The number of buckets; `None` for trees.
    pub fn buckets(self) -> Option<u64> {
        match self {
            Self::PageTrees => None,
            Self::Page(_, bits) | Self::Buffer(_, bits) | Self::Dentry(_, bits) | Self::Inode(_, bits) => {
                Some(1 << bits)
            }
        }
    }

    /// The name of the cache.
    pub fn cache(self) -> &'static str {
        match self {
            Self::Page(..) | Self::PageTrees => "page",
            Self::Buffer(..) => "buffer",
            Self::Dentry(..) => "dentry",
            Self::Inode(..) => "inode",
        }
    }
}

/// A kernel: the tables measured for it.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The name in the paper.
    pub name: &'static str,
    /// The tables.
    pub variants: Vec<Variant>,
    /// The pruning of the dentry cache.
    pub pruning: Pruning,
    /// The paper's scripts an hour and their deviation, for each number of scripts; empty for kernels that are not in
    /// the paper.
    pub paper: &'static [(f64, f64)],
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
    /// Objects in the table.
    pub fn objects(&self) -> u64 {
        self.sizes.iter().map(|(size, buckets)| *size as u64 * buckets).sum()
    }

    /// Objects in the largest bucket.
    pub fn largest(&self) -> usize {
        self.sizes.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// Objects in buckets larger than `size`.
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
    /// The mean of the runs that count.
    pub lookups_per_second: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// The sum of the replay times of all runs.
    pub elapsed: Duration,
    /// The shape of each table at the end of the load.
    pub shapes: Vec<Shape>,
}

/// Measures each kernel in `runs` runs; `streams` gives the operations for each pruning.
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
    for _ in 0..runs.max(1) {
        for (kernel, times) in kernels.iter().zip(&mut times) {
            let mut time = Duration::ZERO;
            for variant in &kernel.variants {
                time += run(*variant, streams(kernel.pruning), proceed)?;
            }
            times.push(time);
        }
    }
    let measured = kernels.iter().zip(times).map(|(kernel, times)| {
        if proceed().is_break() {
            return Err(Stopped);
        }
        let streams = streams(kernel.pruning);
        let shapes: Vec<_> = kernel.variants.iter().map(|variant| shape(*variant, streams, Moment::Full)).collect();
        let lookups: u64 = kernel.variants.iter().map(|variant| lookups(*variant, streams)).sum();
        let elapsed = times.iter().sum();
        let (lookups_per_second, deviation) = trimmed_rate(times, lookups);
        Ok(Measured { lookups_per_second, deviation, elapsed, shapes })
    });
    measured.collect()
}

/// Mean and standard deviation of the rates, without the fastest and the slowest of three or more runs.
fn trimmed_rate(mut times: Vec<Duration>, lookups: u64) -> (f64, f64) {
    times.sort_unstable();
    let kept = if times.len() < 3 { &times[..] } else { &times[1..times.len() - 1] };
    let rates: Vec<f64> = kept.iter().map(|time| lookups as f64 / time.as_secs_f64().max(1e-9)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (mean, (squares / (rates.len() as f64 - 1.0).max(1.0)).sqrt())
}

fn lookups(variant: Variant, streams: &Streams) -> u64 {
    match variant {
        Variant::Page(..) | Variant::PageTrees => streams.pages.lookups(),
        Variant::Buffer(..) => streams.buffers.lookups(),
        Variant::Dentry(..) => streams.dentries.lookups(),
        Variant::Inode(..) => streams.inodes.lookups(),
    }
}

/// The mean time of a replay.
fn run(variant: Variant, streams: &Streams, proceed: Proceed<'_>) -> Result<Duration, Stopped> {
    let (mut time, mut replays) = (Duration::ZERO, 0);
    while replays == 0 || (time < RUN_MIN && replays < REPLAYS_MAX) {
        time += timed(variant, streams, proceed)?;
        replays += 1;
    }
    Ok(time / replays)
}

fn timed(variant: Variant, streams: &Streams, proceed: Proceed<'_>) -> Result<Duration, Stopped> {
    match variant {
        Variant::Page(function, bits) => clock(&streams.pages, pages(function, bits, streams), proceed),
        Variant::PageTrees => clock(&streams.pages, Trees::new(&streams.pages), proceed),
        Variant::Buffer(function, bits) => clock(&streams.buffers, buffers(function, bits, streams), proceed),
        Variant::Dentry(function, bits) => clock(&streams.dentries, dentries(function, bits, streams), proceed),
        Variant::Inode(function, bits) => clock(&streams.inodes, inodes(function, bits, streams), proceed),
    }
}

fn clock<K: Copy + Eq>(
    stream: &Stream<K>,
    mut table: impl Table<K>,
    proceed: Proceed<'_>,
) -> Result<Duration, Stopped> {
    let start = Instant::now();
    for ops in stream.ops.chunks(PROCEED_OPS) {
        if proceed().is_break() {
            return Err(Stopped);
        }
        std::hint::black_box(replay(ops, &mut table));
    }
    Ok(start.elapsed())
}

/// The shape of a table at a moment, with its counts until then.
pub fn shape(variant: Variant, streams: &Streams, moment: Moment) -> Shape {
    let (counts, sizes) = match variant {
        Variant::Page(function, bits) => in_chains(until(&streams.pages, moment), pages(function, bits, streams)),
        Variant::PageTrees => {
            let mut table = Trees::new(&streams.pages);
            let counts = replay(until(&streams.pages, moment), &mut table);
            (counts, tally(table.sizes()))
        }
        Variant::Buffer(function, bits) => in_chains(until(&streams.buffers, moment), buffers(function, bits, streams)),
        Variant::Dentry(function, bits) => {
            in_chains(until(&streams.dentries, moment), dentries(function, bits, streams))
        }
        Variant::Inode(function, bits) => in_chains(until(&streams.inodes, moment), inodes(function, bits, streams)),
    };
    Shape { cache: variant.cache(), buckets: variant.buckets(), counts, sizes }
}

fn until<K>(stream: &Stream<K>, moment: Moment) -> &[Op<K>] {
    match moment {
        Moment::Full => &stream.ops[..stream.mark],
        Moment::After => &stream.ops,
    }
}

fn in_chains<K: Copy + Eq, F: Function<K>>(ops: &[Op<K>], mut table: Chains<K, F>) -> (Counts, BTreeMap<usize, u64>) {
    let counts = replay(ops, &mut table);
    (counts, tally(table.bucket_sizes()))
}

fn tally(sizes: impl Iterator<Item = usize>) -> BTreeMap<usize, u64> {
    let mut tally = BTreeMap::new();
    sizes.for_each(|size| *tally.entry(size).or_default() += 1);
    tally
}

fn pages(function: PageFunction, bits: u32, streams: &Streams) -> Chains<PageKey, PageFunction> {
    Chains::new(function, bits, streams.pages.slots, PageKey { inode: 0, page: 0, owner: 0 })
}

fn buffers(function: BufferFunction, bits: u32, streams: &Streams) -> Chains<BufferKey, BufferFunction> {
    Chains::new(function, bits, streams.buffers.slots, BufferKey { device: 0, block: 0 })
}

fn dentries(function: DentryFunction, bits: u32, streams: &Streams) -> Chains<DentryKey, DentryFunction> {
    let blank = DentryKey { parent: 0, name: 0, hash: 0, salted: 0 };
    Chains::new(function, bits, streams.dentries.slots, blank)
}

fn inodes(function: InodeFunction, bits: u32, streams: &Streams) -> Chains<InodeKey, InodeFunction> {
    Chains::new(function, bits, streams.inodes.slots, InodeKey { superblock: 0, inode: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_and_the_slowest_run_do_not_count() {
        let times = [1, 100, 4, 4, 4].map(Duration::from_secs).to_vec();
        assert_eq!(trimmed_rate(times, 40), (10.0, 0.0));
        let (mean, deviation) = trimmed_rate([4, 5].map(Duration::from_secs).to_vec(), 20);
        assert_eq!((mean, deviation), (4.5, 0.5f64.sqrt()));
        assert_eq!(trimmed_rate(vec![Duration::from_secs(2)], 4), (2.0, 0.0));
    }
}
