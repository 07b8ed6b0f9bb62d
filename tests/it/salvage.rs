//! Salvage: which pairs are recovered from damaged files, and that they are right.
//!
//! A case takes a golden file, whose pairs and their frames are known (`spt.rs`), damages some of its frames, and
//! salvages it. Every pair that lies wholly in undamaged frames, and can be reached through undamaged ones, must be
//! returned. A verified pair is always right; an unverified one is right unless it lies in a damaged frame. No key is
//! returned twice, and the report counts the returned pairs.
//!
//! `SPLITPOINT_CASES=100000` runs that many cases, `SPLITPOINT_FIRST_CASE=5000` sets the first number. Damage with
//! correct checksums: `corruption.rs`, which also salvages each of its files.

use crate::corruption::{Random, directory};
use crate::golden::{GOLDEN, Golden, PENDING, Pairs, ZONES, fixture};
use crate::spt::{self, Geometry, Reader};
use splitpoint::{ErrorKind, SalvageReport, Salvaged, TableOptions, salvage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Cases by default.
const CASES: u64 = 1000;

/// An undamaged file, and the frames of each pair: the frames of its bucket's pages up to its own, and of its extent.
struct Sound {
    name: &'static str,
    file: Vec<u8>,
    pairs: Pairs,
    frames_of: BTreeMap<Vec<u8>, BTreeSet<usize>>,
    geometry: Geometry,
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
        let file = fs::read(path).unwrap();
        let reader = Reader::new(&file).unwrap();
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
        let geometry = reader.geometry.clone();
        Sound { name: golden.name, pairs: golden.pairs(), frames_of, geometry, file }
    }

    fn named(name: &str) -> &'static Sound {
        SOUND.iter().find(|sound| sound.name == name).unwrap()
    }

    /// Damages whole frames or parts of them; returns the frames.
    fn damage(&self, random: &mut Random, file: &mut Vec<u8>) -> BTreeSet<usize> {
        let (count, frame_bytes) = (self.geometry.frame_count, self.geometry.frame_bytes);
        let mut damaged = BTreeSet::new();
        for _ in 0..random.below(5) {
            // The few frames that others depend on are chosen as often as all the rest.
            let frame = if random.one_in(3) { random.below(4) } else { random.below(count) };
            let bytes = &mut file[frame * frame_bytes..(frame + 1) * frame_bytes];
            let before = bytes.to_vec();
            match random.below(4) {
                0 => bytes.fill(*random.pick(&[0, 0xFF])),
                1 => bytes.iter_mut().for_each(|byte| *byte = random.next() as u8),
                2 => bytes[random.below(frame_bytes)] ^= 1 << random.below(8),
                _ => {
                    let (start, fill) = (random.below(frame_bytes), random.next() as u8);
                    let end = start + random.below(frame_bytes - start) + 1;
                    bytes[start..end.min(frame_bytes)].fill(fill);
                }
            }
            if *bytes != before[..] {
                damaged.insert(frame);
            }
        }
        match random.below(8) {
            0 => {
                let bytes = random.below(file.len());
                file.truncate(bytes);
                damaged.extend(bytes / frame_bytes..count);
            }
            1 => (0..random.below(20_000)).for_each(|_| file.push(random.next() as u8)),
            _ => {}
        }
        damaged
    }
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
    let mut file = sound.file.clone();
    let damaged = sound.damage(random, &mut file);
    let about = format!("case {seed}: {}, frames {damaged:?} damaged, {} bytes", sound.name, file.len());
    let undamaged = |key: &[u8]| sound.frames_of[key].is_disjoint(&damaged);
    let (found, report) = match salvaged_bytes(&file) {
        Ok(result) => result,
        // Nothing can be found if every page is gone, or if the header names another version.
        Err(e) if damaged.contains(&0) && e.kind() == ErrorKind::Version => return,
        Err(e) => {
            let left = sound.pairs.keys().filter(|key| undamaged(key)).count();
            assert!(damaged.contains(&0) && left == 0, "{about}: {left} pairs are whole, and: {e}");
            return;
        }
    };
    for (key, value) in &sound.pairs {
        let given = found.get(key);
        assert!(given.is_some() || !undamaged(key), "{about}: key {} is missing", key.escape_ascii());
        assert!(given.is_none_or(|given| given == value) || !undamaged(key), "{about}: {}", key.escape_ascii());
    }
    for (key, value) in &found.verified {
        assert!(sound.pairs.get(key) == Some(value), "{about}: a wrong pair, key {}", key.escape_ascii());
    }
    // With larger frames, the header is not all of the first.
    let header = file.get(..spt::HEADER_BYTES) == sound.file.get(..spt::HEADER_BYTES);
    assert_eq!(report.counted, header.then_some(sound.pairs.len() as u64), "{about}");
    let whole = header && found.verified == sound.pairs;
    assert_eq!(report.is_whole(), whole, "{about}: {report:?} {:?}", found.faults);
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
        let (found, report) = salvaged_bytes(&sound.file).unwrap();
        assert!(found.verified == sound.pairs && found.unverified.is_empty(), "{}", sound.name);
        assert!(report.is_whole() && found.faults.is_empty(), "{}: {report:?} {:?}", sound.name, found.faults);
    }
    let (found, report) = salvaged_bytes(&fs::read(fixture("empty.spt")).unwrap()).unwrap();
    assert!(found.all().is_empty() && report.is_whole());
}

#[test]
fn a_damaged_bucket_frame_costs_its_buckets_and_says_which() {
    let sound = Sound::named("inline");
    let mut file = sound.file.clone();
    let at = sound.geometry.page_at(5).unwrap();
    let frame = at / 4096;
    file[at + 100] ^= 1;
    let (found, report) = salvaged_bytes(&file).unwrap();
    let lost = sound.pairs.keys().filter(|key| sound.frames_of[*key].contains(&frame)).count();
    assert_eq!((report.lost_buckets, report.missing()), (4, Some(lost as u64)));
    assert_eq!(found.verified.len(), sound.pairs.len() - lost);
    let fault = &found.faults[0];
    for words in [&format!("frame {frame}: checksum mismatch"), "the pairs of buckets 4 to 7 are lost"] {
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn a_damaged_value_costs_one_pair_and_names_its_key() {
    let sound = Sound::named("extents");
    let reader = Reader::new(&sound.file).unwrap();
    let pages = reader.pages().unwrap();
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
    let mut file = sound.file.clone();
    file[frame + 9] ^= 4;
    let (found, report) = salvaged_bytes(&file).unwrap();
    assert_eq!((report.missing(), report.losses, report.lost_buckets), (Some(1), 1, 0));
    assert!(!found.verified.contains_key(&record.key));
    assert!(found.faults[0].contains(&format!("\"{}\"", record.key.escape_ascii())), "{:?}", found.faults);
}

#[test]
fn one_wrong_checksum_in_a_damaged_checksum_frame_costs_nothing() {
    let sound = Sound::named("inline");
    let mut file = sound.file.clone();
    file[2 * 4096 + 4 * 400] ^= 1; // of a frame beyond the end
    let (found, report) = salvaged_bytes(&file).unwrap();
    assert!(report.is_whole() && found.verified == sound.pairs);
}

#[test]
fn without_checksums_pairs_are_given_and_not_called_verified() {
    for sound in SOUND.iter() {
        let mut file = sound.file.clone();
        for frame in sound.geometry.sum_frames() {
            let at = frame * sound.geometry.frame_bytes;
            file[at..at + sound.geometry.frame_bytes].fill(0xEE);
        }
        let (found, report) = salvaged_bytes(&file).unwrap();
        assert!(found.unverified == sound.pairs && found.verified.is_empty(), "{}", sound.name);
        assert!(!report.is_whole() && report.missing() == Some(0));
        assert!(found.faults.iter().any(|f| f.contains("not all of them can be compared")), "{:?}", found.faults);
    }
}

#[test]
fn without_a_header_every_pair_comes_out() {
    // What is left of the header: all but one bit; without the hash function; nothing; or without map frames, for which
    // see below.
    for (from, to) in [(300, 301), (256, 300), (0, 4096), (4092, 4096), (8, 12)] {
        for sound in SOUND.iter() {
            let mut file = sound.file.clone();
            file[from..to].iter_mut().for_each(|byte| *byte = !*byte);
            let (found, report) = salvaged_bytes(&file).unwrap();
            assert!(found.all() == sound.pairs, "{}, {from}: {report:?} {:?}", sound.name, found.faults);
            // Without the hash function, a page looks the same as a part of a value.
            let known = from != 0 && from != 256;
            assert_eq!(found.verified.len(), if known { sound.pairs.len() } else { 0 }, "{}, {from}", sound.name);
            assert!(!report.is_whole() && report.counted.is_none());
        }
    }
}

#[test]
fn without_header_and_maps_every_key_comes_out_once() {
    for sound in SOUND.iter() {
        let mut file = sound.file.clone();
        file[..3 * sound.geometry.frame_bytes].fill(0);
        let (found, _) = salvaged_bytes(&file).unwrap();
        let missing = sound.pairs.keys().filter(|key| found.get(key).is_none()).count();
        assert_eq!(missing, 0, "{}", sound.name);
        if sound.name != "zones" {
            assert!(found.verified.is_empty(), "{}: nothing proves them", sound.name);
        }
    }
}

#[test]
fn former_pages_that_the_map_calls_free_are_not_given() {
    // A compaction moves a group of buckets; then the old bytes are restored, as if the space had not been reused.
    let directory = directory();
    let path = directory.path().join("t.spt");
    let table = TableOptions::new().page_bytes(512).seed(1).open(&path).unwrap();
    for n in 0..2000u32 {
        table.put(format!("key {n}").as_bytes(), b"old").unwrap();
    }
    table.checkpoint().unwrap();
    let before = fs::read(&path).unwrap();
    for n in 0..2000u32 {
        table.put(format!("key {n}").as_bytes(), b"new").unwrap();
    }
    table.put(b"large", &[7; 300_000]).unwrap();
    table.remove(b"large").unwrap();
    table.close().unwrap();
    let mut file = fs::read(&path).unwrap();
    let geometry = Geometry::parse(&file).unwrap();
    let used = |frame: usize, file: &[u8]| spt::u64_at(file, geometry.bits_at(frame));
    let free: Vec<usize> = (3..geometry.frame_count).filter(|&frame| used(frame, &file) == 0).collect();
    // The buckets' old frames, written to frames that are free now, with correct checksums.
    let old: Vec<usize> = (3..before.len() / 4096).filter(|&frame| used(frame, &before) == u64::MAX).collect();
    assert!(free.len() > 20 && old.len() > 10, "{} {}", free.len(), old.len());
    for (&to, &from) in free.iter().zip(&old) {
        file[to * 4096..(to + 1) * 4096].copy_from_slice(&before[from * 4096..(from + 1) * 4096]);
    }
    spt::repair(&mut file, &geometry);
    file[400] ^= 1;
    let (found, report) = salvaged_bytes(&file).unwrap();
    assert_eq!((found.verified.len(), report.conflicts), (2000, 0));
    assert!(found.verified.values().all(|value| value == b"new"));
    // Without the map, parts of values look like pages; but no key is returned twice, and a fault says so.
    file[4096..8192].fill(0xAA);
    let (found, report) = salvaged_bytes(&file).unwrap();
    assert_eq!(found.all().len(), 2000);
    assert!(report.conflicts > 100 && found.verified.is_empty(), "{report:?}");
    assert!(found.faults.iter().any(|f| f.contains("is there more than once, with another value")));
}

#[test]
fn a_complete_journal_is_read_instead_of_the_files_frames() {
    let directory = directory();
    let (path, sound) = (directory.path().join("pending.spt"), directory.path().join("sound.spt"));
    let journal = PathBuf::from(format!("{}-ckpt", path.display()));
    fs::copy(PENDING.file(), &path).unwrap();
    fs::copy(fixture("pending.spt-ckpt"), &journal).unwrap();
    fs::copy(&path, &sound).unwrap();
    fs::copy(&journal, format!("{}-ckpt", sound.display())).unwrap();
    let table = TableOptions::new().create(false).open(&sound).unwrap();
    let expected: Pairs = table.scan().map(|pair| pair.unwrap()).collect();
    drop(table);
    let (found, report) = salvaged(&path).unwrap();
    assert!(report.is_whole() && found.verified == expected, "{report:?} {:?}", found.faults);
    assert!(expected != PENDING.pairs());
    // The same with a torn header in the file; the header in the journal counts.
    let mut torn = fs::read(&path).unwrap();
    torn[20..4000].fill(0x77);
    fs::write(&path, &torn).unwrap();
    assert!(salvaged(&path).unwrap().0.verified == expected);
    // A truncated journal does not count.
    fs::copy(PENDING.file(), &path).unwrap();
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 9]).unwrap();
    let (found, _) = salvaged(&path).unwrap();
    assert!(found.all().len() <= expected.len() && found.faults.iter().any(|f| f.contains("incomplete")));
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
    let mut file = sound.file.clone();
    file[8] = 2;
    // Everything else is as in version 1, including the checksum.
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

#[test]
fn a_pair_is_verified_only_if_all_its_frames_are() {
    for name in ["overflow", "extents"] {
        let sound = Sound::named(name);
        let page_frames: BTreeSet<usize> = (0..=sound.geometry.max_bucket)
            .map(|bucket| sound.geometry.page_at(bucket).unwrap() / sound.geometry.frame_bytes)
            .collect();
        let mut frames = sound.frames_of.values().flatten().filter(|frame| !page_frames.contains(frame));
        let frame = *frames.next().expect("one of overflow pages or extents");
        let mut file = sound.file.clone();
        file[sound.geometry.sum_at(frame)] ^= 1; // and the checksum frame's own is wrong by that
        let (found, report) = salvaged_bytes(&file).unwrap();
        assert!(found.all() == sound.pairs, "{name}");
        let there: BTreeSet<_> = sound.pairs.keys().filter(|key| sound.frames_of[*key].contains(&frame)).collect();
        assert_eq!(found.unverified.keys().collect::<BTreeSet<_>>(), there, "{name}: {report:?}");
    }
}
