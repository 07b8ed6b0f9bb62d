//! The faults that a check of a whole file finds: see [`Table::verify`](crate::Table::verify) and
//! [`Dictionary::verify`](crate::Dictionary::verify).

use std::fmt;

/// A fault of a table or a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it is.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
