//! Batches: changes that are made atomically.

use crate::arguments::{In, Out};
use crate::border::border;
use crate::callbacks::UpdateCallback;
use crate::handles::{Handle, Object, Pin};
use crate::options::durability_of;
use crate::status::{OK, Result, Status};
use crate::table::OpenTable;
use splitpoint::Batch;
use std::ffi::c_void;

/// `spt_batch`.
struct OpenBatch {
    // Field order matters: the batch is dropped before the table may be closed.
    batch: Batch<'static>,
    _table: Pin,
}

impl Object for OpenBatch {
    const KIND: usize = 2;
    const NAME: &'static str = "batch";
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_begin(table: Handle<OpenTable>, batch: Out<'_, Handle<OpenBatch>>) -> Status {
    begin(table, batch, |table| Ok(table.batch()))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_begin_with(
    table: Handle<OpenTable>,
    durability: u32,
    batch: Out<'_, Handle<OpenBatch>>,
) -> Status {
    begin(table, batch, |table| match durability {
        0 => Ok(table.batch()),
        durability => Ok(table.with(durability_of(durability)?).batch()),
    })
}

fn begin(
    table: Handle<OpenTable>,
    batch: Out<'_, Handle<OpenBatch>>,
    begun: impl FnOnce(&'static OpenTable) -> Result<Batch<'static>>,
) -> Status {
    border(table.number(), || {
        batch.set("the place for the batch", Handle::NULL)?;
        let (table, pin) = table.pinned()?;
        batch.set("the place for the batch", Handle::open(OpenBatch { batch: begun(table)?, _table: pin })?)?;
        Ok(OK)
    })
}

/// Adds a change to a batch.
fn add(batch: Handle<OpenBatch>, change: impl FnOnce(&mut Batch<'static>) -> Result<()>) -> Status {
    border(batch.number(), || change(&mut batch.exclusive()?.batch).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_put(
    batch: Handle<OpenBatch>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    add(batch, |batch| Ok(batch.put(key.key(key_len)?, value.value(value_len)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_insert_new(
    batch: Handle<OpenBatch>,
    key: In<'_>,
    key_len: usize,
    value: In<'_>,
    value_len: usize,
) -> Status {
    add(batch, |batch| Ok(batch.insert_new(key.key(key_len)?, value.value(value_len)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_append(
    batch: Handle<OpenBatch>,
    key: In<'_>,
    key_len: usize,
    tail: In<'_>,
    tail_len: usize,
) -> Status {
    add(batch, |batch| Ok(batch.append(key.key(key_len)?, tail.value(tail_len)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_remove(batch: Handle<OpenBatch>, key: In<'_>, key_len: usize) -> Status {
    add(batch, |batch| Ok(batch.remove(key.key(key_len)?)?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_update(
    batch: Handle<OpenBatch>,
    key: In<'_>,
    key_len: usize,
    function: Option<UpdateCallback>,
    context: *mut c_void,
) -> Status {
    add(batch, |batch| Ok(batch.update(key.key(key_len)?, UpdateCallback::required(function)?.with(context))?))
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_len(batch: Handle<OpenBatch>, len: Out<'_, u64>) -> Status {
    border(batch.number(), || {
        len.set("the place for the number", batch.exclusive()?.batch.len() as u64)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_commit(batch: Handle<OpenBatch>) -> Status {
    border(batch.number(), || {
        let OpenBatch { batch, _table } = batch.close()?;
        batch.commit()?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_batch_discard(batch: Handle<OpenBatch>) -> Status {
    border(batch.number(), || {
        if !batch.is_null() {
            drop(batch.close()?);
        }
        Ok(OK)
    })
}
