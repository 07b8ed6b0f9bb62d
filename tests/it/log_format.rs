//! The write-ahead log: docs/format.md and the crashed golden table, against the library and the second reader.
//!
//! A log contains random numbers, so the golden log is read, not compared with today's output; a fresh log, made the
//! same way, is read as well. `UPDATE=1 cargo test --test it crashed_table` rewrites the golden one.

use crate::format::{document, dump, dump_in, updating};
use crate::golden::{CRASHED, Pairs, crashed_log, fixture, log_of, scanned, write_crashed};
use crate::spt::log::{self, Builder, End, Header, Segment};
use crate::spt::{self, Reader, u64_at};
use splitpoint::{Durability, ErrorKind, TableOptions};
use std::fs;
use std::path::Path;

/// Returns the log files of the table at `path`.
fn logs(path: &Path) -> Vec<Vec<u8>> {
    (0..log::SEGMENTS_MAX).filter_map(|slot| fs::read(log_of(path, slot)).ok()).collect()
}

/// Reads the table at `path` with the second reader: returns the valid segments, and the pairs including the changes of
/// these segments.
fn second_reader(path: &Path) -> (Vec<Segment>, Pairs) {
    let file = fs::read(path).unwrap();
    let mut pairs: Pairs = Reader::new(&file).unwrap().pairs().unwrap().into_iter().map(|(_, pair)| pair).collect();
    let segments = log::follow(&logs(path), &file).unwrap();
    for segment in &segments {
        log::changes(&segment.records, &file).unwrap().iter().flatten().for_each(|change| change.apply(&mut pairs));
    }
    (segments, pairs)
}

/// Checks that both readers recover what was written to the crashed table at `path`.
fn is_the_crashed_table(path: &Path) {
    let mut expected = CRASHED.pairs();
    let (segments, pairs) = second_reader(path);
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("crashed.spt");
    fs::copy(path, &copy).unwrap();
    let reading = TableOptions::new().read_only(true).open(&copy).unwrap();
    assert!(scanned(&reading) == expected, "the last checkpoint");
    for slot in [0, 1] {
        fs::copy(log_of(path, slot), log_of(&copy, slot)).unwrap();
    }

    crashed_log().iter().flatten().for_each(|op| op.note(&mut expected));
    assert!(pairs == expected, "the second reader finds other pairs");
    let table = TableOptions::new().create(false).open(&copy).unwrap();
    assert_eq!(table.replayed(), crashed_log().len() as u64);
    assert!(scanned(&table) == expected, "the library finds other pairs");
    assert_eq!(table.verify().unwrap(), []);
    table.close().unwrap();
    assert!(logs(&copy).is_empty(), "a log is left after a close");
    assert!(scanned(&TableOptions::new().open(&copy).unwrap()) == expected);

    // The log has the structures it was made for.
    let [first, second] = &segments[..] else { panic!("{} segments", segments.len()) };
    let kinds = |segment: &Segment| segment.records.iter().map(|r| r.kind).collect::<std::collections::BTreeSet<_>>();
    let (put, append, remove) = (log::PUT, log::APPEND, log::REMOVE);
    let stored = log::PUT_STORED;
    let all = [put, append, remove, log::CLEAR, log::RESUMED, log::PIECE, log::IN_PIECES | append, stored];
    assert_eq!(kinds(first), all.into());
    assert_eq!(kinds(second), [put, append, remove, log::BATCH].into());
    let files = logs(path);
    let file = files.iter().find(|f| u64_at(f, 24) == second.header.number).unwrap();
    let torn = second.end.offset as usize + log::RECORD_HEAD_BYTES;
    assert!(file[torn..].starts_with(b"\x04torn"), "a record that is not whole");
}

#[test]
fn the_golden_crashed_table_has_what_its_log_asks_for() {
    if updating() {
        write_crashed(&fixture(""));
    }
    is_the_crashed_table(&CRASHED.file());
    for path in [CRASHED.file(), log_of(&CRASHED.file(), 0), log_of(&CRASHED.file(), 1)] {
        let bytes = fs::metadata(&path).unwrap().len();
        assert!(bytes <= 128 << 10, "{}: {bytes} bytes", path.display());
    }
}

#[test]
fn a_crashed_table_of_today_has_what_its_log_asks_for() {
    let directory = tempfile::tempdir().unwrap();
    is_the_crashed_table(&write_crashed(directory.path()));
}

/// Builds the log shown in docs/format.md.
fn documented() -> Vec<u8> {
    let file = fs::read(fixture("example.spt")).unwrap();
    let sequence = u64_at(&file, 16);
    let header = Header {
        table_id: u64_at(&file, spt::TABLE_ID_AT),
        number: sequence + 1,
        before: End { number: sequence, ..End::default() },
        salt: 0x1f83d9abfb41bd6b,
    };
    let builder = Builder::new(header).put(b"bob", b"guest").record(log::APPEND, &[b"\x05alice", b"s"]);
    let mut bytes = builder.record(log::REMOVE, &[b"biography"]).bytes;
    bytes.resize((bytes.len() + 8).next_multiple_of(8), 0);
    bytes
}

#[test]
fn the_documents_log_reads_as_the_document_says() {
    let (start, bytes) = dump_in(&document(), "### Example: a log");
    assert!((start, &bytes) == (0, &documented()), "the document should show:\n{}", dump(0, &documented()));

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("example.spt");
    fs::copy(fixture("example.spt"), &path).unwrap();
    let mut expected: Pairs = second_reader(&path).1;
    fs::write(log_of(&path, 0), &bytes).unwrap();
    let (segments, pairs) = second_reader(&path);
    assert_eq!((segments.len(), segments[0].records.len()), (1, 3));
    expected.insert(b"bob".into(), b"guest".into());
    expected.insert(b"alice".into(), b"admins".into());
    expected.remove(&b"biography"[..]).unwrap();
    assert!(pairs == expected);
    let table = TableOptions::new().create(false).open(&path).unwrap();
    assert_eq!(table.replayed(), 3);
    assert!(scanned(&table) == expected);
}

#[test]
fn every_constant_of_the_log_in_the_documents_summary_is_the_second_readers() {
    let document = document();
    for (name, number) in [
        ("segments of a log", log::SEGMENTS_MAX),
        ("bytes of a segment's header", log::HEADER_BYTES),
        ("first byte of a segment's records", log::RECORDS_AT),
        ("bytes of a log record's head", log::RECORD_HEAD_BYTES),
        ("bytes of a log record's body", log::BODY_BYTES_MAX),
    ] {
        assert!(document.contains(&format!("| {name} | {number} |")), "{name}: {number}");
    }
}

// ---------------------------------------------------------------------------------------------
// Valid segments

/// Copies the crashed table to a new directory, without its log; `change` gets its path and the two segments in order.
fn changed(change: impl FnOnce(&Path, Segment, Segment)) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("crashed.spt");
    fs::copy(CRASHED.file(), &path).unwrap();
    let [first, second] = second_reader(&CRASHED.file()).0.try_into().unwrap_or_else(|_| panic!("two segments"));
    change(&path, first, second);
    directory
}

/// Opens the table in `directory`; returns the number of records replayed, on which both readers must agree.
fn replayed(directory: &tempfile::TempDir) -> usize {
    let path = directory.path().join("crashed.spt");
    let (segments, pairs) = second_reader(&path);
    let file = fs::read(&path).unwrap();
    let table = TableOptions::new().create(false).open(&path).unwrap();
    assert!(scanned(&table) == pairs);
    let records = segments.iter().map(|s| log::changes(&s.records, &file).unwrap().len()).sum();
    assert_eq!(table.replayed(), records as u64);
    records
}

fn put(path: &Path, slot: usize, segment: &Segment) {
    fs::write(log_of(path, slot), Builder::behind(segment).finish()).unwrap();
}

/// The crashed table's file, in `directory`, and the first byte of the value there that its log refers to.
fn stored_value(directory: &tempfile::TempDir) -> (std::path::PathBuf, usize) {
    let path = directory.path().join("crashed.spt");
    let (segments, _) = second_reader(&path);
    let record = segments[0].records.iter().find(|record| record.kind == log::PUT_STORED).unwrap();
    (path, u64_at(&record.body, record.body.len() - 16) as usize)
}

#[test]
fn a_log_ends_before_a_value_that_the_file_does_not_have() {
    let all = crashed_log().len();
    let intact = changed(|path, first, second| {
        put(path, 0, &first);
        put(path, 1, &second);
    });
    let (path, at) = stored_value(&intact);
    let file = fs::read(&path).unwrap();
    let mut flipped = file.clone();
    flipped[at + 16_999] ^= 1;
    // Lost in a power failure, in part or with the file's length; and additional bytes, which no record refers to.
    let longer = [&file[..], &[7; 5000]].concat();
    let cut = at + 16_999;
    for (damaged, whole) in [(&flipped[..], false), (&file[..cut], false), (&file[..at], false), (&longer, true)] {
        fs::write(&path, damaged).unwrap();
        for slot in 0..2 {
            fs::copy(log_of(&CRASHED.file(), slot), log_of(&path, slot)).unwrap();
        }
        assert_eq!(replayed(&intact) == all, whole);
    }
}

#[test]
fn segments_count_under_any_of_their_names() {
    let directory = changed(|path, first, second| {
        put(path, 7, &first);
        put(path, 3, &second);
    });
    assert_eq!(replayed(&directory), crashed_log().len());
}

#[test]
fn a_segment_that_continues_nothing_is_left_out() {
    let directory = changed(|path, _, second| put(path, 0, &second));
    assert_eq!(replayed(&directory), 0);
    // The previous segment lost its last record in a power failure.
    let directory = changed(|path, mut first, second| {
        first.records.pop();
        put(path, 0, &first);
        put(path, 1, &second);
    });
    assert!((1..crashed_log().len()).contains(&replayed(&directory)));
    // A checkpoint after it is complete.
    let directory = changed(|path, mut first, second| {
        first.header.number -= 1;
        first.header.before.number -= 1;
        put(path, 0, &first);
        put(path, 1, &second);
    });
    assert_eq!(replayed(&directory), 0);
}

#[test]
fn a_first_segment_may_begin_with_the_checkpoint_or_after_it() {
    let header = |number, before| {
        move |path: &Path, mut first: Segment, _: Segment| {
            let sequence = u64_at(&fs::read(path).unwrap(), 16);
            let before = End { number: (sequence as i64 + before) as u64, ..End::default() };
            first.header = Header { number: (sequence as i64 + number) as u64, before, ..first.header };
            put(path, 0, &first);
        }
    };
    assert!(replayed(&changed(header(0, -1))) > 50);
    assert!(replayed(&changed(header(2, 0))) > 50);
    assert_eq!(replayed(&changed(header(2, 1))), 0);
}

#[test]
fn a_duplicated_segment_counts_once() {
    let once = replayed(&changed(|path, first, _| put(path, 0, &first)));
    let twice = replayed(&changed(|path, first, _| (0..8).for_each(|slot| put(path, slot, &first))));
    assert_eq!(twice, once);
}

#[test]
fn of_two_segments_that_fit_the_one_with_the_lower_name_counts() {
    for slot in 0..3 {
        let directory = changed(|path, first, second| {
            put(path, slot, &first);
            let header = Header { table_id: 1, ..second.header };
            put(path, (slot + 1) % 4, &Segment { header, ..second.clone() });
            put(path, (slot + 2) % 4, &second);
            put(path, (slot + 3) % 4, &Segment { records: Vec::new(), ..second });
        });
        replayed(&directory);
    }
}

#[test]
fn a_log_of_an_unknown_version_is_an_error_and_left_alone() {
    let directory = changed(|path, first, _| {
        let mut bytes = Builder::behind(&first).finish();
        bytes[8] = 2;
        let sum = spt::crc32c(0, &bytes[..60]);
        bytes[60..64].copy_from_slice(&sum.to_le_bytes());
        fs::write(log_of(path, 5), bytes).unwrap();
    });
    let path = directory.path().join("crashed.spt");
    let before = logs(&path);
    let error = TableOptions::new().open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Version);
    for word in ["crashed.spt-log5", "log version 2", "reads 1"] {
        assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
    }
    assert_eq!(logs(&path), before);
}

#[test]
fn a_file_that_is_no_segment_yet_is_written_over() {
    for len in [0, 64, 4095, 4096, 100_000] {
        let directory = changed(|path, first, second| {
            fs::write(log_of(path, 0), vec![0; len]).unwrap();
            put(path, 1, &first);
            put(path, 2, &second);
        });
        assert_eq!(replayed(&directory), crashed_log().len());
    }
}

/// The bytes of files that this thread has made dirty; `None` if the system does not count them.
#[cfg(target_os = "linux")]
fn dirtied() -> Option<u64> {
    let figures = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    figures.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

#[cfg(target_os = "linux")]
#[test]
fn a_synced_put_into_a_long_log_writes_few_bytes() {
    const SYNCED: u32 = 100;
    const EACH_MAX: u64 = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let table = TableOptions::new().durability(Durability::Os).open(folder.path().join("t")).unwrap();
    for key in 0..200_000_u32 {
        table.put(&key.to_le_bytes(), &[1; 100]).unwrap();
    }
    let before = dirtied();
    for key in 0..SYNCED {
        table.with(Durability::Sync).put(&key.to_le_bytes(), &[2; 100]).unwrap();
    }
    let Some((before, after)) = before.zip(dirtied()) else { return };
    let bytes = after - before;
    assert!(bytes <= u64::from(SYNCED) * EACH_MAX, "{} bytes per put", bytes / u64::from(SYNCED));
}
