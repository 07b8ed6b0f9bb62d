//! Values of a walk, of which the long ones are read piece by piece, so that none is in memory twice.
//!
//! A run has the location of a long value (run.rs, `Far`). Not here: lookups of long values (`cells.rs`), long values
//! of a batch (`build/far.rs`).

use super::file::DictionaryFile;
use super::pages::Stream;
use super::wanted::Wanted;
use crate::dictionary::run::{Far, Run};
use crate::error::Result;
use std::ops::Range;

/// A value in the stream of a file. It may be far larger than memory.
pub(crate) struct LongValue<'d> {
    file: &'d DictionaryFile,
    at: Range<u64>,
}

impl LongValue<'_> {
    /// Replaces the content of `value` with this value.
    pub fn read_into(&self, value: &mut Vec<u8>) -> Result<()> {
        Wanted::Value(value).give_from(&mut Stream::new(&self.file.pages, 0), self.at.clone())
    }

    fn len(&self) -> u64 {
        self.at.end - self.at.start
    }

    /// Whether `is_next` returns true for each piece of the value in turn.
    fn all(&self, is_next: impl FnMut(&[u8]) -> Result<bool>) -> Result<bool> {
        let (mut equal, mut is_next) = (true, is_next);
        Stream::new(&self.file.pages, 0).pieces(self.at.clone(), |piece| {
            equal = is_next(piece)?;
            Ok(equal)
        })?;
        Ok(equal)
    }
}

/// A value of a run.
pub(crate) enum ValueAt<'v> {
    Here(&'v [u8]),
    Long(LongValue<'v>),
}

impl<'v> ValueAt<'v> {
    /// The value of record `index` of `run`, which a walk over `file` returned.
    pub fn of(file: &'v DictionaryFile, run: &'v Run, index: usize) -> Self {
        let record = run.record(index);
        let value = record.value.unwrap_or_default();
        match record.far_len {
            None => ValueAt::Here(value),
            Some(len) => {
                let start = Far::parse(value).offset;
                ValueAt::Long(LongValue { file, at: start..start + u64::from(len) })
            }
        }
    }

    /// The bytes of the value. A long value is read into `long`, whose old memory is freed first.
    pub fn get(self, long: &'v mut Vec<u8>) -> Result<&'v [u8]> {
        if long.capacity() > 0 {
            *long = Vec::new();
        }
        match self {
            ValueAt::Here(value) => Ok(value),
            ValueAt::Long(value) => value.read_into(long).map(|()| &long[..]),
        }
    }

    /// Whether both have the same bytes. Reads long values in parallel, piece by piece.
    pub fn equals(&self, other: &ValueAt<'_>) -> Result<bool> {
        match (self, other) {
            (ValueAt::Here(one), ValueAt::Here(other)) => Ok(one == other),
            (ValueAt::Long(long), ValueAt::Here(here)) | (ValueAt::Here(here), ValueAt::Long(long)) => {
                let mut rest = *here;
                Ok(long.len() == here.len() as u64
                    && long.all(|piece| Ok(rest.split_off(..piece.len()).is_some_and(|next| next == piece)))?)
            }
            (ValueAt::Long(one), ValueAt::Long(other)) => {
                let (mut stream, mut at) = (Stream::new(&other.file.pages, 0), other.at.start);
                Ok(one.len() == other.len()
                    && one.all(|piece| {
                        let range = at..at + piece.len() as u64;
                        at = range.end;
                        Ok(stream.bytes(range)? == piece)
                    })?)
            }
        }
    }
}
