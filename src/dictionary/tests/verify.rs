//! A check reports the pages whose heads do not match their records, and padding that is not zero.

#![allow(clippy::disallowed_methods, reason = "a test damages a file")]
use super::model::{KINDS, builder, in_directory, indexes, pairs};
use crate::checksum::crc32c_append;
use crate::dictionary::format::ends::{FOOTER_BYTES, Footer};
use crate::dictionary::format::page;
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::{Compression, Dictionary, Index};
use crate::error::ErrorKind;
use std::cell::Cell;
use std::ops::ControlFlow;

const PAGE_BYTES: usize = 512;

#[test]
fn starts_and_pages_back_that_are_not_those_of_the_records_are_named() {
    for (compression, index) in [(Compression::None, Index::page()), (Compression::Lz4, Index::chunk())] {
        in_directory(|path| {
            builder(index).compression(compression).block_bytes(200).build(&path, pairs("sizes", 3000, 5)).unwrap();
            let whole = std::fs::read(&path).unwrap();
            let file = Dictionary::open(&path).unwrap();
            assert_eq!(file.verify().unwrap(), []);
            let count = file.files[0].footer.pages as usize;
            let begins = |number: &usize| page::start(&whole[number * PAGE_BYTES..], 0).is_some();
            let with = (1..=count).filter(begins).nth(20).unwrap();
            let without = (1..=count).filter(|page| !begins(page)).nth(20).unwrap();
            for (page, at) in [(with, 4), (with, 6), (with, 18), (without, 16), (count, 4)] {
                let mut bytes = whole.clone();
                bytes[page * PAGE_BYTES + at] ^= 1;
                repair_pages(&mut bytes, &file.files[0], PAGE_BYTES);
                std::fs::write(&path, bytes).unwrap();
                let faults = Dictionary::open(&path).unwrap().verify().unwrap();
                let named = format!("page {page}");
                assert!(faults.iter().any(|fault| fault.place == named), "{index:?}: {named}, {at}: {faults:?}");
            }
        });
    }
}

#[test]
fn every_byte_of_padding_that_is_not_zero_is_named() {
    const PAGE_BYTES: usize = 1024;
    in_directory(|path| {
        builder(Index::trie()).page_bytes(PAGE_BYTES as u32).build(&path, pairs("sizes", 3000, 5)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let file = Dictionary::open(&path).unwrap();
        assert_eq!(file.verify().unwrap(), []);
        let footer = &file.files[0].footer;
        let [first, second] = &footer.sections[..] else { panic!("trie and ranks: {:?}", footer.sections) };
        let data_end = (footer.pages as usize + 1) * PAGE_BYTES;
        let unused = footer.pages * file.files[0].pages.body_bytes() - footer.stream_bytes;
        let (first_end, second_at) = ((first.offset + first.bytes) as usize, second.offset as usize);
        assert!(unused > 0 && data_end < first.offset as usize && first_end < second_at, "no padding: {footer:?}");
        let stream_end = data_end - unused as usize;
        let ranges = [(stream_end, data_end), (data_end, first.offset as usize), (first_end, second_at)];
        for at in ranges.iter().flat_map(|(start, end)| [*start, end - 1]) {
            let mut bytes = whole.clone();
            bytes[at] = 7;
            if at < data_end {
                repair_pages(&mut bytes, &file.files[0], PAGE_BYTES);
            }
            std::fs::write(&path, bytes).unwrap();
            let faults = Dictionary::open(&path).unwrap().verify().unwrap();
            let [fault] = &faults[..] else { panic!("byte {at}: {faults:?}") };
            assert!(fault.place == "padding" && fault.what.starts_with(&format!("byte {at} is 07")), "{fault}");
        }
        for at in [512, PAGE_BYTES - 1] {
            let mut bytes = whole.clone();
            bytes[at] = 7;
            std::fs::write(&path, &bytes).unwrap();
            let refused = Dictionary::open(&path).err().expect("the header page is checked at open");
            assert_eq!(refused.kind(), ErrorKind::Corrupt);
            assert!(refused.to_string().contains(&format!("header page: byte {at} is 07")), "{refused}");
            let faults = file.verify().unwrap();
            assert_eq!(faults.len(), 1, "the file was damaged after it was opened: {faults:?}");
        }
        std::fs::write(&path, &whole).unwrap();
    });
}

#[test]
fn parts_that_are_well_are_found_well_and_parts_that_are_not_are_not() {
    for index in indexes() {
        for kind in KINDS {
            for compression in [Compression::None, Compression::Lz4] {
                in_directory(|path| {
                    let context = format!("{index:?}, {kind}, {compression:?}");
                    let count = if kind == "fixed, long" { 300 } else { 5000 };
                    let builder = builder(index).compression(compression).block_bytes(300).shards(2);
                    builder.filter(8).build(&path, pairs(kind, count, 5)).unwrap();
                    let mut dictionary = Dictionary::open(&path).unwrap();
                    let (is_well, parts) = dictionary.is_well_in_parts(2);
                    let whole = index == Index::chunk() && dictionary.files[0].record_bytes().is_none();
                    assert!(is_well || whole, "{context}: {parts} parts");
                    assert!(parts > 5 || whole, "{context}: {parts} parts");
                    dictionary.files.swap(0, 1);
                    assert!(!dictionary.is_well_in_parts(2).0, "{context}: keys of another shard");
                });
            }
        }
    }
}

#[test]
fn a_check_ends_where_its_caller_says() {
    in_directory(|path| {
        builder(Index::page()).shards(2).build(&path, pairs("sizes", 3000, 5)).unwrap();
        let dictionary = Dictionary::open(&path).unwrap();
        let asked = |limit: usize| {
            let count = Cell::new(0);
            let ended = dictionary.verify_with(0, |_| {
                count.set(count.get() + 1);
                if count.get() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            (ended, count.get())
        };
        let (whole, times) = asked(usize::MAX);
        assert!(whole.unwrap().is_empty() && times >= 4, "asked {times} times");
        for limit in 1..=times {
            let (ended, count) = asked(limit);
            assert_eq!((ended.unwrap_err().kind(), count), (ErrorKind::Stopped, limit));
        }
    });
}

/// Recomputes all checksums from the bytes.
fn repair_pages(bytes: &mut [u8], file: &DictionaryFile, page_bytes: usize) {
    let mut sum = 0;
    for number in 1..=file.footer.pages {
        let page = &mut bytes[number as usize * page_bytes..][..page_bytes];
        let own = page::checksum(number, page).to_le_bytes();
        page[..4].copy_from_slice(&own);
        sum = crc32c_append(sum, &own);
    }
    let footer = Footer { data_checksum: sum, ..file.footer.clone() };
    let at = bytes.len() - FOOTER_BYTES;
    bytes[at..].copy_from_slice(&footer.bytes());
}
