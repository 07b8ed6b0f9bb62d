//! The check of a whole dictionary; it names every fault.
//!
//! First it compares all pages with their checksums, and these with the footer's. If the pages are intact, it checks
//! all records: their order, number and lengths, that keys are unique, and that the filter, the index and the starts of
//! the pages lead to each record. Finally it checks that the padding between the parts of the file is zeros.
//!
//! Long values are only read as pages, 1 MiB at a time; the check of records skips them.
//!
//! ```text
//! page_faults.rs   checksums     heads.rs   starts     counted.rs   sums, for the footer and the filter
//! parts.rs     both passes, parts in parallel: is anything wrong?
//! mod.rs       where the faults are: the records in order, once more, with a name for each fault
//! ```

mod counted;
mod heads;
mod page_faults;
mod parts;

use super::format::layout::Order;
use super::handle::Dictionary;
use super::read::file::DictionaryFile;
use super::read::walk::Walk;
use super::run::{FarSource, Run};
use super::shards::manifest::Manifest;
use crate::error::{ErrorKind, Result, quote};
use crate::fault::{Fault, stopped};
use counted::Counted;
use heads::Heads;
use parts::{RecordPart, RecordSums, check_pages, check_records, fit_together, page_parts, record_parts, watched};
use std::ops::{ControlFlow, Range};

/// The most faults that are described; further ones are only counted.
const FAULTS_MAX: usize = 1000;

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Bytes of data read so far, in both passes.
    pub bytes: u64,
    /// The number of bytes to read. A file with faults is read a third time, which is not included.
    pub bytes_total: u64,
}

impl Dictionary {
    /// Reads everything and names every fault: wrong checksums, records out of order or duplicated, wrong counts, keys
    /// that the index does not lead to or the filter excludes, padding that is not zero.
    ///
    /// Costs two passes over the data, with one thread per processor, and a third over files with faults. Values of 1
    /// MiB or more are read only in the first pass, piece by piece. With the index `chunk`, all records of a chunk are
    /// in memory, and records of varying size are checked by one thread.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the check cannot continue. Faults are in the result.
    pub fn verify(&self) -> Result<Vec<Fault>> {
        self.verify_with(0, |_| ControlFlow::Continue(()))
    }

    /// [`verify`](Self::verify) with this number of threads; 0: one per processor. `progress` is called in this thread
    /// about every MiB, and may stop the check.
    ///
    /// # Errors
    /// The errors of [`verify`](Self::verify); [`ErrorKind::Stopped`].
    pub fn verify_with(
        &self,
        threads: usize,
        mut progress: impl FnMut(VerifyProgress) -> ControlFlow<()>,
    ) -> Result<Vec<Fault>> {
        let data_bytes = self.files.iter().map(|file| file.pages.count() * u64::from(file.header.page_bytes)).sum();
        let mut read_bytes = 0;
        let mut read = |bytes: u64| {
            read_bytes += bytes;
            let bytes_total = 2 * data_bytes;
            match progress(VerifyProgress { bytes: read_bytes.min(bytes_total), bytes_total }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(stopped()),
            }
        };
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count,
        };
        let mut checks: Vec<Check<'_>> = (0..self.files.len()).map(|number| Check::new(self, number)).collect();
        let work = Work { threads, bytes: data_bytes };
        work.check_pages(&mut checks, &mut read)?;
        let doubtful = work.check_records(&checks, &mut read)?;
        for (check, doubtful) in checks.iter_mut().zip(doubtful) {
            if doubtful {
                check.records(&mut read)?;
            }
            check.padding()?;
        }
        Ok(checks.into_iter().flat_map(|check| check.finish(self.manifest.is_some())).collect())
    }
}

#[cfg(test)]
impl Dictionary {
    /// Whether the parallel check of records finds nothing wrong, and the number of parts.
    pub(crate) fn is_well_in_parts(&self, threads: usize) -> (bool, usize) {
        let mut checks: Vec<Check<'_>> = (0..self.files.len()).map(|number| Check::new(self, number)).collect();
        checks.iter_mut().for_each(|check| check.pages_are_whole = true);
        let parts = |check: &Check<'_>| record_parts(check.file, 0, threads).unwrap().map_or(0, |parts| parts.len());
        let count = checks.iter().map(parts).sum();
        let doubtful = Work { threads, bytes: 0 }.check_records(&checks, &mut |_| Ok(())).unwrap();
        (!doubtful.contains(&true), count)
    }
}

/// The work on all files, which threads share.
struct Work {
    threads: usize,
    /// Bytes of all files.
    bytes: u64,
}

impl Work {
    fn check_pages(&self, checks: &mut [Check<'_>], read: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let mut parts: Vec<(&DictionaryFile, Range<u64>)> = Vec::new();
        let mut counts = Vec::new();
        for check in &*checks {
            let of_file = page_parts(check.file, self.bytes, self.threads);
            counts.push(of_file.len());
            parts.extend(of_file.into_iter().map(|pages| (check.file, pages)));
        }
        let work =
            |(file, pages): (&DictionaryFile, Range<u64>), ticker: &parts::Ticker<'_>| check_pages(file, pages, ticker);
        let mut done = watched(self.threads, parts, read, work)?.into_iter();
        for (check, count) in checks.iter_mut().zip(counts) {
            let of_file: Vec<_> = done.by_ref().take(count).collect();
            for (page, stored, computed) in of_file.iter().flat_map(|part| &part.differ) {
                let what = format!("checksum {stored:08x} is stored, {computed:08x} computed");
                check.fault(format!("page {page}"), what);
            }
            if page_faults::joined(&of_file) != check.file.footer.data_checksum && check.faults.is_empty() {
                check.fault("footer", "the pages are not those it was written for");
            }
            check.pages_are_whole = check.faults.is_empty();
        }
        Ok(())
    }

    /// Returns for each file whether its records must be checked in order.
    fn check_records(&self, checks: &[Check<'_>], read: &mut dyn FnMut(u64) -> Result<()>) -> Result<Vec<bool>> {
        let mut parts: Vec<(&Check<'_>, RecordPart)> = Vec::new();
        let mut counts = Vec::new();
        for check in checks {
            // An index that contradicts itself is reported as such, instead of the records it is wrong about.
            let divided = check.pages_are_whole && check.file.check_indexes().is_ok();
            let of_file = if divided { record_parts(check.file, self.bytes, self.threads) } else { Ok(None) };
            let of_file = match of_file {
                // Changed since its pages were compared: the check in order reports that, too.
                Err(error) if error.kind() == ErrorKind::Corrupt => None,
                of_file => of_file?,
            };
            counts.push(of_file.as_ref().map(Vec::len));
            parts.extend(of_file.into_iter().flatten().map(|part| (check, part)));
        }
        let work = |(check, part): (&Check<'_>, RecordPart), ticker: &parts::Ticker<'_>| {
            check_records(check.file, check.shard, part, ticker)
        };
        let mut done = watched(self.threads, parts, read, work)?.into_iter();
        let doubtful = |(check, count): (&Check<'_>, Option<usize>)| {
            let Some(count) = count else { return check.pages_are_whole };
            let of_file: Vec<Option<RecordSums>> = done.by_ref().take(count).collect();
            !fit_together(check.file, of_file)
        };
        Ok(checks.iter().zip(counts).map(doubtful).collect())
    }
}

/// The check of one file.
struct Check<'d> {
    file: &'d DictionaryFile,
    /// For a directory: which shard it is.
    shard: Option<(&'d Manifest, usize)>,
    pages_are_whole: bool,
    faults: Vec<Fault>,
    more: u64,
}

impl<'d> Check<'d> {
    fn new(dictionary: &'d Dictionary, number: usize) -> Self {
        let shard = dictionary.manifest.as_ref().map(|manifest| (manifest, dictionary.numbers[number]));
        Check { file: &dictionary.files[number], shard, pages_are_whole: false, faults: Vec::new(), more: 0 }
    }

    fn finish(mut self, is_shard: bool) -> Vec<Fault> {
        if self.more > 0 {
            self.faults.push(Fault { place: "and".into(), what: format!("{} more", self.more) });
        }
        if is_shard {
            let name = self.file.path.file_name().unwrap_or_default().to_string_lossy();
            self.faults.iter_mut().for_each(|fault| fault.place = format!("{name}: {}", fault.place));
        }
        self.faults
    }

    fn fault(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { place: place.into(), what: what.into() });
        } else {
            self.more += 1;
        }
    }

    fn padding(&mut self) -> Result<()> {
        self.file.padding_faults()?.into_iter().for_each(|what| self.fault("padding", what));
        Ok(())
    }

    /// Checks the records in order, with a name for each fault.
    fn records(&mut self, read: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        if let Err(what) = self.file.check_indexes() {
            self.fault("index", what);
        }
        let mut run = Run::default();
        let mut counted = Counted::default();
        let mut last: Option<(u64, Vec<u8>)> = None;
        let mut walk = Walk::as_they_lie(self.file).leaving_far_values(FarSource::Old);
        let mut heads = self.file.pages.has_starts().then(|| Heads::new(self.file, 0));
        loop {
            read(run.bytes.len() as u64)?;
            let first = walk.rank();
            match walk.next(&mut run) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    self.fault("records", error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
            for (index, cell) in walk.cells().iter().enumerate() {
                if let Some(heads) = &mut heads {
                    heads.cell(cell.start, &mut |page| self.page_fault(page))?;
                }
                let rank = first + index as u64;
                if self.shard.is_some_and(|(manifest, shard)| manifest.shard_of(run.key(index)) != shard) {
                    self.fault(
                        format!("record {rank}"),
                        format!("its key {} is another shard's", quote(run.key(index))),
                    );
                }
                if !self.file.may_have(self.file.ask_filter(run.positions[index])) {
                    let key = quote(run.key(index));
                    self.fault(format!("record {rank}"), format!("the filter excludes its key {key}"));
                }
                if !self.file.leads_to(run.positions[index], rank, cell) {
                    let key = quote(run.key(index));
                    self.fault(format!("record {rank}"), format!("the index does not lead to its key {key}"));
                }
            }
            counted.lengths(&run);
            if self.file.header.order != Order::Hash {
                run.sort();
            }
            self.order(&run, &mut last);
            counted.positions(&run.positions);
        }
        if let Some(mut heads) = heads {
            heads.finish(self.file.pages.stream_bytes(), &mut |page| self.page_fault(page))?;
        }
        if let Some((.., keys)) = self.file.filter()
            && keys != counted.positions
        {
            self.fault("filter", format!("it is for {keys} hashes, the records have {}", counted.positions));
        }
        if !counted.agrees_with(&self.file.footer) {
            self.fault("footer", "its sums of lengths are not those of the records");
        }
        Ok(())
    }

    fn page_fault(&mut self, page: u64) {
        self.fault(format!("page {}", page + 1), "its starts are not those of its records");
    }

    fn order(&mut self, run: &Run, last: &mut Option<(u64, Vec<u8>)>) {
        let mut before = last.as_ref().map(|(position, key)| (*position, &key[..]));
        for (index, position) in run.positions.iter().enumerate() {
            let this = (*position, run.key(index));
            if before.is_some_and(|before| before >= this) {
                let what = if before == Some(this) { "is there twice" } else { "is out of order" };
                self.fault(format!("key {}", quote(this.1)), what);
            }
            before = Some(this);
        }
        *last = before.map(|(position, key)| (position, key.to_vec()));
    }
}
