//! `spt_options`: how a table is opened.
//!
//! The struct grows at its end, and zero in a new field always means the behavior of a library without that field. So a
//! struct shorter than ours is extended with zeros. A longer one, from a program newer than the library, is accepted
//! if the rest is zeros.

use crate::arguments::InText;
use crate::callbacks::HashCallback;
use crate::status::{Failure, Result};
use splitpoint::{Durability, HashKind, TableOptions};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// A C struct that begins with its size, and for which all zeros are a legal value.
///
/// # Safety
/// The type is `repr(C)` without padding, its first field is `size: usize`, and all zero bytes are a valid value.
pub(crate) unsafe trait Sized: Copy {}

/// `const spt_..._options *`, or NULL for the defaults.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct InOptions<'c, T>(*const T, PhantomData<&'c T>);

impl<'c, T: Sized> InOptions<'c, T> {
    /// The options, with zeros for NULL and for fields that the caller's header does not have.
    pub(crate) fn get(self) -> Result<T> {
        let mut options = MaybeUninit::<T>::zeroed();
        if self.0.is_null() {
            // SAFETY: the trait guarantees that all zeros are a valid value.
            return Ok(unsafe { options.assume_init() });
        }
        // SAFETY: the caller passed a struct that begins with its size.
        let size = unsafe { self.0.cast::<usize>().read() };
        let known = size_of::<T>();
        // No version will be larger than a page; a size that was not set is often 0 or large.
        if size < size_of::<usize>() || size > 4096 {
            let what = format!("the options' size is {size}: set it, best by the macro ..._INIT");
            return Err(Failure::invalid(what));
        }
        // SAFETY: the caller's struct has `size` bytes, and ours has `known`.
        unsafe { ptr::copy_nonoverlapping(self.0.cast::<u8>(), options.as_mut_ptr().cast(), size.min(known)) };
        let beyond = (known..size).map(|at| {
            // SAFETY: within the `size` bytes of the caller's struct.
            unsafe { self.0.cast::<u8>().add(at).read() }
        });
        if beyond.into_iter().any(|byte| byte != 0) {
            let what =
                format!("options of {size} bytes, this version knows {known}: the program needs a newer library");
            return Err(Failure::invalid(what));
        }
        // SAFETY: it consists of zeros and of bytes of a struct of this type.
        Ok(unsafe { options.assume_init() })
    }
}

/// `spt_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Options<'c> {
    pub(crate) size: usize,
    pub(crate) flags: u32,
    pub(crate) durability: u32,
    pub(crate) page_bytes: u32,
    pub(crate) fill_factor: u32,
    pub(crate) fill_percent: u32,
    pub(crate) mode: u32,
    pub(crate) expected_len: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) log_bytes: u64,
    pub(crate) hash: InText<'c>,
    pub(crate) seed: *const u64,
    pub(crate) user_hash: Option<HashCallback>,
    pub(crate) user_context: *mut c_void,
}

// SAFETY: see the struct; NULL pointers and `None` are zeros.
unsafe impl Sized for Options<'_> {}

const READ_ONLY: u32 = 1;
const NO_CREATE: u32 = 2;
const CREATE_NEW: u32 = 4;
const PUBLISH_COUNTERS: u32 = 8;
const CHECKPOINT_ONLY: u32 = 16;

impl Options<'_> {
    /// Converts to the options of the Rust library.
    pub(crate) fn build(&self) -> Result<TableOptions> {
        let known = READ_ONLY | NO_CREATE | CREATE_NEW | PUBLISH_COUNTERS | CHECKPOINT_ONLY;
        if self.flags & !known != 0 {
            return Err(Failure::invalid(format!("flags {:#x} are unknown to this version", self.flags & !known)));
        }
        let is = |flag| self.flags & flag != 0;
        let mut options = TableOptions::new()
            .read_only(is(READ_ONLY))
            .checkpoint_only(is(CHECKPOINT_ONLY))
            .create(!is(NO_CREATE))
            .create_new(is(CREATE_NEW))
            .publish_counters(is(PUBLISH_COUNTERS))
            .expected_len(self.expected_len)
            .durability(durability_of(self.durability)?);
        if self.page_bytes != 0 {
            options = options.page_bytes(self.page_bytes);
        }
        if self.fill_factor != 0 {
            options = options.fill_factor(self.fill_factor);
        }
        if self.fill_percent != 0 {
            options = options.fill_percent(self.fill_percent);
        }
        if self.cache_bytes != 0 {
            options = options.cache_bytes(self.cache_bytes);
        }
        if self.log_bytes != 0 {
            options = options.log_bytes(self.log_bytes);
        }
        if self.mode & !0o777 != 0 {
            return Err(Failure::invalid(format!("mode is {:#o}, expected permissions, 0 to 0777", self.mode)));
        }
        if self.mode != 0 {
            options = options.permissions(self.mode);
        }
        // SAFETY: the caller passed NULL or a pointer to a number.
        if let Some(&seed) = unsafe { self.seed.as_ref() } {
            options = options.seed(seed);
        }
        match (self.user_hash, self.hash.get()) {
            (Some(function), _) => {
                options = options.user_hash(&user_hash_name(self.hash), function.with(self.user_context));
            }
            (None, Some(name)) => options = options.hash(hash_named(&name.to_string_lossy())?),
            (None, None) => {}
        }
        Ok(options)
    }
}

/// The durability with this number; 0 is the default.
pub(crate) fn durability_of(number: u32) -> Result<Durability> {
    match number {
        0 | 2 => Ok(Durability::Os),
        1 => Ok(Durability::None),
        3 => Ok(Durability::Sync),
        other => Err(Failure::invalid(format!("durability is {other}, expected SPT_DURABILITY_..."))),
    }
}

/// The name of the caller's own hash function.
pub(crate) fn user_hash_name(name: InText<'_>) -> String {
    name.get().map_or("user".into(), |name| name.to_string_lossy().into_owned())
}

/// The hash function with this name.
pub(crate) fn hash_named(name: &str) -> Result<HashKind> {
    HashKind::from_name(name).filter(|&kind| kind != HashKind::User).ok_or_else(|| {
        let names: Vec<_> = HashKind::ALL.iter().map(|kind| kind.name()).collect();
        Failure::invalid(format!(
            "no hash function is named \"{}\": choose from {}",
            name.escape_default(),
            names.join(", ")
        ))
    })
}
