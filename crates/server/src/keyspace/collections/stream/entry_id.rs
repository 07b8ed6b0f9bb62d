//! The IDs of entries: when an entry was added, and a count within the millisecond.

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The time in Unix milliseconds, unless the client chose another number.
    pub ms: u64,
    /// Counts the entries of one millisecond.
    pub seq: u64,
}

impl EntryId {
    /// The ID before all others, which no entry has.
    pub const MIN: EntryId = EntryId { ms: 0, seq: 0 };

    pub(crate) const MAX: EntryId = EntryId { ms: u64::MAX, seq: u64::MAX };

    /// The ID after this one; `None` after the last.
    pub(crate) fn next(self) -> Option<EntryId> {
        let number = self.number().checked_add(1)?;
        Some(EntryId::of(number))
    }

    /// The ID before this one; `None` before the first.
    pub(crate) fn previous(self) -> Option<EntryId> {
        let number = self.number().checked_sub(1)?;
        Some(EntryId::of(number))
    }

    fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    fn of(number: u128) -> EntryId {
        EntryId { ms: (number >> 64) as u64, seq: number as u64 } // the two halves
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}
