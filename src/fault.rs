//! What a check of a whole file finds, one at a time: see [`Table::verify`](crate::Table::verify) and
//! [`Dictionary::verify`](crate::Dictionary::verify).

use std::fmt;

/// One thing wrong with a table or a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub place: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
