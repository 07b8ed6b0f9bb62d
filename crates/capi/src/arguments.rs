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

/// `T *`, and how many bytes of a `T` the caller's header knows: a struct of results that grows at its end.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutStruct<'c, T>(*mut T, PhantomData<&'c mut T>);

impl<T: Copy> OutStruct<'_, T> {
    /// Writes the part of `value` that the caller knows, and zeros to what only the caller knows.
    pub(crate) fn set(self, size: usize, value: &T) -> Result<()> {
        // More than any version will have.
        const SIZE_MAX: usize = 4096;
        if self.0.is_null() || size < size_of::<u64>() || size > SIZE_MAX {
            let null = self.0.is_null();
            let what = if null { "the struct is NULL".into() } else { format!("{size} is not the size of the struct") };
            return Err(Failure::invalid(what));
        }
        let known = size.min(size_of::<T>());
        // SAFETY: the caller's struct has `size` bytes. Padding is copied as what it is, bytes nobody reads.
        unsafe { std::ptr::write_bytes(self.0.cast::<u8>(), 0, size) };
        // SAFETY: as above, and `known` is at most what either struct has.
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

/// `T *`: where a result goes.
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
        // SAFETY: not NULL, so the caller passed a place for a `T`; what is there is not read or dropped.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Puts `value` there and returns what was there; `None` for NULL. The caller's promise is that a value is there.
    pub(crate) fn replace(self, value: T) -> Option<T> {
        // SAFETY: not NULL, so the caller passed a place with a `T`.
        (!self.0.is_null()).then(|| unsafe { self.0.replace(value) })
    }

    /// Whether the caller wants the result: the pointer is not NULL.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.0.is_null()
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
        // SAFETY: the caller passed `capacity` bytes that it may write, of memory that only this call uses. That nobody
        // has written them yet is not known to the compiler, for which memory of C has some value. No value is longer
        // than the limit, so that a capacity beyond what memory has does no harm.
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

/// `T *`: a place for each result; their number is another parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct OutArray<'c, T>(*mut T, PhantomData<&'c mut [T]>);

impl<T> OutArray<'_, T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// An error unless there can be `count` places.
    pub(crate) fn check(self, count: usize) -> Result<()> {
        check_count(count, size_of::<T>(), self.0.is_null())
    }

    /// Writes `values` to the first places; the caller has passed at least as many, by `check`.
    pub(crate) fn set(self, values: impl ExactSizeIterator<Item = T>) {
        for (index, value) in values.enumerate() {
            // SAFETY: the caller passed a place for each value; what is there is not read.
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

    /// A key that the caller passed.
    pub(crate) fn key(&self) -> Result<&[u8]> {
        In(self.data, PhantomData).key(self.len)
    }

    /// A value that the caller passed.
    pub(crate) fn value(&self) -> Result<&[u8]> {
        In(self.data, PhantomData).value(self.len)
    }

    /// Bytes for C to read. Never NULL, so that an empty value is not an absent one.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr().cast(), len: bytes.len() }
    }
}
