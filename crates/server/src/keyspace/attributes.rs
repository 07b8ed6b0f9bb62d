//! The attributes of a key: when it expires, memcached's flags, memcached's CAS number.
//!
//! Values are in the table as the client sent them. Most keys have no attributes; those that exist are in a second
//! table in memory, the *side table*, under the same key. A database without attributes never consults it. A database
//! in a file also stores the attributes in the file, as marked pairs (`marks.rs`), in one batch with the value.

use crate::planted::{Bug, planted};

/// The attributes of a key. The default is the value for a key that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Unix time in milliseconds; 0: never.
    pub(crate) expires_at_ms: u64,
    /// memcached's flags.
    pub(crate) flags: u32,
    /// memcached's CAS number; 0 if no client has asked for one since the value was set. Not stored in the file: a
    /// number given before a restart must not match afterwards.
    pub(crate) cas: u64,
    /// memcached's marks: [`STALE`](Self::STALE), [`CLAIMED`](Self::CLAIMED).
    pub(crate) marks: u8,
}

impl Attributes {
    /// The value is out of date, and a client should replace it.
    pub(crate) const STALE: u8 = 1; // on disk
    /// One client was asked to replace the value.
    pub(crate) const CLAIMED: u8 = 2; // on disk

    /// The attributes of a key that expires and has no others.
    pub(crate) fn expiring(expires_at_ms: u64) -> Attributes {
        Attributes { expires_at_ms, ..Attributes::default() }
    }

    /// Whether a key with these attributes has expired and so counts as absent.
    pub(crate) fn expired(&self, now_ms: u64) -> bool {
        let last_ms = if planted(Bug::ExpiresLate) { now_ms.saturating_sub(1) } else { now_ms };
        self.expires_at_ms != 0 && self.expires_at_ms <= last_ms
    }

    /// The attributes that are stored in a file: all but the CAS number.
    pub(super) fn durable(&self) -> Attributes {
        Attributes { cas: 0, ..*self }
    }

    /// Lifetime, flags and marks in their on-disk form, then the CAS number.
    pub(super) fn encode(&self) -> [u8; ENCODED_BYTES] {
        let mut bytes = [0; ENCODED_BYTES];
        bytes[..8].copy_from_slice(&self.expires_at_ms.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flags.to_le_bytes());
        bytes[12] = self.marks;
        bytes[13..].copy_from_slice(&self.cas.to_le_bytes());
        bytes
    }

    /// `None` for bytes that `encode` did not make.
    pub(super) fn decode(bytes: &[u8]) -> Option<Attributes> {
        let expires_at_ms = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
        let flags = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
        let marks = *bytes.get(12)?;
        let cas = u64::from_le_bytes(bytes.get(13..ENCODED_BYTES)?.try_into().ok()?);
        (bytes.len() == ENCODED_BYTES).then_some(Attributes { expires_at_ms, flags, cas, marks })
    }
}

const ENCODED_BYTES: usize = 21;
