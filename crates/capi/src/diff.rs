//! Differences between two dictionaries: handles that return one change after another.
//!
//! Not here: applying the changes (`building.rs`).

use crate::arguments::{Bytes, InArray, Out};
use crate::border::border;
use crate::callbacks::ProgressCallback;
use crate::dictionary::OpenDictionary;
use crate::handles::{Handle, Object};
use crate::status::{END, Failure, OK, Result, Status};
use splitpoint::dictionary::{Change, Diff};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// `spt_diff`. It keeps the files open itself, so the dictionaries may be closed before it.
struct OpenDiff(Diff);

impl Object for OpenDiff {
    const KIND: usize = 6;
    const NAME: &'static str = "diff";
}

const ADDED: c_int = 1;
const REMOVED: c_int = 2;
const REPLACED: c_int = 3;

/// `spt_change`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct OneChange {
    pub(crate) kind: c_int,
    pub(crate) key: Bytes,
    pub(crate) old_value: Bytes,
    pub(crate) value: Bytes,
}

impl OneChange {
    const NONE: OneChange = OneChange { kind: 0, key: Bytes::NONE, old_value: Bytes::NONE, value: Bytes::NONE };

    fn of(change: &Change<'_>) -> OneChange {
        let (kind, old_value, value) = match *change {
            Change::Added { value, .. } => (ADDED, Bytes::NONE, Bytes::of(value)),
            Change::Removed { old_value, .. } => (REMOVED, Bytes::of(old_value), Bytes::NONE),
            Change::Replaced { old_value, value, .. } => (REPLACED, Bytes::of(old_value), Bytes::of(value)),
        };
        OneChange { kind, key: Bytes::of(change.key()), old_value, value }
    }

    /// The change that the caller passed.
    pub(crate) fn change(&self) -> Result<Change<'_>> {
        let key = self.key.key()?;
        Ok(match self.kind {
            ADDED => Change::Added { key, value: self.value.value()? },
            REMOVED => Change::Removed { key, old_value: self.old_value.value()? },
            REPLACED => Change::Replaced { key, old_value: self.old_value.value()?, value: self.value.value()? },
            kind => return Err(Failure::invalid(format!("kind is {kind}, expected SPT_CHANGE_..."))),
        })
    }
}

/// `const spt_change *`: a change to read during the call.
pub(crate) type InChange<'c> = InArray<'c, OneChange>;

fn open(
    old: Handle<OpenDictionary>,
    newer: Handle<OpenDictionary>,
    diff: Out<'_, Handle<OpenDiff>>,
    start: impl FnOnce(&splitpoint::Dictionary, &splitpoint::Dictionary) -> splitpoint::Result<Diff>,
) -> Status {
    border(old.number(), || {
        diff.set("the place for the diff", Handle::NULL)?;
        // Clone both: they may be the same dictionary, whose lock must not be taken twice.
        let old = Arc::clone(&old.shared()?.get());
        let newer = Arc::clone(&newer.shared()?.get());
        diff.set("the place for the diff", Handle::open(OpenDiff(start(&old, &newer)?))?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_diff(
    old: Handle<OpenDictionary>,
    newer: Handle<OpenDictionary>,
    progress: Option<ProgressCallback>,
    context: *mut c_void,
    diff: Out<'_, Handle<OpenDiff>>,
) -> Status {
    open(old, newer, diff, |old, newer| {
        let (all, call) = (old.len() + newer.len(), ProgressCallback::with(progress, context));
        Ok(old.diff(newer)?.progress(move |pairs| call(pairs, all)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_dict_diff_range(
    old: Handle<OpenDictionary>,
    newer: Handle<OpenDictionary>,
    first: u64,
    last: u64,
    diff: Out<'_, Handle<OpenDiff>>,
) -> Status {
    open(old, newer, diff, |old, newer| old.diff_range(newer, first..=last))
}

#[unsafe(no_mangle)]
extern "C" fn spt_diff_next(diff: Handle<OpenDiff>, change: Out<'_, OneChange>) -> Status {
    border(diff.number(), || {
        change.set("the place for the change", OneChange::NONE)?;
        let mut diff = diff.exclusive()?;
        let Some(next) = diff.0.next_ref()? else { return Ok(END) };
        change.set("the place for the change", OneChange::of(&next))?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_diff_close(diff: Handle<OpenDiff>) -> Status {
    border(diff.number(), || {
        if !diff.is_null() {
            drop(diff.close()?);
        }
        Ok(OK)
    })
}
