//! Loads the user's own hash function from a shared object.
//!
//! The function runs in this process without a sandbox: loading it is as safe as running any program of the user.

use crate::failure::{Failure, Result};
use libloading::{Library, Symbol};
use splitpoint::hash::HashFunction;
use std::error::Error;
use std::ffi::c_void;
use std::path::Path;

/// The C declaration: `uint64_t hash(const void *key, size_t bytes)`.
type Hash = unsafe extern "C" fn(*const c_void, usize) -> u64;

/// Loads the function at `place`, which is LIBRARY:SYMBOL; reports show it as `name`.
///
/// # Errors
/// `place` has another form, or the library cannot be loaded, or lacks the symbol.
pub fn function(name: &str, place: &str) -> Result<HashFunction> {
    let usage = |what: &dyn std::fmt::Display| Failure::usage(format_args!("--function {name}={place}: {what}"));
    let (library, symbol) = place
        .rsplit_once(':')
        .filter(|(library, symbol)| !library.is_empty() && !symbol.is_empty())
        .ok_or_else(|| usage(&"write NAME=LIBRARY.so:SYMBOL"))?;
    // The system looks for a name without a slash among its own libraries.
    let here = !library.contains('/') && Path::new(library).is_file();
    let library = if here { format!("./{library}") } else { library.to_owned() };
    #[expect(unsafe_code, reason = "calls the user's own code")]
    // SAFETY: the user chose to run the initialization code of this library, with the option described in --help.
    let library = unsafe { Library::new(&*library) }.map_err(|error| usage(&cause(&error)))?;
    #[expect(unsafe_code, reason = "calls the user's own code")]
    // SAFETY: --help requires that the symbol is a function of this type; that cannot be checked.
    let hash: Symbol<'_, Hash> = unsafe { library.get(symbol) }.map_err(|error| usage(&cause(&error)))?;
    let hash = *hash;
    // Never unloaded, so the address stays valid until the process ends.
    std::mem::forget(library);
    Ok(HashFunction::user(name, move |key| {
        #[expect(unsafe_code, reason = "calls the user's own code")]
        // SAFETY: the library stays loaded (`forget` above), and `key` points to `key.len()` bytes.
        unsafe {
            hash(key.as_ptr().cast(), key.len())
        }
    }))
}

/// Returns the system's message, which libloading hides behind its own.
fn cause(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
