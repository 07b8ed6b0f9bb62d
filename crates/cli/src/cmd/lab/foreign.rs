//! The user's own hash function, out of a shared object.
//!
//! It runs within this process, so it can do whatever it wants: this is as good and as bad as running any program of the user's.

use crate::failure::{Failure, Result};
use libloading::{Library, Symbol};
use splitpoint::hash::HashFunction;
use std::ffi::c_void;

/// As a C header would have it: `uint64_t hash(const void *key, size_t bytes)`.
type Hash = unsafe extern "C" fn(*const c_void, usize) -> u64;

/// The function at `place`, LIBRARY:SYMBOL, under a name for reports.
///
/// # Errors
/// Not such a place; the library cannot be opened, or lacks the symbol.
pub fn function(name: &str, place: &str) -> Result<HashFunction> {
    let usage = |what: &dyn std::fmt::Display| Failure::usage(format_args!("--function {name}={place}: {what}"));
    let (library, symbol) = place
        .rsplit_once(':')
        .filter(|(library, symbol)| !library.is_empty() && !symbol.is_empty())
        .ok_or_else(|| usage(&"write NAME=LIBRARY.so:SYMBOL"))?;
    #[expect(unsafe_code, reason = "the user's own code is called by its address alone")]
    // SAFETY: code that runs when the library is opened is the user's, as is the choice to run it.
    let library = unsafe { Library::new(library) }.map_err(|error| usage(&error))?;
    #[expect(unsafe_code, reason = "the user's own code is called by its address alone")]
    // SAFETY: that the symbol is a function of this type is the user's word; --help says which.
    let hash: Symbol<'_, Hash> = unsafe { library.get(symbol) }.map_err(|error| usage(&error))?;
    let hash = *hash;
    // The address is good for as long as the library is open: until the process ends.
    std::mem::forget(library);
    Ok(HashFunction::user(name, move |key| {
        #[expect(unsafe_code, reason = "the user's own code is called by its address alone")]
        // SAFETY: the library stays open (above), and `key` has so many bytes; the rest is the user's word.
        unsafe {
            hash(key.as_ptr().cast(), key.len())
        }
    }))
}
