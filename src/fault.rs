//! The faults that a check of a whole file finds: see [`Table::verify`](crate::Table::verify) and
//! [`Dictionary::verify`](crate::Dictionary::verify).

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::ops::ControlFlow;

/// A fault of a table or a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its location.
    pub place: String,
    /// Its description.
    pub what: String,
}

/// Called repeatedly during a walk; its result decides whether the walk continues.
pub(crate) type Proceed<'p> = &'p dyn Fn() -> ControlFlow<()>;

/// Returns an error if the walk is to end.
pub(crate) fn go_on(proceed: Proceed<'_>) -> Result<()> {
    match proceed() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(stopped()),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// The error of every operation that the caller cancelled.
pub(crate) fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "cancelled by the caller")
}
