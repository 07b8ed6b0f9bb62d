//! Reads of frames through mappings of their file, for a table that is larger than its cache.
//!
//! Almost every operation on such a table loads a frame. For 4 KiB in the kernel's cache a `pread` takes 1.2 us and a
//! copy from a mapping 0.7 us (docs/benchmarks.md, "What was tried"). The file is mapped in pieces, each at the first
//! read in it. The kernel counts the pages it has mapped as memory of the process, and can reclaim them.
//!
//! Two kinds of frames are left to `pread`. First, a frame that directly follows the last one read: the kernel reads
//! ahead, and a cold scan takes 2.5 us per frame instead of 94 us through this mapping. Second, a frame of more than 4
//! KiB: a mapping reads it from the disk in several requests. `pread` also reads whatever the mapping cannot, and
//! reports the error. Not here: the mapping itself and how it reacts to a failing disk (`io/window.rs`).

use crate::io::{File, Window};
use crate::own_line::OwnLine;
use crate::pager::pool::FRAME_BYTES_MIN;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a piece. Each piece begins at a multiple of this.
const PIECE_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };
/// The number of pieces that may be mapped; `pread` reads the bytes after them.
const PIECE_COUNT: usize = 1024;
/// The frame size that is read through a mapping.
const FRAME_BYTES: usize = FRAME_BYTES_MIN;
/// Sequential reads are detected within a stretch of this length, so reads in other stretches do not hide them.
const STRETCH_BYTES: u64 = 1 << 20;
/// Entries of [`MappedReads::ends`]; stretches share them modulo this number.
const END_COUNT: u64 = 32;

/// The mappings of one file.
#[derive(Default)]
pub(in crate::pager) struct MappedReads {
    pieces: OnceLock<Box<[Piece]>>,
    /// The end of the last frame read in a stretch.
    ends: OwnLine<[AtomicU64; END_COUNT as usize]>,
}

/// The mapping of a piece, made when it is first needed. `None` if it cannot be made or is not worthwhile.
type Piece = OnceLock<Option<Box<dyn Window>>>;

impl MappedReads {
    /// Fills `bytes`, a frame, from byte `at` of `file`, which must always be the same file. Returns false if `pread`
    /// must read it.
    pub(in crate::pager) fn read(&self, file: &dyn File, at: u64, bytes: &mut [u8]) -> bool {
        if bytes.len() != FRAME_BYTES || self.is_in_order(at) {
            return false;
        }
        let pieces = self.pieces.get_or_init(|| (0..PIECE_COUNT).map(|_| OnceLock::new()).collect());
        let number = at / PIECE_BYTES;
        let Some(piece) = usize::try_from(number).ok().and_then(|number| pieces.get(number)) else { return false };
        let window = piece.get_or_init(|| map(file, number * PIECE_BYTES));
        window.as_ref().is_some_and(|window| window.copy((at % PIECE_BYTES) as usize, bytes))
    }

    /// Whether the frame at `at` directly follows the last one read in its stretch.
    fn is_in_order(&self, at: u64) -> bool {
        let end = &self.ends[(at / STRETCH_BYTES % END_COUNT) as usize];
        // A race between threads only costs speed.
        let in_order = end.load(Relaxed) == at && at > 0;
        end.store(at + FRAME_BYTES as u64, Relaxed);
        in_order
    }
}

#[cold]
fn map(file: &dyn File, from: u64) -> Option<Box<dyn Window>> {
    // On an error `pread` reads the piece.
    if file.window_pays().unwrap_or(false) { file.window_from(from, PIECE_BYTES as usize) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Disk, Mode, Storage};

    #[test]
    fn a_mapped_read_has_what_was_written_last_or_says_that_a_call_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let file = Disk.open(&directory.path().join("frames"), Mode::New).unwrap();
        let frame = |n: u64, byte: u8| file.write_at(&[byte; 4096], n * 4096).unwrap();
        (0..600).for_each(|n| frame(n, n as u8));
        let reads = MappedReads::default();
        let read = |n: u64| {
            let mut bytes = vec![0; 4096];
            reads.read(file.as_ref(), n * 4096, &mut bytes).then(|| {
                assert!(bytes.iter().all(|&byte| byte == bytes[0]), "frame {n}");
                bytes[0]
            })
        };
        if read(0).is_none() {
            println!("SKIPPED: no mappings here");
            return;
        }
        for n in [2, 255, 256, 599] {
            assert_eq!(read(n), Some(n as u8));
            frame(n, 7);
            assert_eq!(read(n), Some(7));
        }
        // The file grows within a piece that is mapped.
        frame(700, 9);
        assert_eq!((read(700), read(650)), (Some(9), Some(0)));
        // The file is cut: this piece needs calls from here on, the others do not.
        file.set_len(4096 * 520).unwrap();
        assert_eq!((read(600), read(515), read(3)), (None, None, Some(3)));
        assert_eq!(read(1 << 30), None, "beyond all pieces");
    }

    #[test]
    fn frames_in_order_and_large_ones_are_left_to_calls() {
        let directory = tempfile::tempdir().unwrap();
        let file = Disk.open(&directory.path().join("frames"), Mode::New).unwrap();
        file.write_at(&vec![1; 4 << 20], 0).unwrap();
        let reads = MappedReads::default();
        let read = |n: u64, bytes: usize| reads.read(file.as_ref(), n * 4096, &mut vec![0; bytes]);
        if !read(0, 4096) {
            println!("SKIPPED: no mappings here");
            return;
        }
        // Two interleaved scans, and reads of other frames in between.
        let mapped = (1..200).filter(|n| read(*n, 4096) | read(512 + n, 4096) | !read(1000 - 3 * (n % 70), 4096));
        assert_eq!(mapped.count(), 1, "the first of the second scan");
        assert!(read(199, 4096) && read(199, 4096), "again");
        assert!(!read(50, 8192));
    }
}
