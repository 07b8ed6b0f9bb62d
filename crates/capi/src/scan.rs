//! Cursors: walks over the pairs of a table or a dictionary.

use crate::arguments::{Bytes, Out};
use crate::border::border;
use crate::dictionary::OpenDictionary;
use crate::handles::{Handle, Object, Pin};
use crate::status::{END, Failure, OK, Result, Status};
use crate::table::OpenTable;
use splitpoint::dictionary::Pairs;
use splitpoint::{Dictionary, Scan};
use std::ffi::c_int;
use std::sync::Arc;

/// `spt_cursor`.
pub(crate) struct Cursor {
    // Field order matters: the walk is dropped before the table may be closed.
    walk: Walk,
    _pin: Pin,
}

enum Walk {
    Table(Box<Scan<'static>>),
    /// The pairs, and the dictionary that they borrow from.
    Dictionary(Box<Pairs<'static>>, #[expect(dead_code, reason = "kept")] Arc<Dictionary>),
}

impl Object for Cursor {
    const KIND: usize = 1;
    const NAME: &'static str = "cursor";
}

/// Opens a cursor on a table.
fn scan(
    table: Handle<OpenTable>,
    cursor: Out<'_, Handle<Cursor>>,
    walk: impl FnOnce(&'static OpenTable) -> Result<Walk>,
) -> Status {
    border(table.number(), || {
        cursor.set("the place for the cursor", Handle::NULL)?;
        let (table, pin) = table.pinned()?;
        let opened = Handle::open(Cursor { walk: walk(table)?, _pin: pin })?;
        cursor.set("the place for the cursor", opened)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_scan(table: Handle<OpenTable>, position: u64, cursor: Out<'_, Handle<Cursor>>) -> Status {
    scan(table, cursor, |table| Ok(Walk::Table(Box::new(table.scan_from(position)))))
}

#[unsafe(no_mangle)]
extern "C" fn spt_scan_prefix(
    table: Handle<OpenTable>,
    prefix: u64,
    bits: u32,
    cursor: Out<'_, Handle<Cursor>>,
) -> Status {
    scan(table, cursor, |table| match bits {
        0..=64 => Ok(Walk::Table(Box::new(table.scan_prefix(prefix, bits)))),
        _ => Err(Failure::invalid(format!("bits is {bits}, expected 0 to 64"))),
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_cursor_next(cursor: Handle<Cursor>, key: Out<'_, Bytes>, value: Out<'_, Bytes>) -> Status {
    border(cursor.number(), || {
        key.set_if_wanted(Bytes::NONE);
        value.set_if_wanted(Bytes::NONE);
        let mut cursor = cursor.exclusive()?;
        let next = match &mut cursor.walk {
            Walk::Table(scan) => scan.next_ref()?,
            Walk::Dictionary(pairs, _) => pairs.next_ref()?,
        };
        let Some((next_key, next_value)) = next else { return Ok(END) };
        key.set_if_wanted(Bytes::of(next_key));
        value.set_if_wanted(Bytes::of(next_value));
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_cursor_position(cursor: Handle<Cursor>, position: Out<'_, u64>, boundary: Out<'_, c_int>) -> Status {
    border(cursor.number(), || {
        let cursor = cursor.exclusive()?;
        let Walk::Table(scan) = &cursor.walk else {
            return Err(Failure::invalid("a cursor on a dictionary has no position"));
        };
        boundary.set_if_wanted(scan.at_boundary().into());
        let Some(at) = scan.cursor() else { return Ok(END) };
        position.set("the place for the position", at)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_cursor_close(cursor: Handle<Cursor>) -> Status {
    border(cursor.number(), || {
        if !cursor.is_null() {
            drop(cursor.close()?);
        }
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_scan(dictionary: Handle<OpenDictionary>, cursor: Out<'_, Handle<Cursor>>) -> Status {
    spt_dict_range(dictionary, 0, u64::MAX, cursor)
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_range(
    dictionary: Handle<OpenDictionary>,
    first: u64,
    last: u64,
    cursor: Out<'_, Handle<Cursor>>,
) -> Status {
    border(dictionary.number(), || {
        cursor.set("the place for the cursor", Handle::NULL)?;
        let (dictionary, pin) = dictionary.pinned()?;
        let dictionary = Arc::clone(&dictionary.get());
        // SAFETY: the cursor keeps this Arc, and drops the pairs before it. The value in an Arc does not move, and
        // `spt_dict_reload` changes it only if there is no other Arc.
        let borrowed = unsafe { &*Arc::as_ptr(&dictionary) };
        let walk = Walk::Dictionary(Box::new(borrowed.range(first..=last)), dictionary);
        cursor.set("the place for the cursor", Handle::open(Cursor { walk, _pin: pin })?)?;
        Ok(OK)
    })
}
