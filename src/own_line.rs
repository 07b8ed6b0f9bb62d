//! Values that many threads change, on cache lines that nothing else is on: a line that another processor has changed
//! takes as long as one from memory, so what is only read must not be beside them.

use std::ops::Deref;

/// On two lines of its own, since processors fetch lines in pairs.
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
