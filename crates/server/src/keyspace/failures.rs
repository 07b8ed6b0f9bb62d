//! Whether writes fail: the last one did, and none has succeeded since.
//!
//! A full disk passes: the next write that finds room succeeds. A handle that an error has poisoned refuses all writes
//! until the server is restarted. INFO, `/health` and the metrics report both.

use super::KeySpace;
use splitpoint::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Mutex, PoisonError};

/// The last failure of a write.
#[derive(Default)]
pub(super) struct Failures {
    has_failed: AtomicBool,
    last: Mutex<Option<Failure>>,
}

struct Failure {
    kind: ErrorKind,
    message: String,
    /// The number of changes made before it.
    changes: u64,
}

impl KeySpace {
    /// Notes the error of a command or a sync. Only a full disk and a poisoned handle count.
    pub(crate) fn note_failure(&self, error: &Error) {
        let kind = error.kind();
        if matches!(kind, ErrorKind::DiskFull | ErrorKind::Poisoned) {
            let changes = self.events.changes.load(Relaxed);
            let mut last = self.failures.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(Failure { kind, message: error.to_string(), changes });
            self.failures.has_failed.store(true, Relaxed);
        }
    }

    /// Why writes fail: the message of the last error. `None` once a write has succeeded.
    pub(crate) fn write_failure(&self) -> Option<String> {
        self.failures.has_failed.load(Relaxed).then_some(())?;
        let mut last = self.failures.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|failure| failure.changes != self.events.changes.load(Relaxed)) {
            *last = None;
            self.failures.has_failed.store(false, Relaxed);
        }
        last.as_ref().map(|failure| failure.message.clone())
    }

    /// If the disk was full, writes a checkpoint to find out whether there is room again.
    pub(crate) fn retry_full_disk(&self) {
        let is_full = |failure: &Failure| failure.kind == ErrorKind::DiskFull;
        let last = || self.failures.last.lock().unwrap_or_else(PoisonError::into_inner);
        if self.failures.has_failed.load(Relaxed) && last().as_ref().is_some_and(is_full) && self.checkpoint().is_ok() {
            last().take_if(|failure| is_full(failure));
        }
    }
}
