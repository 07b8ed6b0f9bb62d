//! Raw: u32 key length, u32 value length, both little-endian, then the key's bytes and the value's; pair after pair.
//!
//! The fastest to read and the easiest to write from any language. After a wrong length the next pair cannot be found,
//! so a bad row ends the reading.

use super::Pair;

pub const HEADER_BYTES: u64 = 8;

pub struct Header {
    pub key_bytes: u32,
    pub value_bytes: u32,
}

impl Header {
    /// `bytes` are the [`HEADER_BYTES`] of one header.
    pub fn parse(bytes: &[u8]) -> Self {
        let field = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { key_bytes: field(0), value_bytes: field(4) }
    }

    pub fn pair_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) -> Result<(), String> {
    for bytes in [pair.key, pair.value] {
        let length = u32::try_from(bytes.len())
            .map_err(|_| "a raw pair holds 2^32 - 1 bytes at most; use --format tsv".to_owned())?;
        row.extend_from_slice(&length.to_le_bytes());
    }
    row.extend_from_slice(pair.key);
    row.extend_from_slice(pair.value);
    Ok(())
}
