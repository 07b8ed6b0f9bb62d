//! The checksums of frames, which are in other frames, so that a lost or misdirected write is detected as well as a
//! flipped bit.
//!
//! Not here: reading and comparing them (`load/`).

use super::map_frames::ZONE_FRAMES;
use crate::checksum::{crc32c, crc32c_append};
use crate::pager::pool::FrameNo;

/// The checksum of a frame covers its number, so a frame in the wrong place does not match.
pub(crate) fn frame_sum(frame: FrameNo, bytes: &[u8]) -> u32 {
    nonzero(crc32c_append(crc32c(&frame.to_le_bytes()), bytes))
}

/// Offset of a checksum frame's own checksum.
pub(crate) const SUM_OF_SUMS: usize = 4 * ZONE_FRAMES as usize;

/// The checksum of checksum frame `frame`.
pub(crate) fn sum_of_sums(frame: FrameNo, bytes: &[u8]) -> u32 {
    let sum = crc32c(&frame.to_le_bytes());
    let sum = crc32c_append(sum, &bytes[..SUM_OF_SUMS]);
    nonzero(crc32c_append(sum, &bytes[SUM_OF_SUMS + 4..]))
}

/// 0 means "never written".
pub(super) fn nonzero(sum: u32) -> u32 {
    if sum == 0 { u32::MAX } else { sum }
}
