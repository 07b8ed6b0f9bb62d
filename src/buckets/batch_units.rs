//! The units that a batch allocates and replaces.
//!
//! Until a batch can no longer be undone, what it has replaced stays allocated, with its content (`before.rs`).

use super::linear_hash::Buckets;
use std::collections::HashMap;

/// Runs of units: the first one's number, and how many.
#[derive(Default)]
pub(crate) struct BatchUnits {
    /// Units that the batch has allocated and still refers to.
    allocated: HashMap<u64, u32>,
    /// Units that were allocated before the batch, and that nothing refers to any more.
    replaced: Vec<(u64, u32)>,
}

impl BatchUnits {
    /// Notes units that the batch has allocated.
    pub(super) fn note_new(&mut self, unit: u64, len: u32) {
        self.allocated.insert(unit, len);
    }

    /// Frees units that nothing refers to any more: the batch's own now, others once it cannot be undone.
    pub(super) fn replace(&mut self, buckets: &Buckets, unit: u64, len: u32) {
        match self.allocated.remove(&unit) {
            Some(_) => buckets.free_units(unit, len),
            None => self.replaced.push((unit, len)),
        }
    }

    /// Frees what a batch has replaced. It can no longer be undone.
    pub(crate) fn free_replaced(self, buckets: &Buckets) {
        self.replaced.iter().for_each(|&(unit, len)| buckets.free_units(unit, len));
    }

    /// Frees what a batch has allocated, once all its buckets are what they were.
    pub(crate) fn free_allocated(self, buckets: &Buckets) {
        self.allocated.iter().for_each(|(&unit, &len)| buckets.free_units(unit, len));
    }
}
