//! Linear hashing on pages, as in the 1991 package and in Splitpoint's table. Buckets split in order, when the load
//! passes the fill factor (controlled) or when a page overflows (uncontrolled).
//!
//! | | hash-1991 | splitpoint |
//! |---|---|---|
//! | overflow of a bucket | a chain of whole pages | one page of variable size, up to a frame |
//! | controlled split | more pairs than fill factor x buckets | bytes above 92 % of the primary pages |
//! | uncontrolled split | for each overflow page | for a second overflow page in a bucket |
//! | large pairs | several overflow pages | an extent, in units of 64 bytes |
//! | a miss reads | the chain | the primary page; overflow pages if its filter matches |
//!
//! Source: Seltzer & Yigit 1991, "The New Implementation"; docs/architecture.md, "Overflow". Not here: the arithmetic
//! (`splitpoint::linear`). Differs: no real pages are written, so sizes are correct to a few bytes.

use super::{Figures, Found, Function, POINTER_BYTES, Pair, Refused, Scheme};
use splitpoint::linear;

/// Overflow pages that 16-bit addresses allow: 2^11 at each of 32 split points.
pub(super) const OVERFLOW_PAGES_MAX: u64 = 32 << 11;
/// The paper's array of page counts, one for each split point.
const SPARES_BYTES: u64 = 32 * 4;
/// Two offsets for each pair in the 1991 package.
const OFFSETS_BYTES: usize = 4;
/// Page header of the 1991 package: count, free space.
const HEADER_BYTES_1991: usize = 6;
/// Page header of Splitpoint: header, reference to the overflow page, filter.
const HEADER_BYTES: usize = 24;
/// A record of Splitpoint, without key and value: slot and two lengths.
const SLOT_BYTES: usize = 6;
/// The reference to an extent in a record.
const REFERENCE_BYTES: usize = 20;
const UNIT_BYTES: usize = 64;
const FRAME_BYTES: usize = 4096;
/// The default fill factor, in percent of the capacity of the primary pages.
const FILL_PERCENT: u64 = 92;

/// The kind of overflow pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Chain,
    VariablePage,
}

/// The limit of the load.
#[derive(Clone, Copy, Debug)]
enum Fill {
    Pairs(u64),
    Percent(u64),
}

pub(super) struct Hybrid<'k> {
    function: Function,
    overflow: Overflow,
    fill: Fill,
    page_bytes: usize,
    pub(super) state: linear::State,
    buckets: Vec<Bucket<'k>>,
    /// The bytes of all records on pages.
    load_bytes: u64,
    overflow_bytes: u64,
    overflow_bytes_most: u64,
    extent_bytes: u64,
    /// The highest page ever written in the 1991 file.
    file_pages: u64,
    figures: Figures,
}

/// A bucket. Its first page is the primary page.
#[derive(Debug, Default)]
struct Bucket<'k> {
    pages: Vec<Page<'k>>,
    /// Two bits for each pair in an overflow page.
    filter: u64,
}

#[derive(Debug, Default)]
struct Page<'k> {
    pairs: Vec<Pair<'k>>,
    used_bytes: usize,
    /// The bytes allocated, if this is an overflow page.
    allocated_bytes: usize,
}

/// The effect of placing a pair.
struct Placed {
    pages_written: u64,
    overflowed: bool,
}

impl<'k> Hybrid<'k> {
    /// Creates the 1991 package's table.
    pub fn of_1991(function: Function, page_bytes: usize, fill_factor: u64) -> Self {
        Self::new(function, page_bytes, Overflow::Chain, Fill::Pairs(fill_factor))
    }

    /// Creates Splitpoint's table.
    pub fn of_splitpoint(function: Function, page_bytes: usize, fill_factor: Option<u64>) -> Self {
        let fill = fill_factor.map_or(Fill::Percent(FILL_PERCENT), Fill::Pairs);
        Self::new(function, page_bytes, Overflow::VariablePage, fill)
    }

    fn new(function: Function, page_bytes: usize, overflow: Overflow, fill: Fill) -> Self {
        Hybrid {
            function,
            overflow,
            fill,
            page_bytes,
            state: linear::State::default(),
            buckets: vec![Bucket::empty()],
            load_bytes: 0,
            overflow_bytes: 0,
            overflow_bytes_most: 0,
            extent_bytes: 0,
            file_pages: 1,
            figures: Figures::default(),
        }
    }

    /// Returns the bytes of a page that are available for records.
    fn capacity(&self) -> usize {
        self.page_bytes - if self.overflow == Overflow::Chain { HEADER_BYTES_1991 } else { HEADER_BYTES }
    }

    /// Returns the bytes of a pair in an extent; 0 if it has none.
    fn extent(&self, pair: &Pair) -> usize {
        let is_large = self.overflow == Overflow::VariablePage && pair.bytes() + SLOT_BYTES > self.page_bytes / 4;
        let key_bytes = if self.keeps_key(pair) { 0 } else { pair.key.len() };
        if is_large { (pair.value_bytes as usize + key_bytes).next_multiple_of(UNIT_BYTES) } else { 0 }
    }

    fn keeps_key(&self, pair: &Pair) -> bool {
        pair.key.len() <= self.page_bytes / 8
    }

    /// Returns the bytes of a pair on its page.
    fn record(&self, pair: &Pair) -> usize {
        match self.overflow {
            Overflow::Chain => pair.bytes() + OFFSETS_BYTES,
            Overflow::VariablePage if self.extent(pair) == 0 => pair.bytes() + SLOT_BYTES,
            // For a long key the page stores its hash.
            Overflow::VariablePage => {
                SLOT_BYTES + REFERENCE_BYTES + if self.keeps_key(pair) { pair.key.len() } else { 8 }
            }
        }
    }

    /// Adds a pair to the primary page of a bucket, or to an overflow page.
    fn place(&mut self, bucket: u32, pair: Pair<'k>) -> Placed {
        let (record, capacity) = (self.record(&pair), self.capacity());
        let bucket = &mut self.buckets[bucket as usize];
        self.load_bytes += record as u64;
        if bucket.pages[0].used_bytes + record <= capacity {
            bucket.pages[0].add(pair, record);
            return Placed { pages_written: 1, overflowed: false };
        }
        bucket.filter |= filter_bits(pair.hash);
        let bytes_before = bucket.overflow_bytes();
        let (page_most, frame) = match self.overflow {
            Overflow::Chain => (capacity, self.page_bytes),
            Overflow::VariablePage => {
                (FRAME_BYTES.max(self.page_bytes) - HEADER_BYTES, FRAME_BYTES.max(self.page_bytes))
            }
        };
        let room = bucket.pages[1..].iter().position(|page| page.used_bytes + record <= page_most);
        let index = room.map_or(bucket.pages.len(), |index| index + 1);
        if room.is_none() {
            bucket.pages.push(Page::default());
        }
        let page = &mut bucket.pages[index];
        page.add(pair, record);
        page.allocated_bytes = match self.overflow {
            Overflow::Chain => page.used_bytes.div_ceil(capacity) * frame,
            // An eighth more than needed.
            Overflow::VariablePage => {
                let needed = page.used_bytes + HEADER_BYTES;
                (needed + needed / 8).next_multiple_of(UNIT_BYTES).min(frame)
            }
        };
        let pages_written = 1 + page.allocated_bytes.div_ceil(frame) as u64; // and the page that refers to it
        let overflow_pages = bucket.pages.len() - 1;
        self.overflow_bytes = self.overflow_bytes + bucket.overflow_bytes() - bytes_before;
        self.overflow_bytes_most = self.overflow_bytes_most.max(self.overflow_bytes);
        let overflowed = room.is_none() && (self.overflow == Overflow::Chain || overflow_pages > 1);
        Placed { pages_written, overflowed }
    }

    /// Returns the number of overflow pages of the 1991 file.
    fn overflow_pages(&self) -> u64 {
        self.overflow_bytes / self.page_bytes as u64
    }

    /// Returns whether `pair` could need more overflow pages than the 1991 package has addresses for.
    fn lacks_addresses(&self, pair: &Pair) -> bool {
        let pages = self.record(pair).div_ceil(self.capacity()) as u64;
        self.overflow == Overflow::Chain && self.overflow_pages() + pages > OVERFLOW_PAGES_MAX
    }

    /// Returns the load as a multiple of the limit.
    fn load(&self) -> f64 {
        let buckets = self.buckets.len() as u64;
        match self.fill {
            Fill::Pairs(per_bucket) => self.figures.pairs as f64 / (per_bucket * buckets) as f64,
            Fill::Percent(percent) => {
                self.load_bytes as f64 * 100.0 / (percent * buckets * self.capacity() as u64) as f64
            }
        }
    }

    fn wants_split(&self, has_overflow: bool) -> bool {
        let least = if self.overflow == Overflow::Chain { 0.0 } else { 0.5 };
        self.load() > 1.0 || has_overflow && self.load() > least
    }

    /// Splits the next bucket in order. Returns the pages written.
    fn split(&mut self) -> u64 {
        let Some(linear::Split { source, new }) = self.state.split() else { return 0 };
        let old = std::mem::replace(&mut self.buckets[source as usize], Bucket::empty());
        self.buckets.push(Bucket::empty());
        self.overflow_bytes -= old.overflow_bytes();
        for pair in old.pages.into_iter().flat_map(|page| page.pairs) {
            self.load_bytes -= self.record(&pair) as u64;
            self.figures.work += 1;
            self.place(self.state.bucket_of(pair.hash.into()), pair);
        }
        self.figures.splits += 1;
        [source, new].iter().map(|&bucket| self.buckets[bucket as usize].pages.len() as u64).sum()
    }

    /// Updates the end of the 1991 file: the overflow pages of a split point follow its whole generation.
    fn note_file_end(&mut self) {
        let generation_end = if self.overflow_bytes > 0 { self.buckets.len().next_power_of_two() } else { 0 };
        let primary = self.buckets.len().max(generation_end) as u64;
        self.file_pages = self.file_pages.max(primary + self.overflow_pages());
    }
}

impl<'k> Bucket<'k> {
    fn empty() -> Self {
        Bucket { pages: vec![Page::default()], filter: 0 }
    }

    fn overflow_bytes(&self) -> u64 {
        self.pages[1..].iter().map(|page| page.allocated_bytes as u64).sum()
    }
}

impl<'k> Page<'k> {
    fn add(&mut self, pair: Pair<'k>, record: usize) {
        self.pairs.push(pair);
        self.used_bytes += record;
    }
}

/// Returns two of 64 bits, chosen by the high bits of the hash: the low bits are equal for all pairs of a bucket.
fn filter_bits(hash: u32) -> u64 {
    1 << (hash >> 26) | 1 << (hash >> 20 & 63)
}

/// Returns how many primary pages Splitpoint's table has allocated, and in how many groups.
pub(super) fn groups(max_bucket: u32) -> (u64, u64) {
    let (group, index) = linear::group(max_bucket);
    (u64::from(max_bucket - index) + u64::from(linear::group_len(group)), group as u64 + 1)
}

impl<'k> Scheme<'k> for Hybrid<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let bucket = self.state.bucket_of(pair.hash.into());
        let on_pages: usize = self.buckets[bucket as usize].pages.iter().map(|page| page.pairs.len()).sum();
        self.figures.work += on_pages as u64;
        if self.find(key).found {
            return Ok(());
        }
        if self.lacks_addresses(&pair) {
            return Err(Refused::OverflowAddresses { pages: OVERFLOW_PAGES_MAX });
        }
        let extent = self.extent(&pair) as u64;
        self.extent_bytes += extent;
        let Placed { mut pages_written, overflowed } = self.place(bucket, pair);
        pages_written += extent.div_ceil(FRAME_BYTES as u64);
        self.figures.stored(&pair);
        if self.wants_split(overflowed) {
            pages_written += self.split();
        }
        self.note_file_end();
        self.figures.paused(pages_written);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let hash = self.function.hash(key);
        let bucket = &self.buckets[self.state.bucket_of(hash.into()) as usize];
        let may_overflow = self.overflow == Overflow::Chain || bucket.filter & filter_bits(hash) == filter_bits(hash);
        let readable = if may_overflow { bucket.pages.len() } else { 1 };
        for (index, page) in bucket.pages[..readable].iter().enumerate() {
            if let Some(pair) = page.pairs.iter().find(|pair| pair.is(hash, key)) {
                let further = match self.overflow {
                    Overflow::Chain => self.record(pair).div_ceil(self.capacity()) - 1,
                    Overflow::VariablePage => self.extent(pair).div_ceil(FRAME_BYTES),
                };
                return Found { found: true, touched: (index + 1 + further) as u64 };
            }
        }
        Found { found: false, touched: readable as u64 }
    }

    fn figures(&self) -> Figures {
        let page_bytes = self.page_bytes as u64;
        let buckets = self.buckets.len() as u64;
        let (addressing_bytes, store_bytes, file_bytes) = match self.overflow {
            Overflow::Chain => {
                // A bitmap marks the overflow pages in use; freed pages stay in the file.
                let pages = self.overflow_bytes_most / page_bytes;
                let addressing = buckets * POINTER_BYTES + SPARES_BYTES + pages.div_ceil(8);
                (addressing, buckets * page_bytes + self.overflow_bytes_most, self.file_pages * page_bytes)
            }
            Overflow::VariablePage => {
                let (allocated, group_count) = groups(self.state.max_bucket);
                let store = allocated * page_bytes + self.overflow_bytes + self.extent_bytes;
                (group_count * POINTER_BYTES, store, store)
            }
        };
        Figures { store_bytes, file_bytes, addressing_bytes, ..self.figures }
    }
}
