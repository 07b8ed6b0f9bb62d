//! Edits: what a write does to one pair, under the latch of its bucket.
//!
//! Each edit is a type of its own, so the compiler makes specialized copies for the two usual cases: an absent key, and
//! a key in the primary page. A single code path would pass the location, an enum, through memory. All other cases are
//! function calls.
//!
//! Not here: how a bucket changes (`bucket.rs`), the gate and the log (`table`).

use super::bucket::{Bucket, Delta, HashedKey, LatchedBucket, PairLocation};
use super::linear_hash::Buckets;
use super::page::{self, Found, Quick};
use crate::error::Result;

/// The change of the totals and the answer of an edit; `None` if it changed nothing.
pub(crate) type Edited<A> = Result<Option<(Delta, A)>>;

/// A change of one pair.
pub(crate) trait Edit: Sized {
    /// What the edit returns besides the change of the totals.
    type Answer;
    /// Whether the usual case moves other records of the page, and so touches most of its lines.
    const MOVES_RECORDS: bool = true;
    /// Whether a batch of such edits usually adds a pair each. If so, the overflow page that the next edit needs is
    /// prefetched (`expected.rs`).
    const OFTEN_ADDS: bool = true;

    /// Changes the pair of a key, which is at `location`. Returns `None` if it changes nothing.
    fn edit(self, bucket: &mut Bucket<'_>, location: Option<PairLocation>) -> Edited<Self::Answer>;

    /// [`edit`](Self::edit) of a pair in the primary page.
    #[inline(always)]
    fn edit_found(self, bucket: &mut Bucket<'_>, found: Found) -> Edited<Self::Answer> {
        self.edit(bucket, Some(PairLocation { overflow: None, found }))
    }

    /// [`edit`](Self::edit) in all other cases: finds the key first, in the overflow pages if `is_behind`. The busiest
    /// edits override it and pass their fields one by one, so that the usual cases keep them in registers.
    #[inline(always)]
    fn edit_elsewhere(self, bucket: &mut Bucket<'_>, key: HashedKey<'_>, is_behind: bool) -> Edited<Self::Answer> {
        find_and_edit(bucket, key.bytes, key.hash, is_behind, self)
    }
}

/// The result of a call, copied field by field. Copied as a whole, it would force the results of the usual cases into
/// memory, too.
#[inline(always)]
#[expect(clippy::map_identity, reason = "the parts are copied one by one, to registers")]
fn in_parts<A>(edited: Edited<A>) -> Edited<A> {
    Ok(edited?.map(|(delta, answer)| (delta, answer)))
}

#[inline(never)]
fn find_and_edit<E: Edit>(
    bucket: &mut Bucket<'_>,
    key: &[u8],
    hash: u64,
    is_behind: bool,
    edit: E,
) -> Edited<E::Answer> {
    let location = find(bucket, key, hash, is_behind)?;
    edit.edit(bucket, location)
}

fn find(bucket: &Bucket<'_>, key: &[u8], hash: u64, is_behind: bool) -> Result<Option<PairLocation>> {
    match is_behind {
        true => bucket.buckets.locate_behind(bucket.page(), key, hash),
        false => bucket.buckets.locate(bucket.page(), HashedKey::new(key, hash)),
    }
}

/// Any closure is an edit: for all but the busiest writes.
impl<F> Edit for F
where
    F: FnOnce(&mut Bucket<'_>, Option<PairLocation>) -> Result<Option<Delta>>,
{
    type Answer = ();

    #[inline]
    fn edit(self, bucket: &mut Bucket<'_>, location: Option<PairLocation>) -> Edited<()> {
        Ok(self(bucket, location)?.map(|delta| (delta, ())))
    }
}

/// Stores a value.
pub(crate) struct Set<'a> {
    pub key: HashedKey<'a>,
    pub value: &'a [u8],
}

impl Edit for Set<'_> {
    type Answer = ();
    const MOVES_RECORDS: bool = false;

    #[inline(always)]
    fn edit(self, bucket: &mut Bucket<'_>, location: Option<PairLocation>) -> Edited<()> {
        Ok(Some((bucket.set(self.key, location, self.value)?, ())))
    }

    #[inline(always)]
    fn edit_elsewhere(self, bucket: &mut Bucket<'_>, key: HashedKey<'_>, is_behind: bool) -> Edited<()> {
        set_elsewhere(bucket, key.bytes, key.hash, self.value, is_behind).map(|delta| Some((delta, ())))
    }
}

#[inline(never)]
fn set_elsewhere(bucket: &mut Bucket<'_>, key: &[u8], hash: u64, value: &[u8], is_behind: bool) -> Result<Delta> {
    let location = find(bucket, key, hash, is_behind)?;
    bucket.set(HashedKey::new(key, hash), location, value)
}

/// Appends to a value; answers with its new length.
pub(crate) struct Append<'a> {
    pub key: HashedKey<'a>,
    pub tail: &'a [u8],
    /// If the value would be longer than this, nothing is appended.
    pub len_max: usize,
}

impl Edit for Append<'_> {
    type Answer = usize;
    const OFTEN_ADDS: bool = false;

    #[inline(always)]
    fn edit(self, bucket: &mut Bucket<'_>, location: Option<PairLocation>) -> Edited<usize> {
        let Append { key, tail, len_max } = self;
        if len_max < usize::MAX {
            let before = location.map_or(Ok(0), |at| bucket.value_at(at).map(|(_, len)| len))?;
            if before + tail.len() > len_max {
                return Ok(None);
            }
        }
        match location {
            None => Ok(Some((bucket.set(key, None, tail)?, tail.len()))),
            Some(location) => bucket.append(key, location, tail).map(Some),
        }
    }

    #[inline(always)]
    fn edit_found(self, bucket: &mut Bucket<'_>, found: Found) -> Edited<usize> {
        let Append { key, tail, len_max } = self;
        if len_max < usize::MAX {
            return self.edit(bucket, Some(PairLocation { overflow: None, found }));
        }
        bucket.append_here(key, found, tail).map(Some)
    }

    #[inline(always)]
    fn edit_elsewhere(self, bucket: &mut Bucket<'_>, key: HashedKey<'_>, is_behind: bool) -> Edited<usize> {
        in_parts(append_elsewhere(bucket, key.bytes, key.hash, self.tail, self.len_max, is_behind))
    }
}

#[inline(never)]
fn append_elsewhere(
    bucket: &mut Bucket<'_>,
    key: &[u8],
    hash: u64,
    tail: &[u8],
    len_max: usize,
    is_behind: bool,
) -> Edited<usize> {
    if is_behind
        && len_max == usize::MAX
        && let Some(appended) = bucket.append_behind(HashedKey::new(key, hash), tail)?
    {
        return Ok(Some(appended));
    }
    let location = find(bucket, key, hash, is_behind)?;
    Append { key: HashedKey::new(key, hash), tail, len_max }.edit(bucket, location)
}

/// Removes a pair.
pub(crate) struct Remove<'a> {
    pub key: HashedKey<'a>,
}

impl Edit for Remove<'_> {
    type Answer = ();
    const OFTEN_ADDS: bool = false;

    #[inline(always)]
    fn edit(self, bucket: &mut Bucket<'_>, location: Option<PairLocation>) -> Edited<()> {
        let Some(location) = location else { return Ok(None) };
        Ok(Some((bucket.remove(self.key, location)?, ())))
    }

    #[inline(always)]
    fn edit_elsewhere(self, bucket: &mut Bucket<'_>, key: HashedKey<'_>, is_behind: bool) -> Edited<()> {
        in_parts(remove_elsewhere(bucket, key.bytes, key.hash, is_behind))
    }
}

#[inline(never)]
fn remove_elsewhere(bucket: &mut Bucket<'_>, key: &[u8], hash: u64, is_behind: bool) -> Edited<()> {
    let location = find(bucket, key, hash, is_behind)?;
    Remove { key: HashedKey::new(key, hash) }.edit(bucket, location)
}

impl Buckets {
    /// Applies `edit` to the pair of `key` in a bucket.
    #[inline(always)]
    pub(crate) fn edit<E: Edit>(
        &self,
        latched: &mut LatchedBucket<'_>,
        key: HashedKey<'_>,
        edit: E,
    ) -> Edited<E::Answer> {
        let mut is_behind = false;
        if key.bytes.len() <= self.limits.key_inline_max {
            match page::find_quickly(latched.page(), key.tag, key.bytes) {
                Quick::Absent if !self.may_be_behind(latched.page(), key.tag) => {
                    return edit.edit(&mut latched.bucket(), None);
                }
                Quick::At(found) => return edit.edit_found(&mut latched.bucket(), found),
                Quick::Absent => is_behind = true,
                Quick::Unsure => {}
            }
        }
        edit.edit_elsewhere(&mut latched.bucket(), key, is_behind)
    }
}
