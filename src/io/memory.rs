//! Caller's memory over which parts of a file are mapped: frames of a pool that are the file's own pages.
//!
//! Not here: the system calls (`shared_mapping.rs`), guarding it (`guarded.rs`).
#![expect(unsafe_code, reason = "only the maker of a range of memory knows what uses it")]

use std::marker::PhantomData;

/// How a file is mapped over memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Stores change the file, as writes do.
    Shared,
    /// A page is the file's until the first store to it, which makes a private copy.
    Private,
}

/// A range of memory over which a file may be mapped.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux maps files over memory"))]
pub(crate) struct Memory<'a> {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    mapping: PhantomData<&'a ()>,
}

impl Memory<'_> {
    /// # Safety
    /// The caller has mapped the `bytes` bytes from `start` on for reading and writing, and keeps them mapped for as
    /// long as `'a` and every [`MemoryGuard`] made of them lives. Each page has the bytes of the part of the file that
    /// is mapped over it, or bytes that nothing reads before they are written again. If a guard reports a failure,
    /// nothing that was read there is used.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        Memory { start, bytes, mapping: PhantomData }
    }
}

/// While this lives, a page in guarded memory that the system cannot provide becomes zero instead of raising a signal.
pub(crate) trait MemoryGuard: Send + Sync {
    /// Whether there was ever such a page. If the thread that made an access calls this afterwards and gets `false`,
    /// the access used what was mapped there.
    fn failed(&self) -> bool;
}
