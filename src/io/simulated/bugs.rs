//! Bugs of the disk, planted to prove that the crash tests find them: calls that it omits, and errors that it hides.
//!
//! Each thread has its own planted bug, so it affects no other test. Which run finds which:
//! `table/tests/crash/planted.rs`. Mistakes in the library's own code are patches: `tests/mutants/`.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Blocks are not synced before their header is written.
    BlocksUnsynced,
    /// The header is not synced before the log and the blocks that it frees are used.
    HeaderUnsynced,
    /// The name of a new table is not synced.
    NameUnsynced,
    /// A sync that failed counts as done.
    FailedSyncIgnored,
    /// A write that stopped half way counts as complete.
    ShortWriteIgnored,
    /// The log is not synced.
    LogUnsynced,
    /// The name of a new file of the log is not synced.
    LogNameUnsynced,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

pub(super) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Runs `work` on this thread with the bug planted.
pub(crate) fn with_bug<R>(bug: Bug, work: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
    let _reset = Reset;
    PLANTED.set(Some(bug));
    work()
}
