//! The output of the tour: text for a terminal of 80 columns, printed part by part, or one JSON object.

use super::data::PairList;
use super::growth::{Growth, Pace};
use super::measure::{Samples, Times};
use super::paper::{self, PaperTest};
use super::suite::{InMemory, OnDisk};
use super::total_bytes;
use crate::failure::Result;
use crate::histogram;
use crate::number::{count_of, grouped, per_second, seconds, size};
use crate::output::Output;
use serde_json::{Map, Value, json};
use splitpoint::TableSurvey;
use std::path::Path;

pub struct Report {
    out: Output,
    /// `None` for text, which is written immediately.
    json: Option<Map<String, Value>>,
    stop: u32,
}

impl Report {
    pub fn new(as_json: bool, runs: u32, place: &Path) -> Result<Self> {
        let mut report = Self { out: Output::stdout(), json: as_json.then(Map::new), stop: 0 };
        let version = env!("CARGO_PKG_VERSION");
        let debug = cfg!(debug_assertions);
        report.fact("splitpoint", json!(version));
        report.fact("debug_build", json!(debug));
        report.fact("runs", json!(runs));
        report.line(&format!("Splitpoint {version}: key/value tables by linear hashing."))?;
        report.line(&format!(
            "Files go to {} and are removed; medians of {}.",
            place.display(),
            count_of(runs.into(), "run")
        ))?;
        if debug {
            report.line("This is a debug build: its times mean nothing. Use `cargo build --release`.")?;
        }
        Ok(report)
    }

    /// Prints the JSON object if JSON was requested, else flushes the text.
    pub fn end(mut self) -> Result<()> {
        match self.json.take() {
            Some(facts) => self.out.json(&Value::Object(facts)),
            None => self.out.flush(),
        }
    }

    fn fact(&mut self, name: &str, value: Value) {
        if let Some(facts) = &mut self.json {
            facts.insert(name.to_owned(), value);
        }
    }

    fn line(&mut self, text: &str) -> Result<()> {
        if self.json.is_some() { Ok(()) } else { self.out.line(text) }
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        self.stop += 1;
        let heading = format!("{}. {text}", self.stop);
        self.line("")?;
        self.line(&heading)
    }

    pub fn words(&mut self, words: &PairList, on_disk: &OnDisk) -> Result<()> {
        self.heading(&format!(
            "An English dictionary: {}, each with its number ({}).",
            count_of(words.len() as u64, "word"),
            size(total_bytes(words))
        ))?;
        self.line("")?;
        self.line("                       elapsed        words/s    fastest .. slowest run")?;
        for (name, samples) in on_disk.tests() {
            self.line(&pace_line(name, samples, words.len()))?;
        }
        self.line("")?;
        self.line("   create ends with the file on disk; every answer was compared; the file is")?;
        let stat = &on_disk.stat;
        let times = stat.file_bytes as f64 / stat.payload_bytes.max(1) as f64;
        self.line(&format!("   {}, {times:.2} times the words and numbers in it.", size(stat.file_bytes)))?;
        let (payload_bytes, file_bytes, tests) = (stat.payload_bytes, stat.file_bytes, tests_json(on_disk));
        let words = json!({
            "pairs": words.len(), "payload_bytes": payload_bytes, "file_bytes": file_bytes, "tests": tests,
        });
        self.fact("words", words);
        Ok(())
    }

    pub fn histogram(&mut self, stat: &TableSurvey) -> Result<()> {
        self.heading(&format!("Its {}, by the number of words in each.", count_of(stat.buckets, "bucket")))?;
        self.line("   `expected` is a random hash function: a share close to it is good.")?;
        self.line("")?;
        for line in histogram::picture(stat) {
            self.line(&format!(" {line}"))?;
        }
        let sizes: Vec<_> =
            stat.histogram.iter().map(|(size, buckets)| json!({"size": size, "buckets": buckets})).collect();
        self.fact(
            "buckets",
            json!({"buckets": stat.buckets, "page_bytes": stat.page_bytes, "hash": stat.hash, "histogram": sizes}),
        );
        Ok(())
    }

    pub fn memory(&mut self, words: &PairList, memory: &InMemory) -> Result<()> {
        self.heading("The same words in memory: enter all, look all up, destroy.")?;
        self.line("")?;
        self.line("                       elapsed        words/s    fastest .. slowest run")?;
        self.line(&pace_line("splitpoint", &memory.table, words.len()))?;
        self.line(&pace_line("std HashMap", &memory.std_map, words.len()))?;
        self.fact("memory", memory_json(memory, words.len()));
        Ok(())
    }

    pub fn figure_8a(&mut self, words: &PairList, on_disk: &OnDisk, memory: &InMemory) -> Result<()> {
        self.heading(&format!("The paper's dictionary test: {}, Figure 8a.", count_of(words.len() as u64, "word")))?;
        self.figure(
            &Figure { fact: "figure_8a", paper: &paper::FIGURE_8A, clock: Clock::Elapsed },
            words,
            on_disk,
            memory,
        )
    }

    /// Its elapsed times are all 0.0 in the paper, so CPU times are compared here.
    pub fn figure_8b(&mut self, accounts: &PairList, on_disk: &OnDisk, memory: &InMemory) -> Result<()> {
        self.heading(&format!(
            "The paper's password file: {} of 300 accounts, Figure 8b.",
            count_of(accounts.len() as u64, "pair")
        ))?;
        let figure = Figure { fact: "figure_8b", paper: &paper::FIGURE_8B, clock: Clock::Processor };
        self.figure(&figure, accounts, on_disk, memory)
    }

    /// Prints a comparison of 1991 on the left with this machine on the right.
    fn figure(&mut self, figure: &Figure, pairs: &PairList, on_disk: &OnDisk, memory: &InMemory) -> Result<()> {
        let clock = match figure.clock {
            Clock::Elapsed => "elapsed time",
            Clock::Processor => "user and system time",
        };
        self.line(&format!("   1991: {clock} in seconds, on an HP 9000/370 of 33 MHz."))?;
        self.line("   `hash` is the paper's package; `ndbm` (in memory: hsearch) what it replaced.")?;
        self.line("   On disk, then and now, pages of 1 KiB and fill factor 32.")?;
        self.line("")?;
        self.line("                    |  1991   1991  |            today             | faster")?;
        self.line("                    |  ndbm   hash  |    user    system   elapsed  | than 1991")?;
        let disk_tests = on_disk.tests().map(|(_, samples)| samples.median());
        let today: Vec<Times> = disk_tests.into_iter().chain([memory.table.median()]).collect();
        for (test, times) in figure.paper.iter().zip(&today) {
            self.line(&figure.clock.then_and_now(test, times))?;
        }
        let map = memory.std_map.median();
        self.line(&format!("   {:<17}|{:15}|{}|", " std HashMap", "", today_columns(&map)))?;
        let rows = figure.paper.iter().zip(&today).map(|(test, times)| {
            json!({
                "test": test.name,
                "paper_hash": paper_json(&test.hash),
                "paper_other": paper_json(&test.other),
                "today": times_json(times),
            })
        });
        let rows: Vec<_> = rows.collect();
        self.fact(figure.fact, json!({"pairs": pairs.len(), "tests": rows, "std_hash_map": times_json(&map)}));
        Ok(())
    }

    pub fn growth(&mut self, growth: &Growth) -> Result<()> {
        self.heading(&format!("Growing from empty to {}, one put at a time.", count_of(growth.pairs, "pair")))?;
        self.line("   Keys of 16 random bytes, values of 32. No put waits for a rehash.")?;
        self.line("")?;
        self.line("                      puts/s       gets/s   median put   99.9 % within   slowest")?;
        self.line(&growth_line("splitpoint", growth.pairs, &growth.table))?;
        self.line(&growth_line("std HashMap", growth.pairs, &growth.std_map))?;
        self.line("")?;
        let times = growth.file_bytes as f64 / growth.payload_bytes.max(1) as f64;
        self.line(&format!(
            "   Splitpoint's are in a file of {}, {times:.2} times keys and values.",
            size(growth.file_bytes)
        ))?;
        self.fact(
            "growth",
            json!({
                "pairs": growth.pairs,
                "runs": growth.runs,
                "payload_bytes": growth.payload_bytes,
                "file_bytes": growth.file_bytes,
                "splitpoint": pace_json(growth.pairs, &growth.table),
                "std_hash_map": pace_json(growth.pairs, &growth.std_map),
            }),
        );
        Ok(())
    }

    pub fn try_next(&mut self) -> Result<()> {
        let program = std::env::args().next().unwrap_or_else(|| "splitpoint".to_owned());
        let commands = [
            format!("{program} tour --words > words.txt"),
            format!("{program} load words.spt words.txt --format lines --number"),
            format!("{program} get words.spt zymurgy"),
            format!("{program} put words.spt splitpoint 'a new word'"),
            format!("{program} scan words.spt --limit 5"),
            format!("{program} stat words.spt"),
            format!("{program} check words.spt"),
            format!("{program} dump words.spt --format jsonl | head"),
            format!("{program} --help"),
        ];
        self.line("")?;
        self.line("Try next:")?;
        for command in &commands {
            self.line(&format!("   {command}"))?;
        }
        self.fact("try_next", json!(commands));
        Ok(())
    }
}

fn pace_line(name: &str, samples: &Samples, pairs: usize) -> String {
    let elapsed = samples.median().elapsed;
    let (fastest, slowest) = samples.spread();
    let spread = format!("{} .. {}", seconds(fastest), seconds(slowest));
    format!("   {name:<17} {:>9}   {:>12}    {spread}", seconds(elapsed), grouped(per_second(pairs as u64, elapsed)))
}

/// A figure of the paper, and which of its times are usable.
struct Figure {
    fact: &'static str,
    paper: &'static [PaperTest; 6],
    clock: Clock,
}

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
            now => format!("{:>7} x", grouped((hash / now) as u64)),
        };
        format!("   {:<17}|{other:>6.1} {hash:>6.1}  |{}|{faster}", test.name, today_columns(today))
    }
}

fn paper_json(seconds: &paper::Seconds) -> Value {
    json!({"user_s": seconds[0], "system_s": seconds[1], "elapsed_s": seconds[2]})
}

fn today_columns(times: &Times) -> String {
    format!("{:>9} {:>9} {:>9} ", seconds(times.user), seconds(times.system), seconds(times.elapsed))
}

fn growth_line(name: &str, pairs: u64, pace: &Pace) -> String {
    format!(
        "   {name:<13}{:>12} {:>12} {:>12} {:>15} {:>9}",
        grouped(per_second(pairs, pace.put)),
        grouped(per_second(pairs, pace.get)),
        seconds(pace.put_median),
        seconds(pace.put_999),
        seconds(pace.put_slowest)
    )
}

fn times_json(times: &Times) -> Value {
    json!({"user_s": times.user, "system_s": times.system, "elapsed_s": times.elapsed})
}

fn samples_json(name: &str, samples: &Samples, pairs: usize) -> Value {
    let median = samples.median();
    let (fastest, slowest) = samples.spread();
    json!({
        "test": name,
        "user_s": median.user,
        "system_s": median.system,
        "elapsed_s": median.elapsed,
        "fastest_s": fastest,
        "slowest_s": slowest,
        "pairs_per_s": per_second(pairs as u64, median.elapsed),
    })
}

fn tests_json(on_disk: &OnDisk) -> Value {
    on_disk.tests().iter().map(|(name, samples)| samples_json(name, samples, on_disk.stat.pairs as usize)).collect()
}

fn memory_json(memory: &InMemory, pairs: usize) -> Value {
    json!({
        "splitpoint": samples_json("create, read", &memory.table, pairs),
        "std_hash_map": samples_json("create, read", &memory.std_map, pairs),
    })
}

fn pace_json(pairs: u64, pace: &Pace) -> Value {
    json!({
        "puts_per_s": per_second(pairs, pace.put),
        "gets_per_s": per_second(pairs, pace.get),
        "put_median_s": pace.put_median,
        "put_999_s": pace.put_999,
        "put_slowest_s": pace.put_slowest,
    })
}
