//! `lab tune`: measures which page size, fill factor, cache and hash function suit the user's own pairs.
//!
//! `splitpoint_lab::tune` measures. Here: arguments, the report as text and as JSON, and the advised options in Rust
//! and as a command. The HTML page is `html.rs`.

mod html;

use super::page;
use crate::access;
use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::histogram;
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size, seconds, size};
use crate::output::Output;
use crate::progress::Progress;
use crate::source::{End, FORMATS_HELP, Inputs, SourceArgs};
use serde_json::json;
use splitpoint_lab::tune::{self, FILL_FACTORS, Measured, PAGE_BYTES, Report, Sample, Settings, Tried, equation_one};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  splitpoint lab tune users.tsv
  splitpoint lab tune users.spt --time 300 --html tune.html

Page sizes, fill factors and functions are measured with tables in memory, and
caches with a temporary file in TMPDIR, which is removed at the end. The
operating system caches that file too: here a small cache costs copies; with a
file larger than memory it also costs disk reads.";

/// Measure which page size, fill factor, cache and hash function suit given pairs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{FORMATS_HELP}"))]
pub struct Tune {
    /// Pairs: files of any format, tables, dictionaries, or - for standard input
    #[arg(required = true, value_name = "SAMPLE")]
    samples: Vec<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
    /// Approximate time to measure
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    time: u64,
    /// Memory for pairs; if they need more, a random sample is measured
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "256M")]
    memory: u64,
    /// Also write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

/// The contents of a report.
pub struct Summary {
    pub name: String,
    /// The number of pairs read.
    pub seen: u64,
    pub average_pair_bytes: f64,
    /// Pairs read for each pair measured.
    pub scale: f64,
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
        let progress = Progress::of_one_step("measuring");
        let mut proceed = |what: &str| {
            progress.step(what);
            interrupt.caught().is_none()
        };
        let report = tune::tune(&sample, Duration::from_secs(self.time), directory.path(), &mut proceed);
        progress.clear();
        let Some(report) = report? else {
            interrupt.stop_if_caught("nothing was written")?;
            return Err(Failure::no("cancelled; nothing was written"));
        };
        let summary = Summary {
            name,
            seen: sample.seen,
            average_pair_bytes: sample.average_pair_bytes(),
            scale: sample.seen as f64 / report.pairs as f64,
            time: start.elapsed(),
            report,
        };
        if let Some(path) = &self.html {
            page::write(path, &html::of(&summary), access::common(self.samples.iter().map(PathBuf::as_path)))?;
        }
        let mut out = Output::stdout();
        if self.json {
            return out.json(&as_json(&summary));
        }
        lines(&summary).iter().try_for_each(|line| out.line(line))
    }

    fn read(&self, interrupt: &Interrupt) -> Result<Sample> {
        let mut sample = Sample::new(usize::try_from(self.memory).unwrap_or(usize::MAX));
        let mut inputs = Inputs::look(&self.samples, &self.source, interrupt)?;
        let end = inputs.feed(&mut |Pair { key, value }, _| {
            sample.push(key, value);
            Ok(None)
        })?;
        match end {
            End::Inputs => Ok(sample),
            End::Bad(bad) => {
                let advice = inputs.advice(&bad);
                Err(Failure::no(format_args!("{bad}{advice}")))
            }
            End::Signal(signal) => Err(Failure::stopped(signal, "nothing was written")),
        }
    }
}

/// A figure of the sweep.
pub struct Figure {
    pub name: &'static str,
    pub of: fn(&Measured) -> f64,
    pub text: fn(f64) -> String,
    pub scale: Scale,
}

/// The values of the lightest and the darkest shade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// 1 to 8 times the best.
    Best,
    /// 1 to 8 times the bytes of the average pair.
    Pair,
    /// 0 to 100 percent.
    Percent,
}

pub const FIGURES: [Figure; 4] = [
    Figure { name: "get, ns a lookup", of: |m| m.get_ns, text: |n| format!("{n:.0}"), scale: Scale::Best },
    Figure { name: "load, ns a pair", of: |m| m.load_ns, text: |n| format!("{n:.0}"), scale: Scale::Best },
    Figure { name: "file, bytes a pair", of: |m| m.file_bytes, text: |n| format!("{n:.0}"), scale: Scale::Pair },
    Figure {
        name: "pairs in overflow pages, %",
        of: |m| m.overflow_share * 100.0,
        text: |n| format!("{n:.0}"),
        scale: Scale::Percent,
    },
];

/// Returns the shade of a value, from 0 to 1. It depends on the value and its scale, never on the worst value of a map.
pub fn heat(summary: &Summary, figure: &Figure, value: f64) -> f64 {
    let unit = figure.scale.unit(summary, figure);
    match figure.scale {
        Scale::Percent => (value / unit).clamp(0.0, 1.0),
        Scale::Best | Scale::Pair => ((value.max(unit) / unit).log2() / 3.0).clamp(0.0, 1.0),
    }
}

impl Scale {
    /// Returns the value that a multiple or a share refers to.
    pub fn unit(self, summary: &Summary, figure: &Figure) -> f64 {
        match self {
            Scale::Best => least(&summary.report, figure.of).max(f64::MIN_POSITIVE),
            Scale::Pair => summary.average_pair_bytes.max(1.0),
            Scale::Percent => 100.0,
        }
    }
}

pub fn fill_name(fill_factor: Option<u32>) -> String {
    fill_factor.map_or("bytes".to_owned(), |pairs| pairs.to_string())
}

/// Returns the rows of the sweep: a page size and its cells.
pub fn rows(report: &Report) -> impl Iterator<Item = (u32, &[Tried])> {
    PAGE_BYTES.into_iter().zip(report.sweep.chunks(FILL_FACTORS.len()))
}

fn least(report: &Report, figure: fn(&Measured) -> f64) -> f64 {
    let tried = report.sweep.iter().filter(|tried| !tried.rounds.is_empty());
    tried.map(|tried| tried.median(figure)).fold(f64::INFINITY, f64::min)
}

pub fn headline(summary: &Summary) -> String {
    let Report { pairs, rounds, .. } = summary.report;
    let share = if pairs as u64 == summary.seen {
        "measured with all".to_owned()
    } else {
        format!("measured with {} in the given time", grouped(pairs as u64))
    };
    format!(
        "{}: {}, {:.1} bytes each; {share}, {}, {}",
        summary.name,
        count_of(summary.seen, "pair"),
        summary.average_pair_bytes,
        count_of(rounds as u64, "round"),
        seconds(summary.time.as_secs_f64())
    )
}

fn lines(summary: &Summary) -> Vec<String> {
    let report = &summary.report;
    let mut lines = vec![headline(summary), String::new()];
    lines.push(format!(
        "Equation (1), ({:.1} + 4) x fill factor >= page size, gives the smallest fill factor in pairs:",
        summary.average_pair_bytes
    ));
    let pages: String = PAGE_BYTES.iter().map(|bytes| format!("{bytes:>8}")).collect();
    let pairs: String =
        PAGE_BYTES.iter().map(|&bytes| format!("{:>8}", equation_one(summary.average_pair_bytes, bytes))).collect();
    lines.extend([format!("  page {pages}"), format!("  pairs{pairs}")]);
    lines.push("The default fill factor, in bytes, satisfies it for any pairs.".to_owned());
    for figure in FIGURES {
        lines.push(String::new());
        lines.extend(heat_map(summary, &figure));
    }
    lines.extend([String::new(), "Cache, as a share of the file: ns a lookup, frames read a lookup".to_owned()]);
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
        "Hash functions: ns a hash, dispersion (1 is random), largest bucket, get, load".to_owned(),
    ]);
    for function in &report.functions {
        let table = if function.table.rounds.is_empty() {
            "not measured: too uneven".to_owned()
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
    lines.extend(advice(summary));
    lines
}

/// Returns a heat map: page sizes down, fill factors across; darker is worse.
fn heat_map(summary: &Summary, figure: &Figure) -> Vec<String> {
    const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];
    const PLAIN_SHADES: [&str; 5] = [" ", ".", ":", "o", "#"];
    let shades = if histogram::draws_blocks() { SHADES } else { PLAIN_SHADES };
    let head: String = FILL_FACTORS.iter().map(|&fill| format!("{:>8}", fill_name(fill))).collect();
    let mut lines = vec![format!("{}; page size by fill factor", figure.name), format!("       {head}")];
    for (page_bytes, cells) in rows(&summary.report) {
        let cells: String = cells
            .iter()
            .map(|cell| match cell.rounds.is_empty() {
                true => format!("{:>8}", "-"),
                false => {
                    let value = cell.median(figure.of);
                    let shade = shades[(heat(summary, figure, value) * (shades.len() - 1) as f64).round() as usize];
                    format!(" {shade}{:>6}", (figure.text)(value))
                }
            })
            .collect();
        lines.push(format!("  {page_bytes:>5}{cells}"));
    }
    lines
}

/// Returns the advice: reasons, and the options to paste.
fn advice(summary: &Summary) -> Vec<String> {
    let mut lines = vec![format!("Advice ({})", noise(&summary.report))];
    lines.extend(reasons(summary).into_iter().map(|reason| format!("  {reason}")));
    lines.push(String::new());
    lines.extend(settings(summary).map(|line| format!("  {line}")));
    lines
}

/// Returns the noise in words.
pub fn noise(report: &Report) -> String {
    format!("differences below {:.0} % are noise between rounds", report.noise * 100.0)
}

/// Returns the advised options in Rust and as a command.
pub fn settings(summary: &Summary) -> [String; 2] {
    let advice = summary.report.advice;
    [rust(advice, summary.seen), command(advice, summary.seen)]
}

pub fn reasons(summary: &Summary) -> Vec<String> {
    let Report { advice, sweep, functions, presized, caches, noise, .. } = &summary.report;
    let default = Settings::DEFAULT;
    let percent = |tried: &Tried| format!("{:.0} %", (1.0 - tried.score()) * 100.0);
    let mut reasons = Vec::new();
    let shape = |s: &Settings| (s.page_bytes, s.fill_factor);
    reasons.push(match sweep.iter().find(|tried| shape(&tried.settings) == shape(advice)) {
        Some(best) if shape(advice) != shape(&default) => format!(
            "pages of {}, fill factor {}: {} better than the default (lookups weigh 2, load and size 1 each)",
            advice.page_bytes,
            fill_name(advice.fill_factor),
            percent(best)
        ),
        _ => format!("pages of {}, fill factor bytes: no other is better by more than the noise", default.page_bytes),
    });
    reasons.push(match functions.iter().find(|function| function.kind == advice.hash) {
        Some(best) if advice.hash != default.hash => {
            format!(
                "hash function {}: as even as random, and the table is {} better",
                best.kind.name(),
                percent(&best.table)
            )
        }
        _ => format!("hash function {}: no other even function is better by more than the noise", default.hash.name()),
    });
    reasons.push(if advice.presized {
        format!("expected length: presizing is {} better", percent(presized))
    } else {
        "expected length: presizing gains no more than the noise".to_owned()
    });
    let best = caches.iter().map(|cached| cached.get_ns).fold(f64::INFINITY, f64::min);
    if let Some(enough) = caches.iter().find(|cached| cached.get_ns <= best * (1.0 + noise)) {
        let bytes = (enough.cache_bytes as f64 * summary.scale) as u64;
        reasons.push(format!(
            "cache: lookups reach full speed with {:.2} of the file, {} for all pairs; the default is half of memory",
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
    if advice.presized {
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
    if advice.presized {
        text.push_str(&format!(" --expected-len {pairs}"));
    }
    text
}

fn as_json(summary: &Summary) -> serde_json::Value {
    let report = &summary.report;
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
        "input": summary.name,
        "pairs_seen": summary.seen,
        "pairs_measured": report.pairs,
        "average_pair_bytes": summary.average_pair_bytes,
        "rounds": report.rounds,
        "seconds": summary.time.as_secs_f64(),
        "noise": report.noise,
        "equation_1": PAGE_BYTES.map(|bytes| {
            json!({"page_bytes": bytes, "fill_factor": equation_one(summary.average_pair_bytes, bytes)})
        }),
        "sweep": report.sweep.iter().map(tried).collect::<Vec<_>>(),
        "expected_len": tried(&report.presized),
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
            "expected_len": report.advice.presized.then_some(summary.seen),
            "rust": rust(report.advice, summary.seen),
            "command": command(report.advice, summary.seen),
            "reasons": reasons(summary),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint::HashKind;

    #[test]
    fn advised_options_name_only_differences_from_the_defaults() {
        assert_eq!(rust(Settings::DEFAULT, 7), "TableOptions::new()");
        assert_eq!(command(Settings::DEFAULT, 7), "splitpoint load FILE INPUT");
        let all = Settings { page_bytes: 512, fill_factor: Some(8), hash: HashKind::Sip13, presized: true };
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
    fn a_shade_depends_on_the_value_and_not_on_the_others() {
        let report = Report {
            pairs: 1,
            rounds: 0,
            sweep: Vec::new(),
            presized: Tried { settings: Settings::DEFAULT, rounds: Vec::new(), scores: Vec::new() },
            functions: Vec::new(),
            caches: Vec::new(),
            noise: 0.0,
            advice: Settings::DEFAULT,
        };
        let time = Duration::ZERO;
        let summary = Summary { name: String::new(), seen: 1, average_pair_bytes: 50.0, scale: 1.0, time, report };
        let [.., bytes, overflow] = FIGURES;
        let heats = |figure: &Figure, values: [f64; 4]| values.map(|value| heat(&summary, figure, value));
        assert_eq!(heats(&overflow, [0.0, 4.0, 88.0, 100.0]), [0.0, 0.04, 0.88, 1.0]);
        assert_eq!(heats(&bytes, [10.0, 50.0, 400.0, 9e9]), [0.0, 0.0, 1.0, 1.0]);
    }
}
