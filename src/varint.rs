//! Variable-length integers: seven bits per byte, the lowest first, the high bit set in all but the last.
//!
//! Used in records of pages, of the log and of dictionaries.

/// The number of bytes that `n` takes.
#[inline]
pub(crate) fn varint_bytes(n: u64) -> usize {
    if n < 0x80 { 1 } else { (70 - n.leading_zeros() as usize) / 7 }
}

/// Writes `n` to the start of `out`. Returns the number of bytes.
pub(crate) fn put_varint(out: &mut [u8], mut n: u64) -> usize {
    let mut at = 0;
    while n >= 0x80 {
        out[at] = n as u8 | 0x80;
        n >>= 7;
        at += 1;
    }
    out[at] = n as u8;
    at + 1
}

/// Appends `n` to `out`.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The varint at the start of `bytes` and its length. At most 5 bytes: no length in a table is above 2^35.
#[inline]
pub(crate) fn get_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    get_varint_within::<5>(bytes).map(|(n, taken)| (n as usize, taken))
}

/// The varint at the start of `bytes`, of at most `BYTES_MAX` bytes, and its length. Of a tenth byte only one bit is
/// used.
#[inline]
pub(crate) fn get_varint_within<const BYTES_MAX: usize>(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((first.into(), 1));
    }
    let mut n = 0;
    for (at, &byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        n |= u64::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            return Some((n, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_their_borders() {
        for n in [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, (1 << 32) - 1, (1 << 34) + 3] {
            let mut bytes = [0; 10];
            let written = put_varint(&mut bytes, n);
            assert_eq!(written, varint_bytes(n));
            assert_eq!(get_varint(&bytes), Some((n as usize, written)));
            let mut pushed = Vec::new();
            push_varint(&mut pushed, n);
            assert_eq!(pushed, bytes[..written]);
        }
        for n in [1 << 35, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, n);
            assert_eq!(get_varint_within::<10>(&bytes), Some((n, bytes.len())));
            assert_eq!(get_varint(&bytes), None);
        }
        assert_eq!(get_varint(&[0x80; 9]), None);
    }
}
