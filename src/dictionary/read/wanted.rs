//! The use that a lookup makes of the value it finds, wherever that is.

use super::page_source::PageSource;
use super::pages::Stream;
use super::search::Outcome;
use crate::error::Result;
use crate::io::Window;
use std::ops::Range;

/// The use that a lookup makes of the value it finds.
pub(crate) enum Wanted<'v> {
    /// Nothing: only presence is of interest.
    Presence,
    /// Replaces the content of the vector with the value.
    Value(&'v mut Vec<u8>),
    /// Copies it to the start of the buffer, or an unspecified part of it if it does not fit, and sets the number to
    /// its length.
    Copy(&'v mut [u8], &'v mut usize),
}

impl Wanted<'_> {
    /// Takes a value in memory.
    pub fn give(&mut self, value: &[u8]) {
        match self {
            Wanted::Presence => {}
            Wanted::Value(to) => {
                to.clear();
                to.extend_from_slice(value);
            }
            Wanted::Copy(to, len) => {
                let copied = value.len().min(to.len());
                to[..copied].copy_from_slice(&value[..copied]);
                **len = value.len();
            }
        }
    }

    /// Takes what was `found` in `source`, and returns whether that is a value. `None` if the pages must be read.
    #[inline]
    pub fn take<W: Window + ?Sized>(&mut self, source: PageSource<'_, W>, found: Outcome) -> Option<bool> {
        match (found, self) {
            (Outcome::Unavailable, _) => None,
            (Outcome::Absent, _) => Some(false),
            (Outcome::Value(..), Wanted::Presence) => Some(true),
            (Outcome::Value(at, bytes), Wanted::Value(to)) => {
                to.clear();
                source.append(at, bytes, to).map(|()| true)
            }
            (Outcome::Value(at, bytes), Wanted::Copy(to, len)) => {
                let copied = to.len().min(bytes as usize); // it is in memory
                **len = bytes as usize;
                source.copy(at, &mut to[..copied]).map(|()| true)
            }
        }
    }

    /// Takes the value in `range` of the stream. It may be long, so it is read piece by piece directly to where it is
    /// wanted.
    pub fn give_from(&mut self, stream: &mut Stream<'_>, range: Range<u64>) -> Result<()> {
        let bytes = (range.end - range.start) as usize;
        match self {
            Wanted::Presence => Ok(()),
            Wanted::Value(to) => {
                to.clear();
                to.reserve_exact(bytes);
                stream.pieces(range, |piece| {
                    to.extend_from_slice(piece);
                    Ok(true)
                })
            }
            Wanted::Copy(to, len) => {
                **len = bytes;
                let Some(mut rest) = to.get_mut(..bytes) else { return Ok(()) };
                stream.pieces(range, |piece| {
                    let (now, later) = std::mem::take(&mut rest).split_at_mut(piece.len());
                    now.copy_from_slice(piece);
                    rest = later;
                    Ok(true)
                })
            }
        }
    }
}
