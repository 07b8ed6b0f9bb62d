//! Lengths, numbers and strings from untrusted bytes.
//!
//! A string grows with the bytes that arrive, so a wrong length costs nothing, and each string and element is charged
//! to the limit of its value.

use super::crc64::crc64;
use super::{Limits, RdbError, Result, bad, lzf};
use std::io::Read;

/// Memory that lists an element, charged with its bytes.
const ELEMENT_BYTES: u64 = 32;
/// Bytes that are read at once.
const PART_BYTES: u64 = 64 << 10;

/// Bytes of the format, from memory or a file.
pub(super) struct Source<R> {
    reader: R,
    limits: Limits,
    /// What the current value may still decode to.
    left: u64,
    /// Bytes read so far.
    pub(super) at: u64,
    /// The checksum of the bytes read so far.
    pub(super) sum: u64,
}

/// A length, or how a string is encoded.
pub(super) enum Length {
    Of(u64),
    /// A number of this many bytes, little-endian.
    Number(usize),
    Compressed,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R, limits: Limits) -> Source<R> {
        Source { reader, limits, left: limits.value_bytes, at: 0, sum: 0 }
    }

    /// The next value has the whole limit.
    pub(super) fn begin_value(&mut self) {
        self.left = self.limits.value_bytes;
    }

    /// Counts `bytes` of a value against its limit.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<()> {
        let left = self.left.checked_sub(bytes.saturating_add(ELEMENT_BYTES));
        self.left = left.ok_or_else(|| {
            let most = self.limits.value_bytes;
            RdbError::TooLong(format!("a value of more than {most} bytes when decompressed, which is the limit"))
        })?;
        Ok(())
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        self.sum = crc64(self.sum, &bytes);
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let [byte] = self.bytes()?;
        Ok(byte)
    }

    /// Reads a little-endian number of eight bytes.
    pub(super) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    pub(super) fn length_or_encoding(&mut self) -> Result<Length> {
        let first = self.byte()?;
        Ok(match first {
            0..0x40 => Length::Of(first.into()),
            0x40..0x80 => Length::Of(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            0x80 => Length::Of(u32::from_be_bytes(self.bytes()?).into()),
            0x81 => Length::Of(u64::from_be_bytes(self.bytes()?)),
            0xc0 => Length::Number(1),
            0xc1 => Length::Number(2),
            0xc2 => Length::Number(4),
            0xc3 => Length::Compressed,
            _ => return Err(bad(format!("the byte {first:#04x} where a length begins"))),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64> {
        match self.length_or_encoding()? {
            Length::Of(length) => Ok(length),
            _ => Err(bad("an encoded string where a length is expected")),
        }
    }

    pub(super) fn string(&mut self) -> Result<Vec<u8>> {
        match self.length_or_encoding()? {
            Length::Of(len) => {
                self.charge_string(len)?;
                self.take(len)
            }
            Length::Number(bytes) => {
                let mut number = [0; 4];
                for byte in &mut number[..bytes] {
                    *byte = self.byte()?;
                }
                let shift = 8 * (4 - bytes as u32); // 1, 2 or 4 bytes
                let number = i32::from_le_bytes(number) << shift >> shift;
                let text = number.to_string().into_bytes();
                self.charge_string(text.len() as u64)?;
                Ok(text)
            }
            Length::Compressed => {
                let (compressed, len) = (self.length()?, self.length()?);
                self.charge_string(compressed)?;
                let compressed = self.take(compressed)?;
                self.charge_string(len)?;
                lzf::decompress(&compressed, usize::try_from(len).map_err(|_| bad("a string beyond memory"))?)
            }
        }
    }

    fn charge_string(&mut self, len: u64) -> Result<()> {
        if len > self.limits.string_bytes {
            let most = self.limits.string_bytes;
            return Err(RdbError::TooLong(format!("a string of {len} bytes, over the limit of {most}")));
        }
        self.charge(len)
    }

    /// Reads `len` bytes, which the caller has charged.
    fn take(&mut self, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len.min(PART_BYTES) as usize); // below 2^32
        self.reader.by_ref().take(len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < len {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        self.at += len;
        self.sum = crc64(self.sum, &bytes);
        Ok(bytes)
    }

    /// Reads a count, then that many elements.
    pub(super) fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.length()?;
        self.repeat(count, |source, _| read(source))
    }

    /// `count` elements, each of at least a byte.
    pub(super) fn repeat<T>(
        &mut self,
        count: u64,
        mut read: impl FnMut(&mut Self, u64) -> Result<T>,
    ) -> Result<Vec<T>> {
        const RESERVED: u64 = 1024;
        let mut elements = Vec::with_capacity(count.min(RESERVED) as usize); // below 2^32
        for index in 0..count {
            elements.push(read(self, index)?);
        }
        Ok(elements)
    }
}
