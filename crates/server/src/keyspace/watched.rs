//! Keys that transactions depend on (WATCH): a change of a watched key aborts the transaction.
//!
//! Exact per key: a transaction fails only if one of its own keys changed. While anything is watched no database is
//! plain, so every write calls [`Watched::touch`] while the gate is closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

type Watchers = HashMap<(usize, Vec<u8>), Vec<Watcher>>;

struct Watcher {
    dirty: Arc<AtomicBool>,
    /// Whether the key had expired when the watch began: then removing it later is not a change.
    was_expired: bool,
}

#[derive(Default)]
pub(super) struct Watched {
    keys: Mutex<Watchers>,
    /// The number of watched keys. It grows only while the gate is closed; it may fall at any time.
    count: AtomicUsize,
}

/// The keys that one client watches. Dropping it without [`Exclusive::unwatch`](super::Exclusive::unwatch) or
/// [`KeySpace::forget_watch`](super::KeySpace::forget_watch) leaves the keys watched.
#[derive(Default)]
pub(crate) struct Watch {
    /// Set when one of the keys changed.
    pub(super) dirty: Arc<AtomicBool>,
    /// The keys, and whether they had expired when the watch began.
    pub(super) keys: HashMap<(usize, Vec<u8>), bool>,
    bytes: usize,
}

impl Watch {
    /// Whether nothing is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The number of keys watched.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Approximate bytes of memory that the keys take.
    pub(crate) fn bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 200;
        self.bytes + OVERHEAD_BYTES * self.keys.len()
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Watchers> {
        self.keys.lock().unwrap_or_else(|e| e.into_inner())
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    pub(super) fn add(&self, watch: &mut Watch, database: usize, key: &[u8], expired: bool) {
        let place = (database, key.to_vec());
        if watch.keys.contains_key(&place) {
            return;
        }
        let mut keys = self.lock();
        let watcher = Watcher { dirty: watch.dirty.clone(), was_expired: expired };
        keys.entry(place.clone()).or_default().push(watcher);
        watch.keys.insert(place, expired);
        watch.bytes += key.len();
        self.count.store(keys.len(), Relaxed);
    }

    pub(super) fn remove(&self, watch: &mut Watch) {
        let mut keys = self.lock();
        watch.bytes = 0;
        for (place, _) in watch.keys.drain() {
            if let Some(watchers) = keys.get_mut(&place) {
                watchers.retain(|watcher| !Arc::ptr_eq(&watcher.dirty, &watch.dirty));
                if watchers.is_empty() {
                    keys.remove(&place);
                }
            }
        }
        self.count.store(keys.len(), Relaxed);
        watch.dirty = Arc::default();
    }

    /// Reports that `key` has changed.
    #[inline]
    pub(super) fn touch(&self, database: usize, key: &[u8]) {
        if !self.is_empty() {
            self.touch_watched(database, key, |_| true);
        }
    }

    /// Reports that `key` had expired and is removed: a change for clients that began to watch it before it expired.
    #[inline]
    pub(super) fn touch_expired(&self, database: usize, key: &[u8]) {
        if !self.is_empty() {
            self.touch_watched(database, key, |watcher| !watcher.was_expired);
        }
    }

    #[cold]
    fn touch_watched(&self, database: usize, key: &[u8], concerns: impl Fn(&Watcher) -> bool) {
        if let Some(watchers) = self.lock().get(&(database, key.to_vec())) {
            let concerned = watchers.iter().filter(|watcher| concerns(watcher));
            concerned.for_each(|watcher| watcher.dirty.store(true, Relaxed));
        }
    }

    /// Reports that all keys of `database` for which `present` returns true have changed.
    pub(super) fn touch_all(&self, database: usize, mut present: impl FnMut(&[u8]) -> bool) {
        for ((of, key), watchers) in self.lock().iter() {
            if *of == database && present(key) {
                watchers.iter().for_each(|watcher| watcher.dirty.store(true, Relaxed));
            }
        }
    }
}
