//! A slot number for each thread, so that each thread can have its own cache lines.
//!
//! Numbers are reused when threads end. Threads beyond [`SLOT_COUNT`] share the last slot.

use crate::pager::interleave;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The number of slots. All threads but the first 63 share the last one.
pub(crate) const SLOT_COUNT: usize = 64;
/// The slot that the other threads share.
pub(crate) const SHARED: usize = SLOT_COUNT - 1;

/// Slot numbers of ended threads.
static FREE_SLOTS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static NEXT_SLOT: AtomicU32 = AtomicU32::new(0);

/// A thread's slot number, the same for all tables.
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
            // The lock orders this thread's counts before those of the slot's next owner.
            FREE_SLOTS.lock().unwrap_or_else(|e| e.into_inner()).push(self.0);
        }
        CACHED_SLOT.set(SHARED);
    }
}

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static SLOT: SlotNumber = SlotNumber::take();
    /// A copy without a destructor, which is cheaper to read.
    static CACHED_SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
}

#[inline]
pub(crate) fn slot_of_thread() -> usize {
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

/// Makes this thread use the shared slot.
#[cfg(test)]
pub(crate) fn use_shared() {
    CACHED_SLOT.set(SHARED);
}
