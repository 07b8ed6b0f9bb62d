//! The gate of the key space: who may work on it at the same time.
//!
//! ```text
//! shared      any number of threads: lookups, and writes of one string or small collection each
//! exclusive   one thread: everything else, such as EXEC, MSET, SUNION, large collections, eviction, FLUSHDB
//! ```
//!
//! A thread enters once for all commands of one read, so the cost is one atomic addition per batch. Each thread counts
//! itself in on a cache line of its own. A thread that needs exclusive entry closes the gate and waits until all counts
//! are zero. A thread of the event loop sleeps through a short turn of another thread; an executor thread waits for the
//! end of a longer one instead.
//!
//! Source: the big-reader lock of Linux 2.4; `table/gate.rs` of the library has the same shape.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Aligned to two cache lines, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot(AtomicU32);

/// If there are more threads than this, some share slots, which only costs speed.
const SLOT_COUNT: usize = 64;
/// How often a thread looks before it sleeps or yields: long enough for one short command.
const LOOKS: u32 = 200;
/// A thread of the event loop waits no longer than this, and not for a turn that is older. Its other connections wait
/// too, but to wake an executor thread would cost them more.
const SHORT_TURN: Duration = Duration::from_micros(500);
/// How often a thread that may wait asks whether to give up.
const ASKED: Duration = Duration::from_millis(5);

/// The gate: a flag that closes it, and a count of the threads inside for each slot.
pub(super) struct Gate {
    slots: Box<[Slot; SLOT_COUNT]>,
    closed: AtomicBool,
    turn: Mutex<Turn>,
    turn_ended: Condvar,
}

/// Which closer may close the gate.
struct Turn {
    is_taken: bool,
    /// When it was taken last.
    began: Instant,
    /// How many threads sleep until the turn ends.
    waiting: u32,
}

/// Shared entry; dropping it leaves the key space.
pub(super) struct SharedEntry<'g>(&'g Slot);

/// Exclusive entry; dropping it opens the gate again.
pub(super) struct ExclusiveEntry<'g>(&'g Gate);

/// Whether a caller may wait a long time.
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
            turn: Mutex::new(Turn { is_taken: false, began: Instant::now(), waiting: 0 }),
            turn_ended: Condvar::new(),
        }
    }

    /// Enters shared. `None` if the gate stays closed and the caller may not wait, or gives up.
    #[inline]
    pub(super) fn share(&self, patience: Patience, gives_up: impl Fn() -> bool) -> Option<SharedEntry<'_>> {
        let slot = &self.slots[slot_of_thread()];
        loop {
            // Sequentially consistent, as is `closed`: either this thread sees the gate closed, or the thread that
            // closes it sees this count.
            slot.0.fetch_add(1, SeqCst);
            let entry = SharedEntry(slot);
            if !self.closed.load(SeqCst) {
                return Some(entry);
            }
            drop(entry);
            if !self.wait_until_open(patience, &gives_up) {
                return None;
            }
        }
    }

    /// Waits until no other thread is inside. `None` if that would take long and the caller may not wait, or if the
    /// caller gives up before it is its turn.
    pub(super) fn close(&self, patience: Patience, gives_up: impl Fn() -> bool) -> Option<ExclusiveEntry<'_>> {
        if !self.take_turn() && !self.wait_for_turn(patience, gives_up) {
            return None;
        }
        self.closed.store(true, SeqCst);
        let entry = ExclusiveEntry(self);
        self.wait_until_empty(patience).then_some(entry)
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn; `false` if another closer has it.
    fn take_turn(&self) -> bool {
        self.turn().take()
    }

    /// Waits until the gate is open. `false` if the caller may not wait so long, or gives up; else it must look again.
    #[cold]
    fn wait_until_open(&self, patience: Patience, gives_up: impl Fn() -> bool) -> bool {
        self.look();
        drop(self.sleep(patience, &gives_up, |_| !self.closed.load(Acquire)));
        // Another thread may have closed it again.
        !self.closed.load(Acquire) || patience == Patience::MayWait && !gives_up()
    }

    /// Waits for the turn of another closer to end, and takes it. `false` if the caller may not wait so long, or gives
    /// up.
    #[cold]
    fn wait_for_turn(&self, patience: Patience, gives_up: impl Fn() -> bool) -> bool {
        self.look();
        self.sleep(patience, gives_up, |turn| !turn.is_taken).take()
    }

    /// Waits a little for the gate to open.
    fn look(&self) {
        let mut looks = 0;
        while self.closed.load(Relaxed) && looks < LOOKS {
            looks += 1;
            std::hint::spin_loop();
        }
    }

    /// Sleeps until `is_over`, which is asked whenever a turn ends, or until the caller may not wait longer.
    fn sleep(
        &self,
        patience: Patience,
        gives_up: impl Fn() -> bool,
        is_over: impl Fn(&Turn) -> bool,
    ) -> MutexGuard<'_, Turn> {
        let (mut turn, since) = (self.turn(), Instant::now());
        turn.waiting += 1;
        while !is_over(&turn) && !gives_up() {
            let most = match patience {
                Patience::EventLoop => SHORT_TURN.saturating_sub(since.elapsed().max(turn.began.elapsed())),
                Patience::MayWait => ASKED,
            };
            if most.is_zero() {
                break;
            }
            turn = self.turn_ended.wait_timeout(turn, most).unwrap_or_else(PoisonError::into_inner).0;
        }
        turn.waiting -= 1;
        turn
    }

    /// Waits until no thread is inside. `false` if the caller may not wait so long.
    fn wait_until_empty(&self, patience: Patience) -> bool {
        let is_empty = || self.slots[..slots_in_use()].iter().all(|slot| slot.0.load(SeqCst) == 0);
        let (mut tries, since) = (0, Instant::now());
        while !is_empty() {
            tries += 1;
            match patience {
                _ if tries < LOOKS => std::hint::spin_loop(),
                Patience::EventLoop if since.elapsed() >= SHORT_TURN => return false,
                // With more threads than cores, spinning would take processor time from the thread that must leave.
                _ if tries < 10 * LOOKS => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        true
    }
}

impl Turn {
    /// Takes the turn; `false` if another closer has it.
    fn take(&mut self) -> bool {
        let is_free = !std::mem::replace(&mut self.is_taken, true);
        if is_free {
            self.began = Instant::now();
        }
        is_free
    }
}

impl Drop for SharedEntry<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Release);
    }
}

impl Drop for ExclusiveEntry<'_> {
    fn drop(&mut self) {
        let gate = self.0;
        gate.closed.store(false, SeqCst);
        let mut turn = gate.turn();
        turn.is_taken = false;
        let is_awaited = turn.waiting > 0;
        drop(turn);
        if is_awaited {
            gate.turn_ended.notify_all();
        }
    }
}

/// How many threads have asked for a slot.
static THREADS: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn slot_of_thread() -> usize {
    thread_local! { static SLOT: Cell<usize> = const { Cell::new(usize::MAX) } }
    SLOT.with(|slot| {
        if slot.get() == usize::MAX {
            // Sequentially consistent, as is `closed`: either the thread that closes the gate sees this slot in use, or
            // this thread then sees the gate closed.
            slot.set(THREADS.fetch_add(1, SeqCst) % SLOT_COUNT);
        }
        slot.get()
    })
}

/// The number of the first slot that was never given to a thread.
#[inline]
fn slots_in_use() -> usize {
    THREADS.load(SeqCst).min(SLOT_COUNT)
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
                            let _alone = gate.close(Patience::MayWait, || false).unwrap();
                            assert_eq!(inside.load(SeqCst), 0);
                            sum.store(sum.load(Relaxed) + 1, Relaxed);
                        } else {
                            let _entry = gate.share(Patience::MayWait, || false).unwrap();
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
    fn nobody_is_inside_with_the_thread_that_closed_the_gate() {
        // More threads than cores, so that some are preempted anywhere in between.
        const SHARERS: usize = 6;
        const CLOSES: u32 = 500_000;
        let (gate, is_over, inside) = (Gate::new(), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..SHARERS {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let _entry = gate.share(Patience::MayWait, || false).unwrap();
                        inside.fetch_add(1, SeqCst);
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
            let mut met = 0;
            for _ in 0..CLOSES {
                let _alone = gate.close(Patience::MayWait, || false).unwrap();
                // Long enough for a thread that passed the open gate and counted itself in too late.
                met += (0..50).map(|_| inside.load(SeqCst)).sum::<u64>();
            }
            is_over.store(true, Relaxed);
            assert_eq!(met, 0);
        });
    }

    #[test]
    fn a_thread_that_may_wait_gives_up_when_it_wants_to() {
        let gate = Gate::new();
        let alone = gate.close(Patience::MayWait, || false).unwrap();
        let asked = Cell::new(0);
        let gives_up = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        assert!(gate.share(Patience::MayWait, gives_up).is_none());
        asked.set(0);
        assert!(gate.close(Patience::MayWait, gives_up).is_none());
        drop(alone);
        assert!(gate.close(Patience::MayWait, || true).is_some());
    }

    #[test]
    fn an_event_loop_thread_gives_up() {
        let gate = Gate::new();
        let alone = gate.close(Patience::MayWait, || false).unwrap();
        assert!(gate.share(Patience::EventLoop, || false).is_none());
        assert!(gate.close(Patience::EventLoop, || false).is_none());
        drop(alone);
        let shared = gate.share(Patience::EventLoop, || false).unwrap();
        assert!(gate.close(Patience::EventLoop, || false).is_none());
        drop(shared);
        assert!(gate.close(Patience::EventLoop, || false).is_some());
    }
}
