//! Bugs of the disk, planted to prove that the crash tests find them: calls that it omits, and errors that it hides.
//!
//! Each thread has its own planted bug, so it affects no other test. Which run finds which:
//! `table/tests/crash/planted.rs`. Mistakes in the library's own code are patches: `tests/mutants/`.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The checkpoint's journal is not synced.
    JournalUnsynced,
    /// The journal's name is not synced.
    NamesUnsynced,
    /// New frames are not synced before the journal is complete.
    NewFramesUnsynced,
    /// The frames in place are not synced before the journal is removed.
    InPlaceUnsynced,
    /// A journal that an open finds is installed without a sync.
    FoundJournalUnsynced,
    /// A journal whose sync failed is kept.
    FailedJournalKept,
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
