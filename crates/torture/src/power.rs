//! `make power`: runs the workload on each file system, cuts the power at many moments, mounts the file system again
//! and checks it; some of these recoveries are interrupted as well.
//!
//! ```text
//! record a workload (workload.rs) -> choose a moment and a loss (crash.rs) -> mount, look, go on (look.rs), recorded
//!                                                 -> choose a moment in that -> mount, look, go on
//! ```
//!
//! The disk and history of each failure are kept in their own directory; `again FOLDER` repeats it.

use crate::crash::{LOSSES, Loss, image_after, moment};
use crate::disk::{Disk, Image, Recording};
use crate::mount::{FILE_SYSTEMS, FileSystem, Mounted};
use splitpoint::Durability;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A child that takes longer counts as hanging: a hundred times what it takes, as the machine may have other work.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Options {
    pub seconds: u64,
    pub seed: u64,
    pub file_systems: Vec<FileSystem>,
    /// The directory that keeps failures.
    pub kept: PathBuf,
}

/// Crashes per recorded workload, and per recovery.
const CRASHES_A_WORKLOAD: usize = 30;
const CRASHES_A_RECOVERY: usize = 3;
/// One recovery in this many is crashed again.
const CRASHED_AGAIN: usize = 3;
const OPERATIONS: usize = 160;
/// Failures kept per file system: each takes several megabytes.
const KEPT_MAX: u64 = 5;

#[derive(Default)]
struct Counts {
    workloads: u64,
    events: u64,
    flushes: u64,
    crashes: BTreeMap<String, u64>,
    again: u64,
    not_mounted: u64,
    failures: u64,
}

impl Counts {
    fn crashes(&self) -> u64 {
        self.crashes.values().sum()
    }
}

pub fn run(options: &Options) -> Result<bool, String> {
    let until = Instant::now() + Duration::from_secs(options.seconds);
    say!("seed {}, {} seconds", options.seed, options.seconds);
    let mut results = Vec::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for file_system in &options.file_systems {
            if let Some(why) = file_system.lacks() {
                say!("SKIPPED: {file_system}, as {why}");
                continue;
            }
            running.push((
                file_system,
                scope.spawn(|| {
                    let bench = Bench::new(*file_system, options)?;
                    let counts = bench.run_until(until);
                    if counts.is_err() {
                        // The kernel would wait for what is still mounted; the mounts end with the process.
                        std::mem::forget(bench);
                    }
                    counts
                }),
            ));
        }
        for (file_system, thread) in running {
            results.push((file_system, thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))));
        }
    });
    say!(
        "\n{:<6} {:>9} {:>7} {:>7} {:>7} {:>6} {:>11} {:>8}  lost in the crashes",
        "",
        "workloads",
        "events",
        "flushes",
        "crashes",
        "again",
        "not mounted",
        "failures"
    );
    let mut is_well = true;
    for (file_system, result) in &results {
        match result {
            Ok(counts) => {
                let Counts { workloads, events, flushes, again, not_mounted, failures, .. } = counts;
                let (name, crashes) = (file_system.to_string(), counts.crashes());
                let lost: Vec<String> = counts.crashes.iter().map(|(loss, n)| format!("{loss} {n}")).collect();
                say!(
                    "{name:<6} {workloads:>9} {events:>7} {flushes:>7} {crashes:>7} {again:>6} {not_mounted:>11} \
                     {failures:>8}  {}",
                    lost.join(", ")
                );
                is_well &= *failures == 0;
                if crashes == 0 {
                    say!("{file_system}: not one crash; give it more seconds");
                    is_well = false;
                }
            }
            Err(why) => {
                say!("{file_system}: {why}");
                is_well = false;
            }
        }
    }
    Ok(is_well)
}

/// Repeats a kept failure.
pub fn again(folder: &Path) -> Result<bool, String> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map_err(|e| format!("{name}: {e}"));
    let case = read("case")?;
    let mut lines = case.lines();
    let name = lines.next().unwrap_or_default();
    let file_system = FileSystem::named(name).ok_or(format!("{}: no file system {name}", folder.display()))?;
    let options =
        Options { seconds: 0, seed: 0, file_systems: Vec::new(), kept: std::env::temp_dir().join("torture-again") };
    let bench = Bench::new(file_system, &options)?;
    let image = Image::load(&folder.join("disk")).map_err(|e| e.to_string())?;
    let arguments: Vec<String> = lines.map(|line| line.replace("@", &folder.display().to_string())).collect();
    match bench.look(image, &arguments) {
        Ok(found) => say!("passed: found {found:?}"),
        Err(failure) => {
            say!("{failure}");
            return Ok(false);
        }
    }
    Ok(true)
}

/// The reason why a check failed.
enum Failure {
    /// The file system does not mount: not the library's fault.
    NotMounted(String),
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::NotMounted(why) | Failure::Wrong(why)) = self;
        f.write_str(why)
    }
}

/// A file system on a recording disk, for workloads and checks.
struct Bench<'o> {
    file_system: FileSystem,
    options: &'o Options,
    /// The disk with an empty file system.
    empty: Image,
    disk: Disk,
    /// Contains mount points, counter and histories.
    folder: tempfile::TempDir,
}

impl<'o> Bench<'o> {
    fn new(file_system: FileSystem, options: &'o Options) -> Result<Bench<'o>, String> {
        let failed = |e: std::io::Error| format!("{file_system}: {e}");
        let folder = tempfile::Builder::new().prefix("torture-").tempdir().map_err(failed)?;
        for name in ["fuse", "mounted"] {
            std::fs::create_dir(folder.path().join(name)).map_err(failed)?;
        }
        let counter = folder.path().join("counter");
        let disk = Disk::mount(&folder.path().join("fuse"), &counter, file_system.disk_bytes()).map_err(failed)?;
        file_system.make(&disk)?;
        let empty = disk.image();
        let bench = Bench { file_system, options, empty, disk, folder };
        Ok(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mount(&self, image: Image) -> Result<Mounted, String> {
        self.disk.load(image).map_err(|e| e.to_string())?;
        Mounted::mount(self.file_system, &self.disk, &self.path("mounted"))
    }

    /// Synced data must survive the loss of all unflushed writes, and unsynced data must not: otherwise this test
    /// detects nothing.
    fn sees_flushes(&self) -> Result<(), String> {
        let io = |e: std::io::Error| e.to_string();
        let mounted = self.mount(self.empty.clone())?;
        let (synced, unsynced) = (mounted.folder.join("synced"), mounted.folder.join("unsynced"));
        let file = std::fs::File::create(&synced).map_err(io)?;
        std::io::Write::write_all(&mut &file, b"there").map_err(io)?;
        file.sync_all().map_err(io)?;
        drop(file);
        std::fs::File::open(&mounted.folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        std::fs::write(&unsynced, b"perhaps").map_err(io)?;
        let recording = self.disk.recording();
        mounted.unmount()?;
        let mut rng = fastrand::Rng::with_seed(1);
        let image = image_after(&recording, recording.events.len(), Loss::Unflushed, &mut rng);
        let mounted = self.mount(image)?;
        let is_kept = std::fs::read(&synced).is_ok_and(|bytes| bytes == b"there");
        let is_lost = std::fs::read(&unsynced).map_or(true, |bytes| bytes != b"perhaps");
        mounted.unmount()?;
        match (is_kept, is_lost) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("{}: a synced file is lost: flushes do not reach the disk", self.file_system)),
            _ => Err(format!("{}: an unsynced file is kept: the loss has no effect", self.file_system)),
        }
    }

    fn run_until(&self, until: Instant) -> Result<Counts, String> {
        self.sees_flushes()?;
        let mut counts = Counts::default();
        let mut round = 0;
        while Instant::now() < until {
            let seed = self.options.seed + round;
            let recording = self.record(seed)?;
            counts.workloads += 1;
            counts.events += recording.events.len() as u64;
            counts.flushes += recording.events.iter().filter(|e| matches!(e, crate::disk::Event::Flush)).count() as u64;
            for case in 0..CRASHES_A_WORKLOAD {
                if Instant::now() >= until {
                    break;
                }
                self.crash(&recording, seed, case, &mut counts)?;
            }
            round += 1;
        }
        Ok(counts)
    }

    /// Records the workload of a seed, which also determines the durability.
    fn record(&self, seed: u64) -> Result<Recording, String> {
        let mounted = self.mount(self.empty.clone())?;
        let durability = [Durability::Sync, Durability::Os, Durability::None][(seed % 3) as usize];
        let (history, counter) = (self.path("history"), self.path("counter"));
        let mut work = this_program()?;
        work.arg("work").arg(&mounted.folder).arg(&counter).arg(&history);
        work.args([seed.to_string(), format!("{durability:?}"), OPERATIONS.to_string()]);
        let worked = finish(work);
        let recording = self.disk.recording();
        mounted.unmount()?;
        worked.map_err(|why| format!("the workload of seed {seed}, {durability:?}, with no crash at all: {why}"))?;
        Ok(recording)
    }

    /// Mounts an image and runs a child that checks it.
    fn look(&self, image: Image, arguments: &[String]) -> Result<Vec<usize>, Failure> {
        let mounted = self.mount(image).map_err(Failure::NotMounted)?;
        let mut look = this_program().map_err(Failure::Wrong)?;
        look.arg("look").arg(&mounted.folder).arg(self.path("counter")).args(arguments);
        let looked = finish(look).map_err(Failure::Wrong);
        mounted.unmount().map_err(Failure::Wrong)?;
        numbers(&looked?).ok_or_else(|| Failure::Wrong("the child said nothing".into()))
    }

    fn crash(&self, recording: &Recording, seed: u64, case: usize, counts: &mut Counts) -> Result<(), String> {
        let mut rng = fastrand::Rng::with_seed(seed << 20 | case as u64);
        let loss = LOSSES[case % LOSSES.len()];
        let at = moment(recording, &mut rng);
        let image = image_after(recording, at, loss, &mut rng);
        *counts.crashes.entry(format!("{loss:?}")).or_default() += 1;
        let mut arguments = vec![self.path("history").display().to_string(), at.to_string()];
        let name = format!("{}-{seed}-{case}", self.file_system);
        let what = format!("{} seed {seed}, {loss:?} at event {at} of {}", self.file_system, recording.events.len());
        let further = self.path("further").display().to_string();
        let looked = self.look(image.clone(), &[&arguments[..], &["-".into(), further.clone()]].concat());
        let found = match looked {
            Ok(found) => found,
            Err(failure) => return self.failed(counts, failure, &what, &name, &image, &arguments),
        };
        if !case.is_multiple_of(CRASHED_AGAIN) {
            return Ok(());
        }
        let recovery = self.disk.recording();
        arguments.extend([further, String::new(), join(&found)]);
        for number in 0..CRASHES_A_RECOVERY {
            // The file system and the library recover in the first moments; the later ones are further operations.
            let end = if number == 0 { recovery.events.len() } else { recovery.events.len().div_ceil(3) };
            let beginning = Recording { base: recovery.base.clone(), events: recovery.events[..end].to_vec() };
            let (at, loss) = (moment(&beginning, &mut rng), LOSSES[rng.usize(..LOSSES.len())]);
            let image = image_after(&beginning, at, loss, &mut rng);
            arguments[3] = at.to_string();
            counts.again += 1;
            if let Err(failure) = self.look(image.clone(), &arguments) {
                let what = format!("{what}, found {found:?}, then {loss:?} at event {at} of its recovery");
                let name = format!("{name}-{number}");
                self.failed(counts, failure, &what, &name, &image, &arguments)?;
            }
        }
        Ok(())
    }

    /// Reports a failure and keeps its files.
    fn failed(
        &self,
        counts: &mut Counts,
        failure: Failure,
        what: &str,
        name: &str,
        image: &Image,
        arguments: &[String],
    ) -> Result<(), String> {
        let folder = self.options.kept.join(name);
        let kept = || -> std::io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            image.save(&folder.join("disk"))?;
            let mut case = format!("{}\n", self.file_system);
            for argument in arguments {
                match Path::new(argument).file_name().filter(|_| argument.contains('/')) {
                    Some(file) => {
                        std::fs::copy(argument, folder.join(file))?;
                        case += &format!("@/{}\n", file.to_string_lossy());
                    }
                    None => case += &format!("{argument}\n"),
                }
            }
            std::fs::write(folder.join("case"), case)
        };
        match failure {
            Failure::NotMounted(_) => counts.not_mounted += 1,
            Failure::Wrong(_) => counts.failures += 1,
        }
        say!("FAILED: {what}: {failure}");
        if counts.not_mounted + counts.failures <= KEPT_MAX {
            kept().map_err(|e| format!("{}: {e}", folder.display()))?;
            say!("  once more: make power REPLAY={}", folder.display());
        }
        Ok(())
    }
}

fn join(found: &[usize]) -> String {
    found.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

pub fn numbers(joined: &str) -> Option<Vec<usize>> {
    joined.trim().split(',').map(|n| n.parse().ok()).collect()
}

fn this_program() -> Result<Command, String> {
    Ok(Command::new(std::env::current_exe().map_err(|e| e.to_string())?))
}

/// Runs a child to its end and returns its output; an error if it fails, dies or hangs.
fn finish(mut command: Command) -> Result<String, String> {
    let text = |e: std::io::Error| e.to_string();
    let (said, complained) = (tempfile::tempfile().map_err(text)?, tempfile::tempfile().map_err(text)?);
    command.stdin(Stdio::null()).stdout(said.try_clone().map_err(text)?).stderr(complained.try_clone().map_err(text)?);
    let mut child = command.spawn().map_err(text)?;
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(text)? {
            Some(status) => break status,
            None if Instant::now() > until => {
                child.kill().and_then(|()| child.wait()).map_err(text)?;
                return Err(format!("still at it after {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.success() {
        return read_all(said).map_err(text);
    }
    let complaint = read_all(complained).map_err(text)?;
    Err(format!("{}{status}", if complaint.is_empty() { String::new() } else { format!("{}: ", complaint.trim()) }))
}

fn read_all(mut file: std::fs::File) -> std::io::Result<String> {
    use std::io::{Read, Seek};
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Parses a list of file systems; an empty one means all.
pub fn file_systems(names: &str) -> Result<Vec<FileSystem>, String> {
    if names.is_empty() {
        return Ok(FILE_SYSTEMS.to_vec());
    }
    let named = |name: &str| FileSystem::named(name).ok_or(format!("{name}: expected ext4, xfs or btrfs"));
    names.split(',').map(named).collect()
}
