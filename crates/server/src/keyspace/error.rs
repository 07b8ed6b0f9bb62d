//! Why commands of the key space fail.

use super::FLUSHED_MAX;
use crate::dictionary::LookupError;
use splitpoint::Error;

/// Why a command of the key space failed.
#[derive(Debug)]
pub enum SpaceError {
    /// `max_memory` is reached and nothing may be evicted.
    MemoryLimit,
    /// A dictionary is served, and cannot be changed.
    ReadOnly,
    /// The key's slot, which belongs to another node of the cluster or to none.
    Elsewhere(u16),
    /// The value of the key is of another type.
    WrongType,
    /// The command needs exclusive entry; no client sees this.
    Alone,
    /// The database has too many keys for a flush within a transaction over a file.
    TooManyKeys,
    /// The error of the table.
    Table(Error),
}

impl From<Error> for SpaceError {
    fn from(error: Error) -> Self {
        SpaceError::Table(error)
    }
}

impl From<LookupError> for SpaceError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Elsewhere(slot) => SpaceError::Elsewhere(slot),
            LookupError::Dictionary(error) => SpaceError::Table(error),
        }
    }
}

impl std::fmt::Display for SpaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpaceError::MemoryLimit => f.write_str("max_memory is reached"),
            SpaceError::ReadOnly => f.write_str("a dictionary is served, which is read-only"),
            SpaceError::TooManyKeys => write!(f, "more than {FLUSHED_MAX} keys cannot be flushed with other changes"),
            SpaceError::Elsewhere(slot) => write!(f, "slot {slot} is not served by this node"),
            SpaceError::WrongType => f.write_str("the value of the key is of another type"),
            SpaceError::Alone => f.write_str("the command needs exclusive entry"),
            SpaceError::Table(error) => error.fmt(f),
        }
    }
}

/// The result of an operation on the key space.
pub type Result<T> = std::result::Result<T, SpaceError>;
