//! Damaged dictionaries and manifests.
//!
//! **Raw**: damages any bytes that checksums cover. No lookup may be wrong: it returns the key's own value, nothing for
//! an absent key, or an error; and `verify` must report the damage. **Repaired**: gives hostile values to fields of
//! header, footer, sections, pages, blocks and records, and corrects all checksums. Any value or error is allowed,
//! within the limits of time and memory.
//!
//! Each file is read both by system calls and through a mapping. Not here: files that are truncated while mapped
//! (`src/dictionary/tests/model.rs`).

use super::{Kind, Random, directory, no_case_fails};
use crate::dictionaries::Pairs;
use crate::dictionaries::golden::{GOLDEN, SHARDS, fixture, shards_pairs};
use crate::fields::number_at;
use crate::spd::fields::fields_of;
use crate::spd::{self, FOOTER_BYTES, Reader, manifest};
use splitpoint::{Dictionary, DictionaryOptions};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

/// An undamaged file.
struct Original {
    name: &'static str,
    file: Vec<u8>,
    pairs: Pairs,
    page_bytes: usize,
    /// Offset and length of each field worth a hostile value.
    fields: Vec<(usize, usize)>,
    /// The ranges that checksums cover: everything except the zeros between them.
    covered: Vec<Range<usize>>,
}

static ORIGINALS: LazyLock<Vec<Original>> = LazyLock::new(|| GOLDEN.iter().map(Original::read).collect());

/// Reads the original files once, so that cases need not.
pub fn prepare() {
    LazyLock::force(&ORIGINALS);
}

impl Original {
    fn read(golden: &crate::dictionaries::golden::Golden) -> Original {
        let file = fs::read(golden.file()).unwrap();
        let reader = Reader::new(&file).unwrap();
        let page_bytes = reader.header.page_bytes;
        let mut covered =
            vec![0..512, page_bytes..(reader.footer.pages + 1) * page_bytes, file.len() - FOOTER_BYTES..file.len()];
        let sections = reader.footer.sections.iter();
        covered.extend(sections.map(|section| section.offset..section.offset + section.bytes));
        let fields = fields_of(&file, &reader);
        Original { name: golden.name, pairs: (golden.pairs)(), page_bytes, fields, covered, file }
    }
}

/// Returns a hostile value for a field whose value is `old`.
fn hostile(random: &mut Random, original: &Original, old: u64, bytes: usize) -> u64 {
    let file_bytes = original.file.len() as u64;
    let pages = file_bytes / original.page_bytes as u64;
    let pairs = original.pairs.len() as u64;
    match random.below(10) {
        0 => 0,
        1 => u64::MAX,
        2 => old.wrapping_add(1),
        3 => old.wrapping_sub(1),
        4 | 5 => old ^ 1 << random.below(8 * bytes),
        6 => *random.pick(&[file_bytes, file_bytes - 512, pages, pages - 1, pairs, pairs.wrapping_sub(1), 512, 4096]),
        7 => *random.pick(&[
            1,
            2,
            0x7F,
            0x80,
            0xFF,
            1 << 16,
            1 << 24,
            1 << 31,
            1 << 32,
            1 << 35,
            1 << 48,
            1 << 63,
            !0 >> 1,
        ]),
        8 => {
            let &(at, same) = random.pick(&original.fields);
            number_at(&original.file, at, same)
        }
        _ => random.next(),
    }
}

fn damage_fields(random: &mut Random, original: &Original, file: &mut [u8]) -> String {
    let mut notes = Vec::new();
    for _ in 0..1 + random.below(3) {
        let footer = file.len() - FOOTER_BYTES;
        let first: Vec<_> = original.fields.iter().filter(|(at, _)| *at < 512 || *at >= footer).collect();
        // Header and footer have few of the fields, so they are chosen more often.
        let &(at, bytes) = if random.one_in(3) { *random.pick(&first) } else { random.pick(&original.fields) };
        let old = number_at(file, at, bytes);
        let new = hostile(random, original, old, bytes);
        file[at..at + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
        notes.push(format!("{bytes} bytes at {at:#x}: {old:#x} -> {new:#x}"));
    }
    notes.join("; ")
}

/// Flips bits, fills or randomizes ranges, or swaps cells, all within bytes that checksums cover; keeps the length.
fn damage_covered(random: &mut Random, original: &Original, file: &mut [u8]) -> String {
    let part = loop {
        let part = random.pick(&original.covered).clone();
        if !part.is_empty() {
            break part;
        }
    };
    let at = |random: &mut Random| part.start + random.below(part.len());
    match random.below(6) {
        0..3 => {
            let bits: Vec<usize> = (0..1 + random.below(4)).map(|_| 8 * at(random) + random.below(8)).collect();
            bits.iter().for_each(|bit| file[bit / 8] ^= 1 << (bit % 8));
            format!("bits {bits:?} flipped")
        }
        3 => {
            let from = at(random);
            let range = from..part.end.min(from + *random.pick(&[1, 4, 64, 512, 5000]));
            let fill = *random.pick(&[0, 0xFF, 1]);
            file[range.clone()].fill(fill);
            format!("{range:?} filled with {fill}")
        }
        4 => {
            let cell = *random.pick(&[8, 512, original.page_bytes]);
            let (a, b) = (random.below(part.len() / cell), random.below(part.len() / cell));
            let (a, b) = (part.start + a * cell, part.start + b * cell);
            if a != b && a.max(b) + cell <= part.end {
                (0..cell).for_each(|n| file.swap(a + n, b + n));
            }
            format!("{cell} bytes at {a} and {b} swapped")
        }
        _ => {
            let from = at(random);
            let range = from..part.end.min(from + *random.pick(&[1, 8, 100]));
            file[range.clone()].iter_mut().for_each(|byte| *byte = random.next() as u8);
            format!("{range:?} random")
        }
    }
}

struct Damaged {
    original: &'static Original,
    file: Vec<u8>,
    note: String,
}

fn damaged(kind: Kind, seed: u64) -> Damaged {
    let random = &mut Random(seed ^ (kind as u64) << 56);
    random.next();
    let original = random.pick(&ORIGINALS);
    let mut file = original.file.clone();
    let note = if kind == Kind::DictionaryRaw {
        damage_covered(random, original, &mut file)
    } else {
        let mut note = match random.below(6) {
            0 => damage_covered(random, original, &mut file),
            1 => super::damage_raw(random, &mut file),
            _ => damage_fields(random, original, &mut file),
        };
        if random.one_in(20) && file.len() > FOOTER_BYTES {
            // Removes a range before the footer.
            let at = random.below(file.len() - FOOTER_BYTES);
            let bytes = random.below(file.len() - FOOTER_BYTES - at);
            file.drain(at..at + bytes);
            note += &format!("; {bytes} bytes at {at} gone");
        }
        spd::repair(&mut file);
        note
    };
    Damaged { original, file, note }
}

pub fn about(kind: Kind, seed: u64) -> String {
    let damaged = damaged(kind, seed);
    format!("{kind:?}:{seed} {}: {}", damaged.original.name, damaged.note)
}

/// Damages a dictionary and uses it. Returns what went wrong.
pub fn case(kind: Kind, seed: u64, directory: &Path) -> Option<String> {
    let damaged = damaged(kind, seed);
    let path = directory.join("damaged.spd");
    fs::write(&path, &damaged.file).unwrap();
    let untouched = damaged.file == damaged.original.file;
    let random = &mut Random(!seed);
    let promised = (kind == Kind::DictionaryRaw).then_some(&damaged.original.pairs);
    [false, true].into_iter().find_map(|mapped| {
        let wrong = exercise(random, &path, &damaged.original.pairs, promised, mapped, untouched).err()?;
        Some(format!("{wrong}, mapped: {mapped}"))
    })
}

/// Makes every kind of call on the dictionary at `path`. `promised` has the allowed answers; without it, any are.
fn exercise(
    random: &mut Random,
    path: &Path,
    pairs: &Pairs,
    promised: Option<&Pairs>,
    mapped: bool,
    untouched: bool,
) -> Result<(), String> {
    let options = DictionaryOptions::new().map_data(mapped).map_index(random.one_in(2));
    let dictionary = match options.open(path) {
        Ok(dictionary) => dictionary,
        Err(e) if e.to_string().is_empty() => return Err("an error that says nothing".into()),
        Err(e) if untouched => return Err(format!("an undamaged dictionary does not open: {e}")),
        Err(_) => return Ok(()),
    };
    // `verify` runs first or last: it checks what it reads through the mapping.
    let early = random.one_in(2).then(|| dictionary.verify());
    let all: Vec<&Vec<u8>> = pairs.keys().collect();
    let mut keys: Vec<Vec<u8>> = (0..60).filter(|_| !all.is_empty()).map(|_| (*random.pick(&all)).clone()).collect();
    keys.extend((0..20).map(|n| format!("absent {n}").into_bytes()));
    keys.extend([vec![], vec![7; 5000], random.next().to_le_bytes().to_vec()]);
    let right = |key: &Vec<u8>, value: &Option<Vec<u8>>| promised.is_none_or(|pairs| pairs.get(key) == value.as_ref());
    let mut into = Vec::new();
    for key in &keys {
        let got = dictionary.get(key);
        if let Ok(value) = &got
            && !right(key, value)
        {
            return Err(format!("get \"{}\" gives {value:02x?}", key.escape_ascii()));
        }
        let found = dictionary.get_into(key, &mut into);
        let there = dictionary.contains(key);
        if let (Ok(value), Ok(found), Ok(there)) = (&got, found, there)
            && (found != value.is_some() || there != found || found && Some(&into) != value.as_ref())
        {
            return Err(format!("two ways to look \"{}\" up", key.escape_ascii()));
        }
    }
    for keys in [&keys[..], &keys[..keys.len().min(7)]] {
        if let Ok(values) = dictionary.get_many(keys)
            && !keys.iter().zip(&values).all(|(key, value)| right(key, value))
        {
            return Err("get_many gives a wrong value".into());
        }
    }
    let scanned = scan(&dictionary, promised)?;
    let _ = dictionary.stat().map(|stat| format!("{stat:?}"));
    let faults = early.unwrap_or_else(|| dictionary.verify());
    let faults = faults.map(|faults| faults.iter().map(|fault| fault.to_string().len()).sum::<usize>());
    match (promised, faults) {
        (Some(_), Ok(0)) if !untouched => Err("damage that verify does not see".into()),
        (_, Ok(faults)) if untouched && faults > 0 => Err("faults in an undamaged dictionary".into()),
        // If there is no fault, all pairs must be found.
        (None, Ok(0)) if scanned != Some(dictionary.len()) => Err(format!("{scanned:?} pairs, and no fault")),
        _ => Ok(()),
    }
}

/// Reads all pairs; returns their number, or nothing after an error.
fn scan(dictionary: &Dictionary, promised: Option<&Pairs>) -> Result<Option<u64>, String> {
    let mut count = 0;
    for pair in dictionary {
        let Ok((key, value)) = pair else { return Ok(None) };
        if promised.is_some_and(|pairs| pairs.get(&key) != Some(&value)) {
            return Err(format!("iter gives \"{}\" {value:02x?}", key.escape_ascii()));
        }
        count += 1;
    }
    match promised {
        Some(pairs) if count != pairs.len() as u64 => Err(format!("iter gives {count} pairs, without an error")),
        _ => Ok(Some(count)),
    }
}

#[test]
fn a_damaged_dictionary_never_answers_wrongly() {
    no_case_fails(Kind::DictionaryRaw);
}

#[test]
fn a_damaged_dictionary_with_right_checksums_gives_values_or_errors() {
    no_case_fails(Kind::DictionaryRepaired);
}

#[test]
fn a_dictionary_cut_anywhere_does_not_open() {
    let place = directory();
    let path = place.path().join("cut.spd");
    for original in ORIGINALS.iter() {
        fs::write(&path, &original.file).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let steps = if original.file.len() < 10_000 { 1 } else { 5 };
        for bytes in (0..original.file.len()).rev().step_by(steps) {
            file.set_len(bytes as u64).unwrap();
            for mapped in [false, true] {
                let opened = DictionaryOptions::new().map_data(mapped).map_index(mapped).open(&path);
                assert!(opened.is_err(), "{}: opens with {bytes} bytes", original.name);
            }
        }
    }
}

/// Copies the golden shards to `place`, with `text` as their manifest.
fn shards_with(place: &Path, text: &[u8]) -> std::path::PathBuf {
    let path = place.join("shards.spd");
    if !path.exists() {
        fs::create_dir(&path).unwrap();
        for entry in fs::read_dir(fixture(SHARDS)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
        }
    }
    fs::write(path.join("manifest"), text).unwrap();
    path
}

#[test]
fn a_damaged_manifest_is_an_error_and_a_hostile_one_no_way_out() {
    let place = directory();
    let good = fs::read(fixture(SHARDS).join("manifest")).unwrap();
    let pairs = shards_pairs();
    for at in 0..good.len() {
        assert!(Dictionary::open(shards_with(place.path(), &good[..at])).is_err(), "cut to {at}");
        let mut text = good.clone();
        text[at] ^= 1 << (at % 8);
        assert!(Dictionary::open(shards_with(place.path(), &text)).is_err(), "byte {at}");
    }
    // Hostile numbers, names and lines with correct checksums.
    let random = &mut Random(5);
    let mut opened = 0;
    for case in 0..3000 {
        let mut text = good.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len());
            match random.below(6) {
                0 => text[at] = *random.pick(b"0123456789"),
                1 => text[at] = random.next() as u8,
                2 => {
                    let more = *random.pick(&[&b"\n"[..], b" ", b"99999999999999999999", b"../", b"\xff"]);
                    drop(text.splice(at..at, more.iter().copied()));
                }
                3 => drop(text.remove(at)),
                4 => {
                    let mut lines: Vec<_> = text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
                    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
                    if random.one_in(2) {
                        lines.swap(a, b)
                    } else {
                        lines[a] = lines[b].clone()
                    }
                    text = lines.concat();
                }
                _ => drop(text.drain(at..at + random.below(text.len() - at))),
            }
            if text.is_empty() {
                break;
            }
        }
        manifest::repair(&mut text);
        let path = shards_with(place.path(), &text);
        let ours = manifest::Manifest::parse(&text);
        match Dictionary::open(&path) {
            Ok(dictionary) => {
                opened += 1;
                assert!(ours.is_ok(), "case {case}: opens, and should not: {:?}: {}", ours.err(), text.escape_ascii());
                let _ = pairs.keys().try_for_each(|key| dictionary.get(key).map(drop));
                let _ = (scan(&dictionary, None), dictionary.verify().map(|faults| faults.len()));
            }
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    assert!(opened > 30, "{opened} of 3000 were manifests");
}

#[test]
fn shards_that_changed_places_are_named_by_verify() {
    let place = directory();
    let good = String::from_utf8(fs::read(fixture(SHARDS).join("manifest")).unwrap()).unwrap();
    let files: Vec<_> = manifest::Manifest::parse(good.as_bytes()).unwrap().shards;
    let (a, b) = (&files[0], &files[2]);
    let named = |shard: &manifest::Shard| format!(" {} {}\n", shard.pairs, shard.name);
    let text = good.replace(&named(a), "@").replace(&named(b), &named(a)).replace('@', &named(b));
    let mut text = text.into_bytes();
    manifest::repair(&mut text);
    let path = shards_with(place.path(), &text);
    let dictionary = Dictionary::open(path).unwrap();
    let faults = dictionary.verify().unwrap();
    assert!(faults.iter().any(|fault| fault.to_string().contains("another shard")), "{faults:?}");
}

// ---------------------------------------------------------------------------------------------
// Bugs found

/// Applies `edits` (offsets and bytes) to a golden dictionary and corrects its checksums; opens it, looks keys up,
/// scans and verifies.
fn use_edited(name: &str, edits: &[(usize, &[u8])]) {
    let place = directory();
    let path = place.path().join(name);
    let mut file = fs::read(fixture(name)).unwrap();
    for (at, bytes) in edits {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    spd::repair(&mut file);
    fs::write(&path, &file).unwrap();
    let golden = GOLDEN.iter().find(|golden| golden.name == name).unwrap();
    let pairs = (golden.pairs)();
    for mapped in [false, true] {
        let dictionary = DictionaryOptions::new().map_data(mapped).open(&path).unwrap();
        for key in pairs.keys() {
            let _ = dictionary.get(key);
        }
        let _ = (scan(&dictionary, None), dictionary.verify().map(|faults| faults.len()));
    }
}

#[test]
fn a_start_after_the_end_of_the_stream_is_invalid() {
    let reader = Reader::new(&fs::read(fixture("page-varied.spd")).unwrap()).unwrap();
    let last = reader.footer.pages * reader.header.page_bytes;
    let body = reader.header.body_bytes();
    assert!(reader.footer.stream_bytes % body < 480, "the last page has room");
    use_edited("page-varied.spd", &[(last + 4 + 14, &490u16.to_le_bytes())]);
    use_edited("page-varied.spd", &[(last + 4, &[490u16.to_le_bytes(); 8].concat())]);
    use_edited("none.spd", &[(last + 4, &[490u16.to_le_bytes(); 8].concat())]);
}

#[test]
fn a_block_of_all_bytes_there_can_be_is_an_error() {
    // The first block of the first page.
    use_edited("page-lz4.spd", &[(512 + 20, &[0xFF; 16])]);
    use_edited("page-lz4.spd", &[(512 + 20, &[0xFF; 8]), (512 + 28, &(u64::MAX - 1).to_le_bytes())]);
}

#[test]
fn no_records_of_one_size_are_none() {
    use_edited("empty.spd", &[(16, &1u32.to_le_bytes()), (20, &9u32.to_le_bytes())]);
}
