//! Writers at work: what they count, and how to have a moment without them.
//!
//! Each thread has a slot of its own in each table, a cache line that no other writes: the numbers of pairs and bytes
//! that it added, and a mark that it is inside a write. So counting costs no atomic read-modify-write, and entering
//! just one. Whoever needs the table between two writes - a checkpoint, a verification - closes the gate and waits for
//! those inside.
//!
//! The load that decides about growth is one shared number; a thread adds to it what it has gathered each time that is
//! a good part of a page.

use crate::error::Result;
use crate::pager::interleave::{self, step};
use crate::pager::pool::{lock_without_values, refuse_to_wait_with_values};
use crate::planted::{Bug, planted};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// Threads with a slot of their own; all others share the last.
pub(super) const SLOT_COUNT: usize = 64;
const SHARED: usize = SLOT_COUNT - 1;

/// Two lines apart, as processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    inside: AtomicU32,
    pairs: AtomicI64,
    payload_bytes: AtomicI64,
    bucket_bytes: AtomicI64,
    /// Parts of the above not yet in the shared load.
    pairs_pending: AtomicI64,
    bytes_pending: AtomicI64,
    /// Changes made, and those of them that took a pair out.
    changes: AtomicI64,
    removals: AtomicI64,
}

/// What a write did to the numbers of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta {
    pub pairs: i64,
    /// Keys and values.
    pub payload: i64,
    /// Slots and records in pages.
    pub bucket: i64,
    /// A second overflow page was needed: the table should grow whatever its load.
    pub long_chain: bool,
}

impl std::ops::Add for Delta {
    type Output = Delta;
    fn add(self, other: Delta) -> Delta {
        Delta {
            pairs: self.pairs + other.pairs,
            payload: self.payload + other.payload,
            bucket: self.bucket + other.bucket,
            long_chain: self.long_chain || other.long_chain,
        }
    }
}

/// The numbers of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub pairs: u64,
    pub payload_bytes: u64,
    pub bucket_bytes: u64,
}

/// What all threads have counted. A copy is of the same numbers.
#[derive(Clone)]
pub(super) struct Counted(Arc<[Slot; SLOT_COUNT]>);

/// The gate that writers pass.
pub(super) struct Gate {
    slots: Counted,
    closed: AtomicBool,
    closer: Mutex<()>,
    load_pairs: AtomicI64,
    load_bytes: AtomicI64,
    /// A thread adds to the load when it has this many bytes.
    step_bytes: i64,
}

/// A writer inside.
pub(super) struct Inside<'g> {
    gate: &'g Gate,
    slot: usize,
}

/// Nobody inside.
pub(super) struct Closed<'g> {
    gate: &'g Gate,
    _closer: MutexGuard<'g, ()>,
}

impl Gate {
    pub(super) fn new(totals: Totals, step_bytes: i64) -> Gate {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let gate = Gate {
            slots: Counted(Arc::new(std::array::from_fn(|_| Slot::default()))),
            closed: AtomicBool::new(false),
            closer: Mutex::new(()),
            load_pairs: AtomicI64::new(signed(totals.pairs)),
            load_bytes: AtomicI64::new(signed(totals.bucket_bytes)),
            step_bytes,
        };
        let base = &gate.slots.0[SHARED];
        base.pairs.store(signed(totals.pairs), Relaxed);
        base.payload_bytes.store(signed(totals.payload_bytes), Relaxed);
        base.bucket_bytes.store(signed(totals.bucket_bytes), Relaxed);
        gate
    }

    /// Lets a writer in, after whoever closed the gate.
    #[inline]
    pub(super) fn enter(&self) -> Result<Inside<'_>> {
        let slot = slot_of_thread();
        loop {
            // Sequentially consistent, as is `closed`: either we see the gate closed, or the closer sees us inside.
            step();
            self.slots.0[slot].inside.fetch_add(1, SeqCst);
            let inside = Inside { gate: self, slot };
            step();
            if !self.closed.load(SeqCst) || planted(Bug::GatePassedClosed) {
                return Ok(inside);
            }
            drop(inside);
            self.wait_until(|| !self.closed.load(Acquire))?;
        }
    }

    /// Waits until no writer is inside, and keeps them out.
    pub(super) fn close(&self) -> Result<Closed<'_>> {
        let closer = lock_without_values(&self.closer)?;
        step();
        self.closed.store(true, SeqCst);
        step();
        let closed = Closed { gate: self, _closer: closer };
        let slots = &self.slots.0[..SLOT_COUNT - usize::from(planted(Bug::SharedSlotPassed))];
        self.wait_until(|| slots.iter().all(|s| s.inside.load(SeqCst) == 0))?;
        Ok(closed)
    }

    #[cold]
    fn wait_until(&self, done: impl Fn() -> bool) -> Result<()> {
        const SPINS: u32 = 100;
        const YIELDS: u32 = 2000;
        let mut count = 0;
        while !done() {
            count += 1;
            if count == SPINS {
                refuse_to_wait_with_values()?;
            }
            if interleave::wait() {
                continue;
            }
            match count {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                // More threads than cores: those that wait would take all the time of the one that is waited for.
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// The numbers of this moment.
    pub(super) fn totals(&self) -> Totals {
        self.slots.totals()
    }

    /// What threads count, for whoever shows it to others.
    pub(super) fn counted(&self) -> &Counted {
        &self.slots
    }

    /// The load: pairs, and bytes of slots and records. Up to a page a thread behind the truth.
    #[inline]
    pub(super) fn load(&self) -> (u64, u64) {
        let unsigned = |n: &AtomicI64| u64::try_from(n.load(Relaxed)).unwrap_or(0);
        (unsigned(&self.load_pairs), unsigned(&self.load_bytes))
    }
}

impl Counted {
    pub(super) fn totals(&self) -> Totals {
        Totals {
            pairs: self.sum(|s| &s.pairs),
            payload_bytes: self.sum(|s| &s.payload_bytes),
            bucket_bytes: self.sum(|s| &s.bucket_bytes),
        }
    }

    /// Changes that stored something, and those that took a pair out.
    pub(super) fn puts_and_removals(&self) -> (u64, u64) {
        let removals = self.sum(|s| &s.removals);
        (self.sum(|s| &s.changes).saturating_sub(removals), removals)
    }

    fn sum(&self, part: fn(&Slot) -> &AtomicI64) -> u64 {
        let sum: i64 = self.0.iter().map(|s| part(s).load(Relaxed)).sum();
        // Another thread's removal may be counted before the put it undoes.
        u64::try_from(sum).unwrap_or(0)
    }
}

impl<'g> Closed<'g> {
    /// Who closed the gate goes in alone.
    pub(super) fn enter(&self) -> Inside<'g> {
        let slot = slot_of_thread();
        self.gate.slots.0[slot].inside.fetch_add(1, SeqCst);
        Inside { gate: self.gate, slot }
    }
}

impl Inside<'_> {
    /// Counts what a write did. Says whether the load changed, so that it is time to look at it.
    #[inline]
    pub(super) fn count(&self, delta: Delta) -> bool {
        let slot = &self.gate.slots.0[self.slot];
        let add = |counter, n| self.add(counter, n);
        add(&slot.pairs, delta.pairs);
        add(&slot.payload_bytes, delta.payload);
        add(&slot.bucket_bytes, delta.bucket);
        add(&slot.pairs_pending, delta.pairs);
        let pending = add(&slot.bytes_pending, delta.bucket);
        if pending.abs() < self.gate.step_bytes {
            return false;
        }
        self.gate.load_pairs.fetch_add(slot.pairs_pending.swap(0, Relaxed), Relaxed);
        self.gate.load_bytes.fetch_add(slot.bytes_pending.swap(0, Relaxed), Relaxed);
        true
    }
}

impl Inside<'_> {
    /// Counts that so many changes were made, of which so many took a pair out.
    #[inline]
    pub(super) fn count_changes(&self, changes: usize, removals: usize) {
        let slot = &self.gate.slots.0[self.slot];
        self.add(&slot.changes, changes as i64); // fewer than there are bytes of memory
        self.add(&slot.removals, removals as i64);
    }

    #[inline]
    fn add(&self, counter: &AtomicI64, n: i64) -> i64 {
        if self.slot == SHARED {
            return counter.fetch_add(n, Relaxed) + n;
        }
        let sum = counter.load(Relaxed) + n; // no other thread writes it
        counter.store(sum, Relaxed);
        sum
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        step();
        let inside = &self.gate.slots.0[self.slot].inside;
        if self.slot == SHARED {
            inside.fetch_sub(1, Release);
        } else {
            inside.store(inside.load(Relaxed) - 1, Release);
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        step();
        self.gate.closed.store(false, SeqCst);
    }
}

/// Slot numbers that ended threads gave back.
static FREE_SLOTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static NEXT_SLOT: AtomicU32 = AtomicU32::new(0);

/// A thread's slot number, the same in all tables.
struct SlotNumber(usize);

impl SlotNumber {
    fn take() -> SlotNumber {
        let free = FREE_SLOTS.lock().unwrap_or_else(|e| e.into_inner()).pop();
        SlotNumber(free.unwrap_or_else(|| (NEXT_SLOT.fetch_add(1, Relaxed) as usize).min(SHARED)))
    }
}

impl Drop for SlotNumber {
    fn drop(&mut self) {
        if self.0 != SHARED {
            // The lock orders what this thread counted before what the next owner does.
            FREE_SLOTS.lock().unwrap_or_else(|e| e.into_inner()).push(self.0);
        }
        CACHED_SLOT.set(SHARED);
    }
}

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static SLOT: SlotNumber = SlotNumber::take();
    /// A copy without a destructor, which is cheaper to ask.
    static CACHED_SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
}

#[inline]
pub(super) fn slot_of_thread() -> usize {
    if let Some(task) = interleave::task() {
        return task;
    }
    match CACHED_SLOT.get() {
        UNKNOWN => {
            // A thread that is ending uses the shared slot.
            let slot = SLOT.try_with(|s| s.0).unwrap_or(SHARED);
            CACHED_SLOT.set(slot);
            slot
        }
        slot => slot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn threads_count_together_and_a_closed_gate_has_nobody_inside() {
        let gate = Arc::new(Gate::new(Totals { pairs: 5, ..Totals::default() }, 100));
        // More threads than slots, so that some share.
        const THREADS: usize = 2 * SLOT_COUNT;
        const WRITES: i64 = 500;
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let gate = gate.clone();
                std::thread::spawn(move || {
                    for _ in 0..WRITES {
                        let inside = gate.enter().unwrap();
                        inside.count(Delta { pairs: 1, payload: 2, bucket: 3, long_chain: false });
                    }
                })
            })
            .collect();
        while threads.iter().any(|t| !t.is_finished()) {
            let closed = gate.close().unwrap();
            let before = gate.totals();
            std::thread::yield_now();
            assert_eq!(gate.totals(), before);
            drop(closed);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        let writes = THREADS as u64 * WRITES as u64;
        assert_eq!(gate.totals(), Totals { pairs: 5 + writes, payload_bytes: 2 * writes, bucket_bytes: 3 * writes });
        assert!(gate.load().1 > 3 * writes - 100 * SLOT_COUNT as u64);
    }
}
