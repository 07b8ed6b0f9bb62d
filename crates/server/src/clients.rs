//! The connected clients: CLIENT LIST, CLIENT KILL, and messages that other clients send them.

use crate::command::reply::Version;
use crate::users::DEFAULT;
use atomic_waker::AtomicWaker;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One connection, as other connections see it.
pub struct Client {
    /// A number that no other connection of this run has; later connections have larger ones.
    pub(crate) id: u64,
    /// The client's address: `ip:port` or a path.
    pub(crate) address: String,
    /// The server's address that the client connected to.
    pub(crate) local_address: String,
    /// When it connected.
    pub(crate) since: Instant,
    /// When it sent its last request, in seconds of the server's clock.
    pub(crate) active_s: AtomicU64,
    /// Whether a request is being executed or its reply being sent.
    pub(crate) busy: AtomicBool,
    /// The index of its last command in the table of commands.
    pub(crate) last_command: AtomicU8,
    /// The database it has selected.
    pub(crate) database: AtomicU8,
    /// Whether it speaks RESP3.
    pub(crate) resp3: AtomicBool,
    /// Commands queued by MULTI, plus one; 0 outside.
    pub(crate) queued: AtomicUsize,
    /// The number of keys it watches.
    pub(crate) watched: AtomicUsize,
    /// Bytes of replies that are not sent yet.
    pub(crate) output_bytes: AtomicUsize,
    /// Bytes of requests that are received but not executed yet.
    pub(crate) input_bytes: AtomicUsize,
    /// Set to end the connection; its task must then be woken.
    killed: AtomicBool,
    /// The task of the connection.
    pub(crate) waker: AtomicWaker,
    /// Whether it is sent every command (MONITOR).
    pub(crate) monitors: AtomicBool,
    /// Whether it tracks keys (CLIENT TRACKING).
    pub(crate) tracks: AtomicBool,
    ended: AtomicBool,
    subscriptions: AtomicUsize,
    pushed: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    name: String,
    /// Empty for `default`.
    user: Vec<u8>,
    library: (String, String),
    /// Indexed by [`Subscription`].
    subscribed: [HashSet<Vec<u8>>; 3],
    /// Bytes of the names in `subscribed`.
    subscribed_bytes: usize,
    pushes: Vec<u8>,
}

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    Channel,
    Pattern,
    /// A channel of the node that serves its slot.
    ShardChannel,
}

impl Subscription {
    pub(crate) const ALL: [Subscription; 3] =
        [Subscription::Channel, Subscription::Pattern, Subscription::ShardChannel];
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Its name (CLIENT SETNAME).
    pub(crate) fn name(&self) -> String {
        self.lock().name.clone()
    }

    /// Sets its name.
    pub(crate) fn set_name(&self, name: String) {
        self.lock().name = name;
    }

    /// The name of its user.
    pub(crate) fn user(&self) -> Vec<u8> {
        let user = self.lock().user.clone();
        if user.is_empty() { DEFAULT.as_bytes().to_vec() } else { user }
    }

    /// Notes the name of its user.
    pub(crate) fn set_user(&self, user: &[u8]) {
        self.lock().user = user.to_vec();
    }

    /// The name and version of its library (CLIENT SETINFO).
    pub(crate) fn library(&self) -> (String, String) {
        self.lock().library.clone()
    }

    /// Changes the name and version of its library.
    pub(crate) fn set_library(&self, change: impl FnOnce(&mut (String, String))) {
        change(&mut self.lock().library);
    }

    /// The number of channels of both kinds and patterns it has subscribed to.
    #[inline]
    pub(crate) fn subscriptions(&self) -> usize {
        self.subscriptions.load(Relaxed)
    }

    /// The number of channels, of patterns and of shard channels it has subscribed to.
    pub(crate) fn subscription_counts(&self) -> [usize; 3] {
        let inner = self.lock();
        std::array::from_fn(|kind| inner.subscribed[kind].len())
    }

    /// Bytes of the names of its channels and patterns.
    pub(crate) fn subscribed_bytes(&self) -> usize {
        self.lock().subscribed_bytes
    }

    /// Adds a name to its subscriptions, or removes it. Returns whether that changed anything.
    pub(crate) fn note_subscription(&self, name: &[u8], kind: Subscription, add: bool) -> bool {
        let mut inner = self.lock();
        let names = &mut inner.subscribed[kind as usize];
        let changed = if add { names.insert(name.to_vec()) } else { names.remove(name) };
        match changed {
            true if add => inner.subscribed_bytes += name.len(),
            true => inner.subscribed_bytes -= name.len(),
            false => {}
        }
        self.subscriptions.store(inner.subscribed.iter().map(HashSet::len).sum(), Relaxed);
        changed
    }

    /// The names it has subscribed to.
    pub(crate) fn subscribed(&self, kind: Subscription) -> Vec<Vec<u8>> {
        self.lock().subscribed[kind as usize].iter().cloned().collect()
    }

    /// The protocol version it speaks.
    pub(crate) fn version(&self) -> Version {
        if self.resp3.load(Relaxed) { Version::Resp3 } else { Version::Resp2 }
    }

    /// Queues a message for it and wakes it. Ends the connection if too many bytes of messages are unread.
    pub(crate) fn push(&self, bytes_max: usize, write: impl FnOnce(&mut Vec<u8>)) {
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

    /// Appends the queued messages to `out`.
    #[inline]
    pub(crate) fn take_pushes(&self, out: &mut Vec<u8>) {
        // A load is cheaper than a swap, and there is seldom a message.
        if self.has_pushes() && self.pushed.swap(false, Acquire) {
            out.append(&mut self.lock().pushes);
        }
    }

    /// Whether messages are queued.
    #[inline]
    pub(crate) fn has_pushes(&self) -> bool {
        self.pushed.load(Acquire)
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Ends the connection.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Relaxed);
        self.waker.wake();
    }

    /// Whether the connection is to end.
    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }
}

/// All connections.
pub struct Clients {
    next_id: AtomicU64,
    is_paused: AtomicBool,
    /// CLIENT PAUSE: when it ends, and whether it applies to all commands or only to writes.
    paused: Mutex<(Instant, bool)>,
    /// The number of clients for which there are file descriptors.
    pub(crate) descriptors_max: AtomicUsize,
    count: AtomicUsize,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Connections accepted.
    pub(crate) accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub(crate) refused: AtomicU64,
    /// Connections closed because they were idle.
    pub(crate) idle_closed: AtomicU64,
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
            idle_closed: AtomicU64::new(0),
        }
    }
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.all.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a connection; `None` if there are already `most`.
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
            monitors: AtomicBool::new(false),
            tracks: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            subscriptions: AtomicUsize::new(0),
            pushed: AtomicBool::new(false),
            inner: Mutex::default(),
        });
        all.insert(client.id, client.clone());
        self.count.store(all.len(), Relaxed);
        Some(client)
    }

    /// Pauses writes, or with `all` every command, for this long (CLIENT PAUSE). A pause in force becomes neither
    /// shorter nor weaker.
    pub(crate) fn set_pause(&self, time: Duration, all: bool) {
        let mut paused = self.paused.lock().unwrap_or_else(|e| e.into_inner());
        let ((until, was_all), now) = (*paused, Instant::now());
        *paused = (until.max(now + time), all || was_all && until > now);
        self.is_paused.store(paused.0 > now, Relaxed);
    }

    /// Ends the pause (CLIENT UNPAUSE).
    pub(crate) fn end_pause(&self) {
        let mut paused = self.paused.lock().unwrap_or_else(|e| e.into_inner());
        *paused = (Instant::now(), false);
        self.is_paused.store(false, Relaxed);
    }

    /// Whether a pause is in force.
    #[inline]
    pub(crate) fn are_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// How long a command must wait before it asks again; `None` if it may run now.
    pub(crate) fn pause(&self, writes: bool) -> Option<Duration> {
        /// The longest wait between two checks, since CLIENT UNPAUSE may end the pause early.
        const AT_ONCE: Duration = Duration::from_millis(10);
        if !self.are_paused() {
            return None;
        }
        // Locked until the end, so that a pause that begins now is not ended.
        let paused = self.paused.lock().unwrap_or_else(|e| e.into_inner());
        let (until, all) = *paused;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.is_paused.store(false, Relaxed);
        }
        (!left.is_zero() && (all || writes)).then(|| left.min(AT_ONCE))
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, id: u64) {
        let mut all = self.lock();
        if let Some(client) = all.remove(&id) {
            client.ended.store(true, Relaxed);
        }
        self.count.store(all.len(), Relaxed);
    }

    /// All connections, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| !client.is_killed()).cloned().collect()
    }

    /// The connection with this number.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).cloned()
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether no client is connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
