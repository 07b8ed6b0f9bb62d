//! Lists of all keys, for tools: `lru_crawler metadump`, `lru_crawler mgdump`, `stats cachedump`.
//!
//! A long dump is written in parts; each part after the client has read the previous one.

use super::DATABASE;
use super::activity::Activity;
use crate::keyspace::{KeySpace, Result, Shared, SpaceError, now_ms};
use std::fmt::Write;

/// The contents of a line of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpKind {
    /// metadump: the properties of a key.
    Meta,
    /// mgdump: an `mg` request for the key.
    Get,
}

/// A dump that is being written.
pub(super) struct Dump {
    kind: DumpKind,
    cursor: u64,
}

/// Bytes of an item of memcached other than its key and value.
const ITEM_BYTES: usize = 50;

impl Dump {
    pub(super) fn new(kind: DumpKind) -> Dump {
        Dump { kind, cursor: 0 }
    }

    /// Writes lines until there are `bytes` of output, or enough keys were looked at for one step, or to the end.
    /// Returns whether it reached the end.
    pub(super) fn write(
        &mut self,
        shared: &Shared<'_>,
        activity: Option<(&Activity, u64)>,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        const AT_ONCE: usize = 100;
        // Collections have no lines, and other clients wait for a step.
        const LOOKED_AT_MAX: usize = 2000;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut looked_at = 0;
        while out.len() < bytes && looked_at < LOOKED_AT_MAX {
            keys.clear();
            self.cursor =
                shared.space().scan(DATABASE, self.cursor, AT_ONCE, shared.now_ms(), |key| keys.push(key.to_vec()))?;
            looked_at += AT_ONCE.max(keys.len()); // also keys that have expired
            for key in &keys {
                match self.kind {
                    DumpKind::Meta => write_meta(shared, key, activity, out)?,
                    DumpKind::Get => out.extend_from_slice(format!("mg {}\r\n", encoded(key)).as_bytes()),
                }
            }
            if self.cursor == 0 {
                out.extend_from_slice(if self.kind == DumpKind::Meta { b"END\r\n" } else { b"EN\r\n" });
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn write_meta(shared: &Shared<'_>, key: &[u8], activity: Option<(&Activity, u64)>, out: &mut Vec<u8>) -> Result<()> {
    let Some(len) = value_len(shared, key)? else { return Ok(()) };
    let attributes = shared.attributes(DATABASE, key)?.unwrap_or_default();
    let last_use = activity.map(|(activity, now_s)| activity.of(key, now_s));
    let expires_at_s = match attributes.expires_at_ms {
        0 => -1,
        ms => (ms / 1000) as i64, // far below 2^63
    };
    let used_at_s = shared.now_ms() / 1000 - last_use.map_or(0, |last| u64::from(last.idle_s));
    let fetched = if last_use.is_some_and(|last| last.fetched) { "yes" } else { "no" };
    let size = key.len() + len + ITEM_BYTES;
    let line = format!(
        "key={} exp={expires_at_s} la={used_at_s} cas={} fetch={fetched} cls=1 size={size}\r\n",
        encoded(key),
        attributes.cas
    );
    out.extend_from_slice(line.as_bytes());
    Ok(())
}

/// The length of a value; `None` if memcached clients cannot read it.
fn value_len(shared: &Shared<'_>, key: &[u8]) -> Result<Option<usize>> {
    match shared.value_len(DATABASE, key) {
        Err(SpaceError::WrongType) => Ok(None),
        len => len,
    }
}

/// Percent-encodes a key as in a URL.
fn encoded(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}"); // a string takes all
        }
    }
    text
}

/// `stats cachedump`: at most `limit` items, and at most as many as fit an answer of memcached. Other clients wait for
/// it, so it looks at a limited number of keys.
pub(super) fn cache_dump(space: &KeySpace, shared: &Shared<'_>, limit: usize, out: &mut Vec<u8>) -> Result<()> {
    const BYTES_MAX: usize = 2 << 20;
    const AT_ONCE: usize = 100;
    const LOOKED_AT_MAX: usize = 100_000;
    let start = out.len();
    let (mut cursor, mut left) = (0, if limit == 0 { usize::MAX } else { limit });
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut looked_at = 0;
    while looked_at < LOOKED_AT_MAX {
        keys.clear();
        cursor = space.scan(DATABASE, cursor, AT_ONCE, now_ms(), |key| keys.push(key.to_vec()))?;
        looked_at += AT_ONCE.max(keys.len()); // also keys that have expired
        for key in &keys {
            let Some(len) = value_len(shared, key)? else { continue };
            if left == 0 || out.len() - start + key.len() > BYTES_MAX {
                return Ok(());
            }
            left -= 1;
            let expires_at_s = shared.attributes(DATABASE, key)?.unwrap_or_default().expires_at_ms / 1000;
            out.extend_from_slice(b"ITEM ");
            out.extend_from_slice(key);
            out.extend_from_slice(format!(" [{len} b; {expires_at_s} s]\r\n").as_bytes());
        }
        if cursor == 0 {
            break;
        }
    }
    Ok(())
}
