//! The manifest of a directory of shards: which file has which slots.
//!
//! A text file that ends with a checksum. The norm is docs/dictionary-format.md, "Manifest".

use super::info::ShardInfo;
use super::slots::{SLOT_COUNT, slot};
use crate::checksum::crc32c;
use crate::dictionary::format::ends::damaged;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Mode, Storage};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The size of a manifest with the maximum number of shards and the longest lines.
const MANIFEST_BYTES_MAX: u64 = SLOT_COUNT as u64 * 96 + 4096;
pub(crate) const MANIFEST_NAME: &str = "manifest";
const FIRST_WORDS: &str = "splitpoint dictionary ";
const FIRST_LINE: &str = "splitpoint dictionary 1";
/// Generations are below this, so that there is always a next one.
pub(crate) const GENERATION_END: u64 = 1 << 63;

/// The slots of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Increases by one with each change.
    pub generation: u64,
    /// In order of their slots. Together they have all slots.
    pub shards: Vec<Shard>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    pub last_slot: u16,
    /// The file's name in the directory.
    pub name: String,
    pub pairs: u64,
}

impl Manifest {
    /// The path of the manifest in a directory of shards.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(MANIFEST_NAME)
    }

    /// Divides the slots among `count` shards as evenly as possible; the shards have no files.
    pub fn divided(count: u32, generation: u64) -> Manifest {
        let shard = |index: u32| {
            let end = u64::from(SLOT_COUNT) * u64::from(index + 1) / u64::from(count);
            Shard { last_slot: (end - 1) as u16, name: file_name(index as usize, generation), pairs: 0 }
        };
        Manifest { generation, shards: (0..count).map(shard).collect() }
    }

    /// The same division of slots, with the file names of another generation.
    pub fn renamed(&self, generation: u64) -> Manifest {
        let mut manifest = Manifest { generation, shards: self.shards.clone() };
        for (index, shard) in manifest.shards.iter_mut().enumerate() {
            shard.name = file_name(index, generation);
        }
        manifest
    }

    /// The number of the shard that a key belongs to.
    pub fn shard_of(&self, key: &[u8]) -> usize {
        self.shard_of_slot(slot(key))
    }

    pub fn shard_of_slot(&self, slot: u16) -> usize {
        self.shards.partition_point(|shard| shard.last_slot < slot)
    }

    /// The first and the last slot of each shard.
    pub fn slot_ranges(&self) -> impl Iterator<Item = (u16, u16)> {
        let firsts = std::iter::once(0).chain(self.shards.iter().map(|shard| shard.last_slot + 1));
        firsts.zip(self.shards.iter().map(|shard| shard.last_slot))
    }

    /// The public descriptions of the shards, with their files in `directory`.
    pub fn infos(&self, directory: &Path) -> Vec<ShardInfo> {
        let info = |(number, (shard, (first_slot, last_slot))): (usize, (&Shard, (u16, u16)))| {
            let path = directory.join(&shard.name);
            ShardInfo { number, path, first_slot, last_slot, pairs: shard.pairs }
        };
        self.shards.iter().zip(self.slot_ranges()).enumerate().map(info).collect()
    }

    /// Reads the manifest of the directory; `None` if it has none.
    pub fn read(storage: &dyn Storage, directory: &Path) -> Result<Option<Manifest>> {
        let path = Self::path(directory);
        let failed = |e| Error::io(&path, "read", e);
        let file = match storage.open(&path, Mode::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let bytes = file.len().map_err(failed)?;
        if bytes > MANIFEST_BYTES_MAX {
            return Err(damaged(&path, format_args!("{bytes} bytes, more than any manifest has")));
        }
        let mut text = vec![0; bytes as usize];
        file.read_at(&mut text, 0).map_err(failed)?;
        if !text.starts_with(FIRST_WORDS.as_bytes()) && !FIRST_WORDS.as_bytes().starts_with(&text) {
            return Err(Error::new(
                ErrorKind::NotADictionary,
                format!("{}: not a manifest of Splitpoint", path.display()),
            ));
        }
        Self::parse(&text).map(Some).map_err(|what| damaged(&path, what))
    }

    pub fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\ngeneration {}\n", self.generation);
        let mut first = 0;
        for shard in &self.shards {
            let _ = writeln!(text, "shard {first} {} {} {}", shard.last_slot, shard.pairs, shard.name);
            first = u32::from(shard.last_slot) + 1;
        }
        let checksum = crc32c(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:08x}");
        text
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Manifest, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "not text".to_owned())?;
        let body_bytes = text.strip_suffix('\n').and_then(|text| text.rfind('\n')).ok_or("too few lines")? + 1;
        let (body, last) = text.split_at(body_bytes);
        let mut lines = body.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with(FIRST_WORDS) => {
                return Err(format!("{line:?}: written by a later version of the library"));
            }
            _ => return Err("not a manifest of Splitpoint".into()),
        }
        let computed = crc32c(body.as_bytes());
        if last != format!("checksum {computed:08x}\n") {
            return Err(format!("the last line is {:?}, the checksum {computed:08x}", last.trim_end()));
        }
        let generation = lines.next().and_then(|line| line.strip_prefix("generation ")?.parse().ok());
        let generation = generation.filter(|generation| *generation < GENERATION_END).ok_or("no generation")?;
        let mut shards: Vec<Shard> = Vec::new();
        let mut next_slot = 0;
        for line in lines {
            let shard =
                parse_shard(line, next_slot).ok_or_else(|| format!("{line:?} is not a shard from slot {next_slot}"))?;
            next_slot = u32::from(shard.last_slot) + 1;
            shards.push(shard);
        }
        if next_slot != u32::from(SLOT_COUNT) {
            return Err(format!("shards up to slot {next_slot}, there are {SLOT_COUNT}"));
        }
        Ok(Manifest { generation, shards })
    }
}

/// Parses the line `shard FIRST LAST PAIRS NAME`, where FIRST is known.
fn parse_shard(line: &str, first_slot: u32) -> Option<Shard> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    if word()? != "shard" || word()?.parse() != Ok(first_slot) {
        return None;
    }
    let last_slot: u16 = word()?.parse().ok()?;
    let pairs = word()?.parse().ok()?;
    let name = word()?.to_owned();
    let in_range = first_slot <= u32::from(last_slot) && last_slot < SLOT_COUNT;
    // A plain name, which cannot lead out of the directory.
    let plain =
        name.ends_with(".spd") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (in_range && plain && word().is_none()).then_some(Shard { last_slot, name, pairs })
}

pub(crate) fn file_name(shard: usize, generation: u64) -> String {
    format!("{shard}-{generation}.spd")
}

/// The generation in a name made by [`file_name`], or in the name of a temporary file for it.
pub(crate) fn generation_of(name: &str) -> Option<u64> {
    let (shard, rest) = name.split_once('-')?;
    let (generation, suffix) = rest.split_once(".spd")?;
    // Only in the form we write: `2024-01` belongs to another program.
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|number| number.to_string() == digits);
    let ours = number(shard)? < SLOT_COUNT.into() && (suffix.is_empty() || suffix.starts_with('-'));
    number(generation).filter(|generation| ours && *generation < GENERATION_END)
}

#[cfg(test)]
#[path = "tests/manifest.rs"]
mod tests;
