//! Keys that occur more than once: which value is kept, and the error if none is.

use crate::error::{Error, ErrorKind, quote};

/// The treatment of a key that occurs more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// It is an error that names both places.
    Error,
    /// The first value is kept.
    First,
    /// The last value is kept.
    Last,
}

/// A duplicate key where keys must be unique.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DuplicateKey {
    pub key: Vec<u8>,
    pub first_place: u64,
    pub place: u64,
}

/// The hint for a duplicate key.
pub(crate) const CHOOSE: &str = "Choose which value to keep.";

/// Why a sort could not return its next run.
#[derive(Debug)]
pub(crate) enum SortError {
    Duplicate(DuplicateKey),
    Failed(Error),
}

impl From<Error> for SortError {
    fn from(e: Error) -> Self {
        SortError::Failed(e)
    }
}

impl From<DuplicateKey> for SortError {
    fn from(duplicate: DuplicateKey) -> Self {
        SortError::Duplicate(duplicate)
    }
}

impl From<SortError> for Error {
    /// Names the places by their numbers.
    fn from(e: SortError) -> Self {
        match e {
            SortError::Failed(e) => e,
            SortError::Duplicate(DuplicateKey { key, first_place, place }) => {
                let key = quote(&key);
                let message = format!("duplicate key {key} at {place}, first at {first_place}");
                Error::new(ErrorKind::Duplicate, message).with_hint(CHOOSE)
            }
        }
    }
}
