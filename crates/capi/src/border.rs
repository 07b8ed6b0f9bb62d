//! The border: the wrapper of every exported function that can fail.
//!
//! It catches panics, which must not reach C, turns errors into codes, and keeps their messages for the thread.

use crate::callbacks::Abandoned;
use crate::status::{Failure, INTERNAL, Result, Status, remember};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` for a call with `handle`; 0 for a call without a handle.
#[inline]
pub(crate) fn border(handle: usize, f: impl FnOnce() -> Result<Status>) -> Status {
    // Only the library's own state could be left half changed, and it expects panics of a user's hash function.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => failed(handle, failure),
        Err(panic) => panicked(handle, panic),
    }
}

#[cold]
fn failed(handle: usize, failure: Failure) -> Status {
    remember(handle, failure)
}

#[cold]
fn panicked(handle: usize, panic: Box<dyn Any + Send>) -> Status {
    let panic = match panic.downcast::<Abandoned>() {
        Ok(abandoned) => return remember(handle, abandoned.0),
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    remember(handle, Failure::own(INTERNAL, format!("a bug in splitpoint, please report it: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code() {
        assert_eq!(border(1, || panic!("as if of ours")), INTERNAL);
        assert_eq!(border(1, || panic!("formatted {}", 1)), INTERNAL);
    }
}
