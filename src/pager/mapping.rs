//! Memory of a pool: address ranges that the kernel reserves.
#![expect(unsafe_code, reason = "frames live in address ranges reserved with mmap")]

use crate::error::{Error, ErrorKind, Result};
use std::ptr;

/// Zeroed memory from the kernel, unmapped when dropped. It costs nothing until touched.
pub(super) struct Mapping {
    pub start: *mut u8,
    pub bytes: usize,
}

// SAFETY: a Mapping is a plain range of memory; the state words settle which thread may touch which bytes.
unsafe impl Send for Mapping {}
// SAFETY: as for Send; the methods of a shared Mapping only return its address.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(bytes: usize) -> Result<Mapping> {
        // SAFETY: a fresh anonymous mapping at an address the kernel picks touches nothing that exists.
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
    pub(super) fn advise_huge_pages(&self, from: usize) {
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
        // SAFETY: as above.
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

/// Bytes of physical memory of this machine.
pub(crate) fn machine_memory_bytes() -> u64 {
    // SAFETY: sysconf takes a number and returns one.
    let (pages, page_bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    const IF_UNKNOWN: u64 = 1 << 30;
    match (u64::try_from(pages), u64::try_from(page_bytes)) {
        (Ok(pages), Ok(page_bytes)) => pages.saturating_mul(page_bytes),
        _ => IF_UNKNOWN,
    }
}
