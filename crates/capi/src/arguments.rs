//! The parameters of the exported functions: C pointers that are checked before they are read or written.
//!
//! This crate never creates an [`In`] or an [`Out`]; only a C caller passes them. By passing one the caller promises
//! what the header requires: during the call the pointer is NULL, or valid for the length passed with it. The methods
//! check what can be checked: NULL, and impossible lengths.

use crate::status::{Failure, Result};
use splitpoint::{ErrorKind, KEY_LEN_MAX, VALUE_LEN_MAX};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// `T *`: a struct of results, which may grow at its end. The caller passes the size that its header knows.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutStruct<'c, T>(*mut T, PhantomData<&'c mut T>);

impl<T: Copy> OutStruct<'_, T> {
    /// Writes the fields of `value` that the caller's header has, and zeros to fields that only the caller's header
    /// has.
    pub(crate) fn set(self, size: usize, value: &T) -> Result<()> {
        // No version will have a larger struct.
        const SIZE_MAX: usize = 4096;
        if self.0.is_null() || size < size_of::<u64>() || size > SIZE_MAX {
            let null = self.0.is_null();
            let what = if null { "the struct is NULL".into() } else { format!("{size} is not the size of the struct") };
            return Err(Failure::invalid(what));
        }
        let known = size.min(size_of::<T>());
        // SAFETY: the caller's struct has `size` bytes. Padding bytes are copied but never read.
        unsafe { std::ptr::write_bytes(self.0.cast::<u8>(), 0, size) };
        // SAFETY: as above, and `known` is at most the size of either struct.
        unsafe { std::ptr::copy_nonoverlapping((value as *const T).cast::<u8>(), self.0.cast::<u8>(), known) };
        Ok(())
    }
}

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

/// `T *`: the location for a result.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<'c, T>(*mut T, PhantomData<&'c mut T>);

impl<T> Out<'_, T> {
    /// Writes `value`; an error for NULL, which `what` names.
    #[inline]
    pub(crate) fn set(self, what: &str, value: T) -> Result<()> {
        if self.0.is_null() {
            return Err(null(what));
        }
        // SAFETY: not NULL, so the caller passed memory for a `T`; its old content is neither read nor dropped.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes `value` and returns the old value; `None` for NULL. The caller promises that there is an old value.
    pub(crate) fn replace(self, value: T) -> Option<T> {
        // SAFETY: not NULL, so the caller passed a pointer to a `T`.
        (!self.0.is_null()).then(|| unsafe { self.0.replace(value) })
    }

    /// Whether the caller wants the result: the pointer is not NULL.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }

    /// Writes `value`, unless the caller passed NULL because it does not want it.
    #[inline]
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write(value) };
        }
    }
}

#[cold]
fn null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is NULL"))
}

/// `void *`: a buffer for a value; its length is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Buffer<'c>(*mut c_void, PhantomData<&'c mut [u8]>);

impl<'c> Buffer<'c> {
    /// The buffer of `capacity` bytes; an empty one for NULL.
    #[inline]
    pub(crate) fn bytes(self, capacity: usize) -> Result<&'c mut [u8]> {
        if self.0.is_null() {
            return Ok(&mut []);
        }
        // SAFETY: the caller passed `capacity` writable bytes that only this call uses. They may be uninitialized, but
        // the compiler cannot know that of C's memory and treats it as having some value. No value is longer than the
        // limit, so a capacity larger than memory does no harm.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.cast(), capacity.min(VALUE_LEN_MAX)) })
    }
}

/// `const T *`: elements to read during the call; their number is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InArray<'c, T>(*const T, PhantomData<&'c [T]>);

impl<'c, T> InArray<'c, T> {
    /// The `count` elements.
    pub(crate) fn get(self, count: usize) -> Result<&'c [T]> {
        check_count(count, size_of::<T>(), self.0.is_null())?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: the caller passed `count` elements at a pointer that is not NULL.
        Ok(unsafe { slice::from_raw_parts(self.0, count) })
    }

    /// The element, or `None` for NULL.
    pub(crate) fn one(self) -> Option<&'c T> {
        // SAFETY: the caller passed NULL or an element.
        unsafe { self.0.as_ref() }
    }
}

/// `T *`: an array for results; its length is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutArray<'c, T>(*mut T, PhantomData<&'c mut [T]>);

impl<T> OutArray<'_, T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Fails if the pointer cannot be to `count` elements.
    pub(crate) fn check(self, count: usize) -> Result<()> {
        check_count(count, size_of::<T>(), self.0.is_null())
    }

    /// Writes `values` to the first elements. `check` was called with at least as many.
    pub(crate) fn set(self, values: impl ExactSizeIterator<Item = T>) {
        for (index, value) in values.enumerate() {
            // SAFETY: the caller passed memory for each value; its old content is not read.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

fn check_count(count: usize, element_bytes: usize, is_null: bool) -> Result<()> {
    match count.checked_mul(element_bytes) {
        Some(bytes) if bytes <= isize::MAX as usize && (count == 0 || !is_null) => Ok(()),
        Some(bytes) if bytes <= isize::MAX as usize => Err(Failure::invalid(format!("the array of {count} is NULL"))),
        _ => Err(Failure::invalid(format!("an array of {count} elements, more than any memory has"))),
    }
}

/// `spt_bytes`: bytes and their length.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes {
    pub(crate) data: *const c_void,
    pub(crate) len: usize,
}

impl Bytes {
    pub(crate) const NONE: Bytes = Bytes { data: std::ptr::null(), len: 0 };

    /// The bytes as a key passed by the caller.
    pub(crate) fn key(&self) -> Result<&[u8]> {
        In(self.data, PhantomData).key(self.len)
    }

    /// The bytes as a value passed by the caller.
    pub(crate) fn value(&self) -> Result<&[u8]> {
        In(self.data, PhantomData).value(self.len)
    }

    /// Bytes for C to read. Never NULL, so that an empty value differs from an absent one.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr().cast(), len: bytes.len() }
    }
}
