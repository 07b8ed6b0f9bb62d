//! Monotone minimal perfect hash functions of Belazzougui, Boldi, Pagh and Vigna, by longest common prefixes, in their
//! author's crate. The third row of the paper's Table 1.
//!
//! Such a function maps a key to its rank in the order of the *keys*, so it is built from sorted ones; the sort is
//! timed, as it is for peers that need it. Settings: "lcp", and "lcp2", which takes two steps and fewer bits.

use super::functions::{Built, built, keep};
use crate::engine::{Engine, Made, Maker, Making, Outcome, Pairs, Place};
use dsi_progress_logger::no_logging;
use mem_dbg::{MemSize, SizeFlags};
use std::path::Path;
use sux::func::{Lcp2MmphfSliceU8, LcpMmphfSliceU8};
use sux::traits::TryIntoUnaligned;

/// The engine.
pub struct Mmph;

/// Bytes per key in the measurements: arrays in a slice are its fastest input.
const KEY_BYTES: usize = 12;

impl Engine for Mmph {
    fn name(&self) -> &str {
        "mmph"
    }

    fn version(&self) -> String {
        "sux 0.15".into()
    }

    fn settings(&self, place: Place) -> Vec<String> {
        if place == Place::Dictionary { vec!["lcp".into(), "lcp2".into()] } else { Vec::new() }
    }

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }

    fn is_special(&self) -> bool {
        true
    }
}

impl Maker for Mmph {
    fn wants_order(&self) -> bool {
        true
    }

    fn is_function(&self, _: &str) -> bool {
        true
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        let mut keys: Vec<[u8; KEY_BYTES]> = Vec::new();
        pairs.each(&mut |key, _| {
            keys.push(key.try_into().map_err(|_| format!("a key of {} bytes, not {KEY_BYTES}", key.len()))?);
            Ok(())
        })?;
        let count = keys.len();
        // Keys of equal length are never prefixes of each other, as these functions require.
        if making.setting == "lcp2" {
            let function = <Lcp2MmphfSliceU8>::try_par_new(&keys, no_logging![])?.try_into_unaligned()?;
            let bytes = function.mem_size(SizeFlags::default());
            keep(Built::of_keys(count, bytes, move |key| function.get(key)));
        } else {
            let function = <LcpMmphfSliceU8>::try_par_new(&keys, no_logging![])?.try_into_unaligned()?;
            let bytes = function.mem_size(SizeFlags::default());
            keep(Built::of_keys(count, bytes, move |key| function.get(key)));
        }
        Ok(())
    }

    fn open(&self, _: &Path, _: &str, _: bool) -> Outcome<Box<dyn Made>> {
        built()
    }
}
