//! Bugs planted on purpose, to prove that the tests find them.
//!
//! Wherever a slip would cost data, the code asks [`planted`] whether to make it. Outside the library's own tests the
//! answer is a constant `false`, and the compiler removes the question. In tests each thread has its own answer, so a
//! planted bug affects no other test.
//!
//! Which test finds which bug after how many runs: `table/tests/crash/planted.rs`, `table/tests/interleavings.rs`;
//! results: docs/testing.md, "Planted bugs".

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "bugs of the disk are planted in the simulated one"))]
pub(crate) enum Bug {
    // Calls that the simulated disk omits, and errors that it does not report (`io/simulated/`).
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
    // Checkpoints and pages.
    /// New frames overwrite frames that the last checkpoint still needs.
    NewFramesOverOld,
    /// A checkpoint begins without room for its journal.
    JournalUnreserved,
    /// A journal's frames are not compared with their checksums.
    JournalUnchecked,
    /// A journal of another checkpoint is installed.
    AnyJournalInstalled,
    /// The checksum of a frame that is read is not compared.
    FrameUnchecked,
    /// After a failed checkpoint the handle continues.
    NotPoisoned,
    /// The header has one bucket less.
    WrongMaxBucket,
    /// A split loses a record.
    SplitDropsRecord,
    /// An extent is freed before the record refers to the new one.
    FreedTooEarly,
    /// A split frees the old overflow pages before everything that can fail is done.
    SplitFreesFirst,
    // Threads.
    /// `view` is not compared again under the latch.
    ViewNotComparedAgain,
    /// A merge keeps the version.
    MergeKeepsVersion,
    /// A group that moves keeps the version.
    MoveKeepsVersion,
    /// A thread that reads a checksum does not compare the location of the map frame afterwards.
    MovedMapTrusted,
    /// A compaction does not wait for another one to end.
    CompactionsTogether,
    /// An optimistic read is not validated.
    PeekTrusts,
    /// A writer does not change the frame's version.
    WriteKeepsVersion,
    /// A split takes the latch of a frame that readers hold.
    TryWriteOverReaders,
    /// A writer does not check whether the gate is closed.
    GatePassedClosed,
    /// Compaction frees the memory of a frame that a reader holds.
    ForgetUnderReaders,
    /// A batch does not compare `view` again once it has its latches.
    BatchTrustsView,
    /// Closing the gate does not wait for the threads that share a slot.
    SharedSlotPassed,
    // The log.
    /// A write returns before the log is synced.
    DoneBeforeSynced,
    /// Removals are not logged.
    RemovalUnlogged,
    /// A record's checksum is not compared.
    RecordUnchecked,
    /// Checksums depend neither on the segment's header nor on the record that a later process adds first.
    SameSalt,
    /// A segment is replayed without comparing the end of the one before.
    SegmentOutOfOrder,
    /// A segment is freed before the checkpoint that contains its records is complete.
    SegmentFreedEarly,
    /// The records that a replay found count as durable.
    ReplayedUnsynced,
    /// A replay repeats appends.
    AppendedTwice,
    /// A replay distributes the changes of one key over several parts.
    KeysInSeveralParts,
    /// A block of records that ends within a record ends the log.
    BlockEndsLog,
    /// If changes of several parts of a replay fail, the error of the first part counts.
    AnyFailureCounts,
    /// A replay omits the last change of a batch.
    BatchInPart,
    /// A failed batch is not undone.
    BatchNotUndone,
    /// A sync skips an ended segment with no pending bytes.
    EndedUnsynced,
    /// A segment is freed while another thread is about to write the last of it.
    FreedUnderSync,
    /// A replayed segment is written again after it was freed.
    ReplayedKept,
    /// Bytes of a segment are made ready while another one takes its place.
    ReadyUnheld,
    /// All records in pieces have one number.
    PiecesShareNumber,
    // Values that are written through (`pager/values/`).
    /// A sync does not sync the file before the log.
    ThroughUnsynced,
    /// Units that the log refers to are reused before the next checkpoint begins.
    ReferredUnitsReused,
    /// A value is stored over one that the log refers to.
    ReferredUnitsOverwritten,
    /// After a replay, values are written through, and new frames are written in place, as if nothing had been
    /// replayed.
    ThroughAfterReplay,
    /// The checksum of a value that the log refers to is not compared.
    ReferenceUnchecked,
    /// A checkpoint cuts the file at its own end.
    ThroughCutOff,
    /// A frame written through counts as in the file although it was changed in memory.
    ThroughTrusted,
    /// Memory of a window that was returned counts as zero, although it is the file's.
    WindowCountsAsZero,
    // Spilled frames (`pager/load/spill.rs`).
    /// A frozen frame that is not in memory is replaced, and the bytes of its new memory are preserved instead of its
    /// content.
    StaleBufferPreserved,
    /// Frames of the last checkpoint are spilled.
    SpillsOverCheckpoint,
    /// Frames are spilled while a checkpoint is written.
    SpillsBesideCheckpoint,
    /// A checkpoint omits the frames of the shadow file.
    ShadowForgotten,
    /// After a checkpoint, frames are still read from the shadow file.
    ShadowKept,
    /// The shadow file is emptied after frames may be spilled again.
    ShadowEmptiedLate,
    /// A change of a spilled frame leaves it spilled.
    SpilledKept,
    /// A change of a frozen frame does not save its content.
    FrozenNotPreserved,
    /// A frame may be evicted once a checkpoint has copied it, although it is not yet in the file.
    EvictedBeforeInFile,
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

    /// Runs `work` on this thread with the bug planted.
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
