//! Replays by the clock: lookups a second of each kernel's tables, and what is in their buckets.
//!
//! A run asks the tables of a kernel all that its caches ask, insertions and removals too, and divides the lookups by the time. The
//! runs of all kernels take turns, so that a machine that grows slower does so for all. Of the runs the fastest and the slowest
//! are left out, as in the paper. Tables are made before the clock starts; every answer is held against the caches'.
//!
//! Cost: runs x kernels x operations. Everything but times repeats.
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

/// A run replays as often as it takes to be so long: shorter ones measure the clock and the scheduler.
const RUN_MIN: Duration = Duration::from_millis(20);
/// But no oftener than this, of a cache that is asked little or nothing.
const REPLAYS_MAX: u32 = 16;
/// Operations between two questions whether to go on.
const PROCEED_OPS: usize = 1 << 15;

/// A table of one cache: its hash function and the bits of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The page cache's.
    Page(PageFunction, u32),
    /// The page cache as a tree an inode.
    PageTrees,
    /// The buffer cache's.
    Buffer(BufferFunction, u32),
    /// The dentry cache's.
    Dentry(DentryFunction, u32),
    /// The inode cache's.
    Inode(InodeFunction, u32),
}

impl Variant {
    /// How many buckets it has; `None` for trees.
    pub fn buckets(self) -> Option<u64> {
        match self {
            Self::PageTrees => None,
            Self::Page(_, bits) | Self::Buffer(_, bits) | Self::Dentry(_, bits) | Self::Inode(_, bits) => {
                Some(1 << bits)
            }
        }
    }

    /// The cache whose table it is.
    pub fn cache(self) -> &'static str {
        match self {
            Self::Page(..) | Self::PageTrees => "page",
            Self::Buffer(..) => "buffer",
            Self::Dentry(..) => "dentry",
            Self::Inode(..) => "inode",
        }
    }
}

/// A kernel: the tables that it is measured by.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As in the paper.
    pub name: &'static str,
    /// Its tables.
    pub variants: Vec<Variant>,
    /// How its dentry cache shrinks.
    pub pruning: Pruning,
    /// The paper's scripts an hour and their deviation, one for each number of scripts; none for kernels that are not in it.
    pub paper: &'static [(f64, f64)],
}

/// What a table has been asked, and what its buckets hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The cache.
    pub cache: &'static str,
    /// How many buckets there are; for trees `None`.
    pub buckets: Option<u64>,
    /// Lookups, and objects that were compared.
    pub counts: Counts,
    /// How many buckets (for trees: inodes) have so many objects.
    pub sizes: BTreeMap<usize, u64>,
}

impl Shape {
    /// Objects in the table.
    pub fn objects(&self) -> u64 {
        self.sizes.iter().map(|(size, buckets)| *size as u64 * buckets).sum()
    }

    /// Objects of the largest bucket.
    pub fn largest(&self) -> usize {
        self.sizes.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// Objects in buckets of more than `size`.
    pub fn objects_above(&self, size: usize) -> u64 {
        self.sizes.range(size + 1..).map(|(size, buckets)| *size as u64 * buckets).sum()
    }
}

/// At which moment a [`Shape`] is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the load has ended.
    Full,
    /// Behind that: what it made is removed, and most buffers have been reclaimed.
    After,
}

/// A kernel's times.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Mean of the runs that count.
    pub lookups_per_second: f64,
    /// Their standard deviation.
    pub deviation: f64,
    /// A replay in each of its runs, of those that do not count too.
    pub elapsed: Duration,
    /// Of each of its tables, at the end of the load.
    pub shapes: Vec<Shape>,
}

/// Replays each kernel `runs` times on what `streams` gives for its pruning.
///
/// # Errors
/// `proceed` said no.
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
        let (lookups_per_second, deviation) = middle(times, lookups);
        Ok(Measured { lookups_per_second, deviation, elapsed, shapes })
    });
    measured.collect()
}

/// Mean and standard deviation of the rates, without the fastest and the slowest where there are three or more.
fn middle(mut times: Vec<Duration>, lookups: u64) -> (f64, f64) {
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

/// What the table holds at a moment, and what it was asked till then.
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
        assert_eq!(middle(times, 40), (10.0, 0.0));
        let (mean, deviation) = middle([4, 5].map(Duration::from_secs).to_vec(), 20);
        assert_eq!((mean, deviation), (4.5, 0.5f64.sqrt()));
        assert_eq!(middle(vec![Duration::from_secs(2)], 4), (2.0, 0.0));
    }
}
