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
use std::sync::{Condvar, Mutex, MutexGuard};

/// Locks `mutex`, ignoring a panic under it: one of the user's hash function changed nothing, and one of ours loses at
/// most some space.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    step();
    until_free(mutex);
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// Before a lock: where tasks take turns, lets others run until `mutex` is free, because the holder may be a task
/// of this very thread.
#[inline]
pub(crate) fn until_free<T>(mutex: &Mutex<T>) {
    while task().is_some() && matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock)) && wait() {}
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

    /// Does `work` without letting another task run.
    #[inline(always)]
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        work()
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

    /// Number of distinct tasks.
    pub(crate) const TASK_COUNT: usize = 64;

    thread_local! {
        /// Whether the tasks of this thread are interleaved.
        static TURNS: Cell<bool> = const { Cell::new(false) };
        /// Do they share what is left for threads beyond a number?
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

    /// Does `work` without letting another task run: for a task that nobody waits for, while it holds a lock.
    pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
        let turns = TURNS.replace(false);
        let done = work();
        TURNS.set(turns);
        done
    }

    /// From here on all tasks have the number that is left to threads beyond the last, or no more.
    pub(crate) fn crowd(yes: bool) {
        CROWDED.set(yes);
    }

    /// Turns interleaving of this thread's tasks on or off.
    pub(crate) fn take_turns(yes: bool) {
        TURNS.set(yes);
    }
}
