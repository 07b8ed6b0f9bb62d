//! Short records, assembled on the stack, so that checksum and store are one pass each.
//!
//! Not here: the checksum (`checksum.rs`), longer records and where a record goes (`mod.rs`).

use super::RECORD_HEADER_BYTES;
use crate::checksum::crc32c_of_short;

/// Longest body of a record that is assembled on the stack. Most are shorter; the buffer is filled with zeros first.
pub(super) const SHORT_BODY_BYTES: usize = 120;

/// Longest record that is assembled on the stack.
pub(super) const RECORD_BYTES: usize = RECORD_HEADER_BYTES + SHORT_BODY_BYTES;

/// A short record, assembled except for its checksum; or room for one.
pub(crate) struct Short {
    pub(super) record: [u8; RECORD_BYTES],
    pub(super) len: usize,
    /// The checksum of what does not depend on the record before.
    pub(super) own: u32,
}

impl Short {
    /// Room for a record.
    #[inline(always)]
    pub(crate) fn new() -> Short {
        Short { record: [0; _], len: 0, own: 0 }
    }

    /// Assembles the record of this kind and length, encoded as `word`, and with a body of at most [`SHORT_BODY_BYTES`]
    /// in parts. In place: a record that is returned would be copied.
    #[inline(always)]
    pub(super) fn assemble(&mut self, word: [u8; 4], body: &[&[u8]]) {
        let Short { record, len, own } = self;
        record[4..RECORD_HEADER_BYTES].copy_from_slice(&word);
        let mut end = RECORD_HEADER_BYTES;
        for part in body {
            copy(part, &mut record[end..]);
            end += part.len();
        }
        *own = crc32c_of_short(0, &record[4..end]);
        *len = end;
    }
}

/// Copies a part of a record to the start of `to`. Lengths, keys and short values are copied without a function call.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    match from.len() {
        1 => to[0] = from[0],
        4..8 => copy_ends::<4>(from, to),
        8..16 => copy_ends::<8>(from, to),
        16..=32 => copy_ends::<16>(from, to),
        _ => to.copy_from_slice(from),
    }
}

/// Copies the first and the last `N` bytes, which overlap or meet.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) {
    let last = from.len() - N;
    to[..N].copy_from_slice(&from[..N]);
    to[last..].copy_from_slice(&from[last..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_put_together_is_its_parts_with_their_checksum(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..4),
            word: [u8; 4],
        ) {
            let body: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let all = parts.concat();
            let own = crc32c(&[&word[..], &all].concat());
            let mut short = Short::new();
            short.assemble(word, &body);
            prop_assert_eq!((short.len, short.own), (RECORD_HEADER_BYTES + all.len(), own));
            prop_assert_eq!(&short.record[..short.len], [&[0; 4], &word, &all[..]].concat());
        }
    }
}
