//! Whether a handle may still write. A failed write or sync poisons it: what the disk holds is then unknown.

use crate::planted::{Bug, planted};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

#[derive(Default)]
pub(super) struct Health {
    poisoned: AtomicBool,
    reason: Mutex<String>,
}

impl Health {
    /// No more writes from here on. The first reason is kept.
    pub(super) fn poison(&self, reason: &str) {
        if planted(Bug::NotPoisoned) {
            return;
        }
        let mut kept = self.reason.lock().expect("no panic while held");
        if !self.poisoned.swap(true, AcqRel) {
            reason.clone_into(&mut kept);
        }
    }

    #[inline]
    pub(super) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed)
    }

    pub(super) fn reason(&self) -> String {
        self.reason.lock().expect("no panic while held").clone()
    }
}
