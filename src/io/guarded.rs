//! Guarding memory against pages that the system cannot provide, on every system: elsewhere than on Linux nothing is
//! mapped over memory, and there is nothing to guard.
//!
//! Not here: the fault handler (`guard.rs`).

use super::memory::{Memory, MemoryGuard};

impl Memory<'_> {
    /// Guards the memory against faults. `None` if that is impossible.
    pub(crate) fn guard(self) -> Option<Box<dyn MemoryGuard>> {
        #[cfg(target_os = "linux")]
        return super::guard::GuardedMemory::new(self).map(|guard| Box::new(guard) as Box<dyn MemoryGuard>);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// Whether any guarded mapping of this process ever met a page that the system could not provide.
#[inline]
pub(crate) fn had_faults() -> bool {
    #[cfg(target_os = "linux")]
    return super::guard::had_faults();
    #[cfg(not(target_os = "linux"))]
    false
}

/// The size of a memory page in bytes, the smallest unit of mapping.
pub(crate) fn page_bytes() -> usize {
    #[cfg(target_os = "linux")]
    return super::guard::page_bytes();
    #[cfg(not(target_os = "linux"))]
    4096
}
