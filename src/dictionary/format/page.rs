//! Pages of data: a stream of *cells*, one behind another, cut into pages that each carry a checksum.
//!
//! A cell is a record, or a compressed block of records (`block.rs`). Cells lie across the borders of pages, so pages
//! are full whatever the records' sizes, and a cell of many pages is read in one piece.
//!
//! ```text
//! byte 0   4                                head                          page_bytes
//! | CRC-32C | starts, but for fixed records | ... body: a piece of the stream ... |
//! ```
//!
//! `starts` are [`START_COUNT`] numbers of 16 bits: where in the body the first cell begins at or behind each eighth of
//! it, so that a search can enter a page in the middle; [`NO_START`] where none does. A page in which none begins at
//! all says in the last four of those bytes how many pages back its cell began.
//!
//! Source: cells across pages are PaCHash's (Kurpicz, Lehmann & Sanders 2023), the starts and the checksum are ours.
//! Not here: which page to read (`index/page.rs`).

use super::layout::{Compression, Layout};
use crate::checksum::{crc32c, crc32c_append};
use crate::error::{Error, Result};
use std::path::Path;

pub(crate) const CHECKSUM_BYTES: usize = 4;
pub(crate) const START_COUNT: usize = 8;
pub(crate) const NO_START: u16 = u16::MAX;
/// Where a page in which no cell begins says how many pages back its cell did.
const BACK_AT: usize = CHECKSUM_BYTES + 2 * START_COUNT - 4;

/// Bytes of a page before its body.
pub(crate) const fn head_bytes(layout: Layout, compression: Compression) -> usize {
    match (layout, compression) {
        // Where records begin is arithmetic.
        (Layout::Fixed { .. }, Compression::None) => CHECKSUM_BYTES,
        _ => CHECKSUM_BYTES + 2 * START_COUNT,
    }
}

/// What page `page` must have for a checksum.
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

/// For a page in which no cell begins: how many pages before it its cell did.
pub(crate) fn pages_back(page: &[u8]) -> u64 {
    u32::from_le_bytes(page[BACK_AT..BACK_AT + 4].try_into().expect("4 bytes")).into()
}

/// Writes where cells begin into the head of a page.
pub(crate) struct StartsWriter {
    /// How many of the starts are written.
    written: usize,
}

impl StartsWriter {
    /// Of no page: there is nothing to write.
    pub fn done() -> Self {
        StartsWriter { written: START_COUNT }
    }

    /// Of a page whose head has these bytes behind its checksum. As long as no cell begins in it, it says that the cell
    /// that covers it began `pages_back` pages before.
    pub fn open(starts: &mut [u8], pages_back: u64) -> Self {
        starts.fill(0xFF);
        // A cell has at most 2^33 bytes, and a page 512 or more.
        let back = u32::try_from(pages_back).unwrap_or(u32::MAX);
        starts[BACK_AT - CHECKSUM_BYTES..].copy_from_slice(&back.to_le_bytes());
        StartsWriter { written: 0 }
    }

    #[inline]
    pub fn is_done(&self) -> bool {
        self.written == START_COUNT
    }

    /// A cell begins at `offset` of the page's `body` bytes, behind those noted before.
    pub fn note(&mut self, starts: &mut [u8], offset: usize, body: usize) {
        if self.written == 0 {
            // No longer a page without a start.
            starts[BACK_AT - CHECKSUM_BYTES..].fill(0xFF);
        }
        let start = u16::try_from(offset).expect("a page is at most 64 KiB").to_le_bytes();
        while self.written < START_COUNT && self.written * body / START_COUNT <= offset {
            starts[2 * self.written..][..2].copy_from_slice(&start);
            self.written += 1;
        }
    }
}
