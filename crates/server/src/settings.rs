//! Settings that can change while the server runs: limits and the password. CONFIG SET and SIGHUP write them, all
//! threads read them.

use crate::users::Users;
use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Limits and the password.
pub struct Settings {
    /// The most arguments of a request.
    pub args: AtomicUsize,
    /// The longest argument and the longest value, in bytes.
    pub bulk_bytes: AtomicUsize,
    /// The longest request, and the most that MULTI queues, in bytes.
    pub request_bytes: AtomicUsize,
    /// The most bytes of messages that a client has not read.
    pub output_bytes: AtomicUsize,
    /// The most connections at a time.
    pub clients: AtomicUsize,
    /// Seconds after which an idle connection is closed; 0 for never.
    pub idle_s: AtomicU64,
    /// Seconds within which a client must read some of its replies.
    pub stalled_s: AtomicU64,
    /// The password of `default` as it was given.
    password: RwLock<Option<Vec<u8>>>,
    /// Who may connect, and what each may do.
    pub(crate) users: Users,
    /// What CONFIG SET was given for options that have no effect here.
    hints: RwLock<BTreeMap<&'static str, String>>,
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
            users: Users::default(),
            hints: RwLock::default(),
        }
    }
}

impl Settings {
    /// Whether clients have to authenticate.
    pub fn needs_password(&self) -> bool {
        let user = self.users.usual();
        !user.is_on || !user.needs_no_password
    }

    /// Whether `given` is a password of `default`. All wrong passwords take the same time.
    pub fn is_password(&self, given: &[u8]) -> bool {
        self.users.usual().admits(given)
    }

    /// The password.
    pub fn password(&self) -> Option<Vec<u8>> {
        self.password.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Lets a client in that was refused, as a guest, for as long as no password is needed.
    pub(crate) fn admit(&self, authenticated: &mut bool, is_guest: &mut bool) {
        if *is_guest || !*authenticated {
            *is_guest = !self.needs_password();
            *authenticated = *is_guest;
        }
    }

    /// Sets the password; an empty one removes it. Existing connections stay authenticated.
    pub fn set_password(&self, password: &[u8]) {
        self.users.set_password(password);
        let password = (!password.is_empty()).then(|| password.to_vec());
        *self.password.write().unwrap_or_else(|e| e.into_inner()) = password;
    }

    /// What an option without effect was set to.
    pub(crate) fn hint(&self, name: &str) -> Option<String> {
        self.hints.read().unwrap_or_else(|e| e.into_inner()).get(name).cloned()
    }

    /// Notes what an option without effect is set to.
    pub(crate) fn set_hint(&self, name: &'static str, value: &str) {
        self.hints.write().unwrap_or_else(|e| e.into_inner()).insert(name, value.to_owned());
    }

    /// How long a connection may be idle; `None` for no limit.
    pub fn idle(&self) -> Option<std::time::Duration> {
        let seconds = self.idle_s.load(Relaxed);
        (seconds > 0).then(|| std::time::Duration::from_secs(seconds))
    }
}
