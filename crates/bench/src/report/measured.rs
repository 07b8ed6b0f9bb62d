//! Runs everything that the report shows: `splitpoint-bench report --run`.
//!
//! The workloads in their form `report`, then the kernel study (the program named by `SPLITPOINT`), appends to servers
//! (`measure.py`), and stores with transactions. What cannot be run is named, leaves no old figures behind, and makes
//! the run fail once the rest is done. `run.txt` has the machine, the versions, the time it took, and the load of the
//! machine before and after, which says whether the figures come from a quiet one.

use super::outside::{KERNEL, SERVER, TRANSACTIONS};
use super::seeds::FORM;
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

/// Runs all of it, with stores in `directory` and results in `results`.
pub fn run(results: &Path, directory: &Path) -> Outcome {
    let folder = results.join(FORM);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let (start, before) = (Instant::now(), load());
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
    let stores = directory.join(format!("splitpoint-bench-transactions-{}", std::process::id()));
    let mut tables = Command::new(std::env::var_os("SPLITPOINT").unwrap_or_else(|| "splitpoint".into()));
    tables.args(["lab", "kernel", "--json", "--table", "1,2,3,4,5,6", "--histogram", "1,2,3,4,5"]);
    let mut appends = Command::new("python3");
    appends.arg(repository_file("crates/server/benchmarks/measure.py")).args(["--rounds", "1", "appends"]);
    let mut transactions = Command::new(std::env::current_exe()?);
    transactions.arg("transactions").arg(&stores).args(["--count", TRANSACTION_PAIRS]);
    for (name, mut command) in [(KERNEL, tables), (SERVER, appends), (TRANSACTIONS, transactions)] {
        let _ = writeln!(std::io::stderr(), "{name}");
        failed.extend(output_of(&mut command, &folder.join(name)).err().map(|error| format!("{name}: {error}")));
    }
    let _ = std::fs::remove_dir_all(&stores);

    let mut text = String::new();
    for (name, value) in facts() {
        let _ = writeln!(text, "{name}: {value}");
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let _ = writeln!(text, "took: {minutes:.1} minutes");
    let _ = writeln!(text, "load: {}", quiet(before, load()));
    let ran = if failed.is_empty() { "all".to_owned() } else { failed.join("; ").replace('\n', " ") };
    let _ = writeln!(text, "failed or not run: {}", if failed.is_empty() { "nothing" } else { &ran });
    OutputFile::write(folder.join("run.txt"), text)?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Writes what a program prints to a file, if the program succeeds.
fn output_of(command: &mut Command, path: &Path) -> Outcome {
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(output.status.to_string().into());
    }
    Ok(OutputFile::write(path, output.stdout)?)
}

/// Runnable threads over the last minute, this run's included.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// Whether other work shared the machine, as far as its load before the run says.
fn quiet(before: f64, after: f64) -> String {
    let shared = if before > 0.5 { "other work shared the machine" } else { "the machine was quiet at the start" };
    format!("{before:.2} before, {after:.2} after: {shared}")
}
