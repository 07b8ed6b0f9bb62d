//! LZF, the compression of strings in dump files.
//!
//! ```text
//! 000n nnnn                         n + 1 bytes follow verbatim
//! lllo oooo  oooo oooo              repeat l + 2 bytes from offset o + 1 back; l from 1 to 6
//! 111o oooo  nnnn nnnn  oooo oooo   repeat n + 9 bytes
//! ```
//!
//! The crate for it is deprecated. The compressor finds what Redis's finds: one candidate per hash of three bytes, the
//! last one. So DUMP returns the bytes that Redis returns.
//!
//! Source: the format of Marc Lehmann's LibLZF.

use super::{Result, bad};
use std::cell::RefCell;

/// Candidates, by a hash of three bytes.
const SLOTS: usize = 1 << 16;
const OFFSET_MAX: usize = 1 << 13;
const MATCH_MAX: usize = (1 << 8) + (1 << 3);
const LITERALS_MAX: usize = 1 << 5;

/// Bytes that one compressed byte can stand for, rounded up.
const RATIO_MAX: usize = MATCH_MAX.div_ceil(3) + 1;

/// Decompresses to `len` bytes. Every step writes at least one byte, so it ends.
pub(super) fn decompress(mut input: &[u8], len: usize) -> Result<Vec<u8>> {
    const WRONG: &str = "compressed bytes of a string that are damaged";
    // A length that cannot be right is refused before anything is allocated.
    if len / RATIO_MAX > input.len() {
        return Err(bad(WRONG));
    }
    let next = |input: &mut &[u8]| -> Result<usize> {
        let (&byte, rest) = input.split_first().ok_or_else(|| bad(WRONG))?;
        *input = rest;
        Ok(usize::from(byte))
    };
    let mut value: Vec<u8> = Vec::with_capacity(len);
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            let count = usize::from(control) + 1;
            let (taken, rest) = input.split_at_checked(count).ok_or_else(|| bad(WRONG))?;
            value.extend_from_slice(taken);
            input = rest;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += next(&mut input)?;
            }
            let back = usize::from(control & 0x1f) << 8 | next(&mut input)?;
            let from = value.len().checked_sub(back + 1).ok_or_else(|| bad(WRONG))?;
            // Byte by byte: a reference may overlap its own output.
            for index in from..from + count + 2 {
                value.push(value[index]);
            }
        }
        if value.len() > len {
            return Err(bad(WRONG));
        }
    }
    if value.len() == len { Ok(value) } else { Err(bad(WRONG)) }
}

/// Compresses `input` to fewer than `input.len() - 4` bytes; `None` if that is not possible.
///
/// O(bytes): the table of candidates, far larger than most strings, is kept between calls, and emptied only
/// where a call used it.
pub(super) fn compress(input: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static LAST: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }
    LAST.with_borrow_mut(|last| {
        last.resize(SLOTS, 0);
        let compressed = compress_with(last, input);
        if input.len() < SLOTS {
            input.windows(3).for_each(|three| last[slot_of(three)] = 0);
        } else {
            last.fill(0);
        }
        compressed
    })
}

fn compress_with(last: &mut [u32], input: &[u8]) -> Option<Vec<u8>> {
    let limit = input.len().checked_sub(4)?;
    let mut output = Output { bytes: vec![0], literals: 0, limit };
    let mut at = 0;
    while at + 2 < input.len() {
        let slot = &mut last[slot_of(&input[at..])];
        let candidate = *slot as usize;
        *slot = u32::try_from(at).ok()?;
        // An empty slot is 0, so candidate 0 is never used.
        let offset = at.wrapping_sub(candidate + 1);
        if candidate == 0 || offset >= OFFSET_MAX || input[candidate..candidate + 3] != input[at..at + 3] {
            output.literal(input[at])?;
            at += 1;
            continue;
        }
        let len = match_len(input, candidate, at);
        output.repeat(offset, len)?;
        at += len;
        if at + 2 >= input.len() {
            break;
        }
        // Only the last two of the positions within the match become candidates.
        for position in at - 2..at {
            last[slot_of(&input[position..])] = u32::try_from(position).ok()?;
        }
    }
    if output.bytes.len() + 3 > limit {
        return None;
    }
    input[at..].iter().try_for_each(|&byte| output.literal(byte))?;
    output.end_run();
    Some(output.bytes)
}

/// Bytes equal at both positions: at least three. The last two of the input count only in long matches.
fn match_len(input: &[u8], candidate: usize, at: usize) -> usize {
    const UNLIMITED: usize = 16;
    let most = (input.len() - at - 2).min(MATCH_MAX);
    let is_equal = |index: usize| input[candidate + index] == input[at + index];
    let mut len = 3;
    if most > UNLIMITED {
        while len < 2 + UNLIMITED + 1 && is_equal(len) {
            len += 1;
        }
        if len < 2 + UNLIMITED + 1 {
            return len;
        }
    }
    while len < most && is_equal(len) {
        len += 1;
    }
    len
}

fn slot_of(input: &[u8]) -> usize {
    let hash = u32::from_be_bytes([0, input[0], input[1], input[2]]);
    ((hash >> 8).wrapping_sub(hash.wrapping_mul(5)) as usize) % SLOTS
}

/// Compressed bytes; the last run of literals has its control byte in front, not set yet.
struct Output {
    bytes: Vec<u8>,
    literals: usize,
    limit: usize,
}

impl Output {
    fn literal(&mut self, byte: u8) -> Option<()> {
        if self.bytes.len() >= self.limit {
            return None;
        }
        self.bytes.push(byte);
        self.literals += 1;
        if self.literals == LITERALS_MAX {
            self.end_run();
            self.bytes.push(0);
        }
        Some(())
    }

    fn repeat(&mut self, offset: usize, len: usize) -> Option<()> {
        self.end_run();
        if self.bytes.len() + 4 >= self.limit {
            return None;
        }
        let (high, low) = ((offset >> 8) as u8, offset as u8); // 13 bits
        match len - 2 {
            code @ 0..7 => self.bytes.push(high + ((code as u8) << 5)),
            code => self.bytes.extend([high + (7 << 5), (code - 7) as u8]), // at most MATCH_MAX - 2
        }
        self.bytes.extend([low, 0]);
        Some(())
    }

    /// Sets the control byte of the run, or removes it if there are no literals.
    fn end_run(&mut self) {
        match self.literals {
            0 => _ = self.bytes.pop(),
            count => {
                let control = self.bytes.len() - count - 1;
                self.bytes[control] = count as u8 - 1; // at most LITERALS_MAX
            }
        }
        self.literals = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_values_are_read_and_wrong_ones_refused() {
        // One literal, then a reference that repeats it.
        let value = decompress(&[0, b'a', 0xe0, 90, 0], 100).unwrap();
        assert_eq!(value, [b'a'; 100]);
        assert!(decompress(&[0, b'a', 0xe0, 90, 1], 100).is_err());
        assert!(decompress(&[0, b'a'], 1 << 30).is_err());
        assert!(decompress(&[5, b'a'], 6).is_err());
    }

    #[test]
    fn what_is_compressed_is_decompressed() {
        let mut seed = 7_u64;
        let mut random = move |end: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % end
        };
        let mut shorter = 0;
        for round in 0..3000 {
            let letters = 1 + random(round % 30 + 1);
            let input: Vec<u8> = (0..random(if round % 100 == 0 { 40_000 } else { 300 }))
                .map(|_| if random(20) == 0 { random(256) } else { random(letters) } as u8)
                .collect();
            if let Some(compressed) = compress(&input) {
                assert!(compressed.len() + 4 <= input.len());
                assert_eq!(decompress(&compressed, input.len()).unwrap(), input);
                shorter += 1;
            }
        }
        assert!(shorter > 1000, "{shorter}");
        assert_eq!(compress(b""), None);
        assert_eq!(compress(&[b'x'; 5]), None);
    }
}
