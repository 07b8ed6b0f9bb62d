//! A write-ahead log with a good table: an open recovers what the second reader finds, or returns an error.
//!
//! ```text
//! table, flags, edits...                          the golden crashed table's log, its records and headers edited
//! table, flags | WHOLE, u16 length, log, log      these bytes, the first 64 of each its header, the rest its records
//! ```
//!
//! Replay is operations on top of a good checkpoint. So there is more to ask than of `open`: a table that opens has no
//! fault, and has what the records ask for, up to the first that is not whole; killed and opened again, or closed and
//! opened again, it has the same pairs and those written since.
//!
//! `table` is the crashed one, or one of the others, whose number the log then gets. Checksums fit whatever was edited;
//! after that bytes may be changed without. Flags: the constants below. The second reader: `tests/it/spt/log.rs`.

use super::base::{BASES, Base, CRASHED, CRASHED_LOG};
use super::damage::change_bytes;
use super::input::Input;
use super::{beside, directory};
use crate::spt::log::{self, Builder, End, Header, Record, Segment};
use crate::spt::{self, crc32c, u32_at, u64_at};
use splitpoint::{Table, TableOptions};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The bytes of the log are given, and not edits of the golden one.
const WHOLE: u8 = 1;
/// With `WHOLE`: as they are, without a gap behind the header, and wrong checksums left wrong.
const RAW: u8 = 2;
/// The table is changed before it is killed or closed.
const CHANGE: u8 = 4;
/// The smallest cache there is.
const SMALL_CACHE: u8 = 8;
/// Segments name the end of the one before as it was before the edits.
const UNLINKED: u8 = 16;
/// The process is killed before it closes the table, and the log written on by the next.
const KILL: u8 = 32;

/// Edits of records at most, and of bytes.
const EDITS_MAX: usize = 15;
const BYTE_EDITS_MAX: usize = 3;
/// The maximum by which a body is made longer.
const LONGER_BYTES: usize = 70_000;
/// Above this, doublings take more time than they show.
const RECORDS_MAX: usize = 1000;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The segments of the golden log, in order.
static GOLDEN: LazyLock<Vec<Segment>> = LazyLock::new(|| {
    let files: Vec<Vec<u8>> = CRASHED_LOG.iter().map(|file| file.to_vec()).collect();
    let segments = log::follow(&files, CRASHED.file).expect("golden files are good");
    assert_eq!(segments.len(), 2);
    segments
});

fn table_id(table: &[u8]) -> u64 {
    u64_at(table, spt::TABLE_ID_AT)
}

fn sequence(table: &[u8]) -> u64 {
    u64_at(table, 16)
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let base = match input.byte() as usize % (BASES.len() + 1) {
        0 => &CRASHED,
        n => &BASES[n - 1],
    };
    let flags = input.byte();
    let files = if flags & WHOLE != 0 { whole(&mut input, flags, base) } else { edited(&mut input, flags, base) };
    check(base, flags, &files);
}

// ---------------------------------------------------------------------------------------------
// Logs that are given

fn whole(input: &mut Input<'_>, flags: u8, base: &Base) -> Vec<Vec<u8>> {
    let len = input.number(2) as usize; // two bytes
    let logs = [input.take(len), input.rest()];
    let logs = logs.iter().filter(|log| !log.is_empty());
    let mut before = None;
    logs.map(|log| {
        if flags & RAW != 0 || log.len() < log::HEADER_BYTES {
            return log.to_vec();
        }
        let (header, records) = log.split_at(log::HEADER_BYTES);
        let mut file = header.to_vec();
        file.resize(log::RECORDS_AT, 0);
        file.extend_from_slice(records);
        let end = fit(&mut file, base, before.filter(|_| flags & UNLINKED == 0));
        before = Some(end);
        file
    })
    .collect()
}

/// Makes a log one of this table, behind `before`, and its checksums fit as far as there are records.
fn fit(file: &mut [u8], base: &Base, before: Option<End>) -> End {
    let before = before.unwrap_or(End { number: sequence(base.file), ..End::default() });
    let header = Header { table_id: table_id(base.file), number: before.number + 1, before, salt: u64_at(file, 48) };
    file[..log::HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let (mut at, mut checksum) = (log::RECORDS_AT, u32_at(file, 60));
    while let Some(word) = file.get(at + 4..at + log::RECORD_HEAD_BYTES) {
        let end = at + log::RECORD_HEAD_BYTES + (u32_at(word, 0) & 0xFF_FFFF) as usize;
        if word[3] == 0 || end > file.len() || end - at > log::RECORD_HEAD_BYTES + log::BODY_BYTES_MAX {
            break;
        }
        checksum = crc32c(checksum, &file[at + 4..end]);
        file[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
        at = end;
    }
    End { number: header.number, offset: at as u64, checksum }
}

// ---------------------------------------------------------------------------------------------
// The golden log, edited

fn edited(input: &mut Input<'_>, flags: u8, base: &Base) -> Vec<Vec<u8>> {
    let mut segments = GOLDEN.clone();
    // As in the crashed table, so in this one.
    let later = |number: u64| number.wrapping_sub(sequence(CRASHED.file)).wrapping_add(sequence(base.file));
    for segment in &mut segments {
        segment.header.table_id = table_id(base.file);
        segment.header.number = later(segment.header.number);
        segment.header.before.number = later(segment.header.before.number);
    }
    let mut before = segments[0].header.before;
    for _ in 0..input.byte() as usize % (EDITS_MAX + 1) {
        edit(input, &mut segments);
    }
    let mut files: Vec<Vec<u8>> = Vec::new();
    for (n, segment) in segments.iter_mut().enumerate() {
        // Edits of a header stay.
        if n > 0 && flags & UNLINKED == 0 && segment.header.before == GOLDEN[n].header.before {
            segment.header.before = before;
        }
        let file = Builder::behind(segment).finish();
        before = Segment::parse(&file).ok().flatten().map_or(before, |segment| segment.end);
        files.push(file);
    }
    for _ in 0..input.byte() as usize % (BYTE_EDITS_MAX + 1) {
        let n = input.below(files.len());
        change_bytes(input, &mut files[n]);
    }
    // Names mean nothing, so any order.
    let order = input.byte() as usize;
    if order & 1 != 0 {
        files.reverse();
    }
    if order & 2 != 0 {
        files.insert(0, Vec::new());
    }
    if order & 4 != 0 {
        files.push(files[order >> 3 & 1].clone());
    }
    files
}

fn edit(input: &mut Input<'_>, segments: &mut [Segment]) {
    const KINDS: [u8; 15] = [1, 2, 3, 4, 5, log::RESUMED, log::PIECE, 0x81, 0x82, 0x83, 0x84, 0x85, 0, 6, 0xFE];
    let what = input.byte() % 16;
    let n = input.below(segments.len());
    if what == 0 {
        return edit_header(input, &mut segments[n].header);
    }
    let any = segments[input.below(segments.len())].records.clone();
    let records = &mut segments[n].records;
    let at = input.below(records.len() + 1);
    let count = if what < 4 { 1 + input.byte() as usize } else { 1 };
    let end = (at + count).min(records.len());
    match what {
        1 => drop(records.drain(at..end)),
        2 | 3 => {
            let from = input.below(any.len() + 1);
            let copied = any[from..(from + count).min(any.len())].iter().cloned();
            if records.len() + count <= RECORDS_MAX {
                records.splice(at..at, copied);
            }
        }
        4 | 5 => {
            let kind = input.pick(&KINDS);
            let len = input.byte() as usize;
            records.insert(at, Record { kind, body: input.take(len).to_vec() });
        }
        6 => {
            // A key that is there.
            let keyed =
                any.iter().filter(|record| [log::PUT, log::APPEND].contains(&record.kind)).nth(input.byte().into());
            let key = keyed
                .and_then(|record| record.body.split_first())
                .and_then(|(len, rest)| rest.get(..usize::from(*len)));
            records.insert(at, Record { kind: log::REMOVE, body: key.unwrap_or(b"key 1").to_vec() });
        }
        7 if at + 1 < records.len() => records.swap(at, at + 1),
        8 => {
            // A record cut in pieces.
            if let Some(Record { kind, body }) = records.get(at).cloned() {
                let number = input.take(4).iter().copied().chain([0; 4]).take(4).collect::<Vec<u8>>();
                let (first, second) = body.split_at(input.below(body.len() + 1));
                let piece = |part: &[u8]| Record { kind: log::PIECE, body: [&number, part].concat() };
                let last = Record { kind: kind | log::IN_PIECES, body: number.clone() };
                records.splice(at..=at, [piece(first), piece(second), last]);
            }
        }
        _ => {
            if let Some(record) = records.get_mut(at) {
                edit_record(input, what, &KINDS, record);
            }
        }
    }
}

fn edit_header(input: &mut Input<'_>, header: &mut Header) {
    let (field, how) = (input.byte() % 6, input.byte() % 4);
    let changed = |old: u64, input: &mut Input<'_>| match how {
        0 => old.wrapping_add(1 + u64::from(input.byte())),
        1 => old.wrapping_sub(1 + u64::from(input.byte())),
        2 => input.number(1),
        _ => input.number(8),
    };
    match field {
        0 => header.table_id = changed(header.table_id, input),
        1 => header.number = changed(header.number, input),
        2 => header.before.number = changed(header.before.number, input),
        3 => header.before.offset = changed(header.before.offset, input),
        4 => header.before.checksum = changed(header.before.checksum.into(), input) as u32,
        _ => header.salt = changed(header.salt, input),
    }
}

fn edit_record(input: &mut Input<'_>, what: u8, kinds: &[u8], record: &mut Record) {
    let body = &mut record.body;
    match what {
        9 => record.kind = input.pick(kinds),
        10 => body.truncate(input.below(body.len() + 1)),
        11 => body.resize(body.len() + input.below(LONGER_BYTES), 7),
        12 => {
            let at = input.below(body.len() + 1);
            let len = input.byte() as usize;
            body.splice(at..at, input.take(len).iter().copied());
        }
        // Lengths come first.
        13 => {
            let len = input.byte() as usize % 8;
            let new = input.take(len.min(body.len()));
            body[..new.len()].copy_from_slice(new);
        }
        _ if !body.is_empty() => change_bytes(input, body),
        _ => {}
    }
}

// ---------------------------------------------------------------------------------------------
// What must hold

/// The content of the files according to the second reader: the number of records, and the pairs.
fn expected(base: &Base, files: &[Vec<u8>]) -> Option<(usize, Pairs)> {
    let segments = log::follow(files, base.file).ok()?;
    let mut pairs: Pairs = base.pairs.clone();
    let mut count = 0;
    for segment in segments {
        for changes in log::changes(&segment.records, base.file).ok()? {
            changes.iter().for_each(|change| change.apply(&mut pairs));
            count += 1;
        }
    }
    Some((count, pairs))
}

fn check(base: &Base, flags: u8, files: &[Vec<u8>]) {
    let directory = directory();
    let path = directory.path().join("t.spt");
    std::fs::write(&path, base.file).expect("room for a file");
    for (slot, file) in files.iter().enumerate() {
        std::fs::write(beside(&path, &format!("-log{slot}")), file).expect("room for a log");
    }
    let expected_pairs = expected(base, files);
    // A read-only open finds the same, and changes nothing.
    match (TableOptions::new().read_only(true).open(&path), &expected_pairs) {
        (Ok(table), Some((_, pairs))) => assert!(scanned(&table) == *pairs, "reading only gives other pairs"),
        (Err(_), None) => {}
        (opened, _) => panic!("reading only differs from the second reader: {:?}", opened.err()),
    }
    let opened = options(flags).open(&path);
    let table = match (opened, &expected_pairs) {
        (Ok(table), Some((count, pairs))) => {
            assert_eq!(table.replayed(), *count as u64, "records replayed");
            assert!(scanned(&table) == *pairs, "other pairs than the second reader finds");
            table
        }
        (Err(e), None) => {
            assert!(!e.to_string().is_empty());
            for (slot, file) in files.iter().enumerate() {
                let left = std::fs::read(beside(&path, &format!("-log{slot}"))).expect("a log that was refused stays");
                assert!(left == *file, "a refused open changed a log");
            }
            return;
        }
        (Err(e), Some(_)) => panic!("refused, and the second reader reads it: {e}"),
        (Ok(_), None) => panic!("the second reader refuses it"),
    };
    assert_eq!(table.verify().expect("verify reads a good table"), []);
    change(&table, flags);
    let pairs = scanned(&table);
    if flags & KILL != 0 {
        let directory = super::directory();
        let copy = directory.path().join("t.spt");
        for ending in ["", "-log0", "-log1", "-log2", "-log3", "-log4", "-log5", "-log6", "-log7", "-ckpt"] {
            let _ = std::fs::copy(beside(&path, ending), beside(&copy, ending));
        }
        let table = options(flags).open(&copy).expect("a table that was killed opens");
        assert!(scanned(&table) == pairs, "other pairs after a kill");
        assert_eq!(table.verify().expect("verify reads a good table"), []);
        table.put(b"after the kill", &[2; 100]).expect("a put after a kill");
        table.close().expect("a close after a kill");
    }
    table.close().expect("a close after a replay");
    let table = TableOptions::new().read_only(true).open(&path).expect("a table that was closed opens to be read");
    assert!(scanned(&table) == pairs, "other pairs after a second open");
    assert_eq!(table.verify().expect("verify reads a good table"), []);
}

fn options(flags: u8) -> TableOptions {
    let options = TableOptions::new().create(false);
    // The files of one that is killed are copied one by one, so no checkpoint must come by itself.
    if flags & SMALL_CACHE != 0 && flags & KILL == 0 { options.cache_bytes(1) } else { options }
}

fn change(table: &Table, flags: u8) {
    if flags & CHANGE == 0 {
        return;
    }
    table.put(b"after the replay", &[1; 2000]).expect("a put after a replay");
    table.remove(b"key 1").expect("a removal after a replay");
    let mut batch = table.batch();
    batch.append(b"key 2", b"more").expect("an append in a batch");
    batch.put(b"key 3", b"").expect("a put in a batch");
    batch.commit().expect("a batch after a replay");
}

fn scanned(table: &Table) -> Pairs {
    let pairs: Vec<_> = table.scan().map(|pair| pair.expect("a scan of a good table")).collect();
    let count = pairs.len();
    let pairs = Pairs::from_iter(pairs);
    assert_eq!((pairs.len(), table.len()), (count, count as u64), "a key was given twice, or the count is off");
    pairs
}
