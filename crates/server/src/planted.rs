//! Bugs planted on purpose, to prove that the tests of sessions find them.
//!
//! Where a mistake would give a client a wrong answer, the code asks [`planted`] whether to make it. Outside this
//! crate's own tests the answer is the constant `false`, and the compiler removes the check. In tests each thread has
//! its own answer, so a planted bug affects no other test. `session/tests.rs` finds all of them.
//! Results: docs/testing.md, "Planted bugs".

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    // Of runs and replies.
    /// A refused append is answered after the other replies of its run.
    RefusalLast,
    /// A run after SELECT is executed in the previously selected database.
    RunBeforeSelect,
    /// Messages for a client are written when they arrive, even in the middle of a reply.
    PushWithinReply,
    /// The request at which a long output stops is answered twice.
    AnsweredTwice,
    /// CLIENT REPLY SKIP suppresses all later replies.
    SkipLasts,
    // Of transactions.
    /// A command that is refused ends the transaction, so the commands after it are executed immediately.
    RefusalEndsMulti,
    /// EXEC executes the queued commands although a command was refused.
    RefusalForgotten,
    /// EXEC does not check whether a watched key has expired.
    WatchForgetsClock,
    /// A watched key that expired and was removed counts as unchanged.
    SweptUnwatched,
    /// DBSIZE in a transaction does not see a key that it stores again after removing it.
    StoredAgainUncounted,
    // Of lifetimes and attributes.
    /// A key is present for a millisecond after its expiry time.
    ExpiresLate,
    /// A lookup of several keys uses for each key the lifetime of the one before.
    ExpiryOfNeighbour,
    /// An append in a batch adds to the value of an expired key.
    AppendToExpired,
    /// An append in a batch leaves the CAS number as it was.
    AppendKeepsNumber,
    /// touch removes the CAS number.
    TouchTakesNumber,
    /// A command with noreply is answered when it fails.
    QuietFailureAnswered,
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

    /// Calls `work` on this thread with the bug planted.
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
