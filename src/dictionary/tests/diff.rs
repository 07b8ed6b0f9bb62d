//! Compares the differences of two dictionaries with those of their pairs, and turns one into the other with them.

#![allow(clippy::disallowed_methods, reason = "tests look at files")]

use super::model::{KINDS, Model, builder, indexes, pairs};
use crate::dictionary::{Change, Compression, Dictionary, DictionaryBuilder, DictionaryOptions, Index};
use crate::error::ErrorKind;
use crate::hash::{HashFunction, HashKind};
use crate::random::Random;
use std::collections::BTreeMap;
use std::path::Path;

type Changes = BTreeMap<Vec<u8>, (Option<Vec<u8>>, Option<Vec<u8>>)>;

fn found(old: &Dictionary, new: &Dictionary) -> Changes {
    let mut diff = old.diff(new).unwrap();
    let (mut changes, mut last) = (Changes::new(), None);
    while let Some(change) = diff.next_ref().unwrap() {
        let place = (old.files.len() == 1).then(|| (old.position(change.key()), change.key().to_vec()));
        assert!(place.is_none() || last < place, "out of hash order");
        last = place;
        let old_value = match change {
            Change::Removed { old_value, .. } | Change::Replaced { old_value, .. } => Some(old_value.to_vec()),
            Change::Added { .. } => None,
        };
        let before = changes.insert(change.key().to_vec(), (old_value, change.value().map(<[u8]>::to_vec)));
        assert_eq!(before, None, "a key twice");
    }
    changes
}

fn expected(old: &Model, new: &Model) -> Changes {
    let keys = old.keys().chain(new.keys());
    let changes = keys.map(|key| (key.clone(), (old.get(key).cloned(), new.get(key).cloned())));
    changes.filter(|(_, (before, after))| before != after).collect()
}

/// Returns `old` with some pairs removed, some changed and some added.
fn changed(old: &Model, kind: &str, percent: usize) -> Model {
    let mut random = Random::new(&[percent as u64]);
    let mut new = old.clone();
    new.retain(|_, _| !random.percent(percent));
    new.values_mut().filter(|_| random.percent(percent)).for_each(|value| {
        if let Some(byte) = value.last_mut() {
            *byte ^= 0x55;
        }
    });
    if percent > 0 {
        new.extend(pairs(kind, 100, 77).into_iter().filter(|(key, _)| !old.contains_key(key)));
    }
    new
}

/// Builds both, compares their differences, and turns the old one into the new one.
fn differ_as_their_pairs(
    builder: &DictionaryBuilder,
    hash: Option<HashFunction>,
    [old, new]: [&Model; 2],
    context: &str,
) {
    let place = tempfile::tempdir().unwrap();
    let [old_path, new_path, copy] = ["old.spd", "new.spd", "copy.spd"].map(|name| place.path().join(name));
    let open = |path: &Path| {
        let options = DictionaryOptions::new();
        hash.iter().fold(options, |options, hash| options.hashed_by(hash)).open(path).unwrap()
    };
    for (path, model) in [(&old_path, old), (&new_path, new), (&copy, old)] {
        builder.build(path, model).unwrap();
    }
    let (old_file, new_file) = (open(&old_path), open(&new_path));
    assert!(found(&old_file, &new_file) == expected(old, new), "{context}");
    assert!(found(&new_file, &old_file) == expected(new, old), "{context}: backwards");
    let mut update = Dictionary::update(&copy, &copy, builder).unwrap();
    let mut diff = old_file.diff(&new_file).unwrap();
    while let Some(change) = diff.next_ref().unwrap() {
        update.apply(&change).unwrap();
    }
    update.finish().unwrap();
    let all = |dictionary: &Dictionary| dictionary.iter().map(Result::unwrap).collect::<Vec<_>>();
    assert!(all(&open(&copy)) == all(&new_file), "{context}: applied");
}

#[test]
fn differences_are_those_of_the_pairs() {
    for index in indexes() {
        for kind in KINDS {
            for (compression, shards, percent) in
                [(Compression::None, 0, 3), (Compression::Lz4, 0, 30), (Compression::None, 3, 30)]
            {
                let old = pairs(kind, 2000, 5);
                let new = changed(&old, kind, percent);
                let builder = builder(index).compression(compression).block_bytes(700).shards(shards);
                differ_as_their_pairs(&builder, None, [&old, &new], &format!("{index:?}, {kind}, {compression:?}"));
            }
        }
    }
}

#[test]
fn differences_of_keys_with_one_hash_are_those_of_the_pairs() {
    for index in [Index::page(), Index::chunk()] {
        for distinct in [1, 2, 37] {
            let hash = HashFunction::user("few", move |key| HashKind::DEFAULT.hash(key, 0) % distinct);
            let old = pairs("sizes", 900, 5);
            let new = changed(&old, "sizes", 20);
            let builder = builder(index).hashed_by(&hash);
            differ_as_their_pairs(&builder, Some(hash), [&old, &new], &format!("{index:?}, {distinct}"));
        }
    }
}

#[test]
fn differences_with_an_empty_dictionary_and_with_an_equal_one() {
    let (old, nothing) = (pairs("words", 500, 5), Model::new());
    for two in [[&old, &nothing], [&nothing, &old], [&nothing, &nothing], [&old, &old]] {
        differ_as_their_pairs(&builder(Index::page()), None, two, "empty or equal");
    }
}

#[test]
fn the_differences_of_parts_are_those_of_the_whole() {
    let place = tempfile::tempdir().unwrap();
    let [old_path, new_path] = ["old.spd", "new.spd"].map(|name| place.path().join(name));
    let old = pairs("sizes", 3000, 5);
    builder(Index::trie()).build(&old_path, &old).unwrap();
    builder(Index::page()).build(&new_path, changed(&old, "sizes", 10)).unwrap();
    let (old, new) = (Dictionary::open(old_path).unwrap(), Dictionary::open(new_path).unwrap());
    let keys = |mut diff: crate::dictionary::Diff| {
        let mut keys = Vec::new();
        while let Some(change) = diff.next_ref().unwrap() {
            keys.push(change.key().to_vec());
        }
        keys
    };
    let part = 1 << 61;
    let parts = (0..7).map(|n| old.diff_range(&new, n * part..(n + 1) * part).unwrap());
    let last = old.diff_range(&new, 7 * part..).unwrap();
    let by_parts: Vec<_> = parts.chain([last]).flat_map(keys).collect();
    assert!(by_parts.len() > 300 && by_parts == keys(old.diff(&new).unwrap()));
    assert_eq!(keys(old.diff_range(&new, 5..5).unwrap()), [b""; 0]);
}

#[test]
fn shards_with_one_file_are_not_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.spd");
    let builder = builder(Index::page()).shards(4);
    builder.build(&path, pairs("words", 2000, 5)).unwrap();
    let old = Dictionary::open(&path).unwrap();
    let mut update = Dictionary::update(&path, &path, &builder).unwrap();
    update.put(b"key", b"value").unwrap();
    update.finish().unwrap();
    let new = DictionaryOptions::new().map_data(false).open(&path).unwrap();
    let changes = found(&old, &new);
    assert_eq!(changes.into_iter().collect::<Vec<_>>(), [(b"key".to_vec(), (None, Some(b"value".to_vec())))]);
    let read: Vec<bool> = new.files.iter().map(|file| file.pages.reads() > 0).collect();
    assert_eq!(read.iter().filter(|read| **read).count(), 1, "{read:?}");
}

#[test]
fn dictionaries_of_other_orders_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let build = |name: &str, builder: DictionaryBuilder| {
        builder.build(place.path().join(name), pairs("words", 100, 5)).unwrap();
        Dictionary::open(place.path().join(name)).unwrap()
    };
    let one = build("one.spd", builder(Index::page()));
    let seeded = build("seeded.spd", builder(Index::page()).hash(HashKind::DEFAULT).seed(1));
    let divided = build("divided.spd", builder(Index::page()).shards(2));
    for (other, says) in [(&seeded, "hash functions"), (&divided, "shards")] {
        let refused = one.diff(other).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(says), "{refused}");
    }
}

#[test]
fn damage_ends_the_differences_with_an_error() {
    let place = tempfile::tempdir().unwrap();
    let [old_path, new_path] = ["old.spd", "new.spd"].map(|name| place.path().join(name));
    builder(Index::page()).build(&old_path, pairs("sizes", 3000, 5)).unwrap();
    let mut bytes = std::fs::read(&old_path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&new_path, bytes).unwrap();
    let (old, new) = (Dictionary::open(old_path).unwrap(), Dictionary::open(new_path).unwrap());
    let mut diff = old.diff(&new).unwrap();
    assert_eq!(diff.next_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(diff.next_ref().unwrap(), None);
}
