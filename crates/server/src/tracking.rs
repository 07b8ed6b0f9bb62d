//! CLIENT TRACKING: which clients are notified of which changed keys.
//!
//! ```text
//! default   the keys that a client has read, each until its first change       table: key -> clients
//! BCAST     every key that begins with one of the client's prefixes            table: prefix -> clients
//! ```
//!
//! The table of keys is bounded: beyond [`KEYS_MAX`] keys or [`BYTES_MAX`] bytes keys are dropped, as if they had
//! changed, approximately the oldest first. As in Redis, keys of the same name in several databases are one. Numbers of
//! clients that no longer track keys remain in it until the key changes or its list doubles, since a search for them
//! would make all writers wait.
//!
//! A key is remembered before the lookup's shared entry to the key space ends, and changes are reported while entry is
//! exclusive, so no change after the lookup is missed.
//!
//! Cost: nothing while no client tracks keys. Then each lookup of such a client takes the table's lock.

use crate::clients::Client;
use crate::command::reply::{self, Version};
use crate::keyspace::{Change, Happened};
use indexmap::IndexMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// The most keys that are remembered, of all clients together.
const KEYS_MAX: usize = 1_000_000;
/// The most bytes that these keys take, with the numbers of their clients.
const BYTES_MAX: usize = 128 << 20;
/// The memory of a tracked key, without its name and its clients.
const KEY_BYTES: usize = 80;
/// The memory of each client of a tracked key.
const CLIENT_BYTES: usize = size_of::<u64>();
/// The channel of invalidations for clients that speak RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// How a client tracks keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    /// All keys with one of the prefixes, instead of the keys that were read.
    pub(crate) broadcast: bool,
    /// Only keys read after CLIENT CACHING YES.
    pub(crate) opt_in: bool,
    /// Not keys read after CLIENT CACHING NO.
    pub(crate) opt_out: bool,
    /// Not changes that the client makes itself.
    pub(crate) no_loop: bool,
    pub(crate) prefixes: Vec<Vec<u8>>,
    /// The number of the client that gets the messages; 0 for the client itself.
    pub(crate) redirect: u64,
}

struct Tracker {
    mode: Mode,
    client: Arc<Client>,
    /// The client that gets the messages, if it is another one.
    target: Option<Arc<Client>>,
    /// Whether the client was notified that the target has gone.
    is_broken: bool,
}

#[derive(Default)]
struct Inner {
    trackers: HashMap<u64, Tracker>,
    keys: IndexMap<Vec<u8>, Vec<u64>>,
    /// The bytes that `keys` take.
    key_bytes: usize,
    /// The index of the next key to drop when there is no room, modulo the number of keys.
    next: usize,
    prefixes: BTreeMap<Vec<u8>, Vec<u64>>,
}

/// All clients that track keys.
#[derive(Default)]
pub(crate) struct Tracking {
    inner: Mutex<Inner>,
    count: AtomicUsize,
}

impl Tracking {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether any client tracks keys.
    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Starts tracking for a client, or changes its mode.
    pub(crate) fn start(&self, client: &Arc<Client>, mode: Mode, target: Option<Arc<Client>>) {
        let mut inner = self.lock();
        inner.forget_prefixes(client.id);
        for prefix in &mode.prefixes {
            inner.prefixes.entry(prefix.clone()).or_default().push(client.id);
        }
        inner.trackers.insert(client.id, Tracker { mode, client: client.clone(), target, is_broken: false });
        self.count.store(inner.trackers.len(), Relaxed);
    }

    /// Ends tracking for a client.
    pub(crate) fn stop(&self, client: u64) {
        if !self.is_active() {
            return;
        }
        let mut inner = self.lock();
        if inner.trackers.remove(&client).is_some() {
            inner.forget_prefixes(client);
            self.count.store(inner.trackers.len(), Relaxed);
            if inner.trackers.is_empty() {
                inner.key_bytes = 0;
                let keys = std::mem::take(&mut inner.keys);
                drop(inner);
                drop(keys); // slowly, while nobody waits
            }
        }
    }

    /// Whether the target of a client's messages has gone.
    pub(crate) fn is_broken(&self, client: u64) -> bool {
        self.lock().trackers.get(&client).is_some_and(|tracker| tracker.is_broken)
    }

    /// The number of keys and of prefixes in the tables.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        let inner = self.lock();
        (inner.keys.len(), inner.keys.values().map(Vec::len).sum(), inner.prefixes.len())
    }

    /// The number of clients that track keys.
    pub(crate) fn client_count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Remembers that a client has read these keys.
    pub(crate) fn remember<'k>(&self, client: u64, keys: impl Iterator<Item = &'k [u8]>, bytes_max: usize) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        for key in keys {
            match inner.keys.get_mut(key) {
                Some(clients) if clients.contains(&client) => {}
                Some(clients) => {
                    inner.key_bytes -= clients.len() * CLIENT_BYTES;
                    if clients.len().is_power_of_two() {
                        clients.retain(|client| inner.trackers.contains_key(client));
                    }
                    clients.push(client);
                    inner.key_bytes += clients.len() * CLIENT_BYTES;
                }
                None => {
                    inner.keys.insert(key.to_vec(), vec![client]);
                    inner.key_bytes += bytes_of(key, &[client]);
                }
            }
            while inner.keys.len() > KEYS_MAX || inner.key_bytes > BYTES_MAX {
                inner.make_room(key, bytes_max);
            }
        }
    }

    /// Notifies clients of changes. `writer`: the client that made them.
    pub(crate) fn invalidate(&self, changes: &[Change], writer: Option<u64>, bytes_max: usize) {
        if !self.is_active() {
            return;
        }
        let mut inner = self.lock();
        // FLUSHALL flushes many databases, but clients are notified once.
        if changes.iter().any(|change| change.what == Happened::Flushed) {
            inner.keys.clear();
            inner.key_bytes = 0;
            inner.trackers.values_mut().for_each(|tracker| tracker.send(None, bytes_max));
        }
        let is_of_key = |change: &&Change| !matches!(change.what, Happened::Flushed | Happened::Event(_));
        for change in changes.iter().filter(is_of_key) {
            inner.invalidate_key(&change.key, writer, bytes_max);
            inner.broadcast(&change.key, writer, bytes_max);
        }
    }
}

fn bytes_of(key: &[u8], clients: &[u64]) -> usize {
    key.len() + KEY_BYTES + clients.len() * CLIENT_BYTES
}

impl Inner {
    fn forget_prefixes(&mut self, client: u64) {
        self.prefixes.retain(|_, clients| {
            clients.retain(|&other| other != client);
            !clients.is_empty()
        });
    }

    /// Drops another key than this one, or this one if it is the last.
    fn make_room(&mut self, key: &[u8], bytes_max: usize) {
        let count = self.keys.len().max(1);
        let is_it = self.keys.get_index(self.next % count).is_some_and(|(other, _)| other == key);
        let index = (self.next + usize::from(is_it)) % count;
        let Some((other, _)) = self.keys.get_index(index) else { return };
        let other = other.clone();
        self.invalidate_key(&other, None, bytes_max);
        // The last key has moved to this index, and it is the newest: it is dropped after all others.
        self.next = index + 1;
    }

    fn invalidate_key(&mut self, key: &[u8], writer: Option<u64>, bytes_max: usize) {
        let Some(clients) = self.keys.swap_remove(key) else { return };
        self.key_bytes -= bytes_of(key, &clients);
        for client in clients {
            // A client that gets keys by their prefixes may have read this one before.
            if self.trackers.get(&client).is_some_and(|tracker| !tracker.mode.broadcast) {
                self.send(client, key, writer, bytes_max);
            }
        }
    }

    fn broadcast(&mut self, key: &[u8], writer: Option<u64>, bytes_max: usize) {
        // Prefixes of one client do not overlap, so no client is notified twice.
        let of_key = self.prefixes.iter().filter(|(prefix, _)| key.starts_with(prefix));
        let clients: Vec<u64> = of_key.flat_map(|(_, clients)| clients.iter().copied()).collect();
        for client in clients {
            self.send(client, key, writer, bytes_max);
        }
    }

    fn send(&mut self, client: u64, key: &[u8], writer: Option<u64>, bytes_max: usize) {
        if let Some(tracker) = self.trackers.get_mut(&client)
            && !(tracker.mode.no_loop && writer == Some(client))
        {
            tracker.send(Some(key), bytes_max);
        }
    }
}

impl Tracker {
    /// Sends that `key`, or every key, has changed.
    fn send(&mut self, key: Option<&[u8]>, bytes_max: usize) {
        let target = self.target.as_ref().unwrap_or(&self.client);
        if target.has_ended() {
            if !self.is_broken && self.client.version() == Version::Resp3 {
                self.client.push(bytes_max, |out| {
                    reply::push(out, 2, Version::Resp3);
                    reply::bulk(out, b"tracking-redir-broken");
                    reply::count(out, self.mode.redirect);
                });
            }
            self.is_broken = true;
            return;
        }
        let version = target.version();
        // A client that speaks RESP2 can be sent messages only while it has subscribed.
        if version == Version::Resp2 && (self.target.is_none() || target.subscriptions() == 0) {
            return;
        }
        target.push(bytes_max, |out| {
            match version {
                Version::Resp3 => {
                    reply::push(out, 2, version);
                    reply::bulk(out, b"invalidate");
                }
                Version::Resp2 => {
                    reply::push(out, 3, version);
                    reply::bulk(out, b"message");
                    reply::bulk(out, CHANNEL);
                }
            }
            match key {
                Some(key) => {
                    reply::array(out, 1);
                    reply::bulk(out, key);
                }
                None => reply::null(out, version),
            }
        });
    }
}
