//! Damaged logs: an open either replays the logged records, up to some record, or returns an error.
//!
//! **Raw** damage (flips, cuts, swapped files) is detected by a checksum: the table has the records before it and
//! nothing else. **Repaired** damage (other kinds, lengths and bodies, batches with wrong counts, missing pieces,
//! headers that name another segment) has correct checksums: there the second reader decides what the result must be.
//! Then the table is written to, the process is "killed", and the table is opened again: truncated records must not
//! return.
//!
//! Cases have numbers, `SPLITPOINT_CASE=lograw:1234` and `logrepaired:1234`. Not here: undamaged logs
//! (`log_format.rs`).

use super::{Kind, Random, damage_raw, in_time};
use crate::golden::{CRASHED, Pairs, fixture, log_of, scanned};
use crate::spt::log::{self, Builder, End, Header, Record, Segment};
use crate::spt::{self, Reader, u64_at};
use splitpoint::{Durability, ErrorKind, Table, TableOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// An undamaged table with a log.
struct Original {
    name: &'static str,
    table: Vec<u8>,
    /// The files of the log, by the number in their name.
    files: Vec<Vec<u8>>,
    segments: Vec<Segment>,
    /// The content of the table after `count` records.
    states: Vec<Pairs>,
}

impl Original {
    fn new(name: &'static str, table: Vec<u8>, files: Vec<Vec<u8>>) -> Original {
        let segments = log::follow(&files, &table).unwrap();
        assert_eq!(segments.len(), files.len());
        let mut states = vec![checkpoint_of(&table)];
        for record in segments.iter().flat_map(|segment| log::changes(&segment.records, &table).unwrap()) {
            let mut state = states.last().unwrap().clone();
            record.iter().for_each(|change| change.apply(&mut state));
            states.push(state);
        }
        Original { name, table, files, segments, states }
    }
}

fn checkpoint_of(table: &[u8]) -> Pairs {
    Reader::new(table).unwrap().pairs().unwrap().into_iter().map(|(_, pair)| pair).collect()
}

static ORIGINALS: LazyLock<[Original; 2]> = LazyLock::new(|| {
    let read = |name: &Path| fs::read(name).unwrap();
    let crashed = CRASHED.file();
    let table = example();
    [
        Original::new("crashed", read(&crashed), [0, 1].map(|slot| read(&log_of(&crashed, slot))).into()),
        Original::new("woven", table.clone(), woven(&table)),
    ]
});

/// Prepares the originals before anything is timed.
pub fn prepare() {
    LazyLock::force(&ORIGINALS);
}

/// Returns the header of the first segment after the checkpoint of `table`.
fn first_header(table: &[u8]) -> Header {
    let sequence = u64_at(table, 16);
    let before = End { number: sequence, ..End::default() };
    Header { table_id: u64_at(table, spt::TABLE_ID_AT), number: sequence + 1, before, salt: 0x5eed }
}

fn header_behind(segment: &Segment) -> Header {
    Header { number: segment.header.number.wrapping_add(1), before: segment.end, ..segment.header }
}

/// Returns three segments, in files in a different order; the pieces of two records are interleaved with each other and
/// with batches.
fn woven(table: &[u8]) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new(); 3];
    let mut header = first_header(table);
    for n in 0..3u8 {
        let mut builder = Builder::new(header);
        for i in 0..6 {
            let key = [b"key "[..].to_vec(), vec![b'a' + i, b'0' + n]].concat();
            builder = builder
                .put(&key, &[i; 30])
                .record(log::PIECE, &[&[1, 0, 0, 0], &[6], &key])
                .record(log::APPEND, &[&[6], &key, &[n; 9]])
                .record(log::PIECE, &[&[2, 0, 0, 0], &[1, 6, b'b'], &[b'0' + n], b"ulky"])
                .record(log::PIECE, &[&[1, 0, 0, 0], &[n; 300]])
                .record(log::PIECE, &[&[2, 0, 0, 0], &[0x80 | 100, 0], &[i; 100]])
                .record(log::IN_PIECES | log::BATCH, &[&[2, 0, 0, 0]])
                .record(log::BATCH, &[&[2, 6], &key, &[1, b'!', 3, 5, b'a' + i, b'l', b'i', b'c', b'e']])
                .record(log::IN_PIECES | log::APPEND, &[&[1, 0, 0, 0]]);
            if i == 3 {
                builder = builder.record(log::RESUMED, &[&[n; 8]]);
            }
        }
        let file = builder.finish();
        header = header_behind(&Segment::parse(&file).unwrap().unwrap());
        files[usize::from(n + 1) % 3] = file;
    }
    files
}

/// A case: the files of a log after damage.
struct Damaged {
    original: &'static Original,
    files: Vec<Vec<u8>>,
    note: String,
}

fn damaged(kind: Kind, seed: u64) -> Damaged {
    let random = &mut Random(seed ^ (kind as u64) << 56);
    random.next();
    let original = random.pick(&ORIGINALS[..]);
    let mut files = original.files.clone();
    let note = match kind {
        Kind::LogRaw => damage_files(random, &mut files),
        _ => damage_records(random, original, &mut files),
    };
    Damaged { original, files, note }
}

pub fn about(kind: Kind, seed: u64) -> String {
    let Damaged { original, note, .. } = damaged(kind, seed);
    format!("{kind:?}:{seed} {}: {note}", original.name)
}

fn damage_files(random: &mut Random, files: &mut Vec<Vec<u8>>) -> String {
    let (a, b) = (random.below(files.len()), random.below(files.len()));
    match random.below(12) {
        0 => {
            files.swap(a, b);
            format!("files {a} and {b} change names")
        }
        1 => {
            files[b] = files[a].clone();
            format!("file {b} is a copy of {a}")
        }
        2 => {
            files.push(files[a].clone());
            files[a] = Vec::new();
            format!("file {a} moved to another name")
        }
        3 => {
            let tail = files[a].split_off(log::RECORDS_AT);
            let at = log::RECORDS_AT.min(files[b].len());
            let other = files[b].split_off(at);
            files[a].extend(other);
            files[b].extend(tail);
            format!("records of {a} and {b} change places")
        }
        4 => {
            // Damage in a header only ends the log early.
            let at = random.below(log::HEADER_BYTES) + random.below(2) * log::SECOND_AT;
            files[a][at] ^= 1 << random.below(8);
            format!("file {a}: a bit of byte {at} flipped")
        }
        5 => {
            let end = files[a].iter().rposition(|&byte| byte != 0).unwrap() + 1;
            let at = end - 1 - random.below(end.min(300));
            files[a][at..end].fill(0);
            format!("file {a}: torn at {at}")
        }
        _ => format!("file {a}: {}", damage_raw(random, &mut files[a])),
    }
}

/// Replaces records and headers, with correct checksums.
fn damage_records(random: &mut Random, original: &Original, files: &mut [Vec<u8>]) -> String {
    let mut notes = Vec::new();
    let mut segments = original.segments.clone();
    for _ in 0..1 + random.below(3) {
        let n = random.below(segments.len());
        let at = random.below(segments[n].records.len());
        notes.push(format!("segment {n}, record {at}: {}", damage_record(random, &mut segments[n].records, at)));
    }
    files.iter_mut().for_each(Vec::clear);
    let mut before: Option<Segment> = None;
    for (n, mut segment) in segments.into_iter().enumerate() {
        segment.header = before.as_ref().map_or(segment.header, header_behind);
        if random.one_in(6) {
            notes.push(format!("segment {n}: {}", damage_header(random, &mut segment.header)));
        }
        let file = Builder::behind(&segment).finish();
        before = Segment::parse(&file).ok().flatten();
        files[n] = file;
    }
    if random.one_in(3) {
        notes.push("last first".into());
        files.reverse();
    }
    notes.join("; ")
}

fn damage_header(random: &mut Random, header: &mut Header) -> String {
    let was = *header;
    let (less, more) = (was.number.wrapping_sub(1), was.number.wrapping_add(1));
    let value = *random.pick(&[0, 1, 2, 3, 4, 5, u64::MAX, 1 << 62, less, more, was.before.offset]);
    match random.below(6) {
        0 | 1 => header.number = value,
        2 => header.before = End { number: value, ..End::default() },
        3 => header.before.offset = value,
        4 => header.before.checksum ^= 1,
        _ => header.table_id ^= 1,
    }
    format!("{was:?} -> {header:?}")
}

fn damage_record(random: &mut Random, records: &mut Vec<Record>, at: usize) -> String {
    let kinds = [0, 1, 2, 3, 4, 5, 6, 0x7D, 0x7E, 0x7F, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0xFE, 0xFF];
    let lengths: [&[u8]; 7] = [
        &[0x80],
        &[0x80, 0],
        &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
        &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
        &[0xFF; 6],
        &[0x7F],
        &[0],
    ];
    let other = random.below(records.len());
    let record = &mut records[at];
    match random.below(11) {
        0 | 1 => {
            let old = std::mem::replace(&mut record.kind, *random.pick(&kinds));
            format!("kind {old:#x} -> {:#x}", record.kind)
        }
        2 | 3 => {
            let length = *random.pick(&lengths);
            let kept = random.below(3);
            record.body.splice(0..kept.min(record.body.len()), length.iter().copied());
            format!("{kept} bytes of its body -> {length:x?}")
        }
        4 => {
            let len = random.below(record.body.len() + 1);
            record.body.truncate(len);
            format!("cut to {len} bytes")
        }
        5 => {
            let len = *random.pick(&[1, 200, log::BODY_BYTES_MAX, log::BODY_BYTES_MAX + 1, 200_000]);
            record.body.resize(len, 1);
            format!("{len} bytes long")
        }
        6 => {
            let flips: Vec<usize> = (0..3).map(|_| random.below(8 * record.body.len().clamp(1, 12))).collect();
            for bit in &flips {
                record.body.get_mut(bit / 8).into_iter().for_each(|byte| *byte ^= 1 << (bit % 8));
            }
            format!("bits {flips:?} flipped")
        }
        7 => {
            records.remove(at);
            if records.is_empty() {
                records.push(Record { kind: log::CLEAR, body: Vec::new() });
            }
            "left out".into()
        }
        8 => {
            records.swap(at, other);
            format!("changes places with {other}")
        }
        9 => {
            let again = record.clone();
            records.insert(other, again);
            format!("again at {other}")
        }
        _ => {
            let body = (0..random.below(40)).map(|_| *random.pick(&[0, 1, 2, 3, 4, 5, 0x80, 0xFF, b'a'])).collect();
            *record = Record { kind: *random.pick(&[log::BATCH, log::PUT, log::IN_PIECES | log::BATCH]), body };
            format!("{record:?}")
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Running a case

fn put_files(path: &Path, table: &[u8], files: &[Vec<u8>]) {
    fs::write(path, table).unwrap();
    for (slot, file) in files.iter().enumerate().filter(|(_, file)| !file.is_empty()) {
        fs::write(log_of(path, slot), file).unwrap();
    }
}

/// Returns all files in the directory of `path`, by name.
fn files_beside(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        // The open may remove a journal.
        entries.filter(|p| p.is_file()).filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes))).collect();
    files.sort();
    files
}

/// Copies the table as a crash at this moment would leave it, to a directory of its own.
fn crashed(path: &Path, to: &Path) -> PathBuf {
    fs::create_dir(to).unwrap();
    // A checkpoint may be running. If two reads are equal, the files had this content between them.
    let mut files = files_beside(path);
    while files != files_beside(path) {
        files = files_beside(path);
    }
    files.iter().for_each(|(from, bytes)| fs::write(to.join(from.file_name().unwrap()), bytes).unwrap());
    to.join(path.file_name().unwrap())
}

/// Runs a case. Returns what went wrong.
pub fn case(kind: Kind, seed: u64, directory: &Path) -> Option<String> {
    let Damaged { original, files, .. } = damaged(kind, seed);
    let random = &mut Random(!seed);
    let path = directory.join("damaged.spt");
    put_files(&path, &original.table, &files);
    let before = files_beside(&path);

    let read = TableOptions::new().read_only(true).open(&path).ok().map(|table| scanned(&table));
    let expected = log::follow(&files, &original.table).and_then(|segments| {
        segments.iter().map(|segment| log::changes(&segment.records, &original.table)).collect::<Result<Vec<_>, _>>()
    });
    let durability = *random.pick(&[Durability::Os, Durability::Os, Durability::Sync, Durability::None]);
    let options = || TableOptions::new().create(false).log_bytes(1 << 18).durability(durability);
    let (table, expected) = match (options().open(&path), expected) {
        (Ok(table), Ok(expected)) => (table, expected.concat()),
        (Err(_), Err(_)) if files_beside(&path) == before => return None,
        (Err(e), Err(_)) => return Some(format!("files changed though the table was refused: {e}")),
        (Ok(_), Err(e)) => return Some(format!("opened, the second reader finds: {e}")),
        (Err(e), Ok(_)) => return Some(format!("refused, the second reader finds nothing wrong: {e}")),
    };
    let mut pairs = original.states[0].clone();
    expected.iter().flatten().for_each(|change| change.apply(&mut pairs));
    if table.replayed() != expected.len() as u64 || scanned(&table) != pairs {
        return Some(format!("{} records replayed, the second reader finds {}", table.replayed(), expected.len()));
    }
    if read.as_ref() != Some(&pairs) {
        return Some("a reader finds something else".into());
    }
    if kind == Kind::LogRaw && original.states.get(expected.len()) != Some(&pairs) {
        return Some(format!("{} records that are not the first of the log", expected.len()));
    }
    if !table.verify().unwrap().is_empty() {
        return Some("faults in a table that was whole".into());
    }
    writes_on(random, table, &path, pairs, options)
}

/// Checks that the table accepts writes after the replay, and that no truncated record returns.
fn writes_on(
    random: &mut Random,
    table: Table,
    path: &Path,
    mut pairs: Pairs,
    options: impl Fn() -> TableOptions,
) -> Option<String> {
    for round in 0..2 {
        let long = vec![b'l'; *random.pick(&[10, 10, 70_000])];
        let values: [(&[u8], &[u8]); 3] = [(b"key a0", &[0; 30]), (b"long", &long), (b"alice", &[round])];
        for (key, value) in &values[..random.below(4)] {
            table.put(key, value).unwrap();
            pairs.insert(key.to_vec(), value.to_vec());
        }
        if random.one_in(3) {
            table.checkpoint().unwrap();
        }
    }
    table.sync().unwrap();
    let copy = crashed(path, &path.with_extension("copy"));
    for (path, table) in [(path, Some(table)), (&copy, None)] {
        if let Some(table) = table {
            table.close().unwrap();
        }
        let again = options().open(path).unwrap();
        if scanned(&again) != pairs {
            return Some(format!("other pairs after {} records at the second open", again.replayed()));
        }
    }
    None
}

// ---------------------------------------------------------------------------------------------
// Single cases

/// Creates `example.spt` with a log of these files, in a directory of its own.
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

/// Returns the error of opening `example.spt` with this log; checks that the files do not change.
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

/// Returns the number of records of a log that are replayed.
fn replayed(log: Builder) -> u64 {
    let (_directory, path) = example_with(&[log.finish()]);
    in_time(move || TableOptions::new().open(path).unwrap().replayed())
}

#[test]
fn pieces_without_an_end_are_not_put_before_a_later_value() {
    // A process ends while writing its first long value; the next one numbers its values from the start again.
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

#[test]
fn a_record_of_an_unknown_kind_is_an_error_that_names_it() {
    for kind in [6, 77, 0x7D] {
        let error = refused(builder().put(b"k", b"v").record(kind, &[b"what"]));
        assert!(error.contains(&format!("kind {kind}")), "{error}");
    }
    for kind in [0x80, 0x86, 0xFE, 0xFF] {
        refused(builder().record(log::PIECE, &[&[1, 0, 0, 0], b"what"]).record(kind, &[&[1, 0, 0, 0]]));
    }
}

#[test]
fn a_batch_with_a_wrong_count_is_an_error_and_changes_nothing() {
    let lies: [&[u8]; 9] = [
        &[1],
        &[1, 1, b'k'],
        &[1, 1, b'k', 2, b'v'],
        &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, b'k'],
        &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0],
        &[4],
        &[5, 0],
        &[0, 0],
        &[0x81, 1, 0, 0, 0],
    ];
    for lie in lies {
        let whole: &[u8] = &[1, 1, b'k', 1, b'v', 3, 5, b'a', b'l', b'i', b'c', b'e'];
        refused(builder().record(log::BATCH, &[whole, lie]));
    }
    assert_eq!(replayed(builder().record(log::BATCH, &[])), 1);
}

#[test]
fn a_key_longer_than_its_record_is_an_error() {
    for body in [&[][..], &[1], &[3, b'k'], &[0x80], &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F, b'k'], &[0xFF; 9]] {
        refused(builder().record(log::PUT, &[body]));
        refused(builder().record(log::APPEND, &[body]));
    }
}

#[test]
fn a_record_that_is_too_long_or_of_kind_0_ends_the_log() {
    let long = |len: usize| builder().put(b"k", b"v").record(log::REMOVE, &[&vec![b'k'; len]]).put(b"l", b"w");
    assert_eq!(replayed(long(log::BODY_BYTES_MAX)), 3);
    assert_eq!(replayed(long(log::BODY_BYTES_MAX + 1)), 1);
    assert_eq!(replayed(long((1 << 24) - 1)), 1);
    assert_eq!(replayed(builder().put(b"k", b"v").record(0, &[]).put(b"l", b"w")), 1);
    for len in [100, 65_000, (1 << 24) - 1] {
        assert_eq!(replayed(builder().put(b"k", b"v").record_of(log::PUT, len, b"\x01lw").put(b"m", b"x")), 1);
    }
}

#[test]
fn pieces_of_two_records_may_stand_between_each_other() {
    let original = &ORIGINALS[1];
    let (_directory, path) = example_with(&original.files);
    let table = Table::open(path).unwrap();
    assert_eq!(table.replayed() as usize + 1, original.states.len());
    assert!(scanned(&table) == *original.states.last().unwrap());
}

#[test]
fn a_truncated_record_does_not_come_back_after_an_equal_one() {
    let mut log = builder().put(b"a", b"1").put(b"b", b"2").put(b"c", b"3").finish();
    log[log::RECORDS_AT + 2 * log::RECORD_HEAD_BYTES + 4] ^= 1; // in the second record
    let (directory, path) = example_with(&[log]);
    let table = Table::open(&path).unwrap();
    assert_eq!(table.replayed(), 1);
    table.put(b"b", b"2").unwrap();
    let table = Table::open(crashed(&path, &directory.path().join("copy"))).unwrap();
    assert_eq!((table.replayed(), table.get(b"c").unwrap()), (2, None));
}

#[test]
fn a_segment_with_the_last_possible_number_is_an_error() {
    let file = |number| Builder::new(Header { number, ..first_header(&example()) }).put(b"k", b"v");
    for number in [(1 << 63) + 1, u64::MAX] {
        assert!(refused(file(number)).contains(&number.to_string()));
    }
    assert_eq!(replayed(file(1 << 63)), 1);
}

#[test]
fn a_segment_that_continues_a_later_one_is_an_error() {
    // Otherwise it would be skipped now, and match after a later checkpoint.
    let first = first_header(&example());
    for number in [first.number, first.number + 1] {
        let header = Header { before: End { number, ..first.before }, ..first };
        assert!(refused(Builder::new(header).put(b"k", b"v")).contains(&format!("after {number}")));
    }
}
