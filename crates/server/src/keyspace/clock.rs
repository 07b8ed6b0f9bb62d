//! The clock of expiry.

use std::cell::OnceCell;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time that decides what has expired: read when first needed, then constant for the whole entry. A batch on a
/// database without lifetimes never reads it.
#[derive(Default)]
pub(super) struct Clock(OnceCell<u64>);

impl Clock {
    /// The time in Unix milliseconds.
    #[inline]
    pub(super) fn now_ms(&self) -> u64 {
        *self.0.get_or_init(now_ms)
    }
}

/// The clock of expiry: Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now_ms) = super::tests::STOPPED_CLOCK.get() {
        return now_ms;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
