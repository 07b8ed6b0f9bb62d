//! Lengths and strings to bytes, as Redis writes them.

use super::lzf;
use crate::command::number::parse_integer;

/// Bytes of the format, appended to.
pub(super) struct Sink<'o> {
    pub(super) out: &'o mut Vec<u8>,
}

impl Sink<'_> {
    pub(super) fn length(&mut self, length: u64) {
        match length {
            0..64 => self.out.push(length as u8),
            64..16384 => self.out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
            _ => match u32::try_from(length) {
                Ok(length) => {
                    self.out.push(0x80);
                    self.out.extend_from_slice(&length.to_be_bytes());
                }
                Err(_) => {
                    self.out.push(0x81);
                    self.out.extend_from_slice(&length.to_be_bytes());
                }
            },
        }
    }

    /// Writes a string: as a number, compressed, or as it is.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        const DIGITS_MAX: usize = 11;
        /// Shorter strings are not compressed.
        const COMPRESSED_FROM: usize = 21;
        if bytes.len() <= DIGITS_MAX
            && let Some(number) = parse_integer(bytes).and_then(|number| i32::try_from(number).ok())
        {
            return self.number(number);
        }
        if bytes.len() >= COMPRESSED_FROM
            && let Some(compressed) = lzf::compress(bytes)
        {
            self.out.push(0xc3);
            self.length(compressed.len() as u64);
            self.length(bytes.len() as u64);
            self.out.extend_from_slice(&compressed);
            return;
        }
        self.length(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn number(&mut self, number: i32) {
        let bytes = number.to_le_bytes();
        let (encoding, width) = match number {
            -0x80..0x80 => (0xc0, 1),
            -0x8000..0x8000 => (0xc1, 2),
            _ => (0xc2, 4),
        };
        self.out.push(encoding);
        self.out.extend_from_slice(&bytes[..width]);
    }

    pub(super) fn strings<'e>(&mut self, count: usize, strings: impl Iterator<Item = &'e [u8]>) {
        self.length(count as u64);
        strings.for_each(|string| self.string(string));
    }
}
