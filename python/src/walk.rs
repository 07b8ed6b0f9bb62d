//! A walk over a dictionary that owns the dictionary.

use self_cell::self_cell;
use splitpoint::Dictionary;
use splitpoint::dictionary::Pairs;
use std::ops::RangeInclusive;
use std::sync::Arc;

self_cell!(
    struct Cell {
        owner: Arc<Dictionary>,
        #[not_covariant]
        dependent: Pairs,
    }
);

/// Pairs of a dictionary, in hash order.
pub struct Walk(Cell);

impl Walk {
    /// All pairs whose positions are in a range.
    pub fn within(dictionary: Arc<Dictionary>, positions: RangeInclusive<u64>) -> Self {
        Walk(Cell::new(dictionary, |dictionary| dictionary.range(positions)))
    }

    /// Calls `take` with the next pair; `false` at the end.
    pub fn next(&mut self, take: impl FnOnce((&[u8], &[u8]))) -> splitpoint::Result<bool> {
        self.0.with_dependent_mut(|_, pairs| {
            let pair = pairs.next_ref()?;
            Ok(pair.map(take).is_some())
        })
    }
}
