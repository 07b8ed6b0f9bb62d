//! Finds a key among compressed blocks, which are decompressed for it.

use super::page_source::{Copied, PageSource};
use super::pages::Piece;
use super::record_format::RecordFormat;
use super::search::{self, At, Outcome, Query, Sought};
use crate::dictionary::format::block::{self, BlockHead};
use std::ops::Range;

/// The value of the key in `piece`; `None` if no record that lies entirely in it has the key. `raw` is a buffer for a
/// block.
///
/// # Errors
/// What is wrong with a block.
pub(crate) fn find<'p>(
    format: &RecordFormat,
    piece: Piece<'p>,
    query: &Query<'_>,
    raw: &'p mut Vec<u8>,
) -> Result<Option<&'p [u8]>, &'static str> {
    let Some(first) = piece.starts.first() else { return Ok(None) };
    let mut at = *first;
    let mut found = None;
    // Visits blocks whose first position is not above the query's. The key is in the last of them, or in an earlier one
    // if positions are equal.
    while let Some(head) = piece.bytes.get(at..).and_then(BlockHead::parse) {
        let head = head?;
        if format.ordered && head.position > query.position {
            break;
        }
        let Ok(cell_bytes) = usize::try_from(head.cell_bytes()) else { break };
        let Some(cell) = piece.bytes.get(at..).and_then(|rest| rest.get(..cell_bytes)) else { break };
        let next = piece.bytes.get(at + cell_bytes..).and_then(BlockHead::parse).transpose()?;
        let passed = format.ordered && next.is_some_and(|next| next.position < query.position);
        if !passed {
            let bytes = block::unpack(&head, &cell[block::HEAD_BYTES..], format.block_bytes_max, raw)?;
            // As offsets, since another block may be unpacked into the same memory before they are used.
            if let Some(value) = find_in_block(format, bytes, query)? {
                found = Some((head, at, value));
                break;
            }
        }
        at += cell_bytes;
    }
    let Some((head, at, value)) = found else { return Ok(None) };
    if head.stored_bytes == head.raw_bytes {
        return Ok(Some(&piece.bytes[at + block::HEAD_BYTES..][value]));
    }
    Ok(Some(&raw[value]))
}

/// The range of the value of the key among the records in `bytes`.
fn find_in_block(format: &RecordFormat, bytes: &[u8], query: &Query<'_>) -> Result<Option<Range<usize>>, &'static str> {
    let format = RecordFormat { record_bytes: format.layout.record_bytes().unwrap_or(0), ..*format };
    // The index knows how far into a page the record is, not how far into a block.
    let sought = Sought { pages: 0..1, at: At::Anywhere, query: Query { expected: None, ..*query } };
    match search::find(PageSource::of_block(&Copied::block(bytes)), &format, &sought) {
        Outcome::Value(at, len) => Ok(Some(at.within as usize..(at.within + len) as usize)),
        Outcome::Absent => Ok(None),
        Outcome::Unavailable => Err("a record reaches beyond its block"),
    }
}
