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
use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks `mutex`. A panic under a lock of ours is one of the user's hash function, which changed nothing, or of our own,
/// which loses room at most.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    step();
    until_free(mutex);
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Before a lock: where tasks take turns, lets others go on until `mutex` is free, as whoever holds it may be a task of this
/// very thread.
#[inline]
pub(crate) fn until_free<T>(mutex: &Mutex<T>) {
    while cfg!(test) && matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock)) && wait() {}
}

/// Waits until `changed` is notified, or for no reason; `mutex` is what `guard` locks.
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

    /// Lets a thread of that name do `work`.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
    }
}
#[cfg(test)]
mod on {
    use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::cell::Cell;

    /// Tasks that are told apart.
    pub(crate) const TASK_COUNT: usize = 64;

    thread_local! {
        /// Do the tasks of this thread take turns?
        static TURNS: Cell<bool> = const { Cell::new(false) };
        /// Do they share what is left for threads beyond a number?
        static CROWDED: Cell<bool> = const { Cell::new(false) };
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
        let number = TURNS.get().then(|| shuttle::current::try_get_current_task().map(usize::from)).flatten()?;
        // The threads of checkpoints can be many, one after another; with whom they share a number does not matter.
        Some(if CROWDED.get() { TASK_COUNT - 1 } else { number % (TASK_COUNT - 1) })
    }

    /// Lets a thread of that name do `work`.
    pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        if TURNS.get() {
            shuttle::thread::spawn(work);
            return Ok(());
        }
        std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
    }

    /// From here on all tasks have the number that is left to threads beyond the last, or no more.
    pub(crate) fn crowd(yes: bool) {
        CROWDED.set(yes);
    }

    /// From here on the tasks of this thread take turns, or no more.
    pub(crate) fn take_turns(yes: bool) {
        TURNS.set(yes);
    }
}
