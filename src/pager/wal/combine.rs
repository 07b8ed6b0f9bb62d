//! Short records of several threads, placed in the log by one of them at a time.
//!
//! With many writers the lock of the log's end would go from thread to thread, and each time the lines of the lock and
//! of the log are loaded from another processor. So a thread that does not find the end free leaves its record in a
//! slot. One thread, the *placer*, takes the lock and places the records of all slots in a row.
//!
//! ```text
//! end free, nobody waits   lock, place the own record, unlock: one load more than without slots
//! end in use, briefly      try that again
//! otherwise                own record into the own slot -> its bit -> no placer? then be it
//!                          wait until the record is placed -> too long? lock the end, and place it oneself
//! placer                   lock -> take all bits -> place their records -> again, a few times -> unlock
//! ```
//!
//! A record in a slot is placed only under the lock of the end, by the placer or by the thread that left it; its state
//! says whether that has happened. The thread holds the latch of the page that the record changes until then, so the
//! order of the records of waiting threads does not matter.
//!
//! Source: flat combining, Hendler, Incze, Shavit & Tzafrir 2010. Not here: placing a record (`mod.rs`).

use super::short::RECORD_BYTES;
use super::{Log, Lsn, Short, Tail};
use crate::error::Result;
use crate::own_line::OwnLine;
use crate::pager::interleave::{step, wait};
use crate::pager::pool::thread_slot::slot_of_thread;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

const SLOT_COUNT: usize = 16;
/// Set in [`Combiner::bits`] while there is a placer.
const PLACER: u32 = 1 << 31;
/// The number of times that a waiting thread checks its slot before it waits for the lock. The wait is about as long as
/// a sleep takes.
const LOOKS: u32 = if cfg!(test) { 4 } else { 256 };
/// The number of times that a thread tries to lock the end while no other waits. With two threads the end is soon free.
const TRIES: u32 = if cfg!(test) { 1 } else { 16 };
/// The number of times that the placer takes the bits. Then another thread becomes the placer.
const ROUNDS: u32 = 4;

#[derive(Default)]
pub(super) struct Combiner {
    /// A bit for each slot with a record to place, and [`PLACER`].
    bits: OwnLine<AtomicU32>,
    /// Allocated when a thread first finds the end of the log in use.
    slots: OnceLock<Box<[OwnLine<Slot>; SLOT_COUNT]>>,
}

const WORD_BYTES: usize = size_of::<u64>();

/// A record that waits. Its words are atomic so that the placer can read them without a lock, which would make it wait
/// for each slot's lines in turn.
#[derive(Default)]
#[repr(C)]
struct Slot {
    state: AtomicU32,
    /// [`Short::len`] and [`Short::own`].
    len: AtomicU32,
    own: AtomicU32,
    /// Position of the end of the record, once it is placed.
    end: AtomicU64,
    record: [AtomicU64; RECORD_BYTES / WORD_BYTES],
}

/// States of a slot. Only its thread takes and fills it; only a thread that holds the end's lock places the record.
const FREE: u32 = 0;
const TAKEN: u32 = 1;
const WAITING: u32 = 2;
const PLACED: u32 = 3;

impl Slot {
    /// Leaves a record, unless another thread has taken the slot.
    fn leave(&self, Short { record, len, own }: &Short) -> bool {
        step();
        if self.state.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_err() {
            return false;
        }
        self.len.store(*len as u32, Relaxed); // at most RECORD_BYTES
        self.own.store(*own, Relaxed);
        for (to, word) in self.record.iter().zip(record[..].chunks_exact(WORD_BYTES)).take(len.div_ceil(WORD_BYTES)) {
            to.store(u64::from_le_bytes(word.try_into().expect("a whole word")), Relaxed);
        }
        self.state.store(WAITING, Release);
        true
    }

    fn is_placed(&self) -> bool {
        step();
        self.state.load(Acquire) == PLACED
    }

    /// Places the record, unless that has happened.
    fn place(&self, tail: &mut Tail) -> Result<()> {
        step();
        if self.state.load(Acquire) != WAITING {
            return Ok(());
        }
        let len = self.len.load(Relaxed) as usize;
        let mut short = Short { record: [0; RECORD_BYTES], len, own: self.own.load(Relaxed) };
        let words = short.record.chunks_exact_mut(WORD_BYTES).zip(&self.record);
        words
            .take(len.div_ceil(WORD_BYTES))
            .for_each(|(to, word)| to.copy_from_slice(&word.load(Relaxed).to_le_bytes()));
        self.end.store(tail.place(&mut short)?, Relaxed);
        self.state.store(PLACED, Release);
        Ok(())
    }
}

impl Combiner {
    /// Whether no thread waits or places records of others.
    #[inline(always)]
    pub(super) fn is_idle(&self) -> bool {
        step();
        self.bits.load(Relaxed) == 0
    }
}

impl Log {
    /// Places a record while other threads place theirs.
    #[cold]
    #[inline(never)]
    pub(super) fn place_beside_others(&self, short: &mut Short) -> Result<Lsn> {
        for _ in 0..TRIES {
            std::hint::spin_loop();
            if !self.combiner.is_idle() {
                break;
            }
            if let Ok(mut tail) = self.tail.try_lock() {
                return tail.place(short);
            }
        }
        self.place_by_slot(short)
    }

    /// Leaves a record in the thread's slot until it is placed.
    pub(crate) fn place_by_slot(&self, short: &mut Short) -> Result<Lsn> {
        let Combiner { bits, slots } = &self.combiner;
        let index = slot_of_thread() % SLOT_COUNT;
        let slot = &slots.get_or_init(Box::default)[index];
        if !slot.leave(short) {
            return self.tail().place(short); // more threads than slots
        }
        let placed = self.wait_until_placed(slot, bits, 1 << index);
        step();
        let end = slot.end.load(Relaxed);
        step();
        slot.state.store(FREE, Release);
        placed.map(|()| end)
    }

    fn wait_until_placed(&self, slot: &Slot, bits: &AtomicU32, bit: u32) -> Result<()> {
        step();
        let mut others = bits.fetch_or(bit | PLACER, AcqRel);
        for _ in 0..LOOKS {
            if others & PLACER == 0 {
                self.place_all(bits);
            }
            if slot.is_placed() {
                return Ok(());
            }
            if !wait() {
                std::hint::spin_loop();
            }
            step();
            others = bits.load(Relaxed);
            if others & PLACER == 0 {
                others = bits.fetch_or(PLACER, AcqRel);
            }
        }
        if others & PLACER == 0 {
            self.place_all(bits);
        }
        slot.place(&mut self.tail())
    }

    /// Whether a thread has ever found the end of the log in use.
    #[cfg(test)]
    pub(crate) fn has_combined(&self) -> bool {
        self.combiner.slots.get().is_some()
    }

    /// Places the records of all slots, as the placer. After an error the threads that left them place them, and get
    /// its like.
    fn place_all(&self, bits: &AtomicU32) {
        let slots = self.combiner.slots.get().expect("a slot has a record");
        let mut tail = self.tail();
        for _ in 0..ROUNDS {
            step();
            let mut waiting = bits.fetch_and(PLACER, AcqRel) & !PLACER;
            if waiting == 0 {
                break;
            }
            while waiting != 0 {
                let index = waiting.trailing_zeros() as usize;
                waiting &= waiting - 1;
                if slots[index].place(&mut tail).is_err() {
                    break;
                }
            }
        }
        step();
        bits.fetch_and(!PLACER, Release);
    }
}
