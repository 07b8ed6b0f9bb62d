//! Runs everything that the report shows: `splitpoint-bench report --run`.
//!
//! The workloads in their form `report`, then the kernel study (the program named by `SPLITPOINT`), appends to servers
//! (`measure.py`), and stores with transactions. What cannot be run is named, leaves no old figures behind, and makes
//! the run fail once the rest is done. Parts can be run again by themselves. `run.txt` records the machine and, for
//! each part, its duration and the load before and after, which shows whether the machine was quiet.

use super::outside::{KERNEL, SERVER, TRANSACTIONS, trim_study};
use super::seeds::{BUSY, FORM};
use crate::engine::Outcome;
use crate::results::facts;
use crate::run::Plan;
use crate::workload::{Workload, repository_file};
use splitpoint::OutputFile;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The pairs of the bulk load of stores with transactions; the comparison in redb's repository has ten times as many.
const TRANSACTION_PAIRS: &str = "500000";
/// A twentieth of the appends of `make bench-server`, three times.
const SERVER_ARGUMENTS: [&str; 4] = ["--short", "--rounds", "3", "appends"];

/// The commands to run, in this order.
pub const PARTS: [&str; 4] = ["workloads", "lab", "server", "transactions"];

/// Runs these parts, all if none is named, with stores in `directory` and results in `results`.
pub fn run(results: &Path, directory: &Path, parts: &[String]) -> Outcome {
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&&part[..])) {
        return Err(format!("no part {unknown}; there are {}", PARTS.join(", ")).into());
    }
    let folder = results.join(FORM);
    std::fs::create_dir_all(&folder)?;
    let earlier = super::seeds::facts(results)?;
    let mut failed = Vec::new();
    let mut runs = Vec::new();
    for part in PARTS {
        if !parts.is_empty() && !parts.iter().any(|wanted| wanted == part) {
            runs.extend(earlier.iter().filter(|(name, _)| name == part).cloned());
            continue;
        }
        let _ = writeln!(std::io::stderr(), "{part}:");
        let (start, before) = (Instant::now(), load());
        let failures = match part {
            "workloads" => workloads(results, directory)?,
            "lab" => {
                let failures = output_of([kernel()], &folder.join(KERNEL));
                trim_study(&folder)?;
                failures
            }
            "server" => output_of([server()], &folder.join(SERVER)),
            _ => transactions(directory, &folder.join(TRANSACTIONS))?,
        };
        let minutes = start.elapsed().as_secs_f64() / 60.0;
        let (date, outcome) = (said_date(), if failures.is_empty() { "" } else { "; FAILED, not shown: " });
        let failures = failures.join("; ").replace('\n', " ");
        runs.push((
            part.into(),
            format!("{minutes:.1} minutes until {date}; {}{outcome}{failures}", loads(part, before, load())),
        ));
        if !failures.is_empty() {
            failed.push(failures);
        }
    }
    let is_kept = |name: &str| !["date", "command"].contains(&name);
    let mut text = String::new();
    for (name, value) in facts().iter().filter(|(name, _)| is_kept(name)).chain(&runs) {
        let _ = writeln!(text, "{name}: {value}");
    }
    OutputFile::write(folder.join("run.txt"), text)?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Runs all workloads that have the form; returns what failed.
fn workloads(results: &Path, directory: &Path) -> Outcome<Vec<String>> {
    let mut failed = Vec::new();
    for workload in Workload::all()?.into_iter().filter(|workload| workload.form.contains_key(FORM)) {
        let plan = Plan {
            workloads: vec![workload.name],
            engines: Vec::new(),
            variants: Vec::new(),
            form: FORM.into(),
            rounds: None,
            warm_memory: 0,
            out: results.into(),
            directory: directory.into(),
        };
        failed.extend(plan.run().err().map(|error| error.to_string()));
    }
    Ok(failed)
}

fn kernel() -> Command {
    let mut command = Command::new(std::env::var_os("SPLITPOINT").unwrap_or_else(|| "splitpoint".into()));
    command.args(["lab", "kernel", "--json", "--table", "1,2,3,4,5,6", "--histogram", "1,2,3,4,5"]);
    command
}

fn server() -> Command {
    let mut command = Command::new("python3");
    command.arg(repository_file("crates/server/benchmarks/measure.py")).args(SERVER_ARGUMENTS);
    command
}

/// Measures each store in a process of its own, since one leaves memory to the next.
fn transactions(directory: &Path, path: &Path) -> Outcome<Vec<String>> {
    let folder = directory.join(format!("splitpoint-bench-transactions-{}", std::process::id()));
    let program = std::env::current_exe()?;
    let commands = crate::transactions::stores().map(|store| {
        let mut command = Command::new(&program);
        command.arg("transactions").arg(&folder).args(["--count", TRANSACTION_PAIRS, "--engine", store]);
        command
    });
    let failed = output_of(commands, path);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(failed)
}

/// Writes the output of programs, one after the other, to a file. If one fails there is no file, and the reason is
/// returned.
fn output_of(commands: impl IntoIterator<Item = Command>, path: &Path) -> Vec<String> {
    let _ = std::fs::remove_file(path);
    let mut written = Vec::new();
    for mut command in commands {
        let name = command.get_program().to_string_lossy().into_owned();
        match command.stderr(std::process::Stdio::inherit()).output() {
            Err(error) => return vec![format!("{name}: {error}")],
            Ok(output) if !output.status.success() => return vec![format!("{name}: {}", output.status)],
            Ok(mut output) => written.append(&mut output.stdout),
        }
    }
    OutputFile::write(path, written).err().map(|error| error.to_string()).into_iter().collect()
}

fn said_date() -> String {
    facts().into_iter().find(|(name, _)| name == "date").map_or_else(String::new, |(_, date)| date)
}

/// Returns the number of runnable threads over the last minute, this run's included.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// Describes the load before and after, and whether it means that other work shared the machine.
fn loads(part: &str, before: f64, after: f64) -> String {
    // Stores with transactions are read by 32 threads, the rest of the run is one or two.
    let is_busy = before > 2.5 || after > 2.5 && part != "transactions";
    let shared = if is_busy { BUSY } else { "quiet" };
    format!("load {before:.1} before, {after:.1} after, {shared}")
}
