//! The paper's Tables 1 to 6 and Histograms 1 to 5: the kernels and loads they compare, and their figures.
//!
//! Each table ends with kernels that are not in the paper: `hash_64` with the multipliers since and before Linux 4.7,
//! and today's functions. The captions of the paper's Tables 4 and 5 are swapped; ours match the contents.
//!
//! Source: Lever 2000, sections 3 and 4.

use super::caches::Pruning;
use super::functions::{BufferFunction, DentryFunction, InodeFunction, PageFunction};
use super::study::{Kernel, Moment, Variant};

/// Memory in pages of the paper's machine with two processors: 128 MiB.
pub const SMALL_MEMORY: usize = 32_768;
/// Memory in pages of the paper's machine with four processors: 512 MiB.
pub const LARGE_MEMORY: usize = 131_072;

/// A table of the paper.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The number in the paper.
    pub number: u32,
    /// The subject.
    pub title: &'static str,
    /// The numbers of concurrent scripts, one column each.
    pub scripts: &'static [usize],
    /// Memory in pages.
    pub memory: usize,
    /// The kernels; the first is the reference.
    pub kernels: Vec<Kernel>,
}

/// A histogram of the paper.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The number in the paper.
    pub number: u32,
    /// The subject.
    pub title: &'static str,
    /// The table.
    pub variant: Variant,
    /// The moment.
    pub moment: Moment,
    /// The paper's figures.
    pub paper: PaperHistogram,
}

/// The figures of a histogram in the paper.
#[derive(Clone, Debug)]
pub struct PaperHistogram {
    /// The number of lookups.
    pub lookups: u64,
    /// Hits in percent.
    pub hit_rate: u32,
    /// Objects in the table.
    pub objects: u64,
    /// Objects in the largest bucket.
    pub largest: u64,
    /// Objects compared in 1,000 lookups.
    pub iterations: u64,
    /// Buckets with 0 to 15 objects, and with more than 15.
    pub buckets: [u64; 17],
}

/// The scripts of the histograms, with [`SMALL_MEMORY`].
pub const HISTOGRAM_SCRIPTS: usize = 64;

fn kernel(name: &'static str, variant: Variant, paper: &'static [(f64, f64)]) -> Kernel {
    Kernel { name, variants: vec![variant], pruning: Pruning::Stock, paper }
}

fn shrinking(name: &'static str, variant: Variant, paper: &'static [(f64, f64)]) -> Kernel {
    Kernel { pruning: Pruning::Shrink, ..kernel(name, variant, paper) }
}

fn combined(name: &'static str, variants: [Variant; 4], paper: &'static [(f64, f64)]) -> Kernel {
    Kernel { name, variants: variants.to_vec(), pruning: Pruning::Stock, paper }
}

/// Tables 1 to 6.
pub fn experiments() -> Vec<Experiment> {
    vec![table_1(), table_2(), table_3(), table_4(), table_5(), table_6()]
}

fn table_1() -> Experiment {
    use PageFunction as F;
    use Variant::Page;
    let kernels = vec![
        kernel("reference", Page(F::Stock, 11), &[(1864.7, 3.77), (1800.8, 8.51), (1739.9, 3.61), (1644.6, 29.35)]),
        kernel("13-bit", Page(F::Stock, 13), &[(1875.8, 5.59), (1834.0, 3.71), (1765.5, 3.01), (1683.3, 17.39)]),
        kernel("14-bit", Page(F::Stock, 14), &[(1877.2, 5.35), (1830.8, 3.81), (1770.5, 3.84), (1694.3, 41.42)]),
        kernel("15-bit", Page(F::Stock, 15), &[(1875.4, 10.72), (1832.4, 3.97), (1770.3, 3.97), (1691.2, 20.05)]),
        kernel("offset", Page(F::Offset, 14), &[(1880.0, 2.78), (1843.7, 14.65), (1774.5, 4.30), (1685.4, 33.46)]),
        kernel("mult", Page(F::Mult, 14), &[(1876.4, 6.45), (1836.8, 6.45), (1773.7, 5.20), (1691.7, 25.32)]),
        kernel("rbtree", Variant::PageTrees, &[(1874.9, 6.57), (1817.0, 5.59), (1755.3, 3.01), (1670.8, 17.26)]),
        kernel("hash_64", Page(F::Hash64, 14), &[]),
        kernel("hash_64 old", Page(F::Hash64Sparse, 14), &[]),
    ];
    let title = "page cache: hash functions";
    Experiment { number: 1, title, scripts: &[16, 32, 48, 64], memory: SMALL_MEMORY, kernels }
}

fn table_2() -> Experiment {
    let page = |bits| Variant::Page(PageFunction::Stock, bits);
    let kernels = vec![
        kernel("2048", page(11), &[(4282.8, 29.96)]),
        kernel("8192", page(13), &[(4387.3, 23.10)]),
        kernel("32768", page(15), &[(4405.3, 5.59)]),
        kernel("65536", page(16), &[]),
    ];
    large(2, "page cache: table sizes", kernels)
}

fn large(number: u32, title: &'static str, kernels: Vec<Kernel>) -> Experiment {
    Experiment { number, title, scripts: &[128], memory: LARGE_MEMORY, kernels }
}

fn table_3() -> Experiment {
    use BufferFunction as F;
    use Variant::Buffer;
    let kernels = vec![
        kernel("reference", Buffer(F::Stock, 15), &[(4282.8, 29.96)]),
        kernel("mult, shift 16", Buffer(F::Mult(16), 15), &[(4369.3, 19.35)]),
        kernel("mult, shift 11", Buffer(F::Mult(11), 15), &[(4380.8, 12.09)]),
        kernel("shift-add", Buffer(F::ShiftAdd, 15), &[(4388.9, 21.90)]),
        kernel("mult, shift 11", Buffer(F::Mult(11), 14), &[(4350.5, 99.75)]),
        kernel("mult, shift 17", Buffer(F::Mult(17), 14), &[(4343.7, 61.17)]),
        kernel("shift-add", Buffer(F::ShiftAdd, 14), &[(4390.2, 22.55)]),
        kernel("mult, shift 18", Buffer(F::Mult(18), 13), &[(4328.9, 16.61)]),
        kernel("shift-add", Buffer(F::ShiftAdd, 13), &[(4362.5, 13.37)]),
        kernel("hash_64", Buffer(F::Hash64, 14), &[]),
        kernel("hash_64 old", Buffer(F::Hash64Sparse, 14), &[]),
    ];
    large(3, "buffer cache: hash functions", kernels)
}

fn table_4() -> Experiment {
    use DentryFunction as F;
    use Variant::Dentry;
    let kernels = vec![
        kernel("reference", Dentry(F::Stock, 10), &[(4282.8, 29.96)]),
        kernel("14 bit", Dentry(F::Plus, 14), &[(4375.2, 25.92)]),
        kernel("mult, shift 11", Dentry(F::Mult(11), 14), &[(4368.7, 62.65)]),
        kernel("mult, shift 17", Dentry(F::Mult(17), 14), &[(4375.9, 10.40)]),
        shrinking("shrink", Dentry(F::Plus, 14), &[(4368.7, 33.36)]),
        shrinking("shrink + mult 11", Dentry(F::Mult(11), 14), &[(4380.4, 13.53)]),
        shrinking("shrink + mult 17", Dentry(F::Mult(17), 14), &[(4368.5, 16.21)]),
        kernel("hash_64", Dentry(F::Hash64, 14), &[]),
        kernel("hash_64 old", Dentry(F::Hash64Sparse, 14), &[]),
        kernel("today", Dentry(F::Today, 14), &[]),
    ];
    large(4, "dentry cache: hash functions, and pruning", kernels)
}

fn table_5() -> Experiment {
    use InodeFunction as F;
    use Variant::Inode;
    let kernels = vec![
        kernel("reference", Inode(F::Stock, 8), &[(4282.8, 29.96)]),
        kernel("12 bit", Inode(F::Stock, 12), &[(4361.3, 11.15)]),
        kernel("mult", Inode(F::Mult, 12), &[(4346.0, 20.87)]),
        kernel("14 bit", Inode(F::Stock, 14), &[(4368.3, 20.41)]),
        kernel("modified", Inode(F::Sum, 12), &[]),
        kernel("hash_64", Inode(F::Hash64, 12), &[]),
        kernel("hash_64 old", Inode(F::Hash64Sparse, 12), &[]),
        kernel("today", Inode(F::Today, 12), &[]),
    ];
    large(5, "inode cache: hash functions", kernels)
}

fn table_6() -> Experiment {
    use Variant::{Buffer, Dentry, Inode, Page};
    let others = |page, buffer| {
        let inode = Inode(InodeFunction::Sum, 11);
        [Page(page, 13), Buffer(buffer, 14), Dentry(DentryFunction::Plus, 13), inode]
    };
    let reference = [
        Page(PageFunction::Stock, 11),
        Buffer(BufferFunction::Stock, 15),
        Dentry(DentryFunction::Stock, 10),
        Inode(InodeFunction::Stock, 8),
    ];
    let today = [
        Page(PageFunction::Hash64, 13),
        Buffer(BufferFunction::Hash64, 14),
        Dentry(DentryFunction::Today, 13),
        Inode(InodeFunction::Today, 11),
    ];
    let kernels = vec![
        combined("reference", reference, &[(4300.7, 15.73)]),
        combined("kernel A", others(PageFunction::Mult, BufferFunction::Mult(11)), &[(4582.9, 12.55)]),
        combined("kernel B", others(PageFunction::Mult, BufferFunction::ShiftAdd), &[(4577.9, 16.22)]),
        combined("kernel C", others(PageFunction::Stock, BufferFunction::Mult(11)), &[(4596.2, 22.30)]),
        combined("kernel D", others(PageFunction::Offset, BufferFunction::Mult(11)), &[(4591.3, 10.98)]),
        combined("today", today, &[]),
    ];
    large(6, "all four caches", kernels)
}

/// Histograms 1 to 5.
pub fn histograms() -> Vec<Histogram> {
    let old = Variant::Buffer(BufferFunction::Stock, 14);
    let mult = Variant::Buffer(BufferFunction::Mult(11), 14);
    let paper = |lookups, hit_rate, objects, largest, iterations, buckets| PaperHistogram {
        lookups,
        hit_rate,
        objects,
        largest,
        iterations,
        buckets,
    };
    vec![
        Histogram {
            number: 1,
            title: "full buffer cache, old hash function",
            variant: old,
            moment: Moment::Full,
            paper: paper(
                296_481,
                54,
                37_256,
                116,
                2155,
                [12_047, 1037, 381, 295, 325, 399, 188, 303, 160, 169, 224, 64, 49, 15, 3, 4, 721],
            ),
        },
        Histogram {
            number: 2,
            title: "buffer cache after the load, old hash function",
            variant: old,
            moment: Moment::After,
            paper: paper(3_548_568, 78, 2644, 80, 1379, [16_167, 110, 10, 3, 1, 0, 3, 1, 6, 2, 1, 2, 3, 3, 3, 1, 68]),
        },
        Histogram {
            number: 3,
            title: "full buffer cache, mult-11",
            variant: mult,
            moment: Moment::Full,
            paper: paper(
                287_696,
                54,
                37_261,
                11,
                242,
                [2034, 3317, 4034, 3833, 2082, 712, 222, 78, 46, 19, 5, 2, 0, 0, 0, 0, 0],
            ),
        },
        Histogram {
            number: 4,
            title: "buffer cache after the load, mult-11",
            variant: mult,
            moment: Moment::After,
            paper: paper(3_530_977, 78, 2717, 6, 215, [14_302, 1555, 442, 73, 5, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        },
        Histogram {
            number: 5,
            title: "full inode cache, old hash function",
            variant: Variant::Inode(InodeFunction::Stock, 8),
            moment: Moment::Full,
            paper: paper(189_321, 3, 9785, 54, 38_978, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 256]),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_histograms_sum_to_their_bucket_counts() {
        for histogram in histograms() {
            let buckets: u64 = histogram.paper.buckets.iter().sum();
            assert_eq!(Some(buckets), histogram.variant.buckets(), "histogram {}", histogram.number);
        }
    }

    #[test]
    fn every_kernel_of_the_paper_has_a_figure_for_every_load() {
        for experiment in experiments() {
            assert_eq!(experiment.kernels[0].paper.len(), experiment.scripts.len());
            let sizes = experiment.kernels.iter().map(|kernel| kernel.paper.len());
            assert!(sizes.into_iter().all(|len| len == 0 || len == experiment.scripts.len()));
        }
    }
}
