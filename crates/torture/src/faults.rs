//! `make faults` makes each system call of a small workload (steps.rs) fail once, in each way in which it may fail on a
//! real machine (tracer.rs), and compares every answer with the allowed ones.
//!
//! * No signal, no panic, no hang.
//! * A step that reports success did succeed. A step that failed changed nothing, unless the handle refuses writes from
//!   then on; in that case a later open finds the table as it was before or after that step.
//! * A failed `fsync` or `fdatasync` is always reported by some step.
//! * Every second run is killed immediately after the step that met the fault. After every run, a clean open finds
//!   everything that was acknowledged, complete; reported backups and dictionaries have the reported content.

use crate::changes::Pairs;
use crate::look::{contents, words};
use crate::steps::{BACKUP, SCENARIOS, Step, dictionary_digest, digest, durability, steps};
use crate::tracer::{Fault, Target, Traced, kind, trace};
use crate::workload::{DICTIONARIES, TABLE};
use nix::errno::Errno;
use nix::libc;
use splitpoint::{Dictionary, Durability, ErrorKind, TableOptions};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A longer run counts as hanging: far longer than any takes, as the machine may have other work.
const PATIENCE: Duration = Duration::from_secs(600);
/// Several, because a run mostly waits.
const RUNS_AT_ONCE: usize = 4;

pub struct Options {
    pub seconds: u64,
    pub seed: u64,
    /// A case, in the form in which a failure prints it.
    pub only: Option<String>,
}

/// A run: which call fails, and whether the process is killed after the step that met it.
#[derive(Clone, Debug)]
struct Case {
    scenario: &'static str,
    target: Target,
    is_killed: bool,
}

impl Case {
    fn name(&self) -> String {
        let Target { call, nth, fault } = self.target;
        let fault = match fault {
            Fault::Error(errno) => format!("{errno:?}"),
            Fault::Short => "short".into(),
        };
        let end = if self.is_killed { "killed" } else { "to-the-end" };
        format!("{}:{}:{nth}:{fault}:{end}", self.scenario, kind(call).map_or("?", |(name, _)| name))
    }
}

#[derive(Default)]
struct Row {
    calls: u64,
    tried: u64,
    missed: u64,
    reported: u64,
    tolerated: u64,
    violations: u64,
}

/// The outcome of a run that broke no rule.
enum Outcome {
    /// It made fewer calls of this kind than the run without a fault.
    NotMet,
    Reported,
    Tolerated,
}

impl Row {
    fn count(&mut self, case: &Case, outcome: Result<Outcome, String>) {
        self.tried += 1;
        match outcome {
            Ok(Outcome::NotMet) => self.missed += 1,
            Ok(Outcome::Reported) => self.reported += 1,
            Ok(Outcome::Tolerated) => self.tolerated += 1,
            Err(why) => {
                self.violations += 1;
                say!("FAILED: {}: {why}\n  once more: make faults REPLAY={}", case.name(), case.name());
            }
        }
    }
}

fn try_case(case: &Case) -> Result<Outcome, String> {
    let ran = run_case(case.scenario, Some(case.target), case.is_killed)?;
    judge(case.scenario, &ran, Some(case))?;
    Ok(match ran.is_met {
        false => Outcome::NotMet,
        true if ran.answers.iter().any(Result::is_err) => Outcome::Reported,
        true => Outcome::Tolerated,
    })
}

pub fn run(options: &Options) -> Result<bool, String> {
    if cfg!(not(target_arch = "x86_64")) {
        say!("SKIPPED: failing system calls, as the tracer knows the registers of x86-64 alone");
        return Ok(true);
    }
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let mut cases = Vec::new();
    for scenario in SCENARIOS {
        let clean = match run_case(scenario, None, false) {
            Err(why) if why == no_tracing() => {
                say!("SKIPPED: failing system calls: {why}");
                return Ok(true);
            }
            other => other.map_err(|why| format!("{scenario}, with no fault: {why}"))?,
        };
        judge(scenario, &clean, None).map_err(|why| format!("{scenario}, with no fault: {why}"))?;
        for (call, count) in clean.traced.counts {
            let (name, faults) = kind(call).expect("only such are counted");
            rows.entry(name).or_default().calls += count;
            for nth in 1..=count {
                for (way, fault) in faults.iter().enumerate() {
                    let target = Target { call, nth, fault: *fault };
                    let is_killed = (nth as usize + way).is_multiple_of(2);
                    cases.push((way, Case { scenario, target, is_killed }));
                }
            }
        }
    }
    if let Some(only) = &options.only {
        cases.retain(|(_, case)| case.name() == *only);
        if cases.is_empty() {
            return Err(format!("{only}: no such case"));
        }
    }
    // Every call fails in one way before any fails in a second way.
    fastrand::Rng::with_seed(options.seed).shuffle(&mut cases);
    cases.sort_by_key(|(way, _)| *way);
    let each_once = cases.iter().filter(|(way, _)| *way == 0).count();
    say!(
        "seed {}, {} seconds for {} runs; in the first {each_once} each call fails once",
        options.seed,
        options.seconds,
        cases.len()
    );
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(rows));
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                while Instant::now() < until {
                    let Some((_, case)) = cases.get(next.fetch_add(1, SeqCst)) else { break };
                    let outcome = try_case(case);
                    let mut rows = rows.lock().unwrap_or_else(|e| e.into_inner());
                    rows.entry(kind(case.target.call).map_or("?", |(name, _)| name)).or_default().count(case, outcome);
                }
            });
        }
    });
    let rows = rows.into_inner().unwrap_or_else(|e| e.into_inner());
    say!(
        "\n{:<12} {:>6} {:>6} {:>9} {:>10} {:>10} {:>10}",
        "call",
        "calls",
        "runs",
        "not met",
        "an error",
        "tolerated",
        "violations"
    );
    for (name, Row { calls, tried, missed, reported, tolerated, violations }) in &rows {
        say!("{name:<12} {calls:>6} {tried:>6} {missed:>9} {reported:>10} {tolerated:>10} {violations:>10}");
    }
    let violations: u64 = rows.values().map(|row| row.violations).sum();
    let done: u64 = rows.values().map(|row| row.tried).sum();
    say!("{done} of {} runs, {violations} violations", cases.len());
    Ok(violations == 0)
}

/// The answer of a step: a digest, or the kind of error and its message.
type Answer = Result<u64, (String, String)>;

struct Ran {
    folder: tempfile::TempDir,
    traced: Traced,
    answers: Vec<Answer>,
    is_met: bool,
    /// Killed on purpose, after the last answer.
    is_killed: bool,
}

/// Runs a scenario in its own directory.
fn run_case(scenario: &str, target: Option<Target>, is_to_be_killed: bool) -> Result<Ran, String> {
    let text = |e: std::io::Error| e.to_string();
    let folder = tempfile::Builder::new().prefix("faults-").tempdir().map_err(text)?;
    let mut command = Command::new(std::env::current_exe().map_err(text)?);
    command.arg("steps").arg(folder.path()).arg(scenario);
    let complaints = tempfile::tempfile().map_err(text)?;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(complaints.try_clone().map_err(text)?)
        .spawn()
        .map_err(text)?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes".into());
    };
    let mut first = std::fs::File::from(input.as_fd().try_clone_to_owned().map_err(text)?);
    let is_met = AtomicBool::new(false);
    let (ended, watch) = channel::<()>();
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    let kill = move || nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    let (traced, answers, is_killed, hung) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut answers = Vec::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                answers.push(parse(&line));
                if is_to_be_killed && is_met.load(SeqCst) {
                    return (answers, kill().is_ok());
                }
                // A process that has died no longer needs it.
                let _ = input.write_all(b"\n");
            }
            (answers, false)
        });
        let watchdog = scope.spawn(move || {
            let hung = watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            hung && kill().is_ok()
        });
        let traced = trace(&child, target, &is_met, || {
            let _ = first.write_all(b"\n");
        });
        if traced.is_err() {
            let _ = kill();
        }
        drop(ended);
        let hung = watchdog.join().unwrap_or(true);
        let (answers, is_killed) = reader.join().unwrap_or_default();
        (traced, answers, is_killed, hung)
    });
    // The tracer may already have reaped it.
    let _ = child.wait();
    if hung {
        return Err(format!("still at it after {} s, behind answer {}", PATIENCE.as_secs(), answers.len()));
    }
    let traced = traced.map_err(|e| if e == Errno::EPERM { no_tracing() } else { format!("ptrace: {e}") })?;
    if let Some(died) = traced.died.as_ref().filter(|_| !is_killed) {
        let mut said = String::new();
        std::io::Seek::rewind(&mut &complaints).map_err(text)?;
        std::io::Read::read_to_string(&mut &complaints, &mut said).map_err(text)?;
        return Err(format!("{died} behind answer {}: {}", answers.len(), said.trim()));
    }
    Ok(Ran { folder, traced, answers, is_met: is_met.into_inner(), is_killed })
}

fn no_tracing() -> String {
    "this machine does not let one process trace another (ptrace)".into()
}

fn parse(line: &str) -> Answer {
    match line.split_once(' ') {
        Some(("ok", digest)) => digest.parse().map_err(|_| ("Wrong".into(), line.into())),
        Some((_, rest)) => {
            let (kind, why) = rest.split_once(' ').unwrap_or((rest, ""));
            Err((kind.into(), why.into()))
        }
        None => Err(("Wrong".into(), line.into())),
    }
}

/// The expected state of the files after the answers read so far.
struct Known {
    durability: Durability,
    /// The permitted contents of the table now.
    possible: Vec<Pairs>,
    /// Further contents that an open may find if the handle was not closed.
    unsafe_yet: Vec<Pairs>,
    /// Contents that the table may have if the last failed step changed it; the next success rules them out.
    doubtful: Vec<Pairs>,
    /// Whether the handle has reported that it refuses writes.
    refuses: bool,
    backups: Option<Vec<u64>>,
    dictionaries: Vec<Vec<Option<u64>>>,
}

/// Checks the answers and the file's contents against what is allowed.
fn judge(scenario: &str, ran: &Ran, case: Option<&Case>) -> Result<(), String> {
    let mut known = Known {
        durability: durability(scenario),
        possible: vec![Pairs::new()],
        unsafe_yet: Vec::new(),
        doubtful: Vec::new(),
        refuses: false,
        backups: None,
        dictionaries: vec![vec![None]; DICTIONARIES.len()],
    };
    let steps = steps(scenario);
    for (number, (step, answer)) in steps.iter().zip(&ran.answers).enumerate() {
        let at_step = |why: String| format!("step {number}, {}, answered {answer:?}: {why}", brief(step));
        known.take(step, answer).map_err(at_step)?;
    }
    if ran.answers.len() < steps.len() && !ran.is_killed {
        return Err(format!("{} of {} steps were answered", ran.answers.len(), steps.len()));
    }
    if let Some(step) = steps.get(ran.answers.len()) {
        known.take_error(step, false); // it was killed within it
    }
    let errors = ran.answers.iter().filter_map(|a| a.as_ref().err());
    if let Some(case) = case {
        let is_sync = [libc::SYS_fsync, libc::SYS_fdatasync].contains(&case.target.call);
        let has_failed = case.target.fault != Fault::Error(Errno::EINTR);
        if is_sync && has_failed && ran.is_met && !ran.is_killed && errors.count() == 0 {
            return Err("a sync failed and no step says so".into());
        }
    } else if let Some((kind, why)) = errors.into_iter().next() {
        return Err(format!("{kind}: {why}"));
    }
    known.compare(ran.folder.path(), scenario)
}

fn brief(step: &Step) -> String {
    format!("{step:?}").chars().take(40).collect()
}

impl Known {
    fn take(&mut self, step: &Step, answer: &Answer) -> Result<(), String> {
        if let Err((kind, _)) = answer {
            if kind == "Wrong" {
                return Err("a wrong content".into());
            }
            self.take_error(step, kind == &format!("{:?}", ErrorKind::Poisoned));
            return Ok(());
        }
        match step {
            Step::Open => {
                // The previous handle may have ended in any way.
                self.refuses = false;
                let others: Vec<Pairs> = self.unsafe_yet.drain(..).chain(self.doubtful.drain(..)).collect();
                self.possible.extend(others);
            }
            Step::Change(_) => {
                let before = self.possible.clone();
                self.doubtful.clear();
                self.possible.iter_mut().for_each(|pairs| step.apply(pairs));
                if self.durability == Durability::None {
                    self.unsafe_yet.extend(before)
                } else {
                    self.unsafe_yet.clear()
                }
            }
            Step::Sync | Step::Checkpoint | Step::Compact | Step::Close => {
                self.doubtful.clear();
                self.unsafe_yet.clear();
            }
            Step::Backup | Step::Update => {
                self.unsafe_yet.clear();
                self.backups = Some(self.possible.iter().map(digest).collect());
            }
            Step::Read => {
                let found = *answer.as_ref().expect("an error was taken");
                if !self.possible.iter().chain(&self.doubtful).any(|pairs| digest(pairs) == found) {
                    return Err("it reads what no step put there".into());
                }
                // A handle that refuses writes shows changes that may not have reached the disk.
                if !self.refuses {
                    self.possible.append(&mut self.doubtful);
                    self.possible.retain(|pairs| digest(pairs) == found);
                }
            }
            Step::Publish(name, version) => self.dictionaries[*name] = vec![Some(dictionary_digest(*version))],
            Step::Words(name) => {
                let found = *answer.as_ref().expect("an error was taken");
                self.dictionaries[*name].retain(|digest| *digest == Some(found));
                if self.dictionaries[*name].is_empty() {
                    return Err("it reads what no step put there".into());
                }
            }
        }
        Ok(())
    }

    fn take_error(&mut self, step: &Step, is_refused: bool) {
        match step {
            // The first refused step may have made its change and then met the failure of another thread.
            Step::Change(_) if !self.refuses => {
                let mut changed = self.possible.clone();
                changed.iter_mut().for_each(|pairs| step.apply(pairs));
                self.doubtful.extend(changed);
            }
            Step::Publish(name, version) => self.dictionaries[*name].push(Some(dictionary_digest(*version))),
            // The sync of its header may have failed.
            Step::Update => {
                self.backups.iter_mut().for_each(|backups| backups.extend(self.possible.iter().map(digest)));
            }
            _ => {}
        }
        self.refuses |= is_refused;
    }

    /// Opens the files with no call failing, and checks their contents.
    fn compare(&self, folder: &Path, scenario: &str) -> Result<(), String> {
        if scenario == "dictionaries" {
            for (name, file) in DICTIONARIES.iter().enumerate() {
                let path = folder.join(file);
                let found = match Dictionary::open(&path) {
                    Ok(dictionary) => Some(digest(&words(&dictionary)?)),
                    Err(_) if self.dictionaries[name].contains(&None) => None,
                    Err(e) => return Err(format!("at last: {e}")),
                };
                if !self.dictionaries[name].contains(&found) {
                    return Err(format!("at last: {file} is not what was published"));
                }
            }
            return Ok(());
        }
        let table = TableOptions::new().open(folder.join(TABLE)).map_err(|e| format!("at last: {e}"))?;
        let found = contents(&table).map_err(|why| format!("at last: {why}"))?;
        let legal = self.possible.iter().chain(&self.unsafe_yet).chain(&self.doubtful);
        if !legal.into_iter().any(|pairs| *pairs == found) {
            return Err(format!("at the end: {} pairs, a content that is not permitted", found.len()));
        }
        let Some(digests) = &self.backups else { return Ok(()) };
        let backup =
            TableOptions::new().read_only(true).open(folder.join(BACKUP)).map_err(|e| format!("the backup: {e}"))?;
        let found = contents(&backup).map_err(|why| format!("the backup: {why}"))?;
        if digests.contains(&digest(&found)) { Ok(()) } else { Err("the backup is of another moment".into()) }
    }
}
