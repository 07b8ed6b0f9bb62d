//! Dictionaries from outside: the file against its format document, and lookups of absent keys.
//!
//! ```text
//! dictionaries.rs           what the library builds, read by the second reader (spd.rs): every kind, layout and size
//! dictionaries/golden.rs    fixtures/spd-v1: how each file came about, and what is in it
//! dictionaries/absent.rs    a hundred million keys that are not there
//! ```
//!
//! Damaged dictionaries: `corruption/dictionary.rs`. Killed builds and full disks: `processes/dictionaries.rs`. Crashes
//! of the machine: `src/dictionary/tests/crash.rs`.

mod absent;
pub mod golden;
#[path = "../../src/dictionary/tests/sample_pairs.rs"]
mod sample_pairs;

use crate::corruption::Random;
use crate::spd::indexes::{Index as Read, Ranked};
use crate::spd::{Reader, manifest, trie};
use sample_pairs::KINDS;
pub use sample_pairs::Pairs;
use splitpoint::dictionary::{Compression, Index};
use splitpoint::{Dictionary, DictionaryBuilder, HashKind};
use std::fs;
use std::path::Path;

/// Returns indexes so small that a few thousand pairs have many blocks, chunks and buckets.
fn indexes() -> Vec<Index> {
    vec![
        Index::page(),
        Index::Page { bins_per_page: 1 },
        Index::trie(),
        Index::Trie { bucket_keys: 16, huffman_max: 8, skip_min: 32, block_items: 1 },
        Index::Trie { bucket_keys: 1024, huffman_max: 32, skip_min: 32, block_items: 1 },
        Index::trie_sparse(8),
        Index::trie_sparse(0),
        Index::chunk(),
        Index::None,
    ]
}

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next() as u8).collect()
}

fn pairs(kind: &str, count: usize) -> Pairs {
    let mut random = Random(count as u64);
    sample_pairs::pairs(kind, count as u64, || random.next())
}

/// Returns a key: each bit of `n` becomes `bx` or `cW`. All keys of one length have the same DJB2 hash, as 33 * 98 +
/// 120 is 33 * 99 + 87.
fn colliding(n: u32, bits: u32) -> Vec<u8> {
    (0..bits).flat_map(|bit| if n >> bit & 1 == 0 { *b"bx" } else { *b"cW" }).collect()
}

/// Compares what the second reader finds in the file at `path` with `pairs`.
fn reads_alike(path: &Path, pairs: &Pairs, context: &str) -> Reader {
    let reader = Reader::new(&fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{context}: {e}"));
    let found: Pairs = reader.records.iter().map(|record| (record.key.clone(), record.value.clone())).collect();
    assert_eq!(found.len(), reader.records.len(), "{context}: a key is there twice");
    assert!(found == *pairs, "{context}: other pairs");
    reader.check().unwrap_or_else(|e| panic!("{context}: {e}"));
    for n in 0..200u32 {
        let key = format!("absent {n}");
        assert_eq!(reader.find(key.as_bytes()), Ok(None), "{context}: {key}");
    }
    reader
}

#[test]
fn a_second_reader_finds_every_record_by_every_index() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.spd");
    for index in indexes() {
        for kind in KINDS {
            for compression in [Compression::None, Compression::Lz4] {
                for count in [0, 1, 2, 3, 40, 2500] {
                    let context = format!("{index:?}, {kind}, {compression:?}, {count}");
                    let pairs = pairs(kind, if kind == "fixed, long" { count.min(600) } else { count });
                    let builder = DictionaryBuilder::new().index(index).page_bytes(512).threads(1);
                    builder.compression(compression).block_bytes(700).build(&path, &pairs).unwrap();
                    reads_alike(&path, &pairs, &context);
                }
            }
        }
    }
}

#[test]
fn a_second_reader_finds_keys_of_equal_hashes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.spd");
    let mut ties = 0;
    for index in indexes() {
        // A few keys with one hash; more than fit a chunk; more than fit two chunks.
        for (bits, singles) in [(3, 700), (10, 900), (11, 1600)] {
            for value_len in [0, 3] {
                let equal = (0..1 << bits).map(|n| colliding(n, bits));
                let single = (0..singles).map(|n: u32| bytes(&mut Random(n.into()), 2 * bits as usize));
                // One longer value makes all lengths vary.
                let value = |n: usize| vec![b'v'; if n == 0 { value_len } else { 0 }];
                let pairs: Pairs = equal.chain(single).enumerate().map(|(n, key)| (key, value(n))).collect();
                let builder = DictionaryBuilder::new().index(index).page_bytes(512).hash(HashKind::Djb2).seed(0);
                builder.build(&path, &pairs).unwrap();
                let reader = reads_alike(&path, &pairs, &format!("{index:?}, {bits} bits, {value_len}"));
                if let Read::Ranked { index: Ranked::Chunks(chunks), .. } = reader.index {
                    ties += chunks.ties();
                }
            }
        }
    }
    assert!(ties >= 4, "{ties} ties");
}

#[test]
fn huffman_codes_are_those_that_the_norm_gives() {
    let codes = |count| {
        let mut codes: Vec<_> =
            trie::codes(count).iter().map(|((length, code), symbol)| (*symbol, *length, *code)).collect();
        codes.sort_unstable();
        codes.iter().map(|(_, length, code)| format!("{code:0width$b}", width = *length as usize)).collect::<Vec<_>>()
    };
    assert_eq!(codes(3), ["10", "11", "0"]);
    assert_eq!(codes(5), ["110", "111", "00", "01", "10"]);
}

#[test]
fn a_second_reader_finds_the_same_shards() {
    let directory = tempfile::tempdir().unwrap();
    for count in [1, 2, 5, 40] {
        let path = directory.path().join(format!("{count}.spd"));
        let mut pairs = pairs("words", 3000);
        pairs.extend((0..50).map(|n| (format!("{{tag}}{n}").into_bytes(), b"together".to_vec())));
        let builder = DictionaryBuilder::new().page_bytes(512).shards(count);
        builder.build(&path, &pairs).unwrap();
        shards_alike(&path, 1, &pairs);
        let mut update = Dictionary::update(&path, &path, &builder).unwrap();
        update.put(b"new", b"pair").unwrap();
        update.remove(b"word7").unwrap();
        update.finish().unwrap();
        pairs.insert(b"new".into(), b"pair".into());
        pairs.remove(&b"word7"[..]);
        shards_alike(&path, 2, &pairs);
    }
}

/// Compares what the second reader finds in a directory of shards with `pairs`; there must be no other files.
fn shards_alike(path: &Path, generation: u64, pairs: &Pairs) {
    let manifest = manifest::Manifest::parse(&fs::read(path.join("manifest")).unwrap()).unwrap();
    assert_eq!(manifest.generation, generation);
    let mut divided = vec![Pairs::new(); manifest.shards.len()];
    for (key, value) in pairs {
        divided[manifest.shard_of(key)].insert(key.clone(), value.clone());
    }
    for (shard, pairs) in manifest.shards.iter().zip(&divided) {
        reads_alike(&path.join(&shard.name), pairs, &shard.name);
        assert_eq!(shard.pairs, pairs.len() as u64, "{}", shard.name);
    }
    let mut names: Vec<_> = manifest.shards.iter().map(|shard| shard.name.clone()).chain(["manifest".into()]).collect();
    let mut there: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    there.sort();
    assert_eq!(there, names);
}

#[test]
fn the_users_own_hash_function_is_not_taken_from_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users");
    let pairs = [("alice", "admin")];
    let table = splitpoint::TableOptions::new().hash(HashKind::User);
    let builder = DictionaryBuilder::new().hash(HashKind::User);
    let refusals = [
        table.clone().open(&path).err(),
        table.in_memory().err(),
        builder.build(&path, pairs).err(),
        builder.clone().shards(2).build(&path, pairs).err(),
    ];
    for refused in refusals {
        let refused = refused.expect("every key would have the same hash");
        assert_eq!(refused.kind(), splitpoint::ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains("user_hash"), "{refused}");
    }
    assert!(!path.exists());

    // A function returns the same hash in a table, a build and an open dictionary.
    let first = |key: &[u8]| key.first().copied().unwrap_or(0).into();
    builder.user_hash("first", first).build(&path, pairs).unwrap();
    let users = splitpoint::DictionaryOptions::new().user_hash("first", first).open(&path).unwrap();
    assert_eq!((users.hash_function().name(), users.get(b"alice").unwrap()), ("first", Some(b"admin".to_vec())));
}

#[test]
fn an_iteration_returns_no_more_than_its_size_hint_and_nothing_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("numbers.spd");
    let pairs = (0..500u32).map(|n| (n.to_le_bytes(), b"value"));
    DictionaryBuilder::new().shards(3).build(&path, pairs).unwrap();
    let numbers = Dictionary::open(&path).unwrap();
    let mut all = numbers.iter();
    let mut left = 500;
    loop {
        assert_eq!(all.size_hint(), (0, Some(left + 1)));
        if all.next().is_none() {
            break;
        }
        left -= 1;
    }
    assert_eq!(left, 0);
    assert!(all.next().is_none() && all.next().is_none());
    let part = numbers.range(..u64::MAX / 2);
    assert!(part.size_hint().1.unwrap() >= part.count());
}
