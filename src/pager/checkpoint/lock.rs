//! The checkpoint lock: one thread at a time makes a checkpoint. Also a lock that refuses the thread that holds it.
//!
//! Other threads may wait for its end, or until it has begun a new segment of the log. A backup holds the lock for a
//! long time; writers behave differently during one (`table/checkpoint.rs`).

use crate::error::{Error, ErrorKind, Result};
use crate::pager::interleave;
use crate::pager::pool::{lock_without_values, refuse_to_wait_with_values};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct CheckpointLock {
    holder: Mutex<Holder>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Holder {
    #[default]
    No,
    Short,
    /// By this thread, for longer than a checkpoint takes.
    Long(HolderId),
}

/// A thread, or a task in a test of interleavings, where tasks share a thread.
type HolderId = (ThreadId, Option<usize>);

fn this_thread() -> HolderId {
    (std::thread::current().id(), interleave::task_id())
}

/// The error of a call that would wait for its own thread.
fn would_wait_for_itself() -> Error {
    let what = "called from the progress function of a backup, check or compaction of the same table, so it would wait \
                for itself";
    Error::new(ErrorKind::WouldDeadlock, what).with_hint("Call it when that is done.")
}

/// A lock that refuses the thread that holds it already.
#[derive(Default)]
pub(crate) struct HolderLock {
    lock: Mutex<()>,
    holder: Mutex<Option<HolderId>>,
}

/// Holds a [`HolderLock`] until dropped.
pub(crate) struct HolderGuard<'l> {
    lock: &'l HolderLock,
    _locked: MutexGuard<'l, ()>,
}

impl HolderLock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] if this thread holds it, or would have to wait while it holds a value.
    pub(crate) fn acquire(&self) -> Result<HolderGuard<'_>> {
        self.refuse_holder()?;
        let locked = lock_without_values(&self.lock)?;
        *self.holder() = Some(this_thread());
        Ok(HolderGuard { lock: self, _locked: locked })
    }

    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] if this thread holds the lock.
    pub(crate) fn refuse_holder(&self) -> Result<()> {
        if *self.holder() == Some(this_thread()) { Err(would_wait_for_itself()) } else { Ok(()) }
    }

    fn holder(&self) -> MutexGuard<'_, Option<HolderId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HolderGuard<'_> {
    fn drop(&mut self) {
        *self.lock.holder() = None;
    }
}

/// Holds the checkpoint lock until dropped.
pub(crate) struct CheckpointGuard(Arc<CheckpointLock>);

impl Drop for CheckpointGuard {
    fn drop(&mut self) {
        *self.0.lock() = Holder::No;
        self.0.changed.notify_all();
    }
}

impl CheckpointGuard {
    /// Announces that this thread holds the lock for longer than a checkpoint takes.
    pub(crate) fn hold_long(self) -> CheckpointGuard {
        *self.0.lock() = Holder::Long(this_thread());
        self.0.changed.notify_all();
        self
    }

    /// Wakes the threads that wait in [`CheckpointLock::wait_until`], to check their condition again.
    pub(crate) fn notify(&self) {
        // Under the mutex, so that no thread misses the wake-up between its check and its sleep.
        let _holder = self.0.lock();
        self.0.changed.notify_all();
    }
}

impl CheckpointLock {
    fn lock(&self) -> MutexGuard<'_, Holder> {
        interleave::until_free(&self.holder);
        self.holder.lock().expect("no panic while held")
    }

    pub(crate) fn is_held_long(&self) -> bool {
        matches!(*self.lock(), Holder::Long(_))
    }

    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<CheckpointGuard> {
        let mut holder = self.lock();
        if *holder != Holder::No {
            return None;
        }
        *holder = Holder::Short;
        Some(CheckpointGuard(self.clone()))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] if this thread holds the lock for a long time.
    pub(crate) fn acquire(self: &Arc<Self>) -> Result<CheckpointGuard> {
        loop {
            if let Some(guard) = self.try_acquire() {
                return Ok(guard);
            }
            self.wait_until(|_| false)?;
        }
    }

    /// Waits until the lock is free or `enough` returns true. `enough` is called with whether the lock is held for a
    /// long time.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`] if this thread holds the lock for a long time.
    pub(crate) fn wait_until(&self, enough: impl Fn(bool) -> bool) -> Result<()> {
        let waits = |holder: Holder| holder != Holder::No && !enough(matches!(holder, Holder::Long(_)));
        let mut holder = self.lock();
        while waits(*holder) {
            refuse_to_wait_with_values()?;
            if *holder == Holder::Long(this_thread()) {
                return Err(would_wait_for_itself());
            }
            drop(holder);
            if interleave::wait() {
                holder = self.lock();
                continue;
            }
            holder = self.lock();
            if waits(*holder) {
                holder = self.changed.wait(holder).expect("no panic while held");
            }
        }
        Ok(())
    }

    /// Waits briefly for a long hold to end: a backup may be about to finish. If not, this slows writers down.
    pub(crate) fn wait_a_moment(&self) {
        const MOMENT: Duration = Duration::from_millis(200);
        let holder = self.lock();
        if matches!(*holder, Holder::Long(id) if id != this_thread()) {
            drop(self.changed.wait_timeout(holder, MOMENT).expect("no panic while held"));
        }
    }
}
