//! Reads fields as the files store them: integers little-endian, whatever the processor, and text with zeros after it.

/// The number at byte `at`. The caller has checked the length.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes[at..].first_chunk().expect("the caller checked the length"))
}

/// The number at byte `at`. The caller has checked the length.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the caller checked the length"))
}

/// The number at byte `at`. The caller has checked the length.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the caller checked the length"))
}

/// The text in a field that zeros fill.
pub(crate) fn padded_text(field: &[u8]) -> Result<String, &'static str> {
    let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let (text, rest) = field.split_at(len);
    if rest.iter().any(|&b| b != 0) {
        return Err("are followed by bytes other than zero");
    }
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| "are no text")
}
