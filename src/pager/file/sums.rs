//! The checksum of a frame, which is in the block map, so that a lost or misdirected write is detected as well as a
//! flipped bit.
//!
//! Not here: reading and comparing it (`blocks/map.rs`).

use crate::checksum::{crc32c, crc32c_append};
use crate::pager::pool::FrameNo;

/// The checksum of a frame covers its number, so a frame in the wrong place does not match.
pub(crate) fn frame_sum(frame: FrameNo, bytes: &[u8]) -> u32 {
    nonzero(crc32c_append(crc32c(&frame.to_le_bytes()), bytes))
}

/// 0 means "never written".
pub(super) fn nonzero(sum: u32) -> u32 {
    if sum == 0 { u32::MAX } else { sum }
}
