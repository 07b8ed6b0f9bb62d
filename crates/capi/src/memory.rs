//! Memory that C owns, from malloc, so that its tools know it, and freed by `spt_free`; and a buffer for each thread.

use crate::status::{Failure, Result};
use splitpoint::ErrorKind;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;

/// An allocation that becomes C's with [`into_c`](Allocation::into_c), or is freed.
pub(crate) struct Allocation {
    start: *mut u8,
    len: usize,
}

impl Allocation {
    /// A copy of `bytes`, with a zero byte behind them.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Allocation> {
        let mut copy = Allocation::new(bytes.len() + 1)?;
        let (place, zero) = copy.bytes().split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        zero[0] = 0;
        Ok(copy)
    }

    /// A copy of `elements`, which have no pointers to anything that is dropped.
    pub(crate) fn array<T: Copy>(elements: &[T]) -> Result<Allocation> {
        let copy = Allocation::new(size_of_val(elements))?;
        // SAFETY: `copy` is new, has as many bytes as the elements, and is aligned for any type.
        unsafe { ptr::copy_nonoverlapping(elements.as_ptr().cast(), copy.start, size_of_val(elements)) };
        Ok(copy)
    }

    /// `len` bytes of zeros, aligned for any type; at least one.
    pub(crate) fn new(len: usize) -> Result<Allocation> {
        let len = len.max(1);
        // SAFETY: calloc takes any sizes, and returns NULL where it has no such memory.
        let start = unsafe { libc::calloc(1, len) };
        if start.is_null() {
            return Err(Failure::kind(
                ErrorKind::OutOfMemory,
                format!("{len} bytes for a result could not be allocated"),
            ));
        }
        Ok(Allocation { start: start.cast(), len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` has `len` bytes, which calloc has set, and they are this allocation's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The pointer, which `spt_free` takes.
    pub(crate) fn into_c(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).start.cast()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: from calloc, and freed once, as `into_c` forgets it.
        unsafe { libc::free(self.start.cast()) };
    }
}

/// Memory from this library.
#[repr(transparent)]
pub(crate) struct Owned(*mut c_void);

#[unsafe(no_mangle)]
extern "C" fn spt_free(memory: Owned) {
    // SAFETY: the caller passes NULL or what a function of the header has given it, all of which is from calloc.
    unsafe { libc::free(memory.0) };
}

/// A buffer of a thread, where a value is while it is copied to the caller's.
struct Scratch {
    /// A call is using it. A panic leaves it set; the thread's calls then allocate.
    busy: Cell<bool>,
    bytes: UnsafeCell<Vec<u8>>,
}

thread_local! {
    static SCRATCH: Scratch = const { Scratch { busy: Cell::new(false), bytes: UnsafeCell::new(Vec::new()) } };
}

/// Larger values do not keep their memory.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

/// Calls `f` with a buffer that keeps its memory for the thread's next call. Its content is that of an earlier call.
#[inline]
pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A destructor of the thread may call us when the buffer is gone.
    let scratch = SCRATCH.try_with(ptr::from_ref).unwrap_or(ptr::null());
    // SAFETY: it is this thread's, which is in this call and so not past its destructor.
    let scratch = unsafe { scratch.as_ref() }.filter(|scratch| !scratch.busy.get());
    let mut own;
    let bytes = match scratch {
        Some(scratch) => {
            scratch.busy.set(true);
            // SAFETY: only this thread has it, and no other call on the thread, such as one of a hash function of the
            // caller that `f` calls: that finds `busy` set.
            unsafe { &mut *scratch.bytes.get() }
        }
        None => {
            own = Vec::new();
            &mut own
        }
    };
    let result = f(bytes);
    if let Some(scratch) = scratch {
        if bytes.capacity() > SCRATCH_BYTES_MAX {
            shrink(bytes);
        }
        scratch.busy.set(false);
    }
    result
}

#[cold]
fn shrink(bytes: &mut Vec<u8>) {
    *bytes = Vec::new();
}

/// The pointer result of a call that has no value.
pub(crate) const NOTHING: *mut c_void = ptr::null_mut();
