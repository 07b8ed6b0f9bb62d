//! The slot of a key, as Redis Cluster computes it.
//!
//! CRC-16 of the key modulo 16384; or of the part between its first `{` and the next `}`, if there is such a part and
//! it is not empty. So cluster clients look for a key in the shard that has it.
//!
//! Source: the Redis Cluster specification, "Key distribution model".

/// Slots of all shards together.
pub(crate) const SLOT_COUNT: u32 = 1 << 14;

/// The slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT as u16
}

/// What of the key is hashed.
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
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // The check value of CRC-16/XMODEM, and what CLUSTER KEYSLOT answers.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"somekey"), 11058);
        assert_eq!(slot(b"foo{hash_tag}"), 2515);
        assert_eq!(slot(b"bar{hash_tag}"), 2515);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        // Nothing between the braces, or no second one: the whole key counts.
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % 16384);
    }
}
