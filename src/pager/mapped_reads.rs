//! Reads of frames through mappings of their file, for a table that is larger than its cache.
//!
//! Nearly each operation on such a table loads a frame. A call for 4 KiB that the kernel has cached takes 1.2 us, a
//! copy from a mapping 0.7 us (docs/benchmarks.md, "What was tried"). A piece of the file is mapped with the first
//! frame that is read of it. The kernel counts what was read this way among the memory of the process, and takes it
//! back like the rest of its cache.
//!
//! Where nothing is mapped, or a page cannot be read, the frame is read with a call, which says what is wrong.
//! Not here: the mapping and what a failing disk does there (`io/window.rs`).

use crate::io::{File, Window};
use std::sync::OnceLock;

/// Bytes of a piece, which begins at a multiple of them.
const PIECE_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 1 << 30 };
/// Later bytes of a file are read with calls.
const PIECE_COUNT: usize = 1024;

/// The mappings of one file.
#[derive(Default)]
pub(super) struct MappedReads {
    pieces: OnceLock<Box<[Piece]>>,
}

/// The mapping of a piece, made when it is first needed; `None`: it cannot be made, or does not pay.
type Piece = OnceLock<Option<Box<dyn Window>>>;

impl MappedReads {
    /// Fills `bytes` from byte `at` of `file`, always the same file; `false` where it has to be read with a call. The
    /// bytes lie in one piece.
    pub(super) fn read(&self, file: &dyn File, at: u64, bytes: &mut [u8]) -> bool {
        let pieces = self.pieces.get_or_init(|| (0..PIECE_COUNT).map(|_| OnceLock::new()).collect());
        let number = at / PIECE_BYTES;
        let Some(piece) = usize::try_from(number).ok().and_then(|number| pieces.get(number)) else { return false };
        let window = piece.get_or_init(|| map(file, number * PIECE_BYTES));
        window.as_ref().is_some_and(|window| window.copy((at % PIECE_BYTES) as usize, bytes))
    }
}

#[cold]
fn map(file: &dyn File, from: u64) -> Option<Box<dyn Window>> {
    // An error here says no more than that a call has to do.
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
        for n in [1, 255, 256, 599] {
            assert_eq!(read(n), Some(n as u8));
            frame(n, 7);
            assert_eq!(read(n), Some(7));
        }
        // The file grows in a piece that is mapped.
        frame(700, 9);
        assert_eq!((read(700), read(650)), (Some(9), Some(0)));
        // It is cut: this piece needs calls from here on, the others do not.
        file.set_len(4096 * 520).unwrap();
        assert_eq!((read(600), read(515), read(3)), (None, None, Some(3)));
        assert_eq!(read(1 << 30), None, "beyond all pieces");
    }
}
