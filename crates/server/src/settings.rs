//! What can be changed while the server runs: limits and the password. CONFIG SET and SIGHUP write it, all threads
//! read it.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use subtle::ConstantTimeEq;

/// See the head of this file.
pub struct Settings {
    /// Arguments of a request.
    pub args: AtomicUsize,
    /// Bytes of one argument, and of a value.
    pub bulk_bytes: AtomicUsize,
    /// Bytes of a request; also of what MULTI queues.
    pub request_bytes: AtomicUsize,
    /// Bytes of messages that wait for a client.
    pub output_bytes: AtomicUsize,
    /// Connections at a time.
    pub clients: AtomicUsize,
    /// Seconds after which a silent connection is closed; 0: never.
    pub idle_s: AtomicU64,
    /// Seconds in which a client has to take some of its replies.
    pub stalled_s: AtomicU64,
    password: RwLock<Option<Vec<u8>>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            args: AtomicUsize::new(i32::MAX as usize),
            bulk_bytes: AtomicUsize::new(512 << 20),
            request_bytes: AtomicUsize::new(1 << 30),
            output_bytes: AtomicUsize::new(32 << 20),
            clients: AtomicUsize::new(10_000),
            idle_s: AtomicU64::new(0),
            stalled_s: AtomicU64::new(60),
            password: RwLock::default(),
        }
    }
}

impl Settings {
    /// Whether clients have to authenticate.
    pub fn needs_password(&self) -> bool {
        self.password().is_some()
    }

    /// Whether this is the password. Takes the same time for every wrong one of a length.
    pub fn is_password(&self, given: &[u8]) -> bool {
        self.password().is_some_and(|password| bool::from(password.as_slice().ct_eq(given)))
    }

    /// The password.
    pub fn password(&self) -> Option<Vec<u8>> {
        self.password.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Sets or, where it is empty, removes the password. Connections stay as they are.
    pub fn set_password(&self, password: &[u8]) {
        let password = (!password.is_empty()).then(|| password.to_vec());
        *self.password.write().unwrap_or_else(|e| e.into_inner()) = password;
    }

    /// How long a connection may be silent; `None`: for ever.
    pub fn idle(&self) -> Option<std::time::Duration> {
        let seconds = self.idle_s.load(Relaxed);
        (seconds > 0).then(|| std::time::Duration::from_secs(seconds))
    }
}
