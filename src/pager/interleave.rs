//! The points where threads may switch, for tests that try many interleavings.
//!
//! In a test of `table/tests/interleavings.rs`, threads are tasks of `shuttle`. They run one at a time on one system
//! thread; a scheduler chooses at each [`step`] which task continues. So the code under test is the code that users
//! run, with std's atomics and locks. The tests try orders of steps, not the effects of a weak memory model (for those
//! there is ThreadSanitizer, `make sanitize`). The code calls `step` before each access to shared state, and [`wait`]
//! wherever a thread would wait. Outside these tests both do nothing.
//!
//! Tasks share the thread-locals of their system thread; [`task`] keeps them apart.
//!
//! Source: shuttle (Amazon); PCT, its scheduler, is Burckhardt et al. 2010.

#[cfg(not(test))]
pub(crate) use off::*;
#[cfg(test)]
pub(crate) use on::*;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks `mutex`, ignoring a panic under it: one in the user's hash function has changed nothing, and one in this
/// library loses at most some space.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    step();
    until_free(mutex);
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Called before a lock. If tasks take turns, lets others run until `mutex` is free: the holder may be a task on this
/// same thread.
#[inline]
pub(crate) fn until_free<T>(mutex: &Mutex<T>) {
    while task().is_some() && matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock)) && wait() {}
}

/// Waits until `changed` is notified, or wakes spuriously. `guard` is a lock of `mutex`.
pub(crate) fn wait_on<'a, T>(changed: &Condvar, mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    if task().is_none() {
        return changed.wait(guard).expect("no panic while held");
    }
    drop(guard);
    wait();
    until_free(mutex);
    mutex.lock().expect("no panic while held")
}

#[cfg(not(test))]
mod off {
    /// The number of tasks that have their own thread-locals.
    pub(crate) const TASK_COUNT: usize = 1;

    /// A point where another thread may run.
    #[inline(always)]
    pub(crate) fn step() {}

    /// Lets another task run. Returns false if the caller must wait by other means.
    #[inline(always)]
    pub(crate) fn wait() -> bool {
        false
    }

    /// The number of the running task, `None` outside a model.
    #[inline(always)]
    pub(crate) fn task() -> Option<usize> {
        None
    }

    /// Identifies the running task, `None` outside a model.
    #[inline(always)]
    pub(crate) fn task_id() -> Option<usize> {
        None
    }

    /// Runs `work` without letting another task run.
    #[inline(always)]
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Starts a thread called `name` that runs `work`.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
    }
}
#[cfg(test)]
mod on {
    use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::cell::Cell;

    /// The number of distinct tasks.
    pub(crate) const TASK_COUNT: usize = 64;

    thread_local! {
        /// Whether the tasks of this thread are interleaved.
        static TURNS: Cell<bool> = const { Cell::new(false) };
        /// Whether all tasks share the last number, which is otherwise left to surplus threads.
        static CROWDED: Cell<bool> = const { Cell::new(false) };
    }

    /// A point where another thread may run.
    #[inline]
    pub(crate) fn step() {
        if TURNS.get() && !std::thread::panicking() {
            // Any of shuttle's atomics is a scheduling point.
            AtomicBool::new(false).load(SeqCst);
        }
    }

    /// Lets another task run. Returns false if the caller must wait by other means.
    pub(crate) fn wait() -> bool {
        let turns = TURNS.get() && !std::thread::panicking();
        if turns {
            shuttle::thread::yield_now();
        }
        turns
    }

    /// The number of the running task, `None` outside a model.
    pub(crate) fn task() -> Option<usize> {
        let number = task_id()?;
        // Checkpoints may start many threads, one after another; it does not matter which of them share a number.
        Some(if CROWDED.get() { TASK_COUNT - 1 } else { number % (TASK_COUNT - 1) })
    }

    /// Identifies the running task, `None` outside a model. Tasks that share a number have different identities.
    pub(crate) fn task_id() -> Option<usize> {
        TURNS.get().then(|| shuttle::current::try_get_current_task().map(usize::from)).flatten()
    }

    /// Starts a thread or task called `name` that runs `work`.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        if TURNS.get() {
            shuttle::thread::spawn(work);
            return Ok(());
        }
        std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
    }

    /// Runs `work` without letting another task run: for a task that no other waits for, while it holds a lock.
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        let turns = TURNS.replace(false);
        let done = work();
        TURNS.set(turns);
        done
    }

    /// Turns on or off that all tasks share the number reserved for surplus threads.
    pub(crate) fn crowd(yes: bool) {
        CROWDED.set(yes);
    }

    /// Turns interleaving of this thread's tasks on or off.
    pub(crate) fn take_turns(yes: bool) {
        TURNS.set(yes);
    }
}
