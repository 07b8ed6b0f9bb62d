//! Write-behind buffer for large values of a table without a log.
//!
//! A system call for each value costs more than a copy. Without a log, no value is promised to survive before the next
//! checkpoint. So values are gathered here and written [`PART_BYTES`] at a time; reads of their blocks find them here.
//!
//! ```text
//! blocks   |  in the file  |  in the file  | here | here | here, in part |
//! ```
//!
//! Not here: which blocks, and their checksums (`pager/values.rs`).

use crate::error::Result;
use crate::pager::interleave;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// The buffer is written once it has this many bytes.
pub(in crate::pager) const PART_BYTES: usize = 64 << 10;

/// Bytes of adjacent blocks that are not in the file yet.
pub(super) struct Behind {
    block_bytes: usize,
    run: Mutex<Run>,
    /// The first block and the number of blocks. Reads of other blocks do not take the lock.
    blocks: AtomicU64,
}

#[derive(Default)]
struct Run {
    first: u32,
    /// May end within a block.
    bytes: Vec<u8>,
}

impl Behind {
    pub(super) fn new(block_bytes: usize) -> Behind {
        Behind { block_bytes, run: Mutex::default(), blocks: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        interleave::lock(&self.run)
    }

    fn publish(&self, run: &Run) {
        let count = run.bytes.len().div_ceil(self.block_bytes) as u64; // PART_BYTES and one piece at most
        self.blocks.store(u64::from(run.first) << 32 | count, Release);
    }

    /// Adds the bytes of blocks from `block` on. They may replace the last block. Writes whole blocks by `write` once
    /// there are enough.
    ///
    /// # Errors
    /// Returns the errors of `write`. Earlier bytes are kept; [`cut`](Self::cut) removes the new ones.
    pub(super) fn add(&self, block: u32, bytes: &[u8], write: impl Fn(u32, &[u8]) -> Result<()>) -> Result<()> {
        let run = &mut *self.lock();
        let at = block.checked_sub(run.first).map(|blocks| blocks as usize * self.block_bytes);
        match at.filter(|&at| at <= run.bytes.len() && !run.bytes.is_empty()) {
            Some(at) => run.bytes.truncate(at),
            None => {
                self.write_all(run, &write)?;
                run.first = block;
            }
        }
        run.bytes.extend_from_slice(bytes);
        self.publish(run);
        if run.bytes.len() >= PART_BYTES {
            let whole = run.bytes.len() - run.bytes.len() % self.block_bytes;
            write(run.first, &run.bytes[..whole])?;
            run.bytes.drain(..whole);
            run.first += (whole / self.block_bytes) as u32;
            self.publish(run);
        }
        Ok(())
    }

    fn write_all(&self, run: &mut Run, write: impl Fn(u32, &[u8]) -> Result<()>) -> Result<()> {
        if !run.bytes.is_empty() {
            write(run.first, &run.bytes)?;
            run.bytes.clear();
            self.publish(run);
        }
        Ok(())
    }

    /// Writes all bytes by `write`.
    ///
    /// # Errors
    /// Returns the errors of `write`. All bytes are kept.
    pub(super) fn flush(&self, write: impl Fn(u32, &[u8]) -> Result<()>) -> Result<()> {
        self.write_all(&mut self.lock(), write)
    }

    /// Removes the bytes of `blocks`, except the first `kept`.
    pub(super) fn cut(&self, blocks: Range<u32>, kept: usize) {
        let run = &mut *self.lock();
        let at = match blocks.start.checked_sub(run.first) {
            Some(before) => before as usize * self.block_bytes + kept,
            None if blocks.contains(&run.first) => 0, // earlier blocks were written
            None => return,                           // an earlier run, which could not be written
        };
        run.bytes.truncate(at);
        self.publish(run);
    }

    /// Whether bytes of `block` may be here.
    #[inline]
    pub(super) fn may_have(&self, block: u32) -> bool {
        let blocks = self.blocks.load(Acquire);
        u64::from(block).wrapping_sub(blocks >> 32) < blocks & u64::from(u32::MAX)
    }

    /// Fills `bytes` with a block. Returns false if it is not here.
    pub(super) fn read(&self, block: u32, bytes: &mut [u8]) -> bool {
        if !self.may_have(block) {
            return false;
        }
        let run = self.lock();
        let at = block.checked_sub(run.first).map(|blocks| blocks as usize * self.block_bytes);
        let Some(found) = at.and_then(|at| run.bytes.get(at..)).filter(|found| !found.is_empty()) else { return false };
        let count = found.len().min(bytes.len());
        bytes[..count].copy_from_slice(&found[..count]);
        bytes[count..].fill(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::RefCell;

    const BLOCK: usize = 4096;

    /// Reads `block`, here or in the file.
    fn read(behind: &Behind, file: &[u8], block: u32) -> Vec<u8> {
        let mut bytes = vec![9; BLOCK];
        if !behind.read(block, &mut bytes) {
            bytes.copy_from_slice(&file[block as usize * BLOCK..][..BLOCK]);
        }
        bytes
    }

    #[test]
    fn a_block_is_read_as_it_was_added_before_and_after_it_is_written() {
        let (behind, file) = (Behind::new(BLOCK), RefCell::new(vec![0; 400 * BLOCK]));
        let calls = RefCell::new(0);
        let write = |block: u32, bytes: &[u8]| {
            file.borrow_mut()[block as usize * BLOCK..][..bytes.len()].copy_from_slice(bytes);
            *calls.borrow_mut() += 1;
            Ok(())
        };
        let mut expected = vec![0u8; 400 * BLOCK];
        let (mut block, mut head, mut values) = (10u32, Vec::new(), 0u32);
        for step in 0..400usize {
            // A value of half a block to two blocks behind the last one; sometimes elsewhere.
            let bytes: Vec<u8> = [&head[..], &vec![(step as u8).wrapping_add(1); 2000 + step % 7 * 1000]].concat();
            behind.add(block, &bytes, write).unwrap();
            expected[block as usize * BLOCK..][..bytes.len()].copy_from_slice(&bytes);
            let whole = bytes.len() / BLOCK;
            (0..=whole as u32).for_each(|more| {
                let at = (block + more) as usize * BLOCK;
                assert_eq!(read(&behind, &file.borrow(), block + more), expected[at..][..BLOCK], "step {step}");
            });
            (block, head) = (block + whole as u32, bytes[whole * BLOCK..].to_vec());
            values += 1;
            if step % 50 == 49 {
                (block, head) = (block + 3, Vec::new());
            }
            if step == 150 {
                behind.flush(write).unwrap();
                assert!(!behind.may_have(block));
            }
            if block > 350 {
                block = 10;
                head.clear();
                expected.fill(0);
                behind.flush(write).unwrap();
                file.borrow_mut().fill(0);
            }
        }
        assert!(*calls.borrow() * 4 < values, "{} calls for {values} values", calls.borrow());
    }

    #[test]
    fn what_was_there_before_a_failure_is_there_after_it() {
        let behind = Behind::new(BLOCK);
        let fails = |_: u32, _: &[u8]| Err(Error::corrupt("the disk"));
        behind.add(7, &[1; 6000], fails).unwrap();
        // The value begins at byte 6000, in block 8.
        let more: Vec<u8> = [&[1; 6000 - BLOCK][..], &[2; PART_BYTES]].concat();
        behind.add(8, &more, fails).unwrap_err();
        behind.cut(8..100, 6000 - BLOCK);
        let written = RefCell::new(Vec::new());
        let keep = |block: u32, bytes: &[u8]| {
            written.borrow_mut().push((block, bytes.to_vec()));
            Ok(())
        };
        behind.flush(keep).unwrap();
        assert_eq!(written.take(), [(7, vec![1; 6000])]);
        // A value whose first part is in the file already.
        behind.add(20, &[3; PART_BYTES], keep).unwrap();
        behind.add(20 + (PART_BYTES / BLOCK) as u32, &[4; 100], keep).unwrap();
        behind.cut(20..100, 0);
        assert!(!behind.may_have(36));
        // The values before a window elsewhere could not be written.
        behind.add(200, &[5; 100], keep).unwrap();
        behind.add(120, &[6; 100], fails).unwrap_err();
        behind.cut(120..180, 0);
        assert_eq!(read(&behind, &[], 200)[..101], [&[5; 100][..], &[0]].concat());
    }
}
