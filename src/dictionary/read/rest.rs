//! The rest of a file of which much was read at random, read ahead in order.
//!
//! A disk gives pages in order several times as fast as at random. So once lookups have waited for one page in
//! [`SHARE`], the file is read ahead from its beginning to its end, once, by a thread of its own: at most as many pages
//! in all as the system's own read-ahead, of 128 KiB around each page, would have read by then. Few lookups in a large
//! file never begin it, and what they wait for is at most about as long as what reading all of it would have taken.
//!
//! It ends early where memory is short: where what it read before is not in the system's cache any more.
//! docs/architecture.md, "Dictionaries".

use crate::io::File;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Of so many pages, one that was waited for begins it.
const SHARE: u64 = 32;
/// Bytes that are announced at once, and how many such pieces are under way.
const PIECE_BYTES: u64 = 2 << 20;
const PIECES: u64 = 4;
/// Pieces between two looks at whether memory is short.
const PIECES_PER_LOOK: u64 = 32;

/// Reads the rest of a file ahead once it pays.
pub(crate) struct Rest {
    file: Arc<dyn File>,
    bytes: Range<u64>,
    /// Waits that remain before it begins; none once it has.
    waits_left: AtomicU64,
    ended: Arc<AtomicBool>,
}

impl Rest {
    /// Of `file`, whose pages are bytes `bytes` of it, `count` of them.
    pub fn new(file: Arc<dyn File>, bytes: Range<u64>, count: u64) -> Self {
        Rest { file, bytes, waits_left: AtomicU64::new((count / SHARE).max(1)), ended: Arc::default() }
    }

    /// Counts pages that lookups waited for.
    pub fn note_waits(&self, waits: u64) {
        let less = |left: u64| (left != 0).then(|| left.saturating_sub(waits));
        if self.waits_left.fetch_update(Relaxed, Relaxed, less).is_ok_and(|left| left <= waits) {
            self.begin();
        }
    }

    /// Nobody waits for the thread, which only reads: a process made by fork has a copy of this, and no thread.
    fn begin(&self) {
        let (file, ended, bytes) = (Arc::clone(&self.file), Arc::clone(&self.ended), self.bytes.clone());
        let thread = std::thread::Builder::new().name("splitpoint-ahead".into());
        // Without a thread, lookups go on as before.
        let _ = thread.spawn(move || read_ahead(file.as_ref(), bytes, &ended));
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

/// Reads `bytes` of `file` into the system's cache, and gives how many.
fn read_ahead(file: &dyn File, bytes: Range<u64>, ended: &AtomicBool) -> u64 {
    let piece = |number: u64| bytes.start + number * PIECE_BYTES;
    let mut number = 0;
    while piece(number) < bytes.end && !ended.load(Relaxed) {
        let from = piece(number);
        if !file.read_ahead(from, PIECE_BYTES.min(bytes.end - from)) {
            break;
        }
        // Waits for an earlier piece, so that the disk also has time for what lookups ask it for.
        if let Some(earlier) = number.checked_sub(PIECES - 1)
            && file.read_at(&mut [0], piece(earlier)).is_err()
        {
            break;
        }
        number += 1;
        if number % PIECES_PER_LOOK == 0 && file.is_cached(piece(number / 2)) != Some(true) {
            break;
        }
    }
    (number * PIECE_BYTES).min(bytes.end - bytes.start)
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

    /// A file whose announced bytes are in the cache, up to a number of bytes: those announced first go first.
    struct Announced {
        ranges: Mutex<Vec<Range<u64>>>,
        cache_bytes: u64,
        /// Reads from here on fail.
        readable: u64,
    }

    impl Announced {
        fn new(cache_bytes: u64, readable: u64) -> Arc<Announced> {
            Arc::new(Announced { ranges: Mutex::default(), cache_bytes, readable })
        }

        fn bytes(&self) -> u64 {
            self.ranges.lock().unwrap().iter().map(|range| range.end - range.start).sum()
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
            let end = self.ranges.lock().unwrap().last()?.end;
            Some(end - offset <= self.cache_bytes)
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

    #[test]
    fn all_is_announced_once_and_in_order() {
        for bytes in [4096..4096 + 5 * MIB, 4096..8192, 0..300 * MIB] {
            let file = Announced::new(u64::MAX, u64::MAX);
            let read = read_ahead(file.as_ref(), bytes.clone(), &AtomicBool::new(false));
            assert_eq!(read, bytes.end - bytes.start);
            let ranges = file.ranges.lock().unwrap();
            let mut at = bytes.start;
            for range in ranges.iter() {
                assert_eq!(range.start, at);
                at = range.end;
            }
            assert_eq!(at, bytes.end);
        }
    }

    #[test]
    fn it_ends_where_memory_is_short_the_disk_fails_or_the_dictionary_is_closed() {
        let all = 0..1000 * MIB;
        let short = Announced::new(100 * MIB, u64::MAX);
        read_ahead(short.as_ref(), all.clone(), &AtomicBool::new(false));
        assert!((100 * MIB..300 * MIB).contains(&short.bytes()), "{}", short.bytes());
        let failing = Announced::new(u64::MAX, 50 * MIB);
        read_ahead(failing.as_ref(), all.clone(), &AtomicBool::new(false));
        assert!((50 * MIB..60 * MIB).contains(&failing.bytes()), "{}", failing.bytes());
        let closed = Announced::new(u64::MAX, u64::MAX);
        assert_eq!(read_ahead(closed.as_ref(), all, &AtomicBool::new(true)), 0);
    }

    #[test]
    fn it_begins_once_and_only_when_one_page_in_so_many_was_waited_for() {
        let file = Announced::new(u64::MAX, u64::MAX);
        let rest = Rest::new(file.clone(), 4096..4096 + 16 * MIB, 4096);
        for wait in 0..4096 / SHARE {
            assert!(rest.waits_left.load(Relaxed) != 0, "after {wait} waits");
            rest.note_waits(1);
        }
        assert_eq!(rest.waits_left.load(Relaxed), 0);
        rest.note_waits(1);
        rest.note_waits(u64::MAX);
        let start = Instant::now();
        while file.bytes() < 16 * MIB {
            assert!(start.elapsed() < Duration::from_secs(60), "it has not begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(rest);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(file.bytes(), 16 * MIB);
    }
}
