//! The golden files: how each was made, and its content.
//!
//! A golden file is the output of one release of the library, kept in `fixtures/v1` as long as anything claims to read
//! format version 1. [`GOLDEN`] has the options and operations; [`Golden::pairs`] computes the content by applying the
//! same operations to a `BTreeMap`. `tests/it/format.rs` compares all three.

use crate::spt::log::{self, Builder, Segment};
use splitpoint::{HashKind, Table, TableOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One change of a table.
pub enum Op {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Clear,
    Checkpoint,
    Compact,
}
use Op::*;

impl Op {
    fn make(&self, table: &Table) {
        match self {
            Put(key, value) => table.put(key, value),
            Append(key, tail) => table.append(key, tail).map(drop),
            Remove(key) => table.remove(key).map(|there| assert!(there, "{}", key.escape_ascii())),
            Clear => table.clear(),
            Checkpoint => table.checkpoint(),
            Compact => table.compact(),
        }
        .unwrap();
    }

    /// Applies the change to the model.
    pub fn note(&self, pairs: &mut Pairs) {
        match self {
            Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
            Append(key, tail) => pairs.entry(key.clone()).or_default().extend(tail),
            Remove(key) => drop(pairs.remove(key)),
            Clear => pairs.clear(),
            Checkpoint | Compact => {}
        }
    }
}

/// A golden file.
pub struct Golden {
    pub name: &'static str,
    pub options: fn() -> TableOptions,
    pub ops: fn() -> Vec<Op>,
}

/// All golden files; each name is a file in `fixtures/v1`.
pub const GOLDEN: &[Golden] = &[
    Golden { name: "empty", options: || seeded(1), ops: Vec::new },
    Golden { name: "example", options: || seeded(2).page_bytes(512), ops: example },
    Golden { name: "inline", options: || seeded(3), ops: inline },
    Golden { name: "overflow", options: || seeded(4).page_bytes(512).fill_percent(250), ops: overflow },
    Golden { name: "chains", options: || seeded(11).page_bytes(512).fill_factor(400), ops: chains },
    Golden { name: "extents", options: || seeded(5), ops: extents },
    Golden { name: "fnv1a-512", options: || numbered(12).page_bytes(512).hash(HashKind::Fnv1a), ops: shrunken },
    Golden { name: "siphash13", options: || seeded(6).hash(HashKind::Sip13).fill_factor(7), ops: mixed },
    Golden { name: "page-4096", options: || seeded(7).page_bytes(4096).fill_percent(200), ops: mixed },
    Golden { name: "page-8192", options: || seeded(8).page_bytes(8192).fill_percent(150), ops: large_pages },
];

/// Large enough for a second map frame, with pages that were never written. It is not kept as a file;
/// `fixtures/v1/zones.sum` has its length and checksums.
pub const ZONES: Golden = Golden { name: "zones", options: || seeded(9).expected_len(60_000), ops: mixed };

impl Golden {
    pub fn file(&self) -> PathBuf {
        fixture(&format!("{}.spt", self.name))
    }

    /// Rewrites the file.
    pub fn write(&self, path: &Path) {
        let table = (self.options)().create_new(true).open(path).unwrap();
        (self.ops)().iter().for_each(|op| op.make(&table));
        table.close().unwrap();
    }

    /// Computes its content.
    pub fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        (self.ops)().iter().for_each(|op| op.note(&mut pairs));
        pairs
    }
}

/// The crashed table: `crashed.spt` with its log, as left by a process that ended during a write. [`write_crashed`]
/// makes it.
pub const CRASHED: Golden = Golden { name: "crashed", options: || seeded(13).log_bytes(1 << 18), ops: before_the_log };

/// Returns the log of the crashed table, record by record: everything written since its last checkpoint.
pub fn crashed_log() -> Vec<Vec<Op>> {
    let one_each = |ops: Vec<Op>| ops.into_iter().map(|op| vec![op]);
    one_each(logged()).chain(one_each(resumed())).chain(one_each(continued())).chain([batch()]).collect()
}

/// Writes the crashed table and its log to `directory`: the files of an open table, copied when it had
///
/// * some pairs in a checkpoint,
/// * more in a segment of the log, also in pieces, written by two processes of which the first
///   was killed,
/// * and others in a second segment, begun by a checkpoint that has not reached the table file.
///
/// A batch and a torn record are appended by hand. The bytes differ from run to run, since each log contains random
/// numbers. `UPDATE=1 cargo test --test it crashed_table` rewrites it.
pub fn write_crashed(directory: &Path) -> PathBuf {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = [0, 1].map(|n| places[n].path().join("crashed.spt"));
    let end = directory.join("crashed.spt");
    let table = (CRASHED.options)().create_new(true).open(&first).unwrap();
    before_the_log().iter().for_each(|op| op.make(&table));
    table.checkpoint().unwrap();
    logged().iter().for_each(|op| op.make(&table));
    [first.clone(), log_of(&first, 0), log_of(&first, 1)].iter().for_each(|from| {
        std::fs::copy(from, places[1].path().join(from.file_name().unwrap())).unwrap();
    });

    let table = (CRASHED.options)().open(&second).unwrap();
    resumed().iter().for_each(|op| op.make(&table));
    std::fs::copy(&second, &end).unwrap();
    table.checkpoint().unwrap();
    continued().iter().for_each(|op| op.make(&table));
    table.put(b"torn", &value(1, 200)).unwrap();
    for n in [0, 1] {
        let mut file = std::fs::read(log_of(&second, n)).unwrap();
        let segment = Segment::parse(&file).unwrap().unwrap();
        if segment.records.last().unwrap().body.starts_with(b"\x04torn") {
            add_batch_and_tear(&mut file, segment);
        }
        // Preallocated zeros need not be kept.
        let used = file.iter().rposition(|&b| b != 0).unwrap();
        file.truncate((used + 1).next_multiple_of(4096));
        std::fs::write(log_of(&end, n), file).unwrap();
    }
    end
}

/// Inserts a batch before the last record, and zeros the second half of that record.
fn add_batch_and_tear(file: &mut [u8], mut segment: Segment) {
    let last = segment.records.pop().unwrap();
    let mut changes = Vec::new();
    for op in batch() {
        let (kind, parts) = match op {
            Put(key, value) => (log::PUT, vec![key, value]),
            Append(key, tail) => (log::APPEND, vec![key, tail]),
            Remove(key) => (log::REMOVE, vec![key]),
            _ => unreachable!("a batch has no such change"),
        };
        changes.push(kind);
        parts.iter().for_each(|part| changes.extend([&[part.len() as u8], &part[..]].concat()));
    }
    let built = Builder::behind(&segment).record(log::BATCH, &[&changes]).record(last.kind, &[&last.body]).bytes;
    file[..built.len()].copy_from_slice(&built);
    file[built.len() - last.body.len() / 2..built.len()].fill(0);
}

/// Returns the path of one file of a table's log.
pub fn log_of(path: &Path, slot: usize) -> PathBuf {
    PathBuf::from(format!("{}-log{slot}", path.display()))
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1").join(name)
}

/// Returns all pairs of an open table; checks that a scan returns none twice.
pub fn scanned(table: &Table) -> Pairs {
    let mut pairs = Pairs::new();
    for pair in table.scan() {
        let (key, value) = pair.unwrap();
        assert!(pairs.insert(key, value).is_none(), "a key was given twice");
    }
    pairs
}

fn seeded(seed: u64) -> TableOptions {
    numbered(seed).seed(seed)
}

/// Returns options with a fixed table id, so that the bytes are the same each time.
fn numbered(n: u64) -> TableOptions {
    // This load was the default when the files were first written.
    TableOptions::new().fill_percent(100).table_id(0x7ab1e000 + n)
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Returns letters, so that a hex dump can be read.
fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| b'a' + ((i * 7 + n * 11 + i / 26) % 26) as u8).collect()
}

fn big_key(n: usize, len: usize) -> Vec<u8> {
    let mut key = format!("big key {n} ").into_bytes();
    key.extend(value(n, len));
    key
}

/// A record of each form, in one page.
fn example() -> Vec<Op> {
    vec![
        Put(b"alice".into(), b"admin".into()),
        Put(b"biography".into(), value(1, 200)),
        Put(big_key(2, 60), b"inside".into()),
    ]
}

/// Small pairs of many lengths, none in an extent, with the empty key and the empty value.
fn inline() -> Vec<Op> {
    let small = (0..500).map(|n| Put(key(n), value(n, n % 61)));
    let edges = [Put(Vec::new(), b"of the empty key".into()), Put(b"empty".into(), Vec::new())];
    let odd = [Put((0..=127).collect(), (128..=219).collect())];
    small.chain(edges).chain(odd).collect()
}

/// Full buckets: overflow pages are added, become chains, return pairs and disappear.
fn overflow() -> Vec<Op> {
    let put = (0..420).map(|n| Put(key(n), value(n, 20 + n % 70)));
    let append = (0..420).step_by(9).map(|n| Append(key(n), value(n + 1, 30)));
    let overwrite = (0..420).step_by(5).map(|n| Put(key(n), value(n + 2, 40 + n % 31)));
    let remove = (1..420).step_by(5).map(|n| Remove(key(n)));
    put.chain(append).chain([Checkpoint]).chain(overwrite).chain(remove).collect()
}

/// A bucket with more pairs than fit an overflow page.
fn chains() -> Vec<Op> {
    let put = (0..190).map(|n| Put(key(n), value(n, 40 + n % 60)));
    let remove = (0..190).step_by(10).map(|n| Remove(key(n)));
    put.chain(remove).collect()
}

/// Values and keys too large for a page: in part of a frame or in several, grown, freed.
fn extents() -> Vec<Op> {
    let values = (0..30).map(|n| Put(key(n), value(n, 240 + n * n * 6)));
    let keys = (0..14).map(|n| Put(big_key(n, 128 + n * n * 11), value(n, n * 31)));
    let grown = (0..30).step_by(4).flat_map(|n| (0..3).map(move |i| Append(key(n), value(n + i, 300))));
    let freed = (1..30).step_by(6).map(|n| Remove(key(n)));
    let shrunken = (2..30).step_by(6).map(|n| Put(key(n), value(n, 17)));
    let freed_keys = (0..14).step_by(5).map(|n| Remove(big_key(n, 128 + n * n * 11)));
    values.chain(keys).chain([Checkpoint]).chain(grown).chain(freed).chain(shrunken).chain(freed_keys).collect()
}

/// A table that grows and shrinks, with merged buckets and a compaction.
fn shrunken() -> Vec<Op> {
    let put = (0..900).map(|n| Put(key(n), value(n, n % 40)));
    let remove = (0..900).filter(|n| n % 4 != 0).map(|n| Remove(key(n)));
    let more = (900..940).map(|n| Put(key(n), value(n, 3 * n % 400)));
    put.chain([Checkpoint]).chain(remove).chain([Compact]).chain(more).collect()
}

/// Some of everything.
fn mixed() -> Vec<Op> {
    let small = (0..260).map(|n| Put(key(n), value(n, n % 90)));
    let large = (260..272).map(|n| Put(key(n), value(n, 40 * (n - 250))));
    let keys = (0..6).map(|n| Put(big_key(n, 100 + 130 * n), value(n, 50 * n)));
    let append = (0..272).step_by(11).map(|n| Append(key(n), value(n + 3, 45)));
    let remove = (5..272).step_by(13).map(|n| Remove(key(n)));
    small.chain(large).chain(keys).chain(append).chain(remove).collect()
}

/// Enough for a few pages of 8 KiB.
fn large_pages() -> Vec<Op> {
    let small = (0..300).map(|n| Put(key(n), value(n, 30 + n % 150)));
    let large = (300..306).map(|n| Put(key(n), value(n, 700 * (n - 298))));
    let append = (0..300).step_by(7).map(|n| Append(key(n), value(n + 3, 80)));
    small.chain(large).chain(append).collect()
}

/// More than the log receives later, so that reusing its file leaves old bytes at the end.
fn before_the_log() -> Vec<Op> {
    (0..200).map(|n| Put(key(n), value(n, n % 50))).collect()
}

/// Changes of each kind, and an append in pieces.
fn logged() -> Vec<Op> {
    let gone = [Put(b"gone".into(), b"by the next".into()), Clear];
    let put = (0..40).map(|n| Put(key(n), value(n, n * 9)));
    let append = (0..40).step_by(6).map(|n| Append(key(n), value(n + 1, 35)));
    let remove = (1..40).step_by(7).map(|n| Remove(key(n)));
    let edges = [Put(Vec::new(), b"of the empty key".into()), Append(b"empty".into(), Vec::new()), Remove(key(39))];
    let large = [Append(b"large".into(), value(6, 70_000))];
    gone.into_iter().chain(put).chain(append).chain(remove).chain(edges).chain(large).collect()
}

fn resumed() -> Vec<Op> {
    let large = [Append(b"large".into(), b"!".into()), Put(b"stored".into(), value(5, 17_000))];
    (40..60).map(|n| Put(key(n), value(n, 20))).chain([Remove(key(2))]).chain(large).collect()
}

fn continued() -> Vec<Op> {
    vec![Put(key(60), value(60, 60)), Append(key(40), b" and more".into()), Remove(key(41))]
}

/// Changes made atomically.
fn batch() -> Vec<Op> {
    vec![
        Put(b"alice".into(), b"90".into()),
        Put(b"bob".into(), b"110".into()),
        Append(b"journal".into(), b"alice gives bob 10\n".into()),
        Remove(key(42)),
    ]
}
