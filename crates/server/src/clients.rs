//! Who is connected: CLIENT LIST, CLIENT KILL, and messages for clients from others.

use crate::resp::Version;
use atomic_waker::AtomicWaker;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One connection, as others see it.
pub struct Client {
    /// Counts up.
    pub id: u64,
    /// Whence it comes, `ip:port` or a path.
    pub address: String,
    /// Where it arrived.
    pub local_address: String,
    /// When it connected.
    pub since: Instant,
    /// When it sent its last request, in seconds of the server's clock.
    pub active_s: AtomicU64,
    /// A request is executed, or its reply is sent.
    pub busy: AtomicBool,
    /// The index of its last command in the table, its database, whether it speaks RESP3.
    pub last_command: AtomicU8,
    /// See `last_command`.
    pub database: AtomicU8,
    /// See `last_command`.
    pub resp3: AtomicBool,
    /// Commands queued by MULTI, plus one; 0 outside.
    pub queued: AtomicUsize,
    /// Keys watched.
    pub watched: AtomicUsize,
    /// Bytes of replies and of requests that it keeps.
    pub output_bytes: AtomicUsize,
    /// See `output_bytes`.
    pub input_bytes: AtomicUsize,
    /// Set to end the connection; then wake its task.
    killed: AtomicBool,
    /// The task of the connection.
    pub waker: AtomicWaker,
    subscriptions: AtomicUsize,
    pushed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    name: String,
    library: (String, String),
    channels: HashSet<Vec<u8>>,
    patterns: HashSet<Vec<u8>>,
    /// Of both.
    subscribed_bytes: usize,
    pushes: Vec<u8>,
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Its name (CLIENT SETNAME).
    pub fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Gives it a name.
    pub fn set_name(&self, name: String) {
        self.lock().name = name;
    }

    /// The name and version of its library (CLIENT SETINFO).
    pub fn library(&self) -> (String, String) {
        self.lock().library.clone()
    }

    /// Changes name and version of its library.
    pub fn set_library(&self, change: impl FnOnce(&mut (String, String))) {
        change(&mut self.lock().library);
    }

    /// Channels and patterns it has subscribed to.
    #[inline]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.load(Relaxed)
    }

    /// The numbers of channels and patterns.
    pub fn subscription_counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.channels.len(), inner.patterns.len())
    }

    /// Bytes of the names of channels and patterns.
    pub fn subscribed_bytes(&self) -> usize {
        self.lock().subscribed_bytes
    }

    /// Adds to or removes from its channels, or its patterns. Returns whether that changed anything.
    pub fn note_subscription(&self, name: &[u8], pattern: bool, add: bool) -> bool {
        let mut inner = self.lock();
        let names = if pattern { &mut inner.patterns } else { &mut inner.channels };
        let changed = if add { names.insert(name.to_vec()) } else { names.remove(name) };
        match changed {
            true if add => inner.subscribed_bytes += name.len(),
            true => inner.subscribed_bytes -= name.len(),
            false => {}
        }
        self.subscriptions.store(inner.channels.len() + inner.patterns.len(), Relaxed);
        changed
    }

    /// Its channels, or its patterns.
    pub fn subscribed(&self, pattern: bool) -> Vec<Vec<u8>> {
        let inner = self.lock();
        if pattern { inner.patterns.iter().cloned().collect() } else { inner.channels.iter().cloned().collect() }
    }

    /// The version it speaks.
    pub fn version(&self) -> Version {
        if self.resp3.load(Relaxed) { Version::Resp3 } else { Version::Resp2 }
    }

    /// Leaves a message for it, and wakes it; ends it if it has left too many unread.
    pub fn push(&self, bytes_max: usize, write: impl FnOnce(&mut Vec<u8>)) {
        {
            let mut inner = self.lock();
            write(&mut inner.pushes);
            if inner.pushes.len() > bytes_max {
                inner.pushes = Vec::new();
                self.killed.store(true, Relaxed);
            }
        }
        self.pushed.store(true, Release);
        self.waker.wake();
    }

    /// Appends the messages left for it.
    #[inline]
    pub fn take_pushes(&self, out: &mut Vec<u8>) {
        // Looking costs less than exchanging, and there is seldom one.
        if self.has_pushes() && self.pushed.swap(false, Acquire) {
            out.append(&mut self.lock().pushes);
        }
    }

    /// Whether messages wait.
    #[inline]
    pub fn has_pushes(&self) -> bool {
        self.pushed.load(Acquire)
    }

    /// Ends the connection.
    pub fn kill(&self) {
        self.killed.store(true, Relaxed);
        self.waker.wake();
    }

    /// Whether the connection is to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }
}

/// All connections.
pub struct Clients {
    next_id: AtomicU64,
    is_paused: AtomicBool,
    /// Until when clients are to wait, and whether all of them.
    paused: Mutex<(Instant, bool)>,
    /// As many as there are descriptors for.
    pub descriptors_max: AtomicUsize,
    count: AtomicUsize,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Connections accepted, and those refused for their number.
    pub accepted: AtomicU64,
    /// See `accepted`.
    pub refused: AtomicU64,
}

impl Default for Clients {
    fn default() -> Self {
        Clients {
            next_id: AtomicU64::new(0),
            is_paused: AtomicBool::new(false),
            paused: Mutex::new((Instant::now(), false)),
            descriptors_max: AtomicUsize::new(usize::MAX),
            count: AtomicUsize::new(0),
            all: Mutex::default(),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.all.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A new connection; `None` if there are `most` already.
    pub fn add(&self, address: String, local_address: String, now_s: u64, most: usize) -> Option<Arc<Client>> {
        let mut all = self.lock();
        if all.len() >= most {
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Relaxed);
        let client = Arc::new(Client {
            id: self.next_id.fetch_add(1, Relaxed) + 1,
            address,
            local_address,
            since: Instant::now(),
            active_s: AtomicU64::new(now_s),
            busy: AtomicBool::new(false),
            last_command: AtomicU8::new(u8::MAX),
            database: AtomicU8::new(0),
            resp3: AtomicBool::new(false),
            queued: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            input_bytes: AtomicUsize::new(0),
            killed: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            subscriptions: AtomicUsize::new(0),
            pushed: AtomicBool::new(false),
            inner: Mutex::default(),
        });
        all.insert(client.id, client.clone());
        self.count.store(all.len(), Relaxed);
        Some(client)
    }

    /// Lets clients wait for this time (CLIENT PAUSE): those that write, or all. Zero ends it.
    pub fn set_pause(&self, time: Duration, all: bool) {
        *self.paused.lock().unwrap_or_else(|e| e.into_inner()) = (Instant::now() + time, all);
        self.is_paused.store(!time.is_zero(), Relaxed);
    }

    /// Whether some clients are to wait.
    #[inline]
    pub fn are_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// How long a command has to wait before it asks again; `None`: it may be executed.
    pub fn pause(&self, writes: bool) -> Option<Duration> {
        /// As CLIENT UNPAUSE may end it earlier.
        const AT_ONCE: Duration = Duration::from_millis(10);
        if !self.are_paused() {
            return None;
        }
        let (until, all) = *self.paused.lock().unwrap_or_else(|e| e.into_inner());
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.is_paused.store(false, Relaxed);
        }
        (!left.is_zero() && (all || writes)).then(|| left.min(AT_ONCE))
    }

    /// A connection has ended.
    pub fn remove(&self, id: u64) {
        let mut all = self.lock();
        all.remove(&id);
        self.count.store(all.len(), Relaxed);
    }

    /// All connections, by their number.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether no client is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
