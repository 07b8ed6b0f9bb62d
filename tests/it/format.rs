//! docs/format.md and the golden files, against the library and the second reader.
//!
//! Every change of the bytes that the library writes is detected here. `UPDATE=1 cargo test --test it library_writes`
//! rewrites the golden files. That is right only if something changed that the format leaves open (which space is
//! allocated, when a bucket splits); if the format changed, see docs/format.md, "Changes".

use crate::golden::{GOLDEN, Golden, Pairs, ZONES, fixture, scanned};
use crate::spt::{self, Extent, Page, Reader};
use splitpoint::TableOptions;
use std::fs;
use std::path::Path;

pub fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/format.md")).unwrap()
}

pub fn updating() -> bool {
    std::env::var_os("UPDATE").is_some_and(|v| v == "1")
}

/// Compares fresh bytes with a golden file, or writes the file.
fn compare_or_update(name: &str, fresh: &[u8]) {
    let path = fixture(name);
    if updating() {
        fs::write(&path, fresh).unwrap();
    }
    let golden = fs::read(&path).unwrap_or_default();
    let differs = golden.iter().zip(fresh).position(|(a, b)| a != b);
    assert!(
        golden == fresh,
        "{name}: {} bytes, golden {}; first difference at byte {differs:?}. If the format changed: docs/format.md, \
         \"Changes\". If only the layout changed: UPDATE=1 cargo test --test it library_writes",
        fresh.len(),
        golden.len()
    );
}

/// Opens a copy of `path` read-only and for writing, and checks the pairs and the file.
pub fn holds(path: &Path, pairs: &Pairs) {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.spt");
    fs::copy(path, &copy).unwrap();
    let before = fs::read(&copy).unwrap();
    for reading in [true, false] {
        let table = TableOptions::new().create(false).read_only(reading).open(&copy).unwrap();
        assert_eq!(table.len(), pairs.len() as u64);
        for (key, value) in pairs {
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]), "{}", key.escape_ascii());
        }
        assert_eq!(table.get(b"no such key").unwrap(), None);
        assert!(scanned(&table) == *pairs, "{}: a scan gives other pairs", path.display());
        assert_eq!(table.verify().unwrap(), [], "{}", path.display());
        table.close().unwrap();
        assert!(!reading || fs::read(&copy).unwrap() == before, "reading changed the file");
    }
}

#[test]
fn golden_files_hold_their_pairs() {
    for golden in GOLDEN {
        holds(&golden.file(), &golden.pairs());
    }
}

#[test]
fn golden_files_are_what_the_library_writes_today() {
    let directory = tempfile::tempdir().unwrap();
    for golden in GOLDEN {
        let path = directory.path().join(golden.name);
        golden.write(&path);
        compare_or_update(&format!("{}.spt", golden.name), &spt::without_random(&fs::read(&path).unwrap()));
    }
    let zones = directory.path().join("zones");
    ZONES.write(&zones);
    let bytes = spt::without_random(&fs::read(zones).unwrap());
    // Without the headers: bytes followed by their own CRC add nothing to the CRC of what follows.
    let (header, rest) = bytes.split_at(2 * spt::HEADER_BYTES);
    let sums = (spt::header_sum(header), spt::crc32c(0, rest));
    let sum = format!("{} bytes, CRC-32C {:08x} and {:08x}\n", bytes.len(), sums.0, sums.1);
    compare_or_update("zones.sum", sum.as_bytes());
}

/// Checks what the second reader finds in `file`: the expected pairs, each once, and all space accounted for.
fn reads_alike(golden: &Golden, file: &[u8]) {
    let reader = Reader::new(file).unwrap_or_else(|e| panic!("{}: {e}", golden.name));
    let found = reader.pairs().unwrap_or_else(|e| panic!("{}: {e}", golden.name));
    let pairs: Pairs = found.iter().map(|(_, pair)| pair.clone()).collect();
    assert_eq!(pairs.len(), found.len(), "{}: a key is there twice", golden.name);
    assert!(pairs == golden.pairs(), "{}: other pairs", golden.name);
    assert_eq!(reader.reached().unwrap(), reader.marked(), "{}: used bits", golden.name);

    // Counters of the root.
    let pages = reader.pages().unwrap();
    let payload: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
    let records = || pages.iter().flat_map(|p| &p.page.records);
    let in_pages: usize = records().map(|r| spt::SLOT_BYTES + r.end - r.at).sum();
    let counter = |at| spt::u64_at(file, spt::ROOT_AT + at) as usize;
    assert_eq!((counter(40), counter(48), counter(56)), (pairs.len(), payload, in_pages), "{}", golden.name);
    for found in pages.iter().filter(|found| found.page.kind == 2) {
        let primary = pages.iter().find(|p| p.bucket == found.bucket).expect("it came by the primary page");
        let filter = found.page.records.iter().fold(0, |bits, r| bits | spt::filter_bits(r.tag));
        assert_eq!(filter & !primary.page.filter, 0, "{}: bucket {}", golden.name, found.bucket);
    }
}

#[test]
fn a_second_reader_finds_the_same_in_the_golden_files() {
    for golden in GOLDEN {
        reads_alike(golden, &fs::read(golden.file()).unwrap());
    }
}

#[test]
fn a_second_reader_finds_the_same_in_a_file_of_several_zones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("zones.spt");
    ZONES.write(&path);
    let file = fs::read(&path).unwrap();
    let frames = Reader::new(&file).unwrap().geometry.frame_count;
    assert!(frames > spt::ZONE_FRAMES, "{frames} frames are one zone");
    reads_alike(&ZONES, &file);
    holds(&path, &ZONES.pairs());
}

#[test]
fn golden_files_have_the_structures_they_were_made_for() {
    let count = |name: &str, wanted: &dyn Fn(&spt::Found) -> usize| -> usize {
        let file = fs::read(fixture(name)).unwrap();
        Reader::new(&file).unwrap().pages().unwrap().iter().map(wanted).sum()
    };
    let form = |form| move |p: &spt::Found| p.page.records.iter().filter(|r| r.form == form).count();
    let overflow = |p: &spt::Found| usize::from(p.page.kind == 2);
    assert!(count("overflow.spt", &overflow) > 20);
    assert!(count("chains.spt", &|p| usize::from(p.page.kind == 2 && p.page.next != 0)) > 1, "a chain of three");
    assert!(count("extents.spt", &form(1)) > 10);
    assert!(count("extents.spt", &form(2)) > 5);
    assert_eq!(count("inline.spt", &form(1)) + count("inline.spt", &form(2)), 0);
    assert_eq!([0, 1, 2].map(|f| count("example.spt", &form(f))), [1, 1, 1]);
    for golden in GOLDEN {
        let bytes = fs::metadata(golden.file()).unwrap().len();
        assert!(bytes <= 192 << 10, "{}: {bytes} bytes", golden.name);
    }
}

#[test]
fn a_pair_of_a_golden_file_is_in_the_bucket_and_under_the_tag_of_its_hash() {
    let fnv1a = |key: &[u8]| {
        key.iter().fold(0xCBF2_9CE4_8422_2325u64, |h, &byte| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
    };
    let file = fs::read(fixture("fnv1a-512.spt")).unwrap();
    let reader = Reader::new(&file).unwrap();
    let max_bucket = u64::from(reader.geometry.max_bucket);
    for found in reader.pages().unwrap() {
        for record in &found.page.records {
            let hash = fnv1a(&reader.pair(record).unwrap().0);
            assert_eq!(record.tag, spt::tag_of(hash));
            // The bucket among all of a generation; if it does not exist, among half as many.
            let all = max_bucket.next_power_of_two().max((max_bucket + 1).next_power_of_two());
            let bucket = if hash % all <= max_bucket { hash % all } else { hash % (all / 2) };
            assert_eq!(u64::from(found.bucket), bucket);
            if record.form == 2 {
                assert_eq!(record.key, hash.to_le_bytes());
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------
// The document

/// Parses the hex dump in the block after `heading`: rows of `offset: 8 bytes`; a row of `*` stands for repeated rows.
pub fn dump_in(document: &str, heading: &str) -> (usize, Vec<u8>) {
    let section = document.split_once(heading).unwrap_or_else(|| panic!("no {heading}")).1;
    let block = section.split("```").nth(1).expect("a block");
    let (mut start, mut bytes, mut repeat) = (None, Vec::<u8>::new(), false);
    for row in block.lines().skip(1) {
        if row.trim() == "*" {
            repeat = true;
            continue;
        }
        let mut words = row.split_whitespace();
        let at = usize::from_str_radix(words.next().expect("an offset"), 16).expect("an offset in hex");
        let start = *start.get_or_insert(at);
        if repeat {
            let last = bytes[bytes.len() - 8..].to_vec();
            while start + bytes.len() < at {
                bytes.extend(&last);
            }
            repeat = false;
        }
        assert_eq!(start + bytes.len(), at, "rows of 8 bytes follow each other");
        let hex = words.take(8).take_while(|w| w.len() == 2);
        bytes.extend(hex.map(|w| u8::from_str_radix(w, 16).expect("a byte in hex")));
    }
    (start.expect("rows"), bytes)
}

pub fn dump(start: usize, bytes: &[u8]) -> String {
    let mut rows = String::new();
    let mut last: &[u8] = &[];
    for (n, row) in bytes.chunks(8).enumerate() {
        let end = 8 * (n + 1) == bytes.len();
        if row == last && !end {
            if !rows.ends_with("*\n") {
                rows.push_str("*\n");
            }
            continue;
        }
        let hex: Vec<String> = row.iter().map(|b| format!("{b:02x}")).collect();
        let text: String = row.iter().map(|&b| if b.is_ascii_graphic() { b as char } else { '.' }).collect();
        rows.push_str(&format!("{:04x}  {}  |{text}|\n", start + 8 * n, hex.join(" ")));
        last = row;
    }
    rows
}

#[test]
fn the_documents_page_is_the_first_page_of_the_example_and_reads_as_the_document_says() {
    let file = fs::read(fixture("example.spt")).unwrap();
    let reader = Reader::new(&file).unwrap();
    let at = reader.in_file(reader.geometry.page_at(0).unwrap()).expect("it was written");
    let expected = &file[at..at + 512];
    let (start, bytes) = dump_in(&document(), "### Example: a page");
    assert!((start, &bytes[..]) == (at, expected), "the document should show:\n{}", dump(at, expected));

    let page = Page::parse(&bytes).unwrap();
    assert_eq!((page.kind, page.level, page.next, page.filter), (1, 0, 0, 0));
    let forms: Vec<u8> = page.records.iter().map(|r| r.form).collect();
    assert_eq!(forms, [0, 1, 2]);
    let [alice, biography, big] = &page.records[..] else { panic!("three records") };
    assert_eq!((&alice.key[..], &alice.value[..]), (&b"alice"[..], &b"admin"[..]));
    assert_eq!(biography.key, b"biography");
    let extent = Extent::parse(&biography.value).unwrap();
    assert_eq!((extent.key_bytes, extent.value_bytes), (0, 200));
    let extent = Extent::parse(&big.value).unwrap();
    assert_eq!((big.key.len(), extent.key_bytes, extent.value_bytes), (8, 70, 6));
}

#[test]
fn the_documents_checksums_are_those_of_the_example() {
    let file = fs::read(fixture("example.spt")).unwrap();
    let document = document();
    let reader = Reader::new(&file).unwrap();
    let frame = reader.geometry.page_at(0).unwrap() / reader.geometry.frame_bytes;
    let sum = spt::frame_sum(frame, reader.frame(frame));
    let wanted = format!("the checksum of frame {frame} is `{sum:08x}`");
    assert!(document.contains(&wanted), "the document should say: {wanted}");
    assert_eq!(spt::crc32c(0, b"123456789"), 0xE306_9283, "the check value of CRC-32C");
}

#[test]
fn every_constant_in_the_documents_summary_is_the_second_readers() {
    let document = document();
    for (name, number) in [
        ("frames a zone", spt::ZONE_FRAMES),
        ("units a frame", spt::FRAME_UNITS),
        ("map groups", spt::MAP_GROUP_COUNT),
        ("bucket groups", spt::GROUP_COUNT),
        ("bytes of a page's header", spt::PAGE_HEADER_BYTES),
        ("bytes of a slot", spt::SLOT_BYTES),
        ("bytes of an extent's reference", spt::EXTENT_BYTES),
        ("bytes of a node's header", spt::NODE_HEADER_BYTES),
        ("bytes of an entry", spt::ENTRY_BYTES),
    ] {
        assert!(document.contains(&format!("| {name} | {number} |")), "{name}: {number}");
    }
}
