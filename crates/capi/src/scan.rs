//! Cursors: walks over the pairs of a table or a dictionary.

use crate::arguments::{Bytes, Out};
use crate::border::border;
use crate::handles::{Handle, Object, Pin};
use crate::status::{END, Failure, OK, Result, Status};
use splitpoint::{Scan, Table};
use std::ffi::c_int;

/// `spt_cursor`.
pub(crate) struct Cursor {
    // In this order: the walk is dropped before the table may be closed.
    walk: Walk,
    _table: Pin,
}

pub(crate) enum Walk {
    Table(Scan<'static>),
}

impl Object for Cursor {
    const KIND: usize = 1;
    const NAME: &'static str = "cursor";
}

impl Cursor {
    fn scan(&self) -> &Scan<'static> {
        match &self.walk {
            Walk::Table(scan) => scan,
        }
    }
}

/// Opens a cursor on a table.
fn scan(
    table: Handle<Table>,
    cursor: Out<'_, Handle<Cursor>>,
    walk: impl FnOnce(&'static Table) -> Result<Walk>,
) -> Status {
    border(table.number(), || {
        cursor.set("the place for the cursor", Handle::NULL)?;
        let (table, pin) = table.pinned()?;
        let opened = Handle::open(Cursor { walk: walk(table)?, _table: pin })?;
        cursor.set("the place for the cursor", opened)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_scan(table: Handle<Table>, position: u64, cursor: Out<'_, Handle<Cursor>>) -> Status {
    scan(table, cursor, |table| Ok(Walk::Table(table.scan_from(position))))
}

#[unsafe(no_mangle)]
extern "C" fn spt_scan_prefix(table: Handle<Table>, prefix: u64, bits: u32, cursor: Out<'_, Handle<Cursor>>) -> Status {
    scan(table, cursor, |table| match bits {
        0..=64 => Ok(Walk::Table(table.scan_prefix(prefix, bits))),
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
        let scan = cursor.scan();
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
