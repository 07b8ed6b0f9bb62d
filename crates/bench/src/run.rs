//! Runs cases, each in processes of its own, and writes their figures.
//!
//! A run replaces the figures of the variants it runs and keeps the others. Rounds interleave all cases of a workload,
//! so that other load on the machine affects all of them. A case that fails or takes too long is reported, gets no
//! figures, and makes the run fail; the other cases continue.

use crate::engine::Outcome;
use crate::engines;
use crate::results::{Results, facts, windows_csv};
use crate::row::{Line, Row, Window};
use crate::workload::{Case, Workload};
use splitpoint::OutputFile;
use std::io::Read;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The parts to run, and the destination of the results.
pub struct Plan {
    /// Workloads by name; all if none.
    pub workloads: Vec<String>,
    /// Engines by name, or `engine:setting`; all if none.
    pub engines: Vec<String>,
    /// Variants by name; all if none.
    pub variants: Vec<String>,
    /// `short`, `full` or another form of the workload files.
    pub form: String,
    /// Instead of the form's number of rounds.
    pub rounds: Option<u32>,
    /// GiB of memory to touch before each process.
    pub warm_memory: u64,
    /// The destination of the results.
    pub out: PathBuf,
    /// Directory for the stores' files.
    pub directory: PathBuf,
}

/// Makes the system provide `bytes` bytes of memory, and frees them.
fn touch(bytes: u64) -> Outcome {
    const PAGE_BYTES: usize = 4096;
    let mut memory = Vec::new();
    memory.try_reserve_exact(usize::try_from(bytes)?)?;
    for page in memory.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
        page[0].write(1u8);
    }
    std::hint::black_box(&memory);
    Ok(())
}

impl Plan {
    /// Runs all of it.
    pub fn run(&self) -> Outcome {
        let mut failed = Vec::new();
        for name in &self.engines {
            engines::named(name.split(':').next().unwrap_or(name))?;
        }
        for workload in Workload::chosen(&self.workloads)? {
            if !workload.form.contains_key(&self.form) {
                let _ = writeln!(std::io::stderr(), "{}: has no form {}, skipped", workload.name, self.form);
                continue;
            }
            failed.extend(self.workload(&workload)?);
        }
        if failed.is_empty() { Ok(()) } else { Err(format!("failed:\n{}", failed.join("\n")).into()) }
    }

    /// Runs one workload; returns the failed cases.
    fn workload(&self, workload: &Workload) -> Outcome<Vec<String>> {
        let form = workload.form(&self.form)?;
        let mut cases = workload.cases(&self.form, &self.engines)?;
        cases.retain(|case| self.variants.is_empty() || self.variants.contains(&case.variant.name));
        if cases.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}: no case for these engines and variants, skipped", workload.name);
            return Ok(Vec::new());
        }
        let mut results = Results { facts: facts(), ..Results::default() };
        results.facts.push(("workload".into(), format!("{}: {}", workload.name, workload.title)));
        results.facts.push(("form".into(), format!("{}: {} keys, {} appends", self.form, form.count, form.appends)));
        let mut engines: Vec<(String, String)> = Vec::new();
        for case in &cases {
            if !engines.iter().any(|(name, _)| name == case.engine.name()) {
                engines.push((case.engine.name().into(), case.engine.version()));
            }
        }
        results.facts.extend(engines.into_iter().map(|(name, version)| (format!("version of {name}"), version)));
        let is_kept = |variant: &str| {
            workload.variant.iter().any(|v| v.name == variant) && cases.iter().all(|case| case.variant.name != variant)
        };
        let path = self.out.join(&self.form).join(format!("{}.csv", workload.name));
        if path.exists() {
            results.keep(Results::read(&path)?, is_kept);
        }
        let kept_windows = kept_windows(&path.with_extension("windows.csv"), is_kept);

        let mut failed: Vec<(usize, String)> = Vec::new();
        let mut windows: Vec<Vec<(f64, Vec<Window>)>> = vec![Vec::new(); cases.len()];
        for round in 1..=self.rounds.unwrap_or(form.rounds) {
            for (i, case) in cases.iter().enumerate() {
                if failed.iter().any(|(f, _)| *f == i) {
                    continue;
                }
                let name = case_name(case);
                touch(self.warm_memory << 30)?;
                let start = Instant::now();
                match self.round(case, Duration::from_secs(case.form.limit_s)) {
                    Ok(lines) => {
                        let _ = writeln!(
                            std::io::stderr(),
                            "{name}: round {round}, {:.1} s; {}",
                            start.elapsed().as_secs_f64(),
                            gist(&lines)
                        );
                        results.add(case, &lines);
                        windows[i].extend(windows_of(&lines));
                    }
                    Err(error) => {
                        let _ = writeln!(std::io::stderr(), "{name}: FAILED: {error}");
                        results.facts.push(("failed".into(), format!("{name}: {error}").replace('\n', " ")));
                        failed.push((i, format!("{name}: {error}")));
                    }
                }
                // Write now: hours of work must not be lost with the next case.
                results.figures.sort_by_key(|f| workload.variant.iter().position(|v| v.name == f.variant));
                self.write(workload, &cases, &results, &windows, &kept_windows)?;
            }
        }
        Ok(failed.into_iter().map(|(_, case)| case).collect())
    }

    fn write(
        &self,
        workload: &Workload,
        cases: &[Case<'_>],
        results: &Results,
        windows: &[Vec<(f64, Vec<Window>)>],
        kept_windows: &str,
    ) -> Outcome {
        let folder = self.out.join(&self.form);
        std::fs::create_dir_all(&folder)?;
        OutputFile::write(folder.join(format!("{}.csv", workload.name)), results.to_csv())?;
        let mut text = kept_windows.to_owned();
        for (case, rounds) in cases.iter().zip(windows) {
            let mut rounds: Vec<_> = rounds.iter().collect();
            rounds.sort_unstable_by(|a, b| f64::total_cmp(&a.0, &b.0));
            if let Some((_, windows)) = rounds.get(rounds.len().saturating_sub(1) / 2) {
                windows_csv(&mut text, case, windows);
            }
        }
        if !text.is_empty() {
            OutputFile::write(folder.join(format!("{}.windows.csv", workload.name)), text)?;
        }
        Ok(())
    }

    /// Runs one process.
    fn round(&self, case: &Case<'_>, limit: Duration) -> Outcome<Vec<Line>> {
        let directory = Emptied::new(&self.directory)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["one", "--workload", &case.workload.name, "--variant", &case.variant.name])
            .args(["--engine", case.engine.name(), "--setting", &case.setting, "--form", &self.form])
            .arg("--dir")
            .arg(&directory.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let reader = |stream: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                stream.map(|mut s| s.read_to_string(&mut text));
                text
            })
        };
        let printed = reader(child.stdout.take().map(|s| Box::new(s) as _));
        let errors = reader(child.stderr.take().map(|s| Box::new(s) as _));
        let ended = wait(&mut child, limit)?;
        let (printed, errors) = (printed.join().expect("no panic"), errors.join().expect("no panic"));
        match ended {
            None => Err(format!("not finished after {} s", limit.as_secs()).into()),
            Some(status) if !status.success() => Err(format!("{status}; {}", errors.trim()).into()),
            Some(_) => Ok(printed.lines().map(serde_json::from_str).collect::<Result<_, _>>()?),
        }
    }
}

/// Returns the head and lines of the windows file at `path` that belong to other variants; empty if there are none.
fn kept_windows(path: &Path, is_kept: impl Fn(&str) -> bool) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let kept: Vec<&str> = lines.filter(|line| line.split(',').next().is_some_and(&is_kept)).collect();
    if kept.is_empty() { String::new() } else { format!("{head}\n{}\n", kept.join("\n")) }
}

/// Waits for the process. Returns its exit status; `None` if it had to be killed.
fn wait(child: &mut Child, limit: Duration) -> Outcome<Option<std::process::ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A directory that is removed with its contents.
struct Emptied(PathBuf);

impl Emptied {
    fn new(within: &Path) -> Outcome<Emptied> {
        let path = within.join(format!("splitpoint-bench-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Emptied(path))
    }
}

impl Drop for Emptied {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn case_name(case: &Case<'_>) -> String {
    format!("{}/{} {}:{}", case.workload.name, case.variant.name, case.engine.name(), case.setting)
}

/// Returns the figures to print immediately.
fn gist(lines: &[Line]) -> String {
    let mut words = Vec::new();
    for line in lines {
        let Line::Row(Row { part, metric, value }) = line else { continue };
        match &metric[..] {
            "ops_per_s" => words.push(format!("{part} {:.3} M/s", value / 1e6)),
            "wall_s" if part == "sync" => words.push(format!("sync {value:.3} s")),
            "worst_over_median" => words.push(format!("worst/median {value:.2}")),
            "worst_over_median_by_cpu" => words.push(format!("(cpu {value:.2})")),
            "p9999_us" => words.push(format!("p99.99 {value:.1} us")),
            "longest_us" => words.push(format!("longest {value:.0} us")),
            "longest_on_cpu_us" => words.push(format!("(on cpu {value:.0})")),
            "over_payload_bytes_per_pair" => words.push(format!("overhead {value:.1} B/pair")),
            "peak_over_steady" => words.push(format!("peak/steady {value:.2}")),
            "after_sync_bytes" => words.push(format!("file {:.0} MiB", value / 1048576.0)),
            _ => {}
        }
    }
    words.join(", ")
}

fn windows_of(lines: &[Line]) -> Option<(f64, Vec<Window>)> {
    let windows: Vec<Window> =
        lines.iter().filter_map(|line| if let Line::Window(w) = line { Some(*w) } else { None }).collect();
    let seconds: f64 = windows.iter().map(|w| 1.0 / w.ops_per_s).sum();
    (!windows.is_empty()).then_some((seconds, windows))
}
