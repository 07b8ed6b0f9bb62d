//! The golden dictionaries of `fixtures/spd-v1`: how each was made, and its content.
//!
//! `UPDATE=1 cargo test --test it library_writes` rewrites them. That is right only if something changed that
//! docs/dictionary-format.md leaves open (sizes that an index's writer chooses, LZ4's encoding); if the format changed,
//! see its section "Changes".

use super::{Pairs, colliding, reads_alike, shards_alike};
use crate::corruption::Random;
use crate::format::updating;
use crate::spd::indexes::{Index as Read, Ranked};
use crate::spd::{Reader, manifest};
use splitpoint::dictionary::{Compression, Index};
use splitpoint::{Dictionary, DictionaryBuilder, DictionaryOptions, HashKind};
use std::fs;
use std::path::{Path, PathBuf};

pub struct Golden {
    pub name: &'static str,
    builder: fn() -> DictionaryBuilder,
    pub pairs: fn() -> Pairs,
}

pub const GOLDEN: &[Golden] = &[
    Golden { name: "empty.spd", builder: || with(Index::page()), pairs: Pairs::new },
    Golden { name: "page-fixed.spd", builder: || with(Index::page()), pairs: || fixed(250) },
    Golden { name: "page-varied.spd", builder: || with(Index::page()), pairs: varied },
    Golden { name: "page-lz4.spd", builder: || with(Index::page()).compression(Compression::Lz4), pairs: text },
    Golden { name: "trie.spd", builder: || with(small_tries(1)).hash(HashKind::Sip13).seed(7), pairs: || fixed(600) },
    Golden { name: "trie-sparse.spd", builder: || with(small_tries(8)), pairs: varied },
    Golden { name: "trie-pages.spd", builder: || with(small_tries(0)), pairs: || fixed(600) },
    Golden { name: "chunk.spd", builder: || with(Index::chunk()).hash(HashKind::Djb2).seed(0), pairs: equal },
    Golden {
        name: "chunk-lz4.spd",
        builder: || with(Index::chunk()).compression(Compression::Lz4),
        pairs: || fixed(2300),
    },
    Golden { name: "filter-8.spd", builder: || with(Index::page()).filter(8), pairs: varied },
    Golden { name: "filter-16.spd", builder: || with(Index::chunk()).filter(16), pairs: || fixed(2300) },
    Golden { name: "none.spd", builder: || with(Index::None), pairs: varied },
];

/// The directory of shards.
pub const SHARDS: &str = "shards";

fn with(index: Index) -> DictionaryBuilder {
    DictionaryBuilder::new().index(index).page_bytes(512).block_bytes(600).threads(1)
}

fn small_tries(block_items: u32) -> Index {
    Index::Trie { bucket_keys: 64, huffman_max: 8, skip_min: 32, block_items }
}

fn fixed(count: u32) -> Pairs {
    (0..count).map(|n| (format!("key{n:05}").into_bytes(), (n * 7).to_be_bytes().to_vec())).collect()
}

/// Returns pairs with values of many lengths, some longer than a page, and the empty key.
fn varied() -> Pairs {
    let len = |n: u32| if n % 40 == 7 { 1300 } else { n % 23 };
    let value = |n| (0..len(n)).map(|i| b'a' + ((i * 7 + n) % 26) as u8).collect();
    (0..300).map(|n| (format!("word {n}").into_bytes(), value(n))).chain([(Vec::new(), b"empty".to_vec())]).collect()
}

/// Returns records that LZ4 compresses, and records as long as a block, some of which it compresses.
fn text() -> Pairs {
    let value = |n: u32| format!("the value of number {n}, which is much like that of number {}", n + 1).into_bytes();
    let noise = super::bytes(&mut Random(1), 700);
    let long = (0..8u32).map(|n| (format!("long {n}").into_bytes(), value(n).repeat(9 + n as usize)));
    let short = (0..300).map(|n| (format!("number {n}").into_bytes(), value(n)));
    short.chain(long).chain([(b"noise".to_vec(), noise)]).collect()
}

/// Returns more keys with one hash than fit a chunk, and other keys.
fn equal() -> Pairs {
    let single = (0..600u32).map(|n| format!("{:020}", n.wrapping_mul(0x9E37_79B9)).into_bytes());
    (0..700).map(|n| colliding(n, 10)).chain(single).map(|key| (key, vec![b'x'])).collect()
}

impl Golden {
    fn write(&self, path: &Path) {
        (self.builder)().build(path, (self.pairs)()).unwrap();
    }

    pub fn file(&self) -> PathBuf {
        fixture(self.name)
    }
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/spd-v1").join(name)
}

/// Writes three shards, one of which is then updated.
fn write_shards(path: &Path) {
    let builder = with(Index::page()).shards(3);
    builder.build(path, fixed(120)).unwrap();
    let mut update = Dictionary::update(path, path, &builder).unwrap();
    update.put(b"{one}1", b"new").unwrap();
    update.put(b"{one}2", b"new").unwrap();
    update.finish().unwrap();
}

pub fn shards_pairs() -> Pairs {
    let mut pairs = fixed(120);
    pairs.extend([b"{one}1", b"{one}2"].map(|key| (key.to_vec(), b"new".to_vec())));
    pairs
}

#[test]
fn golden_dictionaries_are_what_the_library_writes_today() {
    let directory = tempfile::tempdir().unwrap();
    for golden in GOLDEN {
        golden.write(&directory.path().join(golden.name));
    }
    write_shards(&directory.path().join(SHARDS));
    for folder in ["", SHARDS] {
        let (fresh, kept) = (directory.path().join(folder), fixture(folder));
        let fresh: Vec<_> =
            fs::read_dir(fresh).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_file()).collect();
        if updating() {
            fs::create_dir_all(&kept).unwrap();
            for path in &fresh {
                fs::copy(path, kept.join(path.file_name().unwrap())).unwrap();
            }
        }
        for path in fresh {
            let name = path.file_name().unwrap().to_string_lossy();
            let (new, old) = (fs::read(&path).unwrap(), fs::read(kept.join(&*name)).unwrap_or_default());
            let differs = new.iter().zip(&old).position(|(a, b)| a != b);
            assert!(
                new == old,
                "{name}: {} bytes, golden {}; first difference at byte {differs:?}. \
                 If only what the format leaves open changed: \
                 UPDATE=1 cargo test --test it library_writes",
                new.len(),
                old.len()
            );
        }
    }
}

/// Checks that the library reads `pairs` from the dictionary at `path`.
pub fn holds(path: &Path, pairs: &Pairs) {
    for mapped in [false, true] {
        let dictionary = DictionaryOptions::new().map_data(mapped).map_index(mapped).open(path).unwrap();
        let context = format!("{}, mapped: {mapped}", path.display());
        assert_eq!(dictionary.len(), pairs.len() as u64, "{context}");
        for (key, value) in pairs {
            assert_eq!(dictionary.get(key).unwrap().as_ref(), Some(value), "{context}: {}", key.escape_ascii());
        }
        assert_eq!(dictionary.get(b"absent").unwrap(), None, "{context}");
        assert!(dictionary.iter().map(Result::unwrap).collect::<Pairs>() == *pairs, "{context}: iter");
        assert_eq!(dictionary.verify().unwrap(), [], "{context}");
    }
}

#[test]
fn golden_dictionaries_hold_their_pairs() {
    for golden in GOLDEN {
        holds(&golden.file(), &(golden.pairs)());
    }
    holds(&fixture(SHARDS), &shards_pairs());
}

#[test]
fn a_second_reader_finds_the_same_in_the_golden_dictionaries() {
    for golden in GOLDEN {
        reads_alike(&golden.file(), &(golden.pairs)(), golden.name);
    }
    shards_alike(&fixture(SHARDS), 2, &shards_pairs());
}

#[test]
fn golden_dictionaries_have_the_structures_they_were_made_for() {
    let read = |name: &str| Reader::new(&fs::read(fixture(name)).unwrap()).unwrap();
    assert!(read("page-fixed.spd").header.fixed.is_some());
    let varied = read("page-varied.spd");
    assert!(varied.header.fixed.is_none() && varied.cells.iter().any(|cell| cell.stream.len() > 2 * 512));
    let lz4 = read("page-lz4.spd");
    assert!(lz4.header.compressed && lz4.cells.len() > 20 && lz4.cells.iter().any(|cell| cell.stream.len() > 700));
    let Read::Ranked { index: Ranked::Chunks(chunks), .. } = read("chunk.spd").index else { panic!("no chunks") };
    assert!(chunks.groups().len() > 2 && chunks.ties() > 0, "{} chunks, {} ties", chunks.groups().len(), chunks.ties());
    let lz4 = read("chunk-lz4.spd");
    let Read::Ranked { index: Ranked::Chunks(chunks), ranks: Some(_), .. } = lz4.index else {
        panic!("no chunks with ranks")
    };
    assert!(lz4.header.compressed && chunks.groups().len() > 2, "{} chunks", chunks.groups().len());
    let manifest = manifest::Manifest::parse(&fs::read(fixture(SHARDS).join("manifest")).unwrap()).unwrap();
    assert!(manifest.shards.iter().any(|shard| shard.name.ends_with("-1.spd")), "{manifest:?}");
    assert!(manifest.shards.iter().any(|shard| shard.name.ends_with("-2.spd")), "{manifest:?}");
    for golden in GOLDEN {
        let bytes = fs::metadata(golden.file()).unwrap().len();
        assert!(bytes <= 64 << 10, "{}: {bytes} bytes", golden.name);
    }
}
