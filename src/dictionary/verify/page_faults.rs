//! Compares pages with their checksums, and computes the checksum of these.

use crate::checksum::{crc32c_append, crc32c_combine};
use crate::dictionary::format::page;
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;
use std::ops::Range;

/// Bytes read at a time.
pub(super) const READ_BYTES: u64 = 1 << 20;

/// The result for several pages of a file.
pub(super) struct PageSums {
    pages: Range<u64>,
    /// The checksum of their stored checksums, in order.
    checksum: u32,
    /// Pages that do not match their checksums, with the stored and the computed one.
    pub differ: Vec<(u64, u32, u32)>,
}

/// Compares `pages` of `file` with their checksums; calls `read` with the number of bytes read.
pub(super) fn sum_pages(
    file: &DictionaryFile,
    pages: Range<u64>,
    mut read: impl FnMut(u64) -> Result<()>,
) -> Result<PageSums> {
    let page_bytes = u64::from(file.header.page_bytes);
    let at_once = (READ_BYTES / page_bytes).max(1);
    let mut bytes = Vec::new();
    let mut sums = PageSums { pages: pages.clone(), checksum: 0, differ: Vec::new() };
    for from in pages.clone().step_by(at_once as usize) {
        let to = pages.end.min(from + at_once);
        file.pages.announce(&(to..pages.end.min(to + at_once)));
        file.pages.raw(from..to, &mut bytes)?;
        for (page, bytes) in (from + 1..=to).zip(bytes.chunks_exact(page_bytes as usize)) {
            let (stored, computed) = (page::stored_checksum(bytes), page::checksum(page, bytes));
            if stored != computed {
                sums.differ.push((page, stored, computed));
            }
            sums.checksum = crc32c_append(sums.checksum, &stored.to_le_bytes());
        }
        read((to - from) * page_bytes)?;
    }
    Ok(sums)
}

/// The checksum of all checksums, combined from the parts in order.
pub(super) fn joined(parts: &[PageSums]) -> u32 {
    let bytes = |part: &PageSums| (part.pages.end - part.pages.start) * size_of::<u32>() as u64;
    parts.iter().fold(0, |sum, part| crc32c_combine(sum, part.checksum, bytes(part)))
}
