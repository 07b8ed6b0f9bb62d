//! Keys that transactions depend on (WATCH): a change of a watched key aborts the transaction.
//!
//! Exact per key: a transaction fails only if one of its own keys changed. While anything is watched no database is
//! plain, so every write calls [`Watched::touch`] while the gate is closed.
//!
//! The key space can also be observed as a whole, for keyspace notifications and CLIENT TRACKING: then all changes are
//! recorded in a log, which is emptied before the gate opens again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

type Watchers = HashMap<(usize, Vec<u8>), Vec<Watcher>>;

struct Watcher {
    dirty: Arc<AtomicBool>,
    /// Whether the key had expired when the watch began: then removing it later is not a change.
    was_expired: bool,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It was stored, removed, or got another lifetime. `was_present`: whether it had a value before.
    Changed { was_present: bool },
    /// This event, which the command names itself, in addition to the change, if any.
    Event(&'static str),
    /// It was removed because it had expired.
    Expired,
    /// Fields of the hash were removed because they had expired. `is_last`: with them the key.
    FieldsExpired { is_last: bool },
    /// It was removed because of the memory limit.
    Evicted,
    /// It was removed with all other keys of the database; the change names no key.
    Flushed,
}

/// A change of the key space.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) database: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) what: Happened,
}

#[derive(Default)]
pub(super) struct Watched {
    keys: Mutex<Watchers>,
    /// The number of watched keys, plus one while the key space is observed. It grows only while the gate is closed; it
    /// may fall at any time.
    count: AtomicUsize,
    /// Written while the gate is closed.
    observed: AtomicBool,
    log: Mutex<Vec<Change>>,
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
        self.count_keys(&keys);
    }

    fn count_keys(&self, keys: &Watchers) {
        self.count.store(keys.len() + usize::from(self.observed.load(Relaxed)), Relaxed);
    }

    /// Starts or stops recording all changes. The caller has closed the gate.
    pub(super) fn observe(&self, observed: bool) {
        let keys = self.lock();
        self.observed.store(observed, Relaxed);
        self.count_keys(&keys);
    }

    pub(super) fn is_observed(&self) -> bool {
        self.observed.load(Relaxed)
    }

    /// The changes since the last call.
    #[inline]
    pub(super) fn take_log(&self) -> Vec<Change> {
        if !self.observed.load(Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.log.lock().unwrap_or_else(|e| e.into_inner()))
    }

    pub(super) fn record(&self, database: usize, key: &[u8], what: Happened) {
        if self.observed.load(Relaxed) {
            let change = Change { database, key: key.to_vec(), what };
            self.log.lock().unwrap_or_else(|e| e.into_inner()).push(change);
        }
    }

    /// Marks the last change as an eviction.
    pub(super) fn was_evicted(&self) {
        if let Some(last) = self.log.lock().unwrap_or_else(|e| e.into_inner()).last_mut() {
            last.what = Happened::Evicted;
        }
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
        self.count_keys(&keys);
        watch.dirty = Arc::default();
    }

    /// Reports that `key` changes. `is_present`: whether it has a value before the change.
    #[inline]
    pub(super) fn touch(&self, database: usize, key: &[u8], is_present: impl FnOnce() -> bool) {
        if !self.is_empty() {
            self.touch_watched(database, key, |_| true);
            if self.observed.load(Relaxed) {
                self.record(database, key, Happened::Changed { was_present: is_present() });
            }
        }
    }

    /// Reports that `key` had expired and is removed: a change for clients that began to watch it before it expired.
    #[inline]
    pub(super) fn touch_expired(&self, database: usize, key: &[u8]) {
        if !self.is_empty() {
            self.touch_watched(database, key, |watcher| !watcher.was_expired);
            self.record(database, key, Happened::Expired);
        }
    }

    /// Reports that fields of a hash had expired and are removed.
    pub(super) fn touch_fields_expired(&self, database: usize, key: &[u8], is_last: bool) {
        if !self.is_empty() {
            self.touch_watched(database, key, |_| true);
            self.record(database, key, Happened::FieldsExpired { is_last });
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
        self.record(database, b"", Happened::Flushed);
    }
}
