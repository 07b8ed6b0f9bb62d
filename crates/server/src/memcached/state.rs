//! The state that all memcached connections share.

use super::DATABASE;
use super::activity::Activity;
use crate::keyspace::{Exclusive, KeySpace, Patience, now_ms};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// The state that all memcached connections share.
#[derive(Default)]
pub(crate) struct Memcached {
    /// When to remove all keys (`flush_all` with a delay), Unix time in milliseconds; 0: never.
    pub(super) flush_at_ms: AtomicU64,
    /// The TCP port, for `stats settings`.
    pub(crate) port: AtomicU64,
    pub(crate) outcomes: Outcomes,
    /// Created when a client first asks for times of use.
    pub(super) activity: OnceLock<Activity>,
}

impl Memcached {
    /// Removes all keys if a delayed `flush_all` is due, and returns the entry. Waits for other threads.
    pub(crate) fn flush_if_due<'s>(&self, space: &'s KeySpace) -> Option<Exclusive<'s>> {
        let at = self.flush_at_ms.load(Relaxed);
        if at == 0 || at > now_ms() || self.flush_at_ms.compare_exchange(at, 0, Relaxed, Relaxed).is_err() {
            return None;
        }
        let mut alone = space.close(Patience::MayWait)?;
        if let Err(error) = alone.flush(DATABASE) {
            tracing::error!(%error, "delayed flush_all");
        }
        Some(alone)
    }
}

/// Outcomes of commands, for `stats`. Gets are counted in `Figures`.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(super) delete: HitsAndMisses,
    pub(super) incr: HitsAndMisses,
    pub(super) decr: HitsAndMisses,
    pub(super) touch: HitsAndMisses,
    pub(super) cas: HitsAndMisses,
    /// Requests whose CAS number did not match.
    pub(super) cas_badval: AtomicU64,
    pub(super) too_large: AtomicU64,
    pub(super) no_memory: AtomicU64,
    pub(super) auth: HitsAndMisses,
    pub(super) meta: AtomicU64,
    /// Whether clients have switched `stats detail` on.
    pub(super) detail: AtomicBool,
}

impl Outcomes {
    /// Sets all counters to 0.
    pub(crate) fn reset(&self) {
        let Outcomes { delete, incr, decr, touch, cas, cas_badval, too_large, no_memory, auth, meta, .. } = self;
        for HitsAndMisses { hits, misses } in [delete, incr, decr, touch, cas, auth] {
            hits.store(0, Relaxed);
            misses.store(0, Relaxed);
        }
        [cas_badval, too_large, no_memory, meta].iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

/// Successes and failures.
#[derive(Default)]
pub(super) struct HitsAndMisses {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
}

impl HitsAndMisses {
    pub(super) fn count(&self, is_hit: bool) {
        let counter = if is_hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
    }
}
