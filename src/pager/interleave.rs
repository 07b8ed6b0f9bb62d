//! Where threads may take turns: for tests that try the orders in which that can happen.
//!
//! In a test of `table/interleavings.rs` threads are tasks of `shuttle`, of which one runs at a time, on one thread of the
//! system; a scheduler chooses at each [`step`] who goes on. So the code under test is the code that users run, its atomics
//! and locks are std's, and what is tried is each order of the steps, not what a weak memory model adds to that (for which
//! there is ThreadSanitizer, `make sanitize`). It takes a `step` before whatever another thread may see or change, and
//! [`wait`] wherever a thread would wait. Outside these tests all of it is nothing.
//!
//! Tasks share the variables of their thread, which would let two of them pass for one: [`task`] tells them apart.
//!
//! Source: shuttle (Amazon); PCT, its scheduler, is Burckhardt et al. 2010.

#[cfg(not(test))]
pub(crate) use off::*;
#[cfg(test)]
pub(crate) use on::*;
use std::sync::{Mutex, MutexGuard};

/// Locks `mutex`. A panic under a lock of ours is one of the user's hash function, which changed nothing, or of our own,
/// which loses room at most.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    step();
    while cfg!(test) {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            // Whoever holds it may be a task of this very thread.
            Err(std::sync::TryLockError::WouldBlock) if wait() => {}
            Err(std::sync::TryLockError::WouldBlock) => break,
        }
    }
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(not(test))]
mod off {
    /// Tasks that are told apart.
    pub(crate) const TASK_COUNT: usize = 1;

    /// Another thread may go on here.
    #[inline(always)]
    pub(crate) fn step() {}

    /// This thread waits for another. `false`: it has to see to that itself.
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

    /// Tasks that are told apart.
    pub(crate) const TASK_COUNT: usize = 16;

    thread_local! {
        /// Do the tasks of this thread take turns?
        static TURNS: Cell<bool> = const { Cell::new(false) };
    }

    /// Another thread may go on here.
    #[inline]
    pub(crate) fn step() {
        if TURNS.get() && !std::thread::panicking() {
            // Any of shuttle's atomics asks the scheduler who goes on.
            AtomicBool::new(false).load(SeqCst);
        }
    }

    /// This thread waits for another. `false`: it has to see to that itself.
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

    /// From here on the tasks of this thread take turns, or no more.
    pub(crate) fn take_turns(yes: bool) {
        TURNS.set(yes);
    }
}
