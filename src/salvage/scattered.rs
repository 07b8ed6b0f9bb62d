//! Salvage without a header, or with a part of the block map lost: primary pages are recognized by their layout.
//!
//! ```text
//! survey    all bytes: for each legal page size, is there a page at each multiple of it? And find nodes
//! index     all frames: for each key, where its most trustworthy pair is, in a table that spills to disk
//! give      all frames again: return each pair that the index chose
//! ```
//!
//! The page size with the most pages wins: a page of one size does not pass as a page of another, since its records end
//! at the page's end. A frame of primary pages contains nothing else. The bucket of a page need not be known; if the
//! hash function is known, the page's keys must agree in as many hash bits as its level. The function counts as known
//! if the header's bytes for its name, seed and check value agree.
//!
//! A file has more pages than its table: when groups of buckets are moved, the old pages stay in free frames until
//! those are reused. The map of used units identifies such pages, if the map is proved. Otherwise a key may be found
//! twice, with two values. Then the more trustworthy one is returned: first those with a matching checksum and map,
//! then those with only a matching checksum, then the rest. Of two equally trustworthy ones the first whose value is
//! readable is returned. The conflict is reported.

use super::block_map::FoundNode;
use super::damaged_file::UsedMap;
use super::walk::{Candidate, Primary};
use super::{Flow, Plan, Salvage, State, fingerprint, hash_of, not_a_table, reach_of};
use crate::buckets::PAGE_BYTES;
use crate::buckets::page::{self, PAIR_IN_EXTENT};
use crate::error::{Error, Result, quote};
use crate::linear;
use crate::pager::blocks::tree::LoneNode;
use crate::pager::pool::FrameNo;
use crate::pager::{FIRST_FRAMES, FRAME_BYTES_MIN, HEADER_BYTES, ROOT_BYTES, ROOT_START};
use crate::table::{Table, TableOptions};
use std::path::Path;

/// Legal page sizes are 512 << 0 to 512 << 7.
const SIZES: usize = 8;
const SMALLEST: usize = *PAGE_BYTES.start() as usize;
const _: () = assert!(SMALLEST << (SIZES - 1) == *PAGE_BYTES.end() as usize);

/// The result of the first pass.
#[derive(Default)]
struct Survey {
    /// Pages with pairs, by size.
    pages: [u64; SIZES],
    /// Nodes of block maps.
    nodes: Vec<FoundNode>,
}

/// A page and its rank; higher is more trustworthy.
struct RankedPage {
    primary: Primary,
    rank: u8,
}

/// Its frame's checksum matches, and the map shows it in use.
const CURRENT: u8 = 3;
/// Its frame's checksum matches, and the map is unknown.
const PROVED: u8 = 2;
const UNPROVED: u8 = 1;

/// The index entry of a key: where to read its pair.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    rank: u8,
    /// Whether its value is readable.
    readable: bool,
    /// Whether it was returned. Two pages may refer to the same place.
    returned: bool,
    at: u64,
    value: [u64; 2],
}

impl Entry {
    const BYTES: usize = 27;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..3].copy_from_slice(&[self.rank, u8::from(self.readable), u8::from(self.returned)]);
        for (i, number) in [self.at, self.value[0], self.value[1]].iter().enumerate() {
            bytes[3 + 8 * i..11 + 8 * i].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8]) -> Entry {
        let number = |i: usize| super::u64_at(bytes, 3 + 8 * i);
        Entry {
            rank: bytes[0],
            readable: bytes[1] == 1,
            returned: bytes[2] == 1,
            at: number(0),
            value: [number(1), number(2)],
        }
    }
}

impl Salvage<'_> {
    /// Returns the pairs of a file whose header or block map is damaged; `plan` is what the header says, or what is
    /// wrong with it.
    pub(super) fn surveyed(&mut self, path: &Path, plan: &std::result::Result<Plan, String>) -> Result<Flow> {
        let mut survey = Survey::default();
        if self.survey(&mut survey).map_err(|e| Error::io(path, "read", e))?.is_break() {
            return Ok(Flow::Break(()));
        }
        match plan {
            Ok(plan) => (self.page_bytes, self.hash) = (plan.page_bytes, plan.hash.clone()),
            Err(what) => {
                let header = self.header_bytes(0);
                let named = u32::from_le_bytes(header[ROOT_START..ROOT_START + 4].try_into().expect("4 bytes"));
                let page_bytes = survey.page_bytes(named as usize);
                self.page_bytes = page_bytes.ok_or_else(|| not_a_table(path, what))?;
                let mut headers = [header, self.header_bytes(HEADER_BYTES as u64)].into_iter();
                self.hash = headers.find_map(|header| hash_of(&header[ROOT_START..], self.options));
            }
        }
        match plan {
            Ok(plan) => {
                self.file.complete_map(&survey.nodes);
                if !self.file.lacks_leaves() {
                    return Ok(self.by_header(plan));
                }
                self.report.counted = self.file.is_current().then_some(plan.root.totals.pairs);
            }
            Err(_) => self.file.lay_out(&survey.nodes, self.page_bytes.max(FRAME_BYTES_MIN)),
        }
        self.file.search_loose();
        self.scattered(plan.as_ref().err())
    }

    /// Returns the pairs of all frames. `what` is wrong with the header.
    fn scattered(&mut self, what: Option<&String>) -> Result<Flow> {
        let page_bytes = self.page_bytes;
        let searched = format!("every frame is searched for pages of {page_bytes} bytes");
        let flow = match what {
            Some(what) => {
                let unknown = "The places of buckets and the number of pairs are unknown";
                self.report_fault("header", format!("{what}. {unknown}; {searched}"))
            }
            None => self.lose("block map", format!("a part of it is lost; {searched}")),
        };
        if flow.is_break() || self.report_notes().is_break() {
            return Ok(Flow::Break(()));
        }
        // Room for some hundred thousand keys; more go to a temporary file.
        const INDEX_BYTES: u64 = 64 << 20;
        let mut options = TableOptions::new();
        options.storage = self.options.storage.clone();
        let index = options.cache_bytes(INDEX_BYTES).in_memory()?;
        for giving in [false, true] {
            self.quiet = !giving;
            self.reach_left = reach_of(&self.file);
            if self.pass(&index, giving).is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// The bytes of the header at `at`, as far as they can be read.
    fn header_bytes(&self, at: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.file.read_plain(&mut bytes, at, HEADER_BYTES).is_err() {
            bytes.clear();
        }
        bytes.resize(ROOT_START + ROOT_BYTES, 0);
        bytes
    }

    /// Reports progress: `done` of `all` in pass `pass` of three.
    fn progress(&mut self, pass: u64, done: u64, all: u64) -> Flow {
        (self.take)(super::Salvaged::Progress { done: pass * all + done, all: 3 * all })
    }

    fn survey(&mut self, survey: &mut Survey) -> std::io::Result<Flow> {
        // A multiple of all sizes, so that no page crosses a step.
        const STEP_BYTES: usize = 1 << 20;
        let mut bytes = Vec::new();
        let all = self.file.file_bytes();
        let mut at = 0;
        while at < all {
            match self.file.read_plain(&mut bytes, at, STEP_BYTES) {
                Ok(()) => survey.look_at(at, &bytes),
                // A disk error affects few sectors: retry in small parts.
                Err(_) => {
                    for part in (0..STEP_BYTES as u64).step_by(FRAME_BYTES_MIN) {
                        if self.file.read_plain(&mut bytes, at + part, FRAME_BYTES_MIN).is_ok() {
                            survey.look_at(at + part, &bytes);
                        }
                    }
                }
            }
            at += STEP_BYTES as u64;
            if self.progress(0, at.min(all), all).is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// Reads all frames, to fill the index or to return the chosen pairs.
    fn pass(&mut self, index: &Table, giving: bool) -> Flow {
        let count = self.file.searched_count();
        let mut map = UsedMap::default();
        let mut bytes = Vec::new();
        for frame in FIRST_FRAMES..count {
            if frame % 64 == 0 {
                self.progress(1 + u64::from(giving), frame.into(), count.into())?;
            }
            let state = self.file.read(frame, &mut bytes);
            let used = self.file.used_bits(frame, &mut map);
            self.report_notes()?;
            if let State::Damaged(what) = &state {
                if used != Some(0) && !self.file.is_reported(frame) {
                    self.lose(format!("frame {frame}"), format!("{what}; its content is lost"))?;
                }
                continue;
            }
            // Frames of buckets are in use as a whole.
            if used.is_some_and(|used| used != u64::MAX) {
                continue;
            }
            let rank = match (&state, used) {
                (State::Proved, Some(_)) => CURRENT,
                (State::Proved, None) => PROVED,
                _ => UNPROVED,
            };
            for RankedPage { primary, rank } in self.pages_of(frame, &bytes, rank) {
                self.take_page(index, giving, RankedPage { primary, rank })?;
            }
        }
        self.progress(1 + u64::from(giving), count.into(), count.into())
    }

    /// The primary pages in a frame.
    fn pages_of(&self, frame: FrameNo, bytes: &[u8], rank: u8) -> Vec<RankedPage> {
        let mut pages = Vec::new();
        for (i, page) in bytes.chunks_exact(self.page_bytes).enumerate() {
            if is_page(page) && page::slot_count(page) == 0 && page::next(page) == 0 {
                continue; // it is empty
            }
            if is_page(page) && self.hashes_agree(page) {
                let at = u64::from(frame) * bytes.len() as u64 + (i * self.page_bytes) as u64;
                let primary = Primary { page: page.to_vec(), at, proved: rank > UNPROVED };
                pages.push(RankedPage { primary, rank });
            } else if rank > UNPROVED && page.iter().any(|&b| b != 0) {
                return Vec::new(); // not a frame of buckets
            }
        }
        pages
    }

    /// Whether the page's keys match their stored tags, if the hash function is known.
    fn hashes_agree(&self, page: &[u8]) -> bool {
        let Some(hash) = &self.hash else { return true };
        let records = page::records(page).filter_map(|r| r.ok()).filter(|(_, r)| r.form != PAIR_IN_EXTENT);
        let (right, wrong): (Vec<bool>, Vec<bool>) =
            records.map(|(tag, record)| page::tag(hash.hash(record.key)) == tag).partition(|&right| right);
        right.len() >= wrong.len()
    }

    /// The low bits that all hashes in a page share: those of its bucket.
    fn bucket_bits(&self, page: &[u8]) -> Option<u64> {
        let hash = self.hash.as_ref()?;
        let mask = linear::low_bits(page::level(page));
        page::records(page).filter_map(|r| r.ok()).find_map(|(tag, record)| {
            let hash = match record.form {
                PAIR_IN_EXTENT => u64::from_le_bytes(record.key.try_into().ok()?),
                _ => hash.hash(record.key),
            };
            (page::tag(hash) == tag).then_some(hash & mask)
        })
    }

    fn take_page(&mut self, index: &Table, giving: bool, page: RankedPage) -> Flow {
        let RankedPage { primary, rank } = page;
        let mask = linear::low_bits(page::level(&primary.page));
        let bits = self.bucket_bits(&primary.page);
        let belongs = move |hash: u64| bits.is_none_or(|bits| hash & mask == bits);
        let place = format!("page at {}", self.file.place(primary.at));
        self.walk(&place, primary, &belongs, &mut |salvage, candidate| {
            let rank = if candidate.proved { rank } else { UNPROVED };
            let done = if giving {
                salvage.give_if_best(index, rank, &candidate)
            } else {
                note(index, rank, &candidate).map(|()| Flow::Continue(()))
            };
            done.unwrap_or_else(|e| {
                salvage.failed = Some(e);
                Flow::Break(())
            })
        })
    }

    fn give_if_best(&mut self, index: &Table, rank: u8, candidate: &Candidate<'_>) -> Result<Flow> {
        let key = index_key(candidate.key);
        let Some(bytes) = index.get(&key)? else { return Ok(Flow::Continue(())) };
        let best = Entry::parse(&bytes);
        let Some(value) = candidate.value else { return Ok(Flow::Continue(())) };
        if best.at == candidate.at {
            if best.returned {
                return Ok(Flow::Continue(()));
            }
            index.put(&key, &Entry { returned: true, ..best }.to_bytes())?;
            return Ok(self.give(candidate.key, value, best.rank == CURRENT && self.hash.is_some()));
        }
        if best.readable && best.value == fingerprint(value) {
            return Ok(Flow::Continue(()));
        }
        self.report.conflicts += 1;
        let why = if best.rank > rank { "which is more trustworthy" } else { "which comes first" };
        let best_place = self.file.place(best.at);
        let outcome = if best.readable {
            format!("the one at {best_place} is returned, {why}")
        } else {
            format!("the one at {best_place}, {why}, is damaged")
        };
        let what = format!("key {} is there more than once, with another value: {outcome}", quote(candidate.key));
        Ok(self.report_fault(self.file.place(candidate.at), what))
    }
}

/// Records where to read a key from, if this is the best source so far.
fn note(index: &Table, rank: u8, candidate: &Candidate<'_>) -> Result<()> {
    let key = index_key(candidate.key);
    if let Some(before) = index.get(&key)? {
        let before = Entry::parse(&before);
        if (before.rank, before.readable) >= (rank, candidate.value.is_some()) {
            return Ok(());
        }
    }
    let value = candidate.value.map(fingerprint);
    let entry =
        Entry { rank, readable: value.is_some(), returned: false, at: candidate.at, value: value.unwrap_or_default() };
    index.put(&key, &entry.to_bytes())
}

fn index_key(key: &[u8]) -> [u8; 16] {
    let [low, high] = fingerprint(key);
    (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
}

/// Whether this is a primary page.
fn is_page(page: &[u8]) -> bool {
    const LEVEL_MAX: u32 = 32;
    page::kind(page) == page::KIND_BUCKET && page::level(page) <= LEVEL_MAX && page::check(page).is_ok()
}

impl Survey {
    fn look_at(&mut self, at: u64, bytes: &[u8]) {
        for (i, start) in (0..bytes.len()).step_by(SMALLEST).enumerate() {
            let aligned = (at / SMALLEST as u64 + i as u64).trailing_zeros();
            for size in 0..SIZES.min(aligned as usize + 1) {
                let Some(page) = bytes.get(start..start + (SMALLEST << size)) else { break };
                // A page without pairs would be a page of any size.
                let page_there = page[0] == page::KIND_BUCKET && page::slot_count(page) > 0 && is_page(page);
                self.pages[size] += u64::from(page_there);
                let offset = at + start as u64;
                if page.len() >= FRAME_BYTES_MIN
                    && let Ok(block) = u32::try_from(offset / page.len() as u64)
                    && let Some(node) = LoneNode::parse(page)
                {
                    self.nodes.push(FoundNode { node, block, block_bytes: page.len() });
                }
            }
        }
    }

    /// The most likely page size; `None` if there is no trace of a table.
    fn page_bytes(&self, named: usize) -> Option<usize> {
        let (size, &pages) = self.pages.iter().enumerate().max_by_key(|&(_, pages)| pages)?;
        if pages > 0 {
            return Some(SMALLEST << size);
        }
        let frame_bytes = self.nodes.first()?.block_bytes;
        let fits = named.is_power_of_two() && named >= SMALLEST && named.max(FRAME_BYTES_MIN) == frame_bytes;
        Some(if fits { named } else { frame_bytes })
    }
}
