//! Linear hashing over the pager: which page holds a key, and how buckets change, split and merge.
//!
//! ```text
//! lookup   hash -> address -> optimistic read of the page (optimistic.rs); else latch the frame, locate -> value
//! change   hash -> address -> latch the frame -> edit (edit.rs, bucket.rs) -> adjust (split.rs)
//! ```
//!
//! [`View`], one atomic number, says how many buckets exist. A thread that has latched a bucket compares the view
//! again, and starts over if the bucket was split or merged in between.
//!
//! Source: Seltzer & Yigit 1991. Not here: the arithmetic (`linear.rs`), frames and files (`pager`); the log, mutual
//! exclusion of threads, and durability (`table`).

mod activity;
pub(crate) mod address;
mod batch_units;
mod before;
pub(crate) mod bounds;
pub(crate) mod bucket;
mod builder;
pub(crate) mod compact;
pub(crate) mod edit;
mod expected;
pub(crate) mod extent;
mod gathered;
mod layout;
mod linear_hash;
mod load;
mod lookup;
mod many;
mod optimistic;
mod overflow;
pub(crate) mod page;
mod parts;
pub(crate) mod root;
mod sample;
mod scan;
mod sizes;
mod split;
mod survey;
mod tags;
mod verify;

use crate::error::{Error, ErrorKind, Result, quote};
use crate::hash::HashFunction;
use crate::linear;
use crate::own_line::OwnLine;
use crate::pager::pool::FrameNo;
use crate::pager::{FRAME_UNITS, Pager};
pub(crate) use activity::Activity;
#[cfg(test)]
pub(crate) use activity::INTERVAL;
use address::View;
pub(crate) use batch_units::BatchUnits;
pub(crate) use before::Before;
pub(crate) use bucket::{Bucket, Delta, HashedKey, LatchedBucket, PairLocation};
use expected::ExpectedPages;
pub(crate) use linear_hash::Buckets;
pub(crate) use load::Load;
pub(crate) use lookup::Located;
pub use lookup::ValueRef;
use root::Root;
pub(crate) use root::TYPES_BYTES;
pub use scan::Scan;
use sizes::Limits;
pub(crate) use sizes::{FILL_PERCENT, Fill, PAGE_BYTES, Totals};
pub use sizes::{KEY_LEN_MAX, VALUE_LEN_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
pub use survey::TableSurvey;

impl Buckets {
    /// The first, empty bucket of a new table.
    pub(crate) fn create(pager: Arc<Pager>, hash: HashFunction, page_bytes: usize, fill: Fill) -> Result<Buckets> {
        let buckets = Buckets {
            hash,
            page_bytes,
            prefetch_bytes: address::prefetch_bytes(page_bytes),
            limits: Limits::of(page_bytes),
            fill,
            view: OwnLine::default(),
            groups: [const { AtomicU64::new(0) }; _],
            expected: ExpectedPages::default(),
            min_max_bucket: AtomicU32::new(0),
            load: OwnLine(Load::new(Totals::default())),
            structure: OwnLine::default(),
            activity: Arc::new(Activity::new(0)),
            pager,
        };
        // Small groups share the first frame, which has only primary pages.
        let pager = &buckets.pager;
        let first = pager.allocate(FRAME_UNITS)? * pager.unit_bytes() as u64;
        for group in 0..=buckets.groups_in_first_frame() {
            let before: u64 = (0..group).map(|g| u64::from(linear::group_len(g))).sum();
            buckets.groups[group].store(first + before * page_bytes as u64, Relaxed);
        }
        pager.allocator().fix((first / pager.frame_bytes() as u64) as FrameNo, 1);
        Ok(buckets)
    }

    /// Adds the empty buckets up to `max_bucket` to a new table.
    pub(crate) fn presize(&mut self, max_bucket: linear::Bucket) -> Result<()> {
        for group in 0..=linear::group(max_bucket).0 {
            self.allocate_group_number(group)?;
        }
        *self.min_max_bucket.get_mut() = max_bucket;
        self.activity = Arc::new(Activity::new(max_bucket));
        self.set_view(View::new(max_bucket, 0));
        Ok(())
    }

    /// Adds as many empty buckets to a new table as `other` has. Without them, pairs that arrive in hash order would
    /// all go to half of the buckets first.
    pub(crate) fn presize_like(&mut self, other: &Buckets) -> Result<()> {
        self.presize(other.view().linear().max_bucket)?;
        *self.min_max_bucket.get_mut() = other.min_max_bucket.load(Relaxed);
        Ok(())
    }

    /// The buckets that a file's root describes.
    pub(crate) fn from_root(pager: Arc<Pager>, hash: HashFunction, root: &Root) -> Result<Buckets> {
        let page_bytes = root.page_bytes as usize;
        let groups = root.group_starts(pager.frame_bytes());
        bounds::fix_groups(&pager, page_bytes, root.max_bucket, &groups)?;
        bounds::check_totals(&pager, root.totals)?;
        Ok(Buckets {
            pager,
            hash,
            page_bytes,
            prefetch_bytes: address::prefetch_bytes(page_bytes),
            limits: Limits::of(page_bytes),
            fill: root.fill,
            view: OwnLine(AtomicU64::new(u64::from(root.max_bucket))),
            groups: std::array::from_fn(|group| AtomicU64::new(groups.get(group).copied().unwrap_or(0))),
            expected: ExpectedPages::default(),
            min_max_bucket: AtomicU32::new(root.min_max_bucket),
            load: OwnLine(Load::new(root.totals)),
            structure: OwnLine::default(),
            activity: Arc::new(Activity::new(root.max_bucket)),
        })
    }

    /// The header's fields about the buckets at this moment, with the table's totals.
    pub(crate) fn root(&self, totals: Totals, types: String) -> Root {
        let frame_bytes = self.pager.frame_bytes() as u64;
        Root {
            page_bytes: self.page_bytes as u32, // at most 65536
            hash_id: self.hash.kind().id(),
            seed: self.hash.seed(),
            check_value: self.hash.check_value(),
            max_bucket: self.view().max_bucket(),
            min_max_bucket: self.min_max_bucket.load(Relaxed),
            fill: self.fill,
            totals,
            types,
            // Groups start at a frame, except those that share the first one.
            groups: std::array::from_fn(|group| (self.groups[group].load(Relaxed) / frame_bytes) as u32),
        }
    }

    /// A key with its hash and tag.
    #[inline]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        HashedKey::new(bytes, self.hash.hash_inlined(bytes))
    }

    /// Removes all pairs of one bucket.
    pub(crate) fn clear_bucket(&self, number: linear::Bucket) -> Result<Delta> {
        let _structure = crate::pager::pool::lock_without_values(&self.structure)?;
        if number > self.view().max_bucket() {
            return Ok(Delta::default());
        }
        let (frame, start) = self.location(number);
        let mut bucket = LatchedBucket::new(self, number, self.pager.write(frame)?, start);
        let mut bucket = bucket.bucket();
        bucket.init_if_empty(|| self.view().linear().level(number));
        bucket.clear()
    }

    /// Returns an error if a key or value is longer than a table can hold.
    #[inline]
    pub(crate) fn check_lengths(&self, key: &[u8], value_bytes: usize) -> Result<()> {
        if key.len() <= KEY_LEN_MAX && value_bytes <= VALUE_LEN_MAX { Ok(()) } else { Err(too_long(key, value_bytes)) }
    }
}

#[cold]
fn too_long(key: &[u8], value_bytes: usize) -> Error {
    let what = if key.len() > KEY_LEN_MAX {
        format!("key {} has {} bytes, the limit is {KEY_LEN_MAX}", quote(key), key.len())
    } else {
        format!("the value of key {} has {value_bytes} bytes, the limit is {VALUE_LEN_MAX}", quote(key))
    };
    Error::new(ErrorKind::TooLong, what)
}
