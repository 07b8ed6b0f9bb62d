//! Reads the rest of a file ahead, in order, once lookups have used many of its pages at random, and checks its
//! checksums.
//!
//! A disk reads pages in order several times as fast as at random, and an idle processor can compare checksums before
//! lookups need to. So a separate thread goes through the file once, from beginning to end, in pieces of 2 MiB:
//!
//! ```text
//! lookups waited for the disk for one page in SHARE       announce each piece, wait for it, check it
//! lookups compared one page in SHARE without a wait       check the part of each piece that is in the system's cache
//! ```
//!
//! Reading ahead costs the disk at most as many pages in total as the system's own read-ahead, of 128 KiB around each
//! page, would have read by then. A few lookups in a large file never start it, and the time they spend waiting is at
//! most about that of reading the whole file. A thread that only checks runs on idle processors. It skips what is not
//! in the cache; asking costs the disk one page for each such piece, or [`CHECKED_AT_ONCE`] if part of it is in the
//! cache.
//!
//! It stops early if memory is short: if what it read before is no longer in the system's cache, or if many pieces are
//! not. A page whose checksum is wrong stays unchecked: the lookup that needs it reads it and returns the error. See
//! docs/architecture.md, "Dictionaries".

use super::checked::Checked;
use crate::dictionary::format::page;
use crate::io::{File, run_when_idle};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The thread starts when one page in this many has been waited for, or compared.
const SHARE: u64 = 32;
/// Bytes announced at a time, and how many such pieces are in flight.
const PIECE_BYTES: u64 = 2 << 20;
const PIECES: u64 = 4;
/// Pieces between two checks of whether memory is short.
const PIECES_PER_LOOK: u64 = 32;
/// Bytes checked at a time: they stay in the processor's cache, and are the most that Linux reads if part of them is
/// not in memory.
const CHECKED_AT_ONCE: usize = 64 << 10;
/// After this many consecutive pieces that are not in the system's cache, checking stops.
const ABSENT_MAX: u32 = 16;
/// Smaller files are not checked ahead: lookups soon compare all of their pages.
const CHECKED_FILE_MIN: u64 = 4 << 20;

/// Reads and checks the rest of a file once that is worthwhile.
pub(crate) struct Rest {
    pass: Arc<Pass>,
    waits_left: Countdown,
    compared_left: Countdown,
}

/// The number of pages still to be counted before something starts; 0 once it has started.
struct Countdown(AtomicU64);

impl Countdown {
    /// Counts `pages`. Returns whether they are the last.
    #[allow(deprecated, reason = "the new name, `try_update`, is newer than the oldest Rust that is supported")]
    fn ends_with(&self, pages: u64) -> bool {
        let less = |left: u64| (left != 0).then(|| left.saturating_sub(pages));
        self.0.fetch_update(Relaxed, Relaxed, less).is_ok_and(|left| left <= pages)
    }
}

impl Rest {
    /// For `file`, which has `count` pages of `page_bytes` after a header of one page.
    pub fn new(file: Arc<dyn File>, page_bytes: usize, count: u64, checked: Checked) -> Self {
        let share = (count / SHARE).max(1);
        let compared = if count * (page_bytes as u64) < CHECKED_FILE_MIN { 0 } else { share };
        let (ahead, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Rest {
            pass: Arc::new(Pass { file, page_bytes, count, checked, ahead, ended }),
            waits_left: Countdown(AtomicU64::new(share)),
            compared_left: Countdown(AtomicU64::new(compared)),
        }
    }

    /// Counts pages that lookups waited for.
    pub fn note_waits(&self, pages: u64) {
        if self.waits_left.ends_with(pages) {
            // This stops a thread that only checks.
            self.pass.ahead.store(true, Relaxed);
            self.begin(Pass::read_ahead);
        }
    }

    /// Counts pages that lookups compared with their checksums without a wait for the disk.
    pub fn note_compared(&self, pages: u64) {
        if self.compared_left.ends_with(pages) && !self.pass.ahead.load(Relaxed) {
            self.begin(|pass| {
                // If all processors are busy, checking here would cost lookups more than comparing the pages they need.
                run_when_idle();
                pass.check_cached();
            });
        }
    }

    /// Nothing waits for the thread, which only reads: a forked process has a copy of this, but no thread.
    fn begin(&self, run: fn(&Pass)) {
        let pass = Arc::clone(&self.pass);
        let thread = std::thread::Builder::new().name("splitpoint-rest".into());
        // Without a thread, lookups continue as before.
        let _ = thread.spawn(move || run(&pass));
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.pass.ended.store(true, Relaxed);
    }
}

/// One pass through the file.
struct Pass {
    file: Arc<dyn File>,
    page_bytes: usize,
    count: u64,
    checked: Checked,
    /// Whether the file is being read ahead, or has been.
    ahead: AtomicBool,
    /// Whether the dictionary is closed.
    ended: AtomicBool,
}

impl Pass {
    /// Reads all pages into the system's cache and checks them.
    fn read_ahead(&self) {
        let mut buffer = self.buffer();
        let pieces = self.pieces();
        for number in 0..pieces + PIECES - 1 {
            if self.ended.load(Relaxed) || number < pieces && !self.announce(number) {
                return;
            }
            if let Some(earlier) = number.checked_sub(PIECES - 1) {
                // Waiting leaves the disk time for the requests of lookups.
                if self.wait_for(earlier).is_err() {
                    return;
                }
                self.check(earlier, &mut buffer);
            }
            let announced = number + 1;
            if announced % PIECES_PER_LOOK == 0 && !self.is_cached(announced / 2 * self.piece_pages()) {
                return;
            }
        }
    }

    /// Checks the pages that are in the system's cache.
    fn check_cached(&self) {
        let mut buffer = self.buffer();
        let mut absent = 0;
        for number in 0..self.pieces() {
            if absent == ABSENT_MAX || self.ended.load(Relaxed) || self.ahead.load(Relaxed) {
                return;
            }
            absent = if self.check(number, &mut buffer) { 0 } else { absent + 1 };
        }
    }

    fn announce(&self, number: u64) -> bool {
        let pages = self.pages_of(number);
        self.file.read_ahead(self.offset(pages.start), self.offset(pages.end) - self.offset(pages.start))
    }

    fn wait_for(&self, number: u64) -> std::io::Result<()> {
        self.file.read_at(&mut [0], self.offset(self.pages_of(number).end) - 1)
    }

    /// Checks the pages of piece `number` up to the first that is not in the system's cache. Returns whether there was
    /// any.
    fn check(&self, number: u64, buffer: &mut [u8]) -> bool {
        let pages = self.pages_of(number);
        let mut page = pages.start;
        // Linux starts reading what it lacks of a request, so it is first asked about a single byte.
        while page < pages.end && self.is_cached(page) {
            let count = (pages.end - page).min((buffer.len() / self.page_bytes) as u64);
            let bytes = &mut buffer[..count as usize * self.page_bytes];
            let read = self.file.read_cached(bytes, self.offset(page)) / self.page_bytes;
            for (page, bytes) in (page..).zip(bytes.chunks_exact(self.page_bytes).take(read)) {
                if !self.checked.has(page) && page::stored_checksum(bytes) == page::checksum(page + 1, bytes) {
                    self.checked.add(page);
                }
            }
            page += read as u64;
            if (read as u64) < count {
                break;
            }
        }
        page > pages.start
    }

    fn buffer(&self) -> Vec<u8> {
        vec![0; CHECKED_AT_ONCE.max(self.page_bytes)]
    }

    fn is_cached(&self, page: u64) -> bool {
        self.file.is_cached(self.offset(page)) == Some(true)
    }

    fn piece_pages(&self) -> u64 {
        PIECE_BYTES / self.page_bytes as u64
    }

    fn pieces(&self) -> u64 {
        self.count.div_ceil(self.piece_pages())
    }

    fn pages_of(&self, number: u64) -> Range<u64> {
        let from = number * self.piece_pages();
        from..(from + self.piece_pages()).min(self.count)
    }

    /// The offset at which page `page` begins, or the previous one ends.
    fn offset(&self, page: u64) -> u64 {
        (page + 1) * self.page_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Mapped;
    use std::io::{Error, Result};
    use std::path::Path;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    const MIB: u64 = 1 << 20;

    const PAGE_BYTES: usize = 4096;
    const PAGES_PER_MIB: u64 = MIB / PAGE_BYTES as u64;

    /// A file whose announced bytes are in the cache, up to a limit: those announced first are evicted first. Other
    /// bytes may be in the cache from the beginning.
    struct Announced {
        ranges: Mutex<Vec<Range<u64>>>,
        cache_bytes: u64,
        /// Reads from this offset on fail.
        readable: u64,
        cached_before: Range<u64>,
        damaged_page: Option<u64>,
        /// Ranges that were requested and are not in the cache.
        absent: Mutex<Vec<u64>>,
    }

    impl Announced {
        fn new(cache_bytes: u64, readable: u64) -> Arc<Announced> {
            Arc::new(Announced { cache_bytes, readable, ..Announced::cached(0..0) })
        }

        fn cached(cached_before: Range<u64>) -> Announced {
            Announced {
                ranges: Mutex::default(),
                cache_bytes: u64::MAX,
                readable: u64::MAX,
                cached_before,
                damaged_page: None,
                absent: Mutex::default(),
            }
        }

        fn bytes(&self) -> u64 {
            self.ranges.lock().unwrap().iter().map(|range| range.end - range.start).sum()
        }

        fn fill(&self, page: u64, bytes: &mut [u8]) {
            bytes.fill(page as u8);
            let checksum = page::checksum(page + 1, bytes);
            bytes[..page::CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
            bytes[300] ^= u8::from(self.damaged_page == Some(page));
        }
    }

    impl File for Announced {
        fn read_at(&self, _bytes: &mut [u8], offset: u64) -> Result<()> {
            assert!(self.ranges.lock().unwrap().iter().any(|range| range.contains(&offset)), "a read of its own");
            if offset < self.readable { Ok(()) } else { Err(Error::other("a failing disk")) }
        }

        fn read_ahead(&self, offset: u64, count: u64) -> bool {
            self.ranges.lock().unwrap().push(offset..offset + count);
            true
        }

        fn is_cached(&self, offset: u64) -> Option<bool> {
            if self.cached_before.contains(&offset) {
                return Some(true);
            }
            let end = self.ranges.lock().unwrap().last().map_or(0, |range| range.end);
            let cached = offset < end && end - offset <= self.cache_bytes;
            if !cached {
                self.absent.lock().unwrap().push(offset);
            }
            Some(cached)
        }

        fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize {
            let first = offset / PAGE_BYTES as u64 - 1;
            let mut read = 0;
            for (page, bytes) in (first..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
                if self.is_cached((page + 1) * PAGE_BYTES as u64) != Some(true) {
                    break;
                }
                self.fill(page, bytes);
                read += PAGE_BYTES;
            }
            read
        }

        fn write_at(&self, _bytes: &[u8], _offset: u64) -> Result<()> {
            unreachable!("a file that is read")
        }

        fn len(&self) -> Result<u64> {
            unreachable!("its length is known")
        }

        fn set_len(&self, _bytes: u64) -> Result<()> {
            unreachable!("a file that is read")
        }

        fn reserve(&self, _bytes: u64) -> Result<()> {
            unreachable!("a file that is read")
        }

        fn sync(&self) -> Result<()> {
            unreachable!("a file that is read")
        }

        fn lock(&self) -> Result<bool> {
            unreachable!("a file that is read")
        }

        fn unlock(&self) -> Result<()> {
            unreachable!("a file that is read")
        }

        fn is_at(&self, _path: &Path) -> Result<bool> {
            unreachable!("its name does not matter")
        }

        fn is_locked(&self) -> Result<bool> {
            unreachable!("a file that is read")
        }

        fn map(&self, _bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
            unreachable!("it is announced only")
        }
    }

    /// Makes a `Rest` for a file with `count` pages.
    fn rest_of(file: &Arc<Announced>, count: u64) -> Rest {
        Rest::new(file.clone(), PAGE_BYTES, count, Checked::none_of(count))
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "it takes too long until {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn all_is_announced_once_and_in_order_and_checked() {
        for count in [5 * PAGES_PER_MIB, 1, 30 * PAGES_PER_MIB + 1] {
            let file = Announced::new(u64::MAX, u64::MAX);
            let rest = rest_of(&file, count);
            rest.pass.read_ahead();
            let ranges = file.ranges.lock().unwrap();
            let mut at = PAGE_BYTES as u64;
            for range in ranges.iter() {
                assert_eq!(range.start, at);
                at = range.end;
            }
            assert_eq!(at, (count + 1) * PAGE_BYTES as u64);
            assert_eq!(rest.pass.checked.count(), count);
        }
    }

    #[test]
    fn it_ends_where_memory_is_short_the_disk_fails_or_the_dictionary_is_closed() {
        let all = 1000 * PAGES_PER_MIB;
        let short = Announced::new(100 * MIB, u64::MAX);
        rest_of(&short, all).pass.read_ahead();
        assert!((100 * MIB..300 * MIB).contains(&short.bytes()), "{}", short.bytes());
        let failing = Announced::new(u64::MAX, 50 * MIB);
        rest_of(&failing, all).pass.read_ahead();
        assert!((50 * MIB..60 * MIB).contains(&failing.bytes()), "{}", failing.bytes());
        let closed = Arc::new(Announced::cached(0..u64::MAX));
        let pass = Arc::clone(&rest_of(&closed, all).pass);
        pass.read_ahead();
        pass.check_cached();
        assert_eq!((closed.bytes(), pass.checked.count()), (0, 0));
    }

    #[test]
    fn it_begins_once_and_only_after_enough_pages_were_waited_for() {
        let file = Announced::new(u64::MAX, u64::MAX);
        let rest = rest_of(&file, 4096);
        for wait in 0..4096 / SHARE {
            assert!(rest.waits_left.0.load(Relaxed) != 0, "after {wait} waits");
            rest.note_waits(1);
        }
        assert_eq!(rest.waits_left.0.load(Relaxed), 0);
        rest.note_waits(1);
        rest.note_waits(u64::MAX);
        wait_until("all is announced", || file.bytes() >= 16 * MIB);
        drop(rest);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(file.bytes(), 16 * MIB);
    }

    #[test]
    fn all_pages_but_a_damaged_one_are_checked_after_a_sample_was_compared() {
        let file = Arc::new(Announced { damaged_page: Some(1000), ..Announced::cached(0..u64::MAX) });
        let rest = rest_of(&file, 4000);
        rest.note_compared(4000 / SHARE - 1);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(rest.pass.checked.count(), 0);
        rest.note_compared(1);
        wait_until("all are checked", || rest.pass.checked.count() >= 3999);
        std::thread::sleep(Duration::from_millis(20));
        assert!(!rest.pass.checked.has(1000) && rest.pass.checked.count() == 3999);
        assert_eq!(file.bytes(), 0, "announced");
    }

    #[test]
    fn nothing_begins_in_a_small_file_that_is_only_compared() {
        let file = Arc::new(Announced::cached(0..u64::MAX));
        let rest = rest_of(&file, 1000);
        rest.note_compared(1000);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(rest.pass.checked.count(), 0);
    }

    #[test]
    fn pages_that_are_not_in_the_cache_are_neither_announced_nor_read_to_check_others() {
        // The cache has some pages, from the middle of the third piece to the middle of the eleventh.
        let file = Arc::new(Announced::cached(5 * MIB..21 * MIB + PAGE_BYTES as u64));
        let rest = rest_of(&file, 1000 * PAGES_PER_MIB);
        rest.pass.check_cached();
        assert_eq!(file.bytes(), 0);
        // A piece is checked from its beginning to the first page that is absent: from 6 MiB on.
        assert_eq!(rest.pass.checked.count(), 15 * PAGES_PER_MIB);
        // One request per piece, then it gives up.
        let absent = file.absent.lock().unwrap();
        assert!(absent.windows(2).all(|two| two[1] - two[0] >= MIB), "{absent:?}");
        assert_eq!(absent.len(), 3 + 1 + ABSENT_MAX as usize);
    }

    #[test]
    fn nothing_is_only_checked_where_the_file_is_read_ahead() {
        let file = Arc::new(Announced::cached(0..u64::MAX));
        let rest = rest_of(&file, 16 * PAGES_PER_MIB);
        rest.pass.ahead.store(true, Relaxed);
        rest.pass.check_cached();
        rest.note_compared(u64::MAX);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(rest.pass.checked.count(), 0);
    }

    #[test]
    fn a_thread_that_runs_ends_when_the_dictionary_is_closed() {
        let file = Arc::new(Announced::cached(0..u64::MAX));
        let rest = rest_of(&file, 1000 * PAGES_PER_MIB);
        let pass = Arc::clone(&rest.pass);
        rest.note_compared(u64::MAX);
        wait_until("it has begun", || pass.checked.count() > 0);
        drop(rest);
        wait_until("it has ended", || Arc::strong_count(&pass) == 1);
        assert!(pass.checked.count() < 100 * PAGES_PER_MIB, "{}", pass.checked.count());
    }
}
