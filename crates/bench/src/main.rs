//! Measurements: Splitpoint and its peers under the same workloads, in separate processes, every answer checked.
//!
//! `workload.rs` reads `workloads/*.toml`. `run.rs` runs each case in a process (`one`), which applies the load
//! (`loads/`) to a store (`engine.rs`, `engines/`) with inputs generated piece by piece (`input.rs`, `stream.rs`), and
//! prints rows (`row.rs`). `results.rs` writes the rows as CSV; `report/` makes tables and plots. `durability.rs`,
//! `lookups.rs`, `writers.rs` and `transactions/` need threads or clocks of their own. `make run` runs `tour/`.
//!
//! Method and results: docs/benchmarks.md.

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where a write fails

mod digest;
mod durability;
mod engine;
mod engines;
mod input;
mod loads;
mod lookups;
mod measure;
mod random;
mod report;
mod results;
mod row;
mod run;
mod stream;
mod tour;
mod transactions;
mod workload;
mod writers;

use clap::{Args, Parser, Subcommand};
use engine::{Outcome, Place};
use loads::Job;
use run::Plan;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use workload::{Case, Part, Workload};

/// Measures Splitpoint and its peers.
#[derive(Parser)]
#[command(name = "splitpoint-bench", version, arg_required_else_help = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Store and read an English dictionary, compared with the paper's figures: under half a minute
    Tour {
        /// Runs of each test
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        runs: u32,
        /// Pairs of the growing table at the end
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
        pairs: u64,
    },
    /// Run workloads and write their results
    Run(Run),
    /// Run one case once in this process and print its figures as lines of JSON; also for a profiler
    One(One),
    /// Write tables of results into README.md, docs/ and the pages of results/, a page of plots, and the report on the
    /// five seed documents
    Report {
        /// First run everything that the report on the seed documents shows: half an hour
        #[arg(long)]
        run: bool,
        /// With --run, only this part: workloads, lab, server, transactions; repeatable
        #[arg(long = "part", value_name = "NAME", requires = "run")]
        parts: Vec<String>,
        /// Directory of results [default: results/ of the repository]
        #[arg(long)]
        results: Option<PathBuf>,
        /// The form of the page
        #[arg(long, default_value = "full")]
        form: String,
    },
    /// List workloads, and engines with their settings
    List,
    /// Print the expected answers of a workload file, computed from its input alone
    Answers {
        /// The workload
        workload: String,
        /// A form, or a variant of another size; all if not given
        only: Option<String>,
    },
    /// Durable puts, by 1 and 8 threads, compared with the bare disk
    Durable {
        /// A file on the disk to measure
        file: String,
    },
    /// Puts without a log, and with a log in the page cache
    Os {
        /// A file on the disk to measure
        file: String,
        /// Puts
        #[arg(long, default_value_t = 3_000_000)]
        count: usize,
    },
    /// The longest waits of a writer during a checkpoint of 1 GiB, and of synced puts beside one
    Stall {
        /// A file on the disk to measure
        file: String,
    },
    /// Lookups one by one and many per call, by one thread and several
    GetMany(Threads),
    /// Puts and appends one by one and many per call
    PutMany {
        /// A file; in memory if not given
        file: Option<String>,
        /// Pairs
        #[arg(long, default_value_t = 10_000_000)]
        count: usize,
    },
    /// Loads, commits, reads by many threads, removals and compaction, as redb's comparison has them
    Transactions {
        /// An empty directory for the stores' files
        directory: PathBuf,
        /// Pairs of the bulk load
        #[arg(long, default_value_t = 5_000_000)]
        count: u64,
        /// A store; all if not given
        #[arg(long = "engine", value_name = "NAME")]
        engines: Vec<String>,
    },
    /// Puts and gets by one thread and by several
    Writers {
        /// A file; in memory if not given
        file: Option<String>,
        /// Pairs
        #[arg(long, default_value_t = 4_000_000)]
        count: usize,
        /// Threads that share the operations
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
}

#[derive(Args)]
struct Run {
    /// A size: short, full, or another that the workload files have
    #[arg(long, default_value = "short")]
    form: String,
    /// The short form, which is the default
    #[arg(long, conflicts_with_all = ["form", "full"])]
    short: bool,
    /// The full form: hours, and gigabytes of memory and of disk
    #[arg(long, conflicts_with = "form")]
    full: bool,
    /// A workload, or the common prefix of several; all if not given
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// An engine, or engine:setting; all if not given
    #[arg(long = "engine", value_name = "NAME")]
    engines: Vec<String>,
    /// A variant of the workloads; all if not given
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
    /// Processes per case, instead of the form's number
    #[arg(long)]
    rounds: Option<u32>,
    /// GiB of memory to touch before each process: on a virtual machine whose host takes back free memory, the first
    /// use waits for the host
    #[arg(long, value_name = "GIB", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1024))]
    warm_memory: u64,
    /// Directory for results; results of the same variants are replaced, so give another directory for a trial or a run
    /// of some engines only [default: results/ of the repository]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Directory for the stores' files [default: the system's for temporary files]
    #[arg(long = "dir")]
    directory: Option<PathBuf>,
}

#[derive(Args)]
struct One {
    #[arg(long)]
    workload: String,
    /// The variant; the first if not given
    #[arg(long)]
    variant: Option<String>,
    #[arg(long)]
    engine: String,
    /// The setting; the engine's first if not given
    #[arg(long)]
    setting: Option<String>,
    #[arg(long, default_value = "short")]
    form: String,
    /// Only these parts, by their names in workload files
    #[arg(long, value_delimiter = ',')]
    parts: Vec<String>,
    /// Keys per call in the parts with many keys
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// An empty directory for the store's files, which stay there
    #[arg(long = "dir")]
    directory: PathBuf,
}

#[derive(Args)]
struct Threads {
    /// A file; in memory if not given
    file: Option<String>,
    /// Pairs
    #[arg(long, default_value_t = 10_000_000)]
    count: usize,
    /// Threads that share the lookups
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() -> ExitCode {
    let outcome = match Program::parse().command {
        Command::Tour { runs, pairs } => tour::run(runs, pairs),
        Command::Run(run) => run.plan().run(),
        Command::One(one) => one.run(),
        Command::Report { run, parts, results, form } => {
            let results = results.unwrap_or_else(|| workload::repository_file("results"));
            let ran = if run { report::measured::run(&results, &std::env::temp_dir(), &parts) } else { Ok(()) };
            report::write(&results, if run { "report" } else { &form }).and(ran)
        }
        Command::List => list(),
        Command::Answers { workload, only } => answers(&workload, only.as_deref()),
        Command::Durable { file } => durability::durable(&file),
        Command::Os { file, count } => durability::os(&file, count),
        Command::Stall { file } => durability::stall(&file),
        Command::GetMany(with) => lookups::run(with.file, with.count, with.threads),
        Command::PutMany { file, count } => lookups::writes(file, count),
        Command::Transactions { directory, count, engines } => transactions::run(&directory, count, &engines),
        Command::Writers { file, count, threads } => writers::run(file, count, threads.max(1)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "splitpoint-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Run {
    fn plan(self) -> Plan {
        Plan {
            workloads: self.workloads,
            engines: self.engines,
            variants: self.variants,
            form: if self.full { "full".into() } else { self.form },
            rounds: self.rounds,
            warm_memory: self.warm_memory,
            out: self.out.unwrap_or_else(|| workload::repository_file("results")),
            directory: self.directory.unwrap_or_else(std::env::temp_dir),
        }
    }
}

impl One {
    fn run(self) -> Outcome {
        let workload = Workload::named(&self.workload)?;
        let variant = self.variant.map_or_else(|| Ok(&workload.variant[0]), |name| workload.variant(&name))?;
        let engine = engines::named(&self.engine)?;
        let setting = match self.setting {
            Some(setting) => setting,
            None => {
                engine.settings(variant.place).into_iter().next().ok_or("the engine has no setting for that place")?
            }
        };
        let names = self.parts.iter().map(|name| serde_json::from_value(name.as_str().into()));
        let parts: Vec<Part> = names.collect::<Result<_, _>>()?;
        std::fs::create_dir_all(&self.directory)?;
        if std::fs::read_dir(&self.directory)?.next().is_some() {
            return Err(format!("{} is not empty; a run would empty it", self.directory.display()).into());
        }
        let form = variant.form(&self.form, workload.form(&self.form)?);
        let form = form.ok_or_else(|| format!("variant {} has no form {}", variant.name, self.form))?;
        let job = Job {
            case: Case { workload: &workload, variant, engine, setting, form },
            directory: &self.directory,
            parts: if parts.is_empty() { &variant.parts } else { &parts },
            batch: self.batch.max(1),
        };
        job.run()?.print()
    }
}

fn list() -> Outcome {
    writeln!(std::io::stdout(), "workloads")?;
    for workload in Workload::all()? {
        let forms: Vec<&str> = workload.form.keys().map(String::as_str).collect();
        writeln!(std::io::stdout(), "  {:<16} {} ({})", workload.name, workload.title, forms.join(", "))?;
    }
    writeln!(std::io::stdout(), "engines")?;
    for engine in engines::all() {
        for (name, place) in [("file", Place::File), ("memory", Place::Memory), ("dictionary", Place::Dictionary)] {
            let settings = engine.settings(place);
            if !settings.is_empty() {
                writeln!(
                    std::io::stdout(),
                    "  {:<16} {:<8} {name:<10} {}",
                    engine.name(),
                    engine.version(),
                    settings.join(" | ")
                )?;
            }
        }
    }
    Ok(())
}

fn answers(workload: &str, only: Option<&str>) -> Outcome {
    let workload = Workload::named(workload)?;
    let is_meant = |name: &str| only.is_none_or(|only| only == name);
    let print = |of: String, form: &workload::Form| -> Outcome {
        let expected = loads::answers(&workload.input, form)?;
        writeln!(
            std::io::stdout(),
            "{of}\npairs = {}\npayload_bytes = {}\ninput_digest = \"{}\"\nfinal_digest = \"{}\"\n",
            expected.pairs,
            expected.payload_bytes,
            expected.input_digest,
            expected.final_digest
        )?;
        Ok(())
    };
    for (name, sizes) in workload.form.iter().filter(|(name, _)| is_meant(name)) {
        print(format!("[form.{name}.expected]"), sizes)?;
    }
    for variant in workload.variant.iter().filter(|variant| is_meant(&variant.name)) {
        let (Some(count), Some(sizes)) = (variant.count, workload.form.values().next()) else { continue };
        print(format!("[variant.expected] # {}", variant.name), &workload::Form { count, ..sizes.clone() })?;
    }
    Ok(())
}
