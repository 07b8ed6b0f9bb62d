//! Long values, which are read piece by piece, behave like all other values.
//!
//! In tests values are long from 16 KiB on, and pages are small, so that long values reach every way of reading.

use super::model::{Model, builder, check, in_directory, indexes};
use crate::dictionary::{Change, Compression, Dictionary, DictionaryOptions, Index};

fn model(lens: &[usize]) -> Model {
    let value = |n: usize, len: usize| (0..len).map(|i| (i * (n + 3) / 7) as u8).collect();
    lens.iter().enumerate().map(|(n, &len)| (format!("key {n}").into_bytes(), value(n, len))).collect()
}

/// Returns short values between long ones, some longer than what is read at a time.
fn mixed() -> Model {
    let lens = [0, 1, 300, 16 << 10, 40_000, 100_000, (1 << 20) + 7, 3 << 20];
    model(&lens.repeat(6))
}

#[test]
fn long_values_are_found_and_given_in_order() {
    for index in indexes() {
        for compression in [Compression::None, Compression::Lz4] {
            for model in [mixed(), model(&[50_000; 30])] {
                in_directory(|path| {
                    let context = format!("{index:?}, {compression:?}, {} pairs", model.len());
                    builder(index).compression(compression).memory_bytes(1 << 28).build(&path, &model).unwrap();
                    for map in [true, false] {
                        let dictionary = DictionaryOptions::new().map_data(map).open(&path).unwrap();
                        check(&dictionary, &model, &context);
                        reads(&dictionary, &model, &context);
                        walks(&dictionary, &model, &context);
                        assert_eq!(dictionary.verify().unwrap(), [], "{context}");
                    }
                });
            }
        }
    }
}

#[test]
fn the_largest_compressed_blocks_are_read() {
    const BLOCK_BYTES: usize = 20_000;
    for len in BLOCK_BYTES - 20..BLOCK_BYTES + 2 {
        in_directory(|path| {
            let model: Model = [b"a", b"b"].map(|key| (key.to_vec(), vec![0; len])).into();
            let lz4 = builder(Index::page()).compression(Compression::Lz4).block_bytes(BLOCK_BYTES as u32);
            lz4.build(&path, &model).unwrap();
            check(&Dictionary::open(&path).unwrap(), &model, &format!("{len} bytes"));
        });
    }
}

fn reads(dictionary: &Dictionary, model: &Model, context: &str) {
    let mut value = b"before".to_vec();
    let mut buffer = vec![9; 4 << 20];
    for (key, expected) in model {
        assert!(dictionary.get(key).unwrap().as_ref() == Some(expected), "{context}");
        assert!(dictionary.get_into(key, &mut value).unwrap() && value == *expected, "{context}");
        assert_eq!(dictionary.get_to(key, &mut buffer).unwrap(), Some(expected.len()), "{context}");
        assert!(buffer[..expected.len()] == expected[..], "{context}");
        assert_eq!(dictionary.get_to(key, &mut []).unwrap(), Some(expected.len()), "{context}");
        assert!(dictionary.contains(key).unwrap(), "{context}");
    }
    for absent in [&b"key"[..], b"key 99", b"kez 7", b""] {
        assert!(!dictionary.contains(absent).unwrap() && dictionary.get(absent).unwrap().is_none(), "{context}");
        assert!(dictionary.get_to(absent, &mut buffer).unwrap().is_none(), "{context}");
        value = b"before".to_vec();
        assert!(!dictionary.get_into(absent, &mut value).unwrap() && value.is_empty(), "{context}");
    }
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let many = dictionary.get_many(&keys).unwrap();
    assert!(many.iter().map(Option::as_ref).eq(model.values().map(Some)), "{context}");
}

fn walks(dictionary: &Dictionary, model: &Model, context: &str) {
    let middle = 1 << 63;
    let halves: Vec<_> = dictionary.range(..middle).chain(dictionary.range(middle..)).map(Result::unwrap).collect();
    let all: Vec<_> = dictionary.iter().map(Result::unwrap).collect();
    assert!(halves == all && all.into_iter().collect::<Model>() == *model, "{context}");
    let (mut cursor, mut scanned) = (0, Model::new());
    loop {
        cursor = dictionary.scan(cursor, 5, |key, value| drop(scanned.insert(key.to_vec(), value.to_vec()))).unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned == *model, "{context}");
}

#[test]
fn long_values_that_differ_anywhere_are_found_by_a_diff() {
    let old = mixed();
    for compression in [Compression::None, Compression::Lz4] {
        // In large blocks they are compressed with other records, and a walk does not treat them as long.
        for block_bytes in [1000, 16 << 20] {
            in_directory(|path| {
                let [one, other] = ["one.spd", "other.spd"].map(|name| path.with_file_name(name));
                builder(Default::default()).build(&one, &old).unwrap();
                for (number, change) in [0, 99_999, 1 << 20, (3 << 20) - 1].into_iter().enumerate() {
                    let mut new = old.clone();
                    let key = new.iter().find(|(_, value)| value.len() > change && value.len() >= 16 << 10);
                    let key = key.map(|(key, _)| key.clone()).unwrap();
                    let value = new.get_mut(&key).unwrap();
                    match number {
                        1 => value.truncate(change),
                        _ => value[change] ^= 1,
                    }
                    builder(Default::default())
                        .compression(compression)
                        .block_bytes(block_bytes)
                        .build(&other, &new)
                        .unwrap();
                    let context = format!("{compression:?}, blocks of {block_bytes}, byte {change}");
                    let [before, after] = [&one, &other].map(|path| Dictionary::open(path).unwrap());
                    let mut diff = before.diff(&after).unwrap();
                    let found = diff.next_ref().unwrap();
                    let expected = Change::Replaced { key: &key, old_value: &old[&key], value: &new[&key] };
                    assert!(found == Some(expected), "{context}");
                    assert!(diff.next_ref().unwrap().is_none(), "{context}");
                }
            });
        }
    }
}
