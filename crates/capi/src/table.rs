//! Tables: open, close, lookups, changes of single pairs.

use crate::arguments::{Buffer, In, InText, Out};
use crate::border::border;
use crate::handles::{Handle, Object};
use crate::memory::{Allocation, NOTHING};
use crate::options::{InOptions, Options};
use crate::status::{EXISTS, NOT_FOUND, OK, Result, Status, TOO_SMALL};
use splitpoint::{Table, TableOptions};
use std::cell::Cell;
use std::ffi::c_void;

impl Object for Table {
    const KIND: usize = 0;
    const NAME: &'static str = "table";
}

/// Opens a handle by `open`, and gives it to the caller.
fn open_table(
    options: InOptions<'_, Options<'_>>,
    table: Out<'_, Handle<Table>>,
    open: impl FnOnce(TableOptions) -> Result<Table>,
) -> Status {
    border(0, || {
        table.set("the place for the table", Handle::NULL)?;
        let opened = open(options.get()?.build()?)?;
        table.set("the place for the table", Handle::open(opened)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_open(path: InText<'_>, options: InOptions<'_, Options<'_>>, table: Out<'_, Handle<Table>>) -> Status {
    open_table(options, table, |options| Ok(options.open(path.path()?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_open_in_memory(options: InOptions<'_, Options<'_>>, table: Out<'_, Handle<Table>>) -> Status {
    open_table(options, table, |options| Ok(options.in_memory()?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_close(table: Handle<Table>) -> Status {
    border(table.number(), || {
        if !table.is_null() {
            table.close()?.close()?;
        }
        Ok(OK)
    })
}

thread_local! {
    /// Where a value is while it is copied to the caller's buffer. Taken out while in use: a hash function of the caller
    /// may call the library.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Larger values do not keep their memory.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

/// Calls `f` with an empty buffer that keeps its memory for the next call.
#[inline]
pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
    let result = f(&mut scratch);
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        // A destructor of the thread may call us when the buffer is gone.
        let _ = SCRATCH.try_with(|place| place.set(scratch));
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn spt_get(
    table: Handle<Table>,
    key: In<'_>,
    key_len: usize,
    buffer: Buffer<'_>,
    capacity: usize,
    value_len: Out<'_, usize>,
) -> Status {
    border(table.number(), || {
        let (table, key) = (table.shared()?, key.key(key_len)?);
        with_scratch(|value| {
            let found = table.get_into(key, value)?;
            value_len.set("the place for the length", value.len())?;
            Ok(match found {
                false => NOT_FOUND,
                true if buffer.copy(capacity, value) => OK,
                true => TOO_SMALL,
            })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_get_alloc(
    table: Handle<Table>,
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
extern "C" fn spt_contains(table: Handle<Table>, key: In<'_>, key_len: usize) -> Status {
    border(table.number(), || Ok(if table.shared()?.contains(key.key(key_len)?)? { OK } else { NOT_FOUND }))
}

#[unsafe(no_mangle)]
extern "C" fn spt_put(table: Handle<Table>, key: In<'_>, key_len: usize, value: In<'_>, value_len: usize) -> Status {
    border(table.number(), || {
        table.shared()?.put(key.key(key_len)?, value.value(value_len)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_insert(table: Handle<Table>, key: In<'_>, key_len: usize, value: In<'_>, value_len: usize) -> Status {
    border(table.number(), || {
        let stored = table.shared()?.insert(key.key(key_len)?, value.value(value_len)?)?;
        Ok(if stored { OK } else { EXISTS })
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_append(
    table: Handle<Table>,
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
extern "C" fn spt_remove(table: Handle<Table>, key: In<'_>, key_len: usize) -> Status {
    border(table.number(), || Ok(if table.shared()?.remove(key.key(key_len)?)? { OK } else { NOT_FOUND }))
}

#[unsafe(no_mangle)]
extern "C" fn spt_clear(table: Handle<Table>) -> Status {
    border(table.number(), || {
        table.shared()?.clear()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_len(table: Handle<Table>, len: Out<'_, u64>) -> Status {
    border(table.number(), || {
        len.set("the place for the number", table.shared()?.len())?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_sync(table: Handle<Table>) -> Status {
    border(table.number(), || {
        table.shared()?.sync()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_checkpoint(table: Handle<Table>) -> Status {
    border(table.number(), || {
        table.shared()?.checkpoint()?;
        Ok(OK)
    })
}
