//! Views: values borrowed from their pages by one thread.
//!
//! A view holds the latch of a page, which the same thread must release, so views are stored per thread, not per
//! handle. A thread releases its views when it ends.

use crate::arguments::{In, Out};
use crate::border::border;
use crate::handles::{Handle, Pin};
use crate::status::{Failure, INVALID_HANDLE, NOT_FOUND, OK, Status, WRONG_THREAD};
use crate::table::OpenTable;
use splitpoint::{ErrorKind, ValueRef};
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// `spt_view`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct View {
    pub(crate) data: *const c_void,
    pub(crate) len: usize,
    /// `thread << 40 | generation << 16 | slot`; 0 if it is released or was never set.
    pub(crate) token: u64,
}

impl View {
    const NONE: View = View { data: ptr::null(), len: 0, token: 0 };
}

struct Held {
    // Field order matters: the latch is released before the table may be closed.
    value: ValueRef<'static>,
    _table: Pin,
}

#[derive(Default)]
struct Slot {
    generation: u64,
    held: Option<Held>,
}

/// The views of a thread.
struct Views {
    thread: u64,
    slots: Vec<Slot>,
    free: Vec<usize>,
}

const SLOT_BITS: u32 = 16;
const THREAD_SHIFT: u32 = 40;
const GENERATION_MASK: u64 = (1 << (THREAD_SHIFT - SLOT_BITS)) - 1;

thread_local! {
    static VIEWS: RefCell<Views> = RefCell::new(Views::new());
}

impl Views {
    fn new() -> Views {
        // From 1, so that no token is 0.
        static THREADS: AtomicU32 = AtomicU32::new(1);
        Views { thread: u64::from(THREADS.fetch_add(1, Relaxed) & 0xFF_FFFF), slots: Vec::new(), free: Vec::new() }
    }

    /// Stores `held`; returns its token.
    fn keep(&mut self, held: Held) -> Result<u64, Failure> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.slots.len() < 1 << SLOT_BITS => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
            None => {
                let what = format!("{} views of this thread are open", 1 << SLOT_BITS);
                return Err(Failure::kind(ErrorKind::OutOfMemory, what));
            }
        };
        let slot = &mut self.slots[number];
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        slot.held = Some(held);
        Ok(self.thread << THREAD_SHIFT | slot.generation << SLOT_BITS | number as u64)
    }

    fn release(&mut self, token: u64) -> Result<Held, Failure> {
        if token >> THREAD_SHIFT != self.thread {
            return Err(Failure::own(WRONG_THREAD, "not a view of this thread: release it in the thread that made it"));
        }
        let number = (token & ((1 << SLOT_BITS) - 1)) as usize;
        let slot = self.slots.get_mut(number).filter(|slot| slot.generation == token >> SLOT_BITS & GENERATION_MASK);
        let held = slot.and_then(|slot| slot.held.take());
        let held = held.ok_or_else(|| Failure::own(INVALID_HANDLE, "not an open view: it has been released"))?;
        self.free.push(number);
        Ok(held)
    }
}

/// Calls `f` with the views of this thread.
fn with_views<T>(f: impl FnOnce(&mut Views) -> Result<T, Failure>) -> Result<T, Failure> {
    VIEWS
        .try_with(|views| f(&mut views.borrow_mut()))
        .unwrap_or_else(|_| Err(Failure::own(WRONG_THREAD, "this thread is ending, and its views have been released")))
}

#[unsafe(no_mangle)]
extern "C" fn spt_get_view(table: Handle<OpenTable>, key: In<'_>, key_len: usize, view: Out<'_, View>) -> Status {
    border(table.number(), || {
        view.set("the place for the view", View::NONE)?;
        let (table, pin) = table.pinned()?;
        let Some(value) = table.get_ref(key.key(key_len)?)? else { return Ok(NOT_FOUND) };
        let (data, len) = (value.as_ptr().cast(), value.len());
        let token = with_views(|views| views.keep(Held { value, _table: pin }))?;
        view.set("the place for the view", View { data, len, token })?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_view_release(view: Out<'_, View>) -> Status {
    border(0, || {
        let Some(old) = view.replace(View::NONE) else { return Ok(OK) };
        if old.token != 0 {
            let released = with_views(|views| views.release(old.token));
            if released.is_err() {
                view.set("the view", old)?;
            }
            // Outside `with_views`, because releasing may run code that makes views.
            drop(released?.value);
        }
        Ok(OK)
    })
}
