//! Good tables that targets begin with: the golden files, compiled in.
//!
//! An input names one by its place in the list, so new ones come last. When a golden file is written anew, seeds mean
//! something else where it changed; they stay good inputs, but a finding's seed has to be made again.

use crate::fields::{Field, fields_of};
use crate::spt::Reader;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A good table file and what is known of it.
pub struct Base {
    pub file: &'static [u8],
    pub reader: Reader<'static>,
    pub fields: Vec<Field>,
    pub pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Its keys, and one that it does not have.
    pub keys: Vec<Vec<u8>>,
}

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../../fixtures/v1/", $name))
    };
}

const FILES: &[&[u8]] = &[
    golden!("example.spt"),
    golden!("empty.spt"),
    golden!("inline.spt"),
    golden!("overflow.spt"),
    golden!("chains.spt"),
    golden!("extents.spt"),
    golden!("fnv1a-512.spt"),
    golden!("siphash13.spt"),
    golden!("page-4096.spt"),
    golden!("page-8192.spt"),
];

/// A table and its log, as a killed process left them. Apart from the others, which inputs name by their index.
pub static CRASHED: LazyLock<Base> = LazyLock::new(|| Base::read(golden!("crashed.spt")));
pub const CRASHED_LOG: &[&[u8]] = &[golden!("crashed.spt-log0"), golden!("crashed.spt-log1")];

/// All of them.
pub static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| FILES.iter().map(|file| Base::read(file)).collect());

impl Base {
    fn read(file: &'static [u8]) -> Base {
        let reader = Reader::new(file).expect("golden files are good");
        let found = reader.pairs().expect("golden files are good");
        let mut keys: Vec<Vec<u8>> = found.iter().map(|(_, (key, _))| key.clone()).collect();
        keys.push(b"absent".to_vec());
        let pairs = found.into_iter().map(|(_, pair)| pair).collect();
        Base { file, fields: fields_of(&reader), reader, pairs, keys }
    }
}
