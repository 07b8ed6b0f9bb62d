//! LZ4 blocks, decompressed byte by byte.
//!
//! Source: the LZ4 block format description, lz4_Block_format.md.

use super::Result;

/// Decompresses `stored` to `raw_bytes` bytes.
pub fn unpack(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let mut from = stored.iter().copied();
    let mut out = Vec::new();
    loop {
        let token = from.next().ok_or("LZ4: no token")?;
        let literals = length(token >> 4, &mut from)?;
        for _ in 0..literals {
            out.push(from.next().ok_or("LZ4: literals are cut")?);
        }
        // The last sequence ends with its literals.
        let Some(low) = from.next() else { break };
        let high = from.next().ok_or("LZ4: an offset is cut")?;
        let offset = usize::from(u16::from_le_bytes([low, high]));
        let matched = length(token & 15, &mut from)? + 4;
        if offset == 0 || offset > out.len() || out.len() + matched > raw_bytes {
            return Err(format!("LZ4: {matched} bytes from {offset} back"));
        }
        for _ in 0..matched {
            out.push(out[out.len() - offset]);
        }
    }
    if out.len() == raw_bytes { Ok(out) } else { Err(format!("LZ4: {} bytes, not {raw_bytes}", out.len())) }
}

fn length(nibble: u8, from: &mut impl Iterator<Item = u8>) -> Result<usize> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let more = from.next().ok_or("LZ4: a length is cut")?;
            length += usize::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Ok(length)
}
