//! Measurements: Splitpoint and its peers under the same workloads, in processes of their own, every answer checked.
//!
//! `workload.rs` reads `workloads/*.toml`; `run.rs` runs each case in a process (`one`), which does it (`loads/`) with a
//! store (`engine.rs`, `engines/`) from inputs that are made piece by piece (`input.rs`, `stream.rs`), and tells rows
//! (`row.rs`), of which `results.rs` makes CSV and `report/` tables and plots. Beside that, what needs threads
//! or a clock of its own: `durability.rs` and `lookups.rs`.
//!
//! How it is measured and what came out: docs/benchmarks.md.

mod digest;
mod durability;
mod engine;
mod engines;
mod input;
mod loads;
mod lookups;
mod maker;
mod measure;
mod random;
mod report;
mod results;
mod row;
mod run;
mod stream;
mod workload;

use clap::{Args, Parser, Subcommand};
use engine::{Outcome, Place};
use loads::Job;
use run::Plan;
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
    /// Run workloads and write their results
    Run(Run),
    /// Do one case once in this process and print what it took, as lines of JSON; for a profiler, too
    One(One),
    /// Write tables of results into README.md, docs/benchmarks.md and docs/scale.md, and a page of plots
    Report {
        /// Where results are [default: results/ of the repository]
        #[arg(long)]
        results: Option<PathBuf>,
        /// The form that the page is of
        #[arg(long, default_value = "full")]
        form: String,
    },
    /// List workloads, and engines with their settings
    List,
    /// Print what a workload file has to expect, made from its input alone
    Answers {
        /// The workload
        workload: String,
        /// A form, or a variant of another size; all if not given
        only: Option<String>,
    },
    /// Puts that are on the disk when they return, by 1 and 8 threads, beside the bare disk
    Durable {
        /// A file on the disk that is meant
        file: String,
    },
    /// Puts without a log, and with one that the kernel has
    Os {
        /// A file on the disk that is meant
        file: String,
        /// Puts
        #[arg(long, default_value_t = 3_000_000)]
        count: usize,
    },
    /// The longest waits of a writer while a checkpoint of 1 GiB is written
    Stall {
        /// A file on the disk that is meant
        file: String,
    },
    /// Lookups one by one and many at a time, by one thread and several
    GetMany(Threads),
    /// Puts and appends one by one and many at a time
    PutMany(Threads),
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
    /// A workload, or what several names begin with; all if not given
    #[arg(long = "workload", value_name = "NAME")]
    workloads: Vec<String>,
    /// An engine, or engine:setting; all if not given
    #[arg(long = "engine", value_name = "NAME")]
    engines: Vec<String>,
    /// A variant of the workloads; all if not given
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
    /// Processes a case is run in, instead of what the form says
    #[arg(long)]
    rounds: Option<u32>,
    /// Where to write results [default: results/ of the repository]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where stores have their files meanwhile [default: the system's for temporary files]
    #[arg(long = "dir")]
    directory: Option<PathBuf>,
}

#[derive(Args)]
struct One {
    #[arg(long)]
    workload: String,
    /// Its first variant if not given
    #[arg(long)]
    variant: Option<String>,
    #[arg(long)]
    engine: String,
    /// The engine's first if not given
    #[arg(long)]
    setting: Option<String>,
    #[arg(long, default_value = "short")]
    form: String,
    /// Only these parts, as workload files name them
    #[arg(long, value_delimiter = ',')]
    parts: Vec<String>,
    /// Keys of a call of many
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// An empty directory for the store's files, which are left there
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
        Command::Run(run) => run.plan().run(),
        Command::One(one) => one.run(),
        Command::Report { results, form } => {
            report::write(&results.unwrap_or_else(|| workload::repository_file("results")), &form)
        }
        Command::List => list(),
        Command::Answers { workload, only } => answers(&workload, only.as_deref()),
        Command::Durable { file } => durability::durable(&file),
        Command::Os { file, count } => durability::os(&file, count),
        Command::Stall { file } => durability::stall(&file),
        Command::GetMany(with) => lookups::run(with.file, with.count, with.threads),
        Command::PutMany(with) => lookups::writes(with.file, with.count),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("splitpoint-bench: {error}");
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
            None => engine.settings(variant.place).into_iter().next().ok_or("it cannot be had at that place")?,
        };
        let names = self.parts.iter().map(|name| serde_json::from_value(name.as_str().into()));
        let parts: Vec<Part> = names.collect::<Result<_, _>>()?;
        std::fs::create_dir_all(&self.directory)?;
        if std::fs::read_dir(&self.directory)?.next().is_some() {
            return Err(format!("{} is not empty, and would be emptied", self.directory.display()).into());
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
    println!("workloads");
    for workload in Workload::all()? {
        let forms: Vec<&str> = workload.form.keys().map(String::as_str).collect();
        println!("  {:<16} {} ({})", workload.name, workload.title, forms.join(", "));
    }
    println!("engines");
    for engine in engines::all() {
        for (name, place) in [("file", Place::File), ("memory", Place::Memory), ("dictionary", Place::Dictionary)] {
            let settings = engine.settings(place);
            if !settings.is_empty() {
                println!("  {:<16} {:<8} {name:<10} {}", engine.name(), engine.version(), settings.join(" | "));
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
        println!(
            "{of}\npairs = {}\npayload_bytes = {}\ninput_digest = \"{}\"\nfinal_digest = \"{}\"\n",
            expected.pairs, expected.payload_bytes, expected.input_digest, expected.final_digest
        );
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
