//! Requests that a build rejects before reading anything, and the files left when it does.

#![allow(clippy::disallowed_methods, reason = "tests look at directories")]

use super::model::{builder, check, in_directory, indexes, pairs};
use crate::dictionary::build::plan::MEMORY_BYTES_MIN;
use crate::dictionary::{Compression, Dictionary, DictionaryBuilder, DictionaryOptions, Effort, Index};
use crate::error::ErrorKind;
use crate::io::simulated::{Event, Simulated, State};
use std::sync::Arc;

#[test]
fn too_little_memory_is_refused_before_a_pair_is_taken() {
    for index in indexes() {
        in_directory(|path| {
            let with = |bytes| builder(index).memory_bytes(bytes);
            with(MEMORY_BYTES_MIN).build(&path, [(b"a", b"b")]).unwrap();
            for bytes in [0, 1, MEMORY_BYTES_MIN - 1] {
                let refused = [
                    with(bytes).start(&path).err(),
                    with(4 * bytes).shards(4).start(path.with_file_name("shards.spd")).err(),
                    Dictionary::update(&path, &path, &with(bytes)).err(),
                    with(bytes).reindex(&path, &path).err(),
                    with(bytes).start_ordered(&path, 0).err(),
                ];
                for (number, refused) in refused.into_iter().enumerate() {
                    let refused = refused.unwrap_or_else(|| panic!("{index:?}, {bytes} bytes, way {number}"));
                    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
                    assert!(refused.to_string().contains("memory_bytes"), "{refused}");
                }
                assert!(!path.with_file_name("shards.spd").exists());
            }
        });
    }
}

#[test]
fn chunks_that_need_more_memory_are_refused_before_the_old_file_is_read() {
    for (effort, chunk_keys) in [(Effort::Balanced, 512), (Effort::Small, 1024)] {
        in_directory(|path| {
            builder(Index::page()).build(&path, (0..2000u32).map(|n| (n.to_le_bytes(), [7; 996]))).unwrap();
            // Damaged, so that reading it would cause a different error.
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[512..].iter_mut().take(100_000).for_each(|byte| *byte ^= 0xFF);
            std::fs::write(&path, &bytes).unwrap();
            let with = |bytes| builder(Index::Chunk { effort }).memory_bytes(bytes);
            // A chunk may take half of the memory.
            let refused = with(chunk_keys * 2000 - 2).reindex(&path, &path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
            let refused = Dictionary::update(&path, &path, &with(chunk_keys * 2000 - 2)).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
            assert_eq!(with(chunk_keys * 2000).reindex(&path, &path).unwrap_err().kind(), ErrorKind::Corrupt);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        });
    }
}

#[test]
fn chunks_are_written_as_they_fit_in_memory() {
    // 128 chunks take ten times the memory allowed, two take less.
    in_directory(|path| {
        let model = (0..70_000u32).map(|n| (n.to_le_bytes().to_vec(), vec![n as u8; 100])).collect();
        builder(Index::chunk()).memory_bytes(700_000).build(&path, &model).unwrap();
        check(&Dictionary::open(&path).unwrap(), &model, "chunks");
    });
}

#[test]
fn pairs_that_memory_holds_are_written_once_and_the_others_twice() {
    const PAIRS: u32 = 12_000;
    const VALUE_BYTES: usize = 1000;
    let payload = f64::from(PAIRS) * (4 + VALUE_BYTES) as f64;
    for memory_bytes in [8 << 20, 15 << 20] {
        let disk = Arc::new(Simulated::new(State::default()));
        let builder = DictionaryBuilder::new().threads(1).memory_bytes(memory_bytes).storage(disk.clone());
        builder.build("/d/a.spd", (0..PAIRS).map(|n| (n.to_le_bytes(), [n as u8; VALUE_BYTES]))).unwrap();
        let bytes = |event: &Event| if let Event::Write { bytes, .. } = event { bytes.len() } else { 0 };
        let written = disk.trace().iter().map(bytes).sum::<usize>() as f64;
        // The rest of the memory is for the index, and for the data being sorted or written.
        let spilled = if payload < memory_bytes as f64 * 0.8 { 0.0 } else { payload - memory_bytes as f64 * 0.6 };
        // The 2 % are heads of pages and records, the header, the footer and the index.
        let most = (payload * 1.02 + spilled) / payload;
        let found = written / payload;
        assert!(found < most, "{memory_bytes} bytes of memory: {found:.3} bytes written per byte, at most {most:.3}");
    }
}

#[test]
fn a_build_of_shards_that_fails_leaves_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.spd");
    let builder = DictionaryBuilder::new().shards(3);
    drop(builder.start(&path).unwrap());
    assert!(!path.exists());
    let twice = builder.build(&path, [("a", "1"), ("a", "2")]).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Duplicate);
    assert!(!path.exists());
    // An existing directory is left alone, and so is one with a dictionary.
    std::fs::create_dir(&path).unwrap();
    drop(builder.start(&path).unwrap());
    assert!(path.exists());
    std::fs::remove_dir(&path).unwrap();
    builder.build(&path, pairs("words", 10, 1)).unwrap();
    builder.build(&path, [("a", "1"), ("a", "2")]).unwrap_err();
    assert_eq!(Dictionary::open(&path).unwrap().len(), 10);
}

#[test]
fn a_build_in_a_directory_that_does_not_exist_says_so() {
    let place = tempfile::tempdir().unwrap();
    let missing = place.path().join("missing");
    for shards in [0, 2] {
        let refused = builder(Index::page()).shards(shards).build(missing.join("a.spd"), [("a", "1")]).unwrap_err();
        let message = refused.to_string();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert!(message.contains(missing.to_str().unwrap()) && message.contains("does not exist"), "{message}");
        assert!(!missing.exists());
    }
}

#[test]
fn a_missing_directory_for_temporary_files_is_noticed_before_anything_else() {
    in_directory(|path| {
        let missing = path.with_file_name("missing");
        let with = || builder(Index::page()).temporary_directory(&missing);
        let refused = [
            with().start(&path).err(),
            with().shards(2).start(&path).err(),
            // Noticed before the old file is opened, which is missing, too.
            Dictionary::update(&path, &path, &with()).err(),
            with().reindex(&path, &path).err(),
            with().start_ordered(&path, 0).err(),
        ];
        for refused in refused {
            let message = refused.unwrap().to_string();
            assert!(message.contains(missing.to_str().unwrap()) && message.contains("does not exist"), "{message}");
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        std::fs::create_dir(&missing).unwrap();
        with().build(&path, [("a", "1")]).unwrap();
        std::fs::remove_dir(&missing).unwrap();
    });
}

#[test]
fn an_index_that_does_not_fit_is_refused_before_the_sort_or_the_old_pairs() {
    in_directory(|path| {
        let pairs = || (0..300_000u32).map(|n| (n.to_le_bytes(), []));
        let with = |index, bytes| builder(index).memory_bytes(bytes);
        for (index, too_little) in [(Index::trie(), 80 << 10), (Index::chunk(), 200 << 10)] {
            let mut build = with(index, too_little).start(&path).unwrap();
            pairs().for_each(|(key, value)| build.push(&key, &value).unwrap());
            let refused = build.finish().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
            assert!(refused.to_string().contains("300000 records"), "{refused}");
            assert!(!path.exists());
            with(index, 4 * too_little).build(&path, pairs()).unwrap();
            // Damaged, so that reading it would cause a different error.
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[512..].iter_mut().take(100_000).for_each(|byte| *byte ^= 0xFF);
            std::fs::write(&path, &bytes).unwrap();
            for refused in [
                with(index, too_little).reindex(&path, &path).unwrap_err(),
                Dictionary::update(&path, &path, &with(index, too_little)).err().unwrap(),
            ] {
                assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "{refused}");
            }
            std::fs::remove_file(&path).unwrap();
        }
    });
}

const LONG_BYTES: usize = 64 << 20;
/// Other memory of a process: its code, threads, buffers.
const BESIDE_BYTES: u64 = 40 << 20;

/// Performs the step named in the environment, and compares the peak memory of the process with a limit.
#[test]
#[ignore = "started by a_long_value_is_not_held, with a step and a path"]
fn a_step_with_a_long_value_in_a_process_of_its_own() {
    let Ok(case) = std::env::var("LONG_VALUE_CASE") else { return };
    let (step, path) = case.split_once(' ').unwrap();
    let builder = || DictionaryBuilder::new().memory_bytes(1 << 20).threads(2);
    let mut limit = BESIDE_BYTES;
    match step {
        "build" | "compress" => {
            limit += LONG_BYTES as u64;
            let long = vec![7; LONG_BYTES];
            let compression = if step == "build" { Compression::None } else { Compression::Lz4 };
            let mut build = builder().compression(compression).start(path).unwrap();
            (0..1000u32).for_each(|n| build.push(&n.to_le_bytes(), b"short").unwrap());
            build.push(b"long", &long).unwrap();
            build.finish().unwrap();
        }
        "update" => {
            let mut update = Dictionary::update(path, path, &builder()).unwrap();
            update.put(b"one more", b"short").unwrap();
            update.finish().unwrap();
        }
        "chunks" => drop(builder().index(Index::chunk()).reindex(path, path).unwrap()),
        // The value is in memory once: at its destination, or in the walk that returns it.
        "get" | "get-to" | "walk" | "scan" => {
            limit += LONG_BYTES as u64;
            let dictionary = DictionaryOptions::new().map_data(false).open(path).unwrap();
            let mut buffer = Vec::new();
            match step {
                "get" => assert_eq!(dictionary.get(b"long").unwrap().map(|value| value.len()), Some(LONG_BYTES)),
                "get-to" => {
                    buffer.resize(LONG_BYTES, 0);
                    assert_eq!(dictionary.get_to(b"long", &mut buffer).unwrap(), Some(LONG_BYTES));
                    assert!(buffer.iter().all(|byte| *byte == 7));
                }
                "walk" => {
                    let mut pairs = dictionary.iter();
                    while pairs.next_ref().unwrap().is_some() {}
                }
                _ => drop(dictionary.scan(0, usize::MAX, |_, _| ()).unwrap()),
            }
        }
        "contains" => {
            let dictionary = DictionaryOptions::new().map_data(false).open(path).unwrap();
            assert!(dictionary.contains(b"long").unwrap());
        }
        "check" => {
            let dictionary = DictionaryOptions::new().map_data(false).open(path).unwrap();
            assert_eq!(dictionary.verify().unwrap(), []);
        }
        "diff" => {
            let copy = format!("{path}-copy");
            std::fs::copy(path, &copy).unwrap();
            let [old, new] = [path, &copy].map(|path| DictionaryOptions::new().map_data(false).open(path).unwrap());
            assert!(old.diff(&new).unwrap().next_ref().unwrap().is_none());
            std::fs::remove_file(copy).unwrap();
        }
        "neighbours" => {
            let dictionary = DictionaryOptions::new().map_data(false).open(path).unwrap();
            for n in 0..1000u32 {
                assert_eq!(dictionary.get(&n.to_le_bytes()).unwrap().as_deref(), Some(&b"short"[..]));
            }
        }
        step => panic!("no step {step}"),
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak_bytes = peak.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    assert!(peak_bytes < limit, "{step}: {peak_bytes} bytes of memory");
}

#[test]
#[cfg(target_os = "linux")]
fn a_long_value_is_not_held() {
    in_directory(|path| {
        let reads = ["neighbours", "get", "get-to", "contains", "walk", "scan", "diff", "check"];
        let steps = ["build", "update"].into_iter().chain(reads).chain(["chunks", "update"]).chain(reads);
        let steps = steps.chain(["compress", "update"]).chain(reads);
        for step in steps {
            let name = "dictionary::tests::limits::a_step_with_a_long_value_in_a_process_of_its_own";
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            process.args(["--exact", "--ignored", name]).env("LONG_VALUE_CASE", format!("{step} {}", path.display()));
            let done = process.output().unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && said.contains("1 passed"), "{step}: {said}");
        }
        let dictionary = Dictionary::open(&path).unwrap();
        assert!(dictionary.get(b"long").unwrap().is_some_and(|value| value == vec![7; LONG_BYTES]));
        assert_eq!(dictionary.verify().unwrap(), []);
    });
}
