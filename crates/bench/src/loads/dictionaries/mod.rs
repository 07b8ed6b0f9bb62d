//! Dictionaries: built from all pairs together, read by one thread and several, changed in batches.
//!
//! The tables and figures of "Practical Batch-Updatable External Hashing with Sorting" (Lim, Andersen & Kaminsky
//! 2013), for our dictionaries and for peers. The result is on the disk when the clock stops; a sort that a peer needs
//! is timed. Each value is compared, each absent key must be absent, each rank must be a distinct number below the key
//! count, and the input must have the workload file's digest.
//!
//! Not here: lookups (`lookups.rs`), sources of pairs (`pairs.rs`), files and the page cache (`disk.rs`).

mod disk;
mod lookups;
mod pairs;
#[cfg(test)]
mod tests;

use super::pairs::{answers, typical};
use super::{Job, compare};
use crate::engine::{Made, Maker, Making, Outcome, Pairs};
use crate::input::Source;
use crate::measure::{Memory, Stopwatch};
use crate::row::Lines;
use crate::workload::Part;
use lookups::Lookups;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Batches of the parts with batches: one built and five merged, as in the paper.
const BATCHES: u64 = 6;
/// Lookups that check the result of a part that does no lookups itself.
const CHECKS: u64 = 10_000;

/// A running job and its measurements.
struct Load<'a> {
    job: &'a Job<'a>,
    maker: &'a dyn Maker,
    source: &'a Source,
    repeat: u32,
    /// Name and operations of each part, and the stopwatches of all repeats.
    took: Vec<(String, u64, Vec<Stopwatch>)>,
    /// Other figures: part, metric, sum and count.
    figures: Vec<(String, String, f64, u32)>,
}

/// Runs the parts of the job, as often as the form says.
pub(super) fn run(job: &Job<'_>) -> Outcome<Lines> {
    let case = &job.case;
    let maker = case.engine.maker().ok_or_else(|| format!("{} makes no dictionaries", case.engine.name()))?;
    disk::require_free(job.directory, case.form.free_disk_bytes)?;
    compare("input", &answers(&case.workload.input, &case.form)?, &case.form)?;
    let source = Source::new(&case.workload.input, case.form.count)?;
    let mut load = Load { job, maker, source: &source, repeat: 0, took: Vec::new(), figures: Vec::new() };
    if case.variant.from_file {
        load.write_input()?;
    }
    for repeat in 0..case.form.repeats.max(1) {
        load.repeat = repeat;
        job.parts.iter().try_for_each(|part| load.part(*part))?;
        disk::remove(&load.path())?;
    }
    let mut lines = Lines::default();
    for (part, metric, sum, count) in &load.figures {
        lines.row(part, metric, sum / f64::from(*count));
    }
    for (name, ops, watches) in &mut load.took {
        lines.took(name, *ops, &typical(watches));
    }
    Ok(lines)
}

impl Load<'_> {
    fn path(&self) -> PathBuf {
        self.job.directory.join("dictionary")
    }

    fn input_path(&self) -> PathBuf {
        self.job.directory.join("input")
    }

    fn part(&mut self, part: Part) -> Outcome {
        let setting = &self.job.case.setting;
        let (is_function, maps) = (self.maker.is_function(setting), self.maker.maps());
        let count = self.source.count();
        let one = Lookups { count: self.job.case.form.lookups.unwrap_or(count).min(count), ..Lookups::default() };
        let many = Lookups { batch: self.job.batch, ..one };
        let two = Lookups { threads: 2, ..one };
        let cold = Lookups {
            threads: 16,
            count: self.job.case.form.cold_lookups.unwrap_or(one.count / 10).clamp(1, count),
            cold: true,
            ..one
        };
        let absent = |lookups: Lookups| Lookups { absent: true, ..lookups };
        let pread = |lookups: Lookups| Lookups { map: false, ..lookups };
        match part {
            Part::Build => self.build(),
            Part::Figures if !self.job.case.engine.is_baseline() => self.figures(),
            Part::Ranks if is_function => self.ranks(one),
            Part::UpdateTenth if self.maker.updates() => self.update_tenth(),
            Part::UpdateBatches if self.maker.updates() => self.update_batches(),
            Part::RebuildBatches => self.rebuild_batches(),
            Part::Copy if self.maker.updates() => self.copy(),
            Part::Ranks | Part::UpdateTenth | Part::UpdateBatches | Part::Copy => Ok(()),
            _ if is_function || self.job.case.engine.is_baseline() => Ok(()),
            Part::Get => self.lookups("get", one),
            Part::GetMany => self.lookups("get-many", many),
            Part::GetAgain => self.lookups("get-again", Lookups { again: true, ..one }),
            Part::GetManyAgain => self.lookups("get-many-again", Lookups { again: true, ..many }),
            Part::GetByTwo => self.lookups("get-by-two", two),
            Part::Miss if self.maker.knows_absent(setting) => self.lookups("miss", absent(one)),
            Part::MissMany if self.maker.knows_absent(setting) => self.lookups("miss-many", absent(many)),
            Part::Miss | Part::MissMany => Ok(()),
            Part::GetCold => self.lookups("get-cold", cold),
            Part::GetManyCold => self.lookups("get-many-cold", Lookups { batch: self.job.batch, threads: 1, ..cold }),
            Part::GetPread if maps => self.lookups("get-pread", pread(one)),
            Part::GetManyPread if maps => self.lookups("get-many-pread", pread(many)),
            Part::MissPread if maps => self.lookups("miss-pread", pread(absent(one))),
            Part::GetColdPread if maps => self.lookups("get-cold-pread", pread(cold)),
            Part::GetPread | Part::GetManyPread | Part::MissPread | Part::GetColdPread => Ok(()),
            _ => Err("a part of stores, not of dictionaries".into()),
        }
    }

    /// Returns the options for the dictionary of `count` pairs at `path`.
    fn making<'p>(&'p self, path: &'p Path, count: u64) -> Making<'p> {
        let form = &self.job.case.form;
        Making {
            path,
            setting: &self.job.case.setting,
            expected_len: count,
            payload_bytes: form.expected.payload_bytes / form.expected.pairs.max(1) * count,
            seed: self.repeat.into(),
        }
    }

    /// Returns the pairs of these numbers, from the variant's source.
    fn pairs(&self, numbers: Range<u64>) -> Box<dyn Pairs + '_> {
        Box::new(pairs::Made { source: self.source, numbers })
    }

    /// Writes all pairs to a file and evicts it from the page cache.
    fn write_input(&self) -> Outcome {
        let path = self.input_path();
        let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(&path)?);
        self.pairs(0..self.source.count()).each(&mut |key, value| disk::write_pair(&mut file, (key, value)))?;
        std::io::Write::flush(&mut file)?;
        disk::drop_cache(&path)
    }

    /// Builds the first dictionary and measures time, memory and disk.
    fn build(&mut self) -> Outcome {
        let (path, count) = (self.path(), self.source.count());
        disk::remove(&path)?;
        let before = Memory::now()?;
        Memory::forget_peak()?;
        let there = disk::bytes_at(self.job.directory);
        let disk_watch = disk::Watch::start(self.job.directory);
        let sorting = self.built("build", &path, 0..count)?;
        let most = disk_watch.most().saturating_sub(there);
        let peak = Memory::now()?.peak.saturating_sub(before.rss);
        let bytes = disk::bytes_at(&path);
        self.note_figure("memory", "peak_bytes", peak as f64);
        if path.exists() {
            self.note_figure("file", "built_bytes", bytes as f64);
            self.note_figure("file", "most_bytes", most.max(bytes) as f64);
            self.note_figure("file", "temporary_bytes", most.saturating_sub(bytes) as f64);
        }
        if path.exists() && !self.maker.is_function(&self.job.case.setting) {
            let over = bytes as f64 - self.job.case.form.expected.payload_bytes as f64;
            self.note_figure("file", "over_payload_bytes_per_pair", over / count.max(1) as f64);
        }
        if let Some(sorting) = sorting {
            self.note("sort", count, sorting);
        }
        Ok(())
    }

    /// Builds a dictionary of the pairs of these numbers, sorted first if required; returns the time of the sort alone.
    fn built(&mut self, name: &str, path: &Path, numbers: Range<u64>) -> Outcome<Option<Stopwatch>> {
        let count = numbers.end - numbers.start;
        let input = self.input_path();
        let mut from: Box<dyn Pairs> = if self.job.case.variant.from_file {
            Box::new(pairs::Filed { path: &input, count })
        } else {
            self.pairs(numbers)
        };
        let making = self.making(path, count);
        let (mut whole, mut sorting) = (Stopwatch::default(), None);
        let running = Stopwatch::start()?;
        if self.maker.wants_order() {
            let mut watch = Stopwatch::default();
            let running = Stopwatch::start()?;
            from = Box::new(pairs::Sorted::of(&mut *from, count, making.payload_bytes)?);
            watch.stop(&running)?;
            sorting = Some(watch);
        }
        self.maker.build(&making, &mut *from)?;
        whole.stop(&running)?;
        drop(from);
        self.note(name, count, whole);
        Ok(sorting)
    }

    fn figures(&mut self) -> Outcome {
        let before = Memory::now()?;
        let made = self.open(&self.path(), false)?;
        let memory = Memory::now()?.anonymous.saturating_sub(before.anonymous);
        self.note_figure("memory", "open_bytes", memory as f64);
        for (name, value) in made.figures()? {
            if name == "pairs" && value != self.source.count() as f64 {
                return Err(format!("{value} pairs, not {}", self.source.count()).into());
            }
            self.note_figure("index", &name, value);
        }
        Ok(())
    }

    fn open(&self, path: &Path, map: bool) -> Outcome<Box<dyn Made>> {
        self.maker.open(path, &self.job.case.setting, map)
    }

    /// Runs the lookups of a part, in the built dictionary.
    fn lookups(&mut self, name: &str, lookups: Lookups) -> Outcome {
        let path = self.path();
        if lookups.cold {
            disk::drop_cache(self.job.directory)?;
        }
        let made = self.open(&path, lookups.map)?;
        if lookups.batch > 1 && !made.reader()?.has_batches() {
            return Ok(());
        }
        if lookups.again {
            lookups.run(name, self.source, &*made)?;
        }
        let disk_before = disk::disk_reads();
        let watch = lookups.run(name, self.source, &*made)?;
        let disk_bytes = disk::disk_reads() - disk_before;
        if lookups.cold {
            self.note_figure(name, "disk_bytes_per_get", disk_bytes as f64 / lookups.count as f64);
        }
        self.note_figure(
            name,
            "ns_per_get",
            watch.wall.as_nanos() as f64 * lookups.threads as f64 / lookups.count as f64,
        );
        self.note(name, lookups.count, watch);
        Ok(())
    }

    /// Checks that every key has a distinct rank; times ranks in shuffled order.
    fn ranks(&mut self, lookups: Lookups) -> Outcome {
        let made = self.open(&self.path(), false)?;
        lookups::check_ranks(self.source, &*made)?;
        let watch = lookups.ranks(self.source, &*made)?;
        self.note_figure("ranks", "ns_per_get", watch.wall.as_nanos() as f64 / lookups.count as f64);
        self.note("ranks", lookups.count, watch);
        Ok(())
    }

    fn updated_path(&self) -> PathBuf {
        self.job.directory.join("updated")
    }

    /// Adds a tenth as many new pairs.
    fn update_tenth(&mut self) -> Outcome {
        let (old, new, count) = (self.path(), self.updated_path(), self.source.count());
        let more = (count / 10).max(1);
        let before = Memory::now()?;
        Memory::forget_peak()?;
        let disk_watch = disk::Watch::start(self.job.directory);
        let watch = self.update(&old, &new, count..count + more)?;
        let most = disk_watch.most();
        let peak = Memory::now()?.peak.saturating_sub(before.rss);
        self.note_figure("memory", "update_peak_bytes", peak as f64);
        // Includes the old file.
        self.note_figure("file", "update_most_bytes", most.max(disk::bytes_at(&old) + disk::bytes_at(&new)) as f64);
        self.note("update-tenth", count + more, watch);
        self.check(&new, count + more)
    }

    fn update(&self, old: &Path, new: &Path, numbers: Range<u64>) -> Outcome<Stopwatch> {
        let making = self.making(new, numbers.end - numbers.start);
        let mut from = self.pairs(numbers);
        let mut watch = Stopwatch::default();
        let running = Stopwatch::start()?;
        self.maker.update(old, &making, &mut *from)?;
        watch.stop(&running)?;
        Ok(watch)
    }

    /// Times the copy of as many bytes as the update wrote.
    fn copy(&mut self) -> Outcome {
        let (updated, copied) = (self.updated_path(), self.job.directory.join("copied"));
        let from = if updated.exists() { updated.clone() } else { self.path() };
        if from == updated {
            disk::remove(&self.path())?; // two large files at a time are enough
        }
        let mut watch = Stopwatch::default();
        let running = Stopwatch::start()?;
        disk::copy(&from, &copied)?;
        watch.stop(&running)?;
        self.note("copy", 0, watch);
        disk::remove(&copied)?;
        disk::remove(&updated)
    }

    /// Returns the number of pairs after each batch.
    fn batch_ends(&self) -> Vec<u64> {
        (1..=BATCHES).map(|i| self.source.count() * i / BATCHES).collect()
    }

    fn update_batches(&mut self) -> Outcome {
        let (mut old, mut new) = (self.path(), self.updated_path());
        let ends = self.batch_ends();
        disk::remove(&old)?;
        self.built("step-1", &old, 0..ends[0])?;
        for (i, numbers) in ends.windows(2).enumerate() {
            let watch = self.update(&old, &new, numbers[0]..numbers[1])?;
            self.note(&format!("step-{}", i + 2), numbers[1], watch);
            disk::remove(&old)?;
            std::mem::swap(&mut old, &mut new);
        }
        self.note_all_steps();
        self.check(&old, self.source.count())?;
        disk::remove(&old)
    }

    fn rebuild_batches(&mut self) -> Outcome {
        let path = self.path();
        for (i, end) in self.batch_ends().into_iter().enumerate() {
            disk::remove(&path)?;
            self.built(&format!("step-{}", i + 1), &path, 0..end)?;
        }
        self.note_all_steps();
        self.check(&path, self.source.count())?;
        disk::remove(&path)
    }

    fn note_all_steps(&mut self) {
        let last = |(_, _, watches): &(String, u64, Vec<Stopwatch>)| watches.last().cloned().unwrap_or_default();
        let steps = self.took.iter().filter(|(name, ..)| name.starts_with("step-"));
        let all = steps.map(last).fold(Stopwatch::default(), |all, step| all.and(&step));
        self.note("all-steps", self.source.count(), all);
    }

    /// Checks that the dictionary at `path` has exactly the first `count` pairs: all if few, a sample if many.
    fn check(&self, path: &Path, count: u64) -> Outcome {
        if self.job.case.engine.is_baseline() || self.maker.is_function(&self.job.case.setting) {
            return Ok(());
        }
        let made = self.open(path, false)?;
        let found = made.figures()?.into_iter().find(|(name, _)| name == "pairs").map(|(_, value)| value as u64);
        if found.is_some_and(|found| found != count) {
            return Err(format!("{found:?} pairs, not {count}").into());
        }
        let mut reader = made.reader()?;
        let mut key = Vec::new();
        let step = (count / CHECKS).max(1) as usize;
        for i in (0..count).step_by(step) {
            key.clear();
            self.source.write_key(i, &mut key);
            let right = reader.get(&key)?.is_some_and(|value| self.source.is_value(i, value));
            if !right {
                return Err(format!("pair {i} of {count} is missing or has another value").into());
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &str, ops: u64, watch: Stopwatch) {
        match self.took.iter_mut().find(|(n, ..)| n == name) {
            Some((_, _, watches)) => watches.push(watch),
            None => self.took.push((name.to_owned(), ops, vec![watch])),
        }
    }

    /// Notes a figure; its mean over repeats is reported.
    fn note_figure(&mut self, part: &str, metric: &str, value: f64) {
        match self.figures.iter_mut().find(|(p, m, ..)| p == part && m == metric) {
            Some((_, _, sum, count)) => (*sum, *count) = (*sum + value, *count + 1),
            None => self.figures.push((part.to_owned(), metric.to_owned(), value, 1)),
        }
    }
}
