//! A study: how each hash function spreads given keys, over tables of several sizes.
//!
//! ```text
//! survey    one pass: number and length of keys, duplicates, a random sample       survey.rs
//! try       on the sample: do the user's functions depend on the key alone?        purity.rs
//! count     bucket sizes; one pass for as many functions as memory has counts for  counts.rs
//! measure   histogram, probes, chi-square, layouts; then with half the buckets     measure.rs, chance.rs
//! find      one pass: keys in the largest bucket of each function
//! sample    avalanche and speed, on the sampled keys                               avalanche.rs, speed.rs
//! advise    rank the functions, recommend one                                      advice.rs
//! ```
//!
//! Every pass reads the keys from the start and holds only batches of them, so keys may exceed memory. One thread
//! reads. Each other thread has its own functions and shares no state, so all figures except times are reproducible.
//!
//! Source: Lever 2000, Section 2.

mod advice;
mod avalanche;
mod chance;
mod counts;
mod integers;
mod measure;
mod purity;
mod speed;
mod survey;

pub use advice::{Advice, Class};
pub use avalanche::Avalanche;
pub use integers::IntegerFunction;
pub use measure::{Cost, Expected, Layouts, Level, PAGE_SLOTS, Size};
pub use purity::{Dependence, Impurity};
pub use speed::Speed;
pub use survey::{Duplicates, EXACT_KEYS_MAX, Survey};

use crate::keys::Keys;
use counts::Counts;
use splitpoint::hash::{HashFunction, HashKind};
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use survey::{Skip, Surveyor};

/// Smaller tables are not studied.
const BITS_MIN: u32 = 3;
/// Table sizes measured: the requested one, and smaller ones for the plots.
const LEVELS: u32 = 6;
/// Limits of a batch that the reading thread sends to the others.
const BATCH_KEYS: usize = 1 << 15;
const BATCH_BYTES: usize = 4 << 20;
/// Batches queued for one thread.
const WAITING: usize = 3;
/// The share of memory for counts.
const COUNTS_SHARE: f64 = 0.8;

/// The size of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// The number of keys, rounded up to a power of two.
    Auto,
    /// Two to this power; the low bits of the hash select the bucket.
    Bits(u32),
    /// This number; the remainder of the hash selects the bucket.
    Count(u64),
}

/// The parameters of a study.
#[derive(Clone, Debug)]
pub struct Study {
    /// The functions to compare.
    pub functions: Vec<HashFunction>,
    /// Functions whose times replace the times of the built-in functions with the same names.
    pub timed: Vec<HashFunction>,
    /// The size of the table.
    pub buckets: Buckets,
    /// The seed of the random sample.
    pub seed: u64,
    /// Approximate limit of memory use.
    pub memory_bytes: u64,
    /// Threads in addition to the reading one.
    pub threads: usize,
    /// The number of keys of the largest bucket to report.
    pub keys_shown: usize,
    /// Whether to measure times. Without times, two runs produce identical reports.
    pub speed: bool,
}

impl Default for Study {
    /// All functions of the package, an automatic table size, 1 GiB of memory, all processors.
    fn default() -> Self {
        Study {
            functions: HashKind::ALL.iter().map(|kind| HashFunction::new(*kind, 0)).collect(),
            timed: Vec::new(),
            buckets: Buckets::Auto,
            seed: 0,
            memory_bytes: 1 << 30,
            threads: std::thread::available_parallelism().map_or(1, |threads| threads.get()),
            keys_shown: 10,
            speed: true,
        }
    }
}

/// The result of a study.
#[derive(Clone, Debug)]
pub struct Report {
    /// The keys.
    pub survey: Survey,
    /// The functions, best first.
    pub functions: Vec<FunctionReport>,
    /// The recommendation.
    pub advice: Advice,
}

/// The result for one function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    /// The function.
    pub function: HashFunction,
    /// The width of its hashes in bits.
    pub bits: u32,
    /// Its spread of the keys: first over the requested table, then over smaller ones.
    pub levels: Vec<Level>,
    /// Keys of the largest bucket, in reading order.
    pub largest_keys: Vec<Vec<u8>>,
    /// `None` if too few keys have bits to flip.
    pub avalanche: Option<Avalanche>,
    /// `None` without [`Study::speed`].
    pub speed: Option<Speed>,
    /// The evenness of the spread.
    pub class: Class,
}

impl FunctionReport {
    /// Returns the level of the requested table.
    pub fn level(&self) -> &Level {
        &self.levels[0]
    }
}

/// Why a study failed.
#[derive(Debug)]
pub enum StudyError<E> {
    /// The keys could not be read.
    Keys(E),
    /// There are no keys.
    NoKeys,
    /// There are no functions to compare.
    NoFunctions,
    /// A user's function depends on more than the key.
    NoFunction {
        /// Its name.
        name: String,
        /// Other inputs that the hash depends on.
        impurity: Impurity,
    },
    /// Counts for this many buckets exceed [`Study::memory_bytes`].
    TooManyBuckets {
        /// The requested number.
        buckets: u64,
        /// The largest number that fits.
        max: u64,
    },
}

impl<E: fmt::Display> fmt::Display for StudyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(error) => error.fmt(f),
            Self::NoKeys => f.write_str("no keys"),
            Self::NoFunctions => f.write_str("no hash functions to compare"),
            Self::NoFunction { name, impurity: Impurity { key, why } } => {
                write!(
                    f,
                    "{name} is not a hash function: {why}, as that of \"{:.64}\" shows",
                    key.escape_ascii().to_string()
                )
            }
            Self::TooManyBuckets { buckets, max } => {
                write!(
                    f,
                    "{buckets} buckets take a byte each, memory allows {max}; allow more memory, or use fewer buckets"
                )
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for StudyError<E> {}

/// Passes every key to the callback. Each call starts at the first key and keeps the same order.
pub type EachKey<'k, E> = dyn FnMut(&mut dyn FnMut(&[u8])) -> Result<(), E> + 'k;

impl Study {
    /// Runs the study. O(keys x functions); memory: [`Study::memory_bytes`].
    ///
    /// Reads all keys at least three times: for the survey, for the counts (again for each group of functions that fits
    /// in memory), and for the keys of the largest buckets.
    ///
    /// # Errors
    /// [`StudyError`]: an error of `each`, no keys, a function that depends on more than the key, more buckets than fit
    /// in memory.
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
        let (survey, skip, sample) = surveyor.finish();
        if survey.rows == 0 {
            return Err(StudyError::NoKeys);
        }
        for function in self.functions.iter().filter(|function| function.kind() == HashKind::User) {
            if let Some(impurity) = purity::impurity(function, &sample) {
                return Err(StudyError::NoFunction { name: function.name().to_string(), impurity });
            }
        }
        let table = self.table(survey.objects())?;
        let mut spreads = Vec::new();
        for functions in self.functions.chunks(self.functions_at_once(table)) {
            spreads.extend(self.count(functions, table, &skip, each)?);
        }
        let largest = self.find_largest(&spreads, table, &skip, each)?;
        let functions = self.functions.iter().zip(spreads).zip(largest);
        let mut functions: Vec<_> = functions
            .map(|((function, spread), largest_keys)| self.report(function, spread, largest_keys, &sample))
            .collect();
        if self.speed {
            let timed: Vec<_> = self.functions.iter().map(|function| self.timed(function)).collect();
            let speeds = Speed::measure(&timed, &sample);
            functions.iter_mut().zip(speeds).for_each(|(report, speed)| report.speed = Some(speed));
        }
        advice::rank(&mut functions);
        let advice = advice::advise(&survey, &functions);
        Ok(Report { survey, functions, advice })
    }

    fn table<E>(&self, objects: u64) -> Result<Table, StudyError<E>> {
        let max = (self.memory_bytes as f64 * COUNTS_SHARE) as u64;
        let table = match self.buckets {
            Buckets::Auto => {
                let bits = objects.next_power_of_two().ilog2().max(BITS_MIN);
                // With more keys than memory has counts for, the table is smaller.
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

    /// Returns how many functions memory has counts for, in equal shares for the threads.
    fn functions_at_once(&self, table: Table) -> usize {
        let most = (self.memory_bytes as f64 * COUNTS_SHARE / table.buckets() as f64) as usize;
        let threads = self.threads.max(1);
        let most = most.clamp(1, self.functions.len());
        if most > threads { most / threads * threads } else { most }
    }

    /// Counts the keys in buckets for each of `functions`.
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
        // In parallel, because there can be millions of buckets.
        let slots: Vec<_> = counters.into_iter().map(|(_, counts)| Slot::new(counts)).collect();
        Ok(std::thread::scope(|scope| {
            let spread = |slot: &Slot<Counts>| Spread::of(slot.take(), table);
            let threads: Vec<_> = slots.iter().map(|slot| (slot, started(scope, move || spread(slot)))).collect();
            threads.into_iter().map(|(slot, thread)| thread.map_or_else(|| spread(slot), joined)).collect()
        }))
    }

    /// Finds keys of each function's largest bucket.
    fn find_largest<E>(
        &self,
        spreads: &[Spread],
        table: Table,
        skip: &Skip,
        each: &mut EachKey<'_, E>,
    ) -> Result<Vec<Vec<Vec<u8>>>, StudyError<E>> {
        let seekers =
            self.functions.iter().zip(spreads).map(|(function, spread)| (function, spread.largest, Vec::new()));
        let shown = self.keys_shown;
        let seekers = self.pass(seekers.collect(), skip, each, |(function, largest, found), keys| {
            for key in keys.iter() {
                if found.len() < shown && table.bucket(function.hash(key)) == *largest {
                    found.push(key.to_vec());
                }
            }
        })?;
        Ok(seekers.into_iter().map(|(_, _, found)| found).collect())
    }

    /// Makes one pass: applies `step` to all keys for each of `tasks`, which are divided among the threads. The reading
    /// thread takes over the tasks of threads that could not be started.
    fn pass<E, W: Send>(
        &self,
        tasks: Vec<W>,
        skip: &Skip,
        each: &mut EachKey<'_, E>,
        step: impl Fn(&mut W, &Keys) + Sync,
    ) -> Result<Vec<W>, StudyError<E>> {
        let threads = self.threads.clamp(1, tasks.len().max(1));
        let mut shares: Vec<Vec<(usize, W)>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, task) in tasks.into_iter().enumerate() {
            shares[index % threads].push((index, task));
        }
        let step = &step;
        let shares: Vec<_> = shares.into_iter().map(Slot::new).collect();
        std::thread::scope(|scope| {
            let mut senders = Vec::new();
            let mut running = Vec::new();
            let mut own = Vec::new();
            for share in &shares {
                let (sender, batches) = sync_channel::<Arc<Keys>>(WAITING);
                match started(scope, move || run_tasks(share.take(), &batches, step)) {
                    Some(thread) => {
                        running.push(thread);
                        senders.push(sender);
                    }
                    None => own.extend(share.take()),
                }
            }
            feed(&senders, skip, each, |keys| own.iter_mut().for_each(|(_, task)| step(task, keys)))?;
            drop(senders);
            let mut done = own;
            for thread in running {
                done.extend(joined(thread));
            }
            done.sort_by_key(|(index, _)| *index);
            Ok(done.into_iter().map(|(_, task)| task).collect())
        })
    }

    fn report(
        &self,
        function: &HashFunction,
        spread: Spread,
        largest_keys: Vec<Vec<u8>>,
        sample: &Keys,
    ) -> FunctionReport {
        let bits = bits_of(function, sample);
        FunctionReport {
            function: function.clone(),
            bits,
            class: Class::of(&spread.levels[0]),
            levels: spread.levels,
            largest_keys,
            avalanche: Avalanche::measure(function, bits, sample),
            speed: None,
        }
    }

    /// Returns the function to time instead of `function`.
    fn timed<'f>(&'f self, function: &'f HashFunction) -> &'f HashFunction {
        self.timed.iter().find(|timed| timed.name() == function.name()).unwrap_or(function)
    }
}

/// Returns the width of the hashes: that of the kind; for the user's own function, the highest bit set in the sample,
/// rounded up to a multiple of 8.
fn bits_of(function: &HashFunction, sample: &Keys) -> u32 {
    if function.kind() != HashKind::User {
        return function.kind().bits();
    }
    let all = sample.iter().fold(0, |all, key| all | function.hash(key));
    (64 - all.leading_zeros()).next_multiple_of(8).clamp(8, 64)
}

/// A thread's input; it is still here if the thread could not be started.
struct Slot<T>(Mutex<Option<T>>);

impl<T> Slot<T> {
    fn new(content: T) -> Self {
        Slot(Mutex::new(Some(content)))
    }

    fn take(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("taken once")
    }
}

/// Starts a thread that does `work`; returns `None` if the system cannot.
fn started<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().name("study".into()).spawn_scoped(scope, work).ok()
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads the keys once and passes each batch to all threads and to `own`.
fn feed<E>(
    threads: &[SyncSender<Arc<Keys>>],
    skip: &Skip,
    each: &mut EachKey<'_, E>,
    mut own: impl FnMut(&Keys),
) -> Result<(), StudyError<E>> {
    let mut batch = Keys::new();
    let mut row = 0;
    let mut send = |batch: &mut Keys| {
        let batch = Arc::new(std::mem::take(batch));
        for thread in threads {
            // A closed channel means that the thread panicked; joining it reports that.
            let _ = thread.send(Arc::clone(&batch));
        }
        own(&batch);
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

/// Runs one thread's tasks on all batches.
fn run_tasks<W>(
    mut tasks: Vec<(usize, W)>,
    batches: &Receiver<Arc<Keys>>,
    step: &(impl Fn(&mut W, &Keys) + Sync),
) -> Vec<(usize, W)> {
    for batch in batches {
        tasks.iter_mut().for_each(|(_, task)| step(task, &batch));
    }
    tasks
}

/// How a hash selects its bucket.
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

/// The spread of the keys by one function.
struct Spread {
    levels: Vec<Level>,
    largest: usize,
}

impl Spread {
    fn of(mut counts: Counts, table: Table) -> Spread {
        let largest = counts.largest();
        let joins = matches!(table, Table::Bits(_));
        let mut levels = vec![measure::level(&counts, joins)];
        while joins && levels.len() < LEVELS as usize && counts.len() > 1 << BITS_MIN {
            counts.fold();
            levels.push(measure::level(&counts, joins));
        }
        Spread { levels, largest }
    }
}

#[cfg(test)]
mod tests;
