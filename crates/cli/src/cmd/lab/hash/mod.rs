//! `lab hash`: compares hash functions on the user's own keys, as text, as JSON, or as a page of plots.

mod html;

use super::foreign;
use super::keys::{KEYS_HELP, KeyArgs};
use super::page;
use super::wrap::wrapped;
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped, parse_size, size};
use crate::output::Output;
use serde_json::{Value, json};
use splitpoint::hash::{HashFunction, HashKind};
use splitpoint_lab::study::{
    Buckets, Duplicates, FunctionReport, Impurity, IntegerFunction, Level, Report, Speed, Study, StudyError,
};
use std::path::PathBuf;

/// The bucket sizes with a row of their own in a histogram; larger buckets share the last row, as in the paper.
const ROWS_MAX: u64 = 16;
/// The number of histograms shown without --histograms.
const HISTOGRAMS: usize = 1;

/// Compare hash functions on your own keys: buckets, lookups, speed, advice
///
/// Each function distributes the keys over a table of chains. The row (random)
/// shows an ideal function: keys placed uniformly at random (Poisson).
///
///   spread      even (more than random), as random, fair, poor, bad: 1 plus
///               the keys compared by an unsuccessful lookup, divided by that
///               of the random model; too few: keys to say
///   hit, miss   keys compared by a successful and an unsuccessful lookup; the
///               absent keys are like yours, so they crowd the same buckets
///   p-value     how likely random placement is at least as uneven: near 0 less
///               even than random
///   avalanche   flipping a bit of a key should flip each bit of the hash half
///               of the time; 0 is ideal, - if there are too few keys to say
///   ns, range   nanoseconds to compute a hash: the median of the rounds, and
///               their middle half; functions whose ranges overlap are not
///               ranked by time
#[derive(clap::Args)]
#[command(after_help = KEYS_HELP, verbatim_doc_comment)]
pub struct Hash {
    #[command(flatten)]
    keys: KeyArgs,
    /// A function by name, or your own as NAME=LIBRARY.so:SYMBOL; repeatable [default: all built-in functions]
    ///
    /// In C: uint64_t SYMBOL(const void *key, size_t bytes)
    /// For integer keys also untransformed, multiply[:MULTIPLIER[:SHIFT]],
    /// shift-add, fold[:SHIFT], tabulation, hash_64, hash_64-old; the kernel's
    /// name-2.2 and name-today. Without SHIFT, the top bits of the product.
    #[arg(long = "function", value_name = "NAME")]
    functions: Vec<String>,
    /// 2^N buckets, or auto: as many as keys, rounded up [default: auto]
    #[arg(long, value_name = "N|auto", value_parser = parse_bits, conflicts_with = "buckets")]
    bits: Option<Buckets>,
    /// N buckets, selected by the remainder of the hash
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    buckets: Option<u64>,
    /// Seed of the seeded functions and of the random sample
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Keys of the largest bucket to show
    #[arg(long, default_value_t = 5, value_name = "N")]
    show_keys: usize,
    /// Show the histograms of all functions, not only the best
    #[arg(long)]
    histograms: bool,
    /// Measure no times; equal keys then give equal output
    #[arg(long)]
    no_speed: bool,
    /// Approximate limit of memory
    #[arg(long, default_value = "1G", value_name = "SIZE", value_parser = parse_size)]
    memory: u64,
    /// Threads in addition to the one that reads [default: processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page of plots, as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write the plots as SVG files into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

fn parse_bits(text: &str) -> std::result::Result<Buckets, String> {
    if text == "auto" {
        return Ok(Buckets::Auto);
    }
    match text.parse() {
        Ok(bits @ 1..=40) => Ok(Buckets::Bits(bits)),
        _ => Err("1 to 40, or auto".into()),
    }
}

impl Hash {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let study = self.study()?;
        let mut reader = self.keys.open(&interrupt)?;
        let report = study.run(&mut |take| reader.each(take)).map_err(|error| match error {
            StudyError::Keys(failure) => failure,
            StudyError::NoKeys => Failure::no(format_args!("{}: no keys", self.keys.describe())),
            StudyError::TooManyBuckets { buckets, max } => Failure::usage(format_args!(
                "{} take a byte each, --memory {} allows {}; increase --memory or use fewer --bits",
                count_of(buckets, "bucket"),
                size(self.memory),
                grouped(max)
            )),
            StudyError::NoFunctions => Failure::usage("no functions to compare"),
            StudyError::NoFunction { name, impurity: Impurity { key, why } } => {
                let key = escapes::quoted(&key);
                Failure::usage(format_args!(
                    "--function {name}: {why}, as that of {key} shows, so a table would lose keys"
                ))
            }
        })?;
        interrupt.stop_if_caught("nothing was written")?;
        let mut out = Output::stdout();
        let printed = if self.json {
            out.json(&as_json(&self.keys.describe(), self.seed, &report))
        } else {
            self.lines(&report).iter().try_for_each(|line| out.line(line))
        };
        // Last, so that the report is not lost if these files cannot be written; also if nobody reads the report
        // (`head`).
        if let Some(path) = &self.html {
            page::write(path, &html::of(&self.keys.describe(), &report), self.keys.permissions())?;
        }
        if let Some(folder) = &self.plots {
            for (name, svg) in html::plots(&report) {
                // The user chooses the names of their own functions.
                page::write(&folder.join(name.replace('/', "-")), &svg, self.keys.permissions())?;
            }
        }
        printed?;
        match &self.html {
            Some(path) if !self.json => out.line(&format!("\nPlots: {}", path.display())),
            _ => Ok(()),
        }
    }

    fn study(&self) -> Result<Study> {
        let default = Study::default();
        let functions: Vec<IntegerFunction> = match &self.functions[..] {
            [] => HashKind::ALL.iter().map(|kind| HashFunction::new(*kind, self.seed).into()).collect(),
            names => names.iter().map(|name| self.function(name)).collect::<Result<_>>()?,
        };
        let buckets = self.bits.clone().or(self.buckets.map(Buckets::Count));
        Ok(Study {
            timed: functions.iter().filter_map(|function| function.timed.clone()).collect(),
            functions: functions.into_iter().map(|function| function.function).collect(),
            buckets: buckets.unwrap_or(Buckets::Auto),
            seed: self.seed,
            memory_bytes: self.memory,
            threads: self.threads.map_or(default.threads, usize::from),
            keys_shown: self.show_keys,
            speed: !self.no_speed,
        })
    }

    fn function(&self, name: &str) -> Result<IntegerFunction> {
        if let Some((name, place)) = name.split_once('=') {
            return foreign::function(name, place).map(IntegerFunction::from);
        }
        let usage = |what: &dyn std::fmt::Display| Failure::usage(format_args!("--function {name}: {what}"));
        if IntegerFunction::is_named(name) {
            return IntegerFunction::parse(name).map_err(|what| usage(&what));
        }
        match HashKind::from_name(name).filter(|kind| *kind != HashKind::User) {
            Some(kind) => Ok(HashFunction::new(kind, self.seed).into()),
            None => {
                let known: Vec<_> = HashKind::ALL.iter().map(|kind| kind.name()).collect();
                Err(usage(&format_args!(
                    "no such function; use {}; for integers {}; or your own as NAME=LIBRARY.so:SYMBOL",
                    known.join(", "),
                    IntegerFunction::forms().trim_start_matches("use ")
                )))
            }
        }
    }

    fn lines(&self, report: &Report) -> Vec<String> {
        let mut lines = vec![keys_line(&self.keys.describe(), report)];
        let first = report.functions[0].level();
        lines.push(format!("{}, {:.2} keys a bucket", count_of(first.buckets, "bucket"), first.load()));
        lines.push(String::new());
        lines.extend(overview(report));
        let shown = if self.histograms { report.functions.len() } else { HISTOGRAMS };
        for function in &report.functions[..shown.min(report.functions.len())] {
            lines.push(String::new());
            lines.push(format!("{}:", function.function.name()));
            lines.extend(histogram(function.level()));
            lines.extend(layouts(function.level()));
        }
        lines.push(String::new());
        for function in &report.functions {
            let keys: Vec<_> = function.largest_keys.iter().map(|key| escapes::quoted(key)).collect();
            let more = if (keys.len() as u64) < function.level().largest { ", ..." } else { "" };
            lines.push(format!(
                "{} in the largest bucket of {}: {}{more}",
                count_of(function.level().largest, "key"),
                function.function.name(),
                keys.join(", ")
            ));
        }
        // Last, because on a terminal the end stays visible.
        lines.push(String::new());
        lines.extend(wrapped(&report.advice.text));
        lines
    }
}

pub fn keys_line(what: &str, report: &Report) -> String {
    let survey = &report.survey;
    let duplicates = match survey.duplicates {
        Duplicates::LeftOut(0) | Duplicates::Estimated(0) => String::new(),
        Duplicates::LeftOut(count) => format!("; {} left out", count_of(count, "duplicate")),
        Duplicates::Estimated(count) => format!("; about {} among them", count_of(count, "duplicate")),
    };
    let mean = survey.bytes as f64 / survey.rows as f64;
    format!(
        "{} from {what}, {} to {} bytes long, {mean:.1} on average{duplicates}",
        count_of(survey.objects(), "key"),
        survey.shortest,
        grouped(survey.longest as u64),
    )
}

fn overview(report: &Report) -> Vec<String> {
    let width = report.functions.iter().map(|function| function.function.name().len()).max().unwrap_or(0).max(8);
    let mut lines = vec![format!(
        "{:<width$} {:>9} {:>12} {:>9} {:>7} {:>7} {:>9} {:>9} {:>7} {:>11}",
        "function", "spread", "empty", "largest", "hit", "miss", "p-value", "avalanche", "ns", "range"
    )];
    for function in &report.functions {
        let level = function.level();
        lines.push(format!(
            "{:<width$} {:>9} {:>12} {:>9} {:>7.3} {:>7.3} {:>9} {:>9} {:>7} {:>11}",
            function.function.name(),
            function.class.name(),
            grouped(level.empty),
            grouped(level.largest),
            level.compared_successful,
            level.compared_unsuccessful,
            p_value(level.p_value),
            function.avalanche.as_ref().map_or("-".into(), |avalanche| format!("{:.3}", avalanche.mean_bias())),
            function.speed.as_ref().map_or("-".into(), |speed| format!("{:.1}", speed.own_ns)),
            function.speed.as_ref().map_or("-".into(), range),
        ));
    }
    let expected = &report.functions[0].level().expected;
    let avalanche = report.functions.iter().find_map(|function| function.avalanche.as_ref());
    lines.push(format!(
        "{:<width$} {:>9} {:>12} {:>9} {:>7.3} {:>7.3} {:>9} {:>9} {:>7} {:>11}",
        "(random)",
        "",
        grouped(expected.empty.round() as u64),
        grouped(expected.largest),
        expected.compared_successful,
        expected.compared_unsuccessful,
        "0 to 1",
        avalanche.map_or("-".into(), |avalanche| format!("{:.3}", avalanche.expected_mean_bias())),
        "",
        ""
    ));
    lines
}

/// `2.1-2.4`: the middle half of the rounds.
pub fn range(speed: &Speed) -> String {
    let (from, to) = speed.own_spread_ns;
    format!("{from:.1}-{to:.1}")
}

pub fn p_value(p: f64) -> String {
    match p {
        0.0 => "0".into(),
        p if p < 1e-4 => format!("{p:.0e}"),
        p => format!("{p:.4}"),
    }
}

/// Returns the rows of a histogram: size or sizes, buckets, objects, cumulative percent, buckets in the random model.
fn rows(level: &Level) -> Vec<(String, u64, u64, f64, f64)> {
    let mut rows = Vec::new();
    for size in 0..ROWS_MAX {
        let row = level.histogram.iter().rfind(|row| row.size <= size);
        let exact = row.filter(|row| row.size == size);
        let expected = level.expected_buckets(size);
        rows.push((
            size.to_string(),
            exact.map_or(0, |row| row.buckets),
            exact.map_or(0, |row| row.objects),
            row.map_or(0.0, |row| row.cumulative_percent),
            expected,
        ));
    }
    while rows.len() > 1
        && rows.last().is_some_and(|row| row.1 == 0 && row.4 < 0.5)
        && level.largest < rows.len() as u64
    {
        rows.pop();
    }
    let beyond = level.histogram.iter().filter(|row| row.size >= ROWS_MAX);
    let (buckets, objects) =
        beyond.fold((0, 0), |(buckets, objects), row| (buckets + row.buckets, objects + row.objects));
    if buckets > 0 {
        let expected = level.buckets as f64 - (0..ROWS_MAX).map(|size| level.expected_buckets(size)).sum::<f64>();
        rows.push((format!(">{}", ROWS_MAX - 1), buckets, objects, 100.0, expected.max(0.0)));
    }
    rows
}

fn histogram(level: &Level) -> Vec<String> {
    let mut lines =
        vec![format!("{:>7} {:>13} {:>13} {:>8} {:>13}", "size", "buckets", "objects", "sum-pct", "random")];
    let rows = rows(level);
    let most = rows.iter().map(|row| row.1).max().unwrap_or(1).max(1);
    for (size, buckets, objects, percent, expected) in rows {
        let bar = "#".repeat((24 * buckets).div_ceil(most) as usize);
        lines.push(
            format!(
                "{size:>7} {:>13} {:>13} {percent:>8.1} {:>13}  {bar}",
                grouped(buckets),
                grouped(objects),
                grouped(expected.round() as u64)
            )
            .trim_end()
            .to_owned(),
        );
    }
    lines
}

fn layouts(level: &Level) -> Vec<String> {
    let mut lines = vec![format!("{:>28} {:>9} {:>9} {:>13}", "other layouts", "hit", "miss", "cache lines")];
    let rows = [
        ("chains, keys", Some(level.layouts.chains)),
        ("linear probing, slots", level.layouts.linear),
        ("pages of 8, pages", level.layouts.pages),
    ];
    for (name, cost) in rows {
        if let Some(cost) = cost {
            lines.push(format!(
                "{name:>28} {:>9.3} {:>9.3} {:>13.2}",
                cost.successful, cost.unsuccessful, cost.cache_lines_successful
            ));
        }
    }
    lines
}

/// Returns the report as JSON. Keys are escaped as in TSV; `seed` is a string, because many JSON readers keep fewer
/// than 64 bits.
fn as_json(what: &str, seed: u64, report: &Report) -> Value {
    let survey = &report.survey;
    let (duplicates, estimated) = match survey.duplicates {
        Duplicates::LeftOut(count) => (count, false),
        Duplicates::Estimated(count) => (count, true),
    };
    json!({
        "keys": {
            "of": what,
            "rows": survey.rows,
            "objects": survey.objects(),
            "repeats": duplicates,
            "repeats_estimated": estimated,
            "bytes": survey.bytes,
            "shortest": survey.shortest,
            "longest": survey.longest,
        },
        "seed": seed.to_string(),
        "results": report.functions.iter().map(function_json).collect::<Vec<_>>(),
        "advice": {
            "function": report.advice.function,
            "buckets": report.advice.buckets,
            "text": report.advice.text,
        },
    })
}

fn function_json(function: &FunctionReport) -> Value {
    let mut json = level_json(function.level());
    let more = json!({
        "function": function.function.name(),
        "seed": function.function.seed().to_string(),
        "hash_bits": function.bits,
        "class": function.class.name(),
        "largest_keys": function.largest_keys.iter().map(|key| escaped(key)).collect::<Vec<_>>(),
        "ns_per_hash": function.speed.as_ref().map(|speed| speed.own_ns),
        "ns_spread": function.speed.as_ref().map(|speed| speed.own_spread_ns),
        "ns_by_length": function.speed.as_ref().map(|speed| {
            speed.by_length.iter().map(|(bytes, ns)| json!({"bytes": bytes, "ns": ns})).collect::<Vec<_>>()
        }),
        "avalanche": function.avalanche.as_ref().map(|avalanche| json!({
            "mean_bias": avalanche.mean_bias(),
            "expected_mean_bias": avalanche.expected_mean_bias(),
            "worst_bias": avalanche.worst_bias(),
            "stuck_share": avalanche.stuck_share(),
            "flips": avalanche.flips,
        })),
        "smaller_tables": function.levels[1..].iter().map(level_json).collect::<Vec<_>>(),
    });
    if let (Value::Object(json), Value::Object(more)) = (&mut json, more) {
        json.extend(more);
    }
    json
}

fn level_json(level: &Level) -> Value {
    let histogram: Vec<_> = level
        .histogram
        .iter()
        .map(|row| {
            json!({
                "size": row.size,
                "buckets": row.buckets,
                "objects": row.objects,
                "cumulative_percent": row.cumulative_percent,
                "expected_buckets": row.expected_buckets,
            })
        })
        .collect();
    let cost = |c: splitpoint_lab::study::Cost| {
        json!({
            "successful": c.successful, "unsuccessful": c.unsuccessful,
            "cache_lines_successful": c.cache_lines_successful
        })
    };
    json!({
        "buckets": level.buckets,
        "objects": level.objects,
        "load": level.load(),
        "empty": level.empty,
        "largest": level.largest,
        "histogram": histogram,
        "compared_successful": level.compared_successful,
        "compared_unsuccessful": level.compared_unsuccessful,
        "compared_unsuccessful_uniform": level.compared_unsuccessful_uniform,
        "expected": {
            "empty": level.expected.empty,
            "largest": level.expected.largest,
            "compared_successful": level.expected.compared_successful,
            "compared_unsuccessful": level.expected.compared_unsuccessful,
        },
        "chi_square": level.chi_square,
        "degrees_of_freedom": level.degrees,
        "p_value": level.p_value,
        "p_value_even": level.p_value_even,
        "layouts": {
            "chains": cost(level.layouts.chains),
            "linear_probing": level.layouts.linear.map(cost),
            "pages_of_8": level.layouts.pages.map(cost),
        },
    })
}

fn escaped(key: &[u8]) -> String {
    let mut text = Vec::new();
    escapes::escape(key, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
