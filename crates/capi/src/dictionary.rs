//! Dictionaries, open for reading.

use crate::arguments::{Buffer, Bytes, In, InArray, InText, Out, OutArray, OutStruct};
use crate::border::border;
use crate::callbacks::{FaultCallback, HashCallback, ProgressCallback};
use crate::handles::{Handle, Object};
use crate::many::{Packed, keys_of};
use crate::memory::{Allocation, NOTHING, with_scratch};
use crate::options::{InOptions, Sized, user_hash_name};
use crate::status::{Failure, IN_USE, NOT_FOUND, OK, Status, TOO_SMALL};
use crate::table::OpenTable;
use crate::upkeep::{NAME_BYTES, name, report};
use splitpoint::dictionary::Compression;
use splitpoint::{Dictionary, DictionaryOptions};
use std::ffi::{c_char, c_int, c_void};
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// `spt_dictionary`.
///
/// The lock is for `reload`, which replaces the dictionary; the `Arc` is for cursors, which borrow it.
pub(crate) struct OpenDictionary(RwLock<Arc<Dictionary>>);

impl Object for OpenDictionary {
    const KIND: usize = 3;
    const NAME: &'static str = "dictionary";
}

/// A dictionary in use by a call.
pub(crate) struct InUse<'d>(RwLockReadGuard<'d, Arc<Dictionary>>);

impl Deref for InUse<'_> {
    type Target = Arc<Dictionary>;

    fn deref(&self) -> &Arc<Dictionary> {
        &self.0
    }
}

impl OpenDictionary {
    pub(crate) fn get(&self) -> InUse<'_> {
        // A panic while it was locked changed nothing: a reload that fails leaves it unchanged.
        InUse(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `spt_dict_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct OpenOptions<'c> {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) hash: InText<'c>,
    pub(crate) user_hash: Option<HashCallback>,
    pub(crate) user_context: *mut c_void,
}

// SAFETY: see the struct; NULL pointers and `None` are zeros.
unsafe impl Sized for OpenOptions<'_> {}

const MAP_DATA: u64 = 1;
const MAP_INDEX: u64 = 2;
const READ_DATA: u64 = 4;

#[unsafe(no_mangle)]
extern "C" fn spt_dict_open(
    path: InText<'_>,
    options: InOptions<'_, OpenOptions<'_>>,
    dictionary: Out<'_, Handle<OpenDictionary>>,
) -> Status {
    border(0, || {
        dictionary.set("the place for the dictionary", Handle::NULL)?;
        let options = options.get()?;
        if options.flags & !(MAP_DATA | MAP_INDEX | READ_DATA) != 0 {
            return Err(Failure::invalid(format!("flags {:#x} have some unknown to this version", options.flags)));
        }
        let is = |flag| options.flags & flag != 0;
        let mut opening = DictionaryOptions::new().map_index(is(MAP_INDEX));
        opening = match (is(MAP_DATA), is(READ_DATA)) {
            (false, false) => opening,
            (map, read) if map != read => opening.map_data(map),
            _ => return Err(Failure::invalid("flags SPT_MAP_DATA and SPT_READ_DATA exclude each other".to_owned())),
        };
        if let Some(function) = options.user_hash {
            opening = opening.user_hash(&user_hash_name(options.hash), function.with(options.user_context));
        }
        let opened = opening.open(path.path()?)?;
        dictionary.set("the place for the dictionary", Handle::open(OpenDictionary(RwLock::new(Arc::new(opened))))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_close(dictionary: Handle<OpenDictionary>) -> Status {
    border(dictionary.number(), || {
        if !dictionary.is_null() {
            drop(dictionary.close()?);
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_reload(dictionary: Handle<OpenDictionary>, changed: Out<'_, c_int>) -> Status {
    border(dictionary.number(), || {
        changed.set_if_wanted(0);
        let mut dictionary = dictionary.shared()?.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(alone) = Arc::get_mut(&mut dictionary) else {
            return Err(Failure::own(IN_USE, "cursors of the dictionary are open: close them first"));
        };
        changed.set_if_wanted(alone.reload()?.into());
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_get(
    dictionary: Handle<OpenDictionary>,
    key: In<'_>,
    key_len: usize,
    buffer: Buffer<'_>,
    capacity: usize,
    value_len: Out<'_, usize>,
) -> Status {
    border(dictionary.number(), || {
        let (dictionary, key, buffer) = (dictionary.shared()?.get(), key.key(key_len)?, buffer.bytes(capacity)?);
        let capacity = buffer.len();
        let found = dictionary.get_to(key, buffer)?;
        value_len.set("the place for the length", found.unwrap_or(0))?;
        Ok(match found {
            None => NOT_FOUND,
            Some(len) if len <= capacity => OK,
            Some(_) => TOO_SMALL,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_get_alloc(
    dictionary: Handle<OpenDictionary>,
    key: In<'_>,
    key_len: usize,
    value: Out<'_, *mut c_void>,
    value_len: Out<'_, usize>,
) -> Status {
    border(dictionary.number(), || {
        value.set("the place for the value", NOTHING)?;
        value_len.set("the place for the length", 0)?;
        let key = key.key(key_len)?;
        with_scratch(|found| {
            if !dictionary.shared()?.get().get_into(key, found)? {
                return Ok(NOT_FOUND);
            }
            value_len.set("the place for the length", found.len())?;
            value.set("the place for the value", Allocation::copy_of(found)?.into_c())?;
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_contains(dictionary: Handle<OpenDictionary>, key: In<'_>, key_len: usize) -> Status {
    border(dictionary.number(), || {
        let found = dictionary.shared()?.get().contains(key.key(key_len)?)?;
        Ok(if found { OK } else { NOT_FOUND })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_get_many(
    dictionary: Handle<OpenDictionary>,
    keys: InArray<'_, Bytes>,
    count: usize,
    values: OutArray<'_, Bytes>,
    memory: Out<'_, *mut c_void>,
) -> Status {
    border(dictionary.number(), || {
        memory.set("the place for the memory", NOTHING)?;
        values.check(count)?;
        let keys = keys_of(keys.get(count)?)?;
        let mut packed = Packed::with_room(count)?;
        dictionary.shared()?.get().get_many_with(&keys, |_, value| packed.push(value))?;
        packed.give(values, memory)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_len(dictionary: Handle<OpenDictionary>, len: Out<'_, u64>) -> Status {
    border(dictionary.number(), || {
        len.set("the place for the number", dictionary.shared()?.get().len())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_check(
    dictionary: Handle<OpenDictionary>,
    function: Option<FaultCallback>,
    context: *mut c_void,
    faults: Out<'_, u64>,
) -> Status {
    border(dictionary.number(), || {
        faults.set_if_wanted(0);
        let (dictionary, _pin) = dictionary.pinned()?;
        let found = dictionary.get().verify()?;
        report(&found, function, context, faults)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_check_with(
    dictionary: Handle<OpenDictionary>,
    threads: u32,
    progress: Option<ProgressCallback>,
    progress_context: *mut c_void,
    function: Option<FaultCallback>,
    context: *mut c_void,
    faults: Out<'_, u64>,
) -> Status {
    border(dictionary.number(), || {
        faults.set_if_wanted(0);
        let (dictionary, _pin) = dictionary.pinned()?;
        let call = ProgressCallback::with(progress, progress_context);
        // Clone the Arc instead of holding the lock, which the caller's function might need.
        let dictionary = Arc::clone(&dictionary.get());
        let found = dictionary.verify_with(threads as usize, |progress| call(progress.bytes, progress.bytes_total))?;
        report(&found, function, context, faults)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_position(
    dictionary: Handle<OpenDictionary>,
    key: In<'_>,
    key_len: usize,
    position: Out<'_, u64>,
) -> Status {
    border(dictionary.number(), || {
        let found = dictionary.shared()?.get().position(key.key(key_len)?);
        position.set("the place for the position", found)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_thaw(dictionary: Handle<OpenDictionary>, table: Handle<OpenTable>, pairs: Out<'_, u64>) -> Status {
    border(dictionary.number(), || {
        pairs.set_if_wanted(0);
        pairs.set_if_wanted(dictionary.shared()?.get().thaw(table.shared()?)?);
        Ok(OK)
    })
}

/// `spt_dict_sizes`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Sizes {
    pub(crate) shards: u64,
    pub(crate) pairs: u64,
    pub(crate) file_bytes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    pub(crate) pages: u64,
    pub(crate) page_bytes: u64,
    pub(crate) index_bytes: u64,
    pub(crate) ranks_bytes: u64,
    pub(crate) index_bits_per_key: f64,
    pub(crate) key_len_min: u64,
    pub(crate) key_len_max: u64,
    pub(crate) value_len_min: u64,
    pub(crate) value_len_max: u64,
    pub(crate) reads: u64,
    pub(crate) seed: u64,
    pub(crate) compression: u32,
    pub(crate) is_fixed_length: u32,
    pub(crate) index: [c_char; NAME_BYTES],
    pub(crate) order: [c_char; NAME_BYTES],
    pub(crate) hash: [c_char; NAME_BYTES],
    pub(crate) filter_bits: u64,
    pub(crate) filter_bytes: u64,
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_stat(dictionary: Handle<OpenDictionary>, sizes: OutStruct<'_, Sizes>, size: usize) -> Status {
    border(dictionary.number(), || {
        let dictionary = dictionary.shared()?.get();
        let stat = dictionary.stat()?;
        let figures = Sizes {
            shards: stat.shards as u64,
            pairs: stat.pairs,
            file_bytes: stat.file_bytes,
            data_bytes: stat.data_bytes,
            key_bytes: stat.key_bytes,
            value_bytes: stat.value_bytes,
            pages: stat.pages,
            page_bytes: stat.page_bytes.into(),
            index_bytes: stat.index_bytes,
            ranks_bytes: stat.ranks_bytes,
            index_bits_per_key: stat.index_bits_per_key,
            key_len_min: stat.key_len.0.into(),
            key_len_max: stat.key_len.1.into(),
            value_len_min: stat.value_len.0.into(),
            value_len_max: stat.value_len.1.into(),
            reads: dictionary.reads(),
            seed: stat.hash_seed,
            compression: u32::from(stat.compression != Compression::None),
            is_fixed_length: stat.fixed_lengths.is_some().into(),
            index: name(stat.index),
            order: name(stat.order),
            hash: name(&stat.hash),
            filter_bits: stat.filter_bits.into(),
            filter_bytes: stat.filter_bytes,
        };
        sizes.set(size, &figures)?;
        Ok(OK)
    })
}
