//! Files that are not tables, or not for this library: the kind of the error and its message.
//!
//! Each message names the file, what is wrong with it and what to do. Neither the file nor any other file in its
//! directory changes.

use crate::golden::{PENDING, fixture};
use crate::spt;
use splitpoint::{ErrorKind, HashKind, TableOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the error of opening `path` for reading and for writing, which must be the same, as kind and message.
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

/// The golden file with other bytes at `at` and a correct header checksum.
fn with_header(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = inline();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = spt::header_sum(&file);
    file[spt::HEADER_BYTES - 4..spt::HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
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
        assert!(error.to_string().contains("empty"), "{error}");
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
    file[8] = 2;
    refused(&file, ErrorKind::Version, &words);
    refused(&file[..100], ErrorKind::Version, &words);
    refused(&with_header(8, &0u32.to_le_bytes()), ErrorKind::Version, &["format version 0"]);
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
        refused(&file, ErrorKind::Corrupt, &["header", "checksum mismatch", "stored", "computed", "backup"]);
    }
}

#[test]
fn a_header_that_contradicts_itself_says_in_what() {
    let root = |at: usize| spt::ROOT_AT + at;
    for (at, bytes, words) in [
        (12, &5000u32.to_le_bytes()[..], ["frames of 5000 bytes", "4096"]),
        (16, &0u64.to_le_bytes(), ["header", "checkpoint 0"]),
        (16, &u64::MAX.to_le_bytes(), ["header", "checkpoint 18446744073709551615"]),
        (24, &2u32.to_le_bytes(), ["2 frames", "3 or more"]),
        (24, &5000u32.to_le_bytes(), ["map frames for 512", "5000"]),
        (24, &400u32.to_le_bytes(), ["cut to", "1638400"]),
        (28, &[1], ["header", "reserved bytes"]),
        (spt::MAP_GROUPS_AT, &4u32.to_le_bytes(), ["header", "two things at frame"]),
        (spt::MAP_GROUPS_AT, &1u32.to_le_bytes(), ["map group 0", "frame 1"]),
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
        (spt::GROUPS_AT, &1u32.to_le_bytes(), ["bucket group", "header"]),
        (spt::GROUPS_AT + 4 * 3, &3u32.to_le_bytes(), ["two things at frame 3", "header"]),
        (spt::GROUPS_AT + 4 * 700, &900u32.to_le_bytes(), ["bucket group 700", "header"]),
        (spt::GROUPS_AT + 4 * spt::GROUP_COUNT, &[1], ["header", "reserved bytes"]),
        (4088, &[1], ["header", "reserved bytes"]),
    ] {
        refused(&with_header(at, bytes), ErrorKind::Corrupt, &words);
    }
    // With larger frames, the rest of the first is reserved too.
    let mut large = fs::read(fixture("page-8192.spt")).unwrap();
    large[5000] = 1;
    refused(&large, ErrorKind::Corrupt, &["header", "reserved bytes"]);
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

// --------------------------------------------------------------------------------------------- Journals of other
// tables

/// Opening `file` for writing with `journal` next to it fails with `kind` and `words`, and changes neither.
fn journal_refused(file: &[u8], journal: &[u8], kind: ErrorKind, words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.spt");
    let journal_path = PathBuf::from(format!("{}-ckpt", path.display()));
    fs::write(&path, file).unwrap();
    fs::write(&journal_path, journal).unwrap();
    assert!(!spt::Journal::parse(journal).is_some_and(|journal| journal.belongs_to(file)));
    let error = TableOptions::new().open(&path).expect_err("the journal is another's");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
    }
    assert!(fs::read(&path).unwrap() == file && fs::read(&journal_path).unwrap() == journal);
}

fn pending() -> (Vec<u8>, Vec<u8>) {
    (fs::read(PENDING.file()).unwrap(), fs::read(fixture("pending.spt-ckpt")).unwrap())
}

#[test]
fn a_journal_of_another_checkpoint_is_not_installed() {
    let (mut file, journal) = pending();
    let sequence = spt::u64_at(&file, 16);
    file[16..24].copy_from_slice(&(sequence + 7).to_le_bytes());
    let sum = spt::header_sum(&file);
    file[4092..4096].copy_from_slice(&sum.to_le_bytes());
    let made_for = format!("leads from checkpoint {sequence} to {}", sequence + 1);
    let at = format!("at checkpoint {}", sequence + 7);
    journal_refused(
        &file,
        &journal,
        ErrorKind::Corrupt,
        &["users.spt-ckpt: ", &made_for, &at, "move the journal away"],
    );
}

#[test]
fn a_journal_of_another_table_is_not_installed() {
    let (mut file, journal) = pending();
    file[spt::TABLE_ID_AT] ^= 1;
    let sum = spt::header_sum(&file);
    file[4092..4096].copy_from_slice(&sum.to_le_bytes());
    let id = |bytes: &[u8], at| format!("{:016x}", spt::u64_at(bytes, at));
    let (its, tables) = (id(&journal, spt::JOURNAL_TABLE_ID_AT), id(&file, spt::TABLE_ID_AT));
    journal_refused(&file, &journal, ErrorKind::Corrupt, &["users.spt-ckpt: ", &its, &tables, "move the journal away"]);
}

#[test]
fn a_later_checkpoints_journal_is_no_new_table() {
    let (_, journal) = pending();
    let words = ["users.spt-ckpt: belongs to checkpoint ", "is empty", "move the journal away"];
    journal_refused(b"", &journal, ErrorKind::Corrupt, &words);

    // The journal alone: whether the next open finds an empty file or only the journal.
    let directory = tempfile::tempdir().unwrap();
    let (path, journal_path) = (directory.path().join("users.spt"), directory.path().join("users.spt-ckpt"));
    fs::write(&journal_path, &journal).unwrap();
    for (create, kind) in [(false, ErrorKind::Io), (true, ErrorKind::Corrupt), (true, ErrorKind::Corrupt)] {
        let error = TableOptions::new().create(create).open(&path).expect_err("the table is missing");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(fs::read(&journal_path).unwrap() == journal);
    }
}

#[test]
fn a_journal_whose_header_says_something_else_is_not_installed() {
    let (file, journal) = pending();
    // frame_count, sequence
    for at in [24, 8] {
        let mut other = journal.clone();
        other[at] += 1;
        spt::repair_journal(&mut other);
        assert!(spt::Journal::parse(&other).is_some());
        journal_refused(
            &file,
            &other,
            ErrorKind::Corrupt,
            &["users.spt-ckpt: ", "last frame", "Move the journal away"],
        );
    }
}

#[test]
fn a_journal_of_a_file_that_is_no_table_of_this_version_is_left_alone() {
    let (mut file, journal) = pending();
    journal_refused(b"a text file\n", &journal, ErrorKind::NotATable, &["users.spt: "]);
    file[8] = 2;
    journal_refused(&file, &journal, ErrorKind::Version, &["format version 2"]);
    journal_refused(&file, &journal[..1000], ErrorKind::Version, &["format version 2"]);
}

#[test]
fn a_journal_that_makes_a_table_of_another_version_is_left_alone() {
    let (file, mut journal) = pending();
    let count = spt::u32_at(&journal, 20) as usize;
    journal[spt::JOURNAL_HEADER_BYTES + (count - 1) * 4096 + 8] = 2;
    spt::repair_journal(&mut journal);
    journal_refused(&file, &journal, ErrorKind::Version, &["users.spt-ckpt: ", "format version 2"]);
}
