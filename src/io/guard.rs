//! Mappings of files in which a fault sets a flag instead of ending the process.
//!
//! Access to a mapped page that the kernel cannot provide raises SIGBUS: a copy-on-write file system is full, the disk
//! fails, or another program has truncated the file. The first mapping installs a handler for SIGBUS. For a fault
//! inside a [`Guarded`] mapping the handler sets the mapping's flag, replaces the missing page with a page of zeros,
//! and returns, so that the access completes; the code that made the access then checks [`Guarded::failed`]. Every
//! other SIGBUS is passed to the action that was set before, as if there were no handler here.
//!
//! The handler may run at any instruction of any thread: it takes no locks, allocates nothing, and finds the mappings
//! in a fixed table of atomics. It cannot help if the program replaced it later, or in a thread that blocks SIGBUS:
//! there the kernel ends the process, as it would without a handler (docs/architecture.md, "Log").
//!
//! The log stores through such a mapping (`shared_mapping.rs`), and dictionaries are read through one (`window.rs`):
//! copy, then check `failed`, and discard the copy if it is set. A `&[u8]` over a guarded mapping would be unsound, as
//! its bytes can become zeros.
#![expect(unsafe_code, reason = "mmap, sigaction")]
#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use super::spare_mapping_bytes;
use std::fs;
use std::mem::{MaybeUninit, transmute};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*, compiler_fence};
use std::sync::{Once, OnceLock};

/// A mapping of the start of a file, undone when dropped.
pub(super) struct Guarded {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    entry: &'static Entry,
}

// SAFETY: a Guarded is a range of memory that lives as long as it does; its users are responsible for what they do
// there.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Maps the first `bytes` bytes of `file`, which may be shorter. `None` if the system refuses, too many files are
    /// mapped, or address space is scarce.
    pub(super) fn map(file: &fs::File, bytes: usize) -> Option<Guarded> {
        Self::with_access(file, 0, bytes, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// As [`map`](Self::map), but read-only, and from byte `offset` on, which must be the start of a page. Pages are
    /// read in random order, so read-ahead is turned off.
    pub(super) fn map_for_reading(file: &fs::File, offset: u64, bytes: usize) -> Option<Guarded> {
        let map = Self::with_access(file, libc::off_t::try_from(offset).ok()?, bytes, libc::PROT_READ)?;
        // SAFETY: the range is that of the mapping, and the advice does not change the content.
        unsafe { libc::madvise(map.start.cast(), bytes, libc::MADV_RANDOM) };
        Some(map)
    }

    fn with_access(file: &fs::File, offset: libc::off_t, bytes: usize, access: libc::c_int) -> Option<Guarded> {
        if bytes as u64 > spare_mapping_bytes() || !install() {
            return None;
        }
        // SAFETY: a fresh mapping at an address the kernel picks touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let Some(entry) = Entry::claim(start as usize, bytes) else {
            // SAFETY: the mapping was made above, and nothing refers to it.
            unsafe { libc::munmap(start, bytes) };
            return None;
        };
        Some(Guarded { start: start.cast(), bytes, entry })
    }

    /// Whether there was ever a fault in the mapping. If the thread that made an access calls this afterwards and gets
    /// `false`, the access used the file's own pages.
    #[inline]
    pub(super) fn failed(&self) -> bool {
        // A fault is precise: the handler has run before the processor continues to this load. The fence keeps the
        // compiler from moving the load before the access.
        compiler_fence(SeqCst);
        self.entry.failed.load(Acquire)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // First: another mapping may get these addresses as soon as they are free.
        self.entry.release();
        // SAFETY: `start` and `bytes` are those of a mapping made in `map`, unmapped once, here.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// The size of a memory page in bytes.
pub(super) fn page_bytes() -> usize {
    static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
    match PAGE_BYTES.load(Relaxed) {
        0 => {
            // SAFETY: sysconf takes no pointers.
            let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            PAGE_BYTES.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

// ---------------------------------------------------------------------------------------------
// The table of mappings

/// The maximum number of mappings at a time; further files are read and written with calls instead. A table has two, up
/// to eight during a backup; a dictionary has one per shard.
const MAPPINGS_MAX: usize = 4096;

static ENTRIES: [Entry; MAPPINGS_MAX] = [const { Entry::free() }; MAPPINGS_MAX];

/// One mapping. `start` and `bytes` change only while `version` is odd. A handler that reads an entry in between
/// skips it: the mapping whose fault it handles is in use by the thread that it interrupted, so its entry does not
/// change.
struct Entry {
    version: AtomicUsize,
    start: AtomicUsize,
    /// `0`: the entry is free.
    bytes: AtomicUsize,
    failed: AtomicBool,
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn claim(start: usize, bytes: usize) -> Option<&'static Entry> {
        ENTRIES.iter().find(|entry| {
            let version = entry.version.load(SeqCst);
            let free = version.is_multiple_of(2) && entry.bytes.load(SeqCst) == 0;
            // The version is unchanged since before `bytes` was loaded, so the entry is still free.
            let taken = free && entry.version.compare_exchange(version, version + 1, SeqCst, SeqCst).is_ok();
            if taken {
                entry.failed.store(false, SeqCst);
                entry.start.store(start, SeqCst);
                entry.bytes.store(bytes, SeqCst);
                entry.version.store(version + 2, SeqCst);
            }
            taken
        })
    }

    fn release(&self) {
        self.version.fetch_add(1, SeqCst);
        self.bytes.store(0, SeqCst);
        self.version.fetch_add(1, SeqCst);
    }

    fn contains(&self, address: usize) -> bool {
        let version = self.version.load(SeqCst);
        let (start, bytes) = (self.start.load(SeqCst), self.bytes.load(SeqCst));
        version.is_multiple_of(2) && address.wrapping_sub(start) < bytes && self.version.load(SeqCst) == version
    }
}

// ---------------------------------------------------------------------------------------------
// The handler

/// The action for SIGBUS before ours, read twice: before ours replaced it and when ours replaced it. They differ if
/// another thread changed the action in between. Neither moves or changes once set, as a handler may be reading it.
static PREVIOUS: [OnceLock<libc::sigaction>; 2] = [const { OnceLock::new() }; 2];

/// Installs the handler on the first call. Returns whether it is installed.
fn install() -> bool {
    static ONCE: Once = Once::new();
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        let Some(previous) = replace(None) else { return };
        let mut ours = previous;
        ours.sa_sigaction = on_bus_error as *const () as usize;
        // The mask and SA_NODEFER are kept, so that an earlier handler finds the signals blocked that it asked for.
        ours.sa_flags &= libc::SA_NODEFER | libc::SA_RESTART;
        ours.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
        // Before ours can run.
        let _ = PREVIOUS[0].set(previous);
        if let Some(previous) = replace(Some(&ours)) {
            let _ = PREVIOUS[1].set(previous);
            INSTALLED.store(true, SeqCst);
        }
    });
    INSTALLED.load(SeqCst)
}

/// Sets the action for SIGBUS, if one is given. Returns the previous one.
fn replace(action: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let mut previous = MaybeUninit::uninit();
    // SAFETY: the new action is one that the system gave us, with a handler of this file or the default; there is room
    // for the old one.
    let done =
        unsafe { libc::sigaction(libc::SIGBUS, action.map_or(ptr::null(), ptr::from_ref), previous.as_mut_ptr()) };
    // SAFETY: the call has filled it in.
    (done == 0).then(|| unsafe { previous.assume_init() })
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above; if the signal was sent by a process this is not an address, and then it is not used.
    let address = unsafe { (*info).si_addr() } as usize;
    let missing_page = matches!(code, libc::BUS_ADRERR | libc::BUS_OBJERR | libc::BUS_MCEERR_AR);
    if !(missing_page && contain(address)) {
        pass_on(signal, info, context, missing_page || code == libc::BUS_ADRALN);
    }
}

/// Lets an access to `address` continue if it is in a guarded mapping.
///
/// Earlier stores to the page are not lost: the kernel has them in its cache of the file, which keeps a mapping's dirty
/// pages when the mapping is removed. Only this process sees zeros. A thread that stores to the page after it was
/// replaced sees the flag, which is set first.
fn contain(address: usize) -> bool {
    let Some(entry) = ENTRIES.iter().find(|entry| entry.contains(address)) else { return false };
    entry.failed.store(true, SeqCst);
    // SAFETY: errno is this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let page = address & !(page_bytes() - 1);
    // SAFETY: the page lies in a mapping of ours, and nothing in this process has a reference to its pages. If memory
    // is short the call fails and changes nothing.
    let zeros = unsafe {
        libc::mmap(
            page as *mut libc::c_void,
            page_bytes(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    // SAFETY: as above.
    unsafe { *errno = before };
    zeros != libc::MAP_FAILED
}

/// Passes a signal to the action before ours. `fault`: whether the interrupted instruction caused it.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void, fault: bool) {
    // Reading a `OnceLock` takes no lock, so a handler may do it. The first is set before the handler is installed.
    let [first, second] = &PREVIOUS;
    let Some(previous) = second.get().or_else(|| first.get()) else { return };
    let handler = previous.sa_sigaction;
    let by_default = handler == libc::SIG_DFL || handler == libc::SIG_IGN;
    if handler == libc::SIG_IGN && !fault {
        return;
    }
    if by_default || previous.sa_flags & libc::SA_RESETHAND != 0 {
        let mut default = *previous;
        default.sa_sigaction = libc::SIG_DFL;
        default.sa_flags = 0;
        replace(Some(&default));
    }
    if by_default {
        // A fault repeats when the handler returns, and then ends the process: the kernel does not ignore faults.
        if !fault {
            // SAFETY: raise takes no pointers.
            unsafe { libc::raise(signal) };
        }
    } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        // SAFETY: an action with this flag, and not one of the two above, is a function of this type.
        let handler: Handler = unsafe { transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: an action without the flag is a function of this type.
        let handler: extern "C" fn(libc::c_int) = unsafe { transmute(handler) };
        handler(signal);
    }
}
