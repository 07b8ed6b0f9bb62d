//! Damaged logs, one by one: what an open makes of a log whose checksums are right and whose content is not.
//!
//! Not here: the log as it should be (`log_format.rs`).

use super::in_time;
use crate::golden::{fixture, log_of};
use crate::spt;
use crate::spt::log::{self, Builder, End, Header};
use crate::spt::u64_at;
use splitpoint::{ErrorKind, Table, TableOptions};
use std::fs;
use std::path::{Path, PathBuf};

/// The header of the first segment behind the checkpoint that `table` has.
fn first_header(table: &[u8]) -> Header {
    let sequence = u64_at(table, 16);
    let before = End { number: sequence, ..End::default() };
    Header { table_id: u64_at(table, spt::TABLE_ID_AT), number: sequence + 1, before, salt: 0x5eed }
}

fn put_files(path: &Path, table: &[u8], files: &[Vec<u8>]) {
    fs::write(path, table).unwrap();
    for (slot, file) in files.iter().enumerate().filter(|(_, file)| !file.is_empty()) {
        fs::write(log_of(path, slot), file).unwrap();
    }
}

/// All that is in the directory of `path`, by name.
fn files_beside(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|p| p.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// `example.spt` beside a log in these files, in a directory of its own.
fn example_with(files: &[Vec<u8>]) -> (tempfile::TempDir, PathBuf) {
    let directory = super::directory();
    let path = directory.path().join("example.spt");
    put_files(&path, &example(), files);
    (directory, path)
}

fn example() -> Vec<u8> {
    fs::read(fixture("example.spt")).unwrap()
}

fn builder() -> Builder {
    Builder::new(first_header(&example()))
}

/// The error of opening `example.spt` with a log of this; the files stay as they were.
fn refused(log: Builder) -> String {
    let (_directory, path) = example_with(&[log.finish()]);
    let before = files_beside(&path);
    let error = in_time({
        let path = path.clone();
        move || TableOptions::new().open(path).unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(files_beside(&path) == before, "a file was changed");
    error.to_string()
}

/// How many records of a log are replayed.
fn replayed(log: Builder) -> u64 {
    let (_directory, path) = example_with(&[log.finish()]);
    in_time(move || TableOptions::new().open(path).unwrap().replayed())
}

#[test]
fn a_segment_with_a_number_behind_which_there_is_none_is_an_error() {
    let file = |number| Builder::new(Header { number, ..first_header(&example()) }).put(b"k", b"v");
    for number in [(1 << 63) + 1, u64::MAX] {
        assert!(refused(file(number)).contains(&number.to_string()));
    }
    assert_eq!(replayed(file(1 << 63)), 1);
}

#[test]
fn a_segment_that_continues_a_later_one_is_an_error() {
    // Else it would be left out today, and fit behind a checkpoint to come.
    let first = first_header(&example());
    for number in [first.number, first.number + 1] {
        let header = Header { before: End { number, ..first.before }, ..first };
        assert!(refused(Builder::new(header).put(b"k", b"v")).contains(&format!("after {number}")));
    }
}

/// The table as a crash at this moment leaves it, in a directory of its own.
fn crashed(path: &Path, to: &Path) -> PathBuf {
    fs::create_dir(to).unwrap();
    files_beside(path).iter().for_each(|(from, bytes)| fs::write(to.join(from.file_name().unwrap()), bytes).unwrap());
    to.join(path.file_name().unwrap())
}

#[test]
fn pieces_without_an_end_are_not_put_before_a_later_value() {
    // A process ends in the midst of its first long value; the next one numbers its own from the start again.
    for number in 0..3u32 {
        let piece: [&[u8]; 3] = [&number.to_le_bytes(), &[4], b"lost and more"];
        let (directory, path) = example_with(&[builder().put(b"k", b"v").record(log::PIECE, &piece).finish()]);
        let table = Table::open(&path).unwrap();
        assert_eq!(table.replayed(), 1);
        table.put(b"long", &[7; 100_000]).unwrap();
        let table = Table::open(crashed(&path, &directory.path().join("copy"))).unwrap();
        assert_eq!(table.replayed(), 2);
        assert!(table.get(b"long").unwrap().unwrap() == [7; 100_000]);
        assert_eq!(table.get(b"lost").unwrap(), None);
    }
}

#[test]
fn a_record_in_pieces_that_has_none_is_an_error() {
    for kind in [log::PUT, log::APPEND, log::REMOVE, log::CLEAR, log::BATCH] {
        let none = builder().put(b"k", b"v").record(log::IN_PIECES | kind, &[&[1, 0, 0, 0]]);
        assert!(refused(none).contains("example.spt-log0"), "kind {kind}");
        let used = builder().record(log::PIECE, &[&[1, 0, 0, 0], &[0]]);
        let used = used.record(log::RESUMED, &[&[0; 8]]).record(log::IN_PIECES | kind, &[&[1, 0, 0, 0]]);
        refused(used);
        for body in [&[][..], &[1, 0, 0], &[1, 0, 0, 0, 0]] {
            let piece = builder().record(log::PIECE, &[&[1, 0, 0, 0], &[0]]);
            refused(piece.record(log::IN_PIECES | kind, &[body]));
        }
    }
    refused(builder().record(log::PIECE, &[&[1, 2, 3]]));
}
