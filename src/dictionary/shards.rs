//! A directory of dictionaries that is one dictionary: each file, a *shard*, has the keys of some slots.
//!
//! ```text
//! users.spd/manifest          which shard has which slots, in which file; checked, replaced by a rename
//! users.spd/0-1.spd           shard 0 as of generation 1
//! users.spd/1-3.spd           shard 1, which changed last in generation 3
//! ```
//!
//! A key's slot is that of Redis Cluster: CRC-16 of the key, or of what stands between its first `{` and the next `}` if that is not
//! empty, modulo 16384. So the shards are those that cluster clients look for. An update writes new files for the shards that
//! change, then the manifest; readers go on with the files they have open until they ask for the new ones.
//!
//! Source: the Redis Cluster specification, "Key distribution model". The manifest: docs/dictionary-format.md, "Manifest".

use super::format::BUILD_AGAIN;
use super::publish::{TakeOver, Unpublished};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Mode, Storage};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Slots of all shards together.
pub(super) const SLOT_COUNT: u32 = 1 << 14;
/// A manifest of as many shards as there can be, with the longest lines.
const MANIFEST_BYTES_MAX: u64 = SLOT_COUNT as u64 * 96 + 4096;
const MANIFEST_NAME: &str = "manifest";
const FIRST_WORDS: &str = "splitpoint dictionary ";
const FIRST_LINE: &str = "splitpoint dictionary 1";
/// Generations are below it, so that another can always follow.
const GENERATION_END: u64 = 1 << 63;

/// The slot of a key.
pub(super) fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOT_COUNT as u16
}

/// What of the key is hashed.
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(close) if close > 0 => &rest[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, from 0, highest bit first.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut sum = (byte as u16) << 8;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 0x8000 != 0 { sum << 1 ^ 0x1021 } else { sum << 1 };
                bit += 1;
            }
            table[byte] = sum;
            byte += 1;
        }
        table
    };
    bytes.iter().fold(0, |sum, byte| sum << 8 ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)])
}

/// Which file has which slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Goes up by one with each change.
    pub generation: u64,
    /// In order of their slots, which are all slots.
    pub shards: Vec<Shard>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub last_slot: u16,
    /// The file's name in the directory.
    pub name: String,
    pub pairs: u64,
}

impl Manifest {
    /// Where it is in a directory of shards.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(MANIFEST_NAME)
    }

    /// Slots divided among `count` shards as evenly as they can be; without files.
    pub fn divided(count: u32, generation: u64) -> Manifest {
        let shard = |index: u32| {
            let end = u64::from(SLOT_COUNT) * u64::from(index + 1) / u64::from(count);
            Shard { last_slot: (end - 1) as u16, name: file_name(index as usize, generation), pairs: 0 }
        };
        Manifest { generation, shards: (0..count).map(shard).collect() }
    }

    /// The same division of slots, with the files of another generation.
    pub fn renamed(&self, generation: u64) -> Manifest {
        let mut manifest = Manifest { generation, shards: self.shards.clone() };
        for (index, shard) in manifest.shards.iter_mut().enumerate() {
            shard.name = file_name(index, generation);
        }
        manifest
    }

    /// Which shard has a key.
    pub fn shard_of(&self, key: &[u8]) -> usize {
        shard_of(self.shards.iter().map(|shard| shard.last_slot), slot(key))
    }

    /// The manifest of the directory; `None` if there is none.
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
            return Err(wrong(&path, &format!("{bytes} bytes, which no manifest has")));
        }
        let mut text = vec![0; bytes as usize];
        file.read_at(&mut text, 0).map_err(failed)?;
        if !text.starts_with(FIRST_WORDS.as_bytes()) && !FIRST_WORDS.as_bytes().starts_with(&text) {
            return Err(Error::new(ErrorKind::NotATable, format!("{}: no manifest of Splitpoint", path.display())));
        }
        Self::parse(&text).map(Some).map_err(|what| wrong(&path, &what))
    }

    pub fn text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\ngeneration {}\n", self.generation);
        let mut first = 0;
        for shard in &self.shards {
            let _ = writeln!(text, "shard {first} {} {} {}", shard.last_slot, shard.pairs, shard.name);
            first = u32::from(shard.last_slot) + 1;
        }
        let checksum = crc32c::crc32c(text.as_bytes());
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
                return Err(format!("{line:?}: written by a later version; upgrade Splitpoint"));
            }
            _ => return Err("not a manifest of Splitpoint".into()),
        }
        let computed = crc32c::crc32c(body.as_bytes());
        if last != format!("checksum {computed:08x}\n") {
            return Err(format!("the last line is {:?}, the checksum {computed:08x}", last.trim_end()));
        }
        let generation = lines.next().and_then(|line| line.strip_prefix("generation ")?.parse().ok());
        let generation = generation.filter(|generation| *generation < GENERATION_END).ok_or("no generation")?;
        let mut shards: Vec<Shard> = Vec::new();
        let mut next_slot = 0;
        for line in lines {
            let shard =
                parse_shard(line, next_slot).ok_or_else(|| format!("{line:?} is no shard from slot {next_slot}"))?;
            next_slot = u32::from(shard.last_slot) + 1;
            shards.push(shard);
        }
        if next_slot != SLOT_COUNT {
            return Err(format!("shards up to slot {next_slot}, there are {SLOT_COUNT}"));
        }
        Ok(Manifest { generation, shards })
    }
}

/// The line `shard FIRST LAST PAIRS NAME`, where FIRST is known.
fn parse_shard(line: &str, first_slot: u32) -> Option<Shard> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    if word()? != "shard" || word()?.parse() != Ok(first_slot) {
        return None;
    }
    let last_slot: u16 = word()?.parse().ok()?;
    let pairs = word()?.parse().ok()?;
    let name = word()?.to_owned();
    let in_range = first_slot <= u32::from(last_slot) && u32::from(last_slot) < SLOT_COUNT;
    // A name, and not a way out of the directory.
    let plain =
        name.ends_with(".spd") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    (in_range && plain && word().is_none()).then_some(Shard { last_slot, name, pairs })
}

pub(super) fn shard_of(last_slots: impl Iterator<Item = u16>, slot: u16) -> usize {
    last_slots.take_while(|last| *last < slot).count()
}

pub(super) fn file_name(shard: usize, generation: u64) -> String {
    format!("{shard}-{generation}.spd")
}

/// The generation of a name that [`file_name`] gives, or of what is made beside such a file.
fn generation_of(name: &str) -> Option<u64> {
    let (shard, rest) = name.split_once('-')?;
    let (generation, suffix) = rest.split_once(".spd")?;
    // As we write them: `2024-01` is another's.
    let number = |digits: &str| digits.parse::<u64>().ok().filter(|number| number.to_string() == digits);
    let ours = number(shard)? < SLOT_COUNT.into() && (suffix.is_empty() || suffix.starts_with('-'));
    number(generation).filter(|generation| ours && *generation < GENERATION_END)
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{}: {what}. {BUILD_AGAIN}.", path.display()))
}

/// What a directory has before it is changed.
pub(super) struct Before {
    /// `None` where there is none, or a damaged one.
    pub manifest: Option<Manifest>,
    /// The next manifest's.
    pub generation: u64,
    /// Files of shards that stay until there is another manifest.
    names: Vec<String>,
}

/// Replaces the manifest of a directory; holds off other writers while it lives.
pub(super) struct Publisher<'s> {
    directory: PathBuf,
    manifest: Unpublished<'s>,
}

impl<'s> Publisher<'s> {
    /// # Errors
    /// [`ErrorKind::Locked`] where another process builds or updates the directory; [`ErrorKind::NotATable`] where it has something
    /// else in it than a dictionary.
    pub fn new(storage: &'s dyn Storage, directory: &Path) -> Result<Self> {
        storage.make_directory(directory).map_err(|e| Error::io(directory, "make the directory", e))?;
        refuse_other_directories(storage, directory)?;
        let path = Manifest::path(directory);
        let manifest = Unpublished::new(storage, &path, "-unfinished", &path, TakeOver::Any)?;
        Ok(Publisher { directory: directory.to_owned(), manifest })
    }

    /// What is to be replaced. A damaged manifest is: that is how it is mended.
    pub fn before(&self) -> Result<Before> {
        let names = |manifest: &Manifest| manifest.shards.iter().map(|shard| shard.name.clone()).collect();
        let (manifest, last, names) = match Manifest::read(self.manifest.storage, &self.directory) {
            Ok(Some(manifest)) => (Some(manifest.clone()), manifest.generation, names(&manifest)),
            Ok(None) => (None, 0, Vec::new()),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let mut names = names_in(self.manifest.storage, &self.directory)?;
                names.retain(|name| generation_of(name).is_some());
                (None, names.iter().filter_map(|name| generation_of(name)).max().unwrap_or(0), names)
            }
            Err(error) => return Err(error),
        };
        match last + 1 {
            GENERATION_END => Err(wrong(&Manifest::path(&self.directory), "no generation can follow")),
            generation => Ok(Before { manifest, generation, names }),
        }
    }

    /// Makes `manifest` that of the directory; then removes the files of `before` that it does not name. Where that fails, the other
    /// way round.
    pub fn publish(mut self, manifest: &Manifest, before: &Before) -> Result<()> {
        let new: Vec<&str> = manifest.shards.iter().map(|shard| &shard.name[..]).collect();
        let old: Vec<&str> = before.names.iter().map(|name| &name[..]).collect();
        self.remove_leftovers(manifest.generation, &[&new[..], &old].concat());
        let published = self.manifest.publish(manifest.text().as_bytes());
        if !self.manifest.is_published() {
            self.remove(&new, &old);
        }
        published?;
        if before.manifest.is_none() {
            // The directory's own name, which may be as new as what is in it.
            let directory = &self.directory;
            let synced = self.manifest.storage.sync_names(directory);
            synced.map_err(|e| Error::io(directory, "sync the directory of", e))?;
        }
        self.remove(&old, &new);
        Ok(())
    }

    /// Removes what killed processes left: what is named after a shard and is none of `kept`. As long as the manifest has not its name,
    /// nobody else is writing here; then the next one may be, and its shards are in no manifest either.
    fn remove_leftovers(&self, generation: u64, kept: &[&str]) {
        let names = self.manifest.storage.names_in(&self.directory).unwrap_or_default();
        let left = |name: &&str| generation_of(name).is_some_and(|left| left <= generation);
        let left: Vec<&str> = names.iter().map(|name| &name[..]).filter(left).collect();
        self.remove(&left, kept);
    }

    /// Removes files that are none of `kept`.
    fn remove(&self, names: &[&str], kept: &[&str]) {
        for name in names.iter().filter(|name| !kept.contains(name)) {
            // One that cannot be removed takes room and does no other harm.
            let _ = self.manifest.storage.remove(&self.directory.join(name));
        }
    }
}

/// Fails where a directory has no manifest and something else in it than what a first build left.
fn refuse_other_directories(storage: &dyn Storage, directory: &Path) -> Result<()> {
    match Manifest::read(storage, directory) {
        Ok(None) => {}
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
        Ok(Some(_)) | Err(_) => return Ok(()),
    }
    let names = names_in(storage, directory)?;
    // The first build may have ended meanwhile.
    let ours =
        |name: &String| [MANIFEST_NAME, "manifest-unfinished"].contains(&&name[..]) || generation_of(name) == Some(1);
    let Some(other) = names.iter().find(|name| !ours(name)) else { return Ok(()) };
    let shown = directory.display();
    let message = format!(
        "{shown}: has {other:?} in it and no manifest, so it is no dictionary; it is not made one. Empty it, or choose another name."
    );
    Err(Error::new(ErrorKind::NotATable, message))
}

fn names_in(storage: &dyn Storage, directory: &Path) -> Result<Vec<String>> {
    storage.names_in(directory).map_err(|e| Error::io(directory, "list", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // The check value of CRC-16/XMODEM, and what CLUSTER KEYSLOT answers.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"123456789"), 12739);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"somekey"), 11058);
        assert_eq!(slot(b"foo{hash_tag}"), 2515);
        assert_eq!(slot(b"bar{hash_tag}"), 2515);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        // Nothing between the braces, or no second one: the whole key counts.
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % 16384);
    }

    #[test]
    fn a_manifest_reads_back_and_no_other_text_does() {
        for count in [1, 2, 3, 16, 16384] {
            let manifest = Manifest::divided(count, 7);
            assert_eq!(manifest.shards.len(), count as usize);
            assert_eq!(Manifest::parse(manifest.text().as_bytes()), Ok(manifest));
        }
        let text = Manifest::divided(3, 7).text().into_bytes();
        for at in 0..text.len() {
            assert!(Manifest::parse(&text[..at]).is_err());
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            assert!(Manifest::parse(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_manifest_names_files_of_its_directory_only() {
        for name in ["../a.spd", "/a.spd", "a", "a/b.spd", ".spd/..", "a b.spd", ""] {
            let mut manifest = Manifest::divided(1, 1);
            manifest.shards[0].name = name.to_owned();
            assert!(Manifest::parse(manifest.text().as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn each_slot_has_one_shard() {
        let manifest = Manifest::divided(7, 1);
        let last = |slot| shard_of(manifest.shards.iter().map(|shard| shard.last_slot), slot);
        let mut counts = [0; 7];
        (0..SLOT_COUNT as u16).for_each(|slot| counts[last(slot)] += 1);
        assert!(counts.iter().all(|count| (2340..2342).contains(count)), "{counts:?}");
    }
}
