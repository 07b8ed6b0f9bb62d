//! Edits: what a write does to the pair of its key, under the latch of the key's bucket.
//!
//! ```text
//! LatchedBucket::edit   the key is absent, or in the primary page: inlined, a copy for each kind of edit
//!   edit_elsewhere      everything else: one function for all kinds
//! ```
//!
//! Not here: how a bucket changes (`bucket.rs`), the gate and the log (`table`).

use super::bucket::{Bucket, Delta, Edited, HashedKey, LatchedBucket, PairLocation};
use super::page::{self, Found, Quick};
use crate::error::Result;

/// The effect of a write on the pair of its key.
pub(crate) enum Edit<'a> {
    /// Stores a value.
    Set(&'a [u8]),
    /// Appends to the value, unless it would be longer than `len_max`. An absent key counts as an empty value.
    Append { tail: &'a [u8], len_max: usize },
    /// Removes the pair.
    Remove,
    /// Any other change, given the location of the key; `None` if it changes nothing.
    With(&'a mut EditFn<'a>),
}

pub(crate) type EditFn<'a> = dyn FnMut(&mut Bucket<'_>, Option<PairLocation>) -> Result<Option<Delta>> + 'a;

/// The location of a key, as far as [`LatchedBucket::edit`] knows it.
enum Searched {
    No,
    /// In this slot of the primary page.
    At(usize),
    /// In an overflow page, or absent.
    NotInPrimary,
}

impl Edit<'_> {
    /// Reborrows the edit for an out-of-line call: the address of the edit itself would force it into memory on the
    /// inlined path, too.
    #[inline(always)]
    fn for_call(&mut self) -> Edit<'_> {
        match self {
            Edit::Set(value) => Edit::Set(value),
            Edit::Append { tail, len_max } => Edit::Append { tail, len_max: *len_max },
            Edit::Remove => Edit::Remove,
            Edit::With(edit) => Edit::With(&mut **edit),
        }
    }
}

impl LatchedBucket<'_> {
    /// Applies `edit` to the pair of `key`.
    #[inline(always)]
    pub(crate) fn edit(&mut self, key: HashedKey<'_>, mut edit: Edit<'_>) -> Edited {
        let mut bucket = self.bucket();
        let limits = bucket.buckets.limits;
        let mut searched = Searched::No;
        if key.bytes.len() <= limits.key_inline_max {
            match page::find_quickly(bucket.page(), key.tag, key.bytes) {
                Quick::Absent if !bucket.buckets.may_be_behind(bucket.page(), key.tag) => {
                    return bucket.apply(key, None, edit);
                }
                Quick::At(found) => match edit {
                    Edit::Append { tail, len_max } => {
                        let len = found.value_bytes + tail.len();
                        let max = limits.pair_inline_max;
                        if len <= len_max && page::append_quickly(&mut bucket.page_mut(), found, tail, max) {
                            return Ok(Some((Delta::of_tail(tail, tail.len() as i64), len)));
                        }
                        searched = Searched::At(found.slot);
                    }
                    _ => return bucket.apply(key, Some(PairLocation { overflow: None, found }), edit),
                },
                Quick::Absent => searched = Searched::NotInPrimary,
                Quick::Unsure => {}
            }
        }
        // Taken apart: copied as a whole, the answer would force those above into memory, too.
        let elsewhere = self.bucket().edit_elsewhere(key.bytes, key.hash, searched, edit.for_call())?;
        let Some((delta, len)) = elsewhere else { return Ok(None) };
        Ok(Some((delta, len)))
    }
}

impl Bucket<'_> {
    /// Applies `edit` to the pair of a key in all cases that [`LatchedBucket::edit`] leaves.
    #[inline(never)]
    fn edit_elsewhere(&mut self, key: &[u8], hash: u64, searched: Searched, edit: Edit<'_>) -> Edited {
        let key = HashedKey::new(key, hash);
        let location = match searched {
            Searched::No => self.buckets.locate(self.page(), key)?,
            Searched::At(slot) => {
                let found = Found::at(self.page(), slot).map_err(|d| self.buckets.damaged(d))?;
                Some(PairLocation { overflow: None, found })
            }
            Searched::NotInPrimary => {
                if let Edit::Append { tail, len_max } = edit
                    && let Some(appended) = self.append_behind(key, tail, len_max)?
                {
                    return Ok(Some(appended));
                }
                self.buckets.locate_behind(self.page(), key.bytes, hash)?
            }
        };
        self.apply(key, location, edit)
    }

    /// Applies `edit` to the pair of `key`, which is at `location`.
    #[inline(always)]
    pub(crate) fn apply(&mut self, key: HashedKey<'_>, location: Option<PairLocation>, edit: Edit<'_>) -> Edited {
        let delta = match (edit, location) {
            (Edit::Set(value), _) => self.set(key, location, value)?,
            (Edit::Append { tail, len_max }, None) if tail.len() <= len_max => {
                return Ok(Some((self.set(key, None, tail)?, tail.len())));
            }
            (Edit::Append { tail, len_max }, Some(location)) => return self.append(key, location, tail, len_max),
            (Edit::Remove, Some(location)) => self.remove(key, location)?,
            (Edit::With(edit), _) => return Ok(edit(self, location)?.map(|delta| (delta, 0))),
            (Edit::Append { .. } | Edit::Remove, None) => return Ok(None),
        };
        Ok(Some((delta, 0)))
    }
}
