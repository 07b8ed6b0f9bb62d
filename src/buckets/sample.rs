//! A sampled lookup: its reads are repeated and counted. When a lookup is sampled: `activity.rs`.

use super::activity::Touched;
use super::bucket::HashedKey;
use super::linear_hash::Buckets;
use super::page::{self, PAIR_IN_EXTENT};
use crate::error::Result;

impl Buckets {
    /// Counts a lookup of `key` by repeating its reads. Errors are ignored: the lookup itself reports them.
    #[cold]
    pub(super) fn sample(&self, primary: &[u8], key: HashedKey<'_>) {
        if let Ok((found, touched)) = self.touched(primary, key) {
            self.activity.count(found, touched);
        }
    }

    fn touched(&self, primary: &[u8], key: HashedKey<'_>) -> Result<(bool, Touched)> {
        let mut touched = Touched::default();
        if self.touch(primary, key, &mut touched)? {
            return Ok((true, touched));
        }
        let bits = page::filter_bits(key.tag);
        if page::next(primary) == 0 || page::filter(primary) & bits != bits {
            return Ok((false, touched));
        }
        let visit = |_, bytes: &[u8]| Ok(self.touch(bytes, key, &mut touched)?.then_some(()));
        let found = self.walk_chain(page::next(primary), visit)?.is_some();
        Ok((found, touched))
    }

    /// Counts one page. A key in an extent is compared by its hash: a sample reads no extents.
    fn touch(&self, bytes: &[u8], key: HashedKey<'_>, touched: &mut Touched) -> Result<bool> {
        touched.pages += 1;
        let hash = key.hash.to_le_bytes();
        let (form_is_extent, wanted) =
            if key.bytes.len() <= self.limits.key_inline_max { (false, key.bytes) } else { (true, &hash[..]) };
        let found = page::find_by(bytes, key.tag, |record| {
            touched.keys += 1;
            (record.form == PAIR_IN_EXTENT) == form_is_extent && record.key == wanted
        });
        Ok(found.map_err(|d| self.damaged(d))?.is_some())
    }
}
