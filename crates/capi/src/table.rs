//! Tables: open, close, look up and change single pairs.

use crate::arguments::{Buffer, Bytes, In, InArray, InText, Out};
use crate::border::border;
use crate::callbacks::UpdateCallback;
use crate::handles::{Handle, Object};
use crate::memory::{Allocation, NOTHING};
use crate::options::{InOptions, Options};
use crate::status::{DIFFERS, EXISTS, Failure, NOT_FOUND, OK, Result, Status, TOO_SMALL};
use splitpoint::{Table, TableOptions};
use std::ffi::c_void;
use std::ops::Deref;

/// `spt_table`.
pub(crate) struct OpenTable(Table);

impl Object for OpenTable {
    const KIND: usize = 0;
    const NAME: &'static str = "table";
}

impl Deref for OpenTable {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        &self.0
    }
}

impl OpenTable {
    /// The hash of `key` in this table.
    pub(crate) fn hash_of(&self, key: &[u8]) -> u64 {
        self.0.hash_function().hash(key)
    }
}

/// Opens a table with `open`, and returns its handle to the caller.
fn open_table(
    options: InOptions<'_, Options<'_>>,
    table: Out<'_, Handle<OpenTable>>,
    open: impl FnOnce(&Options<'_>, TableOptions) -> Result<Table>,
) -> Status {
    border(0, || {
        table.set("the place for the table", Handle::NULL)?;
        let options = options.get()?;
        let opened = open(&options, options.build()?)?;
        table.set("the place for the table", Handle::open(OpenTable(opened))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_open(
    path: InText<'_>,
    options: InOptions<'_, Options<'_>>,
    table: Out<'_, Handle<OpenTable>>,
) -> Status {
    open_table(options, table, |_, opening| Ok(opening.open(path.path()?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_open_in_memory(options: InOptions<'_, Options<'_>>, table: Out<'_, Handle<OpenTable>>) -> Status {
    open_table(options, table, |_, opening| Ok(opening.in_memory()?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_newer(table: Handle<OpenTable>, newer: Out<'_, Handle<OpenTable>>) -> Status {
    border(table.number(), || {
        newer.set("the place for the table", Handle::NULL)?;
        if let Some(found) = table.shared()?.newer()? {
            newer.set("the place for the table", Handle::open(OpenTable(found))?)?;
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_types(table: Handle<OpenTable>, buffer: Buffer<'_>, capacity: usize, len: Out<'_, usize>) -> Status {
    border(table.number(), || {
        let (types, buffer) = (table.shared()?.types(), buffer.bytes(capacity)?);
        len.set("the place for the length", types.len())?;
        let Some(place) = buffer.get_mut(..=types.len()) else { return Ok(TOO_SMALL) };
        let (names, end) = place.split_at_mut(types.len());
        names.copy_from_slice(types.as_bytes());
        end.fill(0);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_record_types(table: Handle<OpenTable>, types: InText<'_>) -> Status {
    border(table.number(), || {
        let types = types.get().ok_or_else(|| Failure::invalid("the types are NULL"))?;
        let types = types.to_str().map_err(|_| Failure::invalid("the types are not UTF-8"))?;
        table.shared()?.record_types(types)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_close(table: Handle<OpenTable>) -> Status {
    border(table.number(), || {
        if !table.is_null() {
            table.close()?.0.close()?;
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_get(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    buffer: Buffer<'_>,
    capacity: usize,
    value_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        let (table, key, buffer) = (table.shared()?, key.key(key_len)?, buffer.bytes(capacity)?);
        let capacity = buffer.len();
        let found = table.get_to(key, buffer)?;
        value_len.set("the place for the length", found.unwrap_or(0))?;
        Ok(match found {
            None => NOT_FOUND,
            Some(len) if len <= capacity => OK,
            Some(_) => TOO_SMALL,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_get_alloc(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    value: Out<'_, *mut c_void>,
    value_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        value.set("the place for the value", NOTHING)?;
        value_len.set("the place for the length", 0)?;
        let found = table.shared()?.get_ref(key.key(key_len)?)?;
        let Some(found) = found else { return Ok(NOT_FOUND) };
        value_len.set("the place for the length", found.len())?;
        value.set("the place for the value", Allocation::copy_of(&found)?.into_c())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_contains(table: Handle<OpenTable>, key: In<'_>, key_len: usize) -> Status {
    border(table.number(), || Ok(if table.shared()?.contains(key.key(key_len)?)? { OK } else { NOT_FOUND }))
}

#[unsafe(no_mangle)]
extern "C" fn spt_put(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    border(table.number(), || {
        table.shared()?.put(key.key(key_len)?, value.value(value_len)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_insert_new(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    border(table.number(), || {
        let stored = table.shared()?.insert_new(key.key(key_len)?, value.value(value_len)?)?;
        Ok(if stored { OK } else { EXISTS })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_append(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    tail: In<'_>,
    tail_len: usize,
    value_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        let len = table.shared()?.append(key.key(key_len)?, tail.value(tail_len)?)?;
        value_len.set_if_wanted(len);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_remove(table: Handle<OpenTable>, key: In<'_>, key_len: usize) -> Status {
    border(table.number(), || Ok(if table.shared()?.remove(key.key(key_len)?)? { OK } else { NOT_FOUND }))
}

#[unsafe(no_mangle)]
extern "C" fn spt_clear(table: Handle<OpenTable>) -> Status {
    border(table.number(), || {
        table.shared()?.clear()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_len(table: Handle<OpenTable>, len: Out<'_, u64>) -> Status {
    border(table.number(), || {
        len.set("the place for the number", table.shared()?.len())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_replace(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
    old: Out<'_, *mut c_void>,
    old_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        old.set("the place for the old value", NOTHING)?;
        old_len.set("the place for the old length", 0)?;
        let Some(replaced) = table.shared()?.replace(key.key(key_len)?, value.value(value_len)?)? else {
            return Ok(OK);
        };
        old_len.set("the place for the old length", replaced.len())?;
        old.set("the place for the old value", Allocation::copy_of(&replaced)?.into_c())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_compare_and_set(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    expected: InArray<'_, Bytes>,
    new: InArray<'_, Bytes>,
) -> Status {
    border(table.number(), || {
        let expected = expected.one().map(Bytes::value).transpose()?;
        let new = new.one().map(Bytes::value).transpose()?;
        let set = table.shared()?.compare_and_set(key.key(key_len)?, expected, new)?;
        Ok(if set { OK } else { DIFFERS })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_update(
    table: Handle<OpenTable>,
    key: In<'_>,
    key_len: usize,
    function: Option<UpdateCallback>,
    context: *mut c_void,
) -> Status {
    border(table.number(), || {
        let function = UpdateCallback::required(function)?;
        let (table, _pin) = table.pinned()?;
        let present = table.update(key.key(key_len)?, function.with(context))?;
        Ok(if present { OK } else { NOT_FOUND })
    })
}
