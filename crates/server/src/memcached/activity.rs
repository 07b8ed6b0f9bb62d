//! When keys were last used, and whether they were fetched since they were stored, for `mg` with `h` or `l`, and `me`.
//!
//! Approximate: an array of 2^20 elements indexed by the key's hash, so keys that share an element share the answer.
//! It exists from the first request that asks for it; until then lookups pay nothing, afterwards one hash and one store
//! per key.

use splitpoint::{HashKind, hash::HashFunction};
use std::sync::atomic::{AtomicU32, Ordering::*};

const PLACES: usize = 1 << 20;

/// The times of use.
pub(super) struct Activity {
    /// Twice the second of the last use, on the server's clock, plus one if the key was fetched.
    places: Box<[AtomicU32]>,
    hash: HashFunction,
    since_s: u32,
}

/// The recorded use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) idle_s: u32,
    pub(super) fetched: bool,
}

impl Activity {
    pub(super) fn new(seed: u64, now_s: u64) -> Activity {
        let places = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Activity { places, hash: HashFunction::new(HashKind::Xxh3, seed), since_s: now_s as u32 }
    }

    pub(super) fn note(&self, key: &[u8], now_s: u64, fetched: bool) {
        self.place(key).store((now_s as u32) << 1 | u32::from(fetched), Relaxed); // 68 years
    }

    pub(super) fn of(&self, key: &[u8], now_s: u64) -> Use {
        let stored = self.place(key).load(Relaxed);
        let last_s = (stored >> 1).max(self.since_s);
        Use { idle_s: (now_s as u32).saturating_sub(last_s), fetched: stored & 1 == 1 }
    }

    fn place(&self, key: &[u8]) -> &AtomicU32 {
        &self.places[self.hash.hash(key) as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetch_is_known_until_the_next_store() {
        let activity = Activity::new(1, 100);
        assert_eq!(activity.of(b"k", 107), Use { idle_s: 7, fetched: false });
        activity.note(b"k", 108, true);
        assert_eq!(activity.of(b"k", 110), Use { idle_s: 2, fetched: true });
        activity.note(b"k", 111, false);
        assert_eq!(activity.of(b"k", 111), Use { idle_s: 0, fetched: false });
    }
}
