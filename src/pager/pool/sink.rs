//! Destinations for the bytes of a value: a vector, which grows, or a buffer of the caller, which may be too small.
#![expect(unsafe_code, reason = "a value is written to memory that is not initialized yet")]

use std::mem::MaybeUninit;

/// A destination for bytes.
pub(crate) trait Sink {
    /// Appends `len` bytes, which `write` writes. If they do not fit they are only counted, and `write` is not called.
    ///
    /// # Safety
    /// `write` initializes all `len` bytes of the slice that it is called with.
    unsafe fn append_with(&mut self, len: usize, write: impl FnOnce(&mut [MaybeUninit<u8>]));
    /// The number of bytes appended or counted.
    fn len(&self) -> usize;
    /// Removes all bytes.
    fn clear(&mut self);
}

impl Sink for Vec<u8> {
    #[inline]
    unsafe fn append_with(&mut self, len: usize, write: impl FnOnce(&mut [MaybeUninit<u8>])) {
        self.reserve(len);
        // SAFETY: `len` bytes were just reserved. Unchecked, to save each lookup a comparison.
        write(unsafe { self.spare_capacity_mut().get_unchecked_mut(..len) });
        // SAFETY: `write` has initialized the `len` bytes after the present ones, as the caller promises.
        unsafe { self.set_len(self.len() + len) };
    }

    #[inline]
    fn len(&self) -> usize {
        Vec::len(self)
    }

    #[inline]
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

/// A buffer of the caller.
pub(crate) struct Fixed<'b> {
    buffer: &'b mut [u8],
    /// May exceed the buffer.
    len: usize,
}

impl<'b> Fixed<'b> {
    pub(crate) fn new(buffer: &'b mut [u8]) -> Self {
        Fixed { buffer, len: 0 }
    }
}

impl Sink for Fixed<'_> {
    #[inline]
    unsafe fn append_with(&mut self, len: usize, write: impl FnOnce(&mut [MaybeUninit<u8>])) {
        if let Some(place) = self.buffer.get_mut(self.len..).and_then(|rest| rest.get_mut(..len)) {
            // SAFETY: initialized bytes may be viewed as possibly uninitialized ones, and `write` leaves none
            // uninitialized, as the caller promises.
            write(unsafe { &mut *(std::ptr::from_mut(place) as *mut [MaybeUninit<u8>]) });
        }
        self.len += len;
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn clear(&mut self) {
        self.len = 0;
    }
}
