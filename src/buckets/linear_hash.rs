//! The state of one linear hash: how many buckets exist, where each group of them starts, how full they are.
//!
//! Other files implement the operations on it: addresses (`address.rs`), lookups (`lookup.rs`), changes of a bucket
//! (`bucket.rs`), splits and merges (`split.rs`).

use super::activity::Activity;
use super::expected::ExpectedPages;
use super::gathered::Workspace;
use super::load::Load;
use super::page::Damage;
use super::sizes::{Fill, Limits};
use crate::error::Error;
use crate::hash::HashFunction;
use crate::linear;
use crate::own_line::OwnLine;
use crate::pager::Pager;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};

/// The start of each group. The length is a power of two, so that a mask keeps an index in bounds.
pub(super) type Groups = [AtomicU64; linear::GROUP_COUNT.next_power_of_two()];

/// The buckets of one table.
pub(crate) struct Buckets {
    pub(super) pager: Arc<Pager>,
    pub(super) hash: HashFunction,
    pub(super) page_bytes: usize,
    /// Bytes of a page that a lookup of one key prefetches.
    pub(super) prefetch_bytes: usize,
    pub(super) limits: Limits,
    pub(super) fill: Fill,
    /// [`View`](super::address::View), packed.
    pub(super) view: OwnLine<AtomicU64>,
    /// The start of each group of buckets, in bytes of the file.
    pub(super) groups: Groups,
    pub(super) expected: ExpectedPages,
    /// The table does not shrink below the size it was created with.
    pub(super) min_max_bucket: AtomicU32,
    pub(super) load: OwnLine<Load>,
    /// Held by the thread that splits, merges or moves a bucket.
    pub(super) structure: OwnLine<Mutex<Workspace>>,
    pub(super) activity: Arc<Activity>,
}

impl Buckets {
    /// The buckets' activity since the table was opened.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    pub(crate) fn hash(&self) -> &HashFunction {
        &self.hash
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub(crate) fn fill(&self) -> Fill {
        self.fill
    }

    /// An error about a page that contradicts itself.
    #[cold]
    pub(super) fn damaged(&self, damage: Damage) -> Error {
        self.pager.corrupt(damage.0)
    }
}
