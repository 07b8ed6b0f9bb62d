//! The limits of this process (`ulimit`), and the memory of the machine: what the system says about both.
//!
//! Not here: the limits of control groups, and what follows from all of them (`memory_limit.rs`).

/// The kinds of limits of a process.
#[derive(Clone, Copy)]
pub(super) enum Limited {
    FileLength,
    Addresses,
    /// Memory that it changes.
    Data,
}

/// The limit of this process in bytes; `u64::MAX` if it has none.
#[expect(unsafe_code, reason = "std has no getrlimit")]
pub(super) fn limit(what: Limited) -> u64 {
    let what = match what {
        Limited::FileLength => libc::RLIMIT_FSIZE,
        Limited::Addresses => libc::RLIMIT_AS,
        Limited::Data => libc::RLIMIT_DATA,
    };
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is ours and of the type that the call fills in. After an error it is unchanged.
    unsafe { libc::getrlimit(what, &mut limit) };
    if limit.rlim_cur == libc::RLIM_INFINITY { u64::MAX } else { limit.rlim_cur }
}

/// Bytes of physical memory of this machine.
#[expect(unsafe_code, reason = "std has no sysconf")]
pub(super) fn machine_memory_bytes() -> u64 {
    // SAFETY: sysconf takes a number and returns one.
    let (pages, page_bytes) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    const IF_UNKNOWN: u64 = 1 << 30;
    match (u64::try_from(pages), u64::try_from(page_bytes)) {
        (Ok(pages), Ok(page_bytes)) => pages.saturating_mul(page_bytes),
        _ => IF_UNKNOWN,
    }
}
