//! The slot of a key, as Redis Cluster computes it.
//!
//! CRC-16 of the key modulo 16384; or of the part between its first `{` and the next `}`, if that part exists and is
//! not empty. Cluster clients therefore ask the right shard for a key.
//!
//! Source: the Redis Cluster specification, "Key distribution model".

/// The number of slots in Redis Cluster, which divide the keys of a dictionary among its shards.
pub const SLOT_COUNT: u16 = 1 << 14;

/// The slot of a key, below [`SLOT_COUNT`]. It determines the shard of a dictionary, and the node of a cluster.
///
/// Keys with the same part between `{` and `}` have the same slot.
///
/// # Examples
/// ```
/// assert_eq!(splitpoint::shards::slot(b"foo"), 12182);
/// assert_eq!(splitpoint::shards::slot(b"{user1000}.following"), splitpoint::shards::slot(b"{user1000}.followers"));
/// ```
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT
}

/// The part of the key that is hashed.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(close) if close > 0 => &rest[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, highest bit first.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut sum = (byte as u16) << 8;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 0x8000 != 0 { sum << 1 ^ 0x1021 } else { sum << 1 };
                bit += 1;
            }
            table[byte] = sum;
            byte += 1;
        }
        table
    };
    bytes.iter().fold(0, |sum, byte| sum << 8 ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

#[cfg(test)]
#[path = "tests/slots.rs"]
mod tests;
