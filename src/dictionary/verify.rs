//! The check of a whole dictionary, which names every fault.
//!
//! First it compares all pages with their checksums, and those with the footer's. If the pages are whole, it checks all
//! records: their order, number and lengths, that no key is there twice, and that the filter, the index and the starts
//! of the pages lead to each of them. At last it checks that the padding between the parts of the file is zeros.

use super::format::layout::Order;
use super::format::page::{self, CHECKSUM_BYTES, START_COUNT, StartsWriter};
use super::handle::Dictionary;
use super::read::file::DictionaryFile;
use super::read::walk::Walk;
use super::run::Run;
use super::shards::manifest::Manifest;
use crate::error::{ErrorKind, Result, quote};
use crate::fault::{Fault, Proceed, go_on};
use std::ops::ControlFlow;

/// Faults that are described; further ones are only counted.
const FAULTS_MAX: usize = 1000;
/// Pages read at once.
const READ_BYTES: u64 = 1 << 20;

struct Check<'d> {
    file: &'d DictionaryFile,
    proceed: Proceed<'d>,
    faults: Vec<Fault>,
    more: u64,
}

impl Dictionary {
    /// Reads everything and names every fault: wrong checksums, records out of order or there twice, wrong counts, keys
    /// that the index does not lead to or the filter excludes, padding that is not zero.
    ///
    /// Costs two passes over the data, the second of which reads each page twice. With the index `chunk` the records of
    /// a chunk are in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], where the check cannot go on. Faults are in the result.
    pub fn verify(&self) -> Result<Vec<Fault>> {
        self.verify_while(|| ControlFlow::Continue(()))
    }

    /// [`verify`](Self::verify), which `proceed` may break: it is asked at about every MiB.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify); [`ErrorKind::Stopped`].
    pub fn verify_while(&self, proceed: impl Fn() -> ControlFlow<()>) -> Result<Vec<Fault>> {
        let mut faults = Vec::new();
        for (shard, file) in self.files.iter().enumerate() {
            let mut check = Check { file, proceed: &proceed, faults: Vec::new(), more: 0 };
            check.pages()?;
            if check.faults.is_empty() {
                check.records(self.manifest.as_ref().map(|manifest| (manifest, self.numbers[shard])))?;
            }
            for what in file.padding_faults()? {
                check.fault("padding", what);
            }
            if check.more > 0 {
                check.faults.push(Fault { place: "and".into(), what: format!("{} more", check.more) });
            }
            if self.manifest.is_some() {
                let name = file.path.file_name().unwrap_or_default().to_string_lossy();
                check.faults.iter_mut().for_each(|fault| fault.place = format!("{name}: {}", fault.place));
            }
            faults.extend(check.faults);
        }
        Ok(faults)
    }
}

impl Check<'_> {
    fn fault(&mut self, place: impl Into<String>, what: impl Into<String>) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { place: place.into(), what: what.into() });
        } else {
            self.more += 1;
        }
    }

    fn pages(&mut self) -> Result<()> {
        let page_bytes = u64::from(self.file.header.page_bytes);
        let at_once = (READ_BYTES / page_bytes).max(1);
        let mut bytes = Vec::new();
        let mut sum = 0;
        let count = self.file.pages.count();
        for from in (0..count).step_by(at_once as usize) {
            go_on(self.proceed)?;
            let to = count.min(from + at_once);
            self.file.pages.raw(from..to, &mut bytes)?;
            for (page, bytes) in (from + 1..=to).zip(bytes.chunks_exact(page_bytes as usize)) {
                let (stored, computed) = (page::stored_checksum(bytes), page::checksum(page, bytes));
                if stored != computed {
                    let what = format!("checksum {stored:08x} is stored, {computed:08x} computed");
                    self.fault(format!("page {page}"), what);
                }
                sum = crc32c::crc32c_append(sum, &stored.to_le_bytes());
            }
        }
        if sum != self.file.footer.data_checksum && self.faults.is_empty() {
            self.fault("footer", "the pages are not those it was written for");
        }
        Ok(())
    }

    fn records(&mut self, shard: Option<(&Manifest, usize)>) -> Result<()> {
        if let Err(what) = self.file.check_indexes() {
            self.fault("index", what);
        }
        let mut run = Run::default();
        let mut counted = Counted::default();
        let mut last: Option<(u64, Vec<u8>)> = None;
        let mut walk = Walk::as_they_lie(self.file);
        let mut heads = self.file.pages.has_starts().then(|| Heads::new(self.file));
        loop {
            go_on(self.proceed)?;
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
                counted.add(run.span(index).key_len, run.span(index).value_len);
                let rank = first + index as u64;
                if shard.is_some_and(|(manifest, shard)| manifest.shard_of(run.key(index)) != shard) {
                    self.fault(
                        format!("record {rank}"),
                        format!("its key {} is another shard's", quote(run.key(index))),
                    );
                }
                if !self.file.may_have(run.positions[index]) {
                    let key = quote(run.key(index));
                    self.fault(format!("record {rank}"), format!("the filter excludes its key {key}"));
                }
                if !self.file.leads_to(run.positions[index], rank, cell) {
                    let key = quote(run.key(index));
                    self.fault(format!("record {rank}"), format!("the index does not lead to its key {key}"));
                }
            }
            if self.file.header.order != Order::Hash {
                run.sort();
            }
            self.order(&run, &mut last);
            counted.positions(&run.positions);
        }
        if let Some(mut heads) = heads {
            heads.finish(&mut |page| self.page_fault(page))?;
        }
        if let Some((.., keys)) = self.file.filter()
            && keys != counted.positions
        {
            self.fault("filter", format!("it is for {keys} hashes, the records have {}", counted.positions));
        }
        let footer = &self.file.footer;
        if (counted.key_bytes, counted.value_bytes) != (footer.key_bytes, footer.value_bytes)
            || (footer.pairs > 0 && (counted.key_len, counted.value_len) != (footer.key_len, footer.value_len))
        {
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

/// What the heads of pages say of where cells begin, computed again from the cells and compared some pages at a time.
struct Heads<'d> {
    file: &'d DictionaryFile,
    /// Of pages that were not compared yet, the first of which is `first`.
    computed: Vec<[u8; 2 * START_COUNT]>,
    first: u64,
    /// Of the last of these pages.
    starts: StartsWriter,
    /// The page in which the last cell begins.
    cell_page: u64,
    bytes: Vec<u8>,
}

impl<'d> Heads<'d> {
    fn new(file: &'d DictionaryFile) -> Self {
        Heads { file, computed: Vec::new(), first: 0, starts: StartsWriter::done(), cell_page: 0, bytes: Vec::new() }
    }

    /// The next cell begins at `at` in the stream, or it is the one before once more.
    fn cell(&mut self, at: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let body = self.file.pages.body_bytes();
        self.pages_to(at / body + 1, fault)?;
        self.cell_page = at / body;
        let head = self.computed.last_mut().expect("the page of the cell");
        self.starts.note(head, (at % body) as usize, body as usize);
        Ok(())
    }

    /// There are no more cells.
    fn finish(&mut self, fault: &mut impl FnMut(u64)) -> Result<()> {
        self.pages_to(self.file.pages.count(), fault)?;
        self.compare(fault)
    }

    /// Adds pages up to `end`.
    fn pages_to(&mut self, end: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let at_once = READ_BYTES / u64::from(self.file.header.page_bytes);
        while self.first + (self.computed.len() as u64) < end {
            if self.computed.len() as u64 >= at_once {
                self.compare(fault)?;
            }
            let page = self.first + self.computed.len() as u64;
            let mut head = [0; 2 * START_COUNT];
            self.starts = StartsWriter::open(&mut head, page - self.cell_page);
            self.computed.push(head);
        }
        Ok(())
    }

    fn compare(&mut self, fault: &mut impl FnMut(u64)) -> Result<()> {
        let end = self.first + self.computed.len() as u64;
        self.file.pages.raw(self.first..end, &mut self.bytes)?;
        let stored = self.bytes.chunks_exact(self.file.header.page_bytes as usize);
        let pages = (self.first..end).zip(stored).zip(&self.computed);
        let differs = |bytes: &[u8], computed: &[u8]| bytes[CHECKSUM_BYTES..][..computed.len()] != *computed;
        pages.filter(|((_, bytes), computed)| differs(bytes, &computed[..])).for_each(|((page, _), _)| fault(page));
        self.computed.clear();
        self.first = end;
        Ok(())
    }
}

#[derive(Default)]
struct Counted {
    key_bytes: u64,
    value_bytes: u64,
    key_len: (u32, u32),
    value_len: (u32, u32),
    some: bool,
    /// Distinct positions.
    positions: u64,
    last_position: Option<u64>,
}

impl Counted {
    /// The next positions, ascending.
    fn positions(&mut self, positions: &[u64]) {
        for &position in positions {
            self.positions += u64::from(self.last_position.replace(position) != Some(position));
        }
    }

    fn add(&mut self, key_len: u32, value_len: u32) {
        if !std::mem::replace(&mut self.some, true) {
            (self.key_len, self.value_len) = ((key_len, key_len), (value_len, value_len));
        }
        self.key_bytes += u64::from(key_len);
        self.value_bytes += u64::from(value_len);
        self.key_len = (self.key_len.0.min(key_len), self.key_len.1.max(key_len));
        self.value_len = (self.value_len.0.min(value_len), self.value_len.1.max(value_len));
    }
}
