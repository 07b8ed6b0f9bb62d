//! Data pages: a stream of consecutive *cells*, cut into pages that each carry a checksum.
//!
//! A cell is a record, or a compressed block of records (`block.rs`). Cells cross page borders, so pages are full
//! whatever the records' sizes, and a cell of many pages is read in one piece.
//!
//! ```text
//! byte 0   4                                head                          page_bytes
//! | CRC-32C | starts, except for fixed records | ... body: a piece of the stream ... |
//! ```
//!
//! `starts` are [`START_COUNT`] numbers of 16 bits, one for each eighth of the body. Each is the offset of the first
//! cell that begins at or after the start of that eighth, so that a search can enter a page in the middle; [`NO_START`]
//! if there is none. In a page in which no cell begins, the last four of these bytes are how many pages back its cell
//! began.
//!
//! Source: cells across pages are from PaCHash (Kurpicz, Lehmann & Sanders 2023); the starts and the checksum are ours.
//! Not here: which page to read (`index/page_index.rs`).

use super::layout::{Compression, Layout};
use crate::checksum::{crc32c, crc32c_append};
use crate::error::{Error, Result};
use std::path::Path;

pub(crate) const CHECKSUM_BYTES: usize = 4;
pub(crate) const START_COUNT: usize = 8;
pub(crate) const NO_START: u16 = u16::MAX;
/// In a page in which no cell begins: the offset of how many pages back its cell began.
const BACK_AT: usize = CHECKSUM_BYTES + 2 * START_COUNT - 4;

/// Bytes of a page before its body.
pub(crate) const fn head_bytes(layout: Layout, compression: Compression) -> usize {
    match (layout, compression) {
        // The start of each record can be computed.
        (Layout::Fixed { .. }, Compression::None) => CHECKSUM_BYTES,
        _ => CHECKSUM_BYTES + 2 * START_COUNT,
    }
}

/// The checksum that page `page` must have.
pub(crate) fn checksum(page: u64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&page.to_le_bytes()), &bytes[CHECKSUM_BYTES..])
}

/// Compares the checksum of page `page`, whose bytes are `bytes`.
pub(crate) fn check(path: &Path, page: u64, bytes: &[u8]) -> Result<()> {
    let stored = stored_checksum(bytes);
    let computed = checksum(page, bytes);
    if stored == computed {
        return Ok(());
    }
    Err(damaged(path, page, &format!("checksum {stored:08x} is stored, {computed:08x} computed")))
}

pub(crate) fn stored_checksum(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..CHECKSUM_BYTES].try_into().expect("4 bytes"))
}

#[cold]
pub(crate) fn damaged(path: &Path, page: u64, what: &str) -> Error {
    Error::corrupt(format!("{}: page {page}: {what}", path.display()))
        .with_hint("Check the dictionary to see all faults, then restore it or build it again.")
}

/// Start number `index` of a page that has starts.
pub(crate) fn start(page: &[u8], index: usize) -> Option<usize> {
    let at = CHECKSUM_BYTES + 2 * index;
    let start = u16::from_le_bytes([page[at], page[at + 1]]);
    (start != NO_START).then_some(usize::from(start))
}

/// For a page in which no cell begins: how many pages before it its cell began.
pub(crate) fn pages_back(page: &[u8]) -> u64 {
    u32::from_le_bytes(page[BACK_AT..BACK_AT + 4].try_into().expect("4 bytes")).into()
}

/// Writes where cells begin into the head of a page.
pub(crate) struct StartsWriter {
    /// The number of starts written so far.
    written: usize,
}

impl StartsWriter {
    /// A writer for no page: there is nothing to write.
    pub fn done() -> Self {
        StartsWriter { written: START_COUNT }
    }

    /// A writer for a page whose head has the bytes `starts` after its checksum. Until a cell begins in the page, they
    /// say that the cell that covers it began `pages_back` pages before.
    pub fn open(starts: &mut [u8], pages_back: u64) -> Self {
        starts.fill(0xFF);
        // A cell has at most 2^33 bytes, and a page at least 512.
        let back = u32::try_from(pages_back).unwrap_or(u32::MAX);
        starts[BACK_AT - CHECKSUM_BYTES..].copy_from_slice(&back.to_le_bytes());
        StartsWriter { written: 0 }
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.written == START_COUNT
    }

    /// Records that a cell begins at `offset` of the page's `body` bytes, after those recorded before.
    pub fn note(&mut self, starts: &mut [u8], offset: usize, body: usize) {
        if self.written == 0 {
            // The page now has a start, so the number of pages back is removed.
            starts[BACK_AT - CHECKSUM_BYTES..].fill(0xFF);
        }
        let start = u16::try_from(offset).expect("a page is at most 64 KiB").to_le_bytes();
        while self.written < START_COUNT && self.written * body / START_COUNT <= offset {
            starts[2 * self.written..][..2].copy_from_slice(&start);
            self.written += 1;
        }
    }
}
