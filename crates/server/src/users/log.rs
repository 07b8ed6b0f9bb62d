//! Keeps the entries of ACL LOG: denied requests, the newest first.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of a name or key that an entry keeps.
const LOGGED_BYTES_MAX: usize = 128;

/// Denied requests, the newest first.
#[derive(Default)]
pub(crate) struct DenialLog(Mutex<Vec<LogEntry>>);

/// A denied request, or several alike.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    pub(crate) count: u64,
    pub(crate) reason: &'static str,
    pub(crate) context: &'static str,
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) at_ms: u64,
    pub(crate) client: String,
}

impl DenialLog {
    fn lock(&self) -> MutexGuard<'_, Vec<LogEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a denied request; one like an entry of the last minute is counted there.
    pub(crate) fn note(&self, mut entry: LogEntry) {
        entry.object.truncate(LOGGED_BYTES_MAX);
        entry.user.truncate(LOGGED_BYTES_MAX);
        const SAME_MS: u64 = 60_000;
        const ENTRIES_MAX: usize = 128;
        let mut log = self.lock();
        let is_same = |other: &LogEntry| {
            (other.reason, other.context, &other.object, &other.user)
                == (entry.reason, entry.context, &entry.object, &entry.user)
                && entry.at_ms.saturating_sub(other.at_ms) < SAME_MS
        };
        let found = log.iter().position(is_same);
        let count = found.map_or(0, |index| log.remove(index).count);
        log.insert(0, LogEntry { count: count + 1, ..entry });
        log.truncate(ENTRIES_MAX);
    }

    /// Returns the newest entries, at most `count`.
    pub(crate) fn newest(&self, count: usize) -> Vec<LogEntry> {
        self.lock().iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}
