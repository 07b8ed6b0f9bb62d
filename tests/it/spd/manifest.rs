//! The manifest of a directory of shards (docs/dictionary-format.md, "Manifest").

use super::{Result, must};
use crate::spt::crc32c;

const SLOTS: u32 = 16384;

#[derive(Debug, PartialEq, Eq)]
pub struct Shard {
    pub first: u32,
    pub last: u32,
    pub pairs: u64,
    pub name: String,
}

#[derive(Debug)]
pub struct Manifest {
    pub generation: u64,
    pub shards: Vec<Shard>,
}

impl Manifest {
    pub fn parse(bytes: &[u8]) -> Result<Manifest> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        let lines: Vec<&str> = text.strip_suffix('\n').ok_or("no line end")?.split('\n').collect();
        let [first, generation, shards @ .., checksum] = &lines[..] else { return Err("too few lines".into()) };
        must(*first == "splitpoint dictionary 1", || format!("begins with {first:?}"))?;
        let covered = &bytes[..bytes.len() - checksum.len() - 1];
        let wanted = format!("checksum {:08x}", crc32c(0, covered));
        must(*checksum == wanted, || format!("{checksum}, not {wanted}"))?;
        let generation = generation.strip_prefix("generation ").and_then(|n| n.parse().ok()).ok_or("no generation")?;
        let mut next = 0;
        let mut read = Vec::new();
        for line in shards {
            let words: Vec<&str> = line.split(' ').collect();
            let &["shard", first, last, pairs, name] = &words[..] else { return Err(format!("{line:?}")) };
            let number = |word: &str| word.parse::<u64>().map_err(|e| format!("{word:?}: {e}"));
            let shard = Shard {
                first: number(first)? as u32,
                last: number(last)? as u32,
                pairs: number(pairs)?,
                name: name.to_owned(),
            };
            let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            must(letters && name.ends_with(".spd"), || format!("a file {name:?}"))?;
            must(shard.first == next && shard.last >= next && shard.last < SLOTS, || {
                format!("{shard:?}, not from {next}")
            })?;
            next = shard.last + 1;
            read.push(shard);
        }
        must(next == SLOTS, || format!("slots up to {next}"))?;
        Ok(Manifest { generation, shards: read })
    }

    /// Returns the shard of a key.
    pub fn shard_of(&self, key: &[u8]) -> usize {
        let slot = slot(key);
        self.shards.iter().position(|shard| slot <= shard.last).expect("they cover all slots")
    }
}

/// Makes the checksum line of `bytes` match what precedes it, if there is such a line.
pub fn repair(bytes: &mut Vec<u8>) {
    let Some(at) = bytes.windows(10).rposition(|w| w == b"\nchecksum ") else { return };
    bytes.truncate(at + 1);
    let line = format!("checksum {:08x}\n", crc32c(0, bytes));
    bytes.extend_from_slice(line.as_bytes());
}

pub fn slot(key: &[u8]) -> u32 {
    let between = |open: usize| {
        let rest = &key[open + 1..];
        rest.iter().position(|&b| b == b'}').filter(|close| *close > 0).map(|close| &rest[..close])
    };
    let hashed = key.iter().position(|&b| b == b'{').and_then(between).unwrap_or(key);
    let mut sum = 0u16;
    for byte in hashed {
        for bit in (0..8).rev() {
            let carry = (sum >> 15) as u8 ^ (byte >> bit & 1);
            sum = sum << 1 ^ if carry == 1 { 0x1021 } else { 0 };
        }
    }
    u32::from(sum) % SLOTS
}
