//! The output of the tour: text for a terminal of 80 columns, printed part by part.

use super::growth::{Growth, Pace};
use super::paper::{self, PaperTest};
use super::suite::{Bench, InMemory, OnDisk, Samples, Times};
use super::{PairList, total_bytes};
use crate::engine::Outcome;
use crate::report::grouped;
use std::io::Write;
use std::time::Duration;

const TRY_NEXT: &str = "
Try next, with the program: cargo install --locked --path crates/cli
   splitpoint load words.spt data/english-words.txt --format lines --number
   splitpoint get words.spt zymurgy
   splitpoint put words.spt splitpoint 'a new word'
   splitpoint scan words.spt --limit 5
   splitpoint stat words.spt
   splitpoint check words.spt
   splitpoint dump words.spt --format jsonl | head
   splitpoint --help
";

const PACE_HEAD: &str = "\n                       elapsed        words/s    fastest .. slowest run";

/// Prints to `out`.
pub struct Report<'o> {
    pub out: &'o mut dyn Write,
}

impl Report<'_> {
    fn line(&mut self, text: &str) -> Outcome {
        Ok(writeln!(self.out, "{text}")?)
    }

    pub fn head(&mut self, bench: &Bench<'_>) -> Outcome {
        self.line(&format!("Splitpoint {}: key/value tables by linear hashing.", env!("CARGO_PKG_VERSION")))?;
        self.line(&format!("Files go to target/tour and are removed; runs of each test: {}, medians.", bench.runs))?;
        if cfg!(debug_assertions) {
            self.line("This is a debug build: its times mean nothing. Use `make run`.")?;
        }
        Ok(())
    }

    pub fn words(&mut self, words: &PairList, on_disk: &OnDisk) -> Outcome {
        let (count, bytes) = (grouped(words.len() as f64), size(total_bytes(words)));
        self.line(&format!("\n1. An English dictionary: {count} words, each with its number ({bytes})."))?;
        self.line(PACE_HEAD)?;
        for (name, samples) in on_disk.tests() {
            self.line(&pace_line(name, samples, words.len()))?;
        }
        let survey = &on_disk.survey;
        let times = survey.file_bytes as f64 / survey.payload_bytes.max(1) as f64;
        self.line("\n   create ends with the file on disk; every answer was compared; the file is")?;
        self.line(&format!("   {}, {times:.2} times the words and numbers in it.", size(survey.file_bytes)))
    }

    pub fn memory(&mut self, words: &PairList, memory: &InMemory) -> Outcome {
        self.line("\n2. The same words in memory: enter all, look all up, destroy.")?;
        self.line(PACE_HEAD)?;
        self.line(&pace_line("splitpoint", &memory.table, words.len()))?;
        self.line(&pace_line("std HashMap", &memory.std_map, words.len()))
    }

    pub fn figure_8a(&mut self, words: &PairList, on_disk: &OnDisk, memory: &InMemory) -> Outcome {
        self.line(&format!("\n3. The paper's dictionary test: {} words, Figure 8a.", grouped(words.len() as f64)))?;
        self.figure(&paper::FIGURE_8A, Clock::Elapsed, on_disk, memory)
    }

    /// Its elapsed times are all 0.0 in the paper, so CPU times are compared here.
    pub fn figure_8b(&mut self, accounts: &PairList, on_disk: &OnDisk, memory: &InMemory) -> Outcome {
        self.line(&format!("\n4. The paper's password file: {} pairs of 300 accounts, Figure 8b.", accounts.len()))?;
        self.figure(&paper::FIGURE_8B, Clock::Processor, on_disk, memory)
    }

    /// Prints a comparison of 1991 on the left with this machine on the right.
    fn figure(&mut self, paper: &[PaperTest; 6], clock: Clock, on_disk: &OnDisk, memory: &InMemory) -> Outcome {
        let times = match clock {
            Clock::Elapsed => "elapsed time",
            Clock::Processor => "user and system time",
        };
        self.line(&format!("   1991: {times} in seconds, on an HP 9000/370 of 33 MHz."))?;
        self.line("   `hash` is the paper's package; `ndbm` (in memory: hsearch) what it replaced.")?;
        self.line("   On disk, then and now, pages of 1 KiB and fill factor 32.\n")?;
        self.line("                    |  1991   1991  |            today             | faster")?;
        self.line("                    |  ndbm   hash  |    user    system   elapsed  | than 1991")?;
        let on_disk = on_disk.tests().map(|(_, samples)| samples.median());
        for (test, times) in paper.iter().zip(on_disk.iter().chain([&memory.table.median()])) {
            self.line(&clock.then_and_now(test, times))?;
        }
        self.line(&format!("   {:<17}|{:15}|{}|", " std HashMap", "", today_columns(&memory.std_map.median())))
    }

    pub fn growth(&mut self, growth: &Growth) -> Outcome {
        self.line(&format!("\n5. Growing from empty to {} pairs, one put at a time.", grouped(growth.pairs as f64)))?;
        self.line("   Keys of 16 random bytes, values of 32; one run. No put waits for a rehash.\n")?;
        self.line("                      puts/s       gets/s   median put   99.9 % within   slowest")?;
        self.line(&growth_line("splitpoint", growth.pairs, &growth.table))?;
        self.line(&growth_line("std HashMap", growth.pairs, &growth.std_map))?;
        let times = growth.file_bytes as f64 / growth.payload_bytes as f64;
        let file = size(growth.file_bytes);
        self.line(&format!("\n   Splitpoint's are in a file of {file}, {times:.2} times keys and values."))
    }

    pub fn try_next(&mut self) -> Outcome {
        Ok(self.out.write_all(TRY_NEXT.as_bytes())?)
    }
}

fn pace_line(name: &str, samples: &Samples, pairs: usize) -> String {
    let elapsed = samples.median().elapsed;
    let (fastest, slowest) = samples.spread();
    let (per_second, spread) =
        (grouped(pairs as f64 / elapsed), format!("{} .. {}", seconds(fastest), seconds(slowest)));
    format!("   {name:<17} {:>9}   {per_second:>12}    {spread}", seconds(elapsed))
}

/// Which of the times that a figure of the paper has are usable.
#[derive(Clone, Copy)]
enum Clock {
    Elapsed,
    Processor,
}

impl Clock {
    fn of_paper(self, [user, system, elapsed]: paper::Seconds) -> f64 {
        match self {
            Self::Elapsed => elapsed,
            Self::Processor => user + system,
        }
    }

    fn of_today(self, times: &Times) -> f64 {
        match self {
            Self::Elapsed => times.elapsed,
            Self::Processor => times.user + times.system,
        }
    }

    fn then_and_now(self, test: &PaperTest, today: &Times) -> String {
        let (hash, other) = (self.of_paper(test.hash), self.of_paper(test.other));
        let faster = match self.of_today(today) {
            // Too short for the system's CPU accounting.
            0.0 => String::from("        -"),
            now => format!("{:>7} x", grouped((hash / now).floor())),
        };
        format!("   {:<17}|{other:>6.1} {hash:>6.1}  |{}|{faster}", test.name, today_columns(today))
    }
}

fn today_columns(times: &Times) -> String {
    format!("{:>9} {:>9} {:>9} ", seconds(times.user), seconds(times.system), seconds(times.elapsed))
}

fn growth_line(name: &str, pairs: u64, pace: &Pace) -> String {
    format!(
        "   {name:<13}{:>12} {:>12} {:>12} {:>15} {:>9}",
        grouped(pairs as f64 / pace.put),
        grouped(pairs as f64 / pace.get),
        seconds(pace.put_median),
        seconds(pace.put_999),
        seconds(pace.put_slowest)
    )
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn seconds(seconds: f64) -> String {
    format!("{:.1?}", Duration::from_secs_f64(seconds))
}
