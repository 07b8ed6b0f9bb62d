//! The paper's Tables 1 to 6 and Histograms 1 to 5: the kernels and loads they compare, and their figures. Tables 7 to
//! 10 cover what the paper leaves for later: the swap cache, processes, users, memory areas.
//!
//! Each table ends with kernels that are not in the paper: a table-driven function and the untransformed key (section
//! 5), `hash_64` with the multipliers since and before Linux 4.7, and today's functions. The captions of the paper's
//! Tables 4 and 5 are swapped; ours match the contents.
//!
//! Source: Lever 2000, sections 3 to 6.

use super::caches::Pruning;
use super::functions::{BufferFunction, DentryFunction, IdFunction, InodeFunction, MULTIPLIER, PageFunction};
use super::study::{Areas, Kernel, Moment, PaperMore, Variant};
use super::words::WordFunction;

/// Memory in pages of the paper's machine with two processors: 128 MiB.
pub const SMALL_MEMORY: usize = 32_768;
/// Memory in pages of our machine with four processors: 1 GiB. The paper's has 512 MiB, which hold its load easily;
/// ours takes more, and on a machine that reclaims memory Table 4 would measure pruning instead of functions.
pub const LARGE_MEMORY: usize = 262_144;

/// The source of a table's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Files: a trace.
    Files,
    /// Processes: [`load`](super::processes::load), which needs no tree.
    Processes,
}

/// A table of the paper, or beyond it.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The number in the paper; numbers above [`PAPER_TABLES`] are ours.
    pub number: u32,
    /// The source of its operations.
    pub load: Load,
    /// The number of runs behind each mean of the paper.
    pub paper_runs: usize,
    /// The subject.
    pub title: &'static str,
    /// The numbers of concurrent scripts, one column each.
    pub scripts: &'static [usize],
    /// Memory in pages.
    pub memory: usize,
    /// The kernels; the first is the reference.
    pub kernels: Vec<Kernel>,
}

impl Experiment {
    /// Adds a kernel with the user's function and table size; the default is the size of most kernels of the table.
    /// Returns false for a table that does not have exactly one hash function to replace.
    pub fn add(&mut self, name: &str, function: WordFunction, bits: Option<u32>) -> bool {
        let [variant] = self.kernels[0].variants[..] else { return false };
        let variant = match variant {
            Variant::Page(..) => Variant::Page(PageFunction::Word(function), bits.unwrap_or(14)),
            Variant::Buffer(..) => Variant::Buffer(BufferFunction::Word(function), bits.unwrap_or(14)),
            Variant::Dentry(..) => Variant::Dentry(DentryFunction::Word(function), bits.unwrap_or(14)),
            Variant::Inode(..) => Variant::Inode(InodeFunction::Word(function), bits.unwrap_or(12)),
            Variant::Swap(..) => Variant::Swap(PageFunction::Word(function), bits.unwrap_or(14)),
            Variant::Process(..) => Variant::Process(IdFunction::Word(function), bits.unwrap_or(10)),
            Variant::User(..) => Variant::User(IdFunction::Word(function), bits.unwrap_or(8)),
            Variant::PageTrees | Variant::Area(_) => return false,
        };
        self.kernels.push(kernel(name, variant, &[]));
        true
    }
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

/// The tables of the paper; later numbers are ours.
pub const PAPER_TABLES: u32 = 6;
/// All tables.
pub const TABLES: u32 = 10;
/// The permitted bits of a table.
pub const BITS: std::ops::RangeInclusive<u32> = 1..=24;

fn kernel(name: &str, variant: Variant, paper: &'static [(f64, f64)]) -> Kernel {
    Kernel {
        name: name.to_owned(),
        variants: vec![variant],
        pruning: Pruning::Stock,
        charged: Vec::new(),
        paper,
        paper_more: PaperMore::default(),
    }
}

/// Creates a kernel that prunes more dentries, at the cost of the other caches of 2.2.5.
fn shrinking(name: &str, variant: Variant, paper: &'static [(f64, f64)]) -> Kernel {
    let [page, buffer, _, inode] = STOCK;
    Kernel { pruning: Pruning::Shrink, charged: vec![page, buffer, inode], ..kernel(name, variant, paper) }
}

fn combined(name: &str, variants: [Variant; 4], paper: &'static [(f64, f64)]) -> Kernel {
    Kernel { variants: variants.to_vec(), ..kernel(name, variants[0], paper) }
}

/// The tables of 2.2.5.
const STOCK: [Variant; 4] = [
    Variant::Page(PageFunction::Stock, 11),
    Variant::Buffer(BufferFunction::Stock, 15),
    Variant::Dentry(DentryFunction::Stock, 10),
    Variant::Inode(InodeFunction::Stock, 8),
];

const MULTIPLY: WordFunction = WordFunction::Multiply { by: MULTIPLIER, shift: None };

impl Kernel {
    /// Sets the paper's time for all runs.
    fn elapsed(mut self, minutes: u32, seconds: u32) -> Kernel {
        self.paper_more.elapsed_seconds = Some(60 * minutes + seconds);
        self
    }

    fn maximum(mut self, maximum: f64) -> Kernel {
        self.paper_more.maximum = Some(maximum);
        self
    }

    fn without_first(mut self, mean: f64, deviation: f64) -> Kernel {
        self.paper_more.without_first = Some((mean, deviation));
        self
    }
}

/// Tables 1 to 6 of the paper, and 7 to 10 beyond it.
pub fn experiments() -> Vec<Experiment> {
    let paper = vec![table_1(), table_2(), table_3(), table_4(), table_5(), table_6()];
    paper.into_iter().chain([swap_table(), process_table(), user_table(), area_table()]).collect()
}

fn table_1() -> Experiment {
    use PageFunction as F;
    use Variant::Page;
    let kernels = vec![
        kernel("reference", Page(F::Stock, 11), &[(1864.7, 3.77), (1800.8, 8.51), (1739.9, 3.61), (1644.6, 29.35)])
            .elapsed(50, 25),
        kernel("13-bit", Page(F::Stock, 13), &[(1875.8, 5.59), (1834.0, 3.71), (1765.5, 3.01), (1683.3, 17.39)])
            .elapsed(49, 43),
        kernel("14-bit", Page(F::Stock, 14), &[(1877.2, 5.35), (1830.8, 3.81), (1770.5, 3.84), (1694.3, 41.42)])
            .elapsed(49, 35),
        kernel("15-bit", Page(F::Stock, 15), &[(1875.4, 10.72), (1832.4, 3.97), (1770.3, 3.97), (1691.2, 20.05)])
            .elapsed(49, 36),
        kernel("offset", Page(F::Offset, 14), &[(1880.0, 2.78), (1843.7, 14.65), (1774.5, 4.30), (1685.4, 33.46)])
            .elapsed(49, 40),
        kernel("mult", Page(F::Mult, 14), &[(1876.4, 6.45), (1836.8, 6.45), (1773.7, 5.20), (1691.7, 25.32)])
            .elapsed(49, 29),
        kernel("rbtree", Variant::PageTrees, &[(1874.9, 6.57), (1817.0, 5.59), (1755.3, 3.01), (1670.8, 17.26)])
            .elapsed(50, 3),
        kernel("tabulation", Page(F::Word(WordFunction::Tabulation), 14), &[]),
        kernel("untransformed", Page(F::Word(WordFunction::Untransformed), 14), &[]),
        kernel("hash_64", Page(F::Hash64, 14), &[]),
        kernel("hash_64 old", Page(F::Hash64Sparse, 14), &[]),
    ];
    let title = "page cache: hash functions";
    let scripts = &[16, 32, 48, 64];
    Experiment { number: 1, load: Load::Files, paper_runs: 5, title, scripts, memory: SMALL_MEMORY, kernels }
}

fn table_2() -> Experiment {
    let page = |bits| Variant::Page(PageFunction::Stock, bits);
    let kernels = vec![
        kernel("2048", page(11), &[(4282.8, 29.96)]).without_first(4295.2, 11.10).maximum(4313.0).elapsed(12, 57),
        kernel("8192", page(13), &[(4387.3, 23.10)]).without_first(4398.5, 5.88).maximum(4407.5).elapsed(12, 40),
        kernel("32768", page(15), &[(4405.3, 5.59)]).without_first(4407.4, 4.14).maximum(4413.8).elapsed(12, 49),
        kernel("65536", page(16), &[]),
    ];
    large(2, "page cache: table sizes", kernels)
}

fn large(number: u32, title: &'static str, kernels: Vec<Kernel>) -> Experiment {
    let (scripts, memory) = (&[128][..], LARGE_MEMORY);
    Experiment { number, load: Load::Files, paper_runs: 5, title, scripts, memory, kernels }
}

fn table_3() -> Experiment {
    use BufferFunction as F;
    use Variant::Buffer;
    let kernels = vec![
        kernel("reference", Buffer(F::Stock, 15), &[(4282.8, 29.96)])
            .without_first(4295.2, 11.10)
            .maximum(4313.0)
            .elapsed(12, 57),
        kernel("mult, shift 16", Buffer(F::Mult(16), 15), &[(4369.3, 19.35)])
            .without_first(4376.4, 14.53)
            .maximum(4393.2)
            .elapsed(12, 45),
        kernel("mult, shift 11", Buffer(F::Mult(11), 15), &[(4380.8, 12.09)])
            .without_first(4382.8, 11.21)
            .maximum(4394.0)
            .elapsed(12, 50),
        kernel("shift-add", Buffer(F::ShiftAdd, 15), &[(4388.9, 21.90)])
            .without_first(4397.2, 11.70)
            .maximum(4415.5)
            .elapsed(12, 31),
        kernel("mult, shift 11", Buffer(F::Mult(11), 14), &[(4350.5, 99.75)])
            .without_first(4394.6, 15.59)
            .maximum(4417.2)
            .elapsed(12, 41),
        kernel("mult, shift 17", Buffer(F::Mult(17), 14), &[(4343.7, 61.17)])
            .without_first(4369.9, 17.39)
            .maximum(4390.2)
            .elapsed(12, 46),
        kernel("shift-add", Buffer(F::ShiftAdd, 14), &[(4390.2, 22.55)])
            .without_first(4399.6, 8.52)
            .maximum(4408.3)
            .elapsed(12, 37),
        kernel("mult, shift 18", Buffer(F::Mult(18), 13), &[(4328.9, 16.61)])
            .without_first(4333.7, 15.05)
            .maximum(4349.6)
            .elapsed(12, 41),
        kernel("shift-add", Buffer(F::ShiftAdd, 13), &[(4362.5, 13.37)])
            .without_first(4362.8, 14.90)
            .maximum(4382.3)
            .elapsed(12, 45),
        kernel("tabulation", Buffer(F::Word(WordFunction::Tabulation), 14), &[]),
        kernel("untransformed", Buffer(F::Word(WordFunction::Untransformed), 14), &[]),
        kernel("hash_64", Buffer(F::Hash64, 14), &[]),
        kernel("hash_64 old", Buffer(F::Hash64Sparse, 14), &[]),
    ];
    large(3, "buffer cache: hash functions", kernels)
}

fn table_4() -> Experiment {
    use DentryFunction as F;
    use Variant::Dentry;
    let kernels = vec![
        kernel("reference", Dentry(F::Stock, 10), &[(4282.8, 29.96)]).maximum(4313.0).elapsed(12, 57),
        kernel("14 bit", Dentry(F::Plus, 14), &[(4375.2, 25.92)]).maximum(4397.4).elapsed(12, 42),
        kernel("mult, shift 11", Dentry(F::Mult(11), 14), &[(4368.7, 62.65)]).maximum(4406.2).elapsed(12, 39),
        kernel("mult, shift 17", Dentry(F::Mult(17), 14), &[(4375.9, 10.40)]).maximum(4389.0).elapsed(12, 40),
        shrinking("shrink", Dentry(F::Plus, 14), &[(4368.7, 33.36)]).maximum(4390.7).elapsed(12, 40),
        shrinking("shrink + mult 11", Dentry(F::Mult(11), 14), &[(4380.4, 13.53)]).maximum(4396.5).elapsed(12, 35),
        shrinking("shrink + mult 17", Dentry(F::Mult(17), 14), &[(4368.5, 16.21)]).maximum(4383.6).elapsed(12, 42),
        kernel("tabulation", Dentry(F::Word(WordFunction::Tabulation), 14), &[]),
        kernel("untransformed", Dentry(F::Word(WordFunction::Untransformed), 14), &[]),
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
        kernel("reference", Inode(F::Stock, 8), &[(4282.8, 29.96)]).elapsed(12, 57),
        kernel("12 bit", Inode(F::Stock, 12), &[(4361.3, 11.15)]).elapsed(12, 36),
        kernel("mult", Inode(F::Mult, 12), &[(4346.0, 20.87)]).elapsed(12, 52),
        kernel("14 bit", Inode(F::Stock, 14), &[(4368.3, 20.41)]).elapsed(12, 54),
        kernel("modified", Inode(F::Sum, 12), &[]),
        kernel("tabulation", Inode(F::Word(WordFunction::Tabulation), 12), &[]),
        kernel("untransformed", Inode(F::Word(WordFunction::Untransformed), 12), &[]),
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
    let today = [
        Page(PageFunction::Hash64, 13),
        Buffer(BufferFunction::Hash64, 14),
        Dentry(DentryFunction::Today, 13),
        Inode(InodeFunction::Today, 11),
    ];
    let kernels = vec![
        combined("reference", STOCK, &[(4300.7, 15.73)]).maximum(4321.1).elapsed(26, 41),
        combined("kernel A", others(PageFunction::Mult, BufferFunction::Mult(11)), &[(4582.9, 12.55)])
            .maximum(4592.8)
            .elapsed(25, 24),
        combined("kernel B", others(PageFunction::Mult, BufferFunction::ShiftAdd), &[(4577.9, 16.22)])
            .maximum(4602.0)
            .elapsed(25, 18),
        combined("kernel C", others(PageFunction::Stock, BufferFunction::Mult(11)), &[(4596.2, 22.30)])
            .maximum(4619.5)
            .elapsed(25, 18),
        combined("kernel D", others(PageFunction::Offset, BufferFunction::Mult(11)), &[(4591.3, 10.98)])
            .maximum(4608.9)
            .elapsed(25, 15),
        combined("today", today, &[]),
    ];
    Experiment { paper_runs: 10, ..large(6, "all four caches", kernels) }
}

/// Creates an experiment beyond the paper, with the load of processes.
fn beyond(number: u32, title: &'static str, kernels: Vec<Kernel>) -> Experiment {
    Experiment { load: Load::Processes, ..large(number, title, kernels) }
}

/// The functions of Table 1 with swap entries, for which the paper's "offset" function was made.
fn swap_table() -> Experiment {
    use PageFunction as F;
    use Variant::Swap;
    let kernels = vec![
        kernel("reference", Swap(F::Stock, 11), &[]),
        kernel("14-bit", Swap(F::Stock, 14), &[]),
        kernel("offset", Swap(F::Offset, 14), &[]),
        kernel("mult", Swap(F::Mult, 14), &[]),
        kernel("tabulation", Swap(F::Word(WordFunction::Tabulation), 14), &[]),
        kernel("untransformed", Swap(F::Word(WordFunction::Untransformed), 14), &[]),
        kernel("hash_64", Swap(F::Hash64, 14), &[]),
    ];
    beyond(7, "swap cache: the page cache's functions", kernels)
}

/// 2.2.5 with the paper's 4,000 tasks has 1,000 buckets for processes and 250 for users.
fn process_table() -> Experiment {
    use IdFunction as F;
    use Variant::Process;
    let kernels = vec![
        kernel("reference", Process(F::Stock(999), 10), &[]),
        kernel("10-bit", Process(F::Fold, 10), &[]),
        kernel("mult", Process(F::Word(MULTIPLY), 10), &[]),
        kernel("tabulation", Process(F::Word(WordFunction::Tabulation), 10), &[]),
        kernel("untransformed", Process(F::Word(WordFunction::Untransformed), 10), &[]),
    ];
    beyond(8, "processes by number", kernels)
}

fn user_table() -> Experiment {
    use IdFunction as F;
    use Variant::User;
    let kernels = vec![
        kernel("reference", User(F::Stock(249), 8), &[]),
        kernel("8-bit", User(F::Fold, 8), &[]),
        kernel("mult", User(F::Word(MULTIPLY), 8), &[]),
        kernel("tabulation", User(F::Word(WordFunction::Tabulation), 8), &[]),
        kernel("untransformed", User(F::Word(WordFunction::Untransformed), 8), &[]),
    ];
    beyond(9, "users by number", kernels)
}

fn area_table() -> Experiment {
    let kernels = vec![
        kernel("list, last first", Variant::Area(Areas::CachedList), &[]),
        kernel("list", Variant::Area(Areas::List), &[]),
        kernel("rbtree", Variant::Area(Areas::Trees), &[]),
    ];
    beyond(10, "memory areas of a process", kernels)
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
    fn the_users_function_is_added_to_tables_with_one_hash_function() {
        let tables: Vec<u32> = experiments()
            .into_iter()
            .filter_map(|mut experiment| {
                let before = experiment.kernels.len();
                let added = experiment.add("mine", WordFunction::Tabulation, Some(9));
                assert_eq!(experiment.kernels.len(), before + usize::from(added));
                assert!(!added || experiment.kernels[before].variants[0].buckets() == Some(512));
                added.then_some(experiment.number)
            })
            .collect();
        assert_eq!(tables, [1, 2, 3, 4, 5, 7, 8, 9]);
    }

    #[test]
    fn the_papers_other_columns_are_complete() {
        let columns = |number: u32| {
            let tables = experiments();
            let table = tables.iter().find(|table| table.number == number).unwrap();
            let known = table.kernels.iter().filter(|kernel| !kernel.paper.is_empty());
            let count = |of: fn(&Kernel) -> bool| known.clone().filter(|kernel| of(kernel)).count();
            let more = |kernel: &Kernel| kernel.paper_more.without_first.is_some();
            let maximum = |kernel: &Kernel| kernel.paper_more.maximum.is_some();
            [count(|_| true), count(more), count(maximum), count(|kernel| kernel.paper_more.elapsed_seconds.is_some())]
        };
        let expected = [[7, 0, 0, 7], [3, 3, 3, 3], [9, 9, 9, 9], [7, 0, 7, 7], [4, 0, 0, 4], [5, 0, 5, 5]];
        assert_eq!([1, 2, 3, 4, 5, 6].map(columns), expected);
    }

    #[test]
    fn every_kernel_of_the_paper_has_a_figure_for_every_load() {
        for experiment in experiments() {
            let expected = if experiment.number <= PAPER_TABLES { experiment.scripts.len() } else { 0 };
            assert_eq!(experiment.kernels[0].paper.len(), expected);
            let sizes = experiment.kernels.iter().map(|kernel| kernel.paper.len());
            assert!(sizes.into_iter().all(|len| len == 0 || len == experiment.scripts.len()));
        }
    }
}
