//! Whose turn it is to write a checkpoint, and whether the handle is still fit to be written with.
//!
//! One checkpoint at a time, by whichever thread; others may wait for its end, or for the moment in which it has begun
//! a new segment of the log.

use super::interleave;
use super::pool::refuse_to_wait_with_values;
use crate::error::Result;
use crate::planted::{Bug, planted};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct Turns {
    taken: Mutex<bool>,
    changed: Condvar,
    /// Who has the turn keeps it for longer than a checkpoint takes.
    long: AtomicBool,
    poisoned: AtomicBool,
    /// Why.
    reason: Mutex<String>,
}

/// The right to write a checkpoint, given back when dropped.
pub(crate) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.long.store(false, Relaxed);
        *self.0.lock() = false;
        self.0.changed.notify_all();
    }
}

impl Turn {
    /// It will be kept for longer than a checkpoint takes.
    pub(crate) fn for_long(self) -> Turn {
        self.0.long.store(true, Relaxed);
        self
    }

    /// Lets those look again who wait for something else than the turn's end.
    pub(crate) fn tell(&self) {
        // Under the lock, so that nobody looks before and falls asleep after.
        let _taken = self.0.lock();
        self.0.changed.notify_all();
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, bool> {
        interleave::until_free(&self.taken);
        self.taken.lock().expect("no panic while held")
    }

    pub(crate) fn is_for_long(&self) -> bool {
        self.long.load(Relaxed)
    }

    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Turn> {
        let mut taken = self.lock();
        if *taken {
            return None;
        }
        *taken = true;
        Some(Turn(self.clone()))
    }

    /// Waits for the turn.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Turn> {
        loop {
            if let Some(turn) = self.try_take() {
                return Ok(turn);
            }
            self.wait_until(|| false)?;
        }
    }

    /// Waits until nobody has the turn, or `enough`.
    pub(crate) fn wait_until(&self, enough: impl Fn() -> bool) -> Result<()> {
        let mut taken = self.lock();
        while *taken && !enough() {
            refuse_to_wait_with_values()?;
            drop(taken);
            if interleave::wait() {
                taken = self.lock();
                continue;
            }
            taken = self.lock();
            if *taken && !enough() {
                taken = self.changed.wait(taken).expect("no panic while held");
            }
        }
        Ok(())
    }

    /// From here on nothing more may be written: what the disk has, nobody knows.
    pub(crate) fn poison(&self, why: &str) {
        if planted(Bug::NotPoisoned) {
            return;
        }
        let mut reason = self.reason.lock().expect("no panic while held");
        if !self.poisoned.swap(true, AcqRel) {
            *reason = why.to_owned();
        }
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Relaxed)
    }

    /// Why, if so.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().expect("no panic while held").clone()
    }
}
