//! A dictionary to read: opening it, and a part of it by hash order. For commands that read tables, too.
//!
//! Not here: making dictionaries (`dict/`).

use crate::failure::{Failure, Result};
use crate::open::{StoreKind, stored};
use splitpoint::{Dictionary, ErrorKind};
use std::ops::RangeInclusive;
use std::path::Path;

/// Opens a dictionary. If the file is a table, the error names the command that turns it into one.
pub fn open(path: &Path) -> Result<Dictionary> {
    Dictionary::open(path).map_err(|error| {
        if error.kind() == ErrorKind::NotADictionary && stored(path).is_ok_and(|kind| kind == Some(StoreKind::Table)) {
            let name = path.display();
            return Failure::of_kind(
                ErrorKind::NotADictionary,
                format_args!("{name}: is a table, not a dictionary; `splitpoint freeze {name} DICT` turns it into one"),
            );
        }
        error.into()
    })
}

/// A part of hash order, which has about the same part of the pairs.
#[derive(clap::Args)]
pub struct PartArgs {
    /// Only the K-th of N equal parts of hash order, from 1; for a table, N is a power of two
    #[arg(long, value_name = "K/N", default_value = "1/1", hide_default_value = true, value_parser = parse_part)]
    part: (u64, u64),
}

fn parse_part(text: &str) -> std::result::Result<(u64, u64), String> {
    let part = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    part.filter(|(k, n)| (1..=*n).contains(k)).ok_or_else(|| "expected K/N, as in 3/16, with K from 1 to N".to_owned())
}

impl PartArgs {
    /// All pairs.
    pub const WHOLE: PartArgs = PartArgs { part: (1, 1) };

    /// Returns the positions in the part.
    pub fn positions(&self) -> RangeInclusive<u64> {
        let (k, n) = self.part;
        // The first position at or after a boundary; 2^64 after the last part.
        let boundary = |k: u64| (u128::from(k) << 64).div_ceil(u128::from(n));
        let last = u64::try_from(boundary(k) - 1).expect("below 2^64");
        u64::try_from(boundary(k - 1)).expect("below 2^64")..=last
    }

    /// Returns the part as the high bits of its positions, and the number of these bits.
    ///
    /// # Errors
    /// The number of parts is not a power of two.
    pub fn prefix(&self) -> Result<(u64, u32)> {
        let (_, n) = self.part;
        if !n.is_power_of_two() {
            return Err(Failure::usage("--part K/N of a table needs an N that is a power of two"));
        }
        Ok((*self.positions().start(), n.ilog2()))
    }

    /// Returns the part's share of `pairs`.
    pub fn of(&self, pairs: u64) -> u64 {
        pairs / self.part.1
    }
}
