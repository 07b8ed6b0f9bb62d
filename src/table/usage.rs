//! The memory that the pairs of a table take, for callers that keep a limit.
//!
//! ```text
//! frames in memory = in use + free: later pairs reuse the free ones
//! in use           = needed by the pairs + slack: room in buckets that the load does not need
//! ```
//!
//! A table keeps the memory of removed pairs for later ones, so a limit should apply to what is in use. Removing pairs
//! lowers `needed` at once. Slack shrinks when the table grows again, when buckets merge automatically at half the
//! load, or with [`Table::merge_slack`].

use super::handle::Table;
use crate::error::Result;

/// Memory of a table; made by [`Table::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)] // the server's
pub struct TableUsage {
    /// Bytes in use: of memory, or of the file if that is smaller.
    pub used_bytes: u64,
    /// The part of `used_bytes` that is spare room in buckets, beyond what the load needs.
    pub slack_bytes: u64,
}

impl Table {
    /// Returns the memory in use. O(1).
    #[doc(hidden)] // the server's
    pub fn usage(&self) -> TableUsage {
        let frames_bytes = u64::from(self.pager.frame_count()) * self.pager.frame_bytes() as u64;
        let in_use = frames_bytes.saturating_sub(self.pager.allocator().free_bytes_known());
        let used_bytes = in_use.min(self.pager.frames().memory_bytes());
        TableUsage { used_bytes, slack_bytes: self.buckets.slack_bytes().min(used_bytes) }
    }

    /// Returns free memory of the table and of the process's allocator to the system, if that is much. Takes some
    /// milliseconds.
    #[doc(hidden)] // the server's
    pub fn return_free_memory(&self) {
        if self.pager.refuse_if_forked().is_ok() {
            self.pager.allocator().return_free_memory();
            crate::heap::give_back();
        }
    }

    /// Merges up to `count` buckets, while the load needs at most seven eighths of them. Returns the number of merges.
    ///
    /// Other threads may continue; each waits for at most one bucket.
    ///
    /// # Errors
    /// The errors of [`remove`](Self::remove).
    #[doc(hidden)] // the server's
    pub fn merge_slack(&self, count: u32) -> Result<u32> {
        let _inside = self.enter()?;
        self.buckets.merge_slack(count)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    /// Appends to two values in turn and sometimes calls `settle`, after which little memory may be free.
    fn little_memory_stays_free(table: &Table, settle: impl Fn()) {
        let is_bounded = || {
            let (used, memory) = (table.usage().used_bytes, table.counters().memory_bytes);
            assert!(memory <= used + used / 8 + (17 << 20), "{memory} bytes in memory, {used} in use");
        };
        let mut expected = Vec::new();
        for number in 0..120u32 {
            let part = vec![number as u8; 1 << 20];
            expected.extend_from_slice(&part);
            for key in [b"one", b"two"] {
                table.append(key, &part).unwrap();
            }
            if number % 20 == 19 {
                settle();
                is_bounded();
            }
        }
        // Frames whose memory was returned are reused.
        for number in 0..40u8 {
            table.put(&[number], &vec![number; 3 << 20]).unwrap();
        }
        for number in 0..40u8 {
            assert!(table.get(&[number]).unwrap().unwrap() == vec![number; 3 << 20]);
        }
        for key in [b"one", b"two"] {
            assert!(table.get(key).unwrap().unwrap() == expected);
            table.remove(key).unwrap();
        }
        settle();
        is_bounded();
        assert!(table.verify().unwrap().is_empty());
    }

    #[test]
    fn values_that_grow_in_memory_leave_little_memory_behind() {
        little_memory_stays_free(&Table::in_memory().unwrap(), || {});
    }

    #[test]
    fn values_that_grow_in_a_file_leave_little_memory_behind_a_checkpoint() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let table = Table::open(&path).unwrap();
        little_memory_stays_free(&table, || table.checkpoint().unwrap());
        table.close().unwrap();
        let table = Table::open(&path).unwrap();
        assert!(table.get(&[7]).unwrap().unwrap() == vec![7; 3 << 20]);
        assert!(table.verify().unwrap().is_empty());
    }

    #[test]
    fn memory_of_removed_pairs_is_not_in_use() {
        let table = Table::in_memory().unwrap();
        for number in 0..100_000u32 {
            table.put(&number.to_le_bytes(), &[7; 100]).unwrap();
        }
        let full = table.usage();
        assert!(full.slack_bytes < full.used_bytes / 4, "{full:?}");
        for number in 0..50_000u32 {
            table.remove(&number.to_le_bytes()).unwrap();
        }
        let half = table.usage();
        let needed = half.used_bytes - half.slack_bytes;
        assert!(needed < full.used_bytes * 6 / 10, "{full:?} {half:?}");
        while table.merge_slack(100).unwrap() > 0 {}
        let merged = table.usage();
        assert!(merged.used_bytes < full.used_bytes * 7 / 10, "{full:?} {merged:?}");
        assert_eq!(table.len(), 50_000);
        // Values of another size reuse the free memory.
        let memory = table.counters().memory_bytes;
        for number in 50_000..100_000u32 {
            table.remove(&number.to_le_bytes()).unwrap();
        }
        while table.merge_slack(100).unwrap() > 0 {}
        for number in 0..500u32 {
            table.put(&number.to_le_bytes(), &[7; 20_000]).unwrap();
        }
        assert!(table.counters().memory_bytes < memory * 11 / 10, "{} {memory}", table.counters().memory_bytes);
        assert!(table.verify().unwrap().is_empty());
    }
}
