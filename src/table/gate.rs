//! The gate that writers pass: what they count, and how to keep them out briefly.
//!
//! Each thread has a slot in each table, on cache lines that no other thread writes. It has the numbers of pairs and
//! bytes that the thread added, and whether the thread is in a write. So counting costs no atomic read-modify-write,
//! and entering costs one. A checkpoint or a verification needs the table between two writes: it closes the gate and
//! waits for the writers inside.
//!
//! The load, which decides about growth, is one shared number. A thread adds its own counts to it once they amount to a
//! large part of a page.

use crate::buckets::{Delta, Load, Totals};
use crate::error::Result;
use crate::pager::interleave::{self, step};
use crate::pager::pool::refuse_to_wait_with_values;
use crate::pager::thread_slot::{SHARED, SLOT_COUNT, slot_of_thread};
use crate::pager::{HolderGuard, HolderLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::*};

/// Two cache lines each, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// Whether several threads use this slot.
    is_shared: bool,
    inside: AtomicU32,
    pairs: AtomicI64,
    payload_bytes: AtomicI64,
    bucket_bytes: AtomicI64,
    /// The part of the counts that is not yet in the shared load.
    pairs_pending: AtomicI64,
    bytes_pending: AtomicI64,
    /// Changes made, and the number of them that removed a pair.
    changes: AtomicI64,
    removals: AtomicI64,
    /// Whether a change added a pair since this was last asked.
    has_added: AtomicBool,
}

/// The counts of all threads. A clone shares them.
#[derive(Clone)]
pub(super) struct Counted(Arc<[Slot; SLOT_COUNT]>);

/// The gate that writers pass.
pub(super) struct Gate {
    slots: Counted,
    closed: AtomicBool,
    /// Held by the thread that has closed the gate.
    closer: HolderLock,
    /// A thread adds to the load once it has counted this many bytes.
    step_bytes: i64,
}

/// A writer inside the gate.
pub(super) struct WriterGuard<'g> {
    slot: &'g Slot,
    gate: &'g Gate,
}

/// The closed gate: no writer is inside.
pub(super) struct ClosedGate<'g> {
    gate: &'g Gate,
    _closer: HolderGuard<'g>,
}

impl Gate {
    pub(super) fn new(totals: Totals, step_bytes: i64) -> Gate {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let gate = Gate {
            slots: Counted(Arc::new(std::array::from_fn(|n| Slot { is_shared: n == SHARED, ..Slot::default() }))),
            closed: AtomicBool::new(false),
            closer: HolderLock::default(),
            step_bytes,
        };
        let base = &gate.slots.0[SHARED];
        base.pairs.store(signed(totals.pairs), Relaxed);
        base.payload_bytes.store(signed(totals.payload_bytes), Relaxed);
        base.bucket_bytes.store(signed(totals.bucket_bytes), Relaxed);
        gate
    }

    /// Lets a writer in; waits while the gate is closed.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`](crate::ErrorKind) if this thread has closed the gate, or would have to wait while
    /// it holds a value.
    #[inline]
    pub(super) fn enter(&self) -> Result<WriterGuard<'_>> {
        let number = slot_of_thread();
        loop {
            // Sequentially consistent, like `closed`: either this thread sees the gate closed, or the closing thread
            // sees this one inside.
            step();
            let inside = self.enter_slot(number);
            step();
            if !self.closed.load(SeqCst) {
                return Ok(inside);
            }
            drop(inside);
            self.refuse_closer()?;
            self.wait_until(|| !self.closed.load(Acquire))?;
        }
    }

    /// # Errors
    /// [`ErrorKind::WouldDeadlock`](crate::ErrorKind) if this thread has closed the gate.
    #[cold]
    pub(super) fn refuse_closer(&self) -> Result<()> {
        self.closer.refuse_holder()
    }

    #[inline]
    fn enter_slot(&self, number: usize) -> WriterGuard<'_> {
        let slot = &self.slots.0[number % SLOT_COUNT];
        slot.inside.fetch_add(1, SeqCst);
        WriterGuard { slot, gate: self }
    }

    /// Closes the gate and waits until no writer is inside.
    ///
    /// # Errors
    /// The errors of [`enter`](Self::enter).
    pub(super) fn close(&self) -> Result<ClosedGate<'_>> {
        let closer = self.closer.acquire()?;
        step();
        self.closed.store(true, SeqCst);
        step();
        let closed = ClosedGate { gate: self, _closer: closer };
        self.wait_until(|| self.slots.0.iter().all(|s| s.inside.load(SeqCst) == 0))?;
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
                // With more threads than cores, spinning would take CPU time from the thread that is waited for.
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// The current totals.
    pub(super) fn totals(&self) -> Totals {
        self.slots.totals()
    }

    /// The counts of all threads, for published counters.
    pub(super) fn counted(&self) -> &Counted {
        &self.slots
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

    /// The numbers of changes that stored something and of those that removed a pair.
    pub(super) fn puts_and_removals(&self) -> (u64, u64) {
        let removals = self.sum(|s| &s.removals);
        (self.sum(|s| &s.changes).saturating_sub(removals), removals)
    }

    fn sum(&self, part: fn(&Slot) -> &AtomicI64) -> u64 {
        let sum: i64 = self.0.iter().map(|s| part(s).load(Relaxed)).sum();
        // A removal may be counted before the put that it undoes, if another thread made the put.
        u64::try_from(sum).unwrap_or(0)
    }
}

impl<'g> ClosedGate<'g> {
    /// Lets in only the thread that closed the gate.
    pub(super) fn enter(&self) -> WriterGuard<'g> {
        self.gate.enter_slot(slot_of_thread())
    }
}

impl WriterGuard<'_> {
    /// Whether other threads use the slot too.
    #[inline]
    fn is_shared(&self) -> bool {
        self.slot.is_shared
    }

    /// Whether this thread has added a pair since the last call, so that its next change probably adds one, too.
    #[inline]
    pub(super) fn take_added(&self) -> bool {
        let added = self.slot.has_added.load(Relaxed);
        if added {
            self.slot.has_added.store(false, Relaxed);
        }
        added
    }

    /// Counts `changes` changes, of which `removals` removed a pair. Returns true if it also added to `load`, which may
    /// now call for a split.
    #[inline]
    pub(super) fn count(&self, delta: Delta, (changes, removals): (usize, usize), load: &Load) -> bool {
        let slot = self.slot;
        // No lossy cast: there are fewer changes than bytes of memory.
        let (changes, removals) = (changes as i64, removals as i64);
        if delta.pairs > 0 {
            slot.has_added.store(true, Relaxed);
        }
        let numbers = [delta.pairs, delta.payload, delta.bucket, delta.pairs, changes];
        let counters = [&slot.pairs, &slot.payload_bytes, &slot.bucket_bytes, &slot.pairs_pending, &slot.changes];
        let pending = if self.is_shared() {
            counters.into_iter().zip(numbers).for_each(|(counter, n)| _ = counter.fetch_add(n, Relaxed));
            slot.removals.fetch_add(removals, Relaxed);
            slot.bytes_pending.fetch_add(delta.bucket, Relaxed) + delta.bucket
        } else {
            counters.into_iter().zip(numbers).for_each(|(counter, n)| add_alone(counter, n));
            if removals > 0 {
                add_alone(&slot.removals, removals);
            }
            let pending = slot.bytes_pending.load(Relaxed) + delta.bucket;
            slot.bytes_pending.store(pending, Relaxed);
            pending
        };
        if pending.abs() < self.gate.step_bytes {
            return false;
        }
        load.add(slot.pairs_pending.swap(0, Relaxed), slot.bytes_pending.swap(0, Relaxed));
        true
    }
}

/// Adds to a counter that no other thread writes.
#[inline]
fn add_alone(counter: &AtomicI64, n: i64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

impl Drop for WriterGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        step();
        let inside = &self.slot.inside;
        if self.is_shared() {
            inside.fetch_sub(1, Release);
        } else {
            inside.store(inside.load(Relaxed) - 1, Release);
        }
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        step();
        self.gate.closed.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pager::thread_slot;
    use std::sync::Arc;

    #[test]
    fn threads_count_together_and_a_closed_gate_has_nobody_inside() {
        let gate = Arc::new(Gate::new(Totals { pairs: 5, ..Totals::default() }, 100));
        let load = Arc::new(Load::new(Totals::default()));
        // More threads than slots, so that some share a slot.
        const THREADS: usize = 2 * SLOT_COUNT;
        const WRITES: i64 = 500;
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (gate, load) = (gate.clone(), load.clone());
                std::thread::spawn(move || {
                    for _ in 0..WRITES {
                        let inside = gate.enter().unwrap();
                        inside.count(Delta { pairs: 1, payload: 2, bucket: 3, long_chains: 0 }, (1, 0), &load);
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
        assert!(load.bytes() > 3 * writes - 100 * SLOT_COUNT as u64);
    }

    /// Calls `work` on `count` threads that share the last slot, because all other slots are taken.
    fn on_shared_slot(count: usize, work: impl Fn() + Sync) {
        let (done, start) = (AtomicBool::new(false), std::sync::Barrier::new(count + 1));
        std::thread::scope(|scope| {
            // These threads each hold a slot until the end. Other tests run in the same process, so fewer threads than
            // slots may suffice.
            let (sender, receiver) = std::sync::mpsc::channel();
            loop {
                let (sender, done) = (sender.clone(), &done);
                scope.spawn(move || {
                    sender.send(slot_of_thread()).unwrap();
                    while !done.load(Relaxed) {
                        std::thread::park_timeout(std::time::Duration::from_millis(5));
                    }
                });
                if receiver.recv().unwrap() == SHARED {
                    break;
                }
            }
            let workers: Vec<_> = (0..count)
                .map(|_| {
                    let (start, work) = (&start, &work);
                    scope.spawn(move || {
                        // Explicitly, since a thread of another test may have returned its slot just now.
                        thread_slot::use_shared();
                        start.wait();
                        work();
                    })
                })
                .collect();
            start.wait();
            let finished: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            done.store(true, Relaxed);
            assert!(finished.iter().all(Result::is_ok), "a thread on the shared slot panicked");
        });
    }

    #[test]
    fn a_closing_gate_waits_for_a_writer_on_the_shared_slot() {
        let gate = Gate::new(Totals::default(), 100);
        let (has_left, is_in) = (AtomicBool::new(false), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                on_shared_slot(1, || {
                    let inside = gate.enter().unwrap();
                    assert!(inside.is_shared());
                    is_in.wait();
                    // Long enough that a gate that closes without waiting would be noticed.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    has_left.store(true, SeqCst);
                    drop(inside);
                });
            });
            is_in.wait();
            let closed = gate.close().unwrap();
            assert!(has_left.load(SeqCst), "the gate was closed with a writer inside");
            drop(closed);
        });
    }

    #[test]
    fn threads_on_the_shared_slot_lose_no_count() {
        use std::time::{Duration, Instant};
        // The number of times that a thread must run between another's writes: threads that run one after the other
        // would lose nothing.
        const TURNS: u32 = 2_000;
        let gate = Gate::new(Totals::default(), 100);
        let load = Load::new(Totals::default());
        let (written, threads, turns) = (AtomicI64::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let last = AtomicU32::new(0);
        let until = Instant::now() + Duration::from_secs(20);
        on_shared_slot(4, || {
            let thread = threads.fetch_add(1, Relaxed);
            let mut writes = 0;
            while turns.load(Relaxed) < TURNS && (writes % 1024 != 0 || Instant::now() < until) {
                let inside = gate.enter().unwrap();
                inside.count(Delta { pairs: 1, payload: 2, bucket: 3, long_chains: 0 }, (2, 1), &load);
                drop(inside);
                writes += 1;
                if last.swap(thread, Relaxed) != thread {
                    turns.fetch_add(1, Relaxed);
                }
            }
            written.fetch_add(writes, Relaxed);
        });
        let writes = written.load(Relaxed) as u64;
        assert_eq!(gate.totals(), Totals { pairs: writes, payload_bytes: 2 * writes, bucket_bytes: 3 * writes });
        assert_eq!(gate.slots.puts_and_removals(), (writes, writes));
        let shared = &gate.slots.0[SHARED];
        assert_eq!(shared.inside.load(SeqCst), 0, "writers that have left are counted as inside");
        // The slot has the counts that are not yet added to the load.
        let pending = (shared.pairs_pending.load(Relaxed) as u64, shared.bytes_pending.load(Relaxed) as u64);
        assert_eq!((load.pairs() + pending.0, load.bytes() + pending.1), (writes, 3 * writes));
    }
}
