//! Handles: the representation of `spt_table *` and the like.
//!
//! A handle has a pointer type but is a number, so that no call dereferences a pointer that may be wrong:
//!
//! ```text
//! bits   0        1..=4    5..=24   25..
//!        1        kind     slot     generation
//! slot   token (the handle, 0 if the slot is free), object, users, busy
//! ```
//!
//! Slots are never freed. A call compares the handle with the slot's token. NULL, a handle of another kind, a closed
//! one and any other pointer differ from it, because the low bit is set and each new handle of a slot has another
//! generation. Finding the object takes three loads: the chunk of slots, the token, the object.
//!
//! Many threads may use a table or dictionary at once, without a write to the slot. Whatever depends on it (a cursor, a
//! batch, a view, a call that runs the caller's code) has a [`Pin`], and close fails while there is one. Objects for
//! one thread at a time are used through [`Exclusive`], and a concurrent second use fails too. One error is not caught:
//! a call with a table while another thread closes that table.
//!
//! There are only atomics and no locks, so a child of `fork` can use it.

use crate::status::{Failure, IN_USE, INVALID_HANDLE, Result};
use splitpoint::ErrorKind;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// A type that handles can refer to.
pub(crate) trait Object: 'static {
    /// The number of its kind, below 16; no two types have the same.
    const KIND: usize;
    /// Its name, for messages.
    const NAME: &'static str;
}

const KIND_BITS: u32 = 4;
const INDEX_SHIFT: u32 = 1 + KIND_BITS;
const INDEX_BITS: u32 = 20;
const GENERATION_SHIFT: u32 = INDEX_SHIFT + INDEX_BITS;
const CHUNK_SLOTS: usize = 1 << 10;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK_SLOTS;

/// The token of a slot whose object is being closed; differs from all handles, which are odd.
const CLOSING: usize = 2;

struct Slot {
    token: AtomicUsize,
    object: AtomicPtr<()>,
    /// The number of pins.
    users: AtomicU32,
    /// Whether an [`Exclusive`] exists.
    busy: AtomicBool,
    generation: AtomicUsize,
    /// While the slot is free: the number of the next free slot + 1.
    next_free: AtomicU32,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            token: AtomicUsize::new(0),
            object: AtomicPtr::new(ptr::null_mut()),
            users: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            generation: AtomicUsize::new(0),
            next_free: AtomicU32::new(0),
        }
    }
}

type Chunk = [Slot; CHUNK_SLOTS];

/// Chunks of slots, allocated when first needed.
static SLOTS: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// The number of slots that have ever been in use; their numbers are below it.
static FRESH: AtomicUsize = AtomicUsize::new(0);
/// The first free slot: its number + 1, and in the high half the number of changes of the list.
static FREE: AtomicU64 = AtomicU64::new(0);

/// The slot whose number is in a handle, if it exists.
#[inline]
fn slot_of(token: usize) -> Option<&'static Slot> {
    let index = token >> INDEX_SHIFT & ((1 << INDEX_BITS) - 1);
    let chunk = SLOTS[index / CHUNK_SLOTS].load(Acquire);
    // SAFETY: a chunk is complete before its pointer is stored, and lives as long as the process.
    let chunk = unsafe { chunk.as_ref() }?;
    Some(&chunk[index % CHUNK_SLOTS])
}

/// Takes a free slot; returns it and its number.
fn take_slot() -> Result<(usize, &'static Slot)> {
    let mut head = FREE.load(Acquire);
    while head as u32 != 0 {
        let index = head as u32 as usize - 1;
        let slot = slot_of(index << INDEX_SHIFT).expect("a slot that was freed exists");
        let next = (head >> 32).wrapping_add(1) << 32 | u64::from(slot.next_free.load(Relaxed));
        match FREE.compare_exchange_weak(head, next, AcqRel, Acquire) {
            Ok(_) => return Ok((index, slot)),
            Err(now) => head = now,
        }
    }
    let index = FRESH.fetch_add(1, Relaxed);
    if index >= 1 << INDEX_BITS {
        FRESH.fetch_sub(1, Relaxed);
        return Err(Failure::kind(ErrorKind::OutOfMemory, format!("{} handles are open", 1 << INDEX_BITS)));
    }
    let chunk = &SLOTS[index / CHUNK_SLOTS];
    if chunk.load(Acquire).is_null() {
        let new = Box::into_raw(Box::new([const { Slot::free() }; CHUNK_SLOTS]));
        if chunk.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire).is_err() {
            // SAFETY: from the Box above, and another thread's chunk was taken instead.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    Ok((index, slot_of(index << INDEX_SHIFT).expect("its chunk was just made")))
}

fn free_slot(index: usize, slot: &Slot) {
    let mut head = FREE.load(Relaxed);
    loop {
        slot.next_free.store(head as u32, Relaxed);
        let new = (head >> 32).wrapping_add(1) << 32 | (index as u64 + 1);
        match FREE.compare_exchange_weak(head, new, AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// A handle to an object of kind `T`, as a C caller passed it: any number.
#[repr(transparent)]
pub(crate) struct Handle<T>(usize, PhantomData<*const T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T: Object> Handle<T> {
    const TAG: usize = T::KIND << 1 | 1;

    pub(crate) const NULL: Handle<T> = Handle(0, PhantomData);

    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The handle as a number, under which its errors are remembered.
    pub(crate) fn number(self) -> usize {
        self.0
    }

    /// A new handle to `object`.
    pub(crate) fn open(object: T) -> Result<Handle<T>> {
        let (index, slot) = take_slot()?;
        let generation = slot.generation.fetch_add(1, Relaxed) + 1;
        slot.object.store(Box::into_raw(Box::new(object)).cast(), Relaxed);
        let token = generation << GENERATION_SHIFT | index << INDEX_SHIFT | Self::TAG;
        slot.token.store(token, SeqCst);
        Ok(Handle(token, PhantomData))
    }

    /// Its slot, if it is an open handle of this kind.
    #[inline]
    fn slot(self) -> Result<&'static Slot> {
        const { assert!(T::KIND < 1 << KIND_BITS) };
        match slot_of(self.0) {
            Some(slot) if slot.token.load(Acquire) == self.0 && self.0 & ((1 << INDEX_SHIFT) - 1) == Self::TAG => {
                Ok(slot)
            }
            _ => Err(self.invalid()),
        }
    }

    #[cold]
    fn invalid(self) -> Failure {
        let name = T::NAME;
        let what = match self.0 {
            0 => format!("the {name} is NULL"),
            _ => format!("not the handle of an open {name}: closed, or of another kind, or never opened"),
        };
        Failure::own(INVALID_HANDLE, what)
    }

    /// The object, which any number of threads may use at once.
    #[inline]
    pub(crate) fn shared<'c>(self) -> Result<&'c T> {
        let slot = self.slot()?;
        // SAFETY: the slot's token is this handle, so its object is the `T` of `open`. It lives until close, which the
        // header forbids while another call with this handle runs; a call that runs the caller's code, which might
        // close it, is pinned.
        Ok(unsafe { &*slot.object.load(Relaxed).cast::<T>() })
    }

    /// The object, which is not closed while the [`Pin`] exists.
    pub(crate) fn pinned(self) -> Result<(&'static T, Pin)> {
        let slot = self.slot()?;
        slot.users.fetch_add(1, SeqCst);
        let pin = Pin(slot);
        // Either this load sees that a close has begun, or the close sees the pin.
        if slot.token.load(SeqCst) != self.0 {
            return Err(self.invalid());
        }
        // SAFETY: as in `shared`, and the pin keeps it from being closed.
        Ok((unsafe { &*slot.object.load(Relaxed).cast::<T>() }, pin))
    }

    /// The object for this call alone.
    pub(crate) fn exclusive(self) -> Result<Exclusive<T>> {
        let slot = self.slot()?;
        if slot.busy.swap(true, Acquire) {
            let what = format!("another call with the {} is running; one thread at a time may use it", T::NAME);
            return Err(Failure::own(IN_USE, what));
        }
        let exclusive = Exclusive { slot, kind: PhantomData };
        // It may have been closed before `busy` was set.
        if slot.token.load(SeqCst) != self.0 {
            return Err(self.invalid());
        }
        Ok(exclusive)
    }

    /// Ends the handle and returns its object.
    pub(crate) fn close(self) -> Result<T> {
        let exclusive = self.exclusive()?;
        let slot = exclusive.slot;
        if slot.token.compare_exchange(self.0, CLOSING, SeqCst, SeqCst).is_err() {
            return Err(self.invalid());
        }
        let users = slot.users.load(SeqCst);
        if users != 0 {
            slot.token.store(self.0, SeqCst);
            let what =
                format!("{users} cursors, batches, views or calls of the {} are open: close them first", T::NAME);
            return Err(Failure::own(IN_USE, what));
        }
        let object = slot.object.swap(ptr::null_mut(), Relaxed).cast::<T>();
        // SAFETY: from the Box of `open`, and taken once, by the call that set the token to CLOSING. Nothing else
        // refers to it: there is no pin, and the only `Exclusive` is ours.
        let object = unsafe { Box::from_raw(object) };
        slot.token.store(0, SeqCst);
        drop(exclusive);
        free_slot(self.0 >> INDEX_SHIFT & ((1 << INDEX_BITS) - 1), slot);
        Ok(*object)
    }
}

/// Keeps an object from being closed.
pub(crate) struct Pin(&'static Slot);

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, SeqCst);
    }
}

/// An object in use by one call.
pub(crate) struct Exclusive<T> {
    slot: &'static Slot,
    kind: PhantomData<*mut T>,
}

impl<T> Deref for Exclusive<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `exclusive` compared the token with the handle after it had set `busy`; while `busy` is set no other
        // call gets the object, and no close takes it.
        unsafe { &*self.slot.object.load(Relaxed).cast::<T>() }
    }
}

impl<T> DerefMut for Exclusive<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { &mut *self.slot.object.load(Relaxed).cast::<T>() }
    }
}

impl<T> Drop for Exclusive<T> {
    fn drop(&mut self) {
        self.slot.busy.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Number(u32);
    impl Object for Number {
        const KIND: usize = 14;
        const NAME: &'static str = "number";
    }

    struct Word(&'static str);
    impl Object for Word {
        const KIND: usize = 15;
        const NAME: &'static str = "word";
    }

    fn refused<T>(result: Result<T>) -> crate::status::Status {
        match result {
            Err(Failure::Own(own)) => own.0,
            _ => panic!("not refused"),
        }
    }

    #[test]
    fn a_handle_leads_to_its_object_until_it_is_closed() {
        let (number, word) = (Handle::open(Number(7)).ok().unwrap(), Handle::open(Word("seven")).ok().unwrap());
        assert_eq!(number.shared().ok().unwrap().0, 7);
        assert_eq!(word.exclusive().ok().unwrap().0, "seven");
        assert_eq!(number.close().ok().unwrap().0, 7);
        assert_eq!(refused(number.shared()), INVALID_HANDLE);
        assert_eq!(refused(number.close()), INVALID_HANDLE);
        // The slot's next object has another handle.
        let next = Handle::open(Number(8)).ok().unwrap();
        assert_ne!(next.0, number.0);
        assert_eq!(refused(number.shared()), INVALID_HANDLE);
        assert!(next.close().is_ok() && word.close().is_ok());
    }

    #[test]
    fn any_number_but_a_handle_is_refused() {
        let number = Handle::open(Number(7)).ok().unwrap();
        assert_eq!(refused(Handle::<Word>(number.0, PhantomData).shared()), INVALID_HANDLE);
        let mut random = 12345u64;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = Handle::<Number>((random >> 7) as usize, PhantomData);
            assert_eq!(refused(number.shared()), INVALID_HANDLE);
        }
        for bit in 0..usize::BITS {
            assert_eq!(refused(Handle::<Number>(number.0 ^ 1 << bit, PhantomData).shared()), INVALID_HANDLE);
        }
        assert!(number.close().is_ok());
    }

    #[test]
    fn an_object_in_use_is_not_closed() {
        let number = Handle::open(Number(7)).ok().unwrap();
        let (_, pin) = number.pinned().ok().unwrap();
        assert_eq!(refused(number.close()), IN_USE);
        drop(pin);
        let exclusive = number.exclusive().ok().unwrap();
        assert_eq!(refused(number.exclusive().map(drop)), IN_USE);
        assert_eq!(refused(number.close()), IN_USE);
        drop(exclusive);
        assert_eq!(number.close().ok().unwrap().0, 7);
    }

    #[test]
    fn threads_that_race_to_close_a_handle_close_it_once() {
        for _ in 0..1000 {
            let number = Handle::open(Number(7)).ok().unwrap().0;
            let close = move || Handle::<Number>(number, PhantomData).close().is_ok();
            let threads = [std::thread::spawn(close), std::thread::spawn(close)];
            let closed = threads.map(|thread| u32::from(thread.join().unwrap()));
            assert_eq!(closed.iter().sum::<u32>(), 1);
        }
    }
}
