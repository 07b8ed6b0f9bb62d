//! Lookups in a dictionary: by one thread or several, of present or absent keys, one by one or many per call.
//!
//! Each thread generates its keys before the clock starts. Values are generated again for the comparison, under the
//! clock, which takes 5 ns for a small value and 50 ns for one of 1,000 bytes.

use crate::engine::{Made, Outcome, Reader};
use crate::input::Source;
use crate::measure::Stopwatch;
use crate::random::Order;
use std::hint::black_box;
use std::sync::Barrier;

/// Seed of the order of lookups.
const SEED: u64 = 13;

/// The keys to look up, and how.
#[derive(Clone, Copy)]
pub struct Lookups {
    /// Threads that share them.
    pub threads: usize,
    /// Lookups of all threads together.
    pub count: u64,
    /// Keys per call.
    pub batch: usize,
    /// Absent keys instead of present ones.
    pub absent: bool,
    /// Whether the dictionary is mapped, if there is a choice: the default of opening one on a local disk.
    pub map: bool,
    /// Whether the page cache initially holds none of it.
    pub cold: bool,
    /// Whether the same lookups were made before, untimed.
    pub again: bool,
}

impl Default for Lookups {
    fn default() -> Self {
        Lookups { threads: 1, count: 0, batch: 1, absent: false, map: true, cold: false, again: false }
    }
}

/// The keys of one thread.
struct Keys {
    numbers: Vec<u64>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    fn new(source: &Source, numbers: impl Iterator<Item = u64>) -> Keys {
        let mut keys = Keys { numbers: Vec::new(), bytes: Vec::new(), ends: vec![0] };
        for i in numbers {
            keys.numbers.push(i);
            source.write_key(i, &mut keys.bytes);
            keys.ends.push(keys.bytes.len());
        }
        keys
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.ends[at]..self.ends[at + 1]]
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl Lookups {
    /// Returns the keys of thread `thread`.
    fn keys(&self, source: &Source, thread: usize) -> Keys {
        let (threads, thread) = (self.threads as u64, thread as u64);
        let share = self.count * thread / threads..self.count * (thread + 1) / threads;
        let order = Order::new(source.count(), SEED);
        // Pairs from the count on belong to updates; the ones after those were never put.
        let number = |i| if self.absent { 2 * source.count() + i } else { order.at(i) };
        Keys::new(source, share.map(number))
    }

    /// Runs all lookups and compares the answers.
    pub fn run(&self, name: &str, source: &Source, made: &dyn Made) -> Outcome<Stopwatch> {
        let keys: Vec<Keys> = (0..self.threads).map(|thread| self.keys(source, thread)).collect();
        let mut watch = Stopwatch::default();
        let wrong = if let [keys] = &keys[..] {
            let mut reader = made.reader()?;
            let running = Stopwatch::start()?;
            let wrong = self.one(&mut *reader, source, keys)?;
            watch.stop(&running)?;
            wrong
        } else {
            let ready = Barrier::new(self.threads + 1);
            std::thread::scope(|scope| {
                let crew: Vec<_> = keys
                    .iter()
                    .map(|keys| {
                        let ready = &ready;
                        scope.spawn(move || -> Result<Wrong, String> {
                            let reader = made.reader();
                            ready.wait();
                            let mut reader = reader.map_err(|e| e.to_string())?;
                            self.one(&mut *reader, source, keys).map_err(|e| e.to_string())
                        })
                    })
                    .collect();
                let running = Stopwatch::start()?;
                ready.wait();
                let wrongs: Vec<_> = crew.into_iter().map(|thread| thread.join().expect("no panic")).collect();
                watch.stop(&running)?;
                let mut all = Wrong::default();
                for wrong in wrongs {
                    let wrong = wrong?;
                    all = Wrong { count: all.count + wrong.count, first: all.first.or(wrong.first) };
                }
                Outcome::Ok(all)
            })?
        };
        match wrong.first {
            Some(first) => {
                Err(format!("{name}: {} wrong answers among {}, of pair {first} first", wrong.count, self.count).into())
            }
            None => Ok(watch),
        }
    }

    /// Runs one thread's share.
    fn one(&self, reader: &mut dyn Reader, source: &Source, keys: &Keys) -> Outcome<Wrong> {
        let mut wrong = Wrong::default();
        let mut check = |at: usize, found: Option<&[u8]>| {
            let i = keys.numbers[at];
            let right = found.map_or(self.absent, |value| !self.absent && source.is_value(i, value));
            if !right {
                wrong = Wrong { count: wrong.count + 1, first: wrong.first.or(Some(i)) };
            }
        };
        if self.batch == 1 {
            for at in 0..keys.len() {
                check(at, reader.get(keys.get(at))?);
            }
            return Ok(wrong);
        }
        let mut batch = Vec::with_capacity(self.batch);
        for first in (0..keys.len()).step_by(self.batch) {
            batch.clear();
            batch.extend((first..keys.len().min(first + self.batch)).map(|at| keys.get(at)));
            // A duplicate or missing answer is a wrong one.
            let mut next = 0;
            reader.get_many(&batch, &mut |i, found| {
                check(first + i, if i == next { found } else { None });
                next += 1;
            })?;
            if next != batch.len() {
                return Err(format!("{next} answers to {} keys", batch.len()).into());
            }
        }
        Ok(wrong)
    }

    /// Times ranks in shuffled order, by one thread; their correctness was checked before.
    pub fn ranks(&self, source: &Source, made: &dyn Made) -> Outcome<Stopwatch> {
        let (keys, mut reader, mut watch) = (self.keys(source, 0), made.reader()?, Stopwatch::default());
        let running = Stopwatch::start()?;
        for at in 0..keys.len() {
            black_box(reader.get(keys.get(at))?);
        }
        watch.stop(&running)?;
        Ok(watch)
    }
}

/// Number of wrong answers, and the index of the first.
#[derive(Clone, Copy, Default)]
struct Wrong {
    count: u64,
    first: Option<u64>,
}

/// Checks that the ranks of all keys are exactly the numbers below the count.
pub fn check_ranks(source: &Source, made: &dyn Made) -> Outcome {
    let (mut reader, mut key) = (made.reader()?, Vec::new());
    let mut taken = vec![0_u64; source.count().div_ceil(64).try_into()?];
    for i in 0..source.count() {
        key.clear();
        source.write_key(i, &mut key);
        let rank = match reader.get(&key)?.map(<[u8; 8]>::try_from) {
            Some(Ok(bytes)) => u64::from_le_bytes(bytes),
            _ => return Err(format!("key {i} has no rank").into()),
        };
        if rank >= source.count() {
            return Err(format!("key {i} has rank {rank} of {}", source.count()).into());
        }
        let (word, bit) = (&mut taken[(rank / 64) as usize], 1 << (rank % 64));
        if *word & bit != 0 {
            return Err(format!("key {i} has rank {rank}, which another key has").into());
        }
        *word |= bit;
    }
    Ok(())
}
