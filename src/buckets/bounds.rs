//! Checks that groups of buckets and map frames overlap neither each other nor anything that a reference leads to.
//!
//! A damaged file may contain anything, with matching checksums. Two structures at the same location are mostly
//! harmless: both read nonsense. But a bucket whose overflow page is in its own frame would wait for its own latch. So
//! the locations of groups and map frames are compared when a table is opened. From then on their frames are **fixed**:
//! the allocator neither allocates nor frees them (`pager/allocate/`), and a thread that follows a reference does not
//! wait for the latch of a fixed frame. If no other thread holds the frame, the test costs one load.
//!
//! Not here: bounds against the file's length (`overflow.rs`, `extent.rs`), a full check (`verify.rs`).

use super::linear_hash::Buckets;
use super::sizes::Totals;
use crate::error::Result;
use crate::linear;
use crate::pager::Pager;
use crate::pager::pool::FrameNo;

/// Checks the locations of a header's groups of buckets and fixes their frames. Groups must not overlap and must be
/// within the file, see docs/format.md, "Buckets".
pub(super) fn fix_groups(pager: &Pager, page_bytes: usize, max_bucket: linear::Bucket, groups: &[u64]) -> Result<()> {
    let frame_bytes = pager.frame_bytes() as u64;
    let in_first_frame = (frame_bytes / page_bytes as u64).trailing_zeros() as usize;
    let first = groups[0];
    let mut taken: Vec<(u64, u64)> = pager.fixed_frames().map(|(f, n)| (u64::from(f), u64::from(n))).collect();
    for (i, &start) in groups.iter().enumerate() {
        if start == 0 && i > in_first_frame.max(linear::group(max_bucket).0) {
            continue;
        }
        let bytes = u64::from(linear::group_len(i)) * page_bytes as u64;
        let within = start.checked_add(bytes).is_some_and(|end| end <= u64::from(pager.frame_count()) * frame_bytes);
        // Groups 0 to i - 1 have as many buckets as group i.
        let in_place = if i == 0 || i > in_first_frame {
            start != 0 && start % frame_bytes == 0
        } else {
            start == first.wrapping_add(bytes)
        };
        if !within || !in_place {
            return Err(pager.corrupt(format!("header: bucket group {i} at byte {start}")));
        }
        if i == 0 || i > in_first_frame {
            taken.push((start / frame_bytes, bytes.div_ceil(frame_bytes)));
        }
    }
    taken.sort_unstable();
    if let Some(pair) = taken.windows(2).find(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return Err(pager.corrupt(format!("header: two things at frame {}", pair[1].0)));
    }
    // All within the file, whose frame numbers have 32 bits.
    taken.iter().for_each(|&(first, count)| pager.allocator().fix(first as FrameNo, count as u32));
    Ok(())
}

/// Checks the header's totals against the file's size: every pair, and every byte of payload, takes at least a byte.
pub(super) fn check_totals(pager: &Pager, totals: Totals) -> Result<()> {
    let file_bytes = u64::from(pager.frame_count()) * pager.frame_bytes() as u64;
    let Totals { pairs, payload_bytes, bucket_bytes } = totals;
    if pairs.max(payload_bytes).max(bucket_bytes) <= file_bytes {
        return Ok(());
    }
    Err(pager.corrupt(format!(
        "header: {pairs} pairs of {payload_bytes} bytes, {bucket_bytes} bytes in pages, in a file of {file_bytes}"
    )))
}

impl Buckets {
    /// Called before the frame of a reference is latched while a bucket is latched. Fails if that could wait forever.
    pub(super) fn check_apart(&self, frame: FrameNo) -> Result<()> {
        // If two threads each want a frame that the other holds, one of them detects it here.
        if !self.pager.pool().is_latched(frame) || !self.pager.allocator().is_fixed(frame) {
            return Ok(());
        }
        Err(self.pager.corrupt(format!("frame {frame}: a reference leads to primary pages or a map")))
    }
}
