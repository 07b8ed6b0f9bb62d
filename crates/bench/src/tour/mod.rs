//! What `make run` runs: real data in and out of a table, timed, checked, and compared with figures of 1991.
//!
//! The tests repeat Figures 8a and 8b of Seltzer & Yigit 1991, on a free English word list and on generated accounts.
//! Two more questions follow: how does it compare with the standard library's map, and how long does the
//! slowest single put take while a table grows? `suite.rs` and `growth.rs` run and time, `paper.rs` holds the figures
//! of 1991, `report.rs` prints.
//!
//! Every answer is checked; a wrong one ends the tour with an error.

mod growth;
mod paper;
mod report;
mod suite;

use crate::engine::Outcome;
use crate::input::Source;
use crate::workload::{Input, repository_file};
use report::Report;
use splitpoint::TableOptions;
use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Write};
use suite::Bench;

/// Words in `data/english-words.txt`.
const WORDS: u64 = 172_823;
/// Accounts of the paper's password file; two pairs each.
const ACCOUNTS: u64 = 300;
const SEED: u64 = 1991;

/// All pairs, in memory before a clock starts.
type PairList = Vec<(Vec<u8>, Vec<u8>)>;

/// Runs the parts of the tour, and prints each as soon as it is done.
///
/// # Errors
/// A wrong answer, a failure of the table or of its disk.
pub fn run(runs: u32, pairs: u64) -> Outcome {
    let place = repository_file("target/tour");
    // A tour that was interrupted has left it.
    if let Err(error) = fs::remove_dir_all(&place)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(format!("{}: {error}", place.display()).into());
    }
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let walked = walk(&Bench { place: &place, runs }, pairs, &mut std::io::stdout());
    let removed = fs::remove_dir_all(&place);
    walked?;
    Ok(removed?)
}

fn walk(bench: &Bench<'_>, growing: u64, out: &mut dyn Write) -> Outcome {
    let mut report = Report { out };
    report.head(bench)?;
    let words = listed(&Input::Words, WORDS)?;
    report.words(&words, &bench.on_disk(&words, TableOptions::new)?)?;
    report.memory(&words, &bench.in_memory(&words)?)?;

    let few = listed(&Input::Words, paper::WORDS)?;
    report.figure_8a(&few, &bench.on_disk(&few, paper::disk_options)?, &bench.in_memory(&few)?)?;

    let accounts = listed(&Input::Accounts { seed: SEED }, ACCOUNTS)?;
    report.figure_8b(&accounts, &bench.on_disk(&accounts, paper::disk_options)?, &bench.in_memory(&accounts)?)?;

    report.growth(&growth::grow(bench.place, growing)?)?;
    report.try_next()
}

fn listed(input: &Input, count: u64) -> Outcome<PairList> {
    let source = Source::new(input, count)?;
    let pair = |i| {
        let mut key = Vec::new();
        let middle = source.write(i, &mut key);
        let value = key.split_off(middle);
        (key, value)
    };
    Ok((0..source.count()).map(pair).collect())
}

/// The error for a key with another answer than expected, or without an answer.
fn wrong_answer(what: &str, key: &[u8]) -> Box<dyn Error> {
    let key = key.escape_ascii();
    format!("wrong answer: {what} for the key \"{key}\". This is a bug in splitpoint; please report it").into()
}

fn expect_total(what: &str, found: u64, expected: u64) -> Outcome {
    if found == expected {
        return Ok(());
    }
    let advice = "This is a bug in splitpoint; please report it";
    Err(format!("wrong answer: {what} gave {found}, {expected} expected. {advice}").into())
}

fn total_bytes(pairs: &PairList) -> u64 {
    pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_fits_a_terminal_of_80_columns_and_leaves_no_file() {
        let place = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        walk(&Bench { place: place.path(), runs: 2 }, 5000, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for expected in ["172,823 words", "create           |  99.6   90.4  |", "600 pairs", "empty to 5,000 pairs"] {
            assert!(text.contains(expected), "{expected} is missing:\n{text}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
