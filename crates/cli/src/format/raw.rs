//! Raw: u32 key length, u32 value length, both little-endian, then the key's bytes and the value's; pair after pair.
//!
//! The fastest to read and the easiest to write from any language. After a wrong length the next pair cannot be found,
//! so a bad row ends the reading.

use super::{Pair, Row, Source, lost_at_pair};
use crate::failure::Result;
use crate::input::{Input, Taken};

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

pub struct RawReader<'i> {
    input: Input<'i>,
    /// Number of the last pair, from 1.
    number: u64,
}

impl<'i> RawReader<'i> {
    pub fn new(input: Input<'i>) -> Self {
        Self { input, number: 0 }
    }

    fn lost(&mut self, what: String) -> Row<'static> {
        self.number += 1;
        lost_at_pair(&self.input, self.number, what)
    }
}

impl Source for RawReader<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let at = self.input.taken_bytes();
        let header = match self.input.header(HEADER_BYTES)? {
            Taken::Bytes(range) => Header::parse(self.input.bytes(range)),
            Taken::Short(there) => {
                return Ok(self.lost(format!("input ends {there} bytes into a header of {HEADER_BYTES}, at byte {at}")));
            }
            Taken::Interrupted => return Ok(Row::Interrupted),
            Taken::TooLong => return Ok(self.lost(self.input.limit_met())),
            Taken::End => return Ok(Row::End),
        };
        let what = format_args!(
            "the header at byte {at} promises a key of {} and a value of {} bytes",
            header.key_bytes, header.value_bytes
        );
        let there = match self.input.exactly(header.pair_bytes())? {
            Taken::Bytes(range) => {
                self.number += 1;
                let (key, value) = self.input.bytes(range).split_at(header.key_bytes as usize);
                return Ok(Row::Pair(Pair { key, value }, self.number));
            }
            Taken::Interrupted => return Ok(Row::Interrupted),
            Taken::TooLong => return Ok(self.lost(format!("{what}: {}", self.input.limit_met()))),
            Taken::Short(there) => there,
            Taken::End => 0,
        };
        Ok(self.lost(format!("{what}, {there} bytes are left")))
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
    for bytes in [pair.key, pair.value] {
        let length = u32::try_from(bytes.len())
            .map_err(|_| "a raw pair holds 2^32 - 1 bytes at most; use --format tsv".to_owned())?;
        row.extend_from_slice(&length.to_le_bytes());
    }
    row.extend_from_slice(pair.key);
    row.extend_from_slice(pair.value);
    Ok(())
}
