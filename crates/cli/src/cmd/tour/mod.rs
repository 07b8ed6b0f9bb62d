//! `tour`: real data in and out of a table, timed, checked, and compared with the paper's figures. `make run` runs it.
//!
//! The tests are those of Seltzer & Yigit 1991, Figures 8a and 8b, on a free English word list and on generated
//! accounts. Two more questions follow: how does it compare with the standard library's map, and how long does the
//! slowest single put take while a table grows? `data.rs` makes the pairs before a clock starts, `suite.rs` runs and
//! times, `paper.rs` holds the figures of 1991, `report.rs` prints them as text or JSON.
//!
//! Every answer is checked; a wrong one ends the tour with an error.

mod data;
mod growth;
mod measure;
mod paper;
mod report;
mod suite;

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Output;
use data::PairList;
use report::Report;
use splitpoint::TableOptions;
use suite::Bench;

/// Most runs of the growing table; each run is long enough to be stable.
const GROWTH_RUNS_MAX: u32 = 3;

/// Demonstrate the program: store and read an English dictionary, compared with the paper's figures
///
/// Works in a temporary directory and removes it. Under half a minute in a release build.
#[derive(clap::Args)]
pub struct Tour {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Number of times to run each test; the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Pairs of the growing table at the end
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u32).range(1..=100_000_000)
    )]
    pairs: u32,
    /// Write the English word list to standard output instead
    #[arg(long, conflicts_with_all = ["json", "runs", "pairs"])]
    words: bool,
}

impl Tour {
    pub fn run(self) -> Result<()> {
        if self.words {
            let mut out = Output::stdout();
            out.write(data::WORDS)?;
            return out.flush();
        }
        let interrupt = Interrupt::watch()?;
        let place = tempfile::Builder::new().prefix("splitpoint-tour-").tempdir();
        let place = place.map_err(|error| Failure::io("no temporary directory", &error))?;
        let bench = Bench { place: place.path(), runs: self.runs, interrupt: &interrupt };
        let mut report = Report::new(self.json, self.runs, place.path())?;
        self.walk(&bench, &mut report)?;
        report.end()
    }

    /// Runs the parts of the tour, and reports each as soon as it is done.
    fn walk(&self, bench: &Bench<'_>, report: &mut Report) -> Result<()> {
        let words = data::words();
        let on_disk = bench.on_disk(&words, TableOptions::new)?;
        report.words(&words, &on_disk)?;
        report.histogram(&on_disk.stat)?;

        let memory = bench.in_memory(&words, TableOptions::new)?;
        report.memory(&words, &memory)?;

        let few = data::nth_words(paper::WORDS);
        report.figure_8a(
            &few,
            &bench.on_disk(&few, paper::disk_options)?,
            &bench.in_memory(&few, TableOptions::new)?,
        )?;

        let accounts = data::accounts();
        let on_disk = bench.on_disk(&accounts, paper::disk_options)?;
        report.figure_8b(&accounts, &on_disk, &bench.in_memory(&accounts, TableOptions::new)?)?;

        let random = data::random_pairs(self.pairs as usize);
        let growing = Bench { runs: self.runs.min(GROWTH_RUNS_MAX), ..*bench };
        report.growth(&growth::grow(&growing, &random)?)?;
        report.try_next()
    }
}

/// The failure for a key with two different answers, or none.
fn wrong_answer(what: &str, key: &[u8]) -> Failure {
    let key = crate::escapes::quoted(key);
    Failure::no(format_args!("wrong answer: {what} for the key {key}. This is a bug in splitpoint; please report it"))
}

fn wrong_total(what: &str, found: u64, expected: u64) -> Failure {
    Failure::no(format_args!(
        "wrong answer: {what} gave {found}, {expected} expected. This is a bug in splitpoint; please report it"
    ))
}

fn total_bytes(pairs: &PairList) -> u64 {
    pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}
