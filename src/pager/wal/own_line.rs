//! Values that every writer changes, each on cache lines that nothing else is on.

use std::ops::Deref;

/// On two lines of its own, since processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
