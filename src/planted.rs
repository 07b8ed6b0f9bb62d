//! Bugs on purpose, to see that the tests find them.
//!
//! A place where a slip would cost data asks [`planted`] whether to make it: the simulated disk for calls that are left out,
//! the library's code for the rest. Outside of the library's own tests the answer
//! is a constant `false`, and nothing is left of the question. In tests each thread has its own answer, so a planted bug
//! harms no test beside it.
//!
//! Which test finds which after how many runs: `table/crash/planted.rs`, `table/interleavings.rs`; what it found: docs/testing.md, "Planted bugs".

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "bugs of the disk are planted in the simulated one"))]
pub(crate) enum Bug {
    // Calls that the simulated disk leaves out, and errors that it keeps to itself (`io/simulated.rs`).
    /// The checkpoint's journal is not synced.
    JournalUnsynced,
    /// The journal's name is not synced.
    NamesUnsynced,
    /// New frames are not synced before the journal speaks for them.
    NewFramesUnsynced,
    /// The frames in place are not synced before the journal goes.
    InPlaceUnsynced,
    /// A journal is installed as it is found, in the cache or on the disk.
    FoundJournalUnsynced,
    /// A journal whose sync failed stays.
    FailedJournalKept,
    /// A sync that failed counts as done.
    FailedSyncIgnored,
    /// A write that stopped half way counts as done.
    ShortWriteIgnored,
    /// The log is not synced.
    LogUnsynced,
    /// The name of a new file of the log is not synced.
    LogNameUnsynced,
    // Of checkpoints and pages.
    /// New frames go where the last checkpoint still has its own.
    NewFramesOverOld,
    /// A journal's frames are not compared with their checksums.
    JournalUnchecked,
    /// A journal of another checkpoint is installed.
    AnyJournalInstalled,
    /// A frame read is not compared with its checksum.
    FrameUnchecked,
    /// After a failed checkpoint the handle goes on.
    NotPoisoned,
    /// The header says one bucket less.
    WrongMaxBucket,
    /// A split forgets a record.
    SplitDropsRecord,
    /// An extent is freed before the record refers to the new one.
    FreedTooEarly,
    /// A split frees the old overflow pages before all that can fail is over.
    SplitFreesFirst,
    // Of threads.
    /// Under the latch nobody looks at `view` again.
    ViewNotComparedAgain,
    /// A merge keeps the version.
    MergeKeepsVersion,
    /// A group that moves keeps the version.
    MoveKeepsVersion,
    /// A peek takes what it read for good.
    PeekTrusts,
    /// A writer leaves the frame's version as it was.
    WriteKeepsVersion,
    /// A split takes a frame that readers hold.
    TryWriteOverReaders,
    /// A writer does not look whether the gate was closed.
    GatePassedClosed,
    /// Compaction gives the memory of a frame back that a reader holds.
    ForgetUnderReaders,
    /// A batch does not look at `view` again once it has its latches.
    BatchTrustsView,
    /// Who closes the gate does not wait for the threads that share a slot.
    SharedSlotPassed,
    // Of the log.
    /// A write says that it is done before the log is synced.
    DoneBeforeSynced,
    /// Removals are not logged.
    RemovalUnlogged,
    /// A record's checksum is not compared.
    RecordUnchecked,
    /// Records do not depend on the header of their segment, nor on a record of where a crash cut it.
    SameSalt,
    /// A segment is taken without looking where the one before ended.
    SegmentOutOfOrder,
    /// A segment is free before the checkpoint is complete that has what it tells of.
    SegmentFreedEarly,
    /// What a replay found counts as durable as it is.
    ReplayedUnsynced,
    /// A replay makes appends twice.
    AppendedTwice,
    /// A replay makes all but the last change of a batch.
    BatchInPart,
    /// A batch that failed is not undone.
    BatchNotUndone,
    /// A segment that is ended with nothing left to be written is not there for a sync.
    EndedUnsynced,
    /// A segment is free while another thread is about to write the last of it.
    FreedUnderSync,
    /// What a replay found is written again after its segment was freed.
    ReplayedKept,
    /// All records in pieces have one number.
    PiecesShareNumber,
}

#[cfg(not(test))]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
pub(crate) use tests::planted;

#[cfg(test)]
pub(crate) mod tests {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Does `work` on this thread with the bug in it.
    pub(crate) fn with<R>(bug: Bug, work: impl FnOnce() -> R) -> R {
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
}
