//! Dictionaries with some shards open, and scans over shards that continue across updates.

#![allow(clippy::disallowed_methods, reason = "tests remove files")]

use super::model::{Model, builder, in_directory, pairs};
use crate::dictionary::shards::slots::slot;
use crate::dictionary::{Dictionary, DictionaryOptions, Index};
use crate::error::ErrorKind;

#[test]
fn a_node_opens_its_shards_and_no_others() {
    in_directory(|path| {
        let model = pairs("words", 1000, 5);
        builder(Index::page()).shards(4).build(&path, &model).unwrap();
        let whole = Dictionary::open(&path).unwrap();
        let shards = whole.shards();
        // The files of shards that are not opened need not exist.
        std::fs::remove_file(&shards[0].path).unwrap();
        let missing = Dictionary::open(&path).err().map(|e| e.to_string());
        assert!(missing.is_some_and(|text| text.contains("0-1.spd")));
        let mut some = DictionaryOptions::new().only_shards(|shard| shard.number % 2 == 1).open(&path).unwrap();
        assert_eq!(some.shards(), shards);
        assert_eq!(some.len(), shards[1].pairs + shards[3].pairs);
        let is_open = |key: &[u8]| whole.manifest.as_ref().unwrap().shard_of_slot(slot(key)) % 2 == 1;
        let mut expected = model.clone();
        expected.retain(|key, _| is_open(key));
        for key in model.keys() {
            let found = some.get(key);
            match is_open(key) {
                true => assert_eq!(found.unwrap().as_ref(), model.get(key)),
                false => assert_eq!(found.unwrap_err().kind(), ErrorKind::InvalidArgument),
            }
        }
        let keys: Vec<&Vec<u8>> = expected.keys().collect();
        let values: Vec<Vec<u8>> = some.get_many(&keys).unwrap().into_iter().flatten().collect();
        assert!(values.iter().eq(expected.values()));
        let other = model.keys().find(|key| !is_open(key)).unwrap();
        assert_eq!(some.get_many(&[keys[0], other]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        let iterated: Model = some.iter().map(|pair| pair.unwrap()).collect();
        assert!(iterated == expected);
        assert!(scan(&some, 0, usize::MAX).0 == expected);
        assert_eq!(some.verify().unwrap(), []);
        assert!(!some.reload().unwrap());
        let none = DictionaryOptions::new().only_shards(|_| false).open(&path);
        assert_eq!(none.err().map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
    });
}

/// Returns at least `count` pairs from `cursor` on, and the next cursor.
fn scan(dictionary: &Dictionary, mut cursor: u64, count: usize) -> (Model, u64) {
    let mut found = Model::new();
    loop {
        cursor = dictionary.scan(cursor, 20, |key, value| drop(found.insert(key.to_vec(), value.to_vec()))).unwrap();
        if cursor == 0 || found.len() >= count {
            return (found, cursor);
        }
    }
}

#[test]
fn a_scan_over_shards_continues_after_an_update() {
    for index in [Index::page(), Index::chunk(), Index::None] {
        in_directory(|path| {
            let model = pairs("words", 3000, 5);
            builder(index).shards(3).build(&path, &model).unwrap();
            let mut dictionary = Dictionary::open(&path).unwrap();
            for stop in [1, 900, 1100, 2100, 2990] {
                let (mut found, cursor) = scan(&dictionary, 0, stop);
                let mut update = Dictionary::update(&path, &path, &builder(index)).unwrap();
                (0..500).for_each(|n| update.put(format!("new{stop}-{n}").as_bytes(), b"").unwrap());
                update.finish().unwrap();
                assert!(dictionary.reload().unwrap());
                let (rest, _) = scan(&dictionary, cursor, usize::MAX);
                let twice = rest.keys().filter(|key| found.contains_key(*key)).count();
                assert_eq!(twice, 0, "{index:?}, {stop}");
                found.extend(rest);
                found.retain(|key, _| !key.starts_with(b"new"));
                assert!(found == model, "{index:?}, {stop}: {} of {}", found.len(), model.len());
            }
        });
    }
}
