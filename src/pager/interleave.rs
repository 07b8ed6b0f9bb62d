//! Where threads may switch: for tests that try many interleavings.
//!
//! In a test of `table/interleavings.rs`, threads are tasks of `shuttle`. They run one at a time on one system thread;
//! a scheduler chooses at each [`step`] which task continues. So the code under test is the code that users run, with
//! std's atomics and locks. The tests try orders of steps, not the effects of a weak memory model (for those there is
//! ThreadSanitizer, `make sanitize`). The code calls `step` before each access to shared state, and [`wait`] wherever
//! a thread would wait. Outside these tests both do nothing.
//!
//! Tasks share the thread-locals of their system thread; [`task`] keeps them apart.
//!
//! Source: shuttle (Amazon); PCT, its scheduler, is Burckhardt et al. 2010.

#[cfg(not(test))]
pub(crate) use off::*;
#[cfg(test)]
pub(crate) use on::*;
use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`, ignoring a panic under it: one of the user's hash function changed nothing, and one of ours loses at
/// most some space.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    step();
    while cfg!(test) {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            // Another task of this system thread may hold it.
            Err(std::sync::TryLockError::WouldBlock) if wait() => {}
            Err(std::sync::TryLockError::WouldBlock) => break,
        }
    }
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(not(test))]
mod off {
    /// Number of tasks with thread-locals of their own.
    pub(crate) const TASK_COUNT: usize = 1;

    /// A point where another thread may run.
    #[inline(always)]
    pub(crate) fn step() {}

    /// Lets another task run. `false`: the caller has to wait by itself.
    #[inline(always)]
    pub(crate) fn wait() -> bool {
        false
    }

    /// The number of the running task, `None` outside of a model.
    #[inline(always)]
    pub(crate) fn task() -> Option<usize> {
        None
    }
}
#[cfg(test)]
mod on {
    use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::cell::Cell;

    /// Number of tasks with thread-locals of their own.
    pub(crate) const TASK_COUNT: usize = 16;

    thread_local! {
        /// Whether the tasks of this thread are interleaved.
        static TURNS: Cell<bool> = const { Cell::new(false) };
    }

    /// A point where another thread may run.
    #[inline]
    pub(crate) fn step() {
        if TURNS.get() && !std::thread::panicking() {
            // Any of shuttle's atomics is a scheduling point.
            AtomicBool::new(false).load(SeqCst);
        }
    }

    /// Lets another task run. `false`: the caller has to wait by itself.
    pub(crate) fn wait() -> bool {
        let turns = TURNS.get() && !std::thread::panicking();
        if turns {
            shuttle::thread::yield_now();
        }
        turns
    }

    /// The number of the running task, `None` outside of a model.
    pub(crate) fn task() -> Option<usize> {
        TURNS.get().then(|| shuttle::current::try_get_current_task().map(usize::from)).flatten()
    }

    /// Turns interleaving of this thread's tasks on or off.
    pub(crate) fn take_turns(yes: bool) {
        TURNS.set(yes);
    }
}
