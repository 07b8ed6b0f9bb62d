//! Whose turn it is to write a checkpoint, and whether the handle is still fit to be written with.
//!
//! One checkpoint at a time, by whichever thread; others may wait for its end, or for the moment in which it has begun
//! a new segment of the log.

use super::interleave;
use super::pool::refuse_to_wait_with_values;
use crate::error::{Error, ErrorKind, Result};
use crate::planted::{Bug, planted};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Turns {
    taken: Mutex<Taken>,
    changed: Condvar,
    poisoned: AtomicBool,
    /// Why.
    reason: Mutex<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Taken {
    #[default]
    No,
    ForACheckpoint,
    /// Longer than a checkpoint takes, by this thread.
    ForLong(ThreadId),
}

/// The right to write a checkpoint, given back when dropped.
pub(crate) struct Turn(Arc<Turns>);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.lock() = Taken::No;
        self.0.changed.notify_all();
    }
}

impl Turn {
    /// It will be kept for longer than a checkpoint takes, by this thread.
    pub(crate) fn for_long(self) -> Turn {
        *self.0.lock() = Taken::ForLong(std::thread::current().id());
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
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no panic while held")
    }

    pub(crate) fn is_for_long(&self) -> bool {
        matches!(*self.lock(), Taken::ForLong(_))
    }

    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Turn> {
        let mut taken = self.lock();
        if *taken != Taken::No {
            return None;
        }
        *taken = Taken::ForACheckpoint;
        Some(Turn(self.clone()))
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] where this thread has it.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Turn> {
        loop {
            if let Some(turn) = self.try_take() {
                return Ok(turn);
            }
            self.wait_until(|| false)?;
        }
    }

    /// Waits until the turn is free, or `enough`.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] where this thread has the turn for long, and waits for itself.
    pub(crate) fn wait_until(&self, enough: impl Fn() -> bool) -> Result<()> {
        let mut taken = self.lock();
        while *taken != Taken::No && !enough() {
            refuse_to_wait_with_values()?;
            if *taken == Taken::ForLong(std::thread::current().id()) {
                return Err(Error::new(
                    ErrorKind::WouldDeadlock,
                    "called by the progress function of a backup of the same table, which it would wait for; do this when the backup is done",
                ));
            }
            drop(taken);
            if interleave::wait() {
                taken = self.lock();
                continue;
            }
            taken = self.lock();
            if *taken != Taken::No && !enough() {
                taken = self.changed.wait(taken).expect("no panic while held");
            }
        }
        Ok(())
    }

    /// Waits a moment for the end of a turn that is kept for long: time for a backup that is about to end, and a brake on
    /// writers beside one that is not.
    pub(crate) fn wait_a_moment(&self) {
        const MOMENT: Duration = Duration::from_millis(200);
        let taken = self.lock();
        if matches!(*taken, Taken::ForLong(id) if id != std::thread::current().id()) {
            drop(self.changed.wait_timeout(taken, MOMENT).expect("no panic while held"));
        }
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
