//! Damaged files: whatever the bytes, every call returns a value or an error.
//!
//! There are two kinds of damage. **Raw**: bits flip, ranges vanish, are doubled or swapped; checksums detect most of
//! it. **Repaired**: fields named in docs/format.md get hostile values (another page's reference, a length too large, a
//! frame of the header), and all checksums are recomputed, so that the code after the checksum tests is exercised.
//!
//! Each case is a number: `SPLITPOINT_CASE=repaired:1234 cargo test --test it corruption` repeats one case alone.
//! `SPLITPOINT_CASES=100000` runs that many of each kind, `SPLITPOINT_FIRST_CASE=5000` sets the first number. A number
//! stands for the same damage until the golden files change. A case has a time limit, and may neither use excessive
//! memory nor leave an oversized file.
//!
//! Each case that found a bug has a test of its own below.
//!
//! Not here: damaged logs (`corruption/log.rs`) and dictionaries (`corruption/dictionary.rs`), error messages about
//! damage (`foreign.rs`), crashes (`src/table/tests/mod.rs`).

mod dictionary;
mod log;

use crate::fields::{Field, What, fields_of, number_at};
use crate::golden::{GOLDEN, Golden, ZONES};
use crate::spt::{self, Reader};
use splitpoint::{Table, TableOptions};
use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

/// Cases of each kind by default.
const CASES: u64 = 1500;
/// A longer case counts as hanging. Most take a few milliseconds.
const LIMIT: Duration = Duration::from_secs(20);
/// Number of hanging cases after which the run ends.
const HANGS_MAX: u32 = 3;
/// Memory that a case may take beyond the previous peak. The golden files have at most 200 KB, the one of several zones
/// 3 MB.
const MEMORY_BYTES: u64 = 96 << 20;
/// Bytes by which a file may grow in a case: for the new pairs, and for doubling the buckets.
const FILE_BYTES: u64 = 16 << 20;

// ---------------------------------------------------------------------------------------------
// Randomness

/// SplitMix64: small, and good with any seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

// ---------------------------------------------------------------------------------------------
// Damage

/// An undamaged file and its properties.
struct Original {
    name: &'static str,
    reader: Reader<'static>,
    keys: Vec<Vec<u8>>,
    fields: Vec<Field>,
}

static ORIGINALS: LazyLock<Vec<Original>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let zones = directory.path().join("zones.spt");
    ZONES.write(&zones);
    let golden = GOLDEN.iter().map(|golden| (golden, golden.file()));
    golden.chain([(&ZONES, zones)]).map(|(golden, path)| Original::read(golden, &path)).collect()
});

impl Original {
    fn read(golden: &Golden, path: &Path) -> Original {
        let reader = Reader::new(fs::read(path).unwrap().leak()).unwrap();
        let fields = fields_of(&reader);
        Original { name: golden.name, keys: golden.pairs().into_keys().collect(), fields, reader }
    }
}

/// A case: a damaged file.
struct Damaged {
    file: Vec<u8>,
    note: String,
}

fn range(random: &mut Random, len: usize) -> std::ops::Range<usize> {
    let most = *random.pick(&[1, 8, 64, 512, 4096, 20_000]);
    let bytes = 1 + random.below(most.min(len));
    let start = random.below(len - bytes + 1);
    start..start + bytes
}

/// Flips bits; fills, randomizes or copies ranges; swaps frames; truncates; extends.
fn damage_raw(random: &mut Random, bytes: &mut Vec<u8>) -> String {
    if bytes.len() < 2 {
        return "nothing".into();
    }
    let whole = range(random, bytes.len());
    match random.below(8) {
        0 | 1 => {
            let flips: Vec<usize> = (0..1 + random.below(8)).map(|_| random.below(8 * bytes.len())).collect();
            flips.iter().for_each(|&bit| bytes[bit / 8] ^= 1 << (bit % 8));
            format!("bits {flips:?} flipped")
        }
        2 => {
            let fill = *random.pick(&[0, 0xFF, 0x80, 1]);
            bytes[whole.clone()].fill(fill);
            format!("{whole:?} filled with {fill}")
        }
        3 => {
            whole.clone().for_each(|at| bytes[at] = random.next() as u8);
            format!("{whole:?} random")
        }
        4 => {
            let to = random.below(bytes.len() - whole.len() + 1);
            bytes.copy_within(whole.clone(), to);
            format!("{whole:?} copied to {to}")
        }
        5 => {
            // Swaps whole frames.
            let (a, b) = (random.below(bytes.len() / 4096), random.below(bytes.len() / 4096));
            for at in 0..4096 {
                if a != b {
                    bytes.swap(a * 4096 + at, b * 4096 + at);
                }
            }
            format!("frames {a} and {b} swapped")
        }
        6 => {
            let len = if random.one_in(2) { random.below(bytes.len()) } else { random.below(bytes.len()) & !4095 };
            bytes.truncate(len);
            format!("cut to {len} bytes")
        }
        _ => {
            let more = 1 + random.below(20_000);
            let len = bytes.len();
            bytes.resize(len + more, *random.pick(&[0, 0xFF]));
            format!("{more} bytes longer")
        }
    }
}

/// Returns a hostile value for a field whose value is `old`.
fn hostile(random: &mut Random, original: &Original, field: Field, old: u64) -> u64 {
    let g = &original.reader.geometry;
    let (units, frames, blocks) = (64 * g.frame_count as u64, g.frame_count as u64, g.length as u64);
    let bytes = frames * g.frame_bytes as u64;
    let same_kind: Vec<&Field> = original.fields.iter().filter(|f| f.what == field.what).collect();
    if random.one_in(3) {
        // The value of another field of the same kind: makes shared pages, cycles, overlapping groups.
        let other = random.pick(&same_kind);
        return number_at(original.reader.file, other.at, other.bytes);
    }
    let any_unit = |random: &mut Random| match random.below(6) {
        0 => random.below(2) as u64 * 64,   // the map
        1 => field.unit as u64,             // itself
        2 => (field.unit / 64 * 64) as u64, // its frame
        3 => g.page_at(random.below(g.max_bucket as usize + 1) as u32).unwrap_or(0) as u64 / g.unit_bytes() as u64,
        4 => units - random.below(3) as u64,
        _ => random.below(units as usize) as u64,
    };
    match field.what {
        What::Next => {
            let len = *random.pick(&[0, 1, 2, 8, 16, 63, 64, 65, 0xFFFF]);
            let unit = any_unit(random);
            if random.one_in(2) { unit << 16 | (old & 0xFFFF).max(len & 7) } else { unit << 16 | len }
        }
        What::Unit if !random.one_in(4) => any_unit(random),
        What::Block if !random.one_in(4) => random.below(blocks as usize + 2) as u64,
        What::MapGroup | What::Group if !random.one_in(4) => random.below(frames as usize + 2) as u64,
        What::Offset if !random.one_in(3) => random.below(g.page_bytes + 2) as u64,
        What::Head if random.one_in(2) => old & !3 | random.next() & 3,
        What::UsedBits if !random.one_in(4) => *random.pick(&[0, 0, u64::MAX, 1, 1 << 63, !1]),
        _ => match random.below(8) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => old.wrapping_add(1),
            4 => old.wrapping_sub(1),
            5 => old ^ 1 << random.below(8 * field.bytes),
            6 => {
                *random.pick(&[0x7F, 0x80, 0xFF, 512, 4096, 65535, 65536, 1 << 31, (1 << 32) - 1, units, frames, bytes])
            }
            _ => random.next(),
        },
    }
}

/// Gives a few fields hostile values, and corrects every checksum.
fn damage_fields(random: &mut Random, original: &Original, file: &mut [u8]) -> String {
    let mut notes = Vec::new();
    let kinds: Vec<What> = original.fields.iter().map(|f| f.what).collect();
    for _ in 0..1 + random.below(3) {
        // Each kind is equally likely, however many fields it has.
        let any = *random.pick(&kinds);
        let what = *random.pick(&[
            any,
            What::Next,
            What::Unit,
            What::Count,
            What::Group,
            What::MapGroup,
            What::UsedBits,
            What::Offset,
            What::Block,
        ]);
        let of_kind: Vec<&Field> = original.fields.iter().filter(|f| f.what == what).collect();
        if of_kind.is_empty() {
            continue;
        }
        let field = **random.pick(&of_kind);
        let old = number_at(file, field.at, field.bytes);
        let new = hostile(random, original, field, old);
        file[field.at..field.at + field.bytes].copy_from_slice(&new.to_le_bytes()[..field.bytes]);
        notes.push(format!("{:?} at {:#x}: {old:#x} -> {new:#x}", field.what, field.at));
    }
    notes.join("; ")
}

fn damaged(kind: Kind, seed: u64) -> (&'static Original, Damaged) {
    let random = &mut Random(seed ^ (kind as u64) << 56);
    random.next();
    // The large file is rare: it takes ten times as long.
    let originals = &ORIGINALS[..];
    let original = if random.one_in(25) {
        &originals[originals.len() - 1]
    } else {
        random.pick(&originals[..originals.len() - 1])
    };
    let mut file = original.reader.file.to_vec();
    let note = match kind {
        Kind::Raw => damage_raw(random, &mut file),
        _ => {
            let note = match random.below(5) {
                0 => damage_raw(random, &mut file),
                _ => damage_fields(random, original, &mut file),
            };
            spt::repair(&mut file, &original.reader);
            note
        }
    };
    (original, Damaged { file, note })
}

// ---------------------------------------------------------------------------------------------
// Use

/// Makes every call that only reads.
fn read_all(random: &mut Random, table: &Table, keys: &[Vec<u8>]) {
    for _ in 0..30 {
        let key = random.pick(keys).clone();
        let _ = (table.get(&key), table.contains(&key));
        if let Ok(Some(value)) = table.get_ref(&key) {
            let _ = value.len();
        }
    }
    let _ = (table.get(b"absent"), table.get(&[7; 5000]), table.len());
    let cursor = if random.one_in(2) { 0 } else { random.next() };
    for pair in table.scan_from(cursor) {
        let _ = pair.map(|(key, value)| key.len() + value.len());
    }
    let _ = table.survey();
    let faults = table.verify();
    let _ = faults.map(|faults| faults.iter().map(|fault| fault.to_string().len()).sum::<usize>());
}

/// Makes some changes of every kind.
fn change(random: &mut Random, table: &Table, keys: &[Vec<u8>]) {
    let lens = [0, 1, 10, 40, 100, 250, 600, 2000, 5000, 20_000];
    for n in 0..50 {
        let key = match random.below(6) {
            0 => format!("new key {n}").into_bytes(),
            1 => vec![n; 100 * random.below(10)],
            _ => random.pick(keys).clone(),
        };
        let value = vec![n; *random.pick(&lens) >> random.below(3)];
        match random.below(12) {
            0..4 => drop(table.put(&key, &value)),
            4..7 => drop(table.append(&key, &value)),
            7..10 => drop(table.remove(&key)),
            10 => drop(table.update(&key, |old| old.map(|v| [v, b"+"].concat()))),
            _ => drop(table.get(&key)),
        }
    }
    // Enough puts to split some buckets, or removals to merge them.
    for n in 0..random.below(60) {
        let key = format!("filler {n}").into_bytes();
        let old = random.pick(keys);
        let _ = if random.one_in(2) { table.put(&key, &[1; 90]) } else { table.remove(old).map(drop) };
    }
    match random.below(8) {
        0 => drop(table.clear()),
        1..4 => drop(table.compact()),
        4 => drop(table.sync()),
        _ => {}
    }
    let _ = table.put(b"after", &[3; 3000]);
}

fn exercise(seed: u64, original: &Original, path: &Path) {
    let random = &mut Random(!seed);
    let mut keys = original.keys.clone();
    keys.push(b"absent".to_vec());
    let _ = splitpoint::salvage(path, |_| std::ops::ControlFlow::Continue(()));
    if let Ok(table) = TableOptions::new().read_only(true).open(path) {
        read_all(random, &table, &keys);
        assert!(table.put(b"a", b"b").is_err());
    }
    let mut options = TableOptions::new().create(random.one_in(2));
    if random.one_in(4) {
        options = options.cache_bytes(1);
    }
    if let Ok(table) = options.open(path) {
        if random.one_in(3) {
            read_all(random, &table, &keys);
        }
        if random.one_in(6) {
            // Two threads, which may need the same pages: the only kind of case that is not deterministic.
            let mut other = Random(random.next());
            std::thread::scope(|scope| {
                scope.spawn(|| change(&mut other, &table, &keys));
                change(random, &table, &keys);
            });
        } else {
            change(random, &table, &keys);
        }
        read_all(random, &table, &keys);
        let _ = table.close();
    }
    if let Ok(table) = TableOptions::new().create(false).open(path) {
        read_all(random, &table, &keys);
    }
}

// ---------------------------------------------------------------------------------------------
// Running cases

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Raw = 1,
    Repaired = 2,
    LogRaw = 3,
    LogRepaired = 4,
    DictionaryRaw = 5,
    DictionaryRepaired = 6,
}

thread_local! {
    /// The location of this thread's last panic, for a panic that is caught.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the text of panics in threads that catch them, instead of printing it.
fn hook_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match std::thread::current().name() {
            Some("case") if std::env::var_os("SPLITPOINT_LOUD").is_none() => {
                PANIC.with(|text| *text.borrow_mut() = info.to_string())
            }
            _ => usual(info),
        }));
    });
}

/// Returns the peak memory of this process; 0 if the system does not report it.
fn memory_bytes_max() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Creates a temporary directory, on a file system where syncing is free if there is one.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Describes the damage of a case.
fn about(kind: Kind, seed: u64) -> String {
    if matches!(kind, Kind::LogRaw | Kind::LogRepaired) {
        return log::about(kind, seed);
    }
    if matches!(kind, Kind::DictionaryRaw | Kind::DictionaryRepaired) {
        return dictionary::about(kind, seed);
    }
    let (original, damaged) = damaged(kind, seed);
    format!("{kind:?}:{seed} {}: {}", original.name, damaged.note)
}

/// Damages a table and uses it. Returns what went wrong.
fn table_case(kind: Kind, seed: u64, directory: &Path) -> Option<String> {
    let (original, damaged) = damaged(kind, seed);
    let path = directory.join("damaged.spt");
    fs::write(&path, &damaged.file).unwrap();
    exercise(seed, original, &path);
    let (before, after) = (damaged.file.len() as u64, fs::metadata(&path).map_or(0, |m| m.len()));
    (after > before + FILE_BYTES).then(|| format!("the file has {after} bytes, before {before}"))
}

/// Runs a case. Returns what went wrong.
fn run_case(kind: Kind, seed: u64, directory: &Path) -> Option<String> {
    let own = tempfile::tempdir_in(directory).unwrap();
    let memory = memory_bytes_max();
    let result = catch_unwind(AssertUnwindSafe(|| match kind {
        Kind::Raw | Kind::Repaired => table_case(kind, seed, own.path()),
        Kind::LogRaw | Kind::LogRepaired => log::case(kind, seed, own.path()),
        Kind::DictionaryRaw | Kind::DictionaryRepaired => dictionary::case(kind, seed, own.path()),
    }));
    let memory = memory_bytes_max().saturating_sub(memory); // the kernel's count lags a little
    let wrong = match result {
        Err(_) => PANIC.with(|text| text.borrow().replace('\n', " ")),
        Ok(None) if memory > MEMORY_BYTES => format!("{memory} bytes of memory more"),
        Ok(wrong) => wrong?,
    };
    Some(format!("{wrong}\n    {}", about(kind, seed)))
}

/// Runs the cases of `seeds`, each with the time limit; abandons a case that hangs.
fn run_cases(kind: Kind, seeds: std::ops::Range<u64>) -> Vec<String> {
    hook_panics();
    LazyLock::force(&ORIGINALS);
    log::prepare();
    dictionary::prepare();
    let directory = Arc::new(directory());
    let next = Arc::new(AtomicU64::new(seeds.start));
    let (mut failures, mut hangs) = (Vec::new(), 0);
    loop {
        let (send, receive) = mpsc::channel();
        let (turn, place, end) = (next.clone(), directory.clone(), seeds.end);
        let work = move || {
            loop {
                let seed = turn.fetch_add(1, Relaxed);
                if seed >= end || send.send((seed, run_case(kind, seed, place.path()))).is_err() {
                    return;
                }
            }
        };
        let worker = std::thread::Builder::new().name("case".into()).spawn(work).unwrap();
        loop {
            match receive.recv_timeout(LIMIT) {
                Ok((_, failure)) => failures.extend(failure),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    // All are done, unless the worker panicked outside a case.
                    failures.extend(worker.join().err().map(|_| "the worker panics\n    ".to_string()));
                    return failures;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let seed = next.load(Relaxed) - 1;
                    failures.push(format!("hangs\n    {}", about(kind, seed)));
                    hangs += 1;
                    break;
                }
            }
        }
        if hangs == HANGS_MAX {
            failures.push("too many cases hang\n    ".into());
            return failures;
        }
    }
}

/// Returns the cases that the environment selects, or the default ones.
fn seeds(kind: Kind) -> std::ops::Range<u64> {
    if let Ok(case) = std::env::var("SPLITPOINT_CASE") {
        let (name, seed) = case.split_once(':').expect(
            "SPLITPOINT_CASE=raw:1234, repaired:, lograw:, logrepaired:, dictionaryraw: or dictionaryrepaired:",
        );
        let seed: u64 = seed.parse().expect("a number behind the colon");
        return if name.eq_ignore_ascii_case(&format!("{kind:?}")) { seed..seed + 1 } else { 0..0 };
    }
    let from = |name, or| std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v}")));
    let start = from("SPLITPOINT_FIRST_CASE", 0);
    start..start + from("SPLITPOINT_CASES", CASES)
}

fn no_case_fails(kind: Kind) {
    let failures = run_cases(kind, seeds(kind));
    // Many cases may fail for one reason: report it once, with the first case.
    let mut places = std::collections::BTreeMap::<String, (usize, &str)>::new();
    for failure in &failures {
        let place = failure.split("\n    ").next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).collect();
        places.entry(place).or_insert((0, failure)).0 += 1;
    }
    let report: String = places.values().map(|(count, first)| format!("\n{count} x {first}")).collect();
    assert!(failures.is_empty(), "{} cases fail{report}", failures.len());
}

#[test]
fn raw_damage_gives_values_or_errors() {
    no_case_fails(Kind::Raw);
}

#[test]
fn damage_with_right_checksums_gives_values_or_errors() {
    no_case_fails(Kind::Repaired);
}

#[test]
fn a_damaged_log_gives_its_first_records_or_an_error() {
    no_case_fails(Kind::LogRaw);
}

#[test]
fn a_damaged_log_with_right_checksums_is_replayed_as_it_says_or_is_an_error() {
    no_case_fails(Kind::LogRepaired);
}

// ---------------------------------------------------------------------------------------------
// Bugs found

/// Copies a golden file to a new directory, with `edits` (offsets in its frames, and bytes) applied and its checksums
/// corrected.
fn edited(name: &str, edits: &[(usize, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let golden = fs::read(crate::golden::fixture(name)).unwrap();
    let (reader, mut file) = (Reader::new(&golden).unwrap(), golden.clone());
    for (at, bytes) in edits {
        let at = reader.in_file(*at).expect("a frame that was written");
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }
    spt::repair(&mut file, &reader);
    let directory = directory();
    let path = directory.path().join("damaged.spt");
    fs::write(&path, file).unwrap();
    (directory, path)
}

/// Returns the first page of a golden file that `wanted` accepts, with the file's geometry.
fn page_of(name: &str, wanted: impl Fn(&spt::Found) -> bool) -> (spt::Found, spt::Geometry) {
    let file = fs::read(crate::golden::fixture(name)).unwrap();
    let reader = Reader::new(&file).unwrap();
    let found = reader.pages().unwrap().into_iter().find(|found| wanted(found)).expect("such a page");
    (found, reader.geometry)
}

/// Runs `work` within the time limit of a case.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(LIMIT).expect("it hangs, or it panicked")
}

fn open(path: &Path) -> Table {
    TableOptions::new().create(false).open(path).unwrap()
}

#[test]
fn a_scan_continues_after_unreadable_buckets() {
    let (found, geometry) = page_of("inline.spt", |found| found.bucket == 5);
    let directory = directory();
    let path = directory.path().join("damaged.spt");
    let golden = fs::read(crate::golden::fixture("inline.spt")).unwrap();
    let mut file = golden.clone();
    file[Reader::new(&golden).unwrap().in_file(found.at + 100).unwrap()] ^= 1; // its checksum is unchanged
    fs::write(&path, &file).unwrap();
    let (pairs, errors): (Vec<_>, Vec<_>) = in_time(move || open(&path).scan().take(10_000).partition(|r| r.is_ok()));
    let pages = Reader::new(&golden).unwrap().pages().unwrap();
    let in_frame = |page: &&spt::Found| page.at / geometry.frame_bytes == found.at / geometry.frame_bytes;
    let lost: Vec<u32> = pages.iter().filter(in_frame).map(|page| page.bucket).collect();
    assert_eq!(errors.len(), lost.len());
    let others = pages.iter().filter(|page| !lost.contains(&page.bucket));
    assert_eq!(pairs.len(), others.map(|page| page.page.records.len()).sum::<usize>());
}

#[test]
fn an_overflow_page_in_its_own_buckets_frame_is_an_error_and_not_waited_for() {
    let (found, geometry) = page_of("overflow.spt", |found| found.page.next != 0);
    let own = ((found.at / geometry.unit_bytes()) as u64) << 16 | 2;
    let (_directory, path) = edited("overflow.spt", &[(found.at + 8, &own.to_le_bytes()), (found.at + 16, &[0xFF; 8])]);
    let failed = in_time(move || {
        let table = open(&path);
        (0..400).filter(|n| table.put(format!("new {n}").as_bytes(), b"value").is_err()).count()
    });
    assert!(failed > 0);
}

#[test]
fn an_extent_in_its_own_buckets_frame_is_an_error_and_not_waited_for() {
    let (found, geometry) = page_of("extents.spt", |found| found.page.records.iter().any(|r| r.form == 1));
    let record = found.page.records.iter().find(|r| r.form == 1).unwrap().clone();
    let own = (found.at / geometry.frame_bytes * spt::FRAME_UNITS) as u64;
    let (_directory, path) = edited("extents.spt", &[(found.at + record.value_at, &own.to_le_bytes())]);
    let results = in_time(move || {
        let table = open(&path);
        [
            table.append(&record.key, b"more").map(drop),
            table.put(&record.key, b"new"),
            table.remove(&record.key).map(drop),
        ]
    });
    assert!(results.iter().any(|r| r.is_err()), "{results:?}");
}

#[test]
fn frames_of_buckets_that_are_marked_free_are_not_given_away() {
    let (_, geometry) = page_of("inline.spt", |_| true);
    let frames = 1..geometry.frame_count;
    let places: Vec<usize> = frames.map(|frame| geometry.bits_at(frame)).collect();
    let edits: Vec<(usize, &[u8])> = places.iter().map(|&at| (at, &[0; 8][..])).collect();
    let (_directory, path) = edited("inline.spt", &edits);
    let pairs = in_time(move || {
        let table = open(&path);
        for n in 0..500u32 {
            let _ = table.put(&n.to_le_bytes(), &[7; 700]);
        }
        crate::golden::scanned(&table)
    });
    let golden = GOLDEN.iter().find(|g| g.name == "inline").unwrap().pairs();
    assert!(golden.iter().all(|(key, value)| pairs.get(key) == Some(value)), "a pair was overwritten");
}

#[test]
fn pages_with_wrong_heap_sizes_do_not_panic_when_merged() {
    let (found, _) = page_of("overflow.spt", |found| found.page.kind == 2 && found.page.records.len() > 2);
    let (_directory, path) = edited("overflow.spt", &[(found.at + 4, &6u16.to_le_bytes())]);
    let golden = GOLDEN.iter().find(|g| g.name == "overflow").unwrap().pairs();
    in_time(move || {
        let table = open(&path);
        let failed = golden.keys().filter(|key| table.remove(key).is_err()).count();
        assert!(failed > 0);
    });
}

#[test]
fn a_page_with_more_slots_than_it_has_room_for_is_a_fault() {
    let (found, _) = page_of("overflow.spt", |found| found.page.kind == 2);
    let (_directory, path) = edited("overflow.spt", &[(found.at + 2, &0xFFF0u16.to_le_bytes())]);
    let faults = in_time(move || open(&path).verify().unwrap());
    let place = format!("bucket {}", found.bucket);
    assert!(faults.iter().any(|fault| fault.place.starts_with(&place)), "{faults:?}");
}

#[test]
fn records_that_share_their_bytes_are_not_copied_again_and_again() {
    let (found, _) = page_of("page-4096.spt", |found| found.page.kind == 1);
    // A record located after the 900 slots below.
    let record = found.page.records.iter().filter(|r| r.at > 3700).max_by_key(|r| r.end - r.at).unwrap();
    let slots: Vec<u8> =
        (0..900).flat_map(|_| [record.tag.to_le_bytes(), (record.at as u16).to_le_bytes()]).flatten().collect();
    let room = (4096 - spt::PAGE_HEADER_BYTES - slots.len()) as u16;
    let edits: [(usize, &[u8]); 3] =
        [(found.at + 2, &900u16.to_le_bytes()), (found.at + 4, &room.to_le_bytes()), (found.at + 24, &slots)];
    let (_directory, path) = edited("page-4096.spt", &edits);
    let table = open(&path);
    let copies =
        table.scan().take(10_000).filter(|pair| pair.as_ref().is_ok_and(|(key, _)| *key == record.key)).count();
    assert_eq!(copies, 0, "a bucket that gives an error gives nothing else");
}

#[test]
fn a_record_larger_than_a_page_has_room_does_not_make_overflow_pages_without_end() {
    let (found, _) = page_of("page-4096.spt", |found| found.page.kind == 1);
    // The record begins at the filter: an empty key, 4077 bytes of value.
    let slot = [found.page.records[0].tag, 16].map(u16::to_le_bytes).concat();
    let edits: [(usize, &[u8]); 3] =
        [(found.at + 2, &[1, 0, 0xE8, 0x0F]), (found.at + 16, &[0, 0xED, 0x1F]), (found.at + 24, &slot)];
    let (_directory, path) = edited("page-4096.spt", &edits);
    let file_bytes = in_time(move || {
        let table = open(&path);
        for n in 0..1500u32 {
            let _ = table.put(&n.to_le_bytes(), &[7; 90]);
        }
        drop(table);
        fs::metadata(&path).unwrap().len()
    });
    assert!(file_bytes < FILE_BYTES, "{file_bytes} bytes");
}

#[test]
fn a_circle_of_overflow_pages_ends() {
    let (found, _) = page_of("chains.spt", |found| found.page.kind == 2);
    let (primary, _) = page_of("chains.spt", |p| p.bucket == found.bucket);
    let (_directory, path) =
        edited("chains.spt", &[(found.at + 8, &primary.page.next.to_le_bytes()), (primary.at + 16, &[0xFF; 8])]);
    let error = in_time(move || open(&path).get(b"absent").unwrap_err());
    assert!(error.to_string().contains("circle"), "{error}");
}

#[test]
fn a_record_of_unknown_form_is_an_error() {
    let (found, _) = page_of("extents.spt", |found| found.page.records.iter().any(|r| r.form == 1));
    let record = found.page.records.iter().find(|r| r.form == 1).unwrap();
    let head = (record.key.len() as u8) << 2 | 3;
    let (_directory, path) = edited("extents.spt", &[(found.at + record.at, &[head])]);
    let table = open(&path);
    assert!(table.get(&record.key).is_err());
    assert!(table.scan().any(|pair| pair.is_err()));
}

#[test]
fn an_extent_with_a_key_where_its_record_has_one_is_an_error() {
    let (found, _) = page_of("extents.spt", |found| found.page.records.iter().any(|r| r.form == 1));
    let record = found.page.records.iter().find(|r| r.form == 1).unwrap();
    let extent = spt::Extent::parse(&record.value).unwrap();
    let lens = [5u32, extent.value_bytes - 5].map(u32::to_le_bytes).concat();
    let (_directory, path) = edited("extents.spt", &[(found.at + record.value_at + 12, &lens)]);
    let table = open(&path);
    assert!(table.get(&record.key).is_err());
    assert!(!table.verify().unwrap().is_empty());
    let _ = table.compact();
}

#[test]
fn a_lookup_without_a_latch_notices_a_record_that_runs_over_its_page() {
    let (found, _) = page_of("inline.spt", |found| found.page.records.iter().any(|r| r.end == found.bytes));
    let record = found.page.records.iter().find(|r| r.end == found.bytes).unwrap();
    // A key longer by one byte, and a value longer than the rest of the page.
    let head = [(record.key.len() as u8 + 1) << 2, 127];
    let (_directory, path) = edited("inline.spt", &[(found.at + record.at, &head)]);
    let table = open(&path);
    let first = table.get(&record.key).unwrap_err(); // reads the frame, under the latch
    let second = table.get(&record.key).unwrap_err();
    assert_eq!(second.to_string(), first.to_string());
}
