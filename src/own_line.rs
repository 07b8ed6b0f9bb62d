//! Cache lines of their own for values that many threads change.
//!
//! A line that another processor has changed takes as long to load as one from memory. So fields that are mostly read
//! must not share a line with a lock or a counter. Not here: which values need this; each owner wraps its own.

use std::ops::Deref;

/// A value that shares its cache lines with no other. Takes two lines, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
