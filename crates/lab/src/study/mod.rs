//! A study: how every hash function spreads the keys that are given, over tables of several sizes.
//!
//! ```text
//! survey    all keys once: how many, how long, repeats, some drawn by lot          survey.rs
//! count     all keys, a byte a bucket and function; as often as memory asks        counts.rs
//! measure   histogram, probes, chi-square, layouts; then half as many buckets      measure.rs, chance.rs
//! find      all keys once more: which are in each function's fullest bucket
//! try       avalanche and speed, on the keys drawn                                 avalanche.rs, speed.rs
//! advise    functions in order, and what to do                                     advice.rs
//! ```
//!
//! Keys are read from the start for each pass and never held all at once, so there may be far more of them than memory. One thread reads,
//! each other has some of the functions to itself: nothing is shared, and all figures but times repeat exactly.
//!
//! Source: Lever 2000, Section 2.

mod advice;
mod avalanche;
mod chance;
mod counts;
mod measure;
mod speed;
mod survey;

pub use advice::{Advice, Class};
pub use avalanche::Avalanche;
pub use measure::{Cost, Expected, Layouts, Level, PAGE_SLOTS, Size};
pub use speed::Speed;
pub use survey::{EXACT_KEYS_MAX, Repeats, Survey};

use crate::keys::Keys;
use counts::Counts;
use splitpoint::hash::{HashFunction, HashKind};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use survey::{Skip, Surveyor};

/// Tables of fewer buckets say nothing.
const BITS_MIN: u32 = 3;
/// Sizes that are measured where one was asked for: it, and smaller ones for the plots.
const LEVELS: u32 = 6;
/// Keys of a batch that goes from the reading thread to the others.
const BATCH_KEYS: usize = 1 << 15;
const BATCH_BYTES: usize = 4 << 20;
/// Batches that wait for one thread.
const WAITING: usize = 3;
/// What of the memory is for counts.
const COUNTS_SHARE: f64 = 0.8;

/// How many buckets the table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// A power of two, not below the number of keys.
    Auto,
    /// Two to the power of so many: the low bits of the hash tell the bucket.
    Bits(u32),
    /// Any number: the remainder of the hash tells it.
    Count(u64),
}

/// What is to be studied, and how.
#[derive(Clone, Debug)]
pub struct Study {
    /// Functions to compare.
    pub functions: Vec<HashFunction>,
    /// Size of the table.
    pub buckets: Buckets,
    /// Of functions that take one, and of what is drawn by lot.
    pub seed: u64,
    /// About so much memory is used.
    pub memory_bytes: u64,
    /// Threads beside the one that reads.
    pub threads: usize,
    /// Keys of the fullest bucket that are told.
    pub keys_shown: usize,
    /// Are times measured? Without them a study repeats byte for byte.
    pub speed: bool,
}

impl Default for Study {
    /// All functions of the package, a table as large as the keys ask for, 1 GiB, all processors.
    fn default() -> Self {
        Study {
            functions: HashKind::ALL.iter().map(|kind| HashFunction::new(*kind, 0)).collect(),
            buckets: Buckets::Auto,
            seed: 0,
            memory_bytes: 1 << 30,
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            keys_shown: 10,
            speed: true,
        }
    }
}

/// What a study found.
#[derive(Clone, Debug)]
pub struct Report {
    /// About the keys.
    pub survey: Survey,
    /// About the functions, the best first.
    pub functions: Vec<FunctionReport>,
    /// What to do.
    pub advice: Advice,
}

/// What a study found of one function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    /// The function.
    pub function: HashFunction,
    /// Bits of its results.
    pub bits: u32,
    /// How it spreads the keys: first over the table asked for, then over ever smaller ones.
    pub levels: Vec<Level>,
    /// Some keys of the fullest bucket, those read first.
    pub largest_keys: Vec<Vec<u8>>,
    /// `None` where keys have no bits to flip.
    pub avalanche: Option<Avalanche>,
    /// `None` if times were not asked for.
    pub speed: Option<Speed>,
    /// How good that is.
    pub class: Class,
}

impl FunctionReport {
    /// The table asked for.
    pub fn level(&self) -> &Level {
        &self.levels[0]
    }
}

/// Why there is no report.
#[derive(Debug)]
pub enum StudyError<E> {
    /// The keys could not be read.
    Keys(E),
    /// There is none.
    NoKeys,
    /// There are no functions to compare.
    NoFunctions,
    /// Counting in so many buckets takes more memory than is allowed.
    TooManyBuckets {
        /// Asked for.
        buckets: u64,
        /// Possible.
        max: u64,
    },
    /// No thread could be started.
    Threads(std::io::Error),
}

impl<E: fmt::Display> fmt::Display for StudyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(error) => error.fmt(f),
            Self::NoKeys => f.write_str("no keys"),
            Self::NoFunctions => f.write_str("no hash functions to compare"),
            Self::TooManyBuckets { buckets, max } => {
                write!(
                    f,
                    "{buckets} buckets take a byte each, and there is memory for {max}; allow more, or take fewer"
                )
            }
            Self::Threads(error) => write!(f, "start a thread: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for StudyError<E> {}

/// Gives each key to whom it is given, from the first on whenever it is called, in the same order each time.
pub type EachKey<'k, E> = dyn FnMut(&mut dyn FnMut(&[u8])) -> Result<(), E> + 'k;

impl Study {
    /// Reads all keys several times: to survey them, once for as many functions as memory has counts for, and once to name the fullest
    /// buckets' keys. O(keys x functions); memory as [`Study::memory_bytes`] says.
    ///
    /// # Errors
    /// What `each` gives; no keys; more buckets than there is memory for.
    ///
    /// # Examples
    /// ```
    /// use splitpoint_lab::study::Study;
    ///
    /// let words = ["alpha", "beta", "gamma", "delta"];
    /// let report = Study { speed: false, ..Study::default() }.run(&mut |take| {
    ///     words.iter().for_each(|word| take(word.as_bytes()));
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// assert_eq!(report.functions[0].level().objects, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<E>(&self, each: &mut EachKey<'_, E>) -> Result<Report, StudyError<E>> {
        if self.functions.is_empty() {
            return Err(StudyError::NoFunctions);
        }
        let mut surveyor = Surveyor::new(self.seed, EXACT_KEYS_MAX);
        each(&mut |key| surveyor.look(key)).map_err(StudyError::Keys)?;
        let (survey, skip, drawn) = surveyor.finish();
        if survey.rows == 0 {
            return Err(StudyError::NoKeys);
        }
        let table = self.table(survey.objects())?;
        let mut spreads = Vec::new();
        for functions in self.functions.chunks(self.functions_at_once(table)) {
            spreads.extend(self.count(functions, table, &skip, each)?);
        }
        let largest = self.find_largest(&spreads, table, &skip, each)?;
        let functions = self.functions.iter().zip(spreads).zip(largest);
        let mut functions: Vec<_> = functions
            .map(|((function, spread), largest_keys)| self.try_out(function, spread, largest_keys, &drawn))
            .collect();
        advice::rank(&mut functions);
        let advice = advice::advise(&survey, &functions);
        Ok(Report { survey, functions, advice })
    }

    fn table<E>(&self, objects: u64) -> Result<Table, StudyError<E>> {
        let max = (self.memory_bytes as f64 * COUNTS_SHARE) as u64;
        let table = match self.buckets {
            Buckets::Auto => {
                let bits = objects.next_power_of_two().ilog2().max(BITS_MIN);
                // More keys than there are counts for are studied in fewer buckets.
                Table::Bits(bits.min(max.max(1 << BITS_MIN).ilog2()))
            }
            Buckets::Bits(bits) => Table::Bits(bits.clamp(1, 63)),
            Buckets::Count(buckets) => Table::Count(buckets.max(1)),
        };
        if table.buckets() > max {
            return Err(StudyError::TooManyBuckets { buckets: table.buckets(), max });
        }
        Ok(table)
    }

    /// As many as memory has counts for, in equal shares for the threads.
    fn functions_at_once(&self, table: Table) -> usize {
        let most = (self.memory_bytes as f64 * COUNTS_SHARE / table.buckets() as f64) as usize;
        let threads = self.threads.max(1);
        let most = most.clamp(1, self.functions.len());
        if most > threads { most / threads * threads } else { most }
    }

    /// How `functions` spread the keys.
    fn count<E>(
        &self,
        functions: &[HashFunction],
        table: Table,
        skip: &Skip,
        each: &mut EachKey<'_, E>,
    ) -> Result<Vec<Spread>, StudyError<E>> {
        let counters = functions.iter().map(|function| (function, Counts::new(table.buckets() as usize)));
        let counters = self.pass(counters.collect(), skip, each, |(function, counts), keys| {
            for key in keys.iter() {
                counts.add(table.bucket(function.hash(key)));
            }
        })?;
        // Measured side by side too: there are millions of buckets.
        let spreads = std::thread::scope(|scope| {
            let threads: Vec<_> =
                counters.into_iter().map(|(_, counts)| scope.spawn(move || Spread::of(counts, table))).collect();
            let spreads = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            spreads.collect()
        });
        Ok(spreads)
    }

    /// Some keys of each function's fullest bucket.
    fn find_largest<E>(
        &self,
        spreads: &[Spread],
        table: Table,
        skip: &Skip,
        each: &mut EachKey<'_, E>,
    ) -> Result<Vec<Vec<Vec<u8>>>, StudyError<E>> {
        let seekers =
            self.functions.iter().zip(spreads).map(|(function, spread)| (function, spread.fullest, Vec::new()));
        let shown = self.keys_shown;
        let seekers = self.pass(seekers.collect(), skip, each, |(function, fullest, found), keys| {
            for key in keys.iter() {
                if found.len() < shown && table.bucket(function.hash(key)) == *fullest {
                    found.push(key.to_vec());
                }
            }
        })?;
        Ok(seekers.into_iter().map(|(_, _, found)| found).collect())
    }

    /// Gives all keys to each of `works` by `step`, some of them on each thread.
    fn pass<E, W: Send>(
        &self,
        works: Vec<W>,
        skip: &Skip,
        each: &mut EachKey<'_, E>,
        step: impl Fn(&mut W, &Keys) + Sync,
    ) -> Result<Vec<W>, StudyError<E>> {
        let threads = self.threads.clamp(1, works.len().max(1));
        let mut shares: Vec<Vec<(usize, W)>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, work) in works.into_iter().enumerate() {
            shares[index % threads].push((index, work));
        }
        let step = &step;
        std::thread::scope(|scope| {
            let mut senders = Vec::new();
            let mut running = Vec::new();
            for share in shares {
                let (sender, batches) = sync_channel::<Arc<Keys>>(WAITING);
                let thread = std::thread::Builder::new().name("study".into());
                running.push(
                    thread
                        .spawn_scoped(scope, move || work_through(share, &batches, step))
                        .map_err(StudyError::Threads)?,
                );
                senders.push(sender);
            }
            feed(&senders, skip, each)?;
            drop(senders);
            let mut done = Vec::new();
            for thread in running {
                done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done.sort_by_key(|(index, _)| *index);
            Ok(done.into_iter().map(|(_, work)| work).collect())
        })
    }

    fn try_out(
        &self,
        function: &HashFunction,
        spread: Spread,
        largest_keys: Vec<Vec<u8>>,
        drawn: &Keys,
    ) -> FunctionReport {
        let bits = bits_of(function, drawn);
        FunctionReport {
            function: function.clone(),
            bits,
            class: Class::of(&spread.levels[0]),
            levels: spread.levels,
            largest_keys,
            avalanche: Avalanche::measure(function, bits, drawn),
            speed: self.speed.then(|| Speed::measure(function, drawn)),
        }
    }
}

/// Bits of the results: as the kind says; of the user's own, up to the highest that is ever set, in steps of 8.
fn bits_of(function: &HashFunction, drawn: &Keys) -> u32 {
    if function.kind() != HashKind::User {
        return function.kind().bits();
    }
    let all = drawn.iter().fold(0, |all, key| all | function.hash(key));
    (64 - all.leading_zeros()).next_multiple_of(8).clamp(8, 64)
}

/// Reads keys into batches for all of `takers`.
fn feed<E>(takers: &[SyncSender<Arc<Keys>>], skip: &Skip, each: &mut EachKey<'_, E>) -> Result<(), StudyError<E>> {
    let mut batch = Keys::new();
    let mut row = 0;
    let send = |batch: &mut Keys| {
        let batch = Arc::new(std::mem::take(batch));
        for taker in takers {
            // One that has gone has panicked, which its join tells.
            let _ = taker.send(Arc::clone(&batch));
        }
    };
    each(&mut |key| {
        let skipped = skip.has(row);
        row += 1;
        if skipped {
            return;
        }
        batch.push(key);
        if batch.len() >= BATCH_KEYS || batch.bytes() >= BATCH_BYTES {
            send(&mut batch);
        }
    })
    .map_err(StudyError::Keys)?;
    send(&mut batch);
    Ok(())
}

/// What one thread does.
fn work_through<W>(
    mut works: Vec<(usize, W)>,
    batches: &Receiver<Arc<Keys>>,
    step: &(impl Fn(&mut W, &Keys) + Sync),
) -> Vec<(usize, W)> {
    for batch in batches {
        works.iter_mut().for_each(|(_, work)| step(work, &batch));
    }
    works
}

/// Which bucket a hash is of.
#[derive(Clone, Copy)]
enum Table {
    Bits(u32),
    Count(u64),
}

impl Table {
    fn buckets(self) -> u64 {
        match self {
            Table::Bits(bits) => 1 << bits,
            Table::Count(buckets) => buckets,
        }
    }

    #[inline]
    fn bucket(self, hash: u64) -> usize {
        match self {
            Table::Bits(bits) => (hash & ((1 << bits) - 1)) as usize,
            Table::Count(buckets) => (hash % buckets) as usize,
        }
    }
}

/// How one function spreads the keys.
struct Spread {
    levels: Vec<Level>,
    fullest: usize,
}

impl Spread {
    fn of(mut counts: Counts, table: Table) -> Spread {
        let fullest = counts.fullest();
        let joins = matches!(table, Table::Bits(_));
        let mut levels = vec![measure::level(&counts, joins)];
        while joins && levels.len() < LEVELS as usize && counts.len() > 1 << BITS_MIN {
            counts.fold();
            levels.push(measure::level(&counts, joins));
        }
        Spread { levels, fullest }
    }
}

#[cfg(test)]
mod tests;
