//! The gate of the key space: who may work on it at the same time.
//!
//! ```text
//! shared      lookups, and plain writes while nothing but values has to change: any number of threads
//! exclusive   everything else: one thread, alone. EXEC, INCR, SET with a lifetime, eviction, FLUSHDB
//! ```
//!
//! A thread enters once for all commands of one read, not once a command, so the cost is one atomic addition a batch.
//! Each thread counts itself in on a cache line of its own; one that wants to be alone closes the gate and waits until
//! all lines are zero. A thread of the event loop tries for a bounded time; where it fails, an executor thread waits.
//!
//! Source: the big-reader lock of Linux 2.4; `table/gate.rs` of the library has the same shape.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Two lines apart, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU32);

/// More threads than this share slots, which costs speed only.
const SLOT_COUNT: usize = 64;
/// How often a thread of the event loop looks before it gives up: some microseconds.
const TRIES: u32 = 2000;

/// See the head of this file.
pub(super) struct Gate {
    slots: Box<[Slot; SLOT_COUNT]>,
    closed: AtomicBool,
    closer: Mutex<()>,
}

/// A thread that shares the key space with others.
pub(super) struct SharedEntry<'g>(&'g Slot);

/// A thread that has the key space to itself.
pub(super) struct ExclusiveEntry<'g> {
    gate: &'g Gate,
    _closer: MutexGuard<'g, ()>,
}

/// Whether a caller may wait for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// A thread of the event loop, which serves other connections too.
    EventLoop,
    /// An executor thread.
    MayWait,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate {
            slots: Box::new(std::array::from_fn(|_| Slot::default())),
            closed: AtomicBool::new(false),
            closer: Mutex::new(()),
        }
    }

    /// `None` where that would take long and the caller is not to wait.
    #[inline]
    pub(super) fn share(&self, patience: Patience) -> Option<SharedEntry<'_>> {
        let slot = &self.slots[slot_of_thread()];
        loop {
            // Sequentially consistent, as is `closed`: either this thread sees the gate closed, or the closer sees it
            // inside.
            slot.0.fetch_add(1, SeqCst);
            let entry = SharedEntry(slot);
            if !self.closed.load(SeqCst) {
                return Some(entry);
            }
            drop(entry);
            if !wait_until(patience, || !self.closed.load(Acquire)) {
                return None;
            }
        }
    }

    /// Waits until no other thread is inside. `None` where that would take long and the caller is not to wait.
    pub(super) fn close(&self, patience: Patience) -> Option<ExclusiveEntry<'_>> {
        let closer = match self.closer.try_lock() {
            Ok(closer) => closer,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => self.lock(patience)?,
        };
        self.closed.store(true, SeqCst);
        let entry = ExclusiveEntry { gate: self, _closer: closer };
        wait_until(patience, || self.slots.iter().all(|slot| slot.0.load(SeqCst) == 0)).then_some(entry)
    }

    #[cold]
    fn lock(&self, patience: Patience) -> Option<MutexGuard<'_, ()>> {
        if patience == Patience::MayWait {
            return Some(self.closer.lock().unwrap_or_else(|e| e.into_inner()));
        }
        for _ in 0..TRIES {
            match self.closer.try_lock() {
                Ok(closer) => return Some(closer),
                Err(TryLockError::Poisoned(e)) => return Some(e.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }
}

fn wait_until(patience: Patience, done: impl Fn() -> bool) -> bool {
    let mut tries = 0;
    while !done() {
        tries += 1;
        match patience {
            _ if tries < TRIES => std::hint::spin_loop(),
            Patience::EventLoop => return false,
            // With more threads than cores, spinning would take the time of the thread that is waited for.
            Patience::MayWait if tries < 2 * TRIES => std::thread::yield_now(),
            Patience::MayWait => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }
    true
}

impl Drop for SharedEntry<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Release);
    }
}

impl Drop for ExclusiveEntry<'_> {
    fn drop(&mut self) {
        self.gate.closed.store(false, SeqCst);
    }
}

#[inline]
fn slot_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! { static SLOT: Cell<usize> = const { Cell::new(usize::MAX) } }
    SLOT.with(|slot| {
        if slot.get() == usize::MAX {
            slot.set(NEXT.fetch_add(1, Relaxed) % SLOT_COUNT);
        }
        slot.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn an_exclusive_thread_is_alone() {
        let gate = Gate::new();
        let (inside, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (gate, inside, sum) = (&gate, &inside, &sum);
                scope.spawn(move || {
                    for round in 0..2000 {
                        if (round + thread) % 8 == 0 {
                            let _alone = gate.close(Patience::MayWait).unwrap();
                            assert_eq!(inside.load(SeqCst), 0);
                            sum.store(sum.load(Relaxed) + 1, Relaxed);
                        } else {
                            let _entry = gate.share(Patience::MayWait).unwrap();
                            inside.fetch_add(1, SeqCst);
                            std::hint::spin_loop();
                            inside.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(sum.load(Relaxed), 4 * 250);
    }

    #[test]
    fn an_event_loop_thread_gives_up() {
        let gate = Gate::new();
        let alone = gate.close(Patience::MayWait).unwrap();
        assert!(gate.share(Patience::EventLoop).is_none());
        assert!(gate.close(Patience::EventLoop).is_none());
        drop(alone);
        let shared = gate.share(Patience::EventLoop).unwrap();
        assert!(gate.close(Patience::EventLoop).is_none());
        drop(shared);
        assert!(gate.close(Patience::EventLoop).is_some());
    }
}
