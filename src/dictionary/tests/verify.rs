//! A check names the pages whose heads are not those of their records.

#![allow(clippy::disallowed_methods, reason = "a test damages a file")]
use super::model::{builder, in_directory, pairs};
use crate::dictionary::format::ends::{FOOTER_BYTES, Footer};
use crate::dictionary::format::page;
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::{Compression, Dictionary, Index};

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
                repair(&mut bytes, &file.files[0]);
                std::fs::write(&path, bytes).unwrap();
                let faults = Dictionary::open(&path).unwrap().verify().unwrap();
                let named = format!("page {page}");
                assert!(faults.iter().any(|fault| fault.place == named), "{index:?}: {named}, {at}: {faults:?}");
            }
        });
    }
}

/// Makes all checksums those of the bytes.
fn repair(bytes: &mut [u8], file: &DictionaryFile) {
    let mut sum = 0;
    for number in 1..=file.footer.pages {
        let page_bytes = &mut bytes[number as usize * PAGE_BYTES..][..PAGE_BYTES];
        let own = page::checksum(number, page_bytes).to_le_bytes();
        page_bytes[..4].copy_from_slice(&own);
        sum = crc32c::crc32c_append(sum, &own);
    }
    let footer = Footer { data_checksum: sum, ..file.footer.clone() };
    let at = bytes.len() - FOOTER_BYTES;
    bytes[at..].copy_from_slice(&footer.bytes());
}
