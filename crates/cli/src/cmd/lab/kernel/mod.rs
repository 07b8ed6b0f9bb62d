//! `lab kernel`: repeats the paper on Linux's hash tables, on the user's own tree or trace.
//!
//! Here: arguments, the source of the trace, and the order of work. Not here: the report as text and JSON
//! (`report.rs`) and as a page (`html.rs`).
//! Source: Lever, "Linux Kernel Hash Table Behavior" (CITI 2000).

mod html;
pub mod report;

use super::page;
use crate::access;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::number::{count_of, grouped};
use crate::output::{Output, say};
use crate::progress::Progress;
use splitpoint::OutputFile;
use splitpoint_lab::kernel::caches::{Limits, MEMORY_MAX, MEMORY_MIN, Pruning, Streams, resolve};
use splitpoint_lab::kernel::figures::{self, BITS, Experiment, Histogram, Load, TABLES};
use splitpoint_lab::kernel::load::{ENTRIES_MAX, SCRIPTS_MAX, Tree, TreeError};
use splitpoint_lab::kernel::study::{Measured, Shape, measure, shape};
use splitpoint_lab::kernel::trace::{self, Trace};
use splitpoint_lab::kernel::verdict::Verdict;
use splitpoint_lab::kernel::words::WordFunction;
use splitpoint_lab::kernel::{Proceed, Stopped, processes, strace};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Trees that most machines have; the first that is not empty is used.
const TREES: [&str; 4] = ["/usr/include", "/usr/share", "/usr/lib", "/usr"];
const RUNS_MAX: u64 = 1000;

const EXAMPLES: &str = "\
Examples:
  splitpoint lab kernel                       everything, on /usr/include
  splitpoint lab kernel ~/src --table 3       one table, on your own tree
  splitpoint lab kernel ~/src --histogram 1 --histogram 3
  splitpoint lab kernel --table 3 --function multiply:0x9e3779b1:11 --bits 13,14
  splitpoint lab kernel --html kernel.html    also as a page of plots and tables
  splitpoint lab kernel --write-trace t.txt --scripts 4
  splitpoint lab kernel --trace t.txt --memory 4096
  strace -f -y -e trace=%file,%desc -o make.txt make
  splitpoint lab kernel --strace make.txt     your own build

Columns are percentages of the reference kernel: scripts an hour of a whole
machine in the paper, lookups a second of the tables alone here.
docs/kernel-traces.md describes the format of traces.";

/// Replay the hash tables of Linux 2.2.5 on your own files
///
/// Replays a synthetic development load over the files of DIR, without reading them, on the tables of the page, buffer,
/// dentry and inode caches. Compares the hash functions of 2.2.5, those proposed in "Linux Kernel Hash Table Behavior"
/// (Lever 2000), today's and your own. Prints Tables 1 to 6 and Histograms 1 to 5 of the paper, with its figures next
/// to ours and a verdict, and tables for subjects that the paper leaves for later: 7 the swap cache, 8 processes, 9
/// users, 10 memory areas.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Kernel {
    /// Tree whose paths, inodes, lengths and blocks are used [default: /usr/include, else another tree in /usr]
    #[arg(conflicts_with_all = ["trace", "strace"])]
    dir: Option<PathBuf>,
    /// Only this table, 1 to 10; repeatable
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TABLES)),
        value_delimiter = ','
    )]
    table: Vec<u32>,
    /// Only this histogram, 1 to 5; repeatable
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5), value_delimiter = ',')]
    histogram: Vec<u32>,
    /// Also measure this function: untransformed, multiply[:MULTIPLIER[:SHIFT]], shift-add, fold[:SHIFT], tabulation;
    /// repeatable
    #[arg(long, value_name = "NAME", value_parser = parse_function)]
    function: Vec<(String, WordFunction)>,
    /// 2^N buckets for --function [default: as most kernels of the table]
    #[arg(
        long,
        value_name = "N,N",
        value_parser = clap::value_parser!(u32).range(i64::from(*BITS.start())..=i64::from(*BITS.end())),
        value_delimiter = ',',
        requires = "function"
    )]
    bits: Vec<u32>,
    /// Concurrent scripts [default: as in the paper: 16,32,48,64 in Table 1, 128 in the others, 64 in histograms]
    #[arg(
        long,
        value_name = "N,N",
        value_parser = clap::value_parser!(u32).range(1..=SCRIPTS_MAX as i64),
        value_delimiter = ','
    )]
    scripts: Vec<u32>,
    /// Memory of the simulated machine, in pages of 4 KiB [default: as in the paper: 32768 in Table 1 and
    /// histograms, where the load does not fit; 262144 in the others]
    #[arg(
        long,
        value_name = "PAGES",
        value_parser = clap::value_parser!(u64).range(MEMORY_MIN as u64..=MEMORY_MAX as u64)
    )]
    memory: Option<u64>,
    /// Runs of each kernel, without the fastest and the slowest; a kernel that takes over a second gets fewer
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=RUNS_MAX))]
    runs: u64,
    /// Seed of the synthetic load
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replay this trace instead of a synthetic load
    #[arg(long, value_name = "FILE", conflicts_with = "strace")]
    trace: Option<PathBuf>,
    /// Replay the output of `strace -f -y`
    #[arg(long, value_name = "FILE")]
    strace: Option<PathBuf>,
    /// Write the trace to a new file, and measure nothing; with several --scripts, the trace of the first
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report as one HTML file
    #[arg(long, value_name = "FILE", conflicts_with = "write_trace")]
    html: Option<PathBuf>,
}

fn parse_function(text: &str) -> std::result::Result<(String, WordFunction), String> {
    WordFunction::parse(text).map(|function| (text.to_owned(), function))
}

/// The results, for every form of the report.
pub struct Report {
    /// The source of the load, in words.
    pub about: Vec<String>,
    pub seed: u64,
    pub runs: u64,
    pub tables: Vec<TableReport>,
    pub histograms: Vec<HistogramReport>,
}

pub struct TableReport {
    pub experiment: Experiment,
    /// One for each number of scripts.
    pub columns: Vec<Column>,
}

/// The results of an experiment under one load.
pub struct Column {
    /// 0 for a recorded trace.
    pub scripts: usize,
    /// The index of the load in the paper.
    pub paper: Option<usize>,
    /// The figures of each kernel.
    pub measured: Vec<Measured>,
    /// `None` if the paper has no figures for it.
    pub verdict: Option<Verdict>,
}

pub struct HistogramReport {
    pub histogram: Histogram,
    /// 0 for a recorded trace.
    pub scripts: usize,
    pub shape: Shape,
}

/// A recorded trace, or a tree for synthetic loads.
enum Source {
    Recorded(Trace),
    Tree(Tree),
}

impl Kernel {
    pub fn run(self) -> Result<()> {
        let interrupt = Interrupt::watch()?;
        let proceed = interrupt.breaker();
        let progress = Progress::of_one_step("replaying");
        let source = Source::Recorded(Trace::new(1024));
        let study = Study { args: &self, proceed: &proceed, source, progress: &progress, loaded: None };
        let result = study.run();
        progress.clear();
        // After a signal, report the signal instead of the error it caused.
        interrupt.stop_if_caught("nothing was written")?;
        let Some(report) = result? else { return Ok(()) };
        let mut out = Output::stdout();
        let printed = if self.json {
            out.json(&report::as_json(&report))
        } else {
            report::lines(&report).iter().try_for_each(|line| out.line(line))
        };
        // Last, so that the report is not lost if the page cannot be written; also if nobody reads the report (`head`).
        if let Some(path) = &self.html {
            page::write(path, &html::of(&report), access::OWNER)?;
        }
        printed?;
        match &self.html {
            Some(path) if !self.json => out.line(&format!("\nPlots: {}", path.display())),
            _ => Ok(()),
        }
    }

    fn experiments(&self) -> Vec<Experiment> {
        let wanted = |number| self.table.contains(&number) || (self.table.is_empty() && self.histogram.is_empty());
        let mut experiments = figures::experiments();
        experiments.retain(|experiment| wanted(experiment.number));
        let bits: Vec<_> =
            if self.bits.is_empty() { vec![None] } else { self.bits.iter().copied().map(Some).collect() };
        for experiment in &mut experiments {
            for (name, function) in &self.function {
                for bits in &bits {
                    experiment.add(name, *function, *bits);
                }
            }
        }
        experiments
    }

    fn histograms(&self) -> Vec<Histogram> {
        let wanted = |number| self.histogram.contains(&number) || (self.table.is_empty() && self.histogram.is_empty());
        figures::histograms().into_iter().filter(|histogram| wanted(histogram.number)).collect()
    }

    fn is_recorded(&self) -> bool {
        self.trace.is_some() || self.strace.is_some()
    }

    /// Returns the numbers of scripts: the user's, else the paper's; 0 for a recorded trace.
    fn scripts(&self, load: Load, paper: &[usize]) -> Vec<usize> {
        if self.is_recorded() && load == Load::Files {
            vec![0]
        } else if self.scripts.is_empty() {
            paper.to_vec()
        } else {
            self.scripts.iter().map(|scripts| *scripts as usize).collect()
        }
    }

    fn memory(&self, paper: usize) -> usize {
        self.memory.map_or(paper, |pages| pages as usize)
    }
}

/// The operations of one load, which several tables share.
struct Loaded {
    load: Load,
    scripts: usize,
    memory: usize,
    streams: HashMap<Pruning, Streams>,
}

struct Study<'a> {
    args: &'a Kernel,
    proceed: Proceed<'a>,
    source: Source,
    progress: &'a Progress,
    loaded: Option<Loaded>,
}

impl Study<'_> {
    /// `None` if a trace was written instead.
    fn run(mut self) -> Result<Option<Report>> {
        self.progress.step("reading");
        let about = self.open()?;
        if let Some(path) = &self.args.write_trace {
            return self.write_trace(path).map(|()| None);
        }
        let mut tables = Vec::new();
        for experiment in self.args.experiments() {
            let columns = self.columns(&experiment)?;
            tables.push(TableReport { experiment, columns });
        }
        let histograms = self.histograms()?;
        Ok(Some(Report { about, seed: self.args.seed, runs: self.args.runs, tables, histograms }))
    }

    /// Opens the source. Returns its description.
    fn open(&mut self) -> Result<Vec<String>> {
        let (source, about) = if let Some(path) = &self.args.trace {
            let trace =
                Trace::read(opened(path, Recording::Trace)?, self.proceed).map_err(|e| trace_failure(path, &e))?;
            let about = format!("trace {}: {}", path.display(), count_of(trace.events.len() as u64, "event"));
            (Source::Recorded(trace), vec![about])
        } else if let Some(path) = &self.args.strace {
            let converted =
                strace::convert(opened(path, Recording::Strace)?, self.proceed).map_err(|e| trace_failure(path, &e))?;
            let about = format!(
                "strace {}: {} from {}, {} skipped; inode and block numbers are simulated as on ext2",
                path.display(),
                count_of(converted.trace.events.len() as u64, "event"),
                count_of(converted.lines as u64, "line"),
                grouped(converted.skipped as u64)
            );
            (Source::Recorded(converted.trace), vec![about])
        } else {
            let dir = self.tree()?;
            let tree = Tree::read(&dir, self.proceed).map_err(|error| tree_failure(&dir, error))?;
            let about = about_tree(&dir, &tree, self.args.seed);
            (Source::Tree(tree), about)
        };
        if matches!(source, Source::Recorded(_)) && !self.args.scripts.is_empty() {
            return Err(Failure::usage("--scripts is for synthetic loads; a recorded trace is replayed unchanged"));
        }
        self.source = source;
        Ok(about)
    }

    fn tree(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.args.dir {
            return Ok(dir.clone());
        }
        let dir = TREES
            .iter()
            .map(Path::new)
            .find(|dir| std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()));
        dir.map(Path::to_owned).ok_or_else(|| {
            Failure::usage(format_args!("no DIR, and none of {} exists; give a directory with files", TREES.join(", ")))
        })
    }

    /// Passes the trace to `work`: the recorded one, or a load of this many scripts.
    fn with_trace<T>(&self, scripts: usize, work: impl FnOnce(&Trace) -> std::result::Result<T, Stopped>) -> Result<T> {
        match &self.source {
            Source::Recorded(trace) => work(trace),
            Source::Tree(tree) => tree.load(scripts, self.args.seed, self.proceed).and_then(|trace| work(&trace)),
        }
        .map_err(|Stopped| Failure::no("cancelled"))
    }

    /// Runs an experiment with each number of scripts.
    fn columns(&mut self, experiment: &Experiment) -> Result<Vec<Column>> {
        let memory = self.args.memory(experiment.memory);
        let mut columns = Vec::new();
        for scripts in self.args.scripts(experiment.load, experiment.scripts) {
            let name = if scripts == 0 { "the trace".to_owned() } else { count_of(scripts as u64, "script") };
            self.progress.step(&format!("table {}, {name}", experiment.number));
            let measured = self.measured(experiment, scripts, memory)?;
            // A trace is compared with the paper's heaviest load.
            let paper = match scripts {
                0 => experiment.scripts.len().checked_sub(1),
                _ => experiment.scripts.iter().position(|known| *known == scripts),
            };
            let verdict =
                paper.and_then(|load| Verdict::of(&experiment.kernels, &measured, load, experiment.paper_runs));
            columns.push(Column { scripts, paper, measured, verdict });
        }
        Ok(columns)
    }

    fn measured(&mut self, experiment: &Experiment, scripts: usize, memory: usize) -> Result<Vec<Measured>> {
        let prunings: Vec<_> = experiment.kernels.iter().map(|kernel| kernel.pruning).collect();
        let mut loaded = self.load(experiment.load, scripts, memory, &prunings)?;
        let runs = usize::try_from(self.args.runs).unwrap_or(usize::MAX);
        let measured = measure(&experiment.kernels, &|pruning| &loaded.streams[&pruning], runs, self.proceed)
            .map_err(|Stopped| Failure::no("cancelled"))?;
        // Streams with other prunings are used by one table only; keeping them would only take memory.
        loaded.streams.retain(|pruning, _| *pruning == Pruning::Stock);
        self.loaded = Some(loaded);
        Ok(measured)
    }

    /// Returns the operations of a load with each pruning.
    fn load(&mut self, load: Load, scripts: usize, memory: usize, prunings: &[Pruning]) -> Result<Loaded> {
        let same = |loaded: &Loaded| (loaded.load, loaded.scripts, loaded.memory) == (load, scripts, memory);
        let streams = HashMap::new();
        let mut loaded = self.loaded.take().filter(same).unwrap_or(Loaded { load, scripts, memory, streams });
        let limits = Limits::of_memory(memory);
        for pruning in [Pruning::Stock].iter().chain(prunings) {
            if loaded.streams.contains_key(pruning) {
                continue;
            }
            let streams = match load {
                Load::Files => self.with_trace(scripts, |trace| resolve(trace, limits, *pruning, self.proceed))?,
                Load::Processes => processes::load(scripts, self.args.seed, self.proceed)
                    .map(|others| Streams { others, ..Streams::default() })
                    .map_err(|Stopped| Failure::no("cancelled"))?,
            };
            loaded.streams.insert(*pruning, streams);
        }
        Ok(loaded)
    }

    fn histograms(&mut self) -> Result<Vec<HistogramReport>> {
        let wanted = self.args.histograms();
        let mut reports = Vec::new();
        if wanted.is_empty() {
            return Ok(reports);
        }
        self.progress.step("histograms");
        let memory = self.args.memory(figures::SMALL_MEMORY);
        for scripts in self.args.scripts(Load::Files, &[figures::HISTOGRAM_SCRIPTS]) {
            let loaded = self.load(Load::Files, scripts, memory, &[])?;
            for histogram in &wanted {
                let shape = shape(histogram.variant, &loaded.streams[&Pruning::Stock], histogram.moment);
                reports.push(HistogramReport { histogram: histogram.clone(), scripts, shape });
            }
        }
        Ok(reports)
    }

    /// A signal or a full disk leaves no partial file.
    fn write_trace(&self, path: &Path) -> Result<()> {
        let failed = |error| Failure::io(path.display(), &error);
        if path.is_file() {
            return Err(Failure::usage(format_args!("{}: already exists; name a new file", path.display())));
        }
        let scripts = self.args.scripts(Load::Files, &[figures::HISTOGRAM_SCRIPTS])[0];
        let mut file = OutputFile::create(path).map_err(failed)?;
        let mut events = 0;
        let mut written = Ok(());
        self.with_trace(scripts, |trace| {
            events = trace.events.len();
            let mut writer = std::io::BufWriter::new(&mut file);
            written = trace.write(&mut writer).and_then(|()| writer.flush());
            if (self.proceed)().is_break() { Err(Stopped) } else { Ok(()) }
        })?;
        written.map_err(failed)?;
        file.finish().map_err(failed)?;
        say(format_args!("splitpoint: {}: {}", path.display(), count_of(events as u64, "event")));
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    Trace,
    Strace,
}

/// Opens a recording; one of the other kind is an error that names the option for it.
fn opened(path: &Path, expected: Recording) -> Result<BufReader<File>> {
    let failed = |error| Failure::io(path.display(), &error);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let start = reader.fill_buf().map_err(failed)?;
    let path = path.display();
    match expected {
        Recording::Trace if strace::is_strace(start) => Err(Failure::usage(format_args!(
            "{path}: is the output of strace; `splitpoint lab kernel --strace {path}` replays it, and --write-trace \
             TRACE added to that converts it"
        ))),
        Recording::Strace if trace::is_trace(start) => {
            Err(Failure::usage(format_args!("{path}: is a trace; `splitpoint lab kernel --trace {path}` replays it")))
        }
        _ => Ok(reader),
    }
}

fn trace_failure(path: &Path, error: &trace::Error) -> Failure {
    match error {
        trace::Error::Line { line, what } => Failure::no(format_args!("{}:{line}: {what}", path.display())),
        trace::Error::Io(error) => Failure::io(path.display(), error),
        trace::Error::Stopped => Failure::no("cancelled"),
    }
}

fn tree_failure(dir: &Path, error: TreeError) -> Failure {
    match error {
        TreeError::Io(error) => Failure::of_kind(splitpoint::ErrorKind::Io, error),
        TreeError::Empty => Failure::no(format_args!("{}: no files; give a directory with files", dir.display())),
        TreeError::Stopped => Failure::no("cancelled"),
    }
}

fn about_tree(dir: &Path, tree: &Tree, seed: u64) -> Vec<String> {
    let files = count_of(tree.files() as u64, "file");
    let mut about = vec![match tree.truncated {
        false => format!("{}: {files}; seed {seed}", dir.display()),
        true => format!(
            "{}: {files}, in the first {} entries; the tree has more, which are not used; seed {seed}",
            dir.display(),
            grouped(ENTRIES_MAX as u64)
        ),
    }];
    about.push(match tree.files_with_blocks {
        0 => "blocks: not reported by the file system; simulated as on ext2".to_owned(),
        count => format!("blocks: reported for {}, and divided into blocks of 1 KiB", count_of(count as u64, "file")),
    });
    if tree.unread > 0 {
        about.push(format!("not readable: {}", grouped(tree.unread as u64)));
    }
    about
}
