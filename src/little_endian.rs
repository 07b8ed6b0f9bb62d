//! Reads integers as the files store them: little-endian, whatever the processor.

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
