//! The escapes of TSV, which command-line arguments and messages share.
//!
//! `\t \n \r \\` and `\xHH`. Writing escapes these four and the other control bytes, and leaves the rest unchanged,
//! UTF-8 or not.

/// Replaces `bytes` by `text` with its escapes undone.
pub fn unescape(text: &[u8], bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.clear();
    // Reserved at once: a row that does not fit in memory twice is an error, not an abort.
    bytes.try_reserve(text.len()).map_err(|_| format!("no memory for a row of {} bytes", text.len()))?;
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, escape_bytes) = escaped_byte(&rest[at..])?;
        bytes.push(byte);
        rest = &rest[at + escape_bytes..];
    }
    bytes.extend_from_slice(rest);
    Ok(())
}

/// Returns the byte of the escape at the start of `text`, and the escape's length.
fn escaped_byte(text: &[u8]) -> Result<(u8, usize), String> {
    match *text {
        [_, b't', ..] => Ok((b'\t', 2)),
        [_, b'n', ..] => Ok((b'\n', 2)),
        [_, b'r', ..] => Ok((b'\r', 2)),
        [_, b'\\', ..] => Ok((b'\\', 2)),
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Ok((hex_digit(high) << 4 | hex_digit(low), 4))
        }
        _ => {
            let mut shown = vec![b'\\'];
            escape(&text[1..text.len().min(4)], &mut shown);
            let shown = String::from_utf8_lossy(&shown);
            Err(format!("unknown escape at {shown}; the escapes are \\t \\n \\r \\\\ \\xHH"))
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// Appends `bytes` to `text`, escaped.
#[inline]
pub fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    if any_to_escape(bytes) {
        escape_some(bytes, text);
    } else {
        text.extend_from_slice(bytes);
    }
}

#[cold]
fn escape_some(bytes: &[u8], text: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = first_to_escape(rest) {
        text.extend_from_slice(&rest[..at]);
        push_escaped(rest[at], text);
        rest = &rest[at + 1..];
    }
    text.extend_from_slice(rest);
}

/// Whether a byte needs an escape: most texts have none. Looks at eight bytes together; the last eight overlap others.
#[inline]
fn any_to_escape(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<8>() {
        let (words, _) = bytes.as_chunks::<8>();
        let found = words.iter().fold(0, |found, word| found | to_escape(u64::from_le_bytes(*word)));
        return found | to_escape(u64::from_le_bytes(*last)) != 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return to_escape(u64::from(first) | u64::from(last) << 32) != 0;
    }
    bytes.iter().any(|byte| needs_escape(*byte))
}

/// Not 0 if a byte of the word needs an escape. The lowest bit set is the highest of the first such byte.
#[inline]
fn to_escape(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // The high bit of a byte of `is_zero(x)` is set if that byte is 0; above the lowest such byte it may be wrong.
    let is_zero = |word: u64| word.wrapping_sub(EACH) & !word & HIGH;
    let is_control = word.wrapping_sub(0x20 * EACH) & !word & HIGH;
    is_control | is_zero(word ^ (0x7f * EACH)) | is_zero(word ^ (u64::from(b'\\') * EACH))
}

/// Returns the position of the first byte that needs an escape.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    let flagged =
        words.iter().map(|word| to_escape(u64::from_le_bytes(*word))).enumerate().find(|(_, found)| *found != 0);
    if let Some((index, found)) = flagged {
        return Some(index * 8 + found.trailing_zeros() as usize / 8);
    }
    let start = bytes.len() - rest.len();
    rest.iter().position(|byte| needs_escape(*byte)).map(|at| start + at)
}

fn needs_escape(byte: u8) -> bool {
    byte.is_ascii_control() || byte == b'\\'
}

fn push_escaped(byte: u8, text: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'\t' => text.extend_from_slice(b"\\t"),
        b'\n' => text.extend_from_slice(b"\\n"),
        b'\r' => text.extend_from_slice(b"\\r"),
        b'\\' => text.extend_from_slice(b"\\\\"),
        _ => text.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    }
}

/// Formats a key or a line for messages: in quotes, escaped, cut to 64 bytes.
pub fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let mut escaped = Vec::new();
    escape(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)], &mut escaped);
    let mut text = String::from("\"");
    for chunk in escaped.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push_str(if bytes.len() > SHOWN_BYTES_MAX { "...\"" } else { "\"" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_the_manual() {
        let mut text = Vec::new();
        escape(b"a\tb\nc\rd\\e\x00\x7f\xff", &mut text);
        assert_eq!(text, b"a\\tb\\nc\\rd\\\\e\\x00\\x7f\xff");
    }

    #[test]
    fn a_byte_to_escape_is_found_wherever_it_is() {
        for byte in 0..=255_u8 {
            for other in [b'a', b' ', b'~', 0x80, 0xff, b'[', b']'] {
                for at in 0..20 {
                    let mut bytes = [other; 20];
                    bytes[at] = byte;
                    assert_eq!(first_to_escape(&bytes), needs_escape(byte).then_some(at), "{byte} at {at}");
                    for len in at + 1..20 {
                        assert_eq!(any_to_escape(&bytes[..len]), needs_escape(byte), "{byte} at {at} of {len}");
                    }
                }
            }
        }
        assert!(!any_to_escape(b""));
        assert_eq!(first_to_escape(b""), None);
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for text in [&b"\\"[..], b"\\q", b"\\x", b"\\x4", b"\\x4z", b"\\xz4", b"a\\\\\\"] {
            assert!(unescape(text, &mut Vec::new()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn messages_show_keys_short_and_printable() {
        assert_eq!(quoted(b"a\n\xff"), "\"a\\n\\xff\"");
        assert_eq!(quoted(&[b'x'; 65]).len(), 64 + 5);
    }
}
