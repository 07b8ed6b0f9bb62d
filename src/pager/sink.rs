//! Where the bytes of a value go: to a vector, which grows, or to a buffer of the caller, which may be too small.
#![expect(unsafe_code, reason = "a value is written to memory that is not initialized yet")]

use std::mem::MaybeUninit;

/// A place for bytes.
pub(crate) trait Sink {
    /// Appends `len` bytes, which `write` writes. Where they do not fit they are counted, and `write` is not called.
    ///
    /// # Safety
    /// `write` initializes every byte of the place it is given, which has `len` bytes.
    unsafe fn append_with(&mut self, len: usize, write: impl FnOnce(&mut [MaybeUninit<u8>]));
    /// The bytes appended and counted.
    fn len(&self) -> usize;
    /// Forgets all bytes.
    fn clear(&mut self);
}

impl Sink for Vec<u8> {
    #[inline]
    unsafe fn append_with(&mut self, len: usize, write: impl FnOnce(&mut [MaybeUninit<u8>])) {
        self.reserve(len);
        // SAFETY: as many bytes are reserved; without a comparison that each lookup would make.
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
            // SAFETY: bytes may be viewed as bytes that may be uninitialized, and `write` leaves none that are, as the
            // caller promises.
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
