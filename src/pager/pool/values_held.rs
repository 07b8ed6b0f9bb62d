//! Values that a thread has borrowed from a table. While it holds one, it must not wait for another thread.
//!
//! The value keeps its frame latched, and the other thread may be waiting for that latch.

use crate::error::{Error, ErrorKind, Result};
use crate::pager::interleave::{self, step};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, TryLockError};

thread_local! {
    /// The number of value guards that this thread holds. Above 0, the thread must not wait for a latch.
    static VALUES_HELD: [Cell<u32>; interleave::TASK_COUNT] =
        const { [const { Cell::new(0) }; interleave::TASK_COUNT] };
}

fn values_held<R>(use_count: impl FnOnce(&Cell<u32>) -> R) -> R {
    VALUES_HELD.with(|held| use_count(&held[interleave::task().unwrap_or(0)]))
}

/// Counts one [`ValueRef`](crate::ValueRef) of this thread while it exists.
pub(crate) struct ValueHeld(());

impl ValueHeld {
    pub(crate) fn new() -> Self {
        values_held(|held| held.set(held.get() + 1));
        ValueHeld(())
    }
}

impl Drop for ValueHeld {
    fn drop(&mut self) {
        values_held(|held| held.set(held.get() - 1));
    }
}

/// Fails if this thread holds a value guard, for which the thread that it is about to wait for may be waiting.
pub(crate) fn refuse_to_wait_with_values() -> Result<()> {
    if values_held(|held| held.get()) == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::WouldDeadlock,
        "this thread holds a value borrowed from a table and would wait for another thread",
    )
    .with_hint("Drop the ValueRef first, or copy the value."))
}

/// Locks `mutex`. Fails if that would mean waiting while this thread holds a value guard.
pub(crate) fn lock_without_values<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    step();
    match mutex.try_lock() {
        Ok(guard) => return Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => refuse_to_wait_with_values()?,
    }
    Ok(interleave::lock(mutex))
}
