//! Salvage: which pairs are recovered from damaged files, and that they are right.
//!
//! A case takes a golden file, whose pairs and their frames are known (`spt.rs`), damages some of its frames, and
//! salvages it. Every pair that is wholly in undamaged frames, and reachable through undamaged ones, must be returned.
//! A verified pair is always right; an unverified one may be wrong only if it is in a damaged frame. No key is returned
//! twice, and the report counts the returned pairs.
//!
//! `SPLITPOINT_CASES=100000` runs that many cases, `SPLITPOINT_FIRST_CASE=5000` sets the first number. Damage with
//! correct checksums: `corruption.rs`, which also salvages each of its files.

use crate::corruption::{Random, directory};
use crate::golden::{GOLDEN, Golden, Pairs, ZONES, fixture};
use crate::spt::{self, Reader};
use splitpoint::{ErrorKind, SalvageReport, Salvaged, TableOptions, salvage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

/// Default number of cases.
const CASES: u64 = 1000;

/// An undamaged file, and the frames of each pair: the frames of its bucket's pages up to its own, and of its extent.
struct Sound {
    name: &'static str,
    reader: Reader<'static>,
    pairs: Pairs,
    frames_of: BTreeMap<Vec<u8>, BTreeSet<usize>>,
}

static SOUND: LazyLock<Vec<Sound>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let zones = directory.path().join("zones.spt");
    ZONES.write(&zones);
    let golden = GOLDEN.iter().filter(|golden| golden.name != "empty").map(|golden| (golden, golden.file()));
    golden.chain([(&ZONES, zones)]).map(|(golden, path)| Sound::read(golden, &path)).collect()
});

impl Sound {
    fn read(golden: &Golden, path: &Path) -> Sound {
        let reader = Reader::new(fs::read(path).unwrap().leak()).unwrap();
        let frame_bytes = reader.geometry.frame_bytes;
        let frames = |at: usize, bytes: usize| at / frame_bytes..(at + bytes).div_ceil(frame_bytes);
        let mut frames_of = BTreeMap::new();
        let mut way = (u32::MAX, BTreeSet::new());
        for found in reader.pages().unwrap() {
            if way.0 != found.bucket {
                way = (found.bucket, BTreeSet::new());
            }
            way.1.extend(frames(found.at, found.bytes));
            for record in &found.page.records {
                let mut own = way.1.clone();
                if record.form != 0 {
                    let extent = spt::Extent::parse(&record.value).unwrap();
                    let at = extent.unit as usize * reader.geometry.unit_bytes();
                    own.extend(frames(at, (extent.key_bytes + extent.value_bytes) as usize));
                }
                frames_of.insert(reader.pair(record).unwrap().0, own);
            }
        }
        Sound { name: golden.name, pairs: golden.pairs(), frames_of, reader }
    }

    fn named(name: &str) -> &'static Sound {
        SOUND.iter().find(|sound| sound.name == name).unwrap()
    }

    fn file(&self) -> Vec<u8> {
        self.reader.file.to_vec()
    }

    /// Damages whole blocks or parts of them, and may cut the file; returns what is damaged.
    fn damage(&self, random: &mut Random, file: &mut Vec<u8>) -> Damage {
        let block_bytes = self.reader.geometry.frame_bytes;
        let mut blocks = BTreeSet::new();
        for _ in 0..random.below(5) {
            // Blocks without a frame are few, so one choice in three is among them.
            let fixed = || self.reader.nodes.iter().map(|node| node.block).chain(0..4);
            let count = fixed().count();
            let any = random.below(self.reader.geometry.length);
            let block = if random.one_in(3) { fixed().nth(random.below(count)).unwrap() } else { any };
            let bytes = &mut file[block * block_bytes..(block + 1) * block_bytes];
            let before = bytes.to_vec();
            match random.below(4) {
                0 => bytes.fill(*random.pick(&[0, 0xFF])),
                1 => bytes.iter_mut().for_each(|byte| *byte = random.next() as u8),
                2 => bytes[random.below(block_bytes)] ^= 1 << random.below(8),
                _ => {
                    let (start, fill) = (random.below(block_bytes), random.next() as u8);
                    let end = start + random.below(block_bytes - start) + 1;
                    bytes[start..end.min(block_bytes)].fill(fill);
                }
            }
            if *bytes != before[..] {
                blocks.insert(block);
            }
        }
        match random.below(8) {
            0 => {
                let bytes = random.below(file.len());
                file.truncate(bytes);
                blocks.extend(bytes / block_bytes..self.reader.geometry.length);
            }
            1 => (0..random.below(20_000)).for_each(|_| file.push(random.next() as u8)),
            _ => {}
        }
        let is_damaged = |&frame: &usize| blocks.contains(&self.reader.entries[frame].block);
        let frames = (0..self.reader.entries.len()).filter(is_damaged).collect();
        let nodes = self.reader.nodes.iter().any(|node| node.tree == 1 && blocks.contains(&node.block));
        let header =
            |&at: &usize| file.get(at..at + spt::HEADER_BYTES) == self.reader.file.get(at..at + spt::HEADER_BYTES);
        let headers = spt::HEADERS.iter().filter(|&at| header(at)).count();
        let checkpoint_of = |node: &spt::Node| spt::u64_at(self.reader.file, node.block * block_bytes + 16);
        let last = self.reader.nodes.iter().map(checkpoint_of).max();
        let is_trace = |node: &&spt::Node| !blocks.contains(&node.block) && Some(checkpoint_of(node)) == last;
        let traces = headers > 0 || self.reader.nodes.iter().any(|node| is_trace(&node));
        Damage { frames, map: nodes, headers, traces, blocks }
    }
}

/// What a case damaged.
struct Damage {
    blocks: BTreeSet<usize>,
    frames: BTreeSet<usize>,
    /// Whether a node of the block map is damaged.
    map: bool,
    /// The number of undamaged headers.
    headers: usize,
    /// Whether a header or a node shows that the last checkpoint existed. If nothing does, the one before is found.
    traces: bool,
}

/// The salvaged pairs.
#[derive(Default)]
struct Found {
    verified: Pairs,
    unverified: Pairs,
    faults: Vec<String>,
}

impl Found {
    fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.verified.get(key).or_else(|| self.unverified.get(key))
    }

    fn all(&self) -> Pairs {
        self.verified.iter().chain(&self.unverified).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}

fn salvaged(path: &Path) -> splitpoint::Result<(Found, SalvageReport)> {
    let mut found = Found::default();
    let report = salvage(path, |event| {
        match event {
            Salvaged::Pair { key, value, verified, .. } => {
                let twice = found.get(key).is_some();
                assert!(!twice, "key {} is given twice", key.escape_ascii());
                let pairs = if verified { &mut found.verified } else { &mut found.unverified };
                pairs.insert(key.to_vec(), value.to_vec());
            }
            Salvaged::Fault(fault) => found.faults.push(fault.to_string()),
            Salvaged::Progress { done, all, .. } => assert!(done <= all, "{done} of {all}"),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!((report.verified, report.unverified), (found.verified.len() as u64, found.unverified.len() as u64));
    Ok((found, report))
}

/// Salvages a file with this content.
fn salvaged_bytes(file: &[u8]) -> splitpoint::Result<(Found, SalvageReport)> {
    let directory = directory();
    let path = directory.path().join("damaged.spt");
    fs::write(&path, file).unwrap();
    let result = salvaged(&path);
    assert!(fs::read(&path).unwrap() == file, "it was changed");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "a file was left beside it");
    result
}

fn case(seed: u64) {
    let random = &mut Random(seed);
    random.next();
    let last = SOUND.len() - 1;
    let sound = &SOUND[if random.one_in(25) { last } else { random.below(last) }];
    let mut file = sound.file();
    let Damage { blocks, frames, map, headers, traces } = sound.damage(random, &mut file);
    let about = format!("case {seed}: {}, blocks {blocks:?} damaged, {} bytes", sound.name, file.len());
    let undamaged = |key: &[u8]| sound.frames_of[key].is_disjoint(&frames);
    // Without its entry, a frame is found only if it has pages of buckets.
    let in_pages = |key: &[u8]| sound.frames_of[key].len() == 1;
    let is_found = |key: &[u8]| undamaged(key) && (!map || in_pages(key) && traces);
    let (found, report) = match salvaged_bytes(&file) {
        Ok(result) => result,
        // Nothing can be found if every page is gone, or if the headers name another version.
        Err(e) if headers == 0 && e.kind() == ErrorKind::Version => return,
        Err(e) => {
            let left = sound.pairs.keys().filter(|key| is_found(key)).count();
            assert!(headers == 0 && left == 0, "{about}: {left} pairs are whole, and: {e}");
            return;
        }
    };
    for (key, value) in &sound.pairs {
        let given = found.get(key);
        assert!(given.is_some() || !is_found(key), "{about}: key {} is missing", key.escape_ascii());
        // Without its entry, an older state of a frame may be found.
        let is_right = given.is_none_or(|given| given == value);
        assert!(is_right || map || !undamaged(key), "{about}: {}", key.escape_ascii());
    }
    for (key, value) in &found.verified {
        assert!(sound.pairs.get(key) == Some(value), "{about}: a wrong pair, key {}", key.escape_ascii());
    }
    let whole = headers > 0 && found.verified == sound.pairs;
    assert!(!report.is_whole() || whole, "{about}: {report:?} {:?}", found.faults);
    assert!(whole || !found.faults.is_empty(), "{about}: no fault is reported");
}

#[test]
fn every_pair_in_undamaged_frames_comes_out_and_none_is_wrong() {
    let from = |name, or| std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v}")));
    let start = from("SPLITPOINT_FIRST_CASE", 0);
    (start..start + from("SPLITPOINT_CASES", CASES)).for_each(case);
}

#[test]
fn a_sound_file_is_salvaged_whole() {
    for sound in SOUND.iter() {
        let (found, report) = salvaged_bytes(sound.reader.file).unwrap();
        assert!(found.verified == sound.pairs && found.unverified.is_empty(), "{}", sound.name);
        assert!(report.is_whole() && found.faults.is_empty(), "{}: {report:?} {:?}", sound.name, found.faults);
    }
    let (found, report) = salvaged_bytes(&fs::read(fixture("empty.spt")).unwrap()).unwrap();
    assert!(found.all().is_empty() && report.is_whole());
}

#[test]
fn a_damaged_bucket_frame_costs_its_buckets_and_says_which() {
    let sound = Sound::named("inline");
    let mut file = sound.file();
    let at = sound.reader.geometry.page_at(5).unwrap();
    let frame = at / 4096;
    file[sound.reader.in_file(at + 100).unwrap()] ^= 1;
    let (found, report) = salvaged_bytes(&file).unwrap();
    let lost = sound.pairs.keys().filter(|key| sound.frames_of[*key].contains(&frame)).count();
    assert_eq!((report.lost_buckets, report.missing()), (4, Some(lost as u64)));
    assert_eq!(found.verified.len(), sound.pairs.len() - lost);
    let fault = &found.faults[0];
    for words in [&format!("frame {frame}: checksum mismatch in block"), "the pairs of buckets 4 to 7 are lost"] {
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn a_damaged_value_costs_one_pair_and_names_its_key() {
    let sound = Sound::named("extents");
    let pages = sound.reader.pages().unwrap();
    let records = || pages.iter().flat_map(|page| &page.page.records).filter(|record| record.form == 1);
    // A frame filled by one value, so that the damage affects nothing else.
    let (record, frame) = records()
        .find_map(|record| {
            let extent = spt::Extent::parse(&record.value).unwrap();
            let at = extent.unit as usize * 64;
            let frame = at.next_multiple_of(4096);
            (frame + 4096 <= at + extent.value_bytes as usize).then_some((record, frame))
        })
        .unwrap();
    let mut file = sound.file();
    file[sound.reader.in_file(frame + 9).unwrap()] ^= 4;
    let (found, report) = salvaged_bytes(&file).unwrap();
    assert_eq!((report.missing(), report.losses, report.lost_buckets), (Some(1), 1, 0));
    assert!(!found.verified.contains_key(&record.key));
    assert!(found.faults[0].contains(&format!("\"{}\"", record.key.escape_ascii())), "{:?}", found.faults);
}

#[test]
fn without_a_header_every_pair_comes_out() {
    // Damage to both headers: one byte, the hash function, everything, the checksum, the version.
    for (from, to) in [(300, 301), (256, 300), (0, 4096), (4092, 4096), (8, 12)] {
        for sound in SOUND.iter() {
            let mut file = sound.file();
            for header in spt::HEADERS {
                file[header + from..header + to].iter_mut().for_each(|byte| *byte = !*byte);
            }
            let (found, report) = salvaged_bytes(&file).unwrap();
            assert!(found.all() == sound.pairs, "{}, {from}: {report:?} {:?}", sound.name, found.faults);
            assert!(!report.is_whole() && report.counted.is_none());
        }
    }
}

#[test]
fn a_file_without_a_trace_of_a_table_is_refused() {
    let text = b"alice\t1\nbob\t2\n".repeat(1000);
    for file in [&text[..], b"", b"hi", &[0; 100_000], &[0xFF; 70_000], &[1; 9000]] {
        let error = salvaged_bytes(file).err().expect("it is no table");
        assert_eq!(error.kind(), ErrorKind::NotATable, "{error}");
        assert!(error.to_string().contains("damaged.spt: nothing in it looks like"), "{error}");
    }
}

#[test]
fn another_version_is_not_salvaged_and_a_flipped_bit_in_its_number_is() {
    let sound = Sound::named("inline");
    let mut file = sound.file();
    // The other header is whole.
    file[8] = 2;
    assert!(salvaged_bytes(&file).unwrap().0.all() == sound.pairs);
    file[spt::HEADER_BYTES + 8] = 2;
    // Everything else is as in version 1, including the checksums.
    assert!(salvaged_bytes(&file).unwrap().0.all() == sound.pairs);
    file[300] ^= 1;
    assert_eq!(salvaged_bytes(&file).err().unwrap().kind(), ErrorKind::Version);
}

#[test]
fn a_table_that_is_open_for_writing_is_not_salvaged() {
    let directory = directory();
    let path = directory.path().join("t.spt");
    let table = TableOptions::new().open(&path).unwrap();
    assert_eq!(salvaged(&path).err().unwrap().kind(), ErrorKind::Locked);
    table.put(b"key", b"value").unwrap();
    table.close().unwrap();
    assert_eq!(salvaged(&path).unwrap().0.verified.len(), 1);
}

#[test]
fn a_salvage_stops_on_request() {
    let mut given = 0;
    let report = salvage(fixture("inline.spt"), |event| {
        given += u32::from(matches!(event, Salvaged::Pair { .. }));
        if given == 7 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert!(report.stopped && !report.is_whole());
    assert_eq!(report.pairs(), 7);
}
