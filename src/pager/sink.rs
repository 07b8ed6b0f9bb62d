//! Where the bytes of a value go: to a vector, which grows, or to a buffer of the caller, which may be too small.

/// A place for bytes.
pub(crate) trait Sink {
    /// Makes room for `len` more bytes. `false`: they do not fit, are counted, and may not be appended.
    fn reserve(&mut self, len: usize) -> bool;
    /// Appends bytes that there is room for.
    fn append(&mut self, bytes: &[u8]);
    /// The bytes appended and counted.
    fn len(&self) -> usize;
    /// Forgets the bytes after the first `len`.
    fn truncate(&mut self, len: usize);
}

impl Sink for Vec<u8> {
    #[inline]
    fn reserve(&mut self, len: usize) -> bool {
        Vec::reserve(self, len);
        true
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn len(&self) -> usize {
        Vec::len(self)
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        Vec::truncate(self, len);
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
    fn reserve(&mut self, len: usize) -> bool {
        let fits = len <= self.buffer.len().saturating_sub(self.len);
        if !fits {
            self.len += len;
        }
        fits
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        // `reserve` said that there is room.
        if let Some(place) = self.buffer.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}
