//! A dictionary behaves like a `BTreeMap` of the same pairs, in every kind, layout and access, and absent keys are
//! never found.

#![allow(clippy::disallowed_methods, reason = "tests look at directories and files")]

pub(super) use super::sample_pairs::{KINDS, Pairs as Model};
use crate::dictionary::read::many::QUICK_PROBES_MAX;
use crate::dictionary::{Compression, Dictionary, DictionaryBuilder, DictionaryOptions, Duplicates, Index};
use crate::error::{ErrorKind, Result};
use crate::hash::{HashFunction, HashKind};
use crate::io::{Disk, File, Mode, Storage};
use crate::random::Random;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// Returns indexes with such small units that a few thousand pairs make many of each.
pub(super) fn indexes() -> Vec<Index> {
    vec![
        Index::page(),
        Index::Page { bins_per_page: 1 },
        Index::trie(),
        Index::Trie { bucket_keys: 16, huffman_max: 8, skip_min: 32, block_items: 1 },
        Index::trie_sparse(8),
        Index::trie_sparse(0),
        Index::chunk(),
        Index::None,
    ]
}

/// Returns pairs of a `kind` of `sample_pairs`, the same ones for each `seed`.
pub(super) fn pairs(kind: &str, count: u64, seed: u64) -> Model {
    let mut random = Random::from_seed(seed);
    super::sample_pairs::pairs(kind, count, || random.next())
}

pub(super) fn builder(index: Index) -> DictionaryBuilder {
    DictionaryBuilder::new().index(index).page_bytes(512).threads(2)
}

pub(super) fn check(dictionary: &Dictionary, model: &Model, context: &str) {
    assert_eq!(dictionary.len(), model.len() as u64, "{context}");
    for (key, value) in model {
        let found = dictionary.get(key).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(found.as_ref(), Some(value), "{context}: {}", key.escape_ascii());
    }
    let mut random = Random::from_seed(99);
    for absent in 0..500u64 {
        let len = random.up_to(12 - 1);
        for key in [random.bytes(len), (absent + (1 << 40)).to_le_bytes().to_vec(), format!("none{absent}").into()] {
            assert_eq!(dictionary.get(&key).unwrap(), model.get(&key).cloned(), "{context}");
        }
    }
    let all: Model = dictionary.iter().map(|pair| pair.unwrap_or_else(|e| panic!("{context}: {e}"))).collect();
    assert!(all == *model, "{context}: {} pairs given, {} are there", all.len(), model.len());
    let positions: Vec<u64> = dictionary.iter().map(|pair| dictionary.files[0].position(&pair.unwrap().0)).collect();
    assert!(positions.is_sorted(), "{context}: not in hash order");
    assert_eq!(scanned(dictionary, 50), positions, "{context}: a scan in steps");
    for _ in 0..5 {
        let some = [0, random.next(), u64::MAX];
        let (one, other) = (random.pick(&some), random.next());
        let range = one.min(other)..=one.max(other);
        let inside = dictionary.range(range.clone()).map(|pair| dictionary.position(&pair.unwrap().0));
        let expected = positions.iter().copied().filter(|position| range.contains(position));
        assert!(inside.eq(expected), "{context}: {range:?}");
    }
    assert_eq!(dictionary.verify().unwrap(), [], "{context}");
}

/// Returns the positions of all pairs, from a scan in steps of `count`.
fn scanned(dictionary: &Dictionary, count: usize) -> Vec<u64> {
    let (mut cursor, mut positions) = (0, Vec::new());
    loop {
        let before = positions.len();
        let take = |key: &[u8], _: &[u8]| positions.push(dictionary.files[0].position(key));
        cursor = dictionary.scan(cursor, count, take).unwrap();
        if cursor == 0 {
            return positions;
        }
        assert!(positions.len() >= before + count, "a step without pairs");
    }
}

pub(super) fn in_directory(test: impl FnOnce(PathBuf)) {
    let directory = tempfile::tempdir().unwrap();
    test(directory.path().join("a.spd"));
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".spd")), "left behind: {left:?}");
}

#[test]
fn a_dictionary_is_what_a_btreemap_is() {
    for index in indexes() {
        for kind in KINDS {
            for compression in [Compression::None, Compression::Lz4] {
                for count in [0, 1, 2, 3, 100, 3000] {
                    let context = format!("{index:?}, {kind}, {compression:?}, {count}");
                    let model = pairs(kind, count, 7);
                    in_directory(|path| {
                        let builder = builder(index).compression(compression).block_bytes(1000);
                        // Each of the larger counts meets all three filters, across the kinds and compressions.
                        let filter = [0, 8, 16][(count as usize + kind.len()) % 3];
                        let builder = builder.filter(filter);
                        builder.build(&path, &model).unwrap_or_else(|e| panic!("{context}: {e}"));
                        for map in [false, true] {
                            let options = DictionaryOptions::new().map_data(map).map_index(map);
                            let dictionary = options.open(&path).unwrap();
                            assert_eq!(dictionary.filter(), filter, "{context}");
                            // The second time, the pages of a mapping are ready.
                            check(&dictionary, &model, &format!("{context}, mapped {map}"));
                            check(&dictionary, &model, &format!("{context}, mapped {map}, again"));
                        }
                    });
                }
            }
        }
    }
}

#[test]
fn keys_of_one_hash_are_all_found() {
    for index in indexes() {
        for distinct in [1, 2, 37] {
            for kind in KINDS {
                let context = format!("{index:?}, {kind}, {distinct} hashes");
                let model = pairs(kind, 700, 3);
                let hash = HashFunction::user("few", move |key| HashKind::DEFAULT.hash(key, 0) % distinct);
                in_directory(|path| {
                    builder(index).hashed_by(&hash).build(&path, &model).unwrap_or_else(|e| panic!("{context}: {e}"));
                    // A missing user's function counts as one that returns 0, so any other is detected.
                    let unlike = if distinct > 1 { Some(ErrorKind::WrongHash) } else { None };
                    assert_eq!(Dictionary::open(&path).err().map(|e| e.kind()), unlike);
                    let dictionary = DictionaryOptions::new().hashed_by(&hash).open(&path).unwrap();
                    check(&dictionary, &model, &context);
                });
            }
        }
    }
}

#[test]
fn a_lookup_is_one_read_for_keys_there_and_not() {
    for index in indexes().into_iter().filter(|index| *index != Index::None) {
        for kind in ["fixed", "fixed, long", "words"] {
            let model = pairs(kind, 3000, 11);
            in_directory(|path| {
                builder(index).build(&path, &model).unwrap();
                let dictionary = DictionaryOptions::new().map_data(false).open(&path).unwrap();
                let absent = (0..3000u64).map(|n| (n + (1 << 50)).to_le_bytes().to_vec());
                let keys: Vec<Vec<u8>> = model.keys().cloned().chain(absent).collect();
                for key in &keys {
                    dictionary.get(key).unwrap();
                }
                assert!(dictionary.reads() <= keys.len() as u64, "{index:?} {kind}: {} reads", dictionary.reads());
            });
        }
    }
}

#[test]
fn a_mapping_reads_each_page_once_at_most() {
    for index in [Index::page(), Index::trie(), Index::chunk()] {
        for kind in ["fixed", "words"] {
            let model = pairs(kind, 3000, 11);
            in_directory(|path| {
                builder(index).build(&path, &model).unwrap();
                let dictionary = DictionaryOptions::new().map_data(true).open(&path).unwrap();
                let get_all = || {
                    model.keys().for_each(|key| drop(dictionary.get(key).unwrap()));
                    dictionary.reads()
                };
                let first = get_all();
                assert!(first <= 2 * dictionary.stat().unwrap().pages, "{index:?} {kind}: {first} reads");
                assert_eq!(get_all(), first, "{index:?} {kind}");
            });
        }
    }
}

#[test]
#[expect(clippy::disallowed_types, reason = "the file is cut behind the dictionary's back")]
#[cfg(target_os = "linux")]
fn a_mapped_file_that_is_cut_while_it_is_open_gives_errors_and_no_signal() {
    for index in [Index::page(), Index::chunk()] {
        for kind in ["fixed", "words", "fixed, long"] {
            let model = pairs(kind, 3000, 11);
            in_directory(|path| {
                builder(index).build(&path, &model).unwrap();
                let dictionary = DictionaryOptions::new().map_data(true).open(&path).unwrap();
                model.keys().for_each(|key| drop(dictionary.get(key).unwrap()));
                let length = std::fs::metadata(&path).unwrap().len();
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
                let (mut found, mut failed) = (0, 0);
                for _ in 0..2 {
                    for (key, value) in &model {
                        match dictionary.get(key) {
                            Ok(given) => {
                                assert_eq!(given.as_ref(), Some(value), "{index:?} {kind}");
                                found += 1;
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Io, "{index:?} {kind}: {error}");
                                failed += 1;
                            }
                        }
                    }
                }
                assert!(found > 0 && failed > 0, "{index:?} {kind}: {found} found, {failed} errors");
                let keys: Vec<_> = model.keys().collect();
                assert_eq!(dictionary.get_many(&keys).unwrap_err().kind(), ErrorKind::Io);
            });
        }
    }
}

#[test]
fn a_filter_spares_absent_keys_the_read() {
    for (bits, reads_max) in [(8, 300), (16, 10)] {
        let model = pairs("fixed", 3000, 11);
        in_directory(|path| {
            builder(Index::page()).filter(bits).build(&path, &model).unwrap();
            let dictionary = DictionaryOptions::new().map_data(false).open(&path).unwrap();
            let absent: Vec<_> = (0..40_000u64).map(|n| (n + (1 << 50)).to_le_bytes()).collect();
            absent.iter().for_each(|key| assert_eq!(dictionary.get(key).unwrap(), None));
            assert!(dictionary.reads() < reads_max, "{bits} bits: {} reads", dictionary.reads());
            assert!(dictionary.get_many(&absent).unwrap().iter().all(Option::is_none));
            assert!(dictionary.reads() < 2 * reads_max, "{bits} bits: {} reads", dictionary.reads());
            // Lookups read the filter first after many absent keys, and the index first after many present ones.
            model.iter().for_each(|(key, value)| assert_eq!(dictionary.get(key).unwrap().as_ref(), Some(value)));
            let reads = dictionary.reads();
            absent[..5].iter().for_each(|key| assert_eq!(dictionary.get(key).unwrap(), None));
            assert!(dictionary.reads() <= reads + 1, "{bits} bits: absent keys are read");
        });
    }
    for bits in [1, 7, 32] {
        let error = builder(Index::page()).filter(bits).start("never.spd").err().expect("a filter of such bits");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let little = builder(Index::page()).filter(8).memory_bytes(1 << 20).start("never.spd").err();
    assert!(little.expect("too little memory").to_string().contains("a filter needs at least"));
}

#[test]
fn updates_in_batches_are_what_building_from_scratch_is() {
    for index in indexes() {
        for kind in KINDS {
            for compression in [Compression::None, Compression::Lz4] {
                let context = format!("{index:?}, {kind}, {compression:?}");
                let all = pairs(kind, 2000, 5);
                in_directory(|path| {
                    let builder = builder(index).compression(compression).block_bytes(1000).filter(8);
                    let mut model = Model::new();
                    builder.build(&path, &model).unwrap();
                    let mut random = Random::from_seed(17);
                    for round in 0..5 {
                        let mut update = Dictionary::update(&path, &path, &builder).unwrap();
                        for (key, value) in &all {
                            match random.up_to(4 - 1) {
                                0 => {
                                    let value = if round % 2 == 0 { value.clone() } else { vec![round; value.len()] };
                                    update.put(key, &value).unwrap();
                                    model.insert(key.clone(), value);
                                }
                                1 => {
                                    update.remove(key).unwrap();
                                    model.remove(key);
                                }
                                _ => {}
                            }
                        }
                        let count = update.finish().unwrap_or_else(|e| panic!("{context}: {e}"));
                        assert_eq!(count, model.len() as u64, "{context}");
                        let scratch = path.with_file_name("scratch.spd");
                        builder.build(&scratch, &model).unwrap();
                        let same = std::fs::read(&scratch).unwrap() == std::fs::read(&path).unwrap();
                        assert!(same, "{context}: round {round} differs from a build from scratch");
                    }
                    check(&Dictionary::open(&path).unwrap(), &model, &context);
                });
            }
        }
    }
}

#[test]
fn one_odd_record_that_is_removed_leaves_records_of_one_size() {
    in_directory(|path| {
        let mut model = pairs("fixed", 1000, 1);
        model.insert(b"odd".to_vec(), b"one".to_vec());
        builder(Index::page()).build(&path, &model).unwrap();
        assert_eq!(Dictionary::open(&path).unwrap().stat().unwrap().fixed_lengths, None);
        let mut update = Dictionary::update(&path, &path, &builder(Index::page())).unwrap();
        update.remove(b"odd").unwrap();
        update.finish().unwrap();
        model.remove(&b"odd"[..]);
        let dictionary = Dictionary::open(&path).unwrap();
        assert_eq!(dictionary.stat().unwrap().fixed_lengths, Some((8, 8)));
        check(&dictionary, &model, "fixed again");
    });
}

#[test]
fn what_is_no_dictionary_is_neither_opened_nor_replaced() {
    in_directory(|path| {
        for content in [&b""[..], b"SPLITPNT and the rest of a table", b"a text that someone needs"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Dictionary::open(&path).err().map(|e| e.kind()), Some(ErrorKind::NotADictionary));
            let built = builder(Index::page()).build(&path, [(b"a", b"b")]);
            if content.is_empty() {
                assert_eq!(built.unwrap(), 1);
            } else {
                assert_eq!(built.unwrap_err().kind(), ErrorKind::NotADictionary);
                assert_eq!(std::fs::read(&path).unwrap(), content);
            }
        }
    });
}

#[test]
fn shards_are_one_dictionary() {
    for (index, kind) in [(Index::page(), "words"), (Index::chunk(), "fixed"), (Index::trie(), "sizes")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.spd");
        let mut model = pairs(kind, 3000, 23);
        let builder = builder(index).shards(5);
        builder.build(&path, &model).unwrap();
        let mut dictionary = Dictionary::open(&path).unwrap();
        assert_eq!(dictionary.shard_count(), 5);
        check_shards(&dictionary, &model);
        // A change to one key rewrites one shard, and readers see it when they reload.
        let names = |path: &PathBuf| {
            let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names(&path);
        let (key, _) = model.pop_first().unwrap();
        let mut update = Dictionary::update(&path, &path, &builder).unwrap();
        assert_eq!(Dictionary::update(&path, &path, &builder).err().map(|e| e.kind()), Some(ErrorKind::Locked));
        update.remove(&key).unwrap();
        assert_eq!(update.finish().unwrap(), model.len() as u64);
        let after = names(&path);
        assert_eq!(before.iter().filter(|name| !after.contains(name)).count(), 1, "{before:?} {after:?}");
        assert_eq!(before.len(), after.len());
        assert!(dictionary.contains(&key).unwrap(), "a reader keeps what it opened");
        assert!(dictionary.reload().unwrap());
        assert!(!dictionary.reload().unwrap());
        check_shards(&dictionary, &model);
        // At a new path all shards are written.
        let copy = directory.path().join("copy.spd");
        Dictionary::update(&path, &copy, &builder).unwrap().finish().unwrap();
        check_shards(&Dictionary::open(&copy).unwrap(), &model);
        // With another index, at the same path.
        DictionaryBuilder::new().index(Index::trie_sparse(16)).reindex(&copy, &copy).unwrap();
        let sparse = Dictionary::open(&copy).unwrap();
        assert_eq!(sparse.index(), Index::trie_sparse(16));
        check_shards(&sparse, &model);
        // Another number of shards, replacing the existing ones.
        let more = builder.clone().shards(16);
        more.build(&path, &model).unwrap();
        assert_eq!(names(&path).len(), 17);
        check_shards(&Dictionary::open(&path).unwrap(), &model);
    }
}

fn check_shards(dictionary: &Dictionary, model: &Model) {
    assert_eq!(dictionary.len(), model.len() as u64);
    let keys: Vec<&Vec<u8>> = model.keys().collect();
    let values: Vec<Option<Vec<u8>>> = model.values().cloned().map(Some).collect();
    assert!(dictionary.get_many(&keys).unwrap() == values);
    assert!(dictionary.iter().map(Result::unwrap).collect::<Model>() == *model);
    assert_eq!(dictionary.get(b"not there at all").unwrap(), None);
    assert_eq!(dictionary.verify().unwrap(), []);
    assert_eq!(dictionary.stat().unwrap().pairs, model.len() as u64);
}

#[test]
fn a_directory_that_is_no_dictionary_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(Dictionary::open(directory.path()).err().map(|e| e.kind()), Some(ErrorKind::NotADictionary));
    for (manifest, kind) in
        [("something else", ErrorKind::NotADictionary), ("splitpoint dictionary 1\n", ErrorKind::Corrupt)]
    {
        std::fs::write(directory.path().join("manifest"), manifest).unwrap();
        assert_eq!(Dictionary::open(directory.path()).err().map(|e| e.kind()), Some(kind));
    }
}

#[test]
fn many_keys_are_what_each_is() {
    for index in indexes() {
        for (map, kind, filter) in [(false, "sizes", 0), (true, "sizes", 8), (true, "fixed", 0), (true, "words", 0)] {
            in_directory(|path| {
                let model = pairs(kind, 2000, 31);
                builder(index).filter(filter).build(&path, &model).unwrap();
                let dictionary = DictionaryOptions::new().map_data(map).open(&path).unwrap();
                let absent = (0..1000).map(|n| format!("absent {n}").into_bytes());
                let keys: Vec<Vec<u8>> = model.keys().cloned().chain(absent).rev().collect();
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
                // Quick probes: none, as if the last lookup had waited for the disk; then so many that no probe is
                // made.
                for quick_probes in [u32::MAX, u32::MAX, 0, QUICK_PROBES_MAX - 1] {
                    dictionary.files[0].pages.quick_probes.store(quick_probes, Relaxed);
                    let found = dictionary.get_many(&keys).unwrap();
                    assert!(found == expected, "{index:?}, {kind}, mapped {map}, {quick_probes} quick probes");
                }
                assert_eq!(dictionary.get_many::<&[u8]>(&[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
            });
        }
    }
}

#[test]
fn a_key_given_twice_is_what_was_asked_for() {
    let twice = [("a", "1"), ("b", "2"), ("a", "3")];
    in_directory(|path| {
        let named = builder(Index::page()).place_names(|place| format!("pairs.tsv:{}", place + 10));
        let error = named.build(&path, twice).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Duplicate);
        assert!(error.to_string().starts_with("pairs.tsv:13: duplicate key \"a\" (first at pairs.tsv:11)"), "{error}");
        for (duplicates, value) in [(Duplicates::First, "1"), (Duplicates::Last, "3")] {
            assert_eq!(builder(Index::page()).duplicates(duplicates).build(&path, twice).unwrap(), 2);
            assert_eq!(Dictionary::open(&path).unwrap().get(b"a").unwrap().unwrap(), value.as_bytes());
        }
    });
}

#[test]
fn a_reindexed_dictionary_is_the_one_built_with_that_index() {
    for kind in KINDS {
        let model = pairs(kind, 3000, 41);
        in_directory(|path| {
            for (from, to) in indexes().into_iter().zip(indexes().into_iter().cycle().skip(3)) {
                builder(from).build(&path, &model).unwrap();
                assert_eq!(Dictionary::open(&path).unwrap().index(), from);
                let built = path.with_file_name("built.spd");
                builder(to).build(&built, &model).unwrap();
                builder(to).reindex(&path, &path).unwrap();
                let same = std::fs::read(&path).unwrap() == std::fs::read(&built).unwrap();
                assert!(same, "{kind}: from {from:?} to {to:?}");
            }
        });
    }
}

/// A disk that records where unnamed files are made.
#[derive(Default)]
struct Noting(Mutex<Vec<PathBuf>>);

impl Storage for Noting {
    fn open(&self, path: &Path, mode: Mode) -> std::io::Result<Box<dyn File>> {
        Disk.open(path, mode)
    }

    fn make_unnamed(&self, beside: &Path) -> std::io::Result<Option<Box<dyn File>>> {
        self.0.lock().unwrap().push(beside.to_owned());
        Disk.make_unnamed(beside)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        Disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        Disk.rename(from, to)
    }

    fn sync_names(&self, path: &Path) -> std::io::Result<()> {
        Disk.sync_names(path)
    }
}

#[test]
fn temporary_files_are_in_the_directory_that_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let noting = Arc::new(Noting::default());
    in_directory(|path| {
        let builder = builder(Index::trie()).memory_bytes(64 << 10).temporary_directory(directory.path());
        let mut build = builder.storage(noting.clone()).start(&path).unwrap();
        for (key, value) in pairs("words", 20_000, 3) {
            build.push(&key, &value).unwrap();
        }
        build.finish().unwrap();
    });
    let made = noting.0.lock().unwrap();
    assert!(made.len() > 8 + 1, "the sort's files, and those of positions and ranks: {made:?}");
    assert!(made.iter().all(|path| path.starts_with(directory.path())), "{made:?}");
}

#[test]
fn builds_of_one_name_in_two_directories_have_temporary_files_of_their_own() {
    let (temporary, one, other) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let builder = builder(Index::page()).temporary_directory(temporary.path());
    let start = || builder.clone().resume(1).start(one.path().join("users.spd")).unwrap();
    let mut build = start();
    build.push(b"key", b"value").unwrap();
    build.save().unwrap();
    drop(build);
    assert_eq!(builder.build(other.path().join("users.spd"), [("a", "b")]).unwrap(), 1);
    assert_eq!(start().resumed_pairs(), 1);
}
