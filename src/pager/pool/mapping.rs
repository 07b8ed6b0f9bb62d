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
    /// Resets `bytes` bytes from `start` on to fresh zeroed memory, whatever is mapped over them. Returns false if the
    /// system refuses.
    ///
    /// # Safety
    /// They are whole pages of an existing mapping, whose content is no longer needed.
    pub(super) unsafe fn renew(start: *mut u8, bytes: usize) -> bool {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: replaces pages of the caller's mapping.
        unsafe { libc::mmap(start.cast(), bytes, access, kind, -1, 0) != libc::MAP_FAILED }
    }
}

impl Mapping {
    /// Replaces whatever is mapped at `bytes` bytes from `start` on with plain memory of the same content. Other
    /// threads see this as one step. Returns false, with nothing changed, if the system does not support it.
    ///
    /// # Safety
    /// They are whole pages of an existing mapping, to which no thread stores in the meantime.
    #[cfg(target_os = "linux")]
    pub(super) unsafe fn replace_by_copy(start: *mut u8, bytes: usize) -> bool {
        // Aligned as `start` is, so that large pages can move.
        const ALIGNMENT: usize = 2 << 20;
        let Ok(room) = Mapping::new(bytes + ALIGNMENT) else { return false };
        let copy = room.start.wrapping_add(start.addr().wrapping_sub(room.start.addr()) % ALIGNMENT);
        room.advise_huge_pages(0);
        // SAFETY: `copy` is within the room just made; the bytes at `start` are readable and do not change.
        unsafe { ptr::copy_nonoverlapping(start, copy, bytes) };
        // The room stays mapped, so that it can be unmapped as a whole. Kernels before 5.7 do not support this.
        let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let target = start.cast::<libc::c_void>();
        // SAFETY: moves pages of the room, which nothing else uses, to whole pages of the caller's.
        unsafe { libc::mremap(copy.cast(), bytes, bytes, how, target) != libc::MAP_FAILED }
    }

    /// This system has no windows, so this is never needed.
    #[cfg(not(target_os = "linux"))]
    pub(super) unsafe fn replace_by_copy(_start: *mut u8, _bytes: usize) -> bool {
        false
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
