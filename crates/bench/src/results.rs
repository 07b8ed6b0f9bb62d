//! Results as files: `FORM/WORKLOAD.csv`, medians and spread of several processes, with facts about the machine at the
//! head.
//!
//! A file opens with lines `# name: value`, then one line per figure of a case. The windows of appends of the median
//! round are in `FORM/WORKLOAD.windows.csv`.

use crate::engine::Outcome;
use crate::row::{Line, Row, Window};
use crate::workload::{Case, repository_file};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// One figure of a case, over its rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The variant of the workload.
    pub variant: String,
    /// The engine.
    pub engine: String,
    /// Its setting.
    pub setting: String,
    /// The part, or another object such as `memory`.
    pub part: String,
    /// The metric.
    pub metric: String,
    /// One value per round, ascending.
    pub values: Vec<f64>,
}

impl Figure {
    /// Returns the median; of an even number, the lower middle value.
    pub fn median(&self) -> f64 {
        self.values[(self.values.len() - 1) / 2]
    }

    /// Returns the minimum and the maximum.
    pub fn spread(&self) -> (f64, f64) {
        (self.values[0], self.values[self.values.len() - 1])
    }
}

/// The contents of a results file.
#[derive(Debug, Default, PartialEq)]
pub struct Results {
    /// Names and values of the head.
    pub facts: Vec<(String, String)>,
    /// All figures.
    pub figures: Vec<Figure>,
}

/// Facts that differ between two runs of a workload's variants.
const RUN_FACTS: [&str; 7] = ["date", "command", "commit", "cpu", "memory", "kernel", "rust"];

const COLUMNS: &str = "variant,engine,setting,part,metric,median,min,max,values";

impl Results {
    /// Adds the figures of one round of a case.
    pub fn add(&mut self, case: &Case<'_>, lines: &[Line]) {
        for line in lines {
            let Line::Row(row) = line else { continue };
            let figure = self.figure(case, row);
            let at = figure.values.partition_point(|value| *value < row.value);
            figure.values.insert(at, row.value);
        }
    }

    fn figure(&mut self, case: &Case<'_>, row: &Row) -> &mut Figure {
        let same = |f: &Figure| {
            f.variant == case.variant.name
                && f.engine == case.engine.name()
                && f.setting == case.setting
                && f.part == row.part
                && f.metric == row.metric
        };
        let at = self.figures.iter().position(same).unwrap_or_else(|| {
            self.figures.push(Figure {
                variant: case.variant.name.clone(),
                engine: case.engine.name().into(),
                setting: case.setting.clone(),
                part: row.part.clone(),
                metric: row.metric.clone(),
                values: Vec::new(),
            });
            self.figures.len() - 1
        });
        &mut self.figures[at]
    }

    /// Returns the results as the text of a file.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            let _ = writeln!(text, "# {name}: {value}");
        }
        let _ = writeln!(text, "{COLUMNS}");
        for figure in &self.figures {
            let (min, max) = figure.spread();
            let values: Vec<String> = figure.values.iter().map(|value| number(*value)).collect();
            let Figure { variant, engine, setting, part, metric, .. } = figure;
            let (median, min, max) = (number(figure.median()), number(min), number(max));
            // Settings contain commas.
            let _ = writeln!(
                text,
                "{variant},{engine},\"{setting}\",{part},{metric},{median},{min},{max},{}",
                values.join(" ")
            );
        }
        text
    }

    /// Parses the text of a file.
    pub fn from_csv(text: &str) -> Outcome<Results> {
        let mut results = Results::default();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with('#')) {
            let (name, value) = line[1..].trim().split_once(": ").unwrap_or((line[1..].trim(), ""));
            results.facts.push((name.to_owned(), value.to_owned()));
        }
        if lines.next().map(|(_, line)| line) != Some(COLUMNS) {
            return Err(format!("not a results file: expected the line {COLUMNS}").into());
        }
        for (i, line) in lines {
            let figure = figure(line).ok_or_else(|| format!("line {}: not a figure: {line}", i + 1))?;
            results.figures.push(figure);
        }
        Ok(results)
    }

    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Outcome<Results> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Results::from_csv(&text).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    /// Returns the median of a figure.
    pub fn median(&self, variant: &str, engine: &str, setting: &str, part: &str, metric: &str) -> Option<f64> {
        let is_meant = |f: &&Figure| {
            (&f.variant[..], &f.engine[..], &f.setting[..], &f.part[..], &f.metric[..])
                == (variant, engine, setting, part, metric)
        };
        self.figures.iter().find(is_meant).map(Figure::median)
    }

    /// Returns the value of a fact, or an empty string.
    pub fn fact(&self, name: &str) -> &str {
        self.facts.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// Returns the value of a fact about the run of one variant, which may be an earlier run than the file's last.
    pub fn fact_of(&self, variant: &str, name: &str) -> &str {
        let own = self.fact(&format!("{name} of {variant}"));
        if own.is_empty() { self.fact(name) } else { own }
    }

    /// Keeps the earlier figures of variants that this run does not measure, with the facts about their own run.
    pub fn keep(&mut self, earlier: Results, is_kept: impl Fn(&str) -> bool) {
        let mut variants: Vec<&str> = earlier.figures.iter().map(|f| &f.variant[..]).filter(|v| is_kept(v)).collect();
        variants.dedup();
        for variant in variants {
            for name in RUN_FACTS {
                self.facts.push((format!("{name} of {variant}"), earlier.fact_of(variant, name).to_owned()));
            }
        }
        for (name, value) in &earlier.facts {
            if name.starts_with("version of ") && self.fact(name).is_empty() {
                self.facts.push((name.clone(), value.clone()));
            }
        }
        self.figures.extend(earlier.figures.into_iter().filter(|f| is_kept(&f.variant)));
    }
}

fn figure(line: &str) -> Option<Figure> {
    let (head, rest) = line.split_once(",\"")?;
    let (setting, rest) = rest.split_once("\",")?;
    let (variant, engine) = head.split_once(',')?;
    let [part, metric, _, _, _, values] = rest.split(',').collect::<Vec<_>>().try_into().ok()?;
    let values: Vec<f64> = values.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [variant, engine, setting, part, metric] = [variant, engine, setting, part, metric].map(str::to_owned);
    (!values.is_empty()).then_some(Figure { variant, engine, setting, part, metric, values })
}

/// Formats six digits, more than the measurements justify.
fn number(value: f64) -> String {
    if value == value.trunc() || value.abs() >= 1e5 {
        return format!("{value:.0}");
    }
    let digits = 5 - value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", digits.max(0) as usize)
}

/// Appends the windows of a case, as lines of the windows file.
pub fn windows_csv(text: &mut String, case: &Case<'_>, windows: &[Window]) {
    if text.is_empty() {
        text.push_str(WINDOW_COLUMNS);
        text.push('\n');
    }
    for w in windows {
        let _ = writeln!(
            text,
            "{},{},\"{}\",{},{:.0},{:.0},{},{}",
            case.variant.name,
            case.engine.name(),
            case.setting,
            w.appends,
            w.ops_per_s,
            w.ops_per_cpu_s,
            w.rss_bytes,
            w.peak_bytes
        );
    }
}

/// The head of a windows file.
pub const WINDOW_COLUMNS: &str = "variant,engine,setting,appends,ops_per_s,ops_per_cpu_s,rss_bytes,peak_bytes";

/// Returns the facts that figures depend on: machine, build, command.
pub fn facts() -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_owned()
    };
    let cpus = read("/proc/cpuinfo");
    let count = cpus.lines().filter(|line| line.starts_with("processor")).count();
    // The run itself changes the results.
    let changed = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":!results"];
    let changed = !said("git", &changed).is_empty();
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]);
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let build = if cfg!(debug_assertions) { "with debug assertions: not for publication" } else { "release" };
    // The program's own path is irrelevant; its arguments are not.
    // The output directory is specific to this machine.
    let mut place = false;
    let is_kept = |argument: &String| {
        let skipped = std::mem::replace(&mut place, argument == "--out" || argument == "--dir");
        !skipped && !place && !argument.starts_with("--out=") && !argument.starts_with("--dir=")
    };
    let command: Vec<String> = std::env::args().skip(1).filter(is_kept).collect();
    [
        ("date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
        ("command", format!("splitpoint-bench {}", command.join(" "))),
        ("commit", if changed { format!("{commit} and changes") } else { commit }),
        ("cpu", format!("{count} x {}", field(&cpus, "model name"))),
        ("cache", field(&cpus, "cache size")),
        ("memory", gib(&field(&read("/proc/meminfo"), "MemTotal"))),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled").trim().to_owned()),
        ("system", field(&read("/etc/os-release").replace("PRETTY_NAME=", "PRETTY_NAME:"), "PRETTY_NAME")),
        ("rust", said("rustc", &["--version"])),
        ("build", format!("{build}, RUSTFLAGS={flags:?}")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Formats a size from `/proc/meminfo` in a larger unit.
fn gib(kb: &str) -> String {
    let number: f64 = kb.trim_end_matches(" kB").parse().unwrap_or(0.0);
    format!("{:.1} GiB", number / 1048576.0)
}

/// Returns the output of a program, or nothing if it is missing.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(repository_file(".")).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let figure = |setting: &str, values: &[f64]| Figure {
            variant: "file".into(),
            engine: "splitpoint".into(),
            setting: setting.into(),
            part: "put".into(),
            metric: "ops_per_s".into(),
            values: values.to_vec(),
        };
        let results = Results {
            facts: vec![("cpu".into(), "2 x abacus: wooden".into())],
            figures: vec![figure("page=512,fill=8", &[0.125, 1.5, 1e6]), figure("os", &[3.0])],
        };
        assert_eq!(Results::from_csv(&results.to_csv()).expect("its own text"), results);
        assert_eq!((results.figures[0].median(), results.figures[0].spread()), (1.5, (0.125, 1e6)));
    }

    #[test]
    fn variants_that_a_run_leaves_alone_keep_their_figures_and_facts() {
        let figure = |variant: &str, value: f64| Figure {
            variant: variant.into(),
            engine: "cdb".into(),
            setting: "default".into(),
            part: "get".into(),
            metric: "ops_per_s".into(),
            values: vec![value],
        };
        let run = |date: &str, figures: Vec<Figure>| Results { facts: vec![("date".into(), date.into())], figures };
        let mut second = run("Tuesday", vec![figure("small", 2.0)]);
        let first = run("Monday", vec![figure("small", 1.0), figure("large", 1.0), figure("gone", 1.0)]);
        second.keep(first, |variant| variant == "large");
        let mut third = run("Wednesday", vec![figure("small", 3.0)]);
        third.keep(Results::from_csv(&second.to_csv()).expect("its own text"), |variant| variant == "large");
        let third = Results::from_csv(&third.to_csv()).expect("its own text");
        assert_eq!(third.figures, [figure("small", 3.0), figure("large", 1.0)]);
        assert_eq!((third.fact_of("small", "date"), third.fact_of("large", "date")), ("Wednesday", "Monday"));
    }

    #[test]
    fn numbers_keep_six_digits() {
        assert_eq!(
            [0.000012345678, 1.0 / 3.0, 12.5, 123456.7].map(number),
            ["0.0000123457", "0.333333", "12.5000", "123457"]
        );
    }
}
