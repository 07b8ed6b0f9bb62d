//! Lookups of many keys at a time, with overlapping cache misses.
//!
//! A lookup waits for two or three cache lines, each known only after the one before: the slots of its bucket's page,
//! then a record; for one pair in six, the slots of an overflow page in between. With many keys, each step runs for a
//! whole window of keys, and prefetches the lines of the next step.
//!
//! ```text
//! 1  hash the key; prefetch header and slots of its bucket's page
//! 2  find the slots with the tag; prefetch the record, or the slots of the overflow page
//! 3  (overflow pages) find the slots with the tag; prefetch the record
//! 4  compare and copy the record; if the page has changed: the ordinary lookup
//! ```
//!
//! Gain: docs/benchmarks.md, "Many keys at a time". Not here: the steps of one lookup (`optimistic.rs`).

use super::activity;
use super::address::UsualPage;
use super::bucket::HashedKey;
use super::linear_hash::Buckets;
use super::optimistic::{BucketSnapshot, Optimistic};
use crate::error::Result;

/// Keys looked up together: enough to use every line buffer of a core, few enough for its first-level cache.
const WINDOW: usize = 32;

impl Buckets {
    /// Calls `take` with the index of each key, in order, and its value. No latch is held while `take` runs.
    pub(crate) fn get_many(&self, keys: &[impl AsRef<[u8]>], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        let mut value = Vec::new();
        let usual = self.usual_page();
        for (window, keys) in keys.chunks(WINDOW).enumerate() {
            let mut snapshots = [const { None }; WINDOW];
            let snapshots = &mut snapshots[..keys.len()];
            self.snapshot_many(keys, usual, snapshots);
            for (index, (key, snapshot)) in keys.iter().zip(snapshots).enumerate() {
                let found = self.finish_lookup(key.as_ref(), snapshot.as_ref(), &mut value)?;
                take(window * WINDOW + index, found.then_some(&value));
            }
        }
        Ok(())
    }

    /// Steps 1 to 3. A key that needs the latch has no snapshot.
    #[inline]
    fn snapshot_many<'t, 'k>(
        &'t self,
        keys: &'k [impl AsRef<[u8]>],
        usual: UsualPage,
        snapshots: &mut [Option<(HashedKey<'k>, BucketSnapshot<'t>)>],
    ) {
        let mut hashes = [0; WINDOW];
        for (key, hash) in keys.iter().zip(&mut hashes) {
            *hash = self.hash.hash(key.as_ref());
            self.prefetch_slots(*hash, usual);
        }
        let mut in_overflow = 0u32;
        for (index, key) in keys.iter().enumerate() {
            let key = HashedKey::new(key.as_ref(), hashes[index]);
            let Some(snapshot) = self.snapshot_bucket(key) else { continue };
            in_overflow |= u32::from(self.prefetch_next(&snapshot, usual)) << index;
            snapshots[index] = Some((key, snapshot));
        }
        while in_overflow != 0 {
            if let Some((key, snapshot)) = &mut snapshots[in_overflow.trailing_zeros() as usize] {
                self.add_overflow(snapshot, *key, usual);
            }
            in_overflow &= in_overflow - 1;
        }
    }

    /// Step 4: the value of `key` from its snapshot, or by the ordinary lookup.
    #[inline]
    fn finish_lookup(
        &self,
        key: &[u8],
        snapshot: Option<&(HashedKey<'_>, BucketSnapshot<'_>)>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        if let (Some((key, snapshot)), false) = (snapshot, activity::is_due()) {
            match self.validate_snapshot(*key, snapshot, value) {
                Optimistic::Found => return Ok(true),
                Optimistic::Absent => return Ok(false),
                Optimistic::Retry => {}
            }
        }
        self.get_latched(self.key(key), value)
    }
}
