//! Why the reader of a dump stops: one error for its inner steps, so that they read as straight lines.

use super::Row;
use crate::failure::{Failure, Result};
use crate::input::{Input, Taken};
use std::ops::Range;

pub enum Stop {
    /// A signal came while we waited.
    Interrupted,
    /// The expected input, and the actual one; no row can be found after it.
    Lost(String),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Stop {
    pub fn lost<T>(what: impl Into<String>) -> std::result::Result<T, Self> {
        Err(Self::Lost(what.into()))
    }

    /// Converts it to a row; `bad` makes a bad row of the message.
    pub fn row(self, bad: impl FnOnce(String) -> Row<'static>) -> Result<Row<'static>> {
        match self {
            Self::Interrupted => Ok(Row::Interrupted),
            Self::Lost(what) => Ok(bad(what)),
            Self::Failed(failure) => Err(failure),
        }
    }
}

/// Reads the next line without its line end; counts it in `number`. `end` is the last line of a whole dump.
pub fn line(input: &mut Input<'_>, number: &mut u64, end: &str) -> std::result::Result<Range<usize>, Stop> {
    let taken = input.line()?;
    *number += u64::from(!matches!(taken, Taken::Interrupted));
    match taken {
        Taken::Bytes(mut range) => {
            if input.bytes(range.clone()).ends_with(b"\r") {
                range.end -= 1;
            }
            Ok(range)
        }
        Taken::Interrupted => Err(Stop::Interrupted),
        Taken::TooLong => Stop::lost(input.limit_met()),
        Taken::Short(_) | Taken::End => {
            Stop::lost(format!("the dump ends here, without its line `{end}`: it is not whole"))
        }
    }
}
