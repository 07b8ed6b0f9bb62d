//! Whether the values of a database have heads (`record.rs`), and whether its keys may expire.

use super::record::{Attributes, Coding, HEAD_BYTES_MAX, MARK_BYTES};
use super::{Database, KeySpace, Place};
use std::sync::atomic::Ordering::*;

/// Set in [`Database::heads`] once values may have heads.
pub(super) const HAS_MARK: u64 = 1 << 63;

impl KeySpace {
    /// How the values of a database are coded.
    #[inline]
    pub(super) fn coding(&self, database: &Database) -> Coding {
        match (&self.place, database.heads.load(Relaxed)) {
            (Place::Memory, _) => Coding::Tagged,
            (Place::File(..), 0) => Coding::Plain,
            (Place::File(..), mark) => Coding::Marked(mark_of(mark)),
        }
    }
}

impl Database {
    /// Whether values may have heads.
    #[inline]
    pub(super) fn has_heads(&self) -> bool {
        self.heads.load(Relaxed) != 0
    }

    /// The bytes of a value that may be its head.
    pub(super) fn head_bytes(&self) -> usize {
        if self.has_heads() { HEAD_BYTES_MAX } else { 0 }
    }

    /// Notes that a key is about to be given these attributes.
    #[inline]
    pub(super) fn note_lifetime(&self, attributes: Attributes) {
        if attributes.expires_at_ms != 0 && !self.is_expiry_new.load(Relaxed) {
            self.may_expire.store(true, Relaxed);
            self.is_expiry_new.store(true, Relaxed);
        }
    }

    /// Notes that a hash whose fields have lifetimes is about to be stored.
    pub(super) fn note_field_lifetimes(&self) {
        self.fields_may_expire.store(true, Relaxed);
        self.is_field_expiry_new.store(true, Relaxed);
    }
}

/// The mark in [`Database::heads`].
pub(super) fn mark_of(heads: u64) -> [u8; MARK_BYTES] {
    let [a, b, c, d, e, f, ..] = heads.to_le_bytes();
    [a, b, c, d, e, f]
}

/// [`Database::heads`] of a mark.
pub(super) fn heads_by([a, b, c, d, e, f]: [u8; MARK_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) | HAS_MARK
}
