//! Memory of a pool: address ranges reserved from the kernel.
#![expect(unsafe_code, reason = "frames live in address ranges reserved with mmap")]

use crate::error::{Error, ErrorKind, Result};
use std::ptr;

/// Zeroed memory from the kernel, unmapped when dropped. It costs nothing until touched.
pub(in crate::pager) struct Mapping {
    pub start: *mut u8,
    pub bytes: usize,
}

// SAFETY: a Mapping is a plain range of memory; the frames' state words decide which thread may touch which bytes.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; the methods of a shared Mapping only return its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(in crate::pager) fn new(bytes: usize) -> Result<Mapping> {
        // SAFETY: a fresh anonymous mapping at an address that the kernel picks touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            let cause = std::io::Error::last_os_error();
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot reserve {bytes} bytes of address space for a table: {cause}"),
            )
            .with_hint("Raise the limit (ulimit -v), or close other tables."));
        }
        Ok(Mapping { start: start.cast(), bytes })
    }
}

impl Mapping {
    /// Asks for large pages from byte `from` on.
    pub(in crate::pager) fn advise_huge_pages(&self, from: usize) {
        let from = from.min(self.bytes);
        // SAFETY: advice about a mapping of ours; it changes no content.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(self.start.add(from).cast(), self.bytes - from, libc::MADV_HUGEPAGE)
        };
        #[cfg(not(target_os = "linux"))]
        let _ = from;
    }
}

impl Mapping {
    /// Asks for no large pages.
    pub(super) fn advise_small_pages(&self) {
        // SAFETY: advice about our own mapping; it changes no content.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(self.start.cast(), self.bytes, libc::MADV_NOHUGEPAGE)
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `start` and `bytes` are those of a mapping made in `new`, unmapped once, here.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}
