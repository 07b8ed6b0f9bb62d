//! `lab tune`: page size, fill factor, cache and hash function for the user's own pairs, measured.
//!
//! The measuring is the lab's (`splitpoint_lab::tune`); here are the arguments, the report as text and as JSON, and the options to
//! paste. The page of `--html` is `page/tune.rs`.

use super::page;
use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size, seconds, size};
use crate::output::Output;
use crate::source::{End, FORMATS_HELP, Inputs, SourceArgs};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use splitpoint_lab::tune::{self, FILL_FACTORS, Measured, PAGE_BYTES, Report, Sample, Settings, Tried, equation_one};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  splitpoint lab tune users.tsv
  splitpoint lab tune users.spt --time 300 --html tune.html

Page sizes, fill factors and functions are measured with tables in memory;
caches with a file in the folder for temporary files (TMPDIR), removed at the
end. The system holds that file too, so a cache that is too small costs copies
here, and waits for the disk where the file is larger than memory.";

/// Measure which page size, fill factor, cache and hash function suit given pairs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{FORMATS_HELP}"))]
pub struct Tune {
    /// Pairs: files of any format, tables, dictionaries, or - for standard input
    #[arg(required = true, value_name = "SAMPLE")]
    samples: Vec<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Seconds to measure for, about
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    time: u64,
    /// Memory for pairs; of more, some are drawn
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    memory: u64,
    /// Write a page with the same figures, in one file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// All that a report tells.
pub struct Told {
    pub name: String,
    pub seen: u64,
    pub average_pair_bytes: f64,
    pub file_times: f64,
    pub time: Duration,
    pub report: Report,
}

impl Tune {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let names: Vec<_> = self.samples.iter().map(|path| path.display().to_string()).collect();
        let name = names.join(", ");
        let sample = self.read(&interrupt)?;
        if sample.is_empty() {
            return Err(Failure::no(format_args!("{name}: no pairs")));
        }
        let start = Instant::now();
        let directory = tempfile::tempdir().map_err(|error| Failure::io("a temporary folder", &error))?;
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("measuring {spinner} {elapsed}: {msg}").expect("a fixed template"));
        let mut goes_on = |what: &str| {
            bar.set_message(what.to_owned());
            bar.tick();
            interrupt.caught().is_none()
        };
        let report = tune::tune(&sample, Duration::from_secs(self.time), directory.path(), &mut goes_on);
        bar.finish_and_clear();
        let Some(report) = report? else {
            interrupt.stop_if_caught("nothing was written")?;
            return Err(Failure::no("stopped: nothing was written"));
        };
        let told = Told {
            name,
            seen: sample.seen,
            average_pair_bytes: sample.average_pair_bytes(),
            file_times: sample.seen as f64 / report.pairs as f64,
            time: start.elapsed(),
            report,
        };
        if let Some(path) = &self.html {
            page::write(path, &page::tune::of(&told))?;
        }
        let mut out = Output::stdout();
        if self.json {
            return out.json(&as_json(&told));
        }
        lines(&told).iter().try_for_each(|line| out.line(line))
    }

    fn read(&self, interrupt: &Interrupt) -> Result<Sample> {
        let mut sample = Sample::new(usize::try_from(self.memory).unwrap_or(usize::MAX));
        let mut inputs = Inputs::look(&self.samples, &self.source, interrupt)?;
        let end = inputs.feed(&mut |Pair { key, value }, _| {
            sample.push(key, value);
            Ok(())
        })?;
        match end {
            End::Inputs => Ok(sample),
            End::Bad(bad) => Err(Failure::no(bad)),
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was written")),
        }
    }
}

/// A figure of the sweep: its name, how it is got, how it is written.
pub type Figure = (&'static str, fn(&Measured) -> f64, fn(f64) -> String);

pub const FIGURES: [Figure; 4] = [
    ("get, ns a lookup", |m| m.get_ns, |n| format!("{n:.0}")),
    ("load, ns a pair", |m| m.load_ns, |n| format!("{n:.0}")),
    ("file, bytes a pair", |m| m.file_bytes, |n| format!("{n:.0}")),
    ("in overflow pages, % of pairs", |m| m.overflow_share * 100.0, |n| format!("{n:.0}")),
];

/// From 0, the best of a figure, to 1, four times that or more; of shares, all.
pub fn heat(value: f64, least: f64) -> f64 {
    let floor = least.max(1.0);
    ((value.max(floor) / floor).log2() / 2.0).clamp(0.0, 1.0)
}

pub fn fill_name(fill_factor: Option<u32>) -> String {
    fill_factor.map_or("bytes".to_owned(), |pairs| pairs.to_string())
}

/// A row of the sweep: the cells of one page size.
pub fn rows(report: &Report) -> impl Iterator<Item = (u32, &[Tried])> {
    PAGE_BYTES.into_iter().zip(report.sweep.chunks(FILL_FACTORS.len()))
}

pub fn least(report: &Report, figure: fn(&Measured) -> f64) -> f64 {
    let tried = report.sweep.iter().filter(|tried| !tried.rounds.is_empty());
    tried.map(|tried| tried.median(figure)).fold(f64::INFINITY, f64::min)
}

pub fn headline(told: &Told) -> String {
    let Report { pairs, rounds, .. } = told.report;
    let of = if pairs as u64 == told.seen {
        "all of them".to_owned()
    } else {
        format!("{} of them, which is what the time allows", grouped(pairs as u64))
    };
    format!(
        "{}: {}, {:.1} bytes each; measured with {of}, {}, {}",
        told.name,
        count_of(told.seen, "pair"),
        told.average_pair_bytes,
        count_of(rounds as u64, "round"),
        seconds(told.time.as_secs_f64())
    )
}

fn lines(told: &Told) -> Vec<String> {
    let report = &told.report;
    let mut lines = vec![headline(told), String::new()];
    lines.push(format!(
        "Equation (1): ({:.1} + 4) x fill factor >= page size, so at least so many pairs a bucket:",
        told.average_pair_bytes
    ));
    let pages: String = PAGE_BYTES.iter().map(|bytes| format!("{bytes:>8}")).collect();
    let pairs: String =
        PAGE_BYTES.iter().map(|&bytes| format!("{:>8}", equation_one(told.average_pair_bytes, bytes))).collect();
    lines.extend([format!("  page {pages}"), format!("  pairs{pairs}")]);
    lines.push("A table that counts bytes, the default, keeps to it by itself.".to_owned());
    for figure in FIGURES {
        lines.push(String::new());
        lines.extend(heat_map(report, figure));
    }
    lines.extend([String::new(), "Cache, as part of the file: ns a lookup, frames read a lookup".to_owned()]);
    let worst = report.caches.iter().map(|c| c.get_ns).fold(1.0, f64::max);
    for cached in &report.caches {
        let bar = "#".repeat((cached.get_ns / worst * 30.0) as usize);
        lines.push(format!(
            "  {:>6.2} {:>9} {:>7.0} ns {:>6.3}  {bar}",
            cached.share,
            size(cached.cache_bytes),
            cached.get_ns,
            cached.reads_per_get
        ));
    }
    lines.extend([
        String::new(),
        "Hash functions: ns a key, spread (1 is chance), fullest bucket, get, load".to_owned(),
    ]);
    for function in &report.functions {
        let table = if function.table.rounds.is_empty() {
            "no table: too uneven".to_owned()
        } else {
            let (get, load) = (function.table.median(|m| m.get_ns), function.table.median(|m| m.load_ns));
            format!("{get:>6.0} {load:>6.0}{}", if function.uneven { "  uneven" } else { "" })
        };
        lines.push(format!(
            "  {:<10} {:>6.1} {:>8.2} {:>6}  {table}",
            function.kind.name(),
            function.hash_ns,
            function.dispersion,
            function.largest_bucket
        ));
    }
    lines.push(String::new());
    lines.extend(advice(told));
    lines
}

/// Page sizes down, fill factors across; darker is worse.
fn heat_map(report: &Report, (name, figure, text): Figure) -> Vec<String> {
    const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];
    let least = least(report, figure);
    let head: String = FILL_FACTORS.iter().map(|&fill| format!("{:>8}", fill_name(fill))).collect();
    let mut lines = vec![format!("{name}; page size by fill factor"), format!("       {head}")];
    for (page_bytes, cells) in rows(report) {
        let cells: String = cells
            .iter()
            .map(|cell| match cell.rounds.is_empty() {
                true => format!("{:>8}", "-"),
                false => {
                    let value = cell.median(figure);
                    let shade = SHADES[(heat(value, least) * (SHADES.len() - 1) as f64).round() as usize];
                    format!(" {shade}{:>6}", text(value))
                }
            })
            .collect();
        lines.push(format!("  {page_bytes:>5}{cells}"));
    }
    lines
}

/// The options to paste, and why.
fn advice(told: &Told) -> Vec<String> {
    let mut lines = vec![format!("Advice ({})", noise(&told.report))];
    lines.extend(reasons(told).into_iter().map(|reason| format!("  {reason}")));
    lines.push(String::new());
    lines.extend(settings(told).map(|line| format!("  {line}")));
    lines
}

/// What of the figures is no difference.
pub fn noise(report: &Report) -> String {
    format!("a figure within {:.0} % of another is the same: so far do the rounds lie apart", report.noise * 100.0)
}

/// The advised settings in Rust and as a command.
pub fn settings(told: &Told) -> [String; 2] {
    let advice = told.report.advice;
    [rust(advice, told.seen), command(advice, told.seen)]
}

pub fn reasons(told: &Told) -> Vec<String> {
    let Report { advice, sweep, functions, expected, caches, noise, .. } = &told.report;
    let default = Settings::DEFAULT;
    let percent = |tried: &Tried| format!("{:.0} %", (1.0 - tried.score()) * 100.0);
    let mut reasons = Vec::new();
    let shape = |s: &Settings| (s.page_bytes, s.fill_factor);
    reasons.push(match sweep.iter().find(|tried| shape(&tried.settings) == shape(advice)) {
        Some(best) if shape(advice) != shape(&default) => format!(
            "pages of {}, filled by {}: {} better than the default, lookups counted twice, load and size once each",
            advice.page_bytes,
            fill_name(advice.fill_factor),
            percent(best)
        ),
        _ => format!("pages of {}, filled by bytes: nothing is better by more than the noise", default.page_bytes),
    });
    reasons.push(match functions.iter().find(|function| function.kind == advice.hash) {
        Some(best) if advice.hash != default.hash => {
            format!(
                "hash function {}: as even as chance, and the table {} better",
                best.kind.name(),
                percent(&best.table)
            )
        }
        _ => format!("hash function {}: no even one is better by more than the noise", default.hash.name()),
    });
    reasons.push(if advice.expected {
        format!("expected length: told how many come, it is {} better", percent(expected))
    } else {
        "expected length: telling it gains no more than the noise".to_owned()
    });
    let best = caches.iter().map(|cached| cached.get_ns).fold(f64::INFINITY, f64::min);
    if let Some(enough) = caches.iter().find(|cached| cached.get_ns <= best * (1.0 + noise)) {
        let bytes = (enough.cache_bytes as f64 * told.file_times) as u64;
        reasons.push(format!(
            "cache: lookups are as fast as ever with {:.2} of the file, {} for all pairs; left out it is half of the memory",
            enough.share,
            size(bytes)
        ));
    }
    reasons
}

fn rust(advice: Settings, pairs: u64) -> String {
    let default = Settings::DEFAULT;
    let mut text = "TableOptions::new()".to_owned();
    if advice.page_bytes != default.page_bytes {
        text.push_str(&format!(".page_bytes({})", advice.page_bytes));
    }
    if let Some(pairs) = advice.fill_factor {
        text.push_str(&format!(".fill_factor({pairs})"));
    }
    if advice.hash != default.hash {
        text.push_str(&format!(".hash(HashKind::{:?})", advice.hash));
    }
    if advice.expected {
        text.push_str(&format!(".expected_len({pairs})"));
    }
    text
}

fn command(advice: Settings, pairs: u64) -> String {
    let default = Settings::DEFAULT;
    let mut text = "splitpoint load FILE INPUT".to_owned();
    if advice.page_bytes != default.page_bytes {
        text.push_str(&format!(" --page-size {}", advice.page_bytes));
    }
    if let Some(pairs) = advice.fill_factor {
        text.push_str(&format!(" --fill-factor {pairs}"));
    }
    if advice.hash != default.hash {
        text.push_str(&format!(" --hash {}", advice.hash.name()));
    }
    if advice.expected {
        text.push_str(&format!(" --expected-len {pairs}"));
    }
    text
}

fn as_json(told: &Told) -> serde_json::Value {
    let report = &told.report;
    let tried = |tried: &Tried| {
        let measured = (!tried.rounds.is_empty()).then(|| {
            json!({
                "get_ns": tried.median(|m| m.get_ns),
                "load_ns": tried.median(|m| m.load_ns),
                "file_bytes_per_pair": tried.median(|m| m.file_bytes),
                "overflow_share": tried.median(|m| m.overflow_share),
                "score": tried.score(),
                "scores": tried.scores,
            })
        });
        let Settings { page_bytes, fill_factor, .. } = tried.settings;
        json!({"page_bytes": page_bytes, "fill_factor": fill_factor, "measured": measured})
    };
    json!({
        "input": told.name,
        "pairs_seen": told.seen,
        "pairs_measured": report.pairs,
        "average_pair_bytes": told.average_pair_bytes,
        "rounds": report.rounds,
        "seconds": told.time.as_secs_f64(),
        "noise": report.noise,
        "equation_1": PAGE_BYTES.map(|bytes| json!({"page_bytes": bytes, "fill_factor": equation_one(told.average_pair_bytes, bytes)})),
        "sweep": report.sweep.iter().map(tried).collect::<Vec<_>>(),
        "expected_len": tried(&report.expected),
        "hash_functions": report.functions.iter().map(|f| json!({
            "name": f.kind.name(),
            "hash_ns": f.hash_ns,
            "dispersion": f.dispersion,
            "uneven": f.uneven,
            "largest_bucket": f.largest_bucket,
            "table": tried(&f.table)["measured"],
        })).collect::<Vec<_>>(),
        "caches": report.caches.iter().map(|c| json!({
            "share": c.share,
            "cache_bytes": c.cache_bytes,
            "get_ns": c.get_ns,
            "reads_per_get": c.reads_per_get,
        })).collect::<Vec<_>>(),
        "advice": {
            "page_bytes": report.advice.page_bytes,
            "fill_factor": report.advice.fill_factor,
            "hash": report.advice.hash.name(),
            "expected_len": report.advice.expected.then_some(told.seen),
            "rust": rust(report.advice, told.seen),
            "command": command(report.advice, told.seen),
            "reasons": reasons(told),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint::HashKind;

    #[test]
    fn what_is_to_be_pasted_says_only_what_differs_from_the_defaults() {
        assert_eq!(rust(Settings::DEFAULT, 7), "TableOptions::new()");
        assert_eq!(command(Settings::DEFAULT, 7), "splitpoint load FILE INPUT");
        let all = Settings { page_bytes: 512, fill_factor: Some(8), hash: HashKind::Sip13, expected: true };
        let pasted =
            splitpoint::TableOptions::new().page_bytes(512).fill_factor(8).hash(HashKind::Sip13).expected_len(7);
        assert!(pasted.in_memory().is_ok());
        assert_eq!(
            rust(all, 7),
            "TableOptions::new().page_bytes(512).fill_factor(8).hash(HashKind::Sip13).expected_len(7)"
        );
        assert_eq!(
            command(all, 7),
            format!(
                "splitpoint load FILE INPUT --page-size 512 --fill-factor 8 --hash {} --expected-len 7",
                all.hash.name()
            )
        );
    }

    #[test]
    fn heat_goes_from_the_best_to_four_times_that() {
        assert_eq!(
            [heat(100.0, 100.0), heat(200.0, 100.0), heat(400.0, 100.0), heat(9e9, 100.0)],
            [0.0, 0.5, 1.0, 1.0]
        );
        assert_eq!(heat(0.0, 0.0), 0.0);
    }
}
