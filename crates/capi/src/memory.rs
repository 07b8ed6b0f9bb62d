//! Memory that C owns: from malloc, so that its tools know it, and freed by `spt_free`.

use crate::status::{Failure, Result};
use splitpoint::ErrorKind;
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

/// A pointer result where there is none.
pub(crate) const NOTHING: *mut c_void = ptr::null_mut();
