//! Files that are not tables, or not for this library: the kind of the error and its message.
//!
//! Each message names the file, what is wrong with it and what to do. Neither the file nor any other file in its
//! directory changes.

use crate::golden::fixture;
use crate::spt;
use splitpoint::{ErrorKind, HashKind, TableOptions};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

/// Returns the errors of opening `path` for reading and for writing, as kind and message; they must be the same.
fn refusals(path: &Path) -> Vec<(ErrorKind, String)> {
    [true, false]
        .map(|read_only| {
            let error = TableOptions::new().read_only(read_only).open(path).expect_err("it is no table");
            (error.kind(), error.to_string())
        })
        .into()
}

/// Checks that opening a file with this content fails with `kind` and a message that contains all of `words`.
fn refused(content: &[u8], kind: ErrorKind, words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.spt");
    fs::write(&path, content).unwrap();
    for (found, sentence) in refusals(&path) {
        assert_eq!(found, kind, "{sentence}");
        for word in words.iter().chain(&["users.spt: "]) {
            assert!(sentence.contains(word), "{sentence:?} does not say {word:?}");
        }
    }
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a file was left beside it");
}

fn inline() -> Vec<u8> {
    fs::read(fixture("inline.spt")).unwrap()
}

/// Returns the golden file with `bytes` at `at` in both headers, and correct checksums.
fn with_header(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = inline();
    spt::set_in_headers(&mut file, at, bytes);
    file
}

#[test]
fn a_text_file_is_not_a_table() {
    let text = b"alice\t1\nbob\t2\n".repeat(1000);
    refused(&text, ErrorKind::NotATable, &["not a splitpoint table", "\"alice\\t1\\n\"", "Check the path", "salvage"]);
    refused(b"hi", ErrorKind::NotATable, &["not a splitpoint table", "2 bytes"]);
}

#[test]
fn a_dictionary_is_not_a_damaged_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.spd");
    splitpoint::DictionaryBuilder::new().build(&path, [(b"alice", b"1")]).unwrap();
    let content = fs::read(&path).unwrap();
    refused(&content, ErrorKind::NotATable, &["a dictionary, not a table", "Open it as a dictionary"]);
    let said = splitpoint::salvage(&path, |_| std::ops::ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(said.contains("it is a dictionary, not a table"), "{said}");
}

#[test]
fn an_empty_file_becomes_a_table_only_where_one_may_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.spt");
    fs::write(&path, b"").unwrap();
    for options in [TableOptions::new().read_only(true), TableOptions::new().create(false)] {
        let error = options.open(&path).expect_err("it is empty");
        // As if it were absent: a table that was never created.
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("no table has been made in it yet"), "{error}");
    }
    let table = TableOptions::new().open(&path).unwrap();
    table.put(b"alice", b"1").unwrap();
    table.close().unwrap();
    assert_eq!(TableOptions::new().create(false).open(&path).unwrap().len(), 1);
}

#[test]
fn a_directory_is_not_a_table() {
    let directory = tempfile::tempdir().unwrap();
    for (kind, sentence) in refusals(directory.path()) {
        assert_eq!(kind, ErrorKind::NotATable, "{sentence}");
        assert!(sentence.contains("a directory") && sentence.contains("Check the path"), "{sentence}");
    }
}

#[test]
fn a_device_is_not_a_table() {
    for (kind, sentence) in refusals(Path::new("/dev/null")) {
        assert_eq!(kind, ErrorKind::NotATable, "{sentence}");
        assert!(sentence.contains("/dev/null: ") && sentence.contains("not a regular file"), "{sentence}");
    }
}

#[test]
fn a_pipe_without_a_writer_is_refused_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(refusals(&path)));
    let refusals = receive.recv_timeout(std::time::Duration::from_secs(10)).expect("open waits for a writer");
    for (kind, sentence) in refusals {
        assert_eq!(kind, ErrorKind::NotATable, "{sentence}");
        assert!(sentence.contains("not a regular file"), "{sentence}");
    }
}

#[test]
fn an_absent_file_is_an_error_where_none_may_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.spt");
    for options in [TableOptions::new().read_only(true), TableOptions::new().create(false)] {
        let error = options.open(&path).expect_err("it is absent");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("users.spt: No such file"), "{error}");
    }
    assert!(!path.exists());
}

#[test]
fn another_version_is_distinguished_from_damage_whatever_else_it_changed() {
    let words = ["format version 2", "reads 1", "Upgrade"];
    refused(&with_header(8, &2u32.to_le_bytes()), ErrorKind::Version, &words);
    // Version 2 may have its checksum elsewhere, and may be shorter.
    let mut file = inline();
    spt::HEADERS.iter().for_each(|header| file[header + 8] = 2);
    refused(&file, ErrorKind::Version, &words);
    refused(&file[..100], ErrorKind::Version, &words);
    refused(&with_header(8, &0u32.to_le_bytes()), ErrorKind::Version, &["format version 0"]);
}

#[test]
fn a_file_with_several_tables_is_of_a_later_version_and_not_damaged() {
    for (at, bytes) in [(spt::NAME_AT, &b"users"[..]), (spt::NAME_AT + 64, &7u32.to_le_bytes())] {
        let file = with_header(at, bytes);
        refused(&file, ErrorKind::Version, &["tables with names", "Upgrade"]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        fs::write(&path, file).unwrap();
        // Salvage would leave out the other tables.
        let salvaged = splitpoint::salvage(&path, |_| ControlFlow::Continue(()));
        assert_eq!(salvaged.expect_err("it has other tables").kind(), ErrorKind::Version);
    }
}

#[test]
fn a_cut_file_says_where_it_was_cut() {
    let file = inline();
    refused(&file[..1000], ErrorKind::Corrupt, &["cut to 1000 bytes", "backup"]);
    let (cut, whole) = (file.len() - 1, file.len().to_string());
    refused(&file[..cut], ErrorKind::Corrupt, &[&format!("cut to {cut} bytes"), &whole, "backup"]);
}

#[test]
fn a_flipped_bit_in_the_header_is_a_checksum_mismatch() {
    for at in [12, 16, 40, 200, 300, 4000, 4090, 4095] {
        let mut file = inline();
        file[at] ^= 0x10;
        let one = tempfile::tempdir().unwrap();
        fs::write(one.path().join("t.spt"), &file).unwrap();
        assert!(TableOptions::new().open(one.path().join("t.spt")).is_ok(), "the other header is whole");
        file[spt::HEADER_BYTES + at] ^= 0x10;
        refused(&file, ErrorKind::Corrupt, &["header", "checksum mismatch", "backup"]);
    }
}

#[test]
fn a_header_that_contradicts_itself_says_in_what() {
    let root = |at: usize| spt::ROOT_AT + at;
    for (at, bytes, words) in [
        (12, &5000u32.to_le_bytes()[..], ["frames of 5000 bytes", "4096"]),
        (16, &u64::MAX.to_le_bytes(), ["header", "checkpoint 18446744073709551615"]),
        (24, &0u32.to_le_bytes(), ["0 frames", "1 or more"]),
        (24, &5000u32.to_le_bytes(), ["map frames for 512", "5000"]),
        (spt::LENGTH_AT, &400u32.to_le_bytes(), ["cut to", "1638400"]),
        (spt::LENGTH_AT, &1u32.to_le_bytes(), ["header", "of 1"]),
        (spt::MAP_AT, &1u32.to_le_bytes(), ["header", "block map is in block 1"]),
        (spt::ROOM_AT, &0u32.to_le_bytes(), ["header", "tree of bitmaps is in block 0"]),
        (spt::MAP_GROUPS_AT, &1u32.to_le_bytes(), ["header", "two things at frame"]),
        (spt::MAP_GROUPS_AT, &5000u32.to_le_bytes(), ["map group 0", "frame 5000"]),
        (spt::MAP_GROUPS_AT + 4, &5u32.to_le_bytes(), ["map group 1", "frame 5"]),
        (255, &[7], ["header", "reserved bytes"]),
        (root(0), &4096u32.to_le_bytes(), ["header", "bucket group"]),
        (root(0), &600u32.to_le_bytes(), ["pages of 600 bytes", "4096"]),
        (root(6), &[1], ["header", "reserved bytes"]),
        (root(24), &400u32.to_le_bytes(), ["header", "bucket group"]),
        (root(32), &7u32.to_le_bytes(), ["filled to 7 percent", "header"]),
        (root(40), &u64::MAX.to_le_bytes(), ["18446744073709551615 pairs", "header"]),
        (root(100), &[1], ["header", "names of its types are followed by"]),
        (root(64), &[0xFF], ["header", "the names of its types"]),
        (spt::GROUPS_AT, &0u32.to_le_bytes(), ["bucket group", "header"]),
        (spt::GROUPS_AT + 4 * 3, &1u32.to_le_bytes(), ["two things at frame 1", "header"]),
        (spt::GROUPS_AT + 4 * 700, &900u32.to_le_bytes(), ["bucket group 700", "header"]),
        (spt::NAME_AT + 68, &[1], ["header", "reserved bytes"]),
        (4088, &[1], ["header", "reserved bytes"]),
    ] {
        refused(&with_header(at, bytes), ErrorKind::Corrupt, &words);
    }
}

#[test]
fn the_error_for_another_hash_function_names_it() {
    let open = |options: TableOptions| {
        let error = options.read_only(true).open(fixture("inline.spt")).expect_err("it has another function");
        assert_eq!(error.kind(), ErrorKind::WrongHash);
        error.to_string()
    };
    let sentence = open(TableOptions::new().hash(HashKind::Fnv1a));
    assert!(
        sentence.contains("xxh3") && sentence.contains("fnv1a") && sentence.contains("open it without one"),
        "{sentence}"
    );
    let sentence = open(TableOptions::new().seed(99));
    assert!(
        sentence.contains("seed 3") && sentence.contains("99") && sentence.contains("open it without one"),
        "{sentence}"
    );
    // A function with the name of the file's function, but other results.
    let other = with_header(spt::ROOT_AT + 16, &[1; 8]);
    refused(&other, ErrorKind::WrongHash, &["xxh3", "check value"]);
    refused(&with_header(spt::ROOT_AT + 4, &77u16.to_le_bytes()), ErrorKind::Version, &["77", "Upgrade"]);
}
