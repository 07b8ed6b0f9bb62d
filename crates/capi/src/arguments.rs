//! The parameters of the exported functions: pointers of C, read and written only after checks.
//!
//! Nothing in this crate makes an [`In`] or an [`Out`]; a C caller passes them, and promises with that what the header
//! asks for: the pointer is NULL, or valid for the length that is passed with it while the call runs. The methods check
//! what can be checked: NULL, and lengths that no memory has.

use crate::status::{Failure, Result};
use splitpoint::{ErrorKind, KEY_LEN_MAX, VALUE_LEN_MAX};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// `const char *` that is returned, and lives as the header says.
#[repr(transparent)]
pub(crate) struct Text(pub *const c_char);

/// `const void *`: bytes to read during the call; their length is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<'c>(*const c_void, PhantomData<&'c [u8]>);

impl<'c> In<'c> {
    /// A key of `len` bytes.
    #[inline]
    pub(crate) fn key(self, len: usize) -> Result<&'c [u8]> {
        self.bytes("key", len, KEY_LEN_MAX)
    }

    /// A value of `len` bytes.
    #[inline]
    pub(crate) fn value(self, len: usize) -> Result<&'c [u8]> {
        self.bytes("value", len, VALUE_LEN_MAX)
    }

    #[inline]
    fn bytes(self, what: &str, len: usize, max: usize) -> Result<&'c [u8]> {
        if self.0.is_null() || len > max {
            return self.unusual(what, len);
        }
        // SAFETY: the caller passed `len` readable bytes at a pointer that is not NULL, and `len` is below isize::MAX.
        Ok(unsafe { slice::from_raw_parts(self.0.cast(), len) })
    }

    #[cold]
    fn unusual(self, what: &str, len: usize) -> Result<&'c [u8]> {
        match len {
            0 => Ok(&[]),
            _ if len > isize::MAX as usize => {
                Err(Failure::invalid(format!("the {what}'s length is {len}, more than any memory; a negative number?")))
            }
            _ if self.0.is_null() => Err(Failure::invalid(format!("the {what} is NULL, its length is {len}"))),
            _ => Err(Failure::kind(
                ErrorKind::TooLong,
                format!("a {what} of {len} bytes, at most 4294967295 are possible"),
            )),
        }
    }
}

/// `const char *`: a string that ends with a zero byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InText<'c>(*const c_char, PhantomData<&'c CStr>);

impl<'c> InText<'c> {
    /// The string; `None` for NULL.
    pub(crate) fn get(self) -> Option<&'c CStr> {
        // SAFETY: the caller passed NULL or a string.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    /// A path, which is not NULL.
    pub(crate) fn path(self) -> Result<&'c Path> {
        let path = self.get().ok_or_else(|| Failure::invalid("the path is NULL"))?;
        Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
    }
}

/// `T *`: where a result goes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<'c, T>(*mut T, PhantomData<&'c mut T>);

impl<T> Out<'_, T> {
    /// Writes `value`; an error for NULL, which `what` names.
    #[inline]
    pub(crate) fn set(self, what: &str, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(Failure::invalid(format!("{what} is NULL")));
        }
        // SAFETY: not NULL, so the caller passed a place for a `T`; what is there is not read or dropped.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes `value`, unless the caller does not want it and passed NULL.
    #[inline]
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write(value) };
        }
    }
}

/// `void *`: a buffer for a value; its length is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Buffer<'c>(*mut c_void, PhantomData<&'c mut [u8]>);

impl Buffer<'_> {
    /// Copies `value` to the buffer of `capacity` bytes; `false` if it is too small.
    #[inline]
    pub(crate) fn copy(self, capacity: usize, value: &[u8]) -> bool {
        if value.len() > capacity || self.0.is_null() && !value.is_empty() {
            return false;
        }
        if !value.is_empty() {
            // SAFETY: the caller passed `capacity` writable bytes, which `value` does not exceed; `value` is memory of
            // the library, which the caller has no pointer to.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), self.0.cast(), value.len()) };
        }
        true
    }
}

/// `spt_bytes`: bytes and their length.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    data: *const c_void,
    len: usize,
}

impl Bytes {
    pub(crate) const NONE: Bytes = Bytes { data: std::ptr::null(), len: 0 };

    /// Bytes for C to read. Never NULL, so that an empty value is not an absent one.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr().cast(), len: bytes.len() }
    }
}
