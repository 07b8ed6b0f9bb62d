//! Numbers as C's `strtol` family parses them: memcached uses it, so clients may rely on blanks, signs and truncation.

/// `strtol`, truncated to 32 bits.
pub(super) fn i32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = leading(text)?;
    let value = if negative { 0i64.checked_sub_unsigned(magnitude)? } else { i64::try_from(magnitude).ok()? };
    Some(value as i32) // as C converts it
}

/// `strtoul`, truncated to 32 bits.
pub(super) fn u32(text: &[u8]) -> Option<u32> {
    u64(text).map(|value| value as u32) // as C converts it
}

/// `strtoull`. A negative number wraps modulo 2^64; an error if the result then has the highest bit set.
pub(super) fn u64(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = leading(text)?;
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    (value >> 63 == 0 || !text.contains(&b'-')).then_some(value)
}

/// Parses the sign and the digits at the beginning; after them must be a blank or the end.
fn leading(text: &[u8]) -> Option<(bool, u64)> {
    let blanks = text.iter().take_while(|&&b| is_blank(b)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mut value, mut count) = (0u64, 0);
    for &byte in digits {
        match byte {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?,
            _ if is_blank(byte) => break,
            _ => return None,
        }
        count += 1;
    }
    (count > 0).then_some((negative, value))
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(super::i32(b"-12"), Some(-12));
        assert_eq!(super::i32(b"+7\tx"), Some(7));
        assert_eq!(super::i32(b"4294967296"), Some(0));
        assert_eq!(super::i32(b"-9223372036854775808"), Some(0));
        assert_eq!(super::i32(b"9223372036854775808"), None);
        assert_eq!(super::i32(b"1x"), None);
        assert_eq!(super::i32(b""), None);
        assert_eq!(super::u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(super::u32(b"4294967297"), Some(1));
        assert_eq!(super::u32(b"-1"), None);
        assert_eq!(super::u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(super::u64(b"18446744073709551616"), None);
        assert_eq!(super::u64(b"-9223372036854775809"), Some(i64::MAX as u64));
        assert_eq!(super::u64(b"12 abc"), Some(12));
    }
}
